// One rank, one microbatch, two layers whose all-reduce takes 20 and each half 10: the forward hides gathers.
// RUN: pipe-opt %s -split-input-file --pipe-build-schedule --pipe-decouple-all-reduce | FileCheck %s
// RUN: pipe-opt %s -split-input-file --pipe-build-schedule --pipe-decouple-all-reduce | pipe-opt -split-input-file --verify-roundtrip | FileCheck %s

// Each replica updates its half between the two. The gather of the layer that the forward needs first goes first, and is
// what the first part of the forward waits for; the second runs meanwhile.
// CHECK-LABEL: pipe.program @rank0
// CHECK: pipe.forward(%[[G0:.*]]) stage 0 microbatch 0 layers 0 to 1
// CHECK: pipe.forward(%[[G1:.*]]) stage 0 microbatch 0 layers 1 to 2
// CHECK: %[[B1:.*]] = pipe.backward stage 0 microbatch 0 layers 1 to 2
// CHECK: %[[S1:.*]] = pipe.reduce_scatter gradients(%[[B1]] : !pipe.token) replicas 2 stage 0 layers 1 to 2 bytes 8 to 16 cost 10
// CHECK: %[[U1:.*]] = pipe.optimizer_step(%[[S1]] : !pipe.token) stage 0 layers 1 to 2 cost 2
// CHECK: %[[B0:.*]] = pipe.backward({{.*}}) stage 0 microbatch 0 layers 0 to 1
// CHECK-DAG: %[[S0:.*]] = pipe.reduce_scatter gradients(%[[B0]] : !pipe.token) replicas 2 stage 0 layers 0 to 1 bytes 0 to 8 cost 10
// CHECK-DAG: %[[U0:.*]] = pipe.optimizer_step(%[[S0]] : !pipe.token) stage 0 layers 0 to 1 cost 2
// CHECK-DAG: %[[G0]] = pipe.all_gather weights(%[[U0]] : !pipe.token) replicas 2 stage 0 layers 0 to 1 bytes 0 to 8 cost 10
// CHECK-DAG: %[[G1]] = pipe.all_gather weights(%[[U1]] : !pipe.token) replicas 2 stage 0 layers 1 to 2 bytes 8 to 16 cost 10
// CHECK-NOT: pipe.all_reduce
pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 1>
    replicas <degree = 2, all_reduce = <start = 10, hops = 2>, reduce_scatter = <start = 10>, all_gather = <start = 10>,
              layers = [[#pipe.layer<forward = 10, backward = 20, update = 4, gradients = [8], weights = 8>,
                         #pipe.layer<forward = 10, backward = 20, update = 4, gradients = [8], weights = 8>]]> {
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 20 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 40 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// Halves that take as long as the whole make the step longer.
// CHECK-LABEL: pipe.program @rank0
// CHECK: pipe.all_reduce gradients
// CHECK: pipe.all_reduce gradients
// CHECK-NOT: {{pipe.reduce_scatter|pipe.all_gather}}
pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 1>
    replicas <degree = 2, all_reduce = <start = 20>, reduce_scatter = <start = 20>, all_gather = <start = 20>,
              layers = [[#pipe.layer<forward = 10, backward = 20, gradients = [8], weights = 8>,
                         #pipe.layer<forward = 10, backward = 20, gradients = [8], weights = 8>]]> {
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 20 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 40 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// Updates of whole layers come behind the gather.
// CHECK-LABEL: pipe.program @rank0
// CHECK: pipe.forward(%[[U:.*]]) stage 0 microbatch 0 cost 10
// CHECK: %[[S:.*]] = pipe.reduce_scatter gradients
// CHECK: %[[G:.*]] = pipe.all_gather gradients
// CHECK: %[[U]] = pipe.optimizer_step(%[[G]] : !pipe.token) stage 0 layers 0 to 1 cost 4
pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 1>
    replicas <degree = 2, all_reduce = <start = 10, hops = 2>, reduce_scatter = <start = 10>, all_gather = <start = 10>,
              may_shard = false, layers = [[#pipe.layer<forward = 10, backward = 20, update = 4, gradients = [8]>]]> {
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// Without replicas there is nothing to do.
// CHECK-LABEL: pipe.program @rank0
// CHECK-NOT: {{pipe.all_reduce|pipe.reduce_scatter|pipe.all_gather}}
pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 1> {
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}
