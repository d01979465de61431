// The JSON Schema of a spec, for editors; specs/pipec.schema.json is this text.
#pragma once

#include <string>

namespace pipec::spec {

std::string jsonSchema();

} // namespace pipec::spec
