// The files that a command line names. A command may read a file more than once: the beginning, to see what kind of
// file it is; the whole file; and in a search the whole file again for each trial. A file that cannot be read twice,
// such as a pipe or standard input (`-`), is read once and its bytes are kept.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace pipec {

/// The name of standard input for reading and of standard output for writing.
inline constexpr std::string_view kStandard = "-";
/// The name of an input file in messages.
inline std::string nameOf(const std::string &path) { return path == kStandard ? "<stdin>" : path; }

/// Whether the bytes under this name are kept already, generated or read.
bool isKept(const std::string &path);

/// The bytes of a file that cannot be read twice: all bytes of a plan; of other files at most one more than an order
/// file may have. Null for a file that can be read twice, and for what is no file.
struct Kept {
  Status status;
  std::vector<uint8_t> bytes;
};
const Kept *keptOf(const std::string &path);

/// Keeps a text under a name, as if it had been read.
void keep(const std::string &name, const std::string &text);

/// The kind of a file, by its first bytes or by the suffix .csv. Unknown: the file cannot be read or is of none of
/// these kinds; its reader then reports what is wrong.
enum class FileKind : uint8_t { Unknown, Spec, Plan, Order };
FileKind kindOf(const std::string &path);
inline bool isPlan(const std::string &path) { return kindOf(path) == FileKind::Plan; }

/// An error if the file is known to be of another kind than those expected ("a spec or a plan"). The message says what
/// the file is, and which command takes it.
Status expectKind(const std::string &path, std::string_view expected, std::initializer_list<FileKind> kinds);

/// The message of a Status without the file's name at its beginning.
std::string withoutName(const std::string &message, const std::string &path);

/// Like plan::keepsInputs, for -o; standard output overwrites nothing.
Status keepsInputs(const std::string &output, std::initializer_list<std::string> inputs);

/// Like plan::readFile, also for kept files.
Status readPlan(const std::string &path, std::vector<uint8_t> &bytes);

/// Like plan::readBytes, also for kept files.
Status readBytes(const std::string &path, int64_t most, std::vector<uint8_t> &bytes);

} // namespace pipec
