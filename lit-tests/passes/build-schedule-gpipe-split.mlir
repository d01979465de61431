// GPipe with a split backward: all forwards, then B and W in turn, W directly after its B.
// RUN: pipe-opt %s --pipe-build-schedule | FileCheck %s
pipe.pipeline @gpipe problem <placement = [0, 1], microbatches = 2, communicator = shared, workspace = [3, 0]> {
  pipe.block interval 100 {
    %0:3 = pipe.forward stage 0 at 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 at 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward_input(%1#0) stage 1 at 202 cost 11 : (!pipe.activation<4>) -> !pipe.tensor<8>
    pipe.backward_weight(%1#1) stage 1 at 203 cost 9 : (!pipe.context<2>) -> ()
    pipe.backward_input(%0#1, %2) stage 0 at 204 cost 11 : (!pipe.activation<4>, !pipe.tensor<8>) -> ()
    pipe.backward_weight(%0#2) stage 0 at 205 cost 9 : (!pipe.context<2>) -> ()
  }
}

// CHECK-LABEL: pipe.program @rank0 rank 0 communicator shared
// CHECK-SAME: {stages = array<i32: 0>, workspace = 3 : i64} enter {
// CHECK-NEXT: } step {
// CHECK-NEXT: %[[V0:.*]]:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V1:.*]]:3 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: pipe.backward_input(%[[V0]]#1) stage 0 microbatch 0 cost 11 : (!pipe.activation<4>) -> ()
// CHECK-NEXT: pipe.backward_weight(%[[V0]]#2) stage 0 microbatch 0 cost 9 : (!pipe.context<2>) -> ()
// CHECK-NEXT: pipe.backward_input(%[[V1]]#1) stage 0 microbatch 1 cost 11 : (!pipe.activation<4>) -> ()
// CHECK-NEXT: pipe.backward_weight(%[[V1]]#2) stage 0 microbatch 1 cost 9 : (!pipe.context<2>) -> ()
// CHECK-NEXT: pipe.optimizer_step stage 0 cost 0
// CHECK-NEXT: } leave {
// CHECK-LABEL: pipe.program @rank1 rank 1 communicator shared
// CHECK-SAME: {stages = array<i32: 1>} enter {
// CHECK-NEXT: } step {
// CHECK-NEXT: %[[V0:.*]]:2 = pipe.forward stage 1 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V1:.*]]:2 = pipe.forward stage 1 microbatch 1 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V2:.*]] = pipe.backward_input(%[[V0]]#0) stage 1 microbatch 0 cost 11 : (!pipe.activation<4>) -> !pipe.tensor<8>
// CHECK-NEXT: pipe.backward_weight(%[[V0]]#1) stage 1 microbatch 0 cost 9 : (!pipe.context<2>) -> ()
// CHECK-NEXT: %[[V3:.*]] = pipe.backward_input(%[[V1]]#0) stage 1 microbatch 1 cost 11 : (!pipe.activation<4>) -> !pipe.tensor<8>
// CHECK-NEXT: pipe.backward_weight(%[[V1]]#1) stage 1 microbatch 1 cost 9 : (!pipe.context<2>) -> ()
// CHECK-NEXT: pipe.optimizer_step stage 1 cost 0
// CHECK-NEXT: } leave {
