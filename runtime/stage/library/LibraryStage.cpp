// From an instruction to a call and from its error to the rank's failure.
#include "runtime/stage/library/LibraryStage.h"

#include "runtime/plan/Disassemble.h"

#include <cstring>
#include <fmt/format.h>

namespace pipec::runtime {

using plan::Kind;

Status LibraryStage::make(const Library &library, const StageContext &context, std::unique_ptr<Stage> &stage) {
  const plan::Place place = plan::placeOf(context.world, context.plan);
  auto time = std::make_unique<OwnTime>(place, context.clock, context.failure, context.network);
  auto object = std::make_unique<LibraryObject>(library, place, RankShards{context.group, time.get()});
  Status status = object->create(context.plan, -1, nullptr);
  if (status.ok())
    stage.reset(new LibraryStage(std::move(time), std::move(object), context));
  return status;
}

void LibraryStage::check(const Label &label, const std::string &error) const {
  if (!error.empty())
    failure.raise(
        Status::run(fmt::format("{}: {}", plan::describe(object->place(), *label.operation, label.microbatch), error)));
}

/// A pair's header waits for what either pass needs, and nothing behind the pair starts before both have completed
/// (P43).
void LibraryStage::runPair(const HostWork &header) {
  HostWork forward = header, backward = header;
  forward.item = header.item + 1;
  backward.item = header.item + 2;
  const auto callOf = [this](const HostWork &work) {
    return object->callOf(work.label(), work.in(), work.out(), nullptr);
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
  if (plan::isHeader(label.operation->kind)) {
    if (!object->runsPairs() || !work.item->heads) // the two run one after the other
      return {start, start};
    runPair(work);
  } else if (group) {
    return runShard(work, start);
  } else {
    check(label, object->run(label, work.in(), work.out(), nullptr));
  }
  return {start, clock.now()};
}

HostBody::Span LibraryStage::runShard(const HostWork &work, plan::Time start) {
  const Label label = work.label();
  group->begin(label);
  ownTime->begin();
  const std::string error = object->run(label, work.in(), work.out(), nullptr);
  if (error.empty())
    ownTime->pause();
  group->end();
  check(label, error);
  const plan::Time end = clock.now(), own = ownTime->own();
  return {start, end, own, end - start - own};
}

void LibraryStage::gradientNorm(QueueId, const Label &label, Slot number, const Then &then) {
  std::memset(number.data, 0, size_t(number.bytes)); // where the library has no such function
  check(label, object->gradientNorm(label, number, nullptr));
  then();
}

void LibraryStage::setGlobalNorm(QueueId, const Label &label, Slot number, const Then &then) {
  check(label, object->setGlobalNorm(label, number, nullptr));
  then();
}

} // namespace pipec::runtime
