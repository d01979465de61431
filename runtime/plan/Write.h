// Writes a plan: from a Plan to a file's bytes with magic, version, checksum and one FlatBuffer (design, section 5).
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace pipec::plan {

/// The same plan always gives the same bytes. Empty if they would pass limits::kPlanBytes.
std::vector<uint8_t> encode(const Plan &plan);

/// Writes a file atomically: a temporary file beside it, then rename. On failure nothing stays behind. What is no
/// regular file (a pipe, /dev/stdout) is written in place.
Status writeFile(const std::string &path, std::span<const uint8_t> bytes);

/// Writes a file in place, neither atomically nor durably. Returns errno, or 0.
int writeInPlace(const std::string &path, std::span<const uint8_t> bytes);

/// The error that writeFile would return at once, to check before long work. Ok for an empty name.
Status canWrite(const std::string &path);

/// Code::Usage if writing `output` would destroy one of `inputs`. Empty names do not count. `option` is the option that
/// names another output.
Status keepsInputs(const std::string &output, std::initializer_list<std::string> inputs, const std::string &option);

} // namespace pipec::plan
