// One stage: nothing flows. The example of the pass's description.
// RUN: pipe-opt %s --pipe-build-schedule | FileCheck %s
pipe.pipeline @one problem <placement = [0], microbatches = 2> {
  pipe.block interval 3 {
    %0:2 = pipe.forward stage 0 at 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 at 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// CHECK-LABEL: pipe.program @rank0 rank 0 communicator per_edge
// CHECK: } step {
// CHECK-NEXT: %[[V0:.*]]:2 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: pipe.backward(%[[V0]]#0, %[[V0]]#1) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
// CHECK-NEXT: %[[V1:.*]]:2 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
// CHECK-NEXT: pipe.backward(%[[V1]]#0, %[[V1]]#1) stage 0 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
// CHECK-NEXT: pipe.optimizer_step stage 0 cost 0
// CHECK-NEXT: } leave {
// CHECK-NOT: pipe.program
