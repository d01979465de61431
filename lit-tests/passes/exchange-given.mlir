// An exchange that the pipeline has is the one that its programs get.
// RUN: pipe-opt %s --pipe-build-schedule | FileCheck %s

// Deferred W: the two of the tail are cut where collectives begin, and run in the order of the next forward's need.
// CHECK-LABEL: pipe.program @rank0
// CHECK: pipe.forward(%[[G:.*]]) stage 0 microbatch 0 layers 0 to 1 cost 10 : (!pipe.token)
// CHECK: pipe.forward(%[[U:.*]]) stage 0 microbatch 0 layers 1 to 2 cost 10 : (!pipe.token)
// CHECK: pipe.backward_weight stage 0 microbatch 0 layers 0 to 1 cost 10
// CHECK: pipe.backward_weight stage 0 microbatch 1 layers 0 to 1 cost 10
// CHECK: pipe.reduce_scatter gradients({{.*}}) replicas 2 stage 0 layers 0 to 1 bytes 0 to 8 cost 3
// CHECK: pipe.optimizer_step({{.*}}) stage 0 layers 0 to 1 cost 2 : !pipe.token
// CHECK: %[[G]] = pipe.all_gather weights({{.*}}) replicas 2 stage 0 layers 0 to 1 bytes 0 to 8 cost 4
// CHECK: pipe.backward_weight({{.*}}) stage 0 microbatch 0 layers 1 to 2 cost 10 : (!pipe.context<2>) -> ()
// CHECK: pipe.backward_weight({{.*}}) stage 0 microbatch 1 layers 1 to 2 cost 10 : (!pipe.context<2>) -> !pipe.token
// CHECK: pipe.all_reduce gradients({{.*}}) replicas 2 stage 0 layers 1 to 2 bytes 8 to 16 cost 12
// CHECK: %[[U]] = pipe.optimizer_step({{.*}}) stage 0 layers 1 to 2 cost 4 : !pipe.token
pipe.pipeline @p problem <placement = [0], microbatches = 2> orders [#pipe.order<F0 F0 B0 B0 W0 W0>]
    replicas <degree = 2, all_reduce = <start = 5>, reduce_scatter = <start = 3>, all_gather = <start = 4>,
              layers = [[#pipe.layer<forward = 10, backward_input = 10, backward_weight = 10, update = 4, gradients = [8]>,
                         #pipe.layer<forward = 10, backward_input = 10, backward_weight = 10, update = 4, gradients = [8]>]]>
    exchange <sharded = true, tails = [2],
              queues = [[#pipe.collective<reduce_scatter stage 0 layers 0 to 1 bytes 0 to 8>,
                         #pipe.collective<all_gather stage 0 layers 0 to 1 bytes 0 to 8>,
                         #pipe.collective<all_reduce stage 0 layers 1 to 2 bytes 8 to 16 rounds 7>]]> {
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 20 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward_input(%0#0) stage 0 cost 20 : (!pipe.activation<4>) -> ()
    pipe.backward_weight(%0#1) stage 0 cost 20 : (!pipe.context<2>) -> ()
  }
}
