// Libraries that were built for version 1 of pipec_stage.h. They run on the host as they did.
#pragma once

#include "runtime/stage/library/Library.h"

namespace pipec::runtime {

inline constexpr uint32_t kVersionOne = 1;

/// Makes the functions of such a library take what today's take.
void adaptVersionOne(Library &library);

} // namespace pipec::runtime
