// The text of a run.
#include "tools/piperun/Output.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace pipec::piperun {

using runtime::milliseconds;

/// "vgg: 412 pieces, 58.2 samples": over all ranks.
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

/// "evaluations: 3, 12.3456 ms in the mean".
static std::string evaluationsText(const Outcome &outcome) {
  const std::vector<runtime::Evaluated> all = runtime::evaluationsOf(outcome);
  plan::Time sum = 0;
  for (const runtime::Evaluated &each : all)
    sum += each.took;
  return all.empty() ? ""
                     : fmt::format("evaluations: {}, {:.4f} ms in the mean\n", all.size(),
                                   milliseconds(double(sum) / double(all.size())));
}

static double deviation(plan::Time measured, plan::Time simulated) {
  return simulated == 0 ? 0 : 100 * (double(measured) - double(simulated)) / double(simulated);
}

/// Says how the run ended, unless all steps that were asked for are simply done.
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
  text += evaluationsText(outcome);
  text += jobsText(outcome);
  runtime::Lateness late = runtime::latenessOf(outcome);
  text += fmt::format("mean deviation {:.3f} %; predicted span {:.4f} ms, makespan {:.4f} ms\n",
                      sum / double(outcome.measured.size()), milliseconds(double(outcome.predicted.span)),
                      milliseconds(double(outcome.predicted.makespan)));
  if (outcome.pace == runtime::Pace::Real) // there is no deadline to be late against
    return text + endText(outcome);
  text += fmt::format("lateness of an operation ({}): mean {:.4f} ms, median {:.4f}, p99 {:.4f}, max {:.4f}\n",
                      runtime::nameOf(outcome.pace), milliseconds(late.mean()), milliseconds(late.quantile(0.5)),
                      milliseconds(late.quantile(0.99)), milliseconds(double(late.max())));
  return text + endText(outcome);
}

std::string answerJson(const runtime::Message &answer) {
  return answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// The text for an answer to status or adapt: what the decision maker knows and did last.
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
