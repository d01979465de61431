#include "compiler/program/ProgramText.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>
#include <map>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

using OpOfKind = std::map<plan::Kind, RegisteredOperationName>;

/// Each kind's op, as the ops themselves say.
OpOfKind opsOfKinds(MLIRContext &context) {
  OpOfKind ops;
  for (const RegisteredOperationName &op : context.getRegisteredOperations())
    if (const auto *instruction = op.getInterface<InstructionOpInterface>())
      ops.emplace(instruction->kind(), op);
  return ops;
}

/// Writes one program.
class Writer {
public:
  Writer(const Program &program, const std::vector<plan::Group> &groups, int32_t degree, bool sharesStages,
         const OpOfKind &opOfKind, OpBuilder &builder)
      : program(program), groups(groups), degree(degree), sharesStages(sharesStages), opOfKind(opOfKind),
        builder(builder), token(TokenType::get(builder.getContext())), again(recomputedStages(program)) {}

  void run() {
    ProgramOp op = makeProgram();
    findTokens();
    findParts();
    builder.setInsertionPointToEnd(&op.getStep().front());
    ops.resize(program.instructions.size());
    for (uint32_t i = 0; i != ops.size(); ++i) {
      if (!plan::isHeader(program.kind(program.instructions[i]))) {
        ops[i] = make(i);
        continue;
      }
      writePair(i);
      i += 2;
    }
    addCarried();
    for (const plan::Window &window : program.windows)
      ops[window.instruction]->setAttr("window", WindowAttr::get(builder.getContext(), window.length, window.from));
    builder.setInsertionPointAfter(op);
  }

private:
  /// What the passes of one stage and microbatch have yielded for later passes of this program.
  struct Held {
    Value activation, context, backwardContext, input;
    std::array<Value, 3> given; // by payload; none of those that give nothing
  };

  ProgramOp makeProgram() {
    const auto optional = [&](plan::Bytes bytes) { return bytes ? builder.getI64IntegerAttr(bytes) : IntegerAttr(); };
    const auto unless = [&](int32_t value, int32_t usual) {
      return value == usual ? IntegerAttr() : builder.getI32IntegerAttr(value);
    };
    auto op = builder.create<ProgramOp>(
        program.place, builder.getStringAttr("rank" + std::to_string(program.rank)),
        builder.getI32IntegerAttr(program.rank), CommunicatorAttr::get(builder.getContext(), program.communicator),
        program.stages.empty() ? DenseI32ArrayAttr() : builder.getDenseI32ArrayAttr(program.stages),
        optional(program.staticBytes), optional(program.workspace),
        program.memoryLimit ? builder.getI64IntegerAttr(*program.memoryLimit) : IntegerAttr(), ringsAttr(),
        program.fillsWeights ? builder.getUnitAttr() : UnitAttr(), unless(program.copies, 1), unless(program.slices, 1),
        unless(program.job, -1), optional(program.piece));
    for (Region *region : {&op.getEnter(), &op.getStep(), &op.getLeave()})
      region->emplaceBlock();
    return op;
  }

  ArrayAttr ringsAttr() {
    if (!program.rings)
      return {};
    SmallVector<Attribute> attributes;
    for (const Ring &ring : *program.rings) {
      attributes.push_back(RingAttr::get(builder.getContext(), ring.direction == plan::Direction::Send, ring.peer,
                                         int32_t(ring.size), ring.slotBytes, ring.drained));
      slots[{ring.peer, ring.direction == plan::Direction::Send}] = {ring.size, 0};
    }
    return builder.getArrayAttr(attributes);
  }

  /// Finds the instructions that yield a token: those that others wait for without taking data of them, and the pass
  /// behind each receive, at whose end the receive's buffer is free.
  void findTokens() {
    yieldsToken.resize(program.instructions.size());
    for (const std::vector<Use> *uses : {&program.uses, &program.carried})
      for (const Use &use : *uses)
        yieldsToken[use.definition] = true;
    for (const Instruction &instruction : program.instructions) {
      const plan::Kind kind = program.kind(instruction);
      if (plan::receives(kind) && instruction.out != kNone)
        yieldsToken[instruction.out] = true;
      if (program.onWeightsQueue(instruction) && instruction.in != kNone)
        yieldsToken[instruction.in] = true;
    }
  }

  IntegerAttr slotOf(const plan::Operation &operation) {
    const auto found = slots.find({operation.peer, plan::sends(operation.kind)});
    if (found == slots.end())
      return {};
    auto &[size, next] = found->second;
    return builder.getI32IntegerAttr(int32_t(next++ % size));
  }

  /// Adds the operands of an instruction's uses: tokens, or the tensor of a receive that several passes take.
  void addUses(uint32_t i, SmallVectorImpl<Value> &operands) {
    for (; nextUse != program.uses.size() && program.uses[nextUse].user == i; ++nextUse) {
      const uint32_t definition = program.uses[nextUse].definition;
      operands.push_back(valueOf<TokenType>(definition) ? valueOf<TokenType>(definition)
                                                        : valueOf<BufferType>(definition));
    }
  }

  /// The value of the type `Type` that an instruction yields. If the instruction stands in a pair, that is the pair's
  /// result, as ops behind the pair see it.
  template <typename Type> Value valueOf(uint32_t i) { return seen(firstOf<Type>(ops[i]->getResults())); }
  Value seen(Value value) {
    const auto found = outer.find(value);
    return found == outer.end() ? value : found->second;
  }

  Operation *make(uint32_t i) {
    const Instruction &instruction = program.instructions[i];
    const plan::Operation &operation = program.of(instruction);
    const Location place = program.placeOf(i);
    SmallVector<Value, 4> operands;
    switch (operation.kind) {
    case plan::Kind::Send: {
      operands.push_back(valueOf<BufferType>(instruction.in));
      addUses(i, operands);
      return builder.create<SendOp>(place, token, operands, payloadOf(operation), operation.stage,
                                    instruction.microbatch, operation.peer, operation.cost, operation.latency,
                                    slotOf(operation));
    }
    case plan::Kind::Recv:
      addUses(i, operands);
      return builder.create<RecvOp>(place, BufferType::get(builder.getContext(), operation.bytes), operands,
                                    payloadOf(operation), operation.stage, instruction.microbatch, operation.peer,
                                    operation.cost, operation.latency, slotOf(operation));
    case plan::Kind::AllReduce:
      return makeCollective<AllReduceOp>(i);
    case plan::Kind::ReduceScatter:
      return makeCollective<ReduceScatterOp>(i);
    case plan::Kind::AllGather:
      return makeCollective<AllGatherOp>(i);
    case plan::Kind::Reshard:
      addUses(i, operands);
      return builder.create<ReshardOp>(place, token, operands, payloadOf(operation), operation.stage,
                                       groups[size_t(operation.group)].members, operation.bytes, operation.cost);
    case plan::Kind::Optimizer:
      addUses(i, operands);
      return builder.create<OptimizerStepOp>(place, yieldsToken[i] ? token : Type(), operands,
                                             builder.getI32IntegerAttr(operation.stage), layersOf(operation),
                                             builder.getI64IntegerAttr(operation.cost), WindowAttr());
    default: // a pass, by its row
      return makePass(i);
    }
  }

  LayersAttr layersOf(const plan::Operation &operation) {
    return operation.layers == 0
               ? LayersAttr()
               : LayersAttr::get(builder.getContext(), operation.firstLayer, operation.firstLayer + operation.layers);
  }

  template <typename CollectiveOp> Operation *makeCollective(uint32_t i) {
    const plan::Operation &operation = program.of(program.instructions[i]);
    SmallVector<Value, 4> operands;
    addUses(i, operands);
    const bool ofLayers = operation.layers != 0, ofReplicas = ofLayers && !sharesStages && !plan::isOfShared(operation);
    std::vector<int32_t> members;
    if (operation.group >= 0)
      members = groups[size_t(operation.group)].members;
    if (plan::isOfShared(operation)) { // text has its ranks; replicas are all alike
      for (int32_t &member : members)
        member /= degree;
      members.erase(std::unique(members.begin(), members.end()), members.end());
    }
    const auto only = [&](bool has, int32_t value) { return has ? builder.getI32IntegerAttr(value) : IntegerAttr(); };
    return builder.create<CollectiveOp>(
        program.placeOf(i), token, operands, SharedAttr::get(builder.getContext(), static_cast<Shared>(operation.of)),
        ofReplicas || members.empty() ? DenseI32ArrayAttr() : builder.getDenseI32ArrayAttr(members),
        only(ofReplicas, int32_t(members.size())), only(ofLayers, operation.stage), layersOf(operation),
        builder.getI64IntegerAttr(operation.bytes),
        ofLayers ? builder.getI64IntegerAttr(operation.begin) : IntegerAttr(),
        builder.getI64IntegerAttr(operation.cost));
  }

  /// Of a pass in parts, which of them runs first and which last.
  struct Parts {
    uint32_t first = kNone, last = kNone;
  };
  static uint64_t keyOf(const plan::Operation &operation, int32_t microbatch) {
    return uint64_t(operation.kind) << 48 | uint64_t(uint32_t(operation.stage)) << 24 | uint32_t(microbatch);
  }
  void findParts() {
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      const plan::Operation &operation = program.of(program.instructions[i]);
      if (operation.layers == 0 || !plan::isCompute(operation.kind))
        continue;
      Parts &own = partsOf[keyOf(operation, program.instructions[i].microbatch)];
      if (own.first == kNone)
        own.first = i;
      own.last = i;
    }
  }

  /// Adds tokens of the step before. What yields them stands further down and is written by now.
  void addCarried() {
    for (const Use &use : program.carried)
      ops[use.user]->insertOperands(ops[use.user]->getNumOperands(), valueOf<TokenType>(use.definition));
  }

  static Payload payloadOf(const plan::Operation &operation) {
    return operation.of == plan::Payload::Forward ? Payload::Forward : Payload::Backward;
  }

  Operation *makePass(uint32_t i) {
    const Instruction &instruction = program.instructions[i];
    const plan::Operation &operation = program.of(instruction);
    const plan::KindRow &row = plan::rowOf(operation.kind);
    OperationState made(program.placeOf(i), opOfKind.at(operation.kind));
    const auto take = [&](Value value) {
      if (value)
        made.operands.push_back(seen(value));
    };
    const Parts parts = operation.layers == 0 ? Parts{i, i} : partsOf.at(keyOf(operation, instruction.microbatch));
    Held &own = held[{operation.stage, instruction.microbatch}];
    const unsigned frees = parts.last == i ? row.frees : 0;
    if ((frees & plan::kInput) != 0)
      take(own.input);
    if ((frees & plan::kActivation) != 0)
      take(own.activation);
    if ((frees & plan::kContext) != 0)
      take(own.context);
    if ((frees & plan::kBackwardContext) != 0)
      take(own.backwardContext);
    if (row.gives == plan::Payload::None) {
      if (instruction.in != kNone)
        take(valueOf<TokenType>(instruction.in));
    } else if (instruction.in != kNone) {
      take(valueOf<BufferType>(instruction.in)); // received from another rank
    } else if (parts.first == i) {
      const int32_t neighbour = operation.stage + (row.gives == plan::Payload::Forward ? -1 : 1);
      if (const auto found = held.find({neighbour, instruction.microbatch}); found != held.end())
        take(found->second.given[size_t(row.gives)]);
    }
    addUses(i, made.operands);
    MLIRContext *context = builder.getContext();
    if (const plan::Bytes bytes = program.yields[instruction.operation]; bytes >= 0)
      made.addTypes(BufferType::get(context, bytes));
    const unsigned holds = parts.first == i ? plan::takes(row.kind, again.contains(operation.stage)) : 0;
    if ((holds & plan::kInput) != 0)
      made.addTypes(InputType::get(context, operation.bytes));
    if ((holds & plan::kActivation) != 0)
      made.addTypes(ActivationType::get(context, operation.activation));
    const bool more = (holds & plan::kBackwardContext) != 0 && operation.context != 0;
    if ((holds & plan::kContext) != 0 || more)
      made.addTypes(ContextType::get(context, operation.context));
    if (yieldsToken[i])
      made.addTypes(token);
    made.addAttribute("stage", builder.getI32IntegerAttr(operation.stage));
    made.addAttribute("microbatch", builder.getI32IntegerAttr(instruction.microbatch));
    if (LayersAttr layers = layersOf(operation))
      made.addAttribute("layers", layers);
    made.addAttribute("cost", builder.getI64IntegerAttr(operation.cost));
    Operation *pass = builder.create(made);
    if ((holds & plan::kInput) != 0)
      own.input = firstOf<InputType>(pass->getResults());
    if ((holds & plan::kActivation) != 0)
      own.activation = firstOf<ActivationType>(pass->getResults());
    if ((holds & plan::kContext) != 0)
      own.context = firstOf<ContextType>(pass->getResults());
    if (more)
      own.backwardContext = firstOf<ContextType>(pass->getResults());
    own.given[size_t(row.gives)] = firstOf<BufferType>(pass->getResults());
    return pass;
  }

  /// Writes a header and the two passes behind it as one op, whose results are all that the two yield.
  void writePair(uint32_t header) {
    mlir::Block body;
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&body);
      SmallVector<Value, 6> yielded;
      for (const uint32_t i : {header + 1, header + 2}) {
        ops[i] = makePass(i);
        llvm::append_range(yielded, ops[i]->getResults());
      }
      builder.create<YieldOp>(program.placeOf(header), yielded);
    }
    Operation *last = body.getTerminator();
    auto pair = builder.create<OverlappedOp>(program.placeOf(header), last->getOperandTypes(),
                                             program.of(program.instructions[header]).cost, WindowAttr());
    mlir::Block &made = pair.getBody().emplaceBlock();
    made.getOperations().splice(made.end(), body.getOperations());
    for (const auto [inner, result] : llvm::zip(last->getOperands(), pair.getResults()))
      outer[inner] = result;
    ops[header] = pair;
  }

  const Program &program;
  const std::vector<plan::Group> &groups;
  const int32_t degree;    // replicas of each rank
  const bool sharesStages; // several ranks have a stage
  const OpOfKind &opOfKind;
  OpBuilder &builder;
  const Type token;
  std::vector<Operation *> ops; // by instruction
  std::vector<bool> yieldsToken;
  /// Size of a ring and its next transfer's number, by peer and whether it sends.
  std::map<std::pair<int32_t, bool>, std::pair<uint32_t, uint32_t>> slots;
  llvm::DenseMap<std::pair<int32_t, int32_t>, Held> held; // by stage and microbatch
  llvm::DenseMap<Value, Value> outer;                     // value inside a pair → the pair's result
  llvm::DenseMap<uint64_t, Parts> partsOf;                // by kind, stage and microbatch
  const llvm::SmallSet<int32_t, 4> again;
  size_t nextUse = 0;
};

} // namespace

void writePrograms(const ProgramSet &set, ModuleOp module) {
  for (ProgramOp program : llvm::make_early_inc_range(module.getOps<ProgramOp>()))
    program.erase();
  OpBuilder builder(module.getContext());
  builder.setInsertionPointToEnd(module.getBody());
  const OpOfKind opOfKind = opsOfKinds(*module.getContext());
  for (const Program &program : set.programs)
    Writer(program, set.groups, set.degree, !set.stageGroups.empty(), opOfKind, builder).run();
}

} // namespace pipec
