#include "compiler/pictures/Overlay.h"

#include "compiler/pictures/Decisions.h"
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace pipec::emit {

using plan::Kind;
using trace::Event;

namespace {

/// An instruction's key: each operation about a microbatch of a stage happens once on a rank in a step.
RunStep::Key keyOf(int32_t rank, Kind kind, plan::Payload of, int32_t stage, int64_t microbatch,
                   const trace::Scope &scope) {
  static_assert(limits::kRanks <= 1 << 16 && limits::kStages <= 1 << 20 && limits::kMicrobatches <= 1 << 20);
  static_assert(plan::kKinds <= 1 << 5 && uint64_t(plan::Payload::Shared) < 1 << 3);
  return {uint64_t(rank) << 48 | uint64_t(kind) << 43 | uint64_t(of) << 40 | uint64_t(stage) << 20 |
              (uint64_t(microbatch) & 0xfffff),
          scope};
}

RunStep::Key keyOf(const Event &e) { return keyOf(e.rank, e.kind, e.of, e.stage, e.microbatch, e.scope); }

/// Where each instruction of a variant that is no transfer stands in its queue.
struct Places {
  struct Place {
    uint32_t queue = 0;
    int64_t index = 0;
  };
  std::unordered_map<RunStep::Key, Place, RunStep::Hash> byKey;

  explicit Places(const plan::Variant &variant) {
    for (size_t process = 0; process != variant.places(); ++process) {
      const plan::Program &program = variant.programOf(process);
      std::vector<int64_t> next(program.queues.size(), 0);
      for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
        const plan::Step at = cursor.at();
        const plan::Operation &o = *at.operation;
        if (plan::isBusy(o.kind) || plan::isCollective(o.kind))
          byKey[keyOf(int32_t(process), o.kind, o.of, o.stage, at.microbatch(), trace::scopeOf(o))] = {
              at.instruction->queue, next[at.instruction->queue]++};
      }
    }
  }
};

std::string nameOf(const Event &e) {
  plan::Operation operation;
  operation.kind = e.kind;
  operation.stage = e.stage;
  return plan::describe(e.rank, operation, e.microbatch);
}

/// The first of a step's instructions that the variant would not run there; null: the variant runs them all, in each
/// queue's order.
const Event *firstOther(const std::vector<const Event *> &events, const Places &places) {
  struct Item {
    int32_t rank;
    Places::Place place;
    const Event *event;
  };
  std::vector<Item> items;
  for (const Event *e : events) {
    const auto found = places.byKey.find(keyOf(*e));
    if (found == places.byKey.end())
      return e;
    items.push_back({e->rank, found->second, e});
  }
  std::sort(items.begin(), items.end(), [](const Item &a, const Item &b) {
    return std::tuple(a.rank, a.place.queue, a.event->start, a.place.index) <
           std::tuple(b.rank, b.place.queue, b.event->start, b.place.index);
  });
  for (size_t i = 0; i != items.size(); ++i) {
    const bool first = i == 0 || items[i - 1].rank != items[i].rank || items[i - 1].place.queue != items[i].place.queue;
    if (items[i].place.index != (first ? 0 : items[i - 1].place.index + 1))
      return items[i].event;
  }
  return nullptr;
}

} // namespace

size_t RunStep::Hash::operator()(const Key &key) const {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15u;
  return size_t((key.first + uint64_t(key.second.firstLayer) * kMix + uint64_t(key.second.begin)) * kMix >> 8);
}

const Event *RunStep::find(int32_t rank, const plan::Operation &o, int64_t microbatch) const {
  const auto found = events.find(keyOf(rank, o.kind, o.of, o.stage, microbatch, trace::scopeOf(o)));
  return found == events.end() ? nullptr : found->second;
}

/// Pieces in a row, so close that no instruction ran between them, by rank.
static Pieces joined(const trace::Run &run, size_t places) {
  std::vector<const Event *> pieces;
  for (const Event &piece : run.pieces)
    if (size_t(piece.rank) < places)
      pieces.push_back(&piece);
  std::ranges::sort(pieces, {}, &Event::start);
  Pieces all(places);
  for (const Event *piece : pieces) {
    auto &own = all[size_t(piece->rank)];
    if (!own.empty() && piece->start - own.back().second <= (piece->end - piece->start) / 4)
      own.back().second = std::max(own.back().second, piece->end);
    else
      own.emplace_back(piece->start, piece->end);
  }
  return all;
}

Status overlay(const plan::Plan &plan, const trace::Run &run, std::vector<RunStep> &steps) {
  std::vector<Places> places;
  for (const plan::Variant &variant : plan.variants)
    places.emplace_back(variant);
  std::map<int64_t, std::vector<const Event *>> byStep;
  for (const Event &e : run.events) {
    if (const int32_t places = plan.ranks() * plan.shards(); e.rank >= places)
      return Status::input(fmt::format("the trace is of another plan: it has a {} {}, the plan has {} {}",
                                       plan.shards() > 1 ? "process" : "rank", e.rank, places,
                                       plan.shards() > 1 ? "processes" : "ranks"));
    byStep[e.step].push_back(&e);
  }
  const StepDecisions decisions(run);
  steps.clear();
  for (const auto &[number, all] : byStep) {
    RunStep &step = steps.emplace_back();
    step.step = number;
    std::vector<const Event *> work;
    for (const Event *e : all) {
      if (!step.events.emplace(keyOf(*e), e).second)
        return Status::input(fmt::format("the trace has an instruction twice in step {}: {}", number, nameOf(*e)));
      if (plan::isTransfer(e->kind))
        continue;
      step.begin = work.empty() ? e->start : std::min(step.begin, e->start);
      step.end = work.empty() ? e->end : std::max(step.end, e->end);
      work.push_back(e);
    }
    step.decisions = decisions.of(number, step.begin);
    const Event *other = nullptr;
    for (size_t v = 0; v != places.size(); ++v) {
      other = firstOther(work, places[v]);
      if (!other) {
        step.variant = v;
        break;
      }
    }
    if (other)
      return Status::input(fmt::format("the trace is of another plan: in step {} {} is not what {} runs there", number,
                                       nameOf(*other), plan.variants.size() == 1 ? "the plan" : "any variant"));
  }
  const Pieces pieces = joined(run, plan.variants.front().places());
  for (RunStep &step : steps)
    for (const auto &ofRank : pieces) {
      auto &own = step.pieces.emplace_back();
      for (const auto &[from, to] : ofRank)
        if (from < step.end && to > step.begin)
          own.emplace_back(std::max(from, step.begin), std::min(to, step.end));
    }
  return {};
}

} // namespace pipec::emit
