// A plan file from a stranger, its checksum made right so that the tables behind it are reached: refused, or else
// harmless to verify, prove, simulate, disassemble and write again.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Format.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Provider.h"
#include "runtime/plan/Write.h"
#include "runtime/simulate/Simulate.h"
#include "test/fuzz/Mutate.h"

#include <zlib.h>

#include <cstdlib>
#include <cstring>

using namespace pipec;

namespace {

void hold(bool rule) {
  if (!rule)
    std::abort();
}

void setChecksum(std::vector<uint8_t> &file) {
  if (file.size() <= plan::kHeaderBytes)
    return;
  const auto checksum = uint32_t(crc32(0, file.data() + plan::kHeaderBytes, uInt(file.size() - plan::kHeaderBytes)));
  std::memcpy(file.data() + plan::kChecksumAt, &checksum, sizeof checksum);
}

template <typename Number> void change(Number &number, fuzz::Random &random) {
  number = Number(fuzz::near(int64_t(number), random));
}

/// A row twice, two swapped, or one gone.
template <typename Row> void changeRows(std::vector<Row> &rows, fuzz::Random &random) {
  if (rows.empty())
    return;
  const size_t at = random.below(rows.size());
  switch (random.below(3)) {
  case 0:
    rows.insert(rows.begin() + ptrdiff_t(at), Row(rows[at]));
    break;
  case 1:
    std::swap(rows[at], rows[random.below(rows.size())]);
    break;
  case 2:
    rows.erase(rows.begin() + ptrdiff_t(at));
    break;
  }
}

void changeOperation(plan::Operation &operation, fuzz::Random &random) {
  int64_t *const numbers[] = {&operation.cost, &operation.latency, &operation.bytes, &operation.activation,
                              &operation.context};
  switch (random.below(4)) {
  case 0:
    operation.kind = plan::Kind(random.below(plan::kKinds + 1));
    break;
  case 1:
    operation.of = plan::Payload(random.below(4));
    break;
  case 2:
    change(random.oneIn(2) ? operation.stage : operation.peer, random);
    break;
  default:
    change(*random.of(numbers), random);
  }
}

void changeInstruction(plan::Instruction &instruction, fuzz::Random &random) {
  switch (random.below(6)) {
  case 0:
    return change(instruction.operation, random);
  case 1:
    return change(instruction.queue, random);
  case 2:
    return change(instruction.firstWait, random);
  case 3:
    return change(instruction.waits, random);
  case 4:
    return change(instruction.microbatch, random);
  default:
    return change(instruction.microbatchStride, random);
  }
}

void changeProgram(plan::Program &program, fuzz::Random &random) {
  const auto one = [&](auto &rows, auto changeRow) {
    if (random.oneIn(3))
      changeRows(rows, random);
    else if (!rows.empty())
      changeRow(random.of(rows));
  };
  switch (random.below(9)) {
  case 0:
    return change(program.rank, random);
  case 1:
    return one(program.stages, [&](int32_t &stage) { change(stage, random); });
  case 2:
    return one(program.queues, [&](plan::Queue &queue) {
      queue = {plan::QueueKind(random.below(3)), plan::Priority(random.below(4))};
    });
  case 3:
    return one(program.rings, [&](plan::Ring &ring) {
      random.oneIn(3)   ? change(ring.slotBytes, random)
      : random.oneIn(2) ? change(ring.size, random)
                        : change(ring.peer, random);
    });
  case 4:
    return one(program.operations, [&](plan::Operation &operation) { changeOperation(operation, random); });
  case 5:
    return one(program.instructions, [&](plan::Instruction &each) { changeInstruction(each, random); });
  case 6:
    return one(program.waits, [&](plan::Wait &wait) {
      random.oneIn(3)   ? change(wait.queue, random)
      : random.oneIn(4) ? void(wait.previousStep = !wait.previousStep)
      : random.oneIn(2) ? change(wait.base, random)
                        : change(wait.stride, random);
    });
  case 7:
    return one(program.step, [&](plan::Segment &segment) {
      random.oneIn(2)   ? change(segment.trips, random)
      : random.oneIn(2) ? change(segment.count, random)
                        : change(segment.first, random);
    });
  default:
    return change(random.oneIn(2) ? program.staticBytes : program.workspace, random);
  }
}

void change(plan::LeastTime &least, fuzz::Random &random) {
  plan::Time time = least.picoseconds();
  change(time, random);
  least = plan::LeastTime::proven(time);
}

void changePlan(plan::Plan &plan, fuzz::Random &random) {
  plan::Variant &variant = random.of(plan.variants);
  switch (random.below(20)) {
  case 0:
    return changeRows(plan.variants, random);
  case 1:
    return changeRows(variant.programs, random);
  case 2:
    return change(variant.stages, random);
  case 3:
    return change(variant.microbatches, random);
  case 4:
    return change(variant.memoryLimit, random);
  case 5:
    return random.oneIn(2) ? change(variant.certificate.makespan, random)
                           : change(variant.certificate.lowerBound, random);
  case 6:
    return changeRows(plan.processes, random);
  case 7:
    return changeRows(plan.provider, random);
  default:
    if (!variant.programs.empty())
      changeProgram(random.of(variant.programs), random);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  setChecksum(file);
  plan::Plan plan;
  if (!plan::decode(file, plan).ok())
    return 0;
  (void)plan::disassemble(plan, {});
  std::string provider;
  (void)plan::jsonOf(plan.provider, provider);
  plan::Plan again;
  hold(plan::decode(plan::encode(plan), again).ok() && again == plan); // what is read is written as it was
  if (!plan::verify(plan).ok())
    return 0;
  for (const plan::Variant &variant : plan.variants) {
    simulate::Result result;
    (void)simulate::prove(variant, result);
    plan::Time span = 0;
    (void)simulate::span(variant, span, result);
  }
  return 0;
}

/// Changes the tables of what can be read, so that more than one rule is reached.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  fuzz::Random random(seed);
  std::vector<uint8_t> file(data, data + size);
  setChecksum(file);
  plan::Plan plan;
  if (random.oneIn(4) || !plan::decode(file, plan).ok())
    return LLVMFuzzerMutate(data, size, maxSize);
  for (size_t changes = 1 + random.below(3); changes > 0 && !plan.variants.empty(); --changes)
    changePlan(plan, random);
  return fuzz::give(plan::encode(plan), data, maxSize);
}
