#include "runtime/launch/Controller.h"

#include "runtime/device/Clock.h"
#include "runtime/launch/Permits.h"

#include <algorithm>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <utility>

namespace pipec::runtime {

using namespace std::chrono_literals;

namespace {

// Times since the first sign of failure. Until kTell ranks may find the cause by themselves; then they are told. At
// kKill those that have said nothing are ended by force, at kEnd all that are left.
constexpr auto kTell = 300ms;
constexpr auto kKill = 1000ms;
constexpr auto kEnd = 5000ms;

/// Whether it is "3", "3 replica 1" or "3 shard 1".
bool namesProcess(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  for (const std::string_view which : {" replica ", " shard "})
    if (const size_t end = text.find(which); end != text.npos)
      return end > 0 && namesProcess(text.substr(0, end)) && namesProcess(text.substr(end + which.size()));
  return !text.empty() && text.find_first_not_of(kDigits) == text.npos;
}

/// What a cause says behind "rank 3: " or "rank 3 replica 1: "; all of it, without a rank, where it does not begin so.
std::string_view behindRank(std::string_view cause, std::string_view &rank) {
  const size_t end = cause.find(": ");
  rank = cause.rfind("rank ", 0) == 0 && end != std::string_view::npos ? cause.substr(5, end - 5) : "";
  return namesProcess(rank) ? cause.substr(end + 2) : cause;
}

/// A line each, none twice: not what several ranks say in the same words, nor what a rank was told of another's cause.
std::string linesOf(const std::vector<std::string> &causes) {
  std::vector<std::pair<std::string_view, std::string>> lines; // what is said, and the ranks that say it too
  for (const std::string &cause : causes) {
    std::string_view rank, other;
    const std::string_view said = behindRank(cause, rank);
    const bool told = said.rfind(kEndedByController, 0) == 0;
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const auto &line) {
      return said == behindRank(line.first, other) || (told && said.substr(kEndedByController.size()) == line.first);
    });
    if (same == lines.end())
      lines.emplace_back(cause, "");
    else if (!told && !rank.empty())
      same->second += fmt::format("{}rank {}", same->second.empty() ? "" : ", ", rank);
  }
  std::string message;
  for (const auto &[said, also] : lines)
    message += fmt::format("{}{}{}", message.empty() ? "" : "\n", said,
                           also.empty() ? "" : fmt::format(" (so says {})", also));
  return message;
}

int32_t processesWithJobs(const plan::Plan &plan) {
  const auto &programs = plan.variants.front().programs;
  const auto ranks =
      std::ranges::count_if(programs, [](const plan::Program &each) { return each.job >= 0 && !each.runsJobAlone(); });
  return int32_t(ranks) * plan::gridOf(plan).each();
}

} // namespace

Controller::Controller(asio::io_context &io, const Setup &given, Owner owner)
    : io(io), setup(given), owner(std::move(owner)),
      conductor(
          {given.resume ? given.resume->step : 0, given.options.steps, 1, given.swapEvery, given.options.hosted()}),
      members(size_t(given.plan->world())), timer(io), graceTimer(io) {
  run.first = run.reached = setup.resume ? setup.resume->step : 0;
  run.ranks.resize(members.size());
  Swaps::Links links;
  links.broadcast = [this](const Channel::Encoded &message) {
    for (Member &member : members)
      if (!member.gone)
        member.channel->send(message);
  };
  links.advance = [this] { advance(); };
  links.title = this->owner.title;
  links.loaded = [this](int64_t program, const std::shared_ptr<const plan::Plan> &loaded) {
    if (!adapting)
      return false;
    adapting->add(program, loaded);
    for (int64_t old = adapting->oldest(); old >= 0; old = adapting->oldest()) {
      adapting->remove(old);
      swapper->drop(old);
    }
    return true;
  };
  links.recut = [this](const Recut &recut) {
    if (adapting)
      adapting->recut(recut);
  };
  swapper = std::make_unique<Swaps>(io, setup.plan, conductor, setup.options.deadline, setup.swapEvery > 0,
                                    setup.options.hosted(), std::move(links));
  conductor.cover(swapper->aheadOf(0));
  if (const int32_t working = processesWithJobs(*setup.plan); working > 0 && setup.options.runsJobs)
    jobLevel.emplace(working, setup.plan->variants.front().slowDown);
  if (setup.adapt)
    adapting = std::make_unique<Adaptation>(io, setup.plan, conductor, *swapper, *setup.adapt,
                                            [this](const Message &message) { broadcast(message); });
  asio::co_spawn(io, awaitMeeting(), asio::detached);
}

void Controller::join(int32_t rank, std::shared_ptr<Channel> channel, std::function<void(std::string)> closed) {
  members[size_t(rank)].channel = channel;
  channel->start([this, rank](const Message &message) { hear(rank, message); }, std::move(closed));
  for (const Message &text : early)
    channel->send(text);
  if (allJoined())
    early.clear();
}

bool Controller::all(bool (*predicate)(const Member &)) const {
  return std::all_of(members.begin(), members.end(), predicate);
}

bool Controller::allJoined() const {
  return all([](const Member &m) { return bool(m.channel); });
}

bool Controller::allGone() const {
  return all([](const Member &m) { return m.gone; });
}

void Controller::broadcast(const Message &message) {
  Channel::Encoded encoded = Channel::encode(message);
  for (Member &member : members)
    if (member.channel && !member.gone)
      member.channel->send(encoded);
}

/// The ranks that have not come; once all have, those that have not offered what others wait for, or are not ready.
std::string Controller::missing() const {
  bool came = all([](const Member &m) { return !m.endpoint.is_null(); });
  bool offer = !all([](const Member &m) { return m.offer.is_null(); });
  std::string text;
  for (size_t rank = 0; rank < members.size(); ++rank)
    if (offer ? members[rank].offer.is_null() : came ? !members[rank].ready : members[rank].endpoint.is_null())
      text += (text.empty() ? "" : ", ") + owner.title(int32_t(rank));
  return text;
}

/// Processes of a cluster may start minutes apart, so a line now and then says which are missing. A host that has come
/// may load its state for as long as it may be away between two steps.
asio::awaitable<void> Controller::awaitMeeting() {
  constexpr auto kReminder = 5s;
  auto begin = std::chrono::steady_clock::now();
  plan::Time most = setup.options.rendezvous;
  bool met = false;
  std::error_code error;
  while (!error && !started && !failing()) {
    if (!met && setup.options.hosted() && all([](const Member &m) { return !m.endpoint.is_null(); })) {
      met = true;
      most = setup.options.idle;
      begin = std::chrono::steady_clock::now();
    }
    const auto limit = std::chrono::nanoseconds(most / 1000);
    auto waited = std::chrono::steady_clock::now() - begin;
    if (limit.count() > 0 && waited >= limit)
      co_return fail(fmt::format("{} {} within {:g} s", missing(),
                                 met ? "was not ready" : "did not come to the meeting", double(most) / 1e12),
                     false);
    if (waited >= kReminder)
      spdlog::warn("{} s: waiting for {}", std::chrono::duration_cast<std::chrono::seconds>(waited).count(), missing());
    timer.expires_after(limit.count() > 0 ? std::min<std::chrono::nanoseconds>(limit - waited, kReminder) : kReminder);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

/// Fails the run if `done` does not hold for every rank within the deadline; a host may save or evaluate meanwhile, and
/// has longer. For the time behind the steps: while steps run, each rank watches itself.
void Controller::awaitProgress(const char *what, bool (*done)(const Member &)) {
  const plan::Time limit = setup.options.hosted() ? setup.options.idle : setup.options.deadline;
  if (limit == 0)
    return;
  timer.expires_after(std::chrono::nanoseconds(limit / 1000));
  timer.async_wait([this, what, done, limit](std::error_code error) {
    for (size_t rank = 0; !error && rank < members.size(); ++rank)
      if (!done(members[rank]))
        fail(fmt::format("{} did not {} within {:g} s", owner.title(int32_t(rank)), what, double(limit) / 1e12), false);
  });
}

void Controller::hear(int32_t rank, const Message &message) {
  Member &member = members[size_t(rank)];
  std::string type = message.value("type", "");
  if (type == "listening") {
    listening(member, message);
  } else if (type == "clock") {
    member.channel->send({{"type", "clock"}, {"now", Clock::monotonic()}});
  } else if (type == "offer") {
    offered(member, message);
  } else if (type == "ready") {
    member.ready = true;
    if (all([](const Member &m) { return m.ready; }) && !failing())
      begin();
  } else if (type == "progress") {
    if (const int64_t step = message.at("step"); step > run.reached) {
      run.reached = step;
      if (owner.progressed)
        owner.progressed(step);
    }
    if (message.contains("needs")) {
      begins(rank, message.at("needs"));
      needed(message.at("needs"));
    }
  } else if ((type == "put" || type == "swap" || type == "finishes") && !setup.options.hosted()) {
    member.channel->refuse(type + ", which only a host says");
  } else if (type == "put") {
    const Message text{{"type", "text"}, {"key", message.at("key")}, {"text", message.at("text")}};
    broadcast(text);
    if (!allJoined())
      early.push_back(text);
  } else if (type == "swap") {
    swapper->agree(message.at("variant"), [channel = member.channel](const Status &status, int64_t from) {
      channel->send({{"type", "swapped"}, {"code", int(status.code)}, {"message", status.message}, {"from", from}});
    });
  } else if (type == "finishes") {
    finishes(rank, message.at("step"));
  } else if (type == "measured") {
    if (adapting)
      adapting->measured(rank, message);
  } else if (type == "paced") {
    paced(message);
  } else if (type == "prepared") {
    swapper->answered(rank, message);
  } else if (type == "saved") {
    saved(rank, message);
  } else if (type == "waits") {
    member.waits = true;
    endWaits();
  } else if (type == "report") {
    reported(rank, message);
  } else if (type == "stop") {
    stop(message.value("why", "stop"));
  } else if (type == "failed") {
    member.failed = true;
    fail(message.value("message", ""), false);
  }
}

void Controller::paced(const Message &message) {
  if (!jobLevel)
    return;
  if (const std::optional<int> level = jobLevel->heard(message.at("solo"), message.at("filled"))) {
    spdlog::info("background jobs may fill {:.1f} % of their windows", *level / 10.0);
  }
}

/// Tells every process what all have offered, once all have.
void Controller::offered(Member &member, const Message &message) {
  member.offer = message.at("offer");
  if (!all([](const Member &m) { return !m.offer.is_null(); }))
    return;
  Message offers{{"type", "offers"}, {"offers", Message::array()}};
  for (Member &m : members)
    offers["offers"].push_back(std::move(m.offer));
  broadcast(offers); // none is left here
}

void Controller::listening(Member &member, const Message &message) {
  member.endpoint = {{"address", message.at("address")}, {"port", message.at("port")}};
  if (!all([](const Member &m) { return !m.endpoint.is_null(); }))
    return;
  Message table{{"type", "table"}, {"first", run.first}, {"boot", bootId()}, {"endpoints", Message::array()}};
  for (const Member &m : members)
    table["endpoints"].push_back(m.endpoint);
  if (setup.resume)
    table["checkpoint"] = *setup.resume;
  broadcast(table);
}

/// Lets all ranks start at one instant, far enough ahead that the message reaches them before.
void Controller::begin() {
  timer.cancel();
  if (!setup.options.checkpoint.empty() && !setup.resume)
    if (Status status = clearFolder(setup.options.checkpoint); !status.ok())
      return fail("the run cannot begin anew: " + status.message, true);
  started = true;
  int64_t at = Clock::monotonic() + 20'000'000 + 2'000'000 * int64_t(members.size());
  run.startedAt = at;
  if (adapting)
    adapting->start(at);
  int64_t since1970 = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  broadcast({{"type", "start"}, {"at", at}, {"since_1970", since1970 + at - Clock::monotonic()}});
  advance();
  swapper->start();
  if (owner.started)
    owner.started();
}

/// Gives a permit once a process needs it soon: where the run adapts, after a decision.
void Controller::needed(int64_t step) {
  need = std::max(need, step);
  const auto permit = [this] {
    conductor.needed(need);
    advance();
  };
  if (!adapting || failing() || finishing || !conductor.wouldGrant(need))
    return permit();
  if (adapting->deciding()) // whoever asks meanwhile waits for it too
    return;
  if (!adapting->decides())
    return permit();
  adapting->decide(permit);
}

/// Once all processes are in one step they are told: none may wait for another without end from then on.
void Controller::begins(int32_t rank, int64_t step) {
  if (!setup.options.hosted())
    return;
  members[size_t(rank)].begun = step;
  compareEnds();
  if (!savesBefore(step, run.first, setup.options.savesEvery()) &&
      std::ranges::all_of(members, [&](const Member &m) { return m.begun >= step; }))
    broadcast({{"type", "underway"}, {"step", step}});
}

/// The run ends once all say so, all behind the same step.
void Controller::finishes(int32_t rank, int64_t step) {
  members[size_t(rank)].end = step;
  if (!compareEnds() || !all([](const Member &m) { return m.end >= 0; }))
    return;
  conductor.stop();
  advance();
}

bool Controller::compareEnds() {
  for (size_t a = 0; a < members.size(); ++a)
    for (size_t b = 0; members[a].end >= 0 && b < members.size(); ++b) {
      const bool other = members[b].end >= 0 && members[b].end != members[a].end;
      if (!other && members[b].begun < members[a].end)
        continue;
      fail(fmt::format(
               "{} ends after {} steps, {} {}", owner.title(int32_t(a)), members[a].end, owner.title(int32_t(b)),
               other ? fmt::format("after {}", members[b].end) : fmt::format("begins step {}", members[b].begun)),
           true);
      return false;
    }
  return true;
}

void Controller::advance() {
  if (!started || failing())
    return;
  for (const Grant &grant : conductor.grants()) {
    Message permit{{"type", "permit"},
                   {"until", grant.until},
                   {"epoch", grant.epoch},
                   {"program", grant.program},
                   {"last", grant.last}};
    if (jobLevel)
      permit["level"] = jobLevel->now();
    broadcast(permit);
  }
  swapper->advanced();
}

void Controller::stop(const std::string &why, std::function<void(Status)> done) {
  if (stopAsked.empty())
    stopAsked = why;
  if (done)
    stoppers.push_back(std::move(done));
  if (finishing)
    return tellStoppers({});
  if (failing())
    return tellStoppers(outcome());
  if (!allJoined())
    return fail(fmt::format("asked to end while {} had not come to the meeting", missing()), true);
  conductor.stop();
  advance();
}

void Controller::tellStoppers(const Status &status) {
  for (const auto &done : std::exchange(stoppers, {}))
    done(status);
}

/// Writes the manifest once the last process has saved its state of a step. A fast process may have saved the state of
/// a later step by then.
void Controller::saved(int32_t rank, const Message &message) {
  const int64_t step = message.at("step");
  const bool ofLayers = message.at("layers"), recuts = message.at("recuts");
  Saved &ofStep = states[step];
  for (auto &[number, file] : message.at("states").get<std::vector<std::pair<int32_t, StateFile>>>())
    ofStep.files[number] = std::move(file);
  if (message.contains("owned"))
    ofStep.owned[rank] = message.at("owned").get<std::vector<OwnedUnits>>();
  if (message.contains("job"))
    ofStep.jobs[rank] = message.at("job").get<JobState>();
  std::vector<trace::Event> &events = ofStep.ranks[rank];
  if (message.contains("events"))
    events = unpackEvents(message.at("events").get<std::vector<int64_t>>(), rank);
  if (recuts) {
    if (ofStep.ranks.size() == 1) // the others are close behind
      for (Member &member : members)
        member.moved = false;
    members[size_t(rank)].moved = true;
    awaitProgress("save its layers", [](const Member &m) { return m.moved; });
  }
  if (ofStep.ranks.size() < members.size())
    return;
  Manifest manifest{step,
                    ofLayers ? std::vector<std::vector<int32_t>>() : stagesOf(*setup.plan),
                    {},
                    setup.plan->degree(),
                    setup.plan->shards()};
  for (const auto &[of, units] : ofStep.owned)
    manifest.owned.push_back(units);
  for (const auto &[of, file] : ofStep.files)
    manifest.files.push_back(file);
  for (const auto &[of, job] : ofStep.jobs)
    manifest.jobs.push_back(job);
  Status status = writeManifest(setup.options.checkpoint, manifest);
  if (!status.ok())
    return fail("the checkpoint could not be written: " + status.message, true);
  run.checkpoint = manifest.step;
  for (const auto &[of, covered] : ofStep.ranks)
    run.covered.insert(run.covered.end(), covered.begin(), covered.end());
  states.erase(step);
  if (recuts) {
    timer.cancel();
    broadcast({{"type", "layers"}, {"checkpoint", manifest}});
  }
  if (setup.options.hosted()) // who was faster waited for the others
    broadcast({{"type", "underway"}, {"step", step}});
  spdlog::info("checkpoint after {} steps in {}", manifest.step, setup.options.checkpoint);
}

/// Lets processes that have nothing to do end, once all others have.
void Controller::endWaits() {
  if (!all([](const Member &m) { return m.waits || m.reported; }) || failing())
    return;
  for (Member &member : members)
    if (std::exchange(member.waits, false))
      member.channel->send({{"type", "rest"}});
}

void Controller::reported(int32_t rank, const Message &message) {
  run.ranks[size_t(rank)] = fromJson(message, rank);
  members[size_t(rank)].reported = true;
  endWaits();
  awaitProgress("end with the others", [](const Member &m) { return m.reported; });
  if (!all([](const Member &m) { return m.reported; }) || failing())
    return;
  finishing = true;
  run.end = run.reached = conductor.end();
  run.ended = run.end >= setup.options.steps || stopAsked.empty() ? "done" : stopAsked;
  run.epochs = conductor.epochs();
  run.loaded = swapper->loaded();
  if (adapting) {
    run.adapt = adapting->result(run.first, run.end);
    run.decisions = adapting->decisions();
  }
  Message finish{{"type", "finish"}};
  if (owner.report)
    finish["report"] = owner.report(run);
  awaitProgress("end after the run", [](const Member &m) { return m.gone; });
  broadcast(finish);
  swapper->end("the run is over");
  tellStoppers({});
}

void Controller::gone(int32_t rank, const std::string &cause) {
  Member &member = members[size_t(rank)];
  if (member.gone)
    return;
  member.gone = true;
  if (!cause.empty())
    fail(cause, true);
}

void Controller::fail(std::string message, bool telling) {
  bool first = causes.empty();
  causes.insert(telling ? causes.begin() : causes.end(), std::move(message));
  if (!first)
    return;
  timer.cancel();
  swapper->end("the run has failed: " + causes.front());
  tellStoppers(outcome());
  asio::co_spawn(io, endOthers(), asio::detached);
}

asio::awaitable<void> Controller::endOthers() {
  graceTimer.expires_after(kTell);
  co_await graceTimer.async_wait(asio::use_awaitable);
  broadcast({{"type", "end"}, {"message", causes.front()}});
  graceTimer.expires_after(kKill - kTell);
  co_await graceTimer.async_wait(asio::use_awaitable);
  for (size_t rank = 0; rank < members.size(); ++rank)
    if (!members[rank].gone && !members[rank].failed)
      owner.end(int32_t(rank));
  graceTimer.expires_after(kEnd - kKill);
  co_await graceTimer.async_wait(asio::use_awaitable);
  for (size_t rank = 0; rank < members.size(); ++rank)
    if (!members[rank].gone)
      owner.end(int32_t(rank));
}

Status Controller::outcome() const { return causes.empty() ? Status{} : Status::run(linesOf(causes)); }

Message Controller::status() const {
  const Epoch &current = conductor.current();
  Message variants = Message::array();
  for (size_t v = 0; v < setup.plan->variants.size(); ++v)
    variants.push_back(setup.plan->variants[v].name);
  return {{"ranks", setup.plan->ranks()},
          {"processes", members.size()},
          {"step", run.reached},
          {"steps", conductor.end()},
          {"epoch", current.epoch},
          {"epoch_from", current.from},
          {"running", swapper->nameOf(current.program)},
          {"variants", variants},
          {"swaps", conductor.epochs().size() - 1},
          {"checkpoint", run.checkpoint},
          {"cut", swapper->cut()},
          {"keeps_cut", keepsCut()},
          {"adapt", adapting ? Message(adapting->status()) : Message()}};
}

} // namespace pipec::runtime
