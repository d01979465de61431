// Parses one value by the type and the range of its key.
#pragma once

#include "compiler/spec/Keys.h"
#include "compiler/spec/SpecUnits.h"
#include "compiler/spec/Tree.h"

namespace pipec::spec {

/// The value, or what was expected instead.
Quantity parseScalar(const Key &key, const Node &node);
/// The index of one of the key's choices.
Quantity parseChoice(const Key &key, const Node &node);

} // namespace pipec::spec
