// A trace file read back: what `pipec show --trace` puts beside the prediction. Reads what follows Trace.h, whoever
// wrote it. Other events (metadata, arrows, counters, other tools' slices) are passed over; a damaged instruction or
// decision is an error.
#pragma once

#include "runtime/trace/Trace.h"

#include <string_view>
#include <vector>

namespace pipec::trace {

/// The instructions and decisions of a trace (JSON text), in the file's order; queue, peer and held are not in it and
/// stay 0, -1 and 0. A damaged text, instruction or decision is an error with its line and column, and a text without
/// any instruction is one.
Status fromJson(std::string_view json, Run &run);

/// The longest file that read() takes: all of it is in memory at once, and up to three times as much of its
/// instructions.
inline constexpr int64_t kReadBytes = int64_t(1) << 30;

/// The same for a file, whose name then stands before the message.
Status read(const std::string &path, Run &run);

} // namespace pipec::trace
