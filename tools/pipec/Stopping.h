// What ends a search early: the time of --time, and Ctrl-C.
#pragma once

#include "runtime/plan/Status.h"

#include <atomic>
#include <csignal>
#include <stop_token>
#include <string>
#include <thread>

namespace pipec {

/// "10s" → milliseconds, at least 1; empty: 0.
Status readTime(const std::string &time, int64_t &milliseconds);

/// Asks for a stop after `milliseconds` from now (0: never), and, if `byInterrupt`, at SIGINT. After one SIGINT the
/// next ends the process at once. If SIGINT is ignored, as in background jobs, it stays ignored. Make this object
/// before any other thread: threads made later leave SIGINT to this one.
class Stopping {
public:
  Stopping(int64_t milliseconds, bool byInterrupt);
  ~Stopping();
  Stopping(const Stopping &) = delete;

  std::stop_token token() const { return source.get_token(); }
  /// What asked for the stop: "--time", "SIGINT"; empty: nothing yet.
  std::string by() const { return cause.load(); }

  /// The exit code of a program that SIGINT ended, as shells report it.
  static constexpr int kInterrupted = 128 + SIGINT;

private:
  void watch(int64_t milliseconds);

  std::stop_source source;
  std::atomic<const char *> cause = "";
  sigset_t before{};
  int interrupts = -1, ends = -1; // a signalfd, an eventfd
  std::thread thread;
};

} // namespace pipec
