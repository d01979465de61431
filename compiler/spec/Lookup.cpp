// Numbers resolved for the microbatch, and the one rule that costs and layers have in common.
#include "compiler/spec/Lookup.h"

#include "runtime/plan/Limits.h"

#include <fmt/format.h>

namespace pipec::spec {

const Value *Lookup::get(std::string_view path) const {
  auto at = values.find(path);
  return at != values.end() && at->second.valid ? &at->second : nullptr;
}

Mark Lookup::markOf(std::string_view path) const {
  auto at = values.find(path);
  return at == values.end() ? root : at->second.mark;
}

void Lookup::text(std::string_view path, Marked<std::string> &into) const {
  if (const Value *value = get(path))
    into = {value->node->text, value->mark};
}

void Lookup::link(const std::string &path, Link &into) const {
  if (const Value *latency = get(path + ".latency"))
    into.latency = latency->numbers[0].fixed;
  if (const Value *bandwidth = get(path + ".bandwidth"))
    into.bandwidth = bandwidth->numbers[0].fixed;
}

/// Plain, or fixed + per_sample × samples, or from a table, for which the size of a microbatch must be known.
int64_t Lookup::resolve(const std::string &path, const Number &number, const Spec &spec, int64_t most) const {
  if (!number.sampled)
    return number.fixed;
  if (!spec.microbatchSize) {
    if (!given("pipeline.microbatch_size") && !spec.isBurst()) // or else its error stands already
      errors.add(number.mark,
                 fmt::format("{}: {} need pipeline.batch and pipeline.microbatch_size, which are missing", path,
                             number.bySamples.empty() ? "fixed and per_sample" : "times by samples"));
    return 0;
  }
  if (!number.bySamples.empty())
    return schedule::timeOf(number.bySamples, spec.microbatchSize->value);
  __int128 value = number.fixed + static_cast<__int128>(number.perSample) * spec.microbatchSize->value;
  if (value > most) {
    errors.add(number.mark, fmt::format("{}: more than {} with {} samples in a microbatch", path,
                                        most == limits::kTime ? "10^18 ps" : "2^60 bytes", spec.microbatchSize->value));
    return 0;
  }
  return static_cast<int64_t>(value);
}

int64_t Lookup::ofMicrobatch(const std::string &path, const Spec &spec, int64_t most) const {
  const Value *value = get(path);
  return value ? resolve(path, value->numbers[0], spec, most) : 0;
}

BySample Lookup::sizeBySample(const std::string &path) const {
  const Value *value = get(path);
  return value ? BySample{value->numbers[0].fixed, value->numbers[0].perSample} : BySample{};
}

schedule::TimesBySamples Lookup::timesBySamples(const std::string &path) const {
  const Value *value = get(path);
  return value ? value->numbers[0].bySamples : schedule::TimesBySamples();
}

bool Lookup::perStage(const std::string &path, const Spec &spec, int64_t most, PerStage &into) const {
  const Value *value = get(path);
  if (!value)
    return false;
  into.mark = value->mark;
  into.list = value->node->isSequence();
  into.values.clear();
  into.marks.clear();
  for (const Number &number : value->numbers) {
    into.values.push_back(resolve(path, number, spec, most));
    into.marks.push_back(number.mark);
  }
  return true;
}

BackwardForm backwardForm(const Lookup &lookup, const std::string &path) {
  bool fused = lookup.given(path + ".backward");
  bool input = lookup.given(path + ".backward_input");
  bool weight = lookup.given(path + ".backward_weight");
  if (!fused && !input && !weight) {
    lookup.errors.add(lookup.markOf(path),
                      fmt::format("{}.backward is missing (or backward_input and backward_weight)", path));
  } else if (input != weight) {
    lookup.errors.add(lookup.markOf(path + (input ? ".backward_input" : ".backward_weight")),
                      fmt::format("{}.{} is missing: backward_input and backward_weight go together", path,
                                  input ? "backward_weight" : "backward_input"));
  } else {
    return fused && input ? BackwardForm::Both : fused ? BackwardForm::Fused : BackwardForm::Split;
  }
  return BackwardForm::None;
}

} // namespace pipec::spec
