// The fast evaluator: times and peaks of words in ideal mode (links never queue, buffers unlimited, W ordered). Its
// judge is the plan's simulator (runtime/simulate), which must find the same times in ideal mode and always the same
// peaks. A walk takes O(letters) and allocates nothing for a letter; the span takes as many walks as steps pass until
// ranks settle, usually one to three.
#pragma once

#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"

#include <vector>

namespace pipec::schedule {

struct Evaluation {
  bool complete = false;                 // false: the words stop in a cycle, or tooLong; all else is then void
  bool tooLong = false;                  // a step is longer than limits::kTime
  Time makespan = 0;                     // first start to last end over all ranks, optimizer included
  Time span = 0;                         // time per step when steps follow each other (largest cycle mean), rounded up
  std::vector<Bytes> peak;               // a rank each: most of live activations and contexts
  std::vector<Time> busy;                // a rank each: F, B, W and optimizer
  std::vector<std::vector<Time>> starts; // of each letter, when asked for
};

struct EvaluateOptions {
  bool withSpan = true;
  bool withStarts = false;
};

/// The most bytes of activations and contexts that a rank holds at once while it runs its word; where Bytes cannot hold
/// the sum, its largest value.
Bytes peakOf(const Problem &problem, const Word &word);

/// Needs check(problem) to have passed, and words that keep all that verify demands, except that they may form a cycle,
/// which is found here too.
Evaluation evaluate(const Problem &problem, const Words &words, const EvaluateOptions &options = {});

/// The objective's time of words that verify accepts.
Time timeOf(const Problem &problem, const Words &words, Objective objective);

} // namespace pipec::schedule
