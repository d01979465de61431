// The states of a request: its file is read; processes are asked to prepare; all are ready and the swap waits for its
// step; done.
#include "runtime/launch/Swaps.h"

#include "runtime/launch/Prepare.h"
#include "runtime/plan/Load.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

namespace pipec::runtime {

using namespace std::chrono_literals;

Swaps::Swaps(asio::io_context &io, std::shared_ptr<const plan::Plan> plan, Conductor &conductor, plan::Time deadline,
             bool every, bool stepwise, Links links)
    : io(io), running(std::move(plan)), conductor(conductor),
      patience(deadline > 0 ? std::chrono::nanoseconds(deadline / 1000) : std::chrono::nanoseconds(1min)), every(every),
      stepwise(stepwise), links(std::move(links)), timer(io), held(running->variants.front().cut),
      nextProgram(int64_t(running->variants.size())) {}

Swaps::~Swaps() {
  if (reader)
    reader->join();
}

const plan::Variant &variantOf(const plan::Plan &own, const Loaded &loaded, int64_t program) {
  const auto after = loaded.upper_bound(program);
  if (after == loaded.begin())
    return own.variants[size_t(program)];
  const auto &[first, plan] = *std::prev(after);
  return plan->variants[size_t(program - first)];
}

std::string Swaps::nameOf(int64_t program) const {
  const std::string &name = variantOf(*running, plans, program).name;
  const auto after = names.upper_bound(program);
  if (after == names.begin())
    return name.empty() ? fmt::format("variant {}", program) : fmt::format("variant {} ({})", program, name);
  const auto &[first, of] = *std::prev(after);
  return plans.at(first)->variants.size() == 1 ? of : fmt::format("{}, variant {}", of, program - first);
}

/// A permit covers one step and is asked for shortly before that step. If steps are shorter than the horizon, a permit
/// covers as many as fill it, at most kMost.
int64_t Swaps::aheadOf(int64_t program) const {
  if (stepwise)
    return 1;
  constexpr plan::Time kMost = 1000;
  const plan::Time span = std::max<plan::Time>(variantOf(*running, plans, program).certificate.span, 1);
  const plan::Time horizon = adapt::horizonOf(span);
  return span >= horizon ? 1 : std::clamp<plan::Time>((horizon + span - 1) / span, 2, kMost);
}

Status Swaps::find(const std::string &text, int64_t &found) const {
  int64_t count = int64_t(running->variants.size());
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found);
  if (error == std::errc() && end == text.data() + text.size() && found >= 0 && found < count)
    return {};
  std::string names;
  for (found = 0; found < count; ++found) {
    if (running->variants[size_t(found)].name == text)
      return {};
    names += fmt::format("{}{}", found == 0 ? "" : ", ", nameOf(found));
  }
  return Status::usage(fmt::format("there is no variant \"{}\"; the plan has {}", text, names));
}

void Swaps::swap(const std::string &text, Done done) {
  int64_t variant = 0;
  Status status = find(text, variant);
  if (!status.ok())
    return done(std::move(status), {});
  queue.push_back({variant, {}, {}, std::move(done)});
  next();
}

void Swaps::agree(const std::string &text, Agreed agreed) {
  int64_t variant = 0;
  if (Status status = find(text, variant); !status.ok())
    return agreed(std::move(status), 0);
  const auto same = std::ranges::find_if(
      queue, [&](const Request &each) { return !each.loading && each.program == variant && !each.told.empty(); });
  if (same == queue.end()) {
    queue.push_back(
        {.program = variant, .done = [](const Status &, const std::optional<Epoch> &) {}, .told = {agreed}});
    next();
    return giveWay();
  }
  same->told.push_back(std::move(agreed));
  if (same->ready)
    tell(*same, {}, holdsFrom());
}

/// The first step of a swap that is ready. The current epoch has at least one step.
int64_t Swaps::holdsFrom() const { return std::max(conductor.open(), conductor.current().from + 1); }

/// Cancels the ready swap if the next request comes from a host. The host begins no step before all have agreed to its
/// request, so the ready swap would never take effect.
void Swaps::giveWay() {
  if (!busy || !queue.front().ready || queue.size() < 2 || queue[1].told.empty())
    return;
  conductor.withdraw();
  finish(Status::run("another swap took its place"));
}

/// Calls each listener once. If the request is still pending, listeners that come later are called by a later call.
void Swaps::tell(Request &request, const Status &status, int64_t from) {
  for (const Agreed &agreed : request.told)
    if (agreed)
      agreed(status, from);
  std::ranges::fill(request.told, Agreed());
}

void Swaps::load(const std::string &path, Done done) {
  queue.push_back({-1, path, path, std::move(done), true});
  next();
}

void Swaps::offer(const std::string &path, const std::string &name, Done done) {
  queue.push_back({-1, path, name.empty() ? path : name, std::move(done), true, false});
  next();
}

void Swaps::recut(const std::string &path, const std::string &name, Done done) {
  queue.push_back({-1, path, name, std::move(done), true, true, true});
  next();
}

/// Checks that the present stages can run the program, or, if layers may move, that both cuts are known.
Status Swaps::goesWith(const Request &request) const {
  const plan::Variant &variant = variantOf(*running, plans, request.program);
  if (!request.recuts)
    return compareCut(variant, held);
  if (variant.cut.empty() || held.empty())
    return Status::check(fmt::format("the plan{} does not say which layers its stages hold: its spec has no layers",
                                     variant.cut.empty() ? "" : " that runs"));
  return {};
}

/// Records that from this epoch on the stages have the cut of its program.
void Swaps::hold(const Epoch &epoch) {
  const std::vector<int32_t> &needs = variantOf(*running, plans, epoch.program).cut;
  if (needs.empty() || needs == held)
    return;
  moves.push_back({epoch.from, std::exchange(held, needs), needs, nameOf(epoch.program)});
  spdlog::warn("step {}: the layers are cut {} in place of {}, for {}", epoch.from, fmt::join(needs, "-"),
               fmt::join(moves.back().from, "-"), moves.back().name);
  links.recut(moves.back());
}

void Swaps::start() {
  started = true;
  next();
}

/// Begins the next request, if none is under way.
void Swaps::next() {
  if (!started || busy)
    return;
  if (over.empty() && conductor.over())
    over = "the run's last steps are already permitted: no swap can take effect";
  if (queue.empty() && every && over.empty() && running->variants.size() > 1)
    queue.push_back({(conductor.current().program + 1) % int64_t(running->variants.size())});
  if (queue.empty())
    return;
  busy = true;
  Request &request = queue.front();
  if (!over.empty())
    return finish(Status::run(over));
  if (request.program == conductor.current().program)
    return finish({}, conductor.current());
  request.agreed.assign(size_t(running->world()), false);
  if (request.loading) {
    request.program = nextProgram;
    return read(request);
  }
  if (Status status = goesWith(request); status.ok())
    ask(messages::encode(messages::Prepare{request.program, {}}));
  else
    finish(std::move(status));
}

/// Reads and checks the file, once for all processes. A bad plan is refused here, and no process is asked.
void Swaps::read(const Request &request) {
  if (!reader)
    reader.emplace(1);
  asio::post(*reader, [this, path = request.path, name = request.name, program = request.program] {
    lowerPriority();
    Status status;
    std::vector<simulate::Result> proofs;
    auto plan = std::make_shared<plan::Plan>();
    Encoded message;
    try {
      std::vector<uint8_t> bytes;
      std::error_code ignored;
      if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
        status = Status::input(path + ": is no file"); // reading a pipe or a device might never end
      else
        status = plan::readFile(path, bytes);
      if (status.ok())
        status = readSuccessor(bytes, *running, *plan, proofs);
      if (status.ok())
        message = messages::encode(messages::Prepare{program, std::move(bytes)});
    } catch (const std::exception &error) { // out of memory
      status = Status::run(error.what());
    }
    asio::post(io, [this, program, name, status, plan, message] {
      if (!busy || queue.front().program != program)
        return; // the run has ended meanwhile
      if (!status.ok())
        return finish(status);
      plans[program] = plan;
      names[program] = name;
      nextProgram += int64_t(plan->variants.size());
      if (Status fits = goesWith(queue.front()); !fits.ok())
        return finish(std::move(fits));
      ask(message);
    });
  });
}

void Swaps::ask(const Encoded &message) {
  links.broadcast(message);
  timer.expires_after(patience);
  timer.async_wait([this](std::error_code error) {
    if (!error && busy)
      finish(Status::run(fmt::format("{} did not answer within {:g} s: no swap", silent(),
                                     std::chrono::duration<double>(patience).count())));
  });
}

std::string Swaps::silent() const {
  std::string text;
  const std::vector<bool> &agreed = queue.front().agreed;
  for (size_t rank = 0; rank < agreed.size(); ++rank)
    if (!agreed[rank])
      text += (text.empty() ? "" : ", ") + links.title(int32_t(rank));
  return text;
}

void Swaps::answered(int32_t rank, const messages::Prepared &message) {
  if (!busy || queue.front().program != message.program || queue.front().ready)
    return; // an answer that came too late
  Request &request = queue.front();
  Status status{Code(message.code), message.message};
  if (!status.ok()) {
    status.message = fmt::format("{} refused: {}", links.title(rank), status.message);
    return finish(std::move(status));
  }
  request.agreed.at(size_t(rank)) = true;
  if (!std::all_of(request.agreed.begin(), request.agreed.end(), [](bool agreed) { return agreed; }))
    return;
  timer.cancel();
  request.ready = true;
  if (request.loading)
    stays[request.program] = links.loaded(request.program, plans.at(request.program));
  if (!request.swapping)
    return finish({});
  conductor.ready(request.program, aheadOf(request.program));
  tell(request, {}, holdsFrom());
  links.advance();
  giveWay();
}

void Swaps::advanced() {
  if (busy && !conductor.waiting() && conductor.current().program == queue.front().program) {
    hold(conductor.current());
    return finish({}, conductor.current());
  }
  if (busy && conductor.over())
    return finish(Status::run("the run's last steps were permitted before the swap could begin"));
  next();
}

void Swaps::drop(int64_t firstProgram) {
  const auto found = plans.find(firstProgram);
  const int64_t count = found == plans.end() ? 1 : int64_t(found->second->variants.size());
  const int64_t current = conductor.current().program;
  if (current < firstProgram || current >= firstProgram + count)
    links.broadcast(messages::encode(messages::Drop{firstProgram, count}));
}

/// Drops the loaded plan of a program that no longer runs, unless the plan is to stay ready.
void Swaps::leave(int64_t program) {
  const auto after = stays.upper_bound(program);
  if (after != stays.begin() && !std::prev(after)->second)
    drop(std::prev(after)->first);
}

void Swaps::finish(Status status, std::optional<Epoch> epoch) {
  Request request = std::move(queue.front());
  queue.pop_front();
  timer.cancel();
  if (epoch) {
    spdlog::info("epoch {} from step {}: {}", epoch->epoch, epoch->from, nameOf(epoch->program));
    if (epoch->epoch > 0)
      leave(conductor.epochs()[size_t(epoch->epoch) - 1].program); // steps that still run it keep it alive
  } else if (!status.ok() && request.program >= 0 && request.loading) {
    drop(request.program);
    plans.erase(request.program);
    names.erase(request.program);
    stays.erase(request.program);
  }
  if (!status.ok() && !request.done && !conductor.over() && over.empty()) {
    spdlog::warn("no further swaps: {}", status.message);
    every = false;
  }
  busy = false;
  tell(request, status, epoch ? epoch->from : 0);
  if (request.done)
    request.done(std::move(status), epoch);
  asio::post(io, [this] { next(); });
}

void Swaps::end(const std::string &why) {
  over = why;
  started = true;
  if (busy)
    finish(Status::run(why));
  else
    next();
}

} // namespace pipec::runtime
