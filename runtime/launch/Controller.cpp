#include "runtime/launch/Controller.h"

#include "runtime/checkpoint/StepFolders.h"
#include "runtime/device/Clock.h"
#include "runtime/launch/Permits.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
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

/// Whether the text is "3", "3 replica 1" or "3 shard 1".
bool namesProcess(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  for (const std::string_view which : {" replica ", " shard "})
    if (const size_t end = text.find(which); end != text.npos)
      return end > 0 && namesProcess(text.substr(0, end)) && namesProcess(text.substr(end + which.size()));
  return !text.empty() && text.find_first_not_of(kDigits) == text.npos;
}

/// The text of a cause after "rank 3: " or "rank 3 replica 1: ", and that rank. A cause without such a prefix is
/// returned whole, with an empty rank.
std::string_view behindRank(std::string_view cause, std::string_view &rank) {
  const size_t end = cause.find(": ");
  rank = cause.rfind("rank ", 0) == 0 && end != std::string_view::npos ? cause.substr(5, end - 5) : "";
  return namesProcess(rank) ? cause.substr(end + 2) : cause;
}

/// Joins causes, one per line. A cause that several ranks report in the same words is one line with these ranks. A
/// cause that the controller told a rank is left out if its original is there.
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
      members(size_t(given.plan->world())), timer(io),
      watch(io, {kController, given.plan->world(), this->owner.leader}, given.options.deadline,
            {[this] { return waits(); }, [this](const std::string &why) { fail(why, false); },
             [this] { return does(); }, [this](int32_t to, const Encoded &message) { return send(to, message); },
             [this](int32_t process) { return process < 0 ? this->owner.leader : this->owner.title(process); }}),
      graceTimer(io) {
  run.first = run.reached = setup.resume ? setup.resume->step : 0;
  run.ranks.resize(members.size());
  Swaps::Links links;
  links.broadcast = [this](const Encoded &message) { broadcast(message); };
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
                                            [this](const Encoded &message) { broadcast(message); });
  asio::co_spawn(io, awaitMeeting(), asio::detached);
  watch.start();
}

void Controller::join(int32_t rank, std::shared_ptr<Channel> channel, std::function<void(std::string)> closed) {
  members[size_t(rank)].channel = channel;
  channel->start<messages::ToController>([this, rank](auto &&message) { hear(rank, std::move(message)); },
                                         std::move(closed));
  for (const Encoded &text : early)
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

void Controller::broadcast(const Encoded &message) {
  for (Member &member : members)
    if (member.channel && !member.gone)
      member.channel->send(message);
}

/// The ranks that the start of the run waits for: those that have not joined; then, where offers are exchanged, those
/// without an offer; then those that are not ready.
std::string Controller::missing() const {
  bool came = all([](const Member &m) { return m.endpoint.has_value(); });
  bool offer = !all([](const Member &m) { return !m.offer; });
  std::string text;
  for (size_t rank = 0; rank < members.size(); ++rank)
    if (offer ? !members[rank].offer : came ? !members[rank].ready : !members[rank].endpoint)
      text += (text.empty() ? "" : ", ") + owner.title(int32_t(rank));
  return text;
}

/// Waits until all processes have joined. Processes of a cluster may start minutes apart, so every 5 s a log line names
/// the missing ones.
asio::awaitable<void> Controller::awaitMeeting() {
  constexpr auto kReminder = 5s;
  const int64_t begin = Clock::monotonic();
  const auto limit = std::chrono::nanoseconds(setup.options.rendezvous / 1000);
  std::error_code error;
  while (!error && !failing()) {
    if (all([](const Member &m) { return m.endpoint.has_value(); }))
      co_return;
    const auto waited = std::chrono::nanoseconds(watch.ran(begin));
    if (limit.count() > 0 && waited >= limit)
      co_return fail(fmt::format("{} did not come to the meeting within {:g} s", missing(),
                                 double(setup.options.rendezvous) / 1e12),
                     false);
    if (waited >= kReminder)
      spdlog::warn("{} s: waiting for {}", std::chrono::duration_cast<std::chrono::seconds>(waited).count(), missing());
    timer.expires_after(limit.count() > 0 ? std::min<std::chrono::nanoseconds>(limit - waited, kReminder) : kReminder);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

/// From now on the controller waits until `done` holds for all processes. Used while no steps run: during steps each
/// rank watches itself.
void Controller::awaitProgress(const char *what, bool (*done)(const Member &)) {
  awaited = {what, done, Clock::monotonic()};
}

std::vector<Wait> Controller::waits() const {
  std::vector<Wait> all;
  for (size_t rank = 0; awaited && !failing() && rank < members.size(); ++rank)
    if (const Member &member = members[rank]; !awaited->done(member) && !member.gone)
      all.push_back(
          {.late = [this, rank,
                    what = awaited->what] { return fmt::format("{} did not {}", owner.title(int32_t(rank)), what); },
           .whom = {int32_t(rank)},
           .since = awaited->since});
  return all;
}

messages::Does Controller::does() const {
  messages::Does does;
  if (!all([](const Member &m) { return m.endpoint.has_value(); })) {
    does.what = "waits for " + missing();
    does.limit = setup.options.rendezvous / 1000;
    return does;
  }
  for (const Wait &wait : waits())
    does.whom.push_back(wait.whom.front());
  const bool ends = std::ranges::any_of(members, [](const Member &m) { return m.end >= 0; });
  for (size_t rank = 0; ends && rank < members.size(); ++rank) // hosts that have not announced their end
    if (members[rank].end < 0)
      does.whom.push_back(int32_t(rank));
  return does;
}

bool Controller::send(int32_t to, const Encoded &message) {
  const Member &member = members.at(size_t(to));
  if (member.channel && !member.gone)
    member.channel->send(message);
  return bool(member.channel);
}

/// Refuses a message if `wrong`, and returns `wrong`. `what`: "a report before the start".
bool Controller::refuses(int32_t rank, bool wrong, const char *what) {
  if (wrong)
    memberOf(rank).channel->refuse(what);
  return wrong;
}

void Controller::hear(int32_t rank, const messages::Listening &message) {
  Member &member = memberOf(rank);
  std::error_code error;
  asio::ip::make_address(message.address, error);
  if (refuses(rank, error || member.endpoint, "an address to listen at that is none, or a second one"))
    return;
  member.endpoint = messages::Endpoint{message.address, message.port};
  if (!all([](const Member &m) { return m.endpoint.has_value(); }))
    return;
  timer.cancel(); // the meeting is over
  awaitProgress("come to the start", [](const Member &m) { return m.ready; });
  messages::Table table{run.first, bootId(), {}, setup.resume};
  for (const Member &m : members)
    table.endpoints.push_back(*m.endpoint);
  broadcast(table);
}

void Controller::hear(int32_t rank, const messages::Clock &message) {
  if (!refuses(rank, message.now.has_value(), "a time where it may only ask for one"))
    memberOf(rank).channel->send(messages::Clock{Clock::monotonic()});
}

/// Sends all offers to all processes once the last offer has come.
void Controller::hear(int32_t rank, messages::Offer message) {
  if (refuses(rank, std::exchange(memberOf(rank).offered, true), "a second offer"))
    return;
  memberOf(rank).offer = std::move(message.offer);
  if (!all([](const Member &m) { return m.offer.has_value(); }))
    return;
  messages::Offers offers;
  for (Member &m : members) {
    offers.offers.push_back(std::move(*m.offer));
    m.offer.reset();
  }
  broadcast(offers);
}

void Controller::hear(int32_t rank, const messages::Ready &) {
  Member &member = memberOf(rank);
  if (refuses(rank, !member.endpoint || std::exchange(member.ready, true), "ready before it listens, or twice"))
    return;
  if (all([](const Member &m) { return m.ready; }) && !failing())
    begin();
}

void Controller::hear(int32_t rank, const messages::Progress &message) {
  const bool right = isStep(message.step) && isStep(message.needs.value_or(run.first));
  if (refuses(rank, !right, "progress to a step that the run does not have"))
    return;
  if (message.step > run.reached) {
    run.reached = message.step;
    if (owner.progressed)
      owner.progressed(message.step);
  }
  if (message.needs) {
    begins(rank, *message.needs);
    needed(*message.needs);
  }
}

void Controller::hear(int32_t rank, const messages::Put &message) {
  if (refuses(rank, !setup.options.hosted(), "a text, which only a host says"))
    return;
  const Encoded text = messages::encode(messages::Text{message.key, message.text});
  broadcast(text);
  if (!allJoined())
    early.push_back(text);
}

void Controller::hear(int32_t rank, const messages::Swap &message) {
  if (refuses(rank, !setup.options.hosted(), "a swap, which only a host asks for"))
    return;
  swapper->agree(message.variant, [channel = memberOf(rank).channel](const Status &status, int64_t from) {
    channel->send(messages::Swapped{int(status.code), status.message, from});
  });
}

void Controller::hear(int32_t rank, const messages::Measured &message) {
  if (adapting)
    adapting->measured(rank, message);
}

void Controller::hear(int32_t rank, const messages::Prepared &message) {
  const bool right = message.code >= int(Code::Ok) && message.code <= int(Code::Run);
  if (!refuses(rank, !right, "an answer with a code that is none"))
    swapper->answered(rank, message);
}

void Controller::hear(int32_t rank, const messages::Waits &) {
  memberOf(rank).waits = true;
  endWaits();
}

void Controller::hear(int32_t, const messages::Stop &message) { stop(message.why.value_or("stop")); }

void Controller::hear(int32_t rank, const messages::Failed &message) {
  memberOf(rank).failed = true;
  fail(message.message, false);
}

void Controller::hear(int32_t rank, const messages::Paced &message) {
  if (refuses(rank, message.solo < 0 || message.filled < 0, "a time below zero") || !jobLevel)
    return;
  if (const std::optional<int> level = jobLevel->heard(message.solo, message.filled)) {
    spdlog::info("background jobs may fill {:.1f} % of their windows", *level / 10.0);
  }
}

/// Lets all ranks start at one instant, far enough ahead that the message reaches them before.
void Controller::begin() {
  awaited.reset();
  if (const std::string &folder = setup.options.checkpoint; !folder.empty() && !setup.resume)
    if (Status status = setup.options.hosting.folders ? clearStepFolders(folder) : clearFolder(folder); !status.ok())
      return fail("the run cannot begin anew: " + status.message, true);
  started = true;
  int64_t at = Clock::monotonic() + 20'000'000 + 2'000'000 * int64_t(members.size());
  run.startedAt = at;
  if (adapting)
    adapting->start(at);
  int64_t since1970 = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  broadcast(messages::Start{at, since1970 + at - Clock::monotonic()});
  advance();
  swapper->start();
  if (owner.started)
    owner.started();
}

/// Gives a permit that a process needs soon. If the run adapts, the permit waits for a decision.
void Controller::needed(int64_t step) {
  need = std::max(need, step);
  const auto permit = [this] {
    conductor.needed(need);
    advance();
  };
  if (!adapting || failing() || finishing || !conductor.wouldGrant(need))
    return permit();
  if (adapting->deciding()) // processes that ask meanwhile wait for the same decision
    return;
  if (!adapting->decides())
    return permit();
  adapting->decide(permit);
}

void Controller::begins(int32_t rank, int64_t step) {
  if (!setup.options.hosted())
    return;
  members[size_t(rank)].begun = step;
  compareEnds();
}

/// Ends the run once all hosts have announced their end after the same step.
void Controller::hear(int32_t rank, const messages::Finishes &message) {
  if (refuses(rank, !setup.options.hosted() || !isStep(message.step),
              "an end, which only a host says, in a step of the run"))
    return;
  memberOf(rank).end = message.step;
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
    messages::Permit permit{grant.until, grant.epoch, grant.program, grant.last, {}};
    if (jobLevel)
      permit.level = jobLevel->now();
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

/// Refuses a state that nobody has asked for, a state of another rank, of a layer that the plan does not have or with a
/// path as its file's name, and impossible events.
bool Controller::refusesSaved(int32_t rank, const messages::Saved &message) {
  constexpr const char *kNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  const auto isName = [&](const StateFile &file) {
    return !file.name.empty() && file.name.find_first_not_of(kNameChars) == std::string::npos && file.bytes >= 0 &&
           file.hash.find_first_not_of(kNameChars) == std::string::npos;
  };
  const std::vector<int32_t> &cut = setup.plan->variants.front().cut;
  const int32_t layers = std::accumulate(cut.begin(), cut.end(), 0);
  bool own = !message.job || (message.job->process == rank && isName(message.job->file));
  for (const auto &[number, file] : message.states)
    own = own && isName(file) && (message.layers ? number >= 0 && number < layers : number == rank);
  const auto found = states.find(message.step);
  const bool again = found != states.end() && found->second.ranks.count(rank) > 0;
  return refuses(rank, setup.options.checkpoint.empty() || !isStep(message.step) || again,
                 "a state that nobody has asked for") ||
         refuses(rank, !own, "a state that is not its own") ||
         refuses(rank, message.events && !areEvents(*message.events), "events that cannot be");
}

/// The checkpoint is complete once the last process has saved its state of a step. A fast process may have saved the
/// state of a later step by then.
void Controller::hear(int32_t rank, const messages::Saved &message) {
  if (refusesSaved(rank, message))
    return;
  const auto place = states.try_emplace(message.step).first;
  Saved &ofStep = place->second;
  for (const auto &[number, file] : message.states)
    ofStep.files[number] = file;
  if (message.owned)
    ofStep.owned[rank] = *message.owned;
  if (message.job)
    ofStep.jobs[rank] = *message.job;
  ofStep.ranks[rank] = unpackEvents(message.events.value_or(messages::Numbers()), rank);
  const bool recuts = message.recuts;
  if (recuts) {
    if (ofStep.ranks.size() == 1) // the first process that saves; the others follow soon
      for (Member &member : members)
        member.moved = false;
    members[size_t(rank)].moved = true;
    awaitProgress("save its layers", [](const Member &m) { return m.moved; });
  }
  if (ofStep.ranks.size() == members.size())
    complete(place, message.layers, recuts);
}

/// Writes the manifest of a complete checkpoint.
void Controller::complete(std::map<int64_t, Saved>::iterator saved, bool ofLayers, bool recuts) {
  const int64_t step = saved->first;
  const Saved &ofStep = saved->second;
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
  const bool ofHost = setup.options.hosting.folders; // the host itself marks its checkpoint as complete
  if (Status status = ofHost ? Status{} : writeManifest(setup.options.checkpoint, manifest); !status.ok())
    return fail("the checkpoint could not be written: " + status.message, true);
  run.checkpoint = manifest.step;
  for (const auto &[of, covered] : ofStep.ranks)
    run.covered.insert(run.covered.end(), covered.begin(), covered.end());
  states.erase(saved);
  if (recuts) {
    awaited.reset();
    broadcast(messages::Layers{manifest});
  }
  spdlog::info("checkpoint after {} steps in {}", manifest.step, setup.options.checkpoint);
}

/// Lets processes without instructions end once all other processes have reported.
void Controller::endWaits() {
  if (!all([](const Member &m) { return m.waits || m.reported; }) || failing())
    return;
  for (Member &member : members)
    if (std::exchange(member.waits, false))
      member.channel->send(messages::Rest{});
}

void Controller::hear(int32_t rank, const messages::Report &message) {
  RankReport report;
  if (refuses(rank, !started || memberOf(rank).reported, "a report before the start, or a second one") ||
      refuses(rank, !fromMessage(message, rank, report), "a report that cannot be"))
    return;
  run.ranks[size_t(rank)] = std::move(report);
  memberOf(rank).reported = true;
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
  messages::Finish finish;
  if (owner.report)
    finish.report = owner.report(run);
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
  awaited.reset();
  swapper->end("the run has failed: " + causes.front());
  tellStoppers(outcome());
  asio::co_spawn(io, endOthers(), asio::detached);
}

asio::awaitable<void> Controller::endOthers() {
  graceTimer.expires_after(kTell);
  co_await graceTimer.async_wait(asio::use_awaitable);
  broadcast(messages::End{causes.front()});
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
