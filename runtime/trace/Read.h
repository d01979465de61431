// Reads a trace file, for `pipec show --trace` to draw beside the prediction. Reads any file in the format of Trace.h.
// Other events (metadata, arrows, counters, other tools' slices) are skipped; a damaged instruction or decision is an
// error.
#pragma once

#include "runtime/trace/Trace.h"

#include <string_view>
#include <vector>

namespace pipec::trace {

/// Reads the instructions and decisions of a trace (JSON text), in the file's order. Queue, peer and bytes held are not
/// in a trace and are 0, -1 and 0. A damaged text, instruction or decision is an error with line and column; so is a
/// text without any instruction.
Status fromJson(std::string_view json, Run &run);

/// The longest file that read() takes, in bytes. All of it is in memory at once, with up to three times as many bytes
/// for its instructions.
inline constexpr int64_t kReadBytes = int64_t(1) << 30;

/// The same for a file. Its name is put before the message.
Status read(const std::string &path, Run &run);

} // namespace pipec::trace
