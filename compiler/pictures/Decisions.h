// Decisions of an adaptive run in a picture of one of its steps: which of them it shows, and where they and their
// labels stand. Lengths are in whatever unit the drawing counts, columns or hundredths of a pixel.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/trace/Trace.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pipec::emit {

/// The decisions of a run by its steps. A step has those that fell into its time; what fell between two steps is the
/// first's, and what came before all of them the first step's, so that each is in a picture.
class StepDecisions {
public:
  explicit StepDecisions(const trace::Run &run);

  /// Those of a step, by time, which counts from `begin`.
  std::vector<trace::Decision> of(int64_t step, plan::Time begin) const;

private:
  struct Span {
    int32_t attempt;
    plan::Time begin, end;
  };
  std::map<int64_t, Span> steps;
  std::vector<trace::Decision> decisions; // by time
};

/// A line across all lanes: a decision, or several that stand in one place.
struct DecisionMark {
  int64_t at = 0;
  std::vector<std::string> texts; // all of each: "step 12: k=1 -> k=2 (now): 800 us a step"
  std::string label;              // as much of it as there is room for; maybe nothing
  int64_t from = 0;               // where the label begins
};

/// How a drawing measures.
struct DecisionRuler {
  std::function<int64_t(plan::Time)> place;
  std::function<int64_t(std::string_view)> width;
  int64_t first, last; // labels stay between them
  int64_t apart;       // marks that are less than that apart are one
  int64_t gap;         // between labels and marks
  bool whole = true;   // labels may say all
};

/// `decisions` by time.
std::vector<DecisionMark> decisionMarks(const std::vector<trace::Decision> &decisions, const DecisionRuler &ruler);

} // namespace pipec::emit
