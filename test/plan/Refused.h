// How a rule's test speaks: a right plan, one change, the label that must answer.
#pragma once

#include "runtime/plan/Load.h"
#include "runtime/plan/Write.h"
#include "test/plan/MakePlan.h"

#include <functional>
#include <gtest/gtest.h>

namespace pipec::plan::test {

/// The plan must be refused by this rule, in memory and as a file.
inline void expectRefused(const Plan &plan, const std::string &label, Code code) {
  const Status inMemory = verify(plan);
  EXPECT_EQ(inMemory.message.substr(0, label.size() + 2), label + ": ") << inMemory.message;
  EXPECT_EQ(inMemory.code, code) << inMemory.message;
  Plan read;
  Status fromFile = decode(encode(plan), read);
  if (code == Code::Check) {
    EXPECT_TRUE(fromFile.ok()) << fromFile.message;
    fromFile = verify(read);
  }
  EXPECT_EQ(fromFile.message, inMemory.message);
}

/// Each change, made to the right plan alone, must be refused by this rule. The plan is right again afterwards.
inline void expectEachRefused(Plan &plan, const char *label, Code code,
                              const std::vector<std::function<void()>> &changes) {
  const Plan right = plan;
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    changes[i]();
    expectRefused(plan, label, code);
    plan = right;
  }
}

/// The first instruction of a kind of a rank, of a payload if one is named.
inline Instruction &firstOf(Program &program, Kind kind, Payload of = Payload::None) {
  for (Instruction &i : program.instructions)
    if (program.operations[i.operation].kind == kind &&
        (of == Payload::None || program.operations[i.operation].of == of))
      return i;
  throw std::logic_error("no such instruction");
}

inline Operation &operationOf(Program &program, Kind kind, Payload of = Payload::None) {
  return program.operations[firstOf(program, kind, of).operation];
}

/// The wait of an instruction on a queue.
inline Wait &waitOf(Program &program, const Instruction &instruction, uint32_t queue) {
  for (uint32_t w = 0; w < instruction.waits; ++w)
    if (Wait &wait = program.waits[instruction.firstWait + w]; wait.queue == queue)
      return wait;
  throw std::logic_error("no such wait");
}

} // namespace pipec::plan::test
