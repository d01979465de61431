#include "runtime/launch/Adaptation.h"

#include "runtime/adapt/AdaptJson.h"
#include "runtime/device/Clock.h"
#include "runtime/launch/Prepare.h"
#include "runtime/plan/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

namespace pipec::runtime {

using nlohmann::ordered_json;

namespace {

constexpr std::pair<Adaptation::Mode, const char *> kModes[] = {{Adaptation::Mode::Off, "off"},
                                                                {Adaptation::Mode::Observe, "observe"},
                                                                {Adaptation::Mode::On, "on"},
                                                                {Adaptation::Mode::Profile, "profile"}};

using plan::milliseconds;

std::vector<const plan::Variant *> variantsOf(const plan::Plan &plan) {
  std::vector<const plan::Variant *> variants;
  for (const plan::Variant &each : plan.variants)
    variants.push_back(&each);
  return variants;
}

} // namespace

const char *Adaptation::nameOf(Mode mode) {
  return std::find_if(std::begin(kModes), std::end(kModes), [&](const auto &each) { return each.first == mode; })
      ->second;
}

std::optional<Adaptation::Mode> Adaptation::modeOf(const std::string &name) {
  for (const auto &[mode, text] : kModes)
    if (name == text)
      return mode;
  return std::nullopt;
}

Adaptation::Adaptation(asio::io_context &io, std::shared_ptr<const plan::Plan> running, Conductor &conductor,
                       const Swaps &swaps, Mode mode, std::function<void(const Encoded &)> broadcast)
    : io(io), plan(std::move(running)), conductor(conductor), swaps(swaps), broadcast(std::move(broadcast)),
      active(mode), timer(io), thinker(1), decider(variantsOf(*plan)), profiler(plan->variants.size()) {
  asio::post(thinker, [] { yieldToOthers(); });
  for (size_t v = 0; v != plan->variants.size(); ++v)
    candidates.push_back({int64_t(v), plan, v, swaps.nameOf(int64_t(v))});
  if (candidates.size() == 1)
    spdlog::warn("the plan has one variant: there is nothing to choose");
}

Adaptation::~Adaptation() { thinker.join(); }

void Adaptation::add(int64_t firstProgram, std::shared_ptr<const plan::Plan> added) {
  for (size_t v = 0; v != added->variants.size(); ++v) {
    const int64_t program = firstProgram + int64_t(v);
    candidates.push_back({program, added, v, swaps.nameOf(program)});
  }
  renewed = true;
  ++replans;
}

std::vector<size_t> Adaptation::kept() const {
  std::vector<size_t> all;
  for (size_t c = 0; c != candidates.size(); ++c)
    if (!candidates[c].gone)
      all.push_back(c);
  return all;
}

/// The candidates that can run on the present stages: those of the present cut.
std::vector<size_t> Adaptation::present() const {
  std::vector<size_t> all = kept();
  std::erase_if(all, [this](size_t c) {
    const Candidate &each = candidates[c];
    return !compareCut(each.plan->variants[each.variant], swaps.cut()).ok();
  });
  return all;
}

int64_t Adaptation::oldest() const {
  const std::vector<size_t> all = kept();
  if (all.size() <= kMostCandidates)
    return -1;
  for (const size_t c : all) {
    const Candidate &each = candidates[c];
    const int64_t first = each.program - int64_t(each.variant), current = conductor.current().program;
    const bool runs = current >= first && current < first + int64_t(each.plan->variants.size());
    if (each.plan != plan && !runs)
      return first;
  }
  return -1;
}

void Adaptation::remove(int64_t firstProgram) {
  for (Candidate &each : candidates)
    if (each.plan != plan && each.program - int64_t(each.variant) == firstProgram)
      renewed = each.gone = true;
}

Adaptation::Named Adaptation::plans() const {
  Named all;
  for (const size_t c : present())
    if (const Candidate &each = candidates[c]; each.variant == 0)
      all.emplace_back(each.name, each.plan);
  return all;
}

void Adaptation::recut(const Recut &recut) {
  renewed = true;
  const auto textOf = [](const std::vector<int32_t> &cut) { return fmt::format("cut {}", fmt::join(cut, "-")); };
  mark({(Clock::monotonic() - startedAt) * 1000, recut.step, textOf(recut.from), textOf(recut.to), "recut",
        fmt::format("for {}", recut.name)});
}

/// Records a decision for the trace. Sends the decision to all processes, since rank 0 may write the trace.
void Adaptation::mark(trace::Decision decision) {
  broadcast(messages::encode(
      messages::Decision{decision.at, decision.step, decision.from, decision.to, decision.policy, decision.why}));
  marks.push_back(std::move(decision));
}

plan::Time Adaptation::horizon() const {
  const Candidate &runs = candidates[candidateOf(conductor.current().program)];
  return adapt::horizonOf(runs.plan->variants[runs.variant].certificate.span);
}

/// Permits wait for a decision at most once per horizon, so that short steps share one. The pause of eight times the
/// last decision's duration keeps the decision maker to an eighth of a processor.
bool Adaptation::decides() const {
  return active != Mode::Off && Clock::monotonic() >= decided + std::max(horizon() / 1000, 8 * lastTook);
}

size_t Adaptation::candidateOf(int64_t program) const {
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const Candidate &each) { return each.program == program; });
  return size_t(found - candidates.begin());
}

int64_t Adaptation::programAt(int64_t step) const {
  const std::vector<Epoch> &epochs = conductor.epochs();
  const auto after = std::find_if(epochs.begin() + 1, epochs.end(), [&](const Epoch &e) { return e.from > step; });
  return after[-1].program;
}

void Adaptation::decide(std::function<void()> done) {
  then = std::move(done);
  if (thinking) // the last decision came too late, and is still being made
    return release();
  answered.assign(size_t(plan->world()), false);
  broadcast(messages::encode(messages::Measure{++round}));
  // A decision may take three quarters of the time until the permit is needed.
  timer.expires_after(std::chrono::nanoseconds(horizon() / 1000 * 3 / 4));
  timer.async_wait([this](std::error_code error) {
    if (!error)
      release();
  });
}

/// Lets permits be given, with or without a decision.
void Adaptation::release() {
  timer.cancel();
  if (then)
    std::exchange(then, nullptr)();
}

void Adaptation::measured(int32_t rank, const messages::Measured &message) {
  for (const adapt::Sample &each : unpackSamples(message.samples))
    if (adapt::isPossible(each, plan->ranks(), plan->shards()))
      collected.add(each);
    else if (!std::exchange(doubted, true))
      spdlog::warn("{} says it has measured what cannot be, from rank {} to {}: such measurements are left out",
                   plan::processName(rank, plan::gridOf(*plan)), each.from, each.to);
  for (size_t i = 0; i + 2 <= message.steps.size(); i += 2)
    ends[message.steps[i]][rank] = message.steps[i + 1];
  while (ends.size() > kMostSteps)
    ends.erase(ends.begin());
  if (message.round != round || answered.empty())
    return; // a late answer: its samples count for the next decision
  answered.at(size_t(rank)) = true;
  if (std::find(answered.begin(), answered.end(), false) == answered.end() && then && !thinking)
    choose();
}

/// Reports the duration of the last step that has ended on all ranks: the longest of any rank, each by its own clock.
void Adaptation::lookBack(adapt::StepReport &report) {
  for (auto step = ends.rbegin(); step != ends.rend() && step->first > lookedBack; ++step) {
    const auto before = ends.find(step->first - 1);
    if (step->second.size() != size_t(plan->world()) || before == ends.end() ||
        before->second.size() != step->second.size())
      continue;
    for (const auto &[rank, end] : step->second)
      report.lastTook = std::max(report.lastTook, end - before->second.at(rank));
    const int64_t program = programAt(step->first);
    report.lastCandidate = candidateOf(program);
    report.lastSwapped = programAt(step->first - 1) != program;
    lookedBack = step->first;
    const bool moved = std::any_of(swaps.recuts().begin(), swaps.recuts().end(),
                                   [&](const Recut &each) { return each.step == lookedBack; });
    if (moved) // the duration includes saving and loading layers
      report.lastTook = 0;
    ends.erase(ends.begin(), before);
    break;
  }
}

void Adaptation::choose() {
  answered.clear();
  const std::vector<size_t> all = present();
  const auto placeOf = [&](size_t candidate) {
    const auto found = std::find(all.begin(), all.end(), candidate);
    return found == all.end() ? size_t(0) : size_t(found - all.begin());
  };
  adapt::StepReport report;
  report.candidate = placeOf(candidateOf(conductor.current().program));
  report.slices = collected.report((Clock::monotonic() - startedAt) * 1000);
  lookBack(report);
  if (report.lastTook != 0)
    profiler.took(lookedBack, report.lastTook);
  if (std::find(all.begin(), all.end(), report.lastCandidate) == all.end()) // the candidate has another cut
    report.lastTook = 0;
  report.lastCandidate = placeOf(report.lastCandidate);
  std::vector<const plan::Variant *> renew;
  if (std::exchange(renewed, false))
    for (const size_t c : all)
      renew.push_back(&candidates[c].plan->variants[candidates[c].variant]);
  thinking = true;
  decided = Clock::monotonic();
  // The task's copy of the candidates keeps their plans alive.
  asio::post(thinker, [this, report = std::move(report), renew = std::move(renew), step = conductor.open(),
                       kept = candidates]() mutable {
    const int64_t begin = Clock::monotonic();
    if (!renew.empty())
      decider.choose(std::move(renew), report.candidate);
    Choice choice{decider.decide(report), decider.estimates(), decider.won(), 0};
    choice.took = Clock::monotonic() - begin;
    asio::post(io, [this, choice = std::move(choice), step] { finish(choice, step); });
  });
}

/// Makes the chosen program ready to take over, unless the step has been permitted meanwhile.
void Adaptation::finish(const Choice &choice, int64_t step) {
  thinking = false;
  thought.add(choice.took * 1000);
  lastTook = choice.took;
  estimates = choice.estimates;
  won = choice.won;
  const std::vector<size_t> all = present();
  Change change{step, choice.decision};
  const bool valid = change.decision.from < all.size() && change.decision.to < all.size() && !renewed;
  if (!then || !valid || conductor.open() != step)
    return release();
  if (active == Mode::Profile) {
    change.decision.to = std::min(profiler.next(step), all.size() - 1);
    change.decision.policy = "profile";
    change.decision.why = fmt::format("each variant every {} steps, then the shortest", adapt::Profiler::kEvery);
  }
  std::vector<plan::Time> predicted(candidates.size(), 0);
  for (size_t i = 0; i != all.size(); ++i)
    predicted[all[i]] = change.decision.predicted[i];
  change.decision.predicted = std::move(predicted);
  change.decision.from = all[change.decision.from];
  change.decision.to = all[change.decision.to];
  last = change;
  const bool repeated = active == Mode::Observe && wished == change.decision.to;
  wished = change.decision.to;
  if (change.decision.to != change.decision.from && !repeated) {
    const bool acts = active == Mode::On || active == Mode::Profile;
    if (active == Mode::Off || swaps.underWay())
      return release(); // another swap was requested meanwhile
    changed.push_back(change);
    const std::string &from = candidates[change.decision.from].name, &to = candidates[change.decision.to].name;
    spdlog::warn("step {}: {}{} after {} ({}): {}", step, acts ? "" : "wished: ", to, from, change.decision.policy,
                 change.decision.why);
    mark({change.decision.at, step, from, to, change.decision.policy, change.decision.why});
    if (acts) {
      ++switches;
      conductor.ready(candidates[change.decision.to].program, swaps.aheadOf(candidates[change.decision.to].program));
    }
  }
  release();
}

ordered_json Adaptation::json(const Change &change) const { return adapt::toJson(change.decision, change.step); }

ordered_json Adaptation::json() const {
  ordered_json names = ordered_json::array();
  for (const Candidate &each : candidates)
    names.push_back(each.name);
  ordered_json recuts = ordered_json::array();
  for (const Recut &each : swaps.recuts())
    recuts.push_back({{"step", each.step}, {"from", each.from}, {"to", each.to}, {"name", each.name}});
  return {{"mode", nameOf(active)},
          {"candidates", names},
          {"switches", switches},
          {"estimates", adapt::toJson(estimates, plan->variants.front())},
          {"won_ms", milliseconds(won)},
          {"decide_us", {{"p50", thought.quantile(0.5) / 1e6}, {"max", double(thought.max()) / 1e6}}},
          {"replans", replans},
          {"recuts", recuts}};
}

ordered_json Adaptation::status() const {
  ordered_json made = json();
  made["decision"] = last ? json(*last) : ordered_json();
  return made;
}

ordered_json Adaptation::result(int64_t first, int64_t end) const {
  ordered_json made = json(), ran = ordered_json::array(), decisions = ordered_json::array();
  for (int64_t step = first; step < end; ++step)
    ran.push_back(candidateOf(programAt(step)));
  for (const Change &each : changed)
    decisions.push_back(json(each));
  made["ran"] = std::move(ran);
  made["decisions"] = std::move(decisions);
  return made;
}

} // namespace pipec::runtime
