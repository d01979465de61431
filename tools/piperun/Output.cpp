// JSON and text of a run. Milliseconds as full doubles in JSON.
#include "tools/piperun/Output.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

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
  for (const runtime::RankReport &rank : outcome.result.ranks)
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

std::string toJson(const Outcome &outcome) {
  runtime::Lateness lateness = latenessOf(outcome);
  nlohmann::ordered_json json{
      {"ranks", outcome.result.ranks.size()},
      {"steps", outcome.steps},
      {"step_ms", milliseconds(outcome.measured)},
      {"simulated_step_ms", milliseconds(outcome.simulated)},
      {"predicted_ms", milliseconds(double(outcome.certificate.span))},
      {"span_ms", milliseconds(double(outcome.certificate.span))},
      {"makespan_ms", milliseconds(double(outcome.certificate.makespan))},
      {"lateness_ms",
       {{"mean", milliseconds(lateness.mean())},
        {"p50", milliseconds(lateness.quantile(0.5))},
        {"p99", milliseconds(lateness.quantile(0.99))},
        {"max", milliseconds(double(lateness.max()))}}},
      {"swaps", 0},
      {"lost_steps", 0},
      {"epochs", std::vector<int64_t>(outcome.measured.size(), 0)}, // of each step
      {"emulate", nameOf(outcome.pace)},
      {"device", "host"},
      {"stage", outcome.stage},
      {"idle_cpu", cpuShares(outcome)},
      {"pids", outcome.result.pids},
  };
  return json.dump();
}

static double deviation(plan::Time measured, plan::Time simulated) {
  return simulated == 0 ? 0 : 100 * (double(measured) - double(simulated)) / double(simulated);
}

std::string toText(const Outcome &outcome) {
  constexpr size_t kRows = 20;
  std::string text = fmt::format("{:>6} {:>14} {:>14} {:>10}\n", "step", "measured ms", "simulated ms", "deviation");
  double sum = 0;
  for (size_t s = 0; s < outcome.measured.size(); ++s) {
    double off = deviation(outcome.measured[s], outcome.simulated[s]);
    sum += std::abs(off);
    if (s < kRows)
      text += fmt::format("{:>6} {:>14.4f} {:>14.4f} {:>+9.3f}%\n", s, milliseconds(double(outcome.measured[s])),
                          milliseconds(double(outcome.simulated[s])), off);
    else if (s == kRows)
      text += fmt::format("{:>6} {} more\n", "…", outcome.measured.size() - kRows);
  }
  runtime::Lateness late = latenessOf(outcome);
  text += fmt::format("mean deviation {:.3f} %; predicted span {:.4f} ms, makespan {:.4f} ms\n",
                      sum / double(outcome.measured.size()), milliseconds(double(outcome.certificate.span)),
                      milliseconds(double(outcome.certificate.makespan)));
  if (outcome.pace == runtime::Pace::Real) // there is no deadline to be late against
    return text;
  text += fmt::format("lateness of an operation ({}): mean {:.4f} ms, median {:.4f}, p99 {:.4f}, max {:.4f}\n",
                      nameOf(outcome.pace), milliseconds(late.mean()), milliseconds(late.quantile(0.5)),
                      milliseconds(late.quantile(0.99)), milliseconds(double(late.max())));
  return text;
}

std::string failureJson(const Status &status, const std::string &file) {
  nlohmann::ordered_json json{{"error", status.message}, {"code", int(status.code)}};
  bool ofFile = status.code == Code::Input || status.code == Code::Check;
  json["file"] = ofFile ? nlohmann::ordered_json(file) : nullptr;
  json["line"] = ofFile ? nlohmann::ordered_json(1) : nullptr; // the whole file
  json["column"] = json["line"];
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace pipec::piperun
