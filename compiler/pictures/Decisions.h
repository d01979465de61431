// Decisions of an adaptive run in a picture of one of its steps: which decisions the picture shows, and where the
// decisions and their labels go. Lengths are in the unit of the drawing, columns or hundredths of a pixel.
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

/// The decisions of a run by step. A step has the decisions made during its time. A decision between two steps belongs
/// to the earlier step, and a decision before all steps to the first, so every decision is in a picture.
class StepDecisions {
public:
  explicit StepDecisions(const trace::Run &run);

  /// The decisions of a step, by time counted from `begin`.
  std::vector<trace::Decision> of(int64_t step, plan::Time begin) const;

private:
  struct Span {
    int32_t attempt;
    plan::Time begin, end;
  };
  std::map<int64_t, Span> steps;
  std::vector<trace::Decision> decisions; // by time
};

/// A line across all lanes for a decision, or for several at one place.
struct DecisionMark {
  int64_t at = 0;
  std::vector<std::string> texts; // full text of each decision: "step 12: k=1 -> k=2 (now): 800 us a step"
  std::string label;              // the part of the text that fits; may be empty
  int64_t from = 0;               // start of the label
};

/// The measures of a drawing.
struct DecisionRuler {
  std::function<int64_t(plan::Time)> place;
  std::function<int64_t(std::string_view)> width;
  int64_t first, last; // labels stay between them
  int64_t apart;       // marks closer than this are joined
  int64_t gap;         // between labels and marks
  bool whole = true;   // labels may contain the full text
};

/// `decisions` by time.
std::vector<DecisionMark> decisionMarks(const std::vector<trace::Decision> &decisions, const DecisionRuler &ruler);

} // namespace pipec::emit
