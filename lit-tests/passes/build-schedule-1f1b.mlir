// 1F1B on two ranks, three microbatches, fused: rank 0 runs F F B F B B, rank 1 F B F B F B; each ends with its optimizer.
// RUN: pipe-opt %s --pipe-build-schedule | FileCheck %s
pipe.pipeline @"1f1b" problem <placement = [0, 1], microbatches = 3, link = <latency 5 bandwidth 8000000000000>,
      optimizer = [7, 8], static_bytes = [100, 0], memory_limit = [1000, 1000]> {
  pipe.block interval 3 {
    %0:3 = pipe.forward stage 0 at 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 at 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 at 2 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 at 4 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// CHECK-LABEL: pipe.program @rank0 rank 0 communicator per_edge
// CHECK-SAME: {memory_limit = 1000 : i64, stages = array<i32: 0>, static_bytes = 100 : i64} enter {
// CHECK-NEXT: } step {
// CHECK-NEXT: %[[V0:.*]]:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V1:.*]]:3 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: pipe.backward(%[[V0]]#1, %[[V0]]#2) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
// CHECK-NEXT: %[[V3:.*]]:3 = pipe.forward stage 0 microbatch 2 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: pipe.backward(%[[V1]]#1, %[[V1]]#2) stage 0 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
// CHECK-NEXT: pipe.backward(%[[V3]]#1, %[[V3]]#2) stage 0 microbatch 2 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
// CHECK-NEXT: pipe.optimizer_step stage 0 cost 7
// CHECK-NEXT: } leave {
// CHECK-LABEL: pipe.program @rank1 rank 1 communicator per_edge
// CHECK-SAME: {memory_limit = 1000 : i64, stages = array<i32: 1>} enter {
// CHECK-NEXT: } step {
// CHECK-NEXT: %[[V0:.*]]:2 = pipe.forward stage 1 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V1:.*]] = pipe.backward(%[[V0]]#0, %[[V0]]#1) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
// CHECK-NEXT: %[[V2:.*]]:2 = pipe.forward stage 1 microbatch 1 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V3:.*]] = pipe.backward(%[[V2]]#0, %[[V2]]#1) stage 1 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
// CHECK-NEXT: %[[V4:.*]]:2 = pipe.forward stage 1 microbatch 2 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V5:.*]] = pipe.backward(%[[V4]]#0, %[[V4]]#1) stage 1 microbatch 2 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
// CHECK-NEXT: pipe.optimizer_step stage 1 cost 8
// CHECK-NEXT: } leave {
