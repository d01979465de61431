// Replicas: each layer's gradients are summed when they are complete, the layer is updated behind that, and the next step's
// forward, cut into layers, waits for just that update.
// RUN: pipe-opt %s --pipe-build-schedule | FileCheck %s
// RUN: pipe-opt %s --pipe-build-schedule | pipe-opt --verify-roundtrip | FileCheck %s
// RUN: pipe-opt %s --pipe-build-schedule | pipe-opt --pipe-insert-communication | FileCheck %s --check-prefix=SENT

pipe.pipeline @p problem <placement = [0, 1], microbatches = 2> orders [#pipe.order<F0 F0 BW0 BW0>, #pipe.order<F1 BW1 F1 BW1>]
    replicas <degree = 4, all_reduce = <start = 3, hops = 6>, reduce_scatter = <start = 3, hops = 3>,
              all_gather = <start = 3, hops = 3>,
              layers = [[#pipe.layer<forward = 4, backward = 8, update = 8, gradients = [8]>,
                         #pipe.layer<forward = 6, backward = 12, update = 4, gradients = [16, 8]>],
                        [#pipe.layer<forward = 10, backward = 20, update = 4, gradients = [8]>]]> {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// The first part of a forward has the memory, the last the tensor; of a backward the last takes what it holds.
// CHECK-LABEL: pipe.program @rank0
// CHECK: %[[F:.*]]:2 = pipe.forward(%[[U0:.*]]) stage 0 microbatch 0 layers 0 to 1 cost 4 : (!pipe.token) -> (!pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: pipe.forward(%[[U1:.*]]) stage 0 microbatch 0 layers 1 to 2 cost 6 : (!pipe.token) -> !pipe.tensor<8>
// CHECK-NEXT: pipe.forward stage 0 microbatch 1 cost 10
// CHECK-NEXT: pipe.backward(%[[F]]#0, %[[F]]#1) stage 0 microbatch 0 cost 20
// CHECK-NEXT: %[[B1:.*]] = pipe.backward stage 0 microbatch 1 layers 1 to 2 cost 12 : () -> !pipe.token
// CHECK-NEXT: %[[S1:.*]] = pipe.all_reduce gradients(%[[B1]] : !pipe.token) replicas 4 stage 0 layers 1 to 2 bytes 8 to 32 cost 18 : !pipe.token
// CHECK-NEXT: %[[U1]] = pipe.optimizer_step(%[[S1]] : !pipe.token) stage 0 layers 1 to 2 cost 4 : !pipe.token
// CHECK-NEXT: %[[B0:.*]] = pipe.backward({{.*}}) stage 0 microbatch 1 layers 0 to 1 cost 8 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.token
// CHECK-NEXT: %[[S0:.*]] = pipe.all_reduce gradients(%[[B0]] : !pipe.token) replicas 4 stage 0 layers 0 to 1 bytes 0 to 8 cost 18 : !pipe.token
// CHECK-NEXT: %[[U0]] = pipe.optimizer_step(%[[S0]] : !pipe.token) stage 0 layers 0 to 1 cost 8 : !pipe.token
// CHECK-NEXT: } leave
// A stage of one layer is not cut.
// CHECK-LABEL: pipe.program @rank1
// CHECK: pipe.forward(%[[U:.*]]) stage 1 microbatch 0 cost 10 : (!pipe.token)
// CHECK: %[[S:.*]] = pipe.all_reduce gradients({{.*}}) replicas 4 stage 1 layers 0 to 1 bytes 0 to 8
// CHECK-NEXT: %[[U]] = pipe.optimizer_step(%[[S]] : !pipe.token) stage 1 layers 0 to 1

// What is sent comes of the last part, and the first part takes what is received.
// SENT: %[[T:.*]] = pipe.forward({{.*}}) stage 0 microbatch 0 layers 1 to 2
// SENT-NEXT: pipe.send(%[[T]]) F stage 0 microbatch 0
// SENT: %[[G:.*]] = pipe.recv B stage 0 microbatch 1
// SENT-NEXT: pipe.backward(%[[G]]) stage 0 microbatch 1 layers 1 to 2 cost 12 : (!pipe.tensor<8>) -> !pipe.token
