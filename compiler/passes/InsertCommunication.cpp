// pipe-insert-communication: sends and receives for what flows between ranks, in one order of all transfers.
#include "compiler/passes/Passes.h"
#include "compiler/program/Dependences.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

namespace pipec {
#define GEN_PASS_DEF_INSERTCOMMUNICATION
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;
using namespace pipec::pipe;

namespace {

/// Makes the ops of transfers. Nothing is uniqued but what an operation is met for the first time.
class TransferBuilder {
public:
  explicit TransferBuilder(MLIRContext *context)
      : context(context), builder(context), sendName(SendOp::getOperationName(), context),
        recvName(RecvOp::getOperationName(), context), token(TokenType::get(context)),
        noAttributes(DictionaryAttr::get(context)) {}

  void beginRank(const Stream &stream) { made.assign(stream.operations.size(), {}); }

  Operation *send(const Stream &stream, const Record &record, Operation *producer) {
    SendOp::Properties properties;
    fill(properties, stream, record);
    return createOp(producer->getLoc(), sendName, token, Value(firstOf<BufferType>(producer->getResults())), 0, {},
                    noAttributes, &properties);
  }
  Operation *recv(const Stream &stream, const Record &record, Operation *consumer) {
    RecvOp::Properties properties;
    fill(properties, stream, record);
    // Room for the token of whoever had its buffer before.
    const Value any = consumer->getNumResults() != 0 ? Value(consumer->getResult(0)) : Value();
    return createOp(consumer->getLoc(), recvName, made[record.operation].tensor, {}, any ? 1 : 0, any, noAttributes,
                    &properties);
  }

private:
  struct Attributes {
    IntegerAttr stage, peer, cost, latency;
    PayloadAttr of;
    Type tensor;
  };

  template <typename Properties> void fill(Properties &properties, const Stream &stream, const Record &record) {
    Attributes &known = made[record.operation];
    if (!known.stage) {
      const plan::Operation &operation = stream.of(record);
      known = {builder.getI32IntegerAttr(operation.stage),
               builder.getI32IntegerAttr(operation.peer),
               builder.getI64IntegerAttr(operation.cost),
               builder.getI64IntegerAttr(operation.latency),
               PayloadAttr::get(context, operation.of == plan::Payload::Forward ? Payload::Forward : Payload::Backward),
               BufferType::get(context, operation.bytes)};
    }
    properties.of = known.of;
    properties.stage = known.stage;
    properties.microbatch = microbatchAttr(record.microbatch);
    properties.peer = known.peer;
    properties.cost = known.cost;
    properties.latency = known.latency;
  }

  IntegerAttr microbatchAttr(int32_t microbatch) {
    if (size_t(microbatch) >= microbatches.size())
      microbatches.resize(size_t(microbatch) + 1);
    IntegerAttr &attribute = microbatches[size_t(microbatch)];
    if (!attribute)
      attribute = builder.getI32IntegerAttr(microbatch);
    return attribute;
  }

  MLIRContext *context;
  mlir::Builder builder;
  OperationName sendName, recvName;
  Type token;
  DictionaryAttr noAttributes;
  std::vector<Attributes> made;          // by operation of the rank
  std::vector<IntegerAttr> microbatches; // by number
};

struct InsertCommunicationPass : pipec::impl::InsertCommunicationBase<InsertCommunicationPass> {
  void runOnOperation() override {
    PipelineOp pipeline = findPipeline(getOperation());
    if (!pipeline)
      return signalPassFailure();
    Streams &streams = getAnalysis<Streams>();
    if (!streams.valid)
      return signalPassFailure();
    for (const Stream &stream : streams.ranks)
      for (uint32_t i = 0; i != stream.records.size(); ++i)
        if (plan::isTransfer(stream.kind(stream.records[i]))) {
          stream.emitError(i) << "expected programs without communication";
          return signalPassFailure();
        }
    if (failed(findTransfers(problemOf(pipeline), streams)))
      return signalPassFailure();
    if (pipeline.placesTransfers()) {
      if (failed(placeAsGiven(pipeline, streams)))
        return signalPassFailure();
    } else {
      Ordered &ordered = getAnalysis<Ordered>();
      if (!ordered.sorted) {
        ordered.dependences.report(streams, ordered.order);
        return signalPassFailure();
      }
      ordered.dependences.arrange(streams, ordered.order);
      ordered.arranged = true;
    }
    if (!streams.ranks.empty() && streams.ranks.front().hasOps())
      createOps(streams);
    markAnalysesPreserved<Streams, Ordered>();
  }

  /// A transfer for each F that is not on the rank of the F before it, and the same for backwards.
  LogicalResult findTransfers(const schedule::Problem &problem, Streams &streams) {
    // By stage and microbatch, rank and record of the pass, forwards and backwards apart.
    using Place = std::pair<uint32_t, uint32_t>;
    const size_t microbatches = size_t(problem.microbatches);
    std::vector<Place> forwards(problem.stages.size() * microbatches, {kNone, kNone}), backwards = forwards;
    std::vector<size_t> own, most; // records of each rank, and as many as they may become
    for (uint32_t rank = 0; rank != streams.ranks.size(); ++rank) {
      const Stream &stream = streams.ranks[rank];
      own.push_back(stream.records.size());
      most.push_back(own.back());
      for (uint32_t i = 0; i != stream.records.size(); ++i) {
        const Record &record = stream.records[i];
        plan::Kind kind = stream.kind(record);
        if (!plan::isCompute(kind) || kind == plan::Kind::BackwardWeight)
          continue;
        most.back() += 2;
        const size_t stage = size_t(stream.of(record).stage), microbatch = size_t(record.microbatch);
        if (stage >= problem.stages.size() || microbatch >= microbatches)
          return stream.emitError(i) << stream.nameOf(i) << " is none of the pipeline's " << problem.stages.size()
                                     << " stages and " << microbatches << " microbatches";
        Place &place = (kind == plan::Kind::Forward ? forwards : backwards)[stage * microbatches + microbatch];
        if (place.first != kNone)
          return stream.emitError(i) << stream.nameOf(i) << " stands twice";
        place = {rank, i};
      }
    }
    for (uint32_t rank = 0; rank != streams.ranks.size(); ++rank)
      streams.ranks[rank].records.reserve(most[rank]);
    for (uint32_t rank = 0; rank != streams.ranks.size(); ++rank) {
      Stream &stream = streams.ranks[rank];
      std::vector<Hop> hops(stream.operations.size());
      // Transfers are appended behind the rank's own records meanwhile.
      for (uint32_t i = 0; i != own[rank]; ++i) {
        const int64_t bytes = stream.yieldOf(i);
        if (bytes < 0)
          continue;
        bool forward = stream.kind(stream.records[i]) == plan::Kind::Forward;
        int32_t stage = stream.of(stream.records[i]).stage, microbatch = stream.records[i].microbatch;
        const int32_t next = forward ? problem.after(stage) : problem.before(stage);
        const Place consumer = next >= 0
                                   ? (forward ? forwards : backwards)[size_t(next) * microbatches + size_t(microbatch)]
                                   : Place{kNone, kNone};
        auto [to, taker] = consumer;
        if (to == kNone)
          return stream.emitError(i) << stream.nameOf(i) << " yields a tensor that no stage takes";
        if (to != rank)
          addTransfer(problem, streams, {int32_t(rank), int32_t(to), i, kNone, taker, kNone}, bytes,
                      hops[stream.records[i].operation]);
      }
    }
    for (Stream &stream : streams.ranks)
      if (stream.hasOps())
        stream.ops.resize(stream.records.size());
    streams.matched = true;
    return success();
  }

  /// What carries what passes of one operation give.
  struct Hop {
    int64_t bytes = -1;
    int32_t to = -1, stage = -1; // rank and stage that take it
    uint32_t send = 0, recv = 0; // operations
  };

  /// `known`: of the same operation of the same rank, in another microbatch.
  void addTransfer(const schedule::Problem &problem, Streams &streams, Transfer transfer, int64_t bytes, Hop &known) {
    Stream &from = streams.ranks[size_t(transfer.from)], &to = streams.ranks[size_t(transfer.to)];
    const int32_t stage = to.of(to.records[transfer.consumer]).stage;
    if (known.bytes != bytes || known.to != transfer.to || known.stage != stage) {
      const plan::Operation &producer = from.of(from.records[transfer.producer]);
      const schedule::Link &link = problem.linkBetween(transfer.from, transfer.to);
      plan::Operation send;
      send.kind = plan::Kind::Send;
      send.of = producer.kind == plan::Kind::Forward ? plan::Payload::Forward : plan::Payload::Backward;
      send.stage = producer.stage;
      send.peer = transfer.to;
      send.cost = schedule::wireTime(bytes, link.bandwidth);
      send.latency = link.latency;
      send.bytes = bytes;
      plan::Operation recv = send;
      recv.kind = plan::Kind::Recv;
      recv.stage = stage;
      recv.peer = transfer.from;
      known = {bytes, transfer.to, stage, from.indexOf(send), to.indexOf(recv)};
    }
    int32_t microbatch = from.records[transfer.producer].microbatch;
    uint32_t id = uint32_t(streams.transfers.size());
    transfer.send = from.records[transfer.producer].out = uint32_t(from.records.size());
    transfer.recv = to.records[transfer.consumer].in = uint32_t(to.records.size());
    from.records.push_back({known.send, microbatch, transfer.producer, id});
    to.records.push_back({known.recv, microbatch, id, transfer.consumer});
    streams.transfers.push_back(transfer);
  }

  /// Each rank's transfers where its order says; each waits for the pass before it, and all for sends that it says.
  LogicalResult placeAsGiven(PipelineOp pipeline, Streams &streams) {
    auto wrong = [&](const Twine &what) { return pipeline.emitError() << what, failure(); };
    if (pipeline.getOrders()->size() != streams.ranks.size())
      return wrong("expected a program for each of its " + Twine(pipeline.getOrders()->size()) + " orders");
    for (auto [rank, given] : llvm::enumerate(pipeline.getOrders()->getAsRange<OrderAttr>())) {
      Stream &stream = streams.ranks[rank];
      // By kind, payload, stage and microbatch.
      llvm::DenseMap<std::pair<uint64_t, uint32_t>, uint32_t> unplaced;
      auto keyOf = [](bool sends, bool forward, int32_t stage, int32_t microbatch) {
        return std::pair(uint64_t(uint32_t(stage)) << 2 | uint64_t(sends) << 1 | uint64_t(forward),
                         uint32_t(microbatch));
      };
      std::vector<uint32_t> upTo{0}; // so many records with the first passes of each number
      uint32_t own = 0;              // all but transfers
      for (uint32_t i = 0; i != stream.records.size(); ++i) {
        const plan::Operation &operation = stream.of(stream.records[i]);
        own += !plan::isTransfer(operation.kind);
        if (plan::isCompute(operation.kind))
          upTo.push_back(i + 1);
        if (plan::isTransfer(operation.kind))
          unplaced[keyOf(operation.kind == plan::Kind::Send, operation.of == plan::Payload::Forward, operation.stage,
                         stream.records[i].microbatch)] = i;
      }
      std::vector<uint32_t> order, awaited; // awaited: sends
      std::vector<Use> gates;
      decltype(unplaced) sent;
      uint32_t next = 0;
      auto place = [&](uint32_t record) {
        // Of an overlapped pair the F says what its header waits for.
        const bool overlaps = stream.kind(stream.records[record]) == plan::Kind::Overlapped;
        for (const uint32_t send : awaited)
          gates.push_back({record + (overlaps ? 1 : 0), send});
        order.push_back(record);
      };
      // What stands behind a pass waits for what the pass waits for.
      auto placeOwn = [&](uint32_t end) {
        for (; next != end; ++next, awaited.clear())
          place(next);
      };
      size_t passes = 0;
      for (const Action &action : given.getActions()) {
        if (action.what == Action::What::Pass) {
          if (++passes == upTo.size())
            return wrong("expected the passes of rank " + Twine(rank) + "'s program in its order, found more");
          continue;
        }
        placeOwn(upTo[passes]);
        const bool waits = action.what == Action::What::Wait, sends = action.what != Action::What::Recv;
        auto &known = waits ? sent : unplaced;
        const auto key = keyOf(sends, action.letter == Letter::F, action.stage, action.microbatch);
        const auto found = known.find(key);
        if (found == known.end())
          return waits ? wrong("expected what rank " + Twine(rank) + " waits for to be sent before, found " +
                               text(action))
                       : wrong("expected each of rank " + Twine(rank) +
                               "'s transfers once in its order, found another, " + text(action));
        const uint32_t record = found->second;
        known.erase(found);
        if (waits) {
          awaited.push_back(record);
          continue;
        }
        if (next != 0)
          gates.push_back({record, next - 1});
        place(record);
        if (sends)
          sent[key] = record;
      }
      if (!unplaced.empty())
        return wrong("expected each of rank " + Twine(rank) + "'s transfers once in its order, " +
                     Twine(unplaced.size()) + " are missing");
      placeOwn(own);
      stream.uses.insert(stream.uses.end(), gates.begin(), gates.end());
      streams.permute(rank, order);
    }
    streams.fixTransfers();
    return success();
  }

  /// The ops of each rank's transfers, each in its place.
  void createOps(Streams &streams) {
    TransferBuilder builder(&getContext());
    for (Stream &stream : streams.ranks) {
      builder.beginRank(stream);
      Operation *previous = nullptr;
      for (uint32_t i = 0; i != stream.ops.size(); ++i) {
        const Record &record = stream.records[i];
        Operation *&op = stream.ops[i];
        if (!op) {
          op = stream.kind(record) == plan::Kind::Send ? builder.send(stream, record, stream.ops[record.in])
                                                       : builder.recv(stream, record, stream.ops[record.out]);
          if (previous)
            previous->getBlock()->getOperations().insertAfter(previous->getIterator(), op);
          else
            stream.program.getStep().front().push_front(op);
        } else if (record.in != kNone && plan::isTransfer(stream.kind(stream.records[record.in]))) {
          op->insertOperands(op->getNumOperands(), stream.ops[record.in]->getResult(0));
        }
        previous = op;
      }
      for (const Use &use : stream.uses) {
        Operation *user = stream.ops[use.user];
        Operation *definition = stream.ops[use.definition];
        if (!isa<SendOp, RecvOp>(user) && !isa<SendOp>(definition))
          continue; // it has taken the token since it was made
        user->insertOperands(user->getNumOperands(), Value(firstOf<TokenType>(definition->getResults())));
      }
    }
  }
};

} // namespace
