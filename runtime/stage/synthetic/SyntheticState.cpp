// A saved state is a line of text, of a rank or of a layer.
#include "runtime/stage/synthetic/SyntheticState.h"

#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Samples.h"
#include "runtime/plan/Write.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>

namespace pipec::runtime {

SyntheticState::SyntheticState(int32_t world, const plan::Plan &plan)
    : stands(plan::placeOf(world, plan)), processes(plan.world()), groups(plan.groups),
      batch(plan.variants.front().batch), widths(plan.variants.front().widths()) {
  const plan::Variant &first = plan.variants.front();
  for (const int32_t stage : first.programs[size_t(stands.rank)].stages)
    layers.push_back(plan::layersOf(first, stage));
}

Status SyntheticState::checkInput(const Label &label, plan::Bytes bytes, int64_t wrong) const {
  const plan::Operation &op = *label.operation;
  if (wrong < 0)
    return {};
  return Status::run(fmt::format("{}: its input is not what stage {} sent for it in step {} (from byte {} of {})",
                                 plan::describe(stands, op, label.microbatch), inputOf(label).stage, label.step, wrong,
                                 bytes));
}

PatternKey SyntheticState::inputOf(const Label &label) const {
  const plan::Operation &op = *label.operation;
  const plan::Payload of = plan::rowOf(op.kind).gives;
  return {plan::giverOf(op.stage, of), of, firstOf(label), label.step};
}

PatternKey SyntheticState::outputOf(const Label &label) const {
  const plan::Operation &op = *label.operation;
  return {op.stage, plan::rowOf(op.kind).gives, firstOf(label), label.step};
}

int64_t SyntheticState::firstOf(const Label &label) const { return batch > 0 ? stands.rank : label.microbatch; }

SyntheticState::Samples SyntheticState::samplesOf(const Label &label) const {
  if (batch == 0)
    return {};
  const int64_t width = widths[size_t(label.operation->stage)];
  return {plan::samplesOf(batch, width, stands.rank), width};
}

Status SyntheticState::checkTotal(const Label &label, double total) const {
  const int32_t group = label.operation->group;
  double expected = 0.5 * processes * (processes + 1.0); // exact, as every partial sum is
  if (group != -1) {
    expected = 0;
    for (const int32_t member : groups[size_t(group)].members)
      expected += member + 1.0;
  }
  if (total == expected)
    return {};
  return Status::run(fmt::format("{}: the sum over {} ranks is {} in step {}, expected {}",
                                 plan::describe(stands, *label.operation, 0), group != -1 ? "its" : "all", total,
                                 label.step, expected));
}

namespace {

/// Whose state: "rank 2", or "layer 7".
std::string stateOf(const std::string &whose, int64_t steps) {
  return fmt::format("pipec synthetic stage, {}, {} steps\n", whose, steps);
}

Status write(const std::string &path, const std::string &whose, int64_t steps) {
  const std::string state = stateOf(whose, steps);
  const int error = plan::writeInPlace(path, std::span(reinterpret_cast<const uint8_t *>(state.data()), state.size()));
  return error == 0 ? Status{} : Status::run(fmt::format("{}: cannot be written: {}", path, std::strerror(error)));
}

Status check(const std::string &path, const std::string &whose, int64_t steps) {
  std::FILE *file = std::fopen(path.c_str(), "rbe"); // e: O_CLOEXEC
  std::string expected = stateOf(whose, steps), found(expected.size() + 1, '\0');
  if (!file)
    return Status::input(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  found.resize(std::fread(found.data(), 1, found.size(), file));
  std::fclose(file);
  if (found != expected)
    return Status::input(fmt::format("{}: is not the state of {} after {} steps", path, whose, steps));
  return {};
}

} // namespace

Status SyntheticState::save(const std::string &path, int64_t steps) const {
  return write(path, plan::nameOf(stands), steps);
}

Status SyntheticState::load(const std::string &path, int64_t steps) const {
  return check(path, plan::nameOf(stands), steps);
}

Status SyntheticState::holds(int32_t layer) const {
  for (const plan::Layers &each : layers)
    if (each.count == 0 || each.has(layer)) // the plan does not say, or it is here
      return {};
  return Status::input(fmt::format("{}: has no stage with layer {}", plan::nameOf(stands), layer));
}

Status SyntheticState::saveLayer(int32_t layer, const std::string &path, int64_t steps) const {
  const Status status = holds(layer);
  return status.ok() ? write(path, fmt::format("layer {}", layer), steps) : status;
}

Status SyntheticState::loadLayer(int32_t layer, const std::string &path, int64_t steps) const {
  const Status status = holds(layer);
  return status.ok() ? check(path, fmt::format("layer {}", layer), steps) : status;
}

} // namespace pipec::runtime
