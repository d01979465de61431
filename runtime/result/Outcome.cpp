// Reading, predicting, and the JSON.
#include "runtime/result/Outcome.h"

#include "runtime/plan/Load.h"
#include "runtime/result/Transfers.h"
#include "runtime/simulate/Steps.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <sodium.h>
#include <tuple>
#include <utility>

namespace pipec::runtime {

namespace {

std::vector<double> allMilliseconds(const std::vector<plan::Time> &times) {
  std::vector<double> result;
  for (plan::Time time : times)
    result.push_back(milliseconds(double(time)));
  return result;
}

// CPU time of each process as part of the run's wall time.
std::vector<double> cpuShares(const Outcome &outcome) {
  std::vector<double> shares;
  for (double seconds : outcome.result.cpuSeconds)
    shares.push_back(seconds / outcome.result.wallSeconds);
  return shares;
}

Lateness permitWaitsOf(const Outcome &outcome) {
  Lateness all;
  for (const RankReport &rank : outcome.result.run.ranks)
    all.merge(rank.permitWaits);
  return all;
}

/// Of each step that was run.
std::vector<int64_t> epochsOf(const RunResult &run) {
  std::vector<int64_t> epochs(size_t(run.end - run.first), 0);
  for (const Epoch &epoch : run.epochs)
    std::fill(epochs.begin() + (epoch.from - run.first), epochs.end(), epoch.epoch);
  return epochs;
}

/// Of each process: the own time of a step, in milliseconds, and how many times it is that of a healthy shard.
std::pair<nlohmann::ordered_json, nlohmann::ordered_json> ownOf(const RunResult &run) {
  nlohmann::ordered_json times = nlohmann::ordered_json::array(), factors = times;
  const auto steps = double(std::max<int64_t>(run.end - run.first, 1));
  for (const RankReport &process : run.ranks) {
    double own = 0, planned = 0;
    for (const OwnTimes &step : process.own) {
      own += double(step.own);
      planned += double(step.planned);
    }
    times.push_back(milliseconds(own) / steps);
    factors.push_back(planned == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(own / planned));
  }
  return {std::move(times), std::move(factors)};
}

/// What the job of each process got done.
nlohmann::ordered_json jobsOf(const Outcome &outcome) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t process = 0; process != outcome.result.run.ranks.size(); ++process) {
    const JobDone &done = outcome.result.run.ranks[process].job;
    if (done.job < 0)
      continue;
    const plan::Job &job = outcome.plan->variants.front().jobs[size_t(done.job)];
    rows.push_back({{"name", job.name},
                    {"rank", outcome.plan->placeOf(int32_t(process)).rank},
                    {"pieces", done.pieces},
                    {"samples", double(done.atoms) / double(job.atoms) * double(job.samples)},
                    {"failed", done.ended.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(done.ended)}});
  }
  return rows;
}

nlohmann::ordered_json rowsOf(const std::vector<Evaluated> &evaluations) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Evaluated &each : evaluations)
    rows.push_back({{"step", each.step}, {"ms", milliseconds(double(each.took))}});
  return rows;
}

/// A step of all processes in the median, without and with pieces; 0: not known.
std::pair<plan::Time, plan::Time> pacesOf(const Outcome &outcome) {
  std::pair<plan::Time, plan::Time> longest{0, 0};
  for (const RankReport &rank : outcome.result.run.ranks) {
    longest.first = std::max(longest.first, rank.job.solo);
    longest.second = std::max(longest.second, rank.job.filled);
  }
  return longest;
}

/// The same steps in virtual time.
Status simulateRun(const plan::Plan &plan, const RunResult &run, const RunOptions &options,
                   std::vector<plan::Time> &times) {
  std::vector<simulate::Stretch> stretches;
  for (size_t e = 0; e < run.epochs.size(); ++e) {
    const int64_t end = e + 1 < run.epochs.size() ? run.epochs[e + 1].from : run.end;
    stretches.push_back({&variantOf(plan, run.loaded, run.epochs[e].program), end - run.epochs[e].from});
  }
  return simulate::stepTimes(stretches, options.network.get(), times, launchOf(options));
}

} // namespace

std::vector<Evaluated> evaluationsOf(const Outcome &outcome) {
  std::vector<Evaluated> all;
  for (const RankReport &rank : outcome.result.run.ranks)
    for (size_t n = 0; n != rank.evaluations.size(); ++n) {
      if (n == all.size())
        all.push_back(rank.evaluations[n]);
      all[n].took = std::max(all[n].took, rank.evaluations[n].took);
    }
  return all;
}

Lateness latenessOf(const Outcome &outcome) {
  Lateness all;
  for (const RankReport &rank : outcome.result.run.ranks)
    all.merge(rank.lateness);
  return all;
}

const char *nameOf(Pace pace) { return pace == Pace::Carry ? "carry" : pace == Pace::Naive ? "naive" : "none"; }

Status readProved(const std::string &path, plan::Plan &plan, std::array<uint8_t, 32> &hash) {
  std::vector<uint8_t> bytes;
  Status status = plan::readFile(path, bytes);
  if (status.ok())
    status = plan::decode(bytes, plan);
  if (status.ok())
    status = plan::verify(plan);
  crypto_generichash(hash.data(), hash.size(), bytes.data(), bytes.size(), nullptr, 0);
  for (size_t v = 0; status.ok() && v < plan.variants.size(); ++v) {
    simulate::Result proof;
    status = simulate::prove(plan.variants[v], proof);
  }
  return status;
}

plan::Time longestStep(const plan::Plan &plan, const RunOptions &run) {
  const simulate::Scenario *network = run.network.get();
  plan::Time longest = 0;
  simulate::Options options;
  options.steps = run.steps;
  options.scenario = network;
  options.launch = launchOf(run);
  for (const plan::Variant &variant : plan.variants) {
    longest = std::max({longest, variant.certificate.makespan, variant.certificate.span});
    std::vector<plan::Time> times;
    if (network && simulate::stepTimes(variant, options, times).ok())
      longest = std::max(longest, *std::max_element(times.begin(), times.end()));
  }
  return longest;
}

std::string traceOf(const std::string &path, int32_t process) {
  const std::filesystem::path name(path);
  return (name.parent_path() / fmt::format("{}.{}{}", name.stem().string(), process, name.extension().string()))
      .string();
}

Status conclude(const RunOptions &given, Outcome &outcome) {
  const RunResult &run = outcome.result.run;
  outcome.measured = measuredSteps(run.ranks, run.first, run.end);
  const plan::Variant &first = outcome.plan->variants.front();
  outcome.predicted = {first.certificate.span, first.certificate.makespan};
  simulate::Options options;
  options.launch = launchOf(given);
  if (first.launchOrder != (options.launch == simulate::Launch::InOrder)) {
    simulate::Result result;
    if (Status status = simulate::span(first, outcome.predicted.span, result, options); !status.ok())
      return status;
    outcome.predicted.makespan = result.makespan;
  }
  return simulateRun(*outcome.plan, run, given, outcome.simulated);
}

std::string toJson(const Outcome &outcome) {
  Lateness lateness = latenessOf(outcome), waits = permitWaitsOf(outcome);
  const RunResult &run = outcome.result.run;
  nlohmann::ordered_json json{
      {"ranks", outcome.plan->ranks()},
      {"degree", outcome.plan->degree()},
      {"shards", outcome.plan->shards()},
      {"processes", outcome.plan->world()},
      {"first_step", run.first},
      {"steps", run.end},
      {"steps_asked", outcome.asked},
      {"ended", run.ended},
      {"started_at_ns", run.startedAt}, // of CLOCK_MONOTONIC
      {"step_ms", allMilliseconds(outcome.measured)},
      {"simulated_step_ms", allMilliseconds(outcome.simulated)},
      {"predicted_ms", milliseconds(double(outcome.predicted.span))},
      {"span_ms", milliseconds(double(outcome.predicted.span))},
      {"makespan_ms", milliseconds(double(outcome.predicted.makespan))},
      {"lateness_ms",
       {{"mean", milliseconds(lateness.mean())},
        {"p50", milliseconds(lateness.quantile(0.5))},
        {"p99", milliseconds(lateness.quantile(0.99))},
        {"max", milliseconds(double(lateness.max()))}}},
      {"swaps", run.epochs.size() - 1},
      {"lost_steps", outcome.result.lostSteps},
      {"epochs", epochsOf(run)},
      {"permit_wait_ms", {{"p50", milliseconds(waits.quantile(0.5))}, {"max", milliseconds(double(waits.max()))}}},
      {"restarts", outcome.result.restarts},
      {"checkpoint_step", run.checkpoint < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(run.checkpoint)},
      {"emulate", nameOf(outcome.pace)},
      {"device", outcome.device},
      {"transport", outcome.transport},
      {"communicator", outcome.communicator},
      {"stage", outcome.stage},
      {"idle_cpu", cpuShares(outcome)},
      {"pids", outcome.result.pids},
      {"adapt", run.adapt},
      {"own_ms", nullptr},
      {"factors", nullptr},
      {"jobs", jobsOf(outcome)},
      {"evaluations", rowsOf(evaluationsOf(outcome))},
      {"solo_ms", nullptr},
      {"slow_down", nullptr},
  };
  if (const auto [solo, filled] = pacesOf(outcome); solo > 0) {
    json["solo_ms"] = milliseconds(double(solo));
    json["slow_down"] = double(filled) / double(solo) - 1;
  }
  if (outcome.plan->shards() > 1)
    std::tie(json["own_ms"], json["factors"]) = ownOf(run);
  return json.dump();
}

} // namespace pipec::runtime
