// JSON and text of a run. Milliseconds as full doubles in JSON.
#include "tools/piperun/Output.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace pipec::piperun {

static double milliseconds(double picoseconds) { return picoseconds / 1e9; }

static std::vector<double> milliseconds(const std::vector<plan::Time> &times) {
  std::vector<double> result;
  for (plan::Time time : times)
    result.push_back(milliseconds(double(time)));
  return result;
}

static runtime::Lateness latenessOf(const Outcome &outcome) {
  runtime::Lateness all;
  for (const runtime::RankReport &rank : outcome.result.run.ranks)
    all.merge(rank.lateness);
  return all;
}

// CPU time of each process as part of the run's wall time.
static std::vector<double> cpuShares(const Outcome &outcome) {
  std::vector<double> shares;
  for (double seconds : outcome.result.cpuSeconds)
    shares.push_back(seconds / outcome.result.wallSeconds);
  return shares;
}

static const char *nameOf(runtime::Pace pace) {
  return pace == runtime::Pace::Carry ? "carry" : pace == runtime::Pace::Naive ? "naive" : "none";
}

static runtime::Lateness permitWaitsOf(const Outcome &outcome) {
  runtime::Lateness all;
  for (const runtime::RankReport &rank : outcome.result.run.ranks)
    all.merge(rank.permitWaits);
  return all;
}

/// Of each step that was run.
static std::vector<int64_t> epochsOf(const runtime::RunResult &run) {
  std::vector<int64_t> epochs(size_t(run.end - run.first), 0);
  for (const runtime::Epoch &epoch : run.epochs)
    std::fill(epochs.begin() + (epoch.from - run.first), epochs.end(), epoch.epoch);
  return epochs;
}

/// Of each process: the own time of a step, in milliseconds, and how many times it is that of a healthy shard.
static std::pair<nlohmann::ordered_json, nlohmann::ordered_json> ownOf(const runtime::RunResult &run) {
  nlohmann::ordered_json times = nlohmann::ordered_json::array(), factors = times;
  const auto steps = double(std::max<int64_t>(run.end - run.first, 1));
  for (const runtime::RankReport &process : run.ranks) {
    double own = 0, planned = 0;
    for (const runtime::OwnTimes &step : process.own) {
      own += double(step.own);
      planned += double(step.planned);
    }
    times.push_back(milliseconds(own) / steps);
    factors.push_back(planned == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(own / planned));
  }
  return {std::move(times), std::move(factors)};
}

/// What the job of each process got done.
static nlohmann::ordered_json jobsOf(const Outcome &outcome) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t process = 0; process != outcome.result.run.ranks.size(); ++process) {
    const runtime::JobDone &done = outcome.result.run.ranks[process].job;
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

/// A step of all processes in the median, without and with pieces; 0: not known.
static std::pair<plan::Time, plan::Time> pacesOf(const Outcome &outcome) {
  std::pair<plan::Time, plan::Time> longest{0, 0};
  for (const runtime::RankReport &rank : outcome.result.run.ranks) {
    longest.first = std::max(longest.first, rank.job.solo);
    longest.second = std::max(longest.second, rank.job.filled);
  }
  return longest;
}

/// "vgg: 412 pieces, 58.2 samples": of all ranks.
static std::string jobsText(const Outcome &outcome) {
  std::map<int32_t, std::pair<int64_t, int64_t>> done; // pieces and atoms, by job
  std::string text;
  for (const runtime::RankReport &rank : outcome.result.run.ranks)
    if (rank.job.job >= 0) {
      done[rank.job.job].first += rank.job.pieces;
      done[rank.job.job].second += rank.job.atoms;
    }
  for (const auto &[index, counts] : done) {
    const plan::Job &job = outcome.plan->variants.front().jobs[size_t(index)];
    text += fmt::format("job {}: {} pieces, {:.1f} samples\n", job.name, counts.first,
                        double(counts.second) / double(job.atoms) * double(job.samples));
  }
  return text;
}

std::string toJson(const Outcome &outcome) {
  runtime::Lateness lateness = latenessOf(outcome), waits = permitWaitsOf(outcome);
  const runtime::RunResult &run = outcome.result.run;
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
      {"step_ms", milliseconds(outcome.measured)},
      {"simulated_step_ms", milliseconds(outcome.simulated)},
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

static double deviation(plan::Time measured, plan::Time simulated) {
  return simulated == 0 ? 0 : 100 * (double(measured) - double(simulated)) / double(simulated);
}

/// What became of the steps that were asked for, where that is not just that they were done.
static std::string endText(const Outcome &outcome) {
  const runtime::RunResult &run = outcome.result.run;
  if (run.first >= outcome.asked)
    return fmt::format("nothing is left to do: the checkpoint is of {} steps, {} are asked for\n", run.first,
                       outcome.asked);
  if (run.ended == "done")
    return "";
  return fmt::format("{} ended the run: {} of {} steps are done\n",
                     run.ended == "stop" ? "a stop at its control socket" : run.ended, run.end, outcome.asked);
}

std::string toText(const Outcome &outcome) {
  if (outcome.measured.empty())
    return endText(outcome);
  constexpr size_t kRows = 20;
  std::string text = fmt::format("{:>6} {:>14} {:>14} {:>10}\n", "step", "measured ms", "simulated ms", "deviation");
  double sum = 0;
  size_t first = size_t(outcome.result.run.first);
  for (size_t s = 0; s < outcome.measured.size(); ++s) {
    double off = deviation(outcome.measured[s], outcome.simulated[s]);
    sum += std::abs(off);
    if (s < kRows)
      text += fmt::format("{:>6} {:>14.4f} {:>14.4f} {:>+9.3f}%\n", first + s,
                          milliseconds(double(outcome.measured[s])), milliseconds(double(outcome.simulated[s])), off);
    else if (s == kRows)
      text += fmt::format("{:>6} {} more\n", "…", outcome.measured.size() - kRows);
  }
  if (const auto &adapt = outcome.result.run.adapt; !adapt.is_null())
    text += fmt::format("adapting ({}): {} switches, {:.1f} ms won against staying with the first variant\n",
                        adapt.at("mode").get<std::string>(), adapt.at("switches").get<int64_t>(),
                        adapt.at("won_ms").get<double>());
  text += jobsText(outcome);
  runtime::Lateness late = latenessOf(outcome);
  text += fmt::format("mean deviation {:.3f} %; predicted span {:.4f} ms, makespan {:.4f} ms\n",
                      sum / double(outcome.measured.size()), milliseconds(double(outcome.predicted.span)),
                      milliseconds(double(outcome.predicted.makespan)));
  if (outcome.pace == runtime::Pace::Real) // there is no deadline to be late against
    return text + endText(outcome);
  text += fmt::format("lateness of an operation ({}): mean {:.4f} ms, median {:.4f}, p99 {:.4f}, max {:.4f}\n",
                      nameOf(outcome.pace), milliseconds(late.mean()), milliseconds(late.quantile(0.5)),
                      milliseconds(late.quantile(0.99)), milliseconds(double(late.max())));
  return text + endText(outcome);
}

std::string answerJson(const runtime::Message &answer) {
  runtime::Message shown = answer;
  shown.erase("type");
  return shown.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Of an answer to status or adapt: what the decision maker knows and did last.
static std::string adaptText(const runtime::Message &adapt) {
  std::string text = fmt::format("adapt {}: {} candidates, {} switches, {:.1f} ms won against staying\n",
                                 adapt.at("mode").get<std::string>(), adapt.at("candidates").size(),
                                 adapt.at("switches").get<int64_t>(), adapt.at("won_ms").get<double>());
  for (const auto &link : adapt.at("estimates").at("links"))
    text += fmt::format("  link {} to {}: {:.1f} MB/s, latency {:.0f} us\n", link.at("from").get<int>(),
                        link.at("to").get<int>(), link.at("bandwidth").get<double>() / 1e6,
                        link.at("latency_us").get<double>());
  for (const auto &stage : adapt.at("estimates").at("stages"))
    if (stage.at("percent") != 100)
      text += fmt::format("  stage {} on rank {}{}: takes {} % of its costs\n", stage.at("stage").get<int>(),
                          stage.at("rank").get<int>(),
                          stage.contains("shard") ? fmt::format(" shard {}", stage.at("shard").get<int>()) : "",
                          stage.at("percent").get<int64_t>());
  if (const auto &last = adapt.at("decision"); !last.is_null()) {
    const auto name = [&](const char *key) {
      return adapt.at("candidates").at(last.at(key).get<size_t>()).get<std::string>();
    };
    text += last.at("from") == last.at("to")
                ? fmt::format("  for step {}: stays with {} ({})\n", last.at("step").get<int64_t>(), name("to"),
                              last.at("policy").get<std::string>())
                : fmt::format("  for step {}: {} after {} ({}): {}\n", last.at("step").get<int64_t>(), name("to"),
                              name("from"), last.at("policy").get<std::string>(), last.at("why").get<std::string>());
  }
  return text;
}

std::string answerText(const std::string &command, const runtime::Message &answer) {
  if (command == "stop")
    return "the run has ended\n";
  std::string running = fmt::format("epoch {} from step {}: {}\n", answer.at("epoch").get<int64_t>(),
                                    answer.at("epoch_from").get<int64_t>(), answer.at("running").get<std::string>());
  if (command != "status" && command != "adapt")
    return running;
  return fmt::format("step {} of {} on {} ranks, {} swaps; ", answer.at("step").get<int64_t>(),
                     answer.at("steps").get<int64_t>(), answer.at("ranks").get<int64_t>(),
                     answer.at("swaps").get<int64_t>()) +
         running + (answer.at("adapt").is_null() ? "" : adaptText(answer.at("adapt")));
}

std::string failureJson(const Status &status, const Place &place) {
  nlohmann::ordered_json json{{"error", status.message}, {"code", int(status.code)}};
  bool ofFile = status.code == Code::Input || status.code == Code::Check;
  json["file"] = ofFile ? nlohmann::ordered_json(place.file) : nullptr;
  json["line"] = ofFile ? nlohmann::ordered_json(std::max(place.line, 1)) : nullptr;
  json["column"] = ofFile ? nlohmann::ordered_json(std::max(place.column, 1)) : nullptr;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace pipec::piperun
