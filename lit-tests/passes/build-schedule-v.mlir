// Two stages a rank, there and back: what flows between stages of one rank stays a value, what comes from another rank is
// taken later, and leaves a token.
// RUN: pipe-opt %s --pipe-build-schedule | FileCheck %s
pipe.pipeline @v problem <placement = [0, 1, 1, 0], microbatches = 2, link = <latency 5>> {
  pipe.block interval 6 {
    %0:3 = pipe.forward stage 0 at 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:3 = pipe.forward(%0#0) stage 1 at 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %2:3 = pipe.forward(%1#0) stage 2 at 2 cost 10 : (!pipe.tensor<8>) -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %3:2 = pipe.forward(%2#0) stage 3 at 3 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %4 = pipe.backward(%3#0, %3#1) stage 3 at 4 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    %5 = pipe.backward(%2#1, %2#2, %4) stage 2 at 5 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.tensor<8>
    %6 = pipe.backward(%1#1, %1#2, %5) stage 1 at 6 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %6) stage 0 at 8 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// CHECK-LABEL: pipe.program @rank0 rank 0 communicator per_edge
// CHECK-SAME: {stages = array<i32: 0, 3>} enter {
// CHECK-NEXT: } step {
// CHECK-NEXT: %[[V0:.*]]:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V1:.*]]:2 = pipe.forward stage 3 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V2:.*]] = pipe.backward(%[[V1]]#0, %[[V1]]#1) stage 3 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
// CHECK-NEXT: %[[V3:.*]]:3 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: pipe.backward(%[[V0]]#1, %[[V0]]#2) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
// CHECK-NEXT: %[[V5:.*]]:2 = pipe.forward stage 3 microbatch 1 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V6:.*]] = pipe.backward(%[[V5]]#0, %[[V5]]#1) stage 3 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
// CHECK-NEXT: pipe.backward(%[[V3]]#1, %[[V3]]#2) stage 0 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
// CHECK-NEXT: pipe.optimizer_step stage 0 cost 0
// CHECK-NEXT: pipe.optimizer_step stage 3 cost 0
// CHECK-NEXT: } leave {
// CHECK-LABEL: pipe.program @rank1 rank 1 communicator per_edge
// CHECK-SAME: {stages = array<i32: 1, 2>} enter {
// CHECK-NEXT: } step {
// CHECK-NEXT: %[[V0:.*]]:3 = pipe.forward stage 1 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V1:.*]]:3 = pipe.forward(%[[V0]]#0) stage 2 microbatch 0 cost 10 : (!pipe.tensor<8>) -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V2:.*]] = pipe.backward(%[[V1]]#1, %[[V1]]#2) stage 2 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
// CHECK-NEXT: %[[V3:.*]] = pipe.backward(%[[V0]]#1, %[[V0]]#2, %[[V2]]) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.tensor<8>
// CHECK-NEXT: %[[V4:.*]]:3 = pipe.forward stage 1 microbatch 1 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V5:.*]]:3 = pipe.forward(%[[V4]]#0) stage 2 microbatch 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V6:.*]] = pipe.backward(%[[V5]]#1, %[[V5]]#2) stage 2 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
// CHECK-NEXT: %[[V7:.*]] = pipe.backward(%[[V4]]#1, %[[V4]]#2, %[[V6]]) stage 1 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.tensor<8>
// CHECK-NEXT: pipe.optimizer_step stage 1 cost 0
// CHECK-NEXT: pipe.optimizer_step stage 2 cost 0
// CHECK-NEXT: } leave {
