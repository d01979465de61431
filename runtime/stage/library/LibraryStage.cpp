// From an instruction to a call and from its error to the rank's failure.
#include "runtime/stage/library/LibraryStage.h"

#include "runtime/plan/Disassemble.h"

#include <cstring>
#include <fmt/format.h>

namespace pipec::runtime {

using plan::Kind;

Status LibraryStage::make(const Library &library, const plan::Plan &plan, int32_t rank, HostDevice &device,
                          const Clock &clock, Failure &failure, std::unique_ptr<Stage> &stage) {
  auto object = std::make_unique<LibraryObject>(library, rank);
  Status status = object->create(plan, -1, nullptr);
  if (status.ok())
    stage.reset(new LibraryStage(std::move(object), rank, device, clock, failure));
  return status;
}

void LibraryStage::check(const Label &label, const std::string &error) const {
  if (!error.empty())
    failure.raise(Status::run(fmt::format("{}: {}", plan::describe(rank, *label.operation, label.microbatch), error)));
}

/// A pair's header waits for what either pass needs, and nothing behind the pair starts before both have completed
/// (P43).
void LibraryStage::runPair(const HostWork &header) {
  HostWork forward = header, backward = header;
  forward.item = header.item + 1;
  backward.item = header.item + 2;
  const auto callOf = [](const HostWork &work) {
    return LibraryObject::callOf(work.label(), work.in(), work.out(), nullptr);
  };
  check(forward.label(), object->runPair(callOf(forward), callOf(backward)));
  inPair = 2;
}

HostBody::Span LibraryStage::run(const HostWork &work, plan::Time) {
  const Label label = work.label();
  plan::Time start = clock.now();
  if (inPair > 0) {
    --inPair;
    return {start, start};
  }
  if (label.operation->kind == Kind::Overlapped) {
    if (!object->runsPairs() || !work.item->heads) // the two run one after the other
      return {start, start};
    runPair(work);
  } else {
    check(label, object->run(label, work.in(), work.out(), nullptr));
  }
  return {start, clock.now()};
}

void LibraryStage::gradientNorm(QueueId, const Label &label, Slot number) {
  std::memset(number.data, 0, size_t(number.bytes)); // where the library has no such function
  check(label, object->gradientNorm(label, number, nullptr));
}

void LibraryStage::setGlobalNorm(QueueId, const Label &label, Slot number) {
  check(label, object->setGlobalNorm(label, number, nullptr));
}

} // namespace pipec::runtime
