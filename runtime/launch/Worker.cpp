#include "runtime/launch/Worker.h"

#include "runtime/backend/Backend.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/device/Clock.h"
#include "runtime/interpreter/Interpreter.h"
#include "runtime/launch/Gathering.h"
#include "runtime/launch/HeldJob.h"
#include "runtime/launch/HeldStage.h"
#include "runtime/launch/KeptEvents.h"
#include "runtime/launch/Permits.h"
#include "runtime/launch/Prepare.h"
#include "runtime/launch/Report.h"
#include "runtime/launch/waits/Doing.h"
#include "runtime/launch/waits/Watch.h"
#include "runtime/plan/Load.h"
#include "runtime/stage/hosted/Handover.h"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <future>
#include <set>
#include <spdlog/spdlog.h>
#include <thread>
#include <unistd.h>

namespace pipec::runtime {

std::string bootId() { return plan::firstWordOf("/proc/sys/kernel/random/boot_id"); }

const char *nameOf(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

namespace {

class Worker {
public:
  Worker(const WorkerSetup &setup, asio::io_context &io, std::shared_ptr<Channel> control)
      : setup(setup), plan(setup.plan), identity(setup.identity), options(setup.options),
        mailbox(identity.name(), failure, doing), io(io), channel(std::move(control)),
        layout(layoutOf(*plan, identity.rank)), meter(layout.place.rank, int32_t(placeIn(layout.place))),
        backend(makeBackend({*plan, identity.rank, layout, options, io, failure, meter, setup.listenOn,
                             [this](int32_t peer, uint32_t kind, std::span<const uint8_t> bytes) {
                               auto hears = [&](auto &&message) { watch.hear(peer, message); };
                               return messages::dispatch<messages::ToPeer>(kind, bytes, hears);
                             }})),
        memory(options.payload()), preparer(plan, layout, backend->device(), memory),
        held(*backend, layout.place, options.checkpoint, options.hosting.folders),
        job(*backend, layout.place, options.checkpoint), cut(plan->variants.front().cut), signals(io),
        watch(io, {identity.rank, identity.world, identity.name()}, options.deadline,
              {[this] { return waits(options.deadline); },
               [this](const std::string &why) { failure.raise(Status::run(why)); }, [this] { return does(); },
               [this](int32_t to, const Encoded &message) { return send(to, message); },
               [this](int32_t process) { return title(process); }}),
        patience(io) {
    failure.listen([this] { asio::post(this->io, [this] { failedSomewhere(); }); });
    if (handover)
      handover->join(failure);
  }

  void start(bool catchSignals);
  Status run();
  /// Tells the controller what run() returned.
  void conclude(const Status &status);
  /// With a host: ends everything that the worker runs.
  void leave();

private:
  void failedSomewhere();
  std::vector<Wait> waits(plan::Time limit);
  messages::Does does();
  bool send(int32_t to, const Encoded &message);
  std::string title(int32_t process) const;
  template <typename Mail> void hear(Mail &&mail) { mailbox.put(std::forward<Mail>(mail)); }
  void hear(messages::Table &&message);
  void hear(messages::End &&message);
  void hear(messages::Permit &&message);
  void hear(messages::Prepare &&message);
  void hear(messages::Drop &&message);
  void hear(messages::Measure &&message);
  void hear(messages::Decision &&message);
  void hear(messages::Asks &&message) { watch.hear(kController, message); }
  void hear(messages::Does &&message) { watch.hear(kController, message); }
  void hear(messages::Text &&message);
  void hear(messages::Swapped &&message);
  void answer(int64_t program, const Status &status);
  void awaitSignal();
  Status prepareRun(Gathering gathering);
  Status exchange();
  Status finish();
  bool isIdle() const;
  std::vector<QueueId> ends() const;
  void awaitOthers();
  bool begins(int64_t step);
  bool evaluate(int64_t step, int64_t rounds);
  void needed(int64_t step);
  void progress(int64_t step);
  bool save(int64_t step, bool recuts = false);
  bool recut(int64_t step, const std::shared_ptr<const plan::Plan> &next);
  bool share(int64_t step, const std::shared_ptr<const plan::Variant> &variant);
  Status shareFirst();
  Doing::While loading() { return doing.does("loads its state", options.idle); }
  Status failed() const { return failure.status(); }
  std::string where() const;

  const WorkerSetup setup;
  const std::shared_ptr<const plan::Plan> plan;
  const Identity identity;
  const RunOptions options;
  Handover *const handover = options.hosting.handover; // null: no host
  Failure failure;
  Doing doing; // of the issuing thread
  Mailbox mailbox;
  asio::io_context &io;
  std::shared_ptr<Channel> channel;
  const Layout layout;
  Meter meter;
  const std::unique_ptr<Backend> backend;
  TransferMemory memory;
  Prepare preparer;
  HeldStage held;
  HeldJob job;
  std::vector<int32_t> cut; // of the last step that is permitted; empty: unknown
  asio::signal_set signals;
  Watch watch;
  asio::steady_timer patience; // after a failure
  std::promise<void> told;     // set once the controller has been told of a failure
  std::atomic<bool> returned{false};
  Transport *transport = nullptr; // owned by the backend
  std::unique_ptr<Permits> permits;
  std::optional<Interpreter> interpreter;
  struct Evaluates {
    std::shared_ptr<const Executable> training, evaluation; // null: none yet
  } evaluates;
  std::vector<Evaluated> evaluations;
  std::optional<KeptEvents> kept; // if the process writes its own trace
  std::atomic<int64_t> first{0};
  std::optional<Manifest> resumed;
  int64_t epoch = 0; // of the last step that is permitted
  struct Ready {
    std::shared_ptr<const Executable> program;
    std::shared_ptr<const plan::Plan> plan;
    size_t variant = 0; // of the plan
    std::shared_ptr<const plan::Variant> shares() const { return {plan, &plan->variants[variant]}; }
  };
  std::map<int64_t, Ready> programs;         // used by the io thread alone once the run has started
  std::vector<trace::Decision> decisions;    // the io thread's, up to the last permit
  std::atomic<int64_t> complete{0};          // all steps before this one are complete
  std::atomic<int64_t> hosted{0};            // with a host: the step that it begins next, or has begun
  int64_t sent = 0;                          // when progress was last sent, in nanoseconds
  int64_t saved = -1;                        // the step whose state was last saved
  std::vector<messages::Endpoint> endpoints; // of all processes; the io thread's
  std::thread ioThread;
};

/// The queues that have finished a step when the host is told that the step has ended. If host steps overlap, these are
/// the queues of passes alone.
std::vector<QueueId> Worker::ends() const {
  std::vector<QueueId> queues;
  for (QueueId q = 0; handover && q < layout.queues.size(); ++q) {
    const plan::Queue &queue = layout.queues[q];
    const bool passes = queue.kind == plan::QueueKind::Device && queue.priority != plan::Priority::Updates;
    if (passes || !options.hosting.overlaps)
      queues.push_back(q);
  }
  return queues;
}

void Worker::start(bool catchSignals) {
  channel->start<messages::ToRank>([this](auto &&message) { hear(std::move(message)); },
                                   [this](const std::string &why) {
                                     if (returned) // this end has closed the channel
                                       return;
                                     failure.raise(Status::run(fmt::format("{}: {} is gone{}{}", where(), setup.leader,
                                                                           why.empty() ? "" : ": ", why)));
                                   });
  if (catchSignals) {
    signals.add(SIGINT);
    signals.add(SIGTERM);
    awaitSignal();
  }
  if (setup.talk)
    setup.talk->open([this](const Encoded &message) { channel->send(message); });
  ioThread = std::thread([this] {
    auto guard = asio::make_work_guard(io);
    io.run();
  });
  if (!handover)
    ioThread.detach(); // runs until the process ends
}

void Worker::leave() {
  const Doing::While leaves = doing.does("leaves the run", options.idle);
  if (setup.talk)
    setup.talk->close();
  handover->leave();       // afterwards all consequences of a failure are posted to `io`
  std::promise<void> said; // with that the transport has told its peers why
  asio::post(io, [&] { asio::post(io, [&said] { said.set_value(); }); }); // it may take a second turn
  said.get_future().wait();
  channel->close();
  std::promise<void> closed;
  asio::post(io, [&closed] { closed.set_value(); });
  closed.get_future().wait();
  io.stop();
  ioThread.join();
}

/// The issuing thread waits for messages of the controller; instructions wait for everything else.
std::vector<Wait> Worker::waits(plan::Time limit) {
  if (failure.raised())
    return {};
  std::vector<Wait> all = backend->waits(limit);
  if (const std::optional<Doing::What> what = doing.look(); what && what->waits)
    all.push_back({[this, text = what->text] {
                     return fmt::format("{}: no {} came from {}", identity.name(), text, setup.leader);
                   },
                   {kController},
                   what->since,
                   what->patient});
  return all;
}

/// What this process does, for others that wait. A host's first step may compile, so its limit is options.idle.
messages::Does Worker::does() {
  messages::Does does;
  const auto say = [&](const std::string &what, int64_t since, plan::Time limit) {
    does.what = what;
    does.lasts = watch.ran(since);
    does.limit = limit / 1000;
  };
  const std::optional<Pass> pass = backend->pass();
  if (pass && pass->isCall)
    say(pass->what, pass->since, options.deadline);
  else if (const std::optional<Doing::What> what = doing.look(); what && !what->waits)
    say(what->text, what->since, what->limit);
  else if (pass)
    say(pass->what, pass->since, handover && hosted <= first ? options.idle : options.deadline);
  std::set<int32_t> whom;
  for (const Wait &wait : waits(0))
    whom.insert(wait.whom.begin(), wait.whom.end());
  does.whom.assign(whom.begin(), whom.end());
  return does;
}

/// Sends a message to a process: through the controller if there is no connection.
bool Worker::send(int32_t to, const Encoded &message) {
  if (to == kController || !backend->say(to, message->header.kind, {message, &message->bytes}))
    channel->send(message);
  return true;
}

std::string Worker::title(int32_t process) const {
  if (process == kController || (process == 0 && setup.joined))
    return setup.leader;
  std::string text = identity.nameOf(process);
  if (setup.joined && size_t(process) < endpoints.size())
    text += " at " + endpoints[size_t(process)].address;
  return text;
}

/// The first signal ends the run in order. The next has its default effect: it kills the process.
void Worker::awaitSignal() {
  signals.async_wait([this](std::error_code error, int signal) {
    if (error)
      return;
    spdlog::info("{}: signal {} ({}): the run ends after the steps that are permitted", identity.name(), signal,
                 strsignal(signal));
    channel->send(messages::Stop{nameOf(signal)});
    signals.clear();
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
  });
}

/// Tells the controller of a failure, and waits, a second at most, until the message has left.
void Worker::conclude(const Status &status) {
  returned = true;
  if (status.ok())
    return;
  failure.raise(status);
  told.get_future().wait_for(std::chrono::seconds(1));
}

/// Reports the failure. If the issuing thread has not returned after a second, ends the process: a call of a driver may
/// never return.
void Worker::failedSomewhere() {
  const Status status = failure.status();
  channel->send(messages::Failed{status.message}, [this] { told.set_value(); });
  patience.expires_after(std::chrono::seconds(1));
  patience.async_wait([this, status](std::error_code error) {
    if (!error && !returned && !handover)
      _exit(int(status.code));
  });
}

void Worker::hear(messages::Table &&message) {
  endpoints = message.endpoints;
  mailbox.put(std::move(message));
}

void Worker::hear(messages::End &&message) {
  failure.raise(Status::run(fmt::format("{}: {}{}", where(), kEndedByController, message.message)));
}

void Worker::hear(messages::Decision &&message) {
  decisions.push_back({message.at, message.step, message.from, message.to, message.policy, message.why});
}

void Worker::hear(messages::Text &&message) {
  if (setup.talk)
    return setup.talk->hear(message);
  channel->refuse("a text, which only a host hears");
}

void Worker::hear(messages::Swapped &&message) {
  if (setup.talk)
    return setup.talk->hear(message);
  channel->refuse("the answer to a swap, which only a host hears");
}

void Worker::hear(messages::Drop &&message) {
  programs.erase(programs.lower_bound(message.program), programs.lower_bound(message.program + message.count));
}

void Worker::hear(messages::Permit &&message) {
  auto found = programs.find(message.program);
  if (found == programs.end() || !permits)
    return failure.raise(Status::run(
        fmt::format("{}: a permit names program {}, which was never prepared here", identity.name(), message.program)));
  if (JobFiller *filler = backend->job(); filler && message.level)
    filler->setLevel(*message.level);
  const Ready &ready = found->second;
  const std::vector<int32_t> &needs = ready.plan->variants.front().cut;
  const bool recuts = !needs.empty() && !cut.empty() && needs != cut;
  if (recuts)
    cut = needs;
  const bool shares = layout.place.shards > 1 && std::exchange(epoch, message.epoch) != message.epoch;
  permits->grant({message.until, message.epoch, ready.program, message.last, recuts ? ready.plan : nullptr,
                  shares ? ready.shares() : nullptr});
}

void Worker::hear(messages::Prepare &&message) {
  const int64_t program = message.program;
  if (!message.plan)
    return answer(program, programs.count(program)
                               ? Status{}
                               : Status::run(fmt::format("{}: there is no program {} here", identity.name(), program)));
  preparer.load(std::move(*message.plan), [this, program](Status status, Prepare::Made made) {
    asio::post(io, [this, program, status = std::move(status), made = std::move(made)] {
      for (size_t v = 0; status.ok() && v < made.variants.size(); ++v)
        programs[program + int64_t(v)] = {made.variants[v], made.plan, v};
      answer(program, status);
    });
  });
}

void Worker::answer(int64_t program, const Status &status) {
  channel->send(messages::Prepared{program, int(status.code), status.message});
}

void Worker::hear(messages::Measure &&message) {
  const Meter::Taken taken = meter.take(complete);
  messages::Measured measured{message.round, packSamples(taken.samples), {}};
  for (const auto &[step, end] : taken.steps)
    measured.steps.insert(measured.steps.end(), {step, end});
  channel->send(measured);
}

std::string Worker::where() const {
  std::string text = backend->head(0);
  return text.empty() ? identity.name() : text;
}

/// Sends the other processes what their transports must know about this one, and receives the same from them.
Status Worker::exchange() {
  Message own = backend->offer(memory);
  if (failure.raised())
    return failed();
  if (own.is_null())
    return {};
  channel->send(messages::Offer{std::move(own)});
  const std::optional<messages::Offers> all = mailbox.expect<messages::Offers>();
  return all ? backend->accept(Message(all->offers), memory) : failed();
}

/// Does everything that needs memory, time or files before the first step.
Status Worker::prepareRun(Gathering gathering) {
  const messages::Table &table = gathering.table;
  Status status;
  {
    const Doing::While makes = doing.does("makes its stages", options.idle);
    status = backend->open();
    if (status.ok())
      status = held.make(plan);
    if (status.ok())
      status = job.make(*plan, options);
  }
  if (!status.ok())
    return status;
  transport = &backend->connect(std::move(gathering.sockets));
  std::vector<const plan::Program *> all;
  for (const plan::Variant &variant : plan->variants)
    all.push_back(&variant.programs[size_t(layout.place.rank)]);
  status = memory.allocate(backend->device(), all);
  for (size_t v = 0; status.ok() && v < all.size(); ++v)
    status = memory.allocate(backend->device(), plan->variants[v], *all[v]);
  if (status.ok())
    status = exchange();
  std::vector<CallPoint> calls;
  for (const std::vector<CallPoint> &ofVariant : options.calls)
    calls.push_back(ofVariant[placeIn(layout.place)]);
  Prepare::Made made;
  if (status.ok())
    status = preparer.variants(calls, made);
  if (!status.ok())
    return status;
  evaluates.training = made.variants.front();
  for (size_t v = 0; v < made.variants.size(); ++v)
    programs[int64_t(v)] = {std::move(made.variants[v]), plan, v};
  complete = table.first;
  first = table.first;
  resumed = table.checkpoint;
  if (resumed) {
    const Doing::While loads = loading();
    job.load(*resumed);
    if (layout.place.shards == 1)
      if (status = held.load(*resumed); !status.ok())
        return Status::run(fmt::format("{}: {}", identity.name(), status.message));
  }
  permits = std::make_unique<Permits>(
      first, options.savesEvery(), doing, failure,
      Permits::Hooks{[this](int64_t step) { return begins(step); }, [this](int64_t step) { progress(step); },
                     [this](int64_t step) { return save(step); },
                     [this](int64_t step, const auto &next) { return recut(step, next); },
                     [this](int64_t step, const auto &variant) { return share(step, variant); },
                     isIdle() ? [this] { awaitOthers(); } : std::function<void()>()});
  return {};
}

/// Whether this rank has no instructions in any variant.
bool Worker::isIdle() const {
  return std::ranges::all_of(layout.executed, [](int64_t count) { return count == 0; });
}

void Worker::awaitOthers() {
  channel->send(messages::Waits{});
  mailbox.expect<messages::Rest>(true);
}

/// Waits until the host begins `step`, evaluates if due, and asks for the permit. False: the host wants no more steps,
/// or the run has failed.
bool Worker::begins(int64_t step) {
  hosted = step;
  bool begun = true;
  if (handover) {
    const Doing::While awaits = doing.does("is between two steps", options.idle);
    begun = handover->awaitStep(
        step, [this] { return interpreter->comeToRest(); }, [&](int64_t rounds) { return evaluate(step, rounds); });
  }
  if (!handover && savesBefore(step, first, options.evaluateEvery))
    begun = evaluate(step, 1);
  if (begun) {
    needed(step);
    return true;
  }
  if (!failure.raised())
    channel->send(messages::Finishes{step});
  return false;
}

/// Runs evaluations before `step`, with forwards of the variant that ran last.
bool Worker::evaluate(int64_t step, int64_t rounds) {
  const auto &last = interpreter->program();
  if (last && last != evaluates.training)
    evaluates = {last, nullptr};
  Status status;
  if (!evaluates.evaluation)
    status = Executable::makeEvaluation(evaluates.training, layout, memory, evaluates.evaluation);
  if (!status.ok())
    failure.raise(Status::run(fmt::format("{}: {}", identity.name(), status.message)));
  if (!status.ok() || !interpreter->comeToRest())
    return false;
  const int64_t begin = Clock::monotonic();
  if (!interpreter->evaluate(evaluates.evaluation, step, rounds))
    return false;
  evaluations.push_back({step, (Clock::monotonic() - begin) * 1000});
  meter.paused(evaluations.back().took);
  return true;
}

/// Asks the controller for the permit of `step`. If the step is permitted already, as many short steps are, asks at
/// most once a millisecond.
void Worker::needed(int64_t step) {
  const int64_t now = Clock::monotonic();
  if (!handover && now - sent < 1'000'000 && !permits->lacks(step))
    return;
  sent = now;
  channel->send(messages::Progress{complete.load(), step});
}

void Worker::progress(int64_t step) {
  complete = step;
  if (const std::optional<JobFiller::Paced> paces = job.paces())
    channel->send(messages::Paced{paces->solo, paces->filled});
  int64_t now = Clock::monotonic();
  if (now - sent < 1'000'000)
    return;
  sent = now;
  channel->send(messages::Progress{step, {}});
}

/// Saves the state after `step` steps. `recuts`: the process then waits for the others' layers.
bool Worker::save(int64_t step, bool recuts) {
  const Doing::While saves = doing.does("saves its state", options.idle);
  HeldStage::Saved states;
  Status status = held.save(step, states);
  if (status.ok() && kept)
    status = kept->keep(step, backend->takeEvents());
  if (!status.ok()) {
    failure.raise(Status::run(
        fmt::format("{}: the state after {} steps could not be saved: {}", identity.name(), step, status.message)));
    return false;
  }
  saved = step;
  messages::Saved message{step, std::move(states), held.savesByLayers(), recuts, {}, job.save(step), {}};
  if (layout.place.shards > 1)
    message.owned = held.owned();
  if (options.trace) // events up to a checkpoint stay in the trace, whatever becomes of this attempt
    message.events = packEvents(backend->takeEvents());
  channel->send(message);
  return true;
}

/// Exchanges layers with the other processes through a checkpoint: each process saves its layers and, once all have
/// saved, makes its new stages and loads their layers.
bool Worker::recut(int64_t step, const std::shared_ptr<const plan::Plan> &next) {
  held.saveByLayers();
  if (!save(step, true))
    return false;
  const std::optional<messages::Layers> all = mailbox.expect<messages::Layers>();
  if (!all)
    return false;
  Status status;
  {
    const Doing::While makes = doing.does("makes its stages", options.idle);
    status = held.make(next);
  }
  if (status.ok()) {
    const Doing::While loads = loading();
    status = held.load(all->checkpoint);
  }
  if (!status.ok())
    failure.raise(
        Status::run(fmt::format("{}: layers cut anew after {} steps: {}", identity.name(), step, status.message)));
  return status.ok();
}

bool Worker::share(int64_t step, const std::shared_ptr<const plan::Variant> &variant) {
  const Status status = held.share(variant, step);
  if (!status.ok())
    failure.raise(status);
  return status.ok();
}

/// Loads the state of a shard and sets its portions. Shards do so once they can talk to each other.
Status Worker::shareFirst() {
  if (layout.place.shards == 1)
    return {};
  Status status;
  if (resumed) {
    const Doing::While loads = loading();
    status = held.load(*resumed);
  }
  if (status.ok())
    return held.share({plan, &plan->variants.front()}, first);
  return Status::run(fmt::format("{}: {}", identity.name(), status.message));
}

/// Saves the last state, writes the trace, and reports.
Status Worker::finish() {
  backend->rest();
  int64_t end = permits->end();
  if (!options.checkpoint.empty() && end > first && saved != end && !save(end))
    return failed();
  RankReport report = summarize(backend->recorders());
  report.permitWaits = permits->waits();
  report.job = job.done();
  report.evaluations = evaluations;
  if (!report.job.ended.empty())
    spdlog::warn("{}: {}", identity.name(), report.job.ended);
  if (kept) {
    std::vector<trace::Event> events;
    Status status = kept->all(report.events, events);
    if (status.ok())
      status = writeTrace(options.ownTrace, {layout}, events,
                          identity.rank == 0 ? decisions : std::vector<trace::Decision>());
    if (!status.ok())
      return status;
    kept->clear();
  }
  if (!options.trace)
    report.events.clear();
  channel->send(toMessage(report));
  const std::optional<messages::Finish> finished = mailbox.expect<messages::Finish>();
  watch.rest();
  if (finished && setup.talk)
    setup.talk->hear(*finished);
  return finished ? Status{} : failed();
}

Status Worker::run() {
  watch.start();
  Gathering gathering;
  Status status;
  {
    const Doing::While meets = doing.does("meets the others", options.rendezvous);
    status = gather(setup, layout.reduces, io, *channel, mailbox, failure, gathering);
  }
  int64_t offset = gathering.clockOffset;
  if (status.ok())
    status = prepareRun(std::move(gathering));
  if (!status.ok())
    return status;
  channel->send(messages::Ready{});
  const std::optional<messages::Start> start = mailbox.expect<messages::Start>();
  if (!start)
    return failed();
  if (!options.ownTrace.empty())
    kept.emplace(options.checkpoint, identity.rank, options.attempt, first, start->since1970);
  backend->start(start->at + offset);
  if (status = shareFirst(); !status.ok())
    return failure.raised() ? failed() : status;
  interpreter.emplace(backend->device(), *transport, held.stage(), layout.queues.size(), ends());
  if (!interpreter->run(*permits, first)) {
    backend->abort();
    return failed();
  }
  status = finish();
  if (status.ok())
    held.free(); // only now: after a failure some of the stage's work may still run
  return status;
}

} // namespace

Status runWorker(const WorkerSetup &setup, asio::io_context &io, const std::shared_ptr<Channel> &control) {
  auto *worker = new Worker(setup, io, control);
  worker->start(setup.catchSignals);
  Status status;
  try {
    status = worker->run();
  } catch (const nlohmann::json::exception &) {
    status = Status::run(fmt::format(
        "{}: what the processes offer each other cannot be read: they are not of one release", setup.identity.name()));
  } catch (const std::exception &error) { // no memory
    status = Status::run(fmt::format("{}: {}", setup.identity.name(), error.what()));
  }
  worker->conclude(status);
  if (setup.options.hosted()) {
    const std::unique_ptr<Worker> ended(worker);
    ended->leave();
  }
  return status;
}

} // namespace pipec::runtime
