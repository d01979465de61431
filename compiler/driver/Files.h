// The files that a command line names. A command may look at one more than once: what kind of file it is, all of it,
// and a search all of it again for each trial; what cannot be read twice, as a pipe, is read once and kept.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec {

/// What a file that cannot be read twice holds: all of a plan, of another at most a byte over `most`. Null of one that
/// can, and of what is none.
struct Kept {
  Status status;
  std::vector<uint8_t> bytes;
};
const Kept *keptOf(const std::string &path, int64_t most);

/// What a file begins with, at most `count` bytes; nothing of one that cannot be read. `most`: as of keptOf.
std::string beginningOf(const std::string &path, size_t count, int64_t most);

/// Whether the file says that it is a plan; what cannot be read is left to whoever reads it as a spec.
bool isPlan(const std::string &path);

/// As plan::readFile.
Status readPlan(const std::string &path, std::vector<uint8_t> &bytes);

/// As plan::readBytes.
Status readBytes(const std::string &path, int64_t most, std::vector<uint8_t> &bytes);

} // namespace pipec
