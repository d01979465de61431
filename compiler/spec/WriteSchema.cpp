// Prints the JSON Schema; `ninja update-schema` puts it into specs/pipec.schema.json.
#include "compiler/spec/Schema.h"

#include <cstdio>

int main() { return std::fputs(pipec::spec::jsonSchema().c_str(), stdout) < 0; }
