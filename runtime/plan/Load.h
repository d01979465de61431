// Loads a plan: from a file's bytes to a checked Plan. A plan that loads can be run without further checks: a plan from
// a stranger may be refused, but never crashes, hangs or exhausts a rank. Loading does not promise that the plan
// computes what its author meant.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pipec::plan {

/// Reads header, checksum and tables, and checks every rule of rules/RULES.md that looks at one table alone
/// (Code::Input where the file is damaged or not a plan).
Status decode(std::span<const uint8_t> file, Plan &plan);

/// The rules that look at the whole: data order, matching of transfers, progress, slots, memory (Code::Check). Progress
/// is proved by the simulator, which the caller runs; see runtime/simulate.
Status verify(const Plan &plan);
Status verify(const Variant &variant);

/// Reads a plan's file, at most limits::kPlanBytes. If the file does not begin as a plan does, reads only its
/// beginning, so that no large file is read to its end only to be refused. A directory, a device or a socket is
/// refused.
Status readFile(const std::string &path, std::vector<uint8_t> &bytes);
/// The same, but a file that does not begin as a plan is read up to one byte over `most`, which is no error.
Status readFile(const std::string &path, int64_t most, std::vector<uint8_t> &bytes);
/// The same for standard input; `name` stands for it in messages.
Status readStandardInput(const std::string &name, int64_t most, std::vector<uint8_t> &bytes);
/// Reads any file, at most `most` bytes.
Status readBytes(const std::string &path, int64_t most, std::vector<uint8_t> &bytes);

/// The first word of a small file, as /proc has them; empty if there is none, or the file cannot be read.
std::string firstWordOf(const std::string &path);

/// The error of readBytes for a file longer than `most`.
Status tooLong(const std::string &path, int64_t most);

/// readFile, decode and verify.
Status load(const std::string &path, Plan &plan);

} // namespace pipec::plan
