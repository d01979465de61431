#include "compiler/emit/JobsReport.h"

#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/Unroll.h"
#include "runtime/simulate/Pieces.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>

namespace pipec::emit {

namespace {

using plan::milliseconds;

std::vector<WindowRow> windowsOf(const plan::Program &program) {
  std::vector<WindowRow> rows;
  for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
    const plan::Step step = cursor.at();
    if (const plan::Time window =
            plan::windowOf(program, uint32_t(step.instruction - program.instructions.data())).length;
        window != 0)
      rows.push_back({step.operation, step.microbatch(), window});
  }
  return rows;
}

/// How many pieces a rank runs in a step; one without instructions runs them all the time.
int64_t piecesOf(const plan::Variant &variant, const plan::Program &program, const std::vector<WindowRow> &windows) {
  const plan::Time piece = variant.pieceTime(program);
  if (program.runsJobAlone())
    return variant.certificate.span / piece;
  int64_t count = 0;
  for (const WindowRow &each : windows)
    count += each.length / piece;
  return count;
}

} // namespace

Status jobsOf(const plan::Variant &variant, const simulate::Result &result, JobsReport &report) {
  const plan::Certificate &certificate = variant.certificate;
  report.span = certificate.span;
  report.delay = certificate.delay;
  report.delayProven = certificate.delayProven;
  report.slowDown = variant.slowDown;
  double ofJobs = 0, ofForeground = 0;
  for (const simulate::PlaceResult &place : result.places)
    ofForeground += double(place.busy);
  for (size_t index = 0; index != variant.jobs.size(); ++index) {
    const plan::Job &job = variant.jobs[index];
    JobRow &row = report.rows.emplace_back();
    row.name = job.name;
    double idle = 0, atoms = 0;
    for (const plan::Program &program : variant.programs) {
      row.windows.emplace_back();
      row.pieces.push_back(0);
      if (program.job != int32_t(index))
        continue;
      row.piece = program.piece * job.atom;
      row.windows.back() = windowsOf(program);
      row.pieces.back() = piecesOf(variant, program, row.windows.back());
      atoms += double(row.pieces.back()) * double(program.piece);
      idle += double(certificate.span - result.places[size_t(program.rank)].busy);
    }
    const double time = atoms * double(job.atom);
    ofJobs += time;
    row.useful = idle > 0 ? time / idle : 0;
    row.samplesPerSecond =
        certificate.span > 0 ? atoms / double(job.atoms) * double(job.samples) / (double(certificate.span) / 1e12) : 0;
    int64_t millionths = 0;
    if (Status status = simulate::resumes(variant, int32_t(index), millionths); !status.ok())
      return status;
    row.resumes = double(millionths) / 1e6;
  }
  const double all = double(variant.places()) * double(certificate.span);
  report.alone = all > 0 ? ofForeground / all : 0;
  report.useful = all > 0 ? (ofForeground + ofJobs) / all : 0;
  return {};
}

void addJson(const JobsReport &report, nlohmann::ordered_json &object) {
  object["jobs"] = nlohmann::ordered_json::array();
  if (report.rows.empty())
    return;
  object["slow_down"] = double(report.slowDown) / 1e6;
  object["slow_down_bound"] = report.span > 0 ? double(report.delay) / double(report.span) : 0;
  object["delay_ms"] = milliseconds(report.delay);
  object["delay_proven"] = report.delayProven;
  object["useful_alone"] = report.alone;
  object["useful"] = report.useful;
  for (const JobRow &row : report.rows) {
    nlohmann::ordered_json windows = nlohmann::ordered_json::array();
    for (const std::vector<WindowRow> &rank : row.windows) {
      windows.push_back(nlohmann::ordered_json::array());
      for (const WindowRow &each : rank)
        windows.back().push_back(
            {each.operation->stage, plan::name(each.operation->kind), each.microbatch, milliseconds(each.length)});
    }
    object["jobs"].push_back({{"name", row.name},
                              {"piece_ms", milliseconds(row.piece)},
                              {"resumes", row.resumes},
                              {"pieces", row.pieces},
                              {"windows", std::move(windows)},
                              {"useful", row.useful},
                              {"samples_per_s", row.samplesPerSecond}});
  }
}

std::string textOf(const JobsReport &report) {
  if (report.rows.empty())
    return {};
  std::string text = fmt::format(
      "  {:<9} {:>12}   a step at most, {:.3f} % of it, {}; useful time of the devices {:.1f} %, from {:.1f} %\n",
      "jobs", plan::timeText(report.delay), report.span > 0 ? 100 * double(report.delay) / double(report.span) : 0,
      report.delayProven ? "in any timing" : "in this timing alone", 100 * report.useful, 100 * report.alone);
  for (const JobRow &row : report.rows) {
    const auto count = std::accumulate(row.pieces.begin(), row.pieces.end(), int64_t(0));
    text +=
        fmt::format("    {:<8} {} pieces a step of {}, {:.1f} % of the idle time of its ranks, {:.1f} samples/s, {:g} "
                    "resumes one behind the other\n",
                    row.name, count, plan::timeText(row.piece), 100 * row.useful, row.samplesPerSecond, row.resumes);
  }
  return text;
}

} // namespace pipec::emit
