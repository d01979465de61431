#include "compiler/compare/Bursts.h"

#include "compiler/driver/Plans.h"
#include "compiler/widths/SpecBurst.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipec {
namespace {

/// Limits of amplification, in millionths.
constexpr int64_t kLimits[] = {1'500'000, 2'000'000, 2'500'000, 3'000'000, 5'000'000};

class Bursts {
public:
  Bursts(const spec::Spec &spec, const std::stop_token &stop, const Say &say, std::vector<BurstRow> &rows)
      : spec(spec), stop(stop), say(say), rows(rows) {}

  void run() {
    const burst::Widths widths = burst::widthsOf(widths::problemOf(spec));
    spec::Spec alone = ofWidth(widths.back());
    alone.jobs.work.clear();
    add("data parallel, alone", alone);
    if (!spec.jobs.work.empty())
      add("data parallel", ofWidth(widths.back()));
    for (size_t i = widths.size(); i-- != 1;)
      add(fmt::format("static {} of {}", widths[i - 1], spec.ranks.value), ofWidth(widths[i - 1]));
    for (const int64_t limit : kLimits)
      add(fmt::format("paper {:g}", double(limit) / 1e6), ofPaper(limit));
    if (spec.burst->planner == spec::Planner::Exact)
      add(fmt::format("exact, at {:g} %", double(spec.burst->foreground) / 1e4), spec);
    else
      add("as asked", spec);
  }

private:
  spec::Spec ofWidth(int32_t width) const {
    spec::Spec made = spec;
    made.burst->planner = spec::Planner::Given;
    made.burst->widths = {width};
    return made;
  }
  spec::Spec ofPaper(int64_t limit) const {
    spec::Spec made = spec;
    made.burst->planner = spec::Planner::Paper;
    made.burst->amplification = limit;
    return made;
  }

  void add(const std::string &name, const spec::Spec &asked) {
    if (!rows.empty() && stop.stop_requested())
      return;
    say(fmt::format("trying {} …", name));
    BurstRow &row = rows.emplace_back();
    row.name = name;
    Compiled compiled;
    Failure failure;
    emit::PlanReport figures;
    if (!compile(asked, compiled, failure, Said::Nothing)) {
      row.wrong = failure.message;
      return;
    }
    if (Status status = figuresOf(compiled, figures); !status.ok()) {
      row.wrong = status.message;
      return;
    }
    const emit::Report &own = figures.variants.front();
    row.certificate = own.certificate;
    row.bubble = own.spanBubbleRate;
    row.peak = *std::max_element(own.peak.begin(), own.peak.end());
    row.stages = own.stages;
    row.widths = own.widths.widths;
    row.device = own.widths.device;
    row.useful = own.jobs.rows.empty() ? 1 - own.spanBubbleRate : own.jobs.useful;
    throughput(own.jobs, row);
  }

  void throughput(const emit::JobsReport &jobs, BurstRow &row) const {
    const auto perSecond = [&](plan::Time step) { return double(spec.microbatchSize->value) * 1e12 / double(step); };
    const plan::Time parallel = rows.front().certificate.span;
    if (!rows.front().wrong.empty() || parallel == 0 || row.certificate.span == 0)
      return;
    row.foreground = double(parallel) / double(row.certificate.span);
    double others = 0;
    for (const emit::JobRow &each : jobs.rows)
      others += each.samplesPerSecond;
    row.cluster = (perSecond(row.certificate.span) + others) / perSecond(parallel);
    if (jobs.rows.empty())
      return;
    const spec::Job &job = spec.jobs.work.front();
    const double alone = double(job.samples) * 1e12 / (double(job.atoms) * double(job.atom.value));
    row.bound = spec.ranks.value * alone / perSecond(parallel);
  }

  const spec::Spec &spec;
  const std::stop_token stop;
  const Say &say;
  std::vector<BurstRow> &rows;
};

} // namespace

bool compareBursts(const Source &source, const Say &say, std::vector<BurstRow> &rows, Failure &failure) {
  std::vector<spec::Spec> specs;
  if (!readSpecs(source.path, source.set, specs, failure))
    return false;
  Bursts(specs.front(), source.stop, say, rows).run();
  return true;
}

} // namespace pipec
