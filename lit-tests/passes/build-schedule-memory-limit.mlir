// A memory limit by rank: each program has its own rank's.
// RUN: pipe-opt %s --pipe-build-schedule | FileCheck %s
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1, memory_limit = [100, 200]> {
  pipe.block interval 6 {
    %0:3 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 at 1 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 at 2 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 at 3 cost 1 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// CHECK: pipe.program @rank0
// CHECK-SAME: memory_limit = 100 : i64
// CHECK: pipe.program @rank1
// CHECK-SAME: memory_limit = 200 : i64
