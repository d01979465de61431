// The files that a command line names. A command may read one more than once: its beginning, to see what kind of file
// it is; all of it; and in a search all of it again for each trial. A file that cannot be read twice, such as a pipe,
// is read once and its bytes are kept.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec {

/// The bytes of a file that cannot be read twice: all of a plan, at most one more than `most` of another. Null for a
/// file that can be, and for what is no file.
struct Kept {
  Status status;
  std::vector<uint8_t> bytes;
};
const Kept *keptOf(const std::string &path, int64_t most);

/// The first bytes of a file, at most `count`; none if it cannot be read. `most`: as for keptOf.
std::string beginningOf(const std::string &path, size_t count, int64_t most);

/// Whether the file begins as a plan does. False for one that cannot be read: whoever then reads it as a spec says so.
bool isPlan(const std::string &path);

/// As plan::readFile.
Status readPlan(const std::string &path, std::vector<uint8_t> &bytes);

/// As plan::readBytes.
Status readBytes(const std::string &path, int64_t most, std::vector<uint8_t> &bytes);

} // namespace pipec
