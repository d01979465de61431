#include "compiler/pictures/Decisions.h"

#include "runtime/plan/Units.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace pipec::emit {

using plan::Time;
using trace::Decision;

namespace {

/// From all that there is to say to the least.
std::vector<std::string> wordings(const Decision &d) {
  const std::string to = units::escaped(d.to), change = fmt::format("{} -> {}", units::escaped(d.from), to);
  const std::string who = fmt::format("step {}: {} ({})", d.step, change, units::escaped(d.policy));
  return {fmt::format("{}: {}", who, units::escaped(d.why)), who, change, to};
}

} // namespace

StepDecisions::StepDecisions(const trace::Run &run) : decisions(run.decisions) {
  std::sort(decisions.begin(), decisions.end(),
            [](const Decision &a, const Decision &b) { return std::tie(a.at, a.step) < std::tie(b.at, b.step); });
  if (decisions.empty())
    return;
  for (const trace::Event &e : run.events) {
    if (plan::isTransfer(e.kind))
      continue;
    const auto [found, isNew] = steps.try_emplace(e.step, Span{e.attempt, e.start, e.end});
    Span &span = found->second;
    if (e.attempt > span.attempt)
      span = {e.attempt, e.start, e.end};
    else if (!isNew && e.attempt == span.attempt)
      span = {e.attempt, std::min(span.begin, e.start), std::max(span.end, e.end)};
  }
}

std::vector<Decision> StepDecisions::of(int64_t step, Time begin) const {
  const auto found = steps.find(step);
  if (found == steps.end())
    return {};
  const auto next = std::next(found);
  const Time first = found == steps.begin() ? std::numeric_limits<Time>::min() : found->second.begin;
  const Time last =
      next == steps.end() ? std::numeric_limits<Time>::max() : std::max(found->second.end, next->second.begin - 1);
  const auto from = std::lower_bound(decisions.begin(), decisions.end(), first,
                                     [](const Decision &each, Time at) { return each.at < at; });
  const auto to =
      std::upper_bound(from, decisions.end(), last, [](Time at, const Decision &each) { return at < each.at; });
  std::vector<Decision> shown(from, to);
  for (Decision &each : shown)
    each.at -= begin;
  return shown;
}

std::vector<DecisionMark> decisionMarks(const std::vector<Decision> &decisions, const DecisionRuler &ruler) {
  std::vector<DecisionMark> marks;
  std::vector<std::vector<std::string>> labels;
  for (const Decision &each : decisions) {
    const int64_t at = ruler.place(each.at);
    std::vector<std::string> words = wordings(each);
    if (marks.empty() || at - marks.back().at >= ruler.apart) {
      marks.push_back({at, {}, {}, 0});
      labels.emplace_back(words.begin() + (ruler.whole ? 0 : 1), words.end());
    } else {
      labels.back() = {fmt::format("{} decisions", marks.back().texts.size() + 1)};
    }
    marks.back().texts.push_back(std::move(words.front()));
  }
  int64_t taken = ruler.first; // up to the last label, or the last mark
  for (size_t i = 0; i != marks.size(); ++i) {
    DecisionMark &mark = marks[i];
    const int64_t until = i + 1 == marks.size() ? ruler.last : marks[i + 1].at - ruler.gap;
    int64_t end = mark.at;
    for (const std::string &label : labels[i]) {
      const int64_t width = ruler.width(label), left = mark.at - ruler.gap - width;
      if (mark.at + ruler.gap + width <= until)
        mark.from = mark.at + ruler.gap;
      else if (left >= taken)
        mark.from = left;
      else
        continue;
      mark.label = label;
      end = std::max(end, mark.from + width);
      break;
    }
    taken = end + ruler.gap;
  }
  return marks;
}

} // namespace pipec::emit
