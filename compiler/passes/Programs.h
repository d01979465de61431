// The programs of a module as passes look at them: by rank, with the nodes and edges of their dependence graph.
#pragma once

#include "compiler/passes/Graph.h"
#include "compiler/schedule/Problem.h"
#include "dialects/pipe/Pipe.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"

#include <vector>

namespace pipec {

/// The module's pipeline; an error at the module if there is none or more than one.
pipe::PipelineOp findPipeline(mlir::ModuleOp module);

/// The module's programs, programs[r] being rank r's; an error where one is missing or doubled, or there is none.
mlir::FailureOr<std::vector<pipe::ProgramOp>> findPrograms(mlir::ModuleOp module);

/// What the pipeline says, as the scheduler takes it: costs and sizes from the block's ops and types.
schedule::Problem problemOf(pipe::PipelineOp pipeline);

/// The words of the programs.
schedule::Words wordsOf(const std::vector<pipe::ProgramOp> &programs);

/// What shares a transfer queue of a rank has equal keys.
std::pair<int32_t, int> queueKey(pipe::Communicator communicator, int32_t peer, bool sends);

/// F, B, W, BW; not transfers or optimizer steps.
bool isPass(mlir::Operation *op);
int32_t stageOf(mlir::Operation *op);
/// Of a pass or a transfer.
int32_t microbatchOf(mlir::Operation *op);
/// "F stage 3 microbatch 7"
std::string nameOf(mlir::Operation *op);

/// One transfer: its two ops (null before communication is inserted), and the passes at either end.
struct Transfer {
  pipe::SendOp send;
  pipe::RecvOp recv;
  mlir::Operation *producer = nullptr;
  mlir::Operation *consumer = nullptr;
  int32_t from = 0, to = 0;
};

/// The dependence graph: nodes [0, passes) are passes[n], the rest transfers[n - passes].
struct Dependences {
  Graph graph;
  std::vector<mlir::Operation *> passes; // of all ranks; optimizer steps too
  std::vector<int32_t> rankOf;           // of passes
  std::vector<Transfer> transfers;

  Graph::Node nodeOf(size_t transfer) const { return Graph::Node(passes.size() + transfer); }
  bool isTransfer(Graph::Node node) const { return node >= passes.size(); }
  Transfer transferAt(Graph::Node node) const { return transfers[node - passes.size()]; }
};

/// Adds every op of the programs but the transfers, in program order, and the edges of each rank's word.
/// `node` of an op is remembered in `nodes`. The first transfer that it passed by; null if there is none.
using Nodes = llvm::DenseMap<mlir::Operation *, Graph::Node>;
mlir::Operation *addWords(const std::vector<pipe::ProgramOp> &programs, Dependences &dependences, Nodes &nodes);

/// Adds a transfer and the edges from its producer and to its consumer.
void addTransfer(Dependences &dependences, const Nodes &nodes, Transfer transfer);

/// Collects the transfers of programs that have communication, matched by (payload, stage, microbatch); an error where
/// a send has no receive or the other way round.
mlir::LogicalResult addTransfers(const std::vector<pipe::ProgramOp> &programs, Dependences &dependences,
                                 const Nodes &nodes);

/// Reports a cycle among nodes, each waiting for the next; notes may be added.
mlir::InFlightDiagnostic reportCycle(const Dependences &dependences, const std::vector<Graph::Node> &cycle);

/// Puts the ops of all programs in this order. Transfers without ops are skipped.
void arrange(const std::vector<pipe::ProgramOp> &programs, const Dependences &dependences,
             const std::vector<Graph::Node> &order);

} // namespace pipec
