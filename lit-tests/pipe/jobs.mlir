// Jobs of a pipeline, the job of a rank, and windows of what waits on its compute queue.
// RUN: pipe-opt %s --verify-roundtrip | pipe-opt | FileCheck %s
// RUN: pipe-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: pipe-opt %s --mlir-print-op-generic | pipe-opt | FileCheck %s

// CHECK-LABEL: pipe.pipeline @p problem <placement = [0, 1], microbatches = 1>
// CHECK-SAME: jobs <slow_down = 10000, fills_collectives = true, work = [#pipe.job<name = "vgg", samples = 8, atoms = 340, atom = 50, overhead = 20, memory = 6, piece = 6, ranks = [0, 1]>, #pipe.job<name = "b", samples = 1, atoms = 1, atom = 1>]> {
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1>
    jobs <slow_down = 10000, fills_collectives = true,
          work = [#pipe.job<name = "vgg", samples = 8, atoms = 340, atom = 50, overhead = 20, memory = 6, piece = 6, ranks = [0, 1]>,
                  #pipe.job<name = "b", samples = 1, atoms = 1, atom = 1>]> {
  pipe.block {}
}

// CHECK-LABEL: pipe.program @waits rank 0 communicator per_edge attributes {job = 0 : i32, piece = 6 : i64}
// CHECK: pipe.forward stage 0 microbatch 0 cost 10 window 5000 : ()
// CHECK: pipe.overlapped cost 25 window 700 : !pipe.activation<4>, !pipe.context<2> {
// CHECK: pipe.backward({{.*}}) stage 0 microbatch 1 cost 20 window 400 from 30 :
// CHECK: pipe.optimizer_step({{.*}}) stage 0 cost 5 window 320
// GENERIC: window = #pipe.window<5000 from 0>
// GENERIC: window = #pipe.window<400 from 30>
pipe.program @waits rank 0 communicator per_edge attributes {job = 0 : i32, piece = 6 : i64} enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 10 window 5000 : () -> (!pipe.activation<4>, !pipe.context<2>)
  %1:2 = pipe.overlapped cost 25 window 700 : !pipe.activation<4>, !pipe.context<2> {
    %2:2 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    pipe.yield %2#0, %2#1 : !pipe.activation<4>, !pipe.context<2>
  }
  %3 = pipe.backward(%1#0, %1#1) stage 0 microbatch 1 cost 20 window 400 from 30
      : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.token
  %4 = pipe.all_reduce norm(%3 : !pipe.token) bytes 8 cost 100 : !pipe.token
  pipe.optimizer_step(%4 : !pipe.token) stage 0 cost 5 window 320
} leave {}
