// Every tensor that a stage on another rank consumes gets a send and a receive; wire time is bytes over bandwidth (8 bytes
// at 8 bytes a picosecond), and the exception from 1 to 0 has a latency of its own and no wire time.
// RUN: pipe-opt %s --pipe-insert-communication | FileCheck %s
pipe.pipeline @p problem <placement = [0, 1], microbatches = 2, link = <latency 5 bandwidth 8000000000000>,
      links = [#pipe.link<1 to 0 latency 7>]> {
  pipe.block interval 3 {
    %0:3 = pipe.forward stage 0 at 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 at 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 at 2 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 at 4 cost 20
        : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>} enter {
} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1:3 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %2 = pipe.backward(%0#1, %0#2) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.token
  %3 = pipe.backward(%1#1, %1#2) stage 0 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.token
  pipe.optimizer_step stage 0 cost 0
} leave {
}
pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>} enter {
} step {
  %0:3 = pipe.forward stage 1 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %1 = pipe.backward(%0#0, %0#1) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  %2:3 = pipe.forward stage 1 microbatch 1 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %3 = pipe.backward(%2#0, %2#1) stage 1 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  pipe.optimizer_step stage 1 cost 0
} leave {
}

// CHECK-LABEL: pipe.program @rank0 rank 0 communicator per_edge
// CHECK-SAME: {stages = array<i32: 0>} enter {
// CHECK-NEXT: } step {
// CHECK-NEXT: %[[V0:.*]]:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V1:.*]] = pipe.send(%[[V0]]#0) F stage 0 microbatch 0 to 1 cost 1 latency 5 : (!pipe.tensor<8>) -> !pipe.token
// CHECK-NEXT: %[[V2:.*]]:3 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: %[[V3:.*]] = pipe.send(%[[V2]]#0) F stage 0 microbatch 1 to 1 cost 1 latency 5 : (!pipe.tensor<8>) -> !pipe.token
// CHECK-NEXT: %[[V4:.*]] = pipe.recv B stage 0 microbatch 0 from 1 cost 0 latency 7 : () -> !pipe.tensor<8>
// CHECK-NEXT: %[[V5:.*]] = pipe.backward(%[[V0]]#1, %[[V0]]#2, %[[V4]]) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
// CHECK-NEXT: %[[V6:.*]] = pipe.recv B stage 0 microbatch 1 from 1 cost 0 latency 7 : () -> !pipe.tensor<8>
// CHECK-NEXT: %[[V7:.*]] = pipe.backward(%[[V2]]#1, %[[V2]]#2, %[[V6]]) stage 0 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
// CHECK-NEXT: pipe.optimizer_step stage 0 cost 0
// CHECK-NEXT: } leave {
// CHECK-LABEL: pipe.program @rank1 rank 1 communicator per_edge
// CHECK-SAME: {stages = array<i32: 1>} enter {
// CHECK-NEXT: } step {
// CHECK-NEXT: %[[V0:.*]] = pipe.recv F stage 1 microbatch 0 from 0 cost 1 latency 5 : () -> !pipe.tensor<8>
// CHECK-NEXT: %[[V1:.*]]:3 = pipe.forward(%[[V0]]) stage 1 microbatch 0 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
// CHECK-NEXT: %[[V2:.*]] = pipe.recv F stage 1 microbatch 1 from 0 cost 1 latency 5 : () -> !pipe.tensor<8>
// CHECK-NEXT: %[[V3:.*]] = pipe.backward(%[[V1]]#0, %[[V1]]#1) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
// CHECK-NEXT: %[[V4:.*]] = pipe.send(%[[V3]]) B stage 1 microbatch 0 to 0 cost 0 latency 7 : (!pipe.tensor<8>) -> !pipe.token
// CHECK-NEXT: %[[V5:.*]]:3 = pipe.forward(%[[V2]]) stage 1 microbatch 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
// CHECK-NEXT: %[[V6:.*]] = pipe.backward(%[[V5]]#0, %[[V5]]#1) stage 1 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
// CHECK-NEXT: %[[V7:.*]] = pipe.send(%[[V6]]) B stage 1 microbatch 1 to 0 cost 0 latency 7 : (!pipe.tensor<8>) -> !pipe.token
// CHECK-NEXT: pipe.optimizer_step stage 1 cost 0
// CHECK-NEXT: } leave {
