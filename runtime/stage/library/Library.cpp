// Which functions a plan needs of the library.
#include "runtime/stage/library/Library.h"

#include "runtime/library/SharedLibrary.h"
#include "runtime/stage/library/VersionOne.h"

#include <fmt/format.h>

namespace pipec::runtime {

using plan::Kind;

namespace {

constexpr LibraryHeader kHeader{"stage library", "pipec_stage.h", "pipec_stage_version"};
constexpr const char *kLayer = "pipec_stage_layer", *kPortions = "pipec_stage_portions";
constexpr const char *kEvaluate = "pipec_stage_evaluate";
constexpr const char *kSaveLayer = "pipec_stage_save_layer", *kLoadLayer = "pipec_stage_load_layer";

bool uses(const plan::Plan &plan, Kind kind) {
  for (const plan::Variant &variant : plan.variants)
    for (const plan::Program &program : variant.programs)
      for (const plan::Operation &operation : program.operations)
        if (operation.kind == kind)
          return true;
  return false;
}

/// What of a plan needs to know of the layers of a stage; null: nothing.
const char *needsLayers(const plan::Plan &plan) {
  if (plan.degree() > 1)
    return "replicas";
  if (plan.variants.front().sharesStages())
    return "stages on several ranks";
  for (const plan::Variant &variant : plan.variants)
    for (const plan::Program &program : variant.programs)
      for (const plan::Operation &operation : program.operations)
        if (operation.layers > 0)
          return "passes in parts";
  return nullptr;
}

} // namespace

Status openLibrary(const std::string &path, const plan::Plan &plan, const LibraryUse &use, Library &library) {
  SharedLibrary opened;
  if (Status status = opened.open(path, kHeader); !status.ok())
    return status;
  const uint32_t version = opened.version();
  if (const bool first = version == kVersionOne; version != PIPEC_STAGE_VERSION && (!first || use.onGpu))
    return Status::input(fmt::format("{}: is built for version {} of pipec_stage.h, expected version {}{}; build it "
                                     "again with the header of this piperun",
                                     path, version, PIPEC_STAGE_VERSION,
                                     use.onGpu ? " with --device=cuda" : fmt::format(" or {}", kVersionOne)));
  Library f;
  opened.need("pipec_stage_create", f.create);
  opened.need("pipec_stage_destroy", f.destroy);
  for (const Kind kind : {Kind::Forward, Kind::Optimizer})
    opened.need(plan::rowOf(kind).call, f.calls[size_t(kind)]);
  opened.need("pipec_stage_save", f.save);
  opened.need("pipec_stage_load", f.load);
  opened.need("pipec_stage_memory", f.memory);
  if (Status status = opened.missing(); !status.ok())
    return status;
  opened.find("pipec_stage_forward_backward", f.forwardBackward);
  opened.find("pipec_stage_gradient_norm", f.gradientNorm);
  opened.find("pipec_stage_set_global_norm", f.setGlobalNorm);
  if (version != kVersionOne) {
    opened.find(kEvaluate, f.evaluate);
    opened.find(kSaveLayer, f.saveLayer);
    opened.find(kLoadLayer, f.loadLayer);
    opened.find(kLayer, f.layer);
    opened.find(kPortions, f.portions);
  }
  if (Status status = opened.together(kSaveLayer, bool(f.saveLayer), kLoadLayer, bool(f.loadLayer)); !status.ok())
    return status;
  for (const plan::KindRow &row : plan::kKindTable) {
    if (*row.call == 0 || opened.find(row.call, f.calls[size_t(row.kind)]) || !uses(plan, row.kind))
      continue;
    return Status::input(
        fmt::format("{}: the stage library has no {}, and the plan has {} operations", path, row.call, row.name));
  }
  if (const char *what = needsLayers(plan); what && !f.layer)
    return Status::check(fmt::format("{}: the stage library has no {}, and the plan has {}", path, kLayer, what));
  if (plan.shards() > 1 && !f.portions)
    return Status::check(fmt::format("{}: the stage library has no {}, and the plan has shards", path, kPortions));
  if (use.byLayers && !f.saveLayer)
    return Status::input(
        fmt::format("{}: the stage library has no {}, which a new cut of the layers needs", path, kSaveLayer));
  if (use.evaluates && !f.evaluate)
    return Status::input(fmt::format("{}: the stage library has no {}, which an evaluation needs", path, kEvaluate));
  if (version == kVersionOne)
    adaptVersionOne(f);
  library = std::move(f);
  return {};
}

Status tryLibrary(const std::string &path, const plan::Plan &plan, const LibraryUse &use) {
  return tryApart(path, kHeader.what, [&] {
    Library library;
    return openLibrary(path, plan, use, library);
  });
}

} // namespace pipec::runtime
