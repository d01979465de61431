// The functions of pipec_run.h. No exception leaves them.
#include "runtime/embed/HostRun.h"
#include "runtime/launch/MessageStream.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <initializer_list>
#include <new>
#include <spdlog/spdlog.h>
#include <unistd.h>

using pipec::Status;
using pipec::embed::HostRun;

struct PipecRun {
  std::unique_ptr<HostRun> run;
  const pid_t process = getpid(); // which opened it
};

namespace {

/// The exit code of what `call` says, with its message.
template <typename Call> int answer(PipecRunError *error, Call call) {
  Status status;
  try {
    status = call();
  } catch (const std::exception &thrown) { // no memory, mostly
    status = Status::run(thrown.what());
  }
  if (status.ok())
    return 0;
  if (error) {
    const size_t length = std::min(status.message.size(), sizeof error->message - 1);
    std::copy_n(status.message.data(), length, error->message);
    error->message[length] = 0;
  }
  return int(status.code);
}

/// What the caller passes, whatever its header knew of the struct.
template <typename Struct> Struct whole(const Struct &given) {
  Struct all{};
  std::copy_n(reinterpret_cast<const char *>(&given), std::min<size_t>(given.size, sizeof all),
              reinterpret_cast<char *>(&all));
  return all;
}

/// A struct begins with its size, which the caller sets. Without its first `least` bytes it says nothing.
Status sized(uint32_t size, size_t least) {
  return size >= least ? Status{} : Status::usage(fmt::format("a struct's size is {}: set it to sizeof", size));
}

Status null() { return Status::usage("a pointer that must not be NULL is"); }

/// A child that was forked has the memory of its parent's runs, but not their threads: no call with one could end. What
/// a run holds (its folder, its sockets) is the parent's.
bool isOwn(const PipecRun *run) { return run->process == getpid(); }

/// As answer(), of a call that uses a run and other pointers, none of which may be NULL.
template <typename Call>
int onRun(const PipecRun *run, std::initializer_list<const void *> others, PipecRunError *error, Call call) {
  return answer(error, [&] {
    if (!run || std::count(others.begin(), others.end(), nullptr) > 0)
      return null();
    return isOwn(run) ? call()
                      : Status::usage(fmt::format("the run is of process {}, this is its child {}: a child opens runs "
                                                  "of its own",
                                                  run->process, getpid()));
  });
}

} // namespace

uint32_t pipec_run_version(void) { return PIPEC_RUN_VERSION; }

int pipec_run_facts(const char *plan, const char **json, PipecRunError *error) {
  thread_local std::string facts;
  return answer(error, [&] {
    if (!plan || !json)
      return null();
    Status status = pipec::embed::readFacts(plan, facts);
    *json = facts.c_str();
    return status;
  });
}

int pipec_run_open(const PipecRunSetup *setup, PipecRun **run, PipecRunError *error) {
  return answer(error, [&] {
    if (!setup || !run)
      return null();
    *run = nullptr;
    if (const Status status = sized(setup->size, offsetof(PipecRunSetup, plan) + sizeof setup->plan); !status.ok())
      return status;
    if (!spdlog::get("pipec")) {
      pipec::runtime::logToStandardError("pipec");
      spdlog::set_level(spdlog::level::warn);
    }
    auto made = std::make_unique<PipecRun>();
    Status status = HostRun::open(whole(*setup), made->run);
    if (status.ok())
      *run = made.release();
    return status;
  });
}

int pipec_run_next(PipecRun *run, PipecRunInstruction *instruction, PipecRunError *error) {
  return onRun(run, {instruction}, error, [&] {
    const Status status = sized(instruction->size, offsetof(PipecRunInstruction, stage));
    return status.ok() ? run->run->next(*instruction) : status;
  });
}

int pipec_run_done(PipecRun *run, const PipecRunResult *result, PipecRunError *error) {
  return onRun(run, {}, error, [&] {
    if (!result)
      return run->run->done({});
    const Status status = sized(result->size, offsetof(PipecRunResult, error) + sizeof result->error);
    return status.ok() ? run->run->done(whole(*result)) : status;
  });
}

int pipec_run_finish(PipecRun *run, PipecRunError *error) {
  return onRun(run, {}, error, [&] { return run->run->finish(); });
}

int pipec_run_drain(PipecRun *run, PipecRunError *error) {
  return onRun(run, {}, error, [&] { return run->run->drain(); });
}

int pipec_run_evaluate(PipecRun *run, int64_t rounds, PipecRunError *error) {
  return onRun(run, {}, error, [&] { return run->run->evaluate(rounds); });
}

int pipec_run_swap(PipecRun *run, const char *variant, int64_t *from, PipecRunError *error) {
  return onRun(run, {variant}, error, [&] {
    int64_t step = 0;
    Status status = run->run->swap(variant, step);
    if (from)
      *from = step;
    return status;
  });
}

int pipec_run_stop(PipecRun *run, PipecRunError *error) {
  return onRun(run, {}, error, [&] { return run->run->stop(); });
}

int pipec_run_put(PipecRun *run, const char *key, const char *text, PipecRunError *error) {
  return onRun(run, {key, text}, error, [&] { return run->run->put(key, text); });
}

int pipec_run_get(PipecRun *run, const char *key, const char **text, PipecRunError *error) {
  return onRun(run, {key, text}, error, [&] { return run->run->get(key, *text); });
}

int pipec_run_report(PipecRun *run, const char **json, PipecRunError *error) {
  return onRun(run, {json}, error, [&] { return run->run->report(*json); });
}

void pipec_run_close(PipecRun *run, const char *why) {
  if (run && !isOwn(run))
    return; // and its memory stays: whoever frees it waits for its threads
  if (run)
    run->run->close(why ? why : "");
  delete run;
}
