// A trace file read back: what `pipec show --trace` puts beside the prediction. Reads what follows Trace.h, whoever
// wrote it. Other events (metadata, arrows, counters, other tools' slices) are passed over; a damaged instruction is an
// error.
#pragma once

#include "runtime/trace/Trace.h"

#include <string_view>
#include <vector>

namespace pipec::trace {

/// The instructions of a trace (JSON text), in the file's order; queue, peer and held are not in it and stay 0, -1 and
/// 0. A damaged text or instruction is an error with its line and column, and so is a text without any.
Status fromJson(std::string_view json, std::vector<Event> &events);

/// The longest file that read() takes: all of it is in memory at once, and up to three times as much of its
/// instructions.
inline constexpr int64_t kReadBytes = int64_t(1) << 30;

/// The same for a file, whose name then stands before the message.
Status read(const std::string &path, std::vector<Event> &events);

} // namespace pipec::trace
