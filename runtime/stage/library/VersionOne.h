// Support of libraries built for version 1 of pipec_stage.h, which run on the host as before.
#pragma once

#include "runtime/stage/library/Library.h"

namespace pipec::runtime {

inline constexpr uint32_t kVersionOne = 1;

/// Wraps the functions of such a library so that they take today's arguments.
void adaptVersionOne(Library &library);

} // namespace pipec::runtime
