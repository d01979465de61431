#include "runtime/transport/host/Wire.h"

#include <fmt/format.h>

namespace pipec::runtime::wire {

// A tag has the sender's stage. For a receive that is the neighbouring stage: s - 1 sends activations to s, and s + 1
// gradients.
Tag tagOf(const Label &label) {
  const plan::Operation &op = *label.operation;
  if (plan::isCollective(op.kind))
    return {label.epoch, label.step, int64_t(op.group) + 1, 0, uint32_t(op.of)};
  int32_t stage = op.stage;
  if (op.kind == plan::Kind::Recv)
    stage += op.of == plan::Payload::Forward ? -1 : 1;
  return {label.epoch, label.step, label.microbatch, stage, uint32_t(op.of)};
}

std::string describe(const Tag &tag) {
  const auto of = tag.of <= UINT8_MAX ? plan::Payload(tag.of) : plan::Payload::None;
  if (of != plan::Payload::Forward && of != plan::Payload::Backward)
    return fmt::format("the all_reduce{} in step {} epoch {}",
                       tag.microbatch == 0 ? "" : fmt::format(" of group {}", tag.microbatch - 1), tag.step, tag.epoch);
  return fmt::format("{} of stage {} microbatch {} in step {} epoch {}", plan::name(of), tag.stage, tag.microbatch,
                     tag.step, tag.epoch);
}

std::string hex(const uint8_t *bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += fmt::format("{:02x}", bytes[i]);
  return text;
}

} // namespace pipec::runtime::wire
