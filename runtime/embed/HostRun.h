// One rank of a run inside a host program: the functions of pipec_run.h in C++.
#pragma once

#include "runtime/embed/Talk.h"
#include "runtime/embed/pipec_run.h"
#include "runtime/launch/Joined.h"
#include "runtime/stage/hosted/Handover.h"

#include <memory>
#include <string>
#include <thread>

namespace pipec::embed {

/// What a host must know about a plan (pipec_run_facts).
Status readFacts(const std::string &path, std::string &json);

/// Why a host cannot run a plan; ok: it can.
Status checkHosted(const plan::Plan &plan);

class HostRun {
public:
  /// Checks everything that one process can check, and begins to meet the others.
  static Status open(const PipecRunSetup &setup, std::unique_ptr<HostRun> &run);
  ~HostRun();

  // As in pipec_run.h; errors are Code::Run once the run has failed.

  Status next(PipecRunInstruction &instruction);
  Status done(const PipecRunResult &result);
  Status finish();
  Status drain();
  Status evaluate(int64_t rounds);
  Status swap(const std::string &variant, int64_t &from);
  Status stop();
  Status put(const std::string &key, const std::string &text);
  Status get(const std::string &key, const char *&text);
  Status report(const char *&json);
  /// The reason that other ranks are told if the run has not ended.
  void close(const std::string &why);

private:
  explicit HostRun(runtime::JoinedSetup setup);
  Status take(const PipecRunSetup &setup);
  Status takeFiles(const PipecRunSetup &given);
  Status takeLayers(const PipecRunSetup &setup);
  Status refusal() const;
  std::string reportOf(const runtime::RunResult &result) const;
  void begin();
  Status failed() const { return handover.failed(); }

  runtime::JoinedSetup setup;
  plan::Place place;
  runtime::Handover handover;
  Talk talk;
  runtime::ControlSocket control;
  runtime::FolderHold hold;
  runtime::RunResult result;
  std::thread thread; // the issuing thread
  runtime::Duty duty; // the last instruction that was given to the host
  std::string text;   // the last text that get() found
  std::string json;
  bool between = false; // between two steps: the host has confirmed the end of the last one
  bool ended = false;
};

} // namespace pipec::embed
