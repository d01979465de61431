// The trace of a run, as the command line names it: one file, or one per process.
#pragma once

#include "runtime/plan/Status.h"
#include "runtime/simulate/Recording.h"
#include "runtime/trace/Trace.h"

#include <string>
#include <vector>

namespace pipec {

/// The files that a pattern with *, ? or [ matches, sorted by name. A name of an existing file, or without these
/// characters, means that file.
Status traceFiles(const std::string &name, std::vector<std::string> &files);

/// The contents of all files that a name means. It is an error if a rank has events in two files.
Status readTraces(const std::string &name, trace::Run &run);

/// Keeps only the events of each rank's first replica, which stands for all `degree` replicas.
void keepFirstReplica(trace::Run &run, int32_t degree);

/// The ranks of a plan without any event in a run: "rank 2", "ranks 2 and 5"; empty: every rank has events.
std::string missingRanks(const std::vector<trace::Event> &events, const plan::Plan &plan);
/// An error that names the ranks without events, if there are any.
Status haveAllRanks(const std::vector<trace::Event> &events, const plan::Plan &plan);

/// Fills a recording with a step of a run of this variant; `step` < 0: the last complete step.
Status replay(const plan::Variant &variant, const std::vector<trace::Event> &events, int64_t step,
              simulate::Recording &recording);

} // namespace pipec
