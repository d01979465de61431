// The ops of data parallelism: what is printed is read back the same, in the pretty and in the generic form.
// RUN: pipe-opt %s --verify-roundtrip | FileCheck %s
// RUN: pipe-opt %s --mlir-print-op-generic | pipe-opt | FileCheck %s
// RUN: pipe-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// A forward takes tokens of ops further down: those of the step before.
// CHECK-LABEL: pipe.program @rank0
// CHECK: pipe.forward(%[[GATHER:.*]]) stage 0 microbatch 0 layers 0 to 1 cost 4 : (!pipe.token)
// CHECK: pipe.backward stage 0 microbatch 0 layers 1 to 3 cost 12 : () -> !pipe.token
// CHECK: pipe.reduce_scatter gradients({{.*}}) replicas 4 stage 0 layers 1 to 3 bytes 8 to 32 cost 9 : !pipe.token
// CHECK: pipe.optimizer_step({{.*}}) stage 0 layers 1 to 3 cost 1 : !pipe.token
// CHECK: pipe.all_reduce gradients({{.*}}) replicas 4 stage 0 layers 0 to 1 bytes 0 to 6 cost 18 : !pipe.token
// CHECK: %[[GATHER]] = pipe.all_gather weights({{.*}}) replicas 4 stage 0 layers 0 to 3 bytes 0 to 64 cost 9 : !pipe.token
// CHECK: pipe.optimizer_step stage 1 layers 0 to 1 cost 2
// CHECK-NOT: token
// GENERIC: "pipe.reduce_scatter"(%{{.*}}) <{begin = 8 : i64, bytes = 24 : i64, cost = 9 : i64, layers = #pipe.layers<1 to 3>, of = 4 : i32, replicas = 4 : i32, stage = 0 : i32}> : (!pipe.token) -> !pipe.token
pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward(%gather) stage 0 microbatch 0 layers 0 to 1 cost 4
      : (!pipe.token) -> (!pipe.activation<4>, !pipe.context<2>)
  pipe.forward(%gather) stage 0 microbatch 0 layers 1 to 3 cost 6 : (!pipe.token) -> ()
  %1 = pipe.backward stage 0 microbatch 0 layers 1 to 3 cost 12 : () -> !pipe.token
  %2 = pipe.reduce_scatter gradients(%1 : !pipe.token) replicas 4 stage 0 layers 1 to 3 bytes 8 to 32 cost 9 : !pipe.token
  %3 = pipe.optimizer_step(%2 : !pipe.token) stage 0 layers 1 to 3 cost 1 : !pipe.token
  %4 = pipe.backward(%0#0, %0#1) stage 0 microbatch 0 layers 0 to 1 cost 8
      : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.token
  %5 = pipe.all_reduce gradients(%4 : !pipe.token) replicas 4 stage 0 layers 0 to 1 bytes 0 to 6 cost 18 : !pipe.token
  %gather = pipe.all_gather weights(%3, %5 : !pipe.token, !pipe.token) replicas 4 stage 0 layers 0 to 3 bytes 0 to 64 cost 9
      : !pipe.token
  pipe.optimizer_step stage 1 layers 0 to 1 cost 2
} leave {}

// Parts of split backwards and of a forward that is done again.
// CHECK-LABEL: pipe.program @rank1
// CHECK: pipe.recompute(%{{.*}}) stage 1 microbatch 0 layers 0 to 2
// CHECK: pipe.backward_input stage 1 microbatch 0 layers 1 to 2
// CHECK: pipe.backward_input(%{{.*}}) stage 1 microbatch 0 layers 0 to 1
// CHECK: pipe.backward_weight(%{{.*}}) stage 1 microbatch 0 layers 0 to 2
pipe.program @rank1 rank 1 communicator per_edge enter {} step {
  %0 = pipe.forward stage 1 microbatch 0 layers 0 to 1 cost 4 : () -> !pipe.input<8>
  pipe.forward stage 1 microbatch 0 layers 1 to 2 cost 4 : () -> ()
  %1:2 = pipe.recompute(%0) stage 1 microbatch 0 layers 0 to 2 cost 8
      : (!pipe.input<8>) -> (!pipe.activation<4>, !pipe.context<2>)
  pipe.backward_input stage 1 microbatch 0 layers 1 to 2 cost 4 : () -> ()
  pipe.backward_input(%1#0) stage 1 microbatch 0 layers 0 to 1 cost 4 : (!pipe.activation<4>) -> ()
  pipe.backward_weight(%1#1) stage 1 microbatch 0 layers 0 to 2 cost 4 : (!pipe.context<2>) -> ()
} leave {}

// CHECK-LABEL: pipe.pipeline @p problem <placement = [0], microbatches = 1>
// CHECK-SAME: replicas <degree = 4, all_reduce = <start = 3, bandwidth = 7, hops = 6, parts = 4>, reduce_scatter = <>, all_gather = <hops = 3>, may_shard = false, shares_port = true, round = 9, layers = {{\[\[}}#pipe.layer<forward = 1, backward = 5, backward_input = 2, backward_weight = 3, update = 4, gradients = [8, 16], weights = 6, state = 7>, #pipe.layer<>]]>
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    replicas <degree = 4, all_reduce = <start = 3, bandwidth = 7, hops = 6, parts = 4>, reduce_scatter = <>,
              all_gather = <hops = 3>, may_shard = false, shares_port = true, round = 9,
              layers = [[#pipe.layer<forward = 1, backward = 5, backward_input = 2, backward_weight = 3, update = 4,
                                     gradients = [8, 16], weights = 6, state = 7>, #pipe.layer<>]]> {
  pipe.block {}
}

// A solution of the exchange.
// CHECK-LABEL: pipe.pipeline @q
// CHECK-SAME: exchange <updates = stages, sharded = true, at_end = true, barrier = true, ahead = true, tails = [3], queues = {{\[\[}}#pipe.collective<reduce_scatter stage 0 layers 0 to 1 bytes 0 to 8>, #pipe.collective<all_gather stage 0 layers 0 to 1 bytes 0 to 8 rounds 5>]]>
pipe.pipeline @q problem <placement = [0], microbatches = 1>
    replicas <degree = 4, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[#pipe.layer<gradients = [8]>]]>
    exchange <updates = stages, sharded = true, at_end = true, barrier = true, ahead = true, tails = [3],
              queues = [[#pipe.collective<reduce_scatter stage 0 layers 0 to 1 bytes 0 to 8>,
                         #pipe.collective<all_gather stage 0 layers 0 to 1 bytes 0 to 8 rounds 5>]]> {
  pipe.block {}
}
