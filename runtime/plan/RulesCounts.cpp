// Rules P21 to P23 and P33: how often each kind of work and each transfer is executed, in closed form, before anything
// is walked. With these the walks are bounded by stages x microbatches, so a flipped trip count is refused at once.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Rules.h"
#include "runtime/plan/Text.h"

#include <fmt/format.h>

namespace pipec::plan::rules {
namespace {

/// How often each kind is executed for one stage; transfers by what they carry.
struct Work {
  int64_t forward = 0, backwardInput = 0, backwardWeight = 0, backward = 0, optimizer = 0;
  int64_t sendForward = 0, sendBackward = 0, recvForward = 0, recvBackward = 0;
  const Operation *holds = nullptr; // F

  void add(const Operation &o, int64_t times) {
    switch (o.kind) {
    case Kind::Forward:
      forward += times;
      break;
    case Kind::BackwardInput:
      backwardInput += times;
      break;
    case Kind::BackwardWeight:
      backwardWeight += times;
      break;
    case Kind::Backward:
      backward += times;
      break;
    case Kind::Optimizer:
      optimizer += times;
      break;
    case Kind::Send:
      (o.of == Payload::Forward ? sendForward : sendBackward) += times;
      break;
    case Kind::Recv:
      (o.of == Payload::Forward ? recvForward : recvBackward) += times;
      break;
    default:
      break; // P6
    }
  }
};

std::vector<Work> workOfStages(const Variant &variant, const std::vector<Facts> &facts) {
  std::vector<Work> work(size_t(variant.stages));
  for (size_t r = 0; r < variant.programs.size(); ++r) {
    const std::vector<Operation> &operations = variant.programs[r].operations;
    for (size_t i = 0; i < operations.size(); ++i)
      work[size_t(operations[i].stage)].add(operations[i], facts[r].operation[i]);
  }
  return work;
}

bool anyBackward(const std::vector<Work> &work) {
  for (const Work &w : work)
    if (w.backward + w.backwardInput + w.backwardWeight > 0)
      return true;
  return false;
}

} // namespace

Status workCounts(const Variant &variant, const std::vector<Facts> &facts) {
  const std::vector<Work> work = workOfStages(variant, facts);
  // A plan without any backward is one for evaluation.
  const int64_t m = variant.microbatches, backwards = anyBackward(work) ? m : 0;
  bool optimizer = false;
  for (const Work &w : work)
    optimizer |= w.optimizer > 0;
  for (size_t s = 0; s < work.size(); ++s) {
    const Work &w = work[s];
    const auto error = [&](const char *what, int64_t found, int64_t expected) {
      return Status::check(fmt::format("P21: stage {} executes {} {} a step, expected {}", s, found, what, expected));
    };
    if (w.forward != m)
      return error("F", w.forward, m);
    if (w.backward + w.backwardInput != backwards)
      return error("B and BW", w.backward + w.backwardInput, backwards);
    if (w.backwardWeight != w.backwardInput)
      return error("W", w.backwardWeight, w.backwardInput);
    if (w.optimizer != int64_t(optimizer))
      return error("optimizer steps", w.optimizer, int64_t(optimizer));
  }
  return {};
}

Status collectives(const Variant &variant, const std::vector<Facts> &facts) {
  const Operation *first = nullptr;
  for (size_t r = 0; r < variant.programs.size(); ++r) {
    const Program &program = variant.programs[r];
    const Operation *own = nullptr;
    int64_t count = 0;
    for (size_t i = 0; i < program.operations.size(); ++i)
      if (program.operations[i].kind == Kind::AllReduce && facts[r].operation[i] > 0) {
        own = &program.operations[i];
        count += facts[r].operation[i];
      }
    if (count > 1)
      return Status::check(fmt::format("P38: rank {} executes {} all-reduces a step, expected at most one", r, count));
    if (r == 0)
      first = own;
    if (!own != !first)
      return Status::check(fmt::format("P38: rank {} executes {} all-reduce a step, rank 0 {}", r, own ? "an" : "no",
                                       first ? "one" : "none"));
    if (own && (own->bytes != first->bytes || own->cost != first->cost))
      return Status::check(fmt::format("P38: rank {} reduces {} in {}, rank 0 {} in {}", r, bytesText(own->bytes),
                                       timeText(own->cost), bytesText(first->bytes), timeText(first->cost)));
  }
  return {};
}

Status neighbours(const Variant &variant) {
  const std::vector<int32_t> rankOf = rankOfStages(variant);
  for (const Program &program : variant.programs)
    for (const Operation &o : program.operations) {
      if (!isTransfer(o.kind))
        continue;
      // Activations go to the next stage, gradients to the one before.
      const bool up = (o.kind == Kind::Send) == (o.of == Payload::Forward);
      const int32_t other = up ? o.stage + 1 : o.stage - 1;
      if (other < 0 || other >= variant.stages)
        return Status::check(fmt::format("P22: {}: there is no stage {}", describe(program.rank, o, 0), other));
      if (rankOf[size_t(other)] != o.peer)
        return Status::check(
            fmt::format("P22: {}: stage {} is on rank {}", describe(program.rank, o, 0), other, rankOf[size_t(other)]));
    }
  return {};
}

Status transferCounts(const Variant &variant, const std::vector<Facts> &facts) {
  const std::vector<int32_t> rankOf = rankOfStages(variant);
  const std::vector<Work> work = workOfStages(variant, facts);
  const int64_t m = variant.microbatches, backwards = anyBackward(work) ? m : 0;
  for (size_t s = 0; s + 1 < work.size(); ++s) {
    const bool apart = rankOf[s] != rankOf[s + 1];
    const auto check = [&](const char *what, size_t stage, int64_t found, int64_t expected) {
      return found == (apart ? expected : 0)
                 ? Status{}
                 : Status::check(fmt::format("P23: rank {} executes {} {} stage {} a step, expected {}", rankOf[stage],
                                             found, what, stage, apart ? expected : 0));
    };
    for (Status status :
         {check("send F", s, work[s].sendForward, m), check("recv F", s + 1, work[s + 1].recvForward, m),
          check("send B", s + 1, work[s + 1].sendBackward, backwards),
          check("recv B", s, work[s].recvBackward, backwards)})
      if (!status.ok())
        return status;
  }
  return {};
}

Status released(const Variant &variant, const std::vector<Facts> &facts) {
  struct Held {
    Bytes activation = 0, context = 0;
  };
  std::vector<Held> held(size_t(variant.stages));
  for (const Program &program : variant.programs)
    for (const Operation &o : program.operations)
      if (o.kind == Kind::Forward)
        held[size_t(o.stage)] = {o.activation, o.context};
  const bool backwards = anyBackward(workOfStages(variant, facts));
  for (const Program &program : variant.programs)
    for (const Operation &o : program.operations) {
      const Held &h = held[size_t(o.stage)];
      const auto error = [&](const char *what, Bytes found, Bytes expected) {
        return Status::check(fmt::format("P33: rank {}: {} of stage {} releases {} of {}, its F holds {}", program.rank,
                                         name(o.kind), o.stage, bytesText(found), what, bytesText(expected)));
      };
      if ((o.kind == Kind::BackwardInput || o.kind == Kind::Backward) && o.activation != h.activation)
        return error("activation", o.activation, h.activation);
      if ((o.kind == Kind::BackwardWeight || o.kind == Kind::Backward) && o.context != h.context)
        return error("context", o.context, h.context);
      if (!backwards && (o.activation != 0 || o.context != 0))
        return Status::check(
            fmt::format("P33: rank {}: F of stage {} holds memory that nothing releases", program.rank, o.stage));
    }
  return {};
}

} // namespace pipec::plan::rules
