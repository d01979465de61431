// Forwards that run together with the backward behind them: what either of the two takes stands before the pair, what
// they yield behind it; and in the plan the pair waits for what either waits for.
// RUN: pipe-opt %s --pipe-build-schedule --pipe-insert-communication | FileCheck %s
// RUN: pipe-opt %s --pipe-build-schedule --pipe-insert-communication | pipe-opt --pipe-overlap-communication --pipe-allocate-slots --pipe-check-memory --pipe-check-deadlock | FileCheck %s --check-prefix=SLOTS
// With one queue for all it ends too.
// RUN: sed 's/communicator per_edge/communicator shared/' %s | pipe-opt --pipe-build-schedule --pipe-insert-communication --pipe-overlap-communication --pipe-allocate-slots --pipe-check-deadlock | FileCheck %s

pipe.pipeline @order problem <placement = [0, 1], microbatches = 3, link = <latency 1>, overlapped = [5, 5]>
    orders [#pipe.order<F0 F0 (F0 BW0) BW0 BW0>, #pipe.order<F1 (F1 BW1) (F1 BW1) BW1>] {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// CHECK-LABEL: pipe.program @rank0
// CHECK: %[[F0:.*]]:3 = pipe.forward stage 0 microbatch 0
// CHECK: %[[GRAD:.*]] = pipe.recv B stage 0 microbatch 0
// CHECK: pipe.overlapped cost 5
// CHECK-NEXT: pipe.forward{{.*}} stage 0 microbatch 2
// CHECK-NEXT: pipe.backward(%[[F0]]#1, %[[F0]]#2, %[[GRAD]]{{.*}}) stage 0 microbatch 0
// CHECK-NEXT: pipe.yield
// CHECK-NEXT: }
// CHECK-NEXT: {{(pipe.send|%.* = pipe.(send|recv))}}
// CHECK-LABEL: pipe.program @rank1
// CHECK: %[[IN:.*]] = pipe.recv{{.*}} F stage 1 microbatch 1
// CHECK: pipe.overlapped cost 5
// CHECK-NEXT: pipe.forward(%[[IN]]) stage 1 microbatch 1
// CHECK-NEXT: pipe.backward{{.*}} stage 1 microbatch 0
// CHECK: pipe.overlapped cost 5
// CHECK-NEXT: pipe.forward{{.*}} stage 1 microbatch 2
// CHECK-NEXT: pipe.backward{{.*}} stage 1 microbatch 1

// The backward's gradient takes over the one slot of the send before it, which both then wait for.
// SLOTS-LABEL: pipe.program @rank1
// SLOTS: pipe.overlapped cost 5
// SLOTS: %[[SENT:.*]] = pipe.send({{.*}}) B stage 1 microbatch 0 {{.*}} slot 0
// SLOTS: pipe.overlapped cost 5
// SLOTS-NEXT: pipe.forward
// SLOTS-NEXT: pipe.backward({{.*}}, %[[SENT]]) stage 1 microbatch 1
