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

namespace {

/// The all-reduces that a rank executes a step, over all ranks or with its partner.
struct Reduces {
  const Operation *operation = nullptr;
  int64_t count = 0;
};
Reduces reducesOf(const Program &program, const Facts &facts, bool ofTwo) {
  Reduces own;
  for (size_t i = 0; i < program.operations.size(); ++i)
    if (const Operation &o = program.operations[i];
        o.kind == Kind::AllReduce && (o.peer != -1) == ofTwo && facts.operation[i] > 0) {
      own.operation = &o;
      own.count += facts.operation[i];
    }
  return own;
}

Status alike(const Operation &one, size_t rank, const Operation &other, size_t otherRank, const char *rule) {
  if (one.bytes == other.bytes && one.cost == other.cost)
    return {};
  return Status::check(fmt::format("{}: rank {} reduces {} in {}, rank {} {} in {}", rule, rank, bytesText(one.bytes),
                                   timeText(one.cost), otherRank, bytesText(other.bytes), timeText(other.cost)));
}

} // namespace

Status collectives(const Variant &variant, const std::vector<Facts> &facts) {
  const Operation *first = nullptr;
  for (size_t r = 0; r < variant.programs.size(); ++r) {
    const auto [own, count] = reducesOf(variant.programs[r], facts[r], false);
    if (count > 1)
      return Status::check(fmt::format("P38: rank {} executes {} all-reduces a step, expected at most one", r, count));
    if (r == 0)
      first = own;
    if (!own != !first)
      return Status::check(fmt::format("P38: rank {} executes {} all-reduce a step, rank 0 {}", r, own ? "an" : "no",
                                       first ? "one" : "none"));
    if (own)
      if (Status status = alike(*own, r, *first, 0, "P38"); !status.ok())
        return status;
  }
  return {};
}

Status copySums(const Variant &variant, const std::vector<Facts> &facts) {
  const std::vector<Work> work = workOfStages(variant, facts);
  bool optimizer = false;
  for (const Work &w : work)
    optimizer |= w.optimizer > 0;
  for (size_t r = 0; r < variant.programs.size(); ++r) {
    const int32_t partner = variant.partnerOf(int32_t(r));
    const int64_t expected = partner >= 0 && optimizer;
    const auto [own, count] = reducesOf(variant.programs[r], facts[r], true);
    if (count != expected)
      return Status::check(fmt::format(
          "P41: rank {} executes {} all-reduces of its copies' gradients a step, expected {}", r, count, expected));
    if (own && size_t(partner) < r)
      if (Status status =
              alike(*own, r, *reducesOf(variant.programs[size_t(partner)], facts[size_t(partner)], true).operation,
                    size_t(partner), "P41");
          !status.ok())
        return status;
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
      const int32_t other = up ? variant.after(o.stage) : variant.before(o.stage);
      if (other < 0)
        return Status::check(fmt::format("P22: {}: there is no stage {} stage {}", describe(program.rank, o, 0),
                                         up ? "after" : "before", o.stage));
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
    const bool apart = variant.after(int32_t(s)) >= 0 && rankOf[s] != rankOf[s + 1];
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
