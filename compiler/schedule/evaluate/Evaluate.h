// The fast evaluator: times and peak memory of words in ideal mode (links never queue, buffers unlimited, W ordered).
// The plan's simulator (runtime/simulate) checks the evaluator: it must find the same times in ideal mode, and the same
// peaks always. A walk over the words takes O(letters) and allocates nothing per letter. The span takes as many walks
// as steps pass until the ranks settle, usually one to three.
#pragma once

#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"

#include <vector>

namespace pipec::schedule {

struct Evaluation {
  bool complete = false;                 // false: the words deadlock, or tooLong; all other fields are then invalid
  bool tooLong = false;                  // a step is longer than limits::kTime
  Time makespan = 0;                     // first start to last end over all ranks, optimizer included
  Time span = 0;                         // time per step when steps follow each other (largest cycle mean), rounded up
  std::vector<Bytes> peak;               // by rank: peak bytes of activations and contexts
  std::vector<Time> busy;                // by rank: time of F, B, W and optimizer
  std::vector<std::vector<Time>> starts; // by rank and letter, if withStarts
};

struct EvaluateOptions {
  bool withSpan = true;
  bool withStarts = false;
};

/// The peak bytes of activations and contexts that a rank holds while it runs its word, at most the largest Bytes.
Bytes peakOf(const Problem &problem, const Word &word);

/// Needs check(problem) to have passed. The words must satisfy verify, except that they may deadlock, which the
/// evaluator detects.
Evaluation evaluate(const Problem &problem, const Words &words, const EvaluateOptions &options = {});

/// The objective's time of words that pass verify.
Time timeOf(const Problem &problem, const Words &words, Objective objective);

} // namespace pipec::schedule
