#include "compiler/pictures/Html.h"

#include "compiler/explain/Explain.h"
#include "compiler/pictures/Markup.h"
#include "compiler/pictures/Overlay.h"
#include "compiler/pictures/Palette.h"
#include "compiler/pictures/html/Frame.h"
#include "compiler/pictures/html/Page.inc"
#include "runtime/simulate/Recording.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace pipec::emit {

using Json = nlohmann::ordered_json;

namespace {

/// Of one page: what a browser draws at once, and keeps in half a gigabyte.
constexpr int64_t kItems = int64_t(1) << 23;

/// JSON as the text of a script element: nothing in it ends the element or begins a comment. What is not UTF-8 is
/// replaced.
std::string scriptText(const Json &json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (char c : text)
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

/// Through JSON and back: what is not UTF-8 is replaced here too.
std::string valid(const std::string &text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json looks() {
  Json list = Json::array();
  for (const Look &look : kLooks)
    list.push_back({{"letter", look.letter}, {"name", look.name}, {"fill", hex(look.fill)}});
  return list;
}

/// By number: what the page asks of the table of kinds. `payloads`: of the transfers that bring it its data and take
/// what it makes.
Json kinds() {
  Json list = Json::array();
  for (int number = 0; number != plan::kKinds; ++number) {
    const auto kind = plan::Kind(number);
    const bool pair = plan::classOf(kind) == plan::Class::Header;
    Json payloads = Json::array();
    for (const plan::Payload of : {plan::Payload::Forward, plan::Payload::Backward})
      if (pair || plan::rowOf(kind).gives == of)
        payloads.push_back(int(of));
    list.push_back({{"name", plan::name(kind)},
                    {"look", lookIndex(kind)},
                    {"passes", pair || plan::isCompute(kind)},
                    {"transfers", plan::isTransfer(kind)},
                    {"payloads", payloads}});
  }
  return list;
}

/// Bounds hold for the spec's links; under a network there are none.
Json variantJson(const plan::Variant &variant, const Report &figures, bool bounded) {
  const plan::Certificate &c = figures.certificate;
  return {{"name", variant.name},
          {"schedule", figures.schedule},
          {"stages", figures.stages},
          {"copies", variant.copies},
          {"stagesOfCopy", std::max(1, variant.stagesOfCopy())},
          {"microbatches", figures.microbatches},
          {"microbatchesOfCopy", variant.microbatches},
          {"limit", variant.memoryLimit},
          {"makespan", c.makespan},
          {"span", c.span},
          {"lowerBound", bounded ? c.lowerBound.picoseconds() : 0},
          {"spanLowerBound", bounded ? c.spanLowerBound.picoseconds() : 0},
          {"bound", plan::name(c.bound)},
          {"spanBound", plan::name(c.spanBound)},
          {"bubble", figures.bubbleRate},
          {"spanBubble", figures.spanBubbleRate}};
}

struct Shown {
  size_t variant = 0;
  int64_t step = 0; // of the simulated run
  const RunStep *run = nullptr;
};

/// The first of the frames that fit into a page, and how many steps of each variant they need.
size_t fitting(const plan::Plan &plan, const std::vector<Shown> &frames, std::map<size_t, int64_t> &steps) {
  int64_t room = kItems;
  for (size_t n = 0; n != frames.size(); ++n) {
    const Shown &frame = frames[n];
    const int64_t known = steps.contains(frame.variant) ? steps[frame.variant] : 0;
    const int64_t needed = std::max(known, frame.step + 1);
    // A run is drawn beside what was simulated, all of which is kept meanwhile.
    const int64_t times = frame.run ? 2 + needed - known : 1;
    if (page::items(plan.variants[frame.variant]) > room / times)
      return n;
    room -= times * page::items(plan.variants[frame.variant]);
    steps[frame.variant] = needed;
  }
  return frames.size();
}

/// What a run leaves out where not all fits is said in the note.
Status addFrames(const plan::Plan &plan, const std::vector<RunStep> &run, const Network &network, Json &list,
                 std::string &note) {
  std::vector<Shown> frames;
  for (size_t v = 0; run.empty() && v != plan.variants.size(); ++v)
    frames.push_back({v});
  for (const RunStep &step : run)
    frames.push_back({step.variant, network.scenario ? step.step : std::min(step.step, kSettled), &step});
  std::map<size_t, int64_t> steps;
  const size_t fit = fitting(plan, frames, steps);
  if (fit == 0 || (run.empty() && fit != frames.size()))
    return Status::input(fmt::format("a page of this plan would hold more than {} boxes and transfers; fewer "
                                     "microbatches (--set pipeline.microbatches=…) show the same pattern",
                                     kItems));
  if (fit != frames.size())
    note = fmt::format("the page holds the first {} of the {} steps that ran", fit, frames.size());
  std::map<size_t, simulate::Recording> recordings;
  std::map<size_t, Pieces> pieces;
  for (const auto &[v, count] : steps) {
    simulate::Options options;
    options.steps = count + (plan.variants[v].jobs.empty() ? 0 : 1); // what fills a step's end is the next one's
    options.scenario = network.scenario;
    options.pieces = !plan.variants[v].jobs.empty();
    Pieces &own = pieces[v];
    own.resize(plan.variants[v].places());
    options.observePieces = [&own](const simulate::Resume &at, int64_t filled) {
      own[size_t(at.place)].emplace_back(at.free, at.free + filled * at.piece);
    };
    for (const plan::Program &program : plan.variants[v].programs)
      if (program.runsJobAlone())
        own[size_t(program.rank)].emplace_back(0, simulate::kNever);
    if (Status status = recordings[v].run(plan.variants[v], options); !status.ok())
      return status;
  }
  for (size_t n = 0; n != fit; ++n) {
    const auto &[v, step, ran] = frames[n];
    Json frame = page::frame(plan.variants[v], recordings[v], step, ran, pieces[v]);
    frame["variant"] = v;
    list.push_back(std::move(frame));
  }
  return {};
}

/// The page with its parts in their places; text that stands in a part is not looked at again.
std::string assembled(const std::map<std::string_view, std::string_view> &parts) {
  std::string_view rest = page::kPage;
  std::string page;
  while (true) {
    const size_t open = rest.find("{{");
    const size_t close = open == std::string_view::npos ? open : rest.find("}}", open);
    page += rest.substr(0, open);
    if (close == std::string_view::npos)
      return page;
    page += parts.at(rest.substr(open + 2, close - open - 2));
    rest.remove_prefix(close + 2);
  }
}

} // namespace

Status html(const plan::Plan &plan, const PlanReport &figures, const trace::Run &run, std::string &text,
            std::string &note, const Network &network) {
  std::vector<RunStep> steps;
  if (!run.events.empty())
    if (Status status = overlay(plan, run, steps); !status.ok())
      return status;
  Json data = {{"looks", looks()}, {"kinds", kinds()}};
  for (int why = 0; why <= int(simulate::Why::Sum); ++why)
    data["whys"].push_back(name(simulate::Why(why)));
  for (size_t v = 0; v != plan.variants.size(); ++v)
    data["variants"].push_back(variantJson(plan.variants[v], figures.variants[v], !network.scenario));
  if (network.scenario)
    data["network"] = network.name;
  data["frames"] = Json::array();
  if (Status status = addFrames(plan, steps, network, data["frames"], note); !status.ok())
    return status;
  const std::string title = markup(valid(figures.variants.front().schedule));
  const std::string frames = scriptText(data);
  text = assembled({{"title", title}, {"style", page::kStyle}, {"script", page::kScript}, {"data", frames}});
  return {};
}

} // namespace pipec::emit
