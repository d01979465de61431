// The trace of a run as the command line names it: one file, or one of each process.
#pragma once

#include "runtime/plan/Status.h"
#include "runtime/simulate/Recording.h"
#include "runtime/trace/Trace.h"

#include <string>
#include <vector>

namespace pipec {

/// The files that a name with *, ? or [ stands for, by name; of any other, and of one that is there, that file.
Status traceFiles(const std::string &name, std::vector<std::string> &files);

/// What all files hold that a name stands for. A rank whose events are in two of them is an error.
Status readTraces(const std::string &name, trace::Run &run);

/// Of a run of so many replicas, keeps the events of each rank's first one, which stands for all.
void keepFirstReplica(trace::Run &run, int32_t degree);

/// The ranks of a plan that a run has no event of: "rank 2", "ranks 2 and 5"; empty: there is none.
std::string missingRanks(const std::vector<trace::Event> &events, const plan::Plan &plan);
/// An error that names them.
Status haveAllRanks(const std::vector<trace::Event> &events, const plan::Plan &plan);

/// Fills a recording with a step of a run of this variant; `step` < 0: the last that is whole.
Status replay(const plan::Variant &variant, const std::vector<trace::Event> &events, int64_t step,
              simulate::Recording &recording);

} // namespace pipec
