// One synthetic instruction: check, fill, sleep to the deadline. A saved state is a line of text, of a rank or of a
// layer.
#include "runtime/stage/synthetic/SyntheticStage.h"

#include "runtime/plan/Disassemble.h"
#include "runtime/stage/synthetic/Pattern.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>

namespace pipec::runtime {

HostBody::Span SyntheticStage::run(const HostWork &work, plan::Time ready) {
  plan::Time start = paced.begin(ready);
  const Label label = work.label();
  const plan::Operation &op = *label.operation;
  const Slot in = work.in(), out = work.out();
  plan::Time end = network ? network->computeEnd(rank, start, op.cost) : start + op.cost;
  const plan::Payload of = plan::rowOf(op.kind).gives;
  if (in.data) {
    int32_t producer = of == plan::Payload::Forward ? op.stage - 1 : op.stage + 1;
    int64_t wrong = firstWrong(in, {producer, of, label.microbatch, label.step});
    if (wrong >= 0)
      failure.raise(
          Status::run(fmt::format("{}: its input is not what stage {} sent for it in step {} (from byte {} of {})",
                                  plan::describe(rank, op, label.microbatch), producer, label.step, wrong, in.bytes)));
  }
  if (out.data)
    fill(out, {op.stage, of, label.microbatch, label.step});
  clock.sleepUntil(end);
  return {start, end};
}

void SyntheticStage::gradientNorm(QueueId, const Label &, Slot number) {
  const double own = rank + 1.0;
  std::memcpy(number.data, &own, sizeof own);
}

void SyntheticStage::setGlobalNorm(QueueId, const Label &label, Slot number) {
  double total = 0;
  std::memcpy(&total, number.data, sizeof total);
  const int32_t group = label.operation->group;
  double expected = 0.5 * ranks * (ranks + 1.0); // exact, as every partial sum is
  if (group != -1) {
    expected = 0;
    for (const int32_t member : groups[size_t(group)].members)
      expected += member + 1.0;
  }
  if (total != expected)
    failure.raise(Status::run(fmt::format("{}: the sum over {} ranks is {} in step {}, expected {}",
                                          plan::describe(rank, *label.operation, 0), group != -1 ? "its" : "all", total,
                                          label.step, expected)));
}

namespace {

/// Whose state: "rank 2", or "layer 7".
std::string stateOf(const std::string &whose, int64_t steps) {
  return fmt::format("pipec synthetic stage, {}, {} steps\n", whose, steps);
}

Status write(const std::string &path, const std::string &whose, int64_t steps) {
  std::ofstream file(path, std::ios::binary);
  file << stateOf(whose, steps);
  file.close();
  return file ? Status{} : Status::run(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

Status check(const std::string &path, const std::string &whose, int64_t steps) {
  std::ifstream file(path, std::ios::binary);
  std::string expected = stateOf(whose, steps), found(expected.size() + 1, '\0');
  if (!file)
    return Status::input(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  file.read(found.data(), std::streamsize(found.size()));
  found.resize(size_t(file.gcount()));
  if (found != expected)
    return Status::input(fmt::format("{}: is not the state of {} after {} steps", path, whose, steps));
  return {};
}

} // namespace

Status SyntheticStage::save(const std::string &path, int64_t steps) {
  return write(path, fmt::format("rank {}", rank), steps);
}

Status SyntheticStage::load(const std::string &path, int64_t steps) {
  return check(path, fmt::format("rank {}", rank), steps);
}

Status SyntheticStage::holds(int32_t layer) const {
  for (const plan::Layers &each : layers)
    if (each.count == 0 || each.has(layer)) // the plan does not say, or it is here
      return {};
  return Status::input(fmt::format("rank {}: has no stage with layer {}", rank, layer));
}

Status SyntheticStage::saveLayer(int32_t layer, const std::string &path, int64_t steps) {
  const Status status = holds(layer);
  return status.ok() ? write(path, fmt::format("layer {}", layer), steps) : status;
}

Status SyntheticStage::loadLayer(int32_t layer, const std::string &path, int64_t steps) {
  const Status status = holds(layer);
  return status.ok() ? check(path, fmt::format("layer {}", layer), steps) : status;
}

} // namespace pipec::runtime
