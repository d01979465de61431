#include "runtime/transport/host/Wire.h"

#include "runtime/device/LayerMemory.h"

#include <fmt/format.h>
#include <iterator>

namespace pipec::runtime::wire {

/// Rounds of an evaluation have epochs of their own: -1, -2, ….
static int64_t epochOf(const Label &label) { return label.evaluation > 0 ? -label.evaluation : label.epoch; }

// A tag has the sender's stage. For a receive that is the neighbouring stage: s - 1 sends activations to s, and s + 1
// gradients.
Tag tagOf(const Label &label) {
  const plan::Operation &op = *label.operation;
  const int64_t epoch = epochOf(label);
  if (plan::isCollective(op.kind))
    return plan::isExchange(op) ? Tag{epoch,
                                      label.step,
                                      int64_t(op.group) + 1,
                                      plan::ownerOf(op),
                                      uint32_t(op.of) | uint32_t(op.kind) << 8,
                                      op.begin}
                                : Tag{epoch, label.step, int64_t(op.group) + 1, 0, uint32_t(op.of)};
  int32_t stage = op.stage;
  if (plan::receives(op.kind))
    stage += op.of == plan::Payload::Forward ? -1 : 1;
  return {epoch, label.step, label.microbatch, stage, uint32_t(op.of)};
}

std::string describe(const Tag &tag) {
  if (const auto kind = plan::Kind(tag.of >> 8); tag.of > UINT8_MAX)
    return plan::movesSamples(kind)
               ? fmt::format("the reshard of {} of stage {} in step {} epoch {}",
                             plan::name(plan::Payload(tag.of & UINT8_MAX)), tag.stage, tag.step, tag.epoch)
           : tag.stage == plan::kSharedWeights
               ? fmt::format("the sum of shared weights from byte {} in step {} epoch {}", tag.begin, tag.step,
                             tag.epoch)
               : fmt::format("the {} of {} of stage {} from byte {} in step {} epoch {}", plan::name(kind),
                             plan::name(plan::Payload(tag.of & UINT8_MAX)), tag.stage, tag.begin, tag.step, tag.epoch);
  const auto of = tag.of <= UINT8_MAX ? plan::Payload(tag.of) : plan::Payload::None;
  if (of != plan::Payload::Forward && of != plan::Payload::Backward)
    return fmt::format("the all_reduce{} in step {} epoch {}",
                       tag.microbatch == 0 ? "" : fmt::format(" of group {}", tag.microbatch - 1), tag.step, tag.epoch);
  return fmt::format("{} of stage {} microbatch {} in step {} epoch {}", plan::name(of), tag.stage, tag.microbatch,
                     tag.step, tag.epoch);
}

Tag tagWithin(const Label &label) {
  if (!label.operation)
    return {epochOf(label), label.step, 0, 0, 0};
  return {epochOf(label), label.step, label.microbatch, label.operation->stage, uint32_t(label.operation->kind) + 1};
}

std::string describe(const CallTag &call) {
  constexpr const char *kNames[] = {"sum", "meeting", "sum", "scatter", "gather", "exchange"};
  const auto known = size_t(call.call);
  std::string text = fmt::format("{} {}", kNames[known < std::size(kNames) ? known : 0], call.number);
  if (call.type != 0)
    text += fmt::format(" ({} {})", call.count, Number(call.type) == Number::Float64 ? "float64" : "float32");
  return text;
}

std::string describe(const CallTag &call, const Tag &within) {
  std::string text = describe(call) + " of ";
  if (within.of == 0)
    return text + fmt::format("the portions for step {}", within.step);
  const uint32_t kind = within.of - 1;
  text += kind < plan::kKinds ? plan::name(plan::Kind(kind)) : "an unknown kind";
  return text + fmt::format(" stage {} microbatch {} in step {} epoch {}", within.stage, within.microbatch, within.step,
                            within.epoch);
}

std::string hex(const uint8_t *bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += fmt::format("{:02x}", bytes[i]);
  return text;
}

} // namespace pipec::runtime::wire
