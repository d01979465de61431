// 1F1B on two ranks, two microbatches: a step takes 90 ps. In it rank 0 waits 20 and 10 ps for its gradients, rank 1 30 ps for
// the next step's first activation. Each of the three costs a piece, one behind the other, and 10 % are 9 ps: so pieces of 2 atoms
// and 1 ps of overhead fill all of them (38 ps), which is more than pieces of 3 atoms in the two longer ones (36 ps) or of 5 in
// the longest (25 ps).
// RUN: sed 's/MORE//' %s | pipe-opt --pipe-compile | FileCheck %s
// RUN: sed 's/MORE//' %s | pipe-opt --pipe-compile | pipe-opt --verify-roundtrip | FileCheck %s
// What is open stays open, and the other checks know it.
// RUN: sed 's/MORE//' %s | pipe-opt --pipe-compile | pipe-opt --pipe-open-windows --pipe-check-deadlock | FileCheck %s
// The job may run on rank 1 alone: one window, for which 9 ps leave pieces of any length: those of 5 fill most.
// RUN: sed 's/MORE/, ranks = [1]/' %s | pipe-opt --pipe-compile | FileCheck %s --check-prefix=ONE
// Without jobs nothing changes.
// RUN: sed '/jobs </d' %s | pipe-opt --pipe-compile > %t.without
// RUN: pipe-opt %t.without --pipe-open-windows | diff %t.without -
// RUN: FileCheck %s --check-prefix=NONE --input-file=%t.without

// CHECK-LABEL: pipe.program @rank0
// CHECK-SAME: job = 0 : i32, piece = 2 : i64
// CHECK: pipe.forward stage 0 microbatch 0 cost 10 :
// CHECK: pipe.forward({{.*}}) stage 0 microbatch 1 cost 10 :
// CHECK: pipe.backward({{.*}}) stage 0 microbatch 0 cost 20 window 20 :
// CHECK: pipe.backward({{.*}}) stage 0 microbatch 1 cost 20 window 10 :
// CHECK: pipe.optimizer_step stage 0 cost 0{{$}}
// CHECK-LABEL: pipe.program @rank1
// CHECK-SAME: job = 0 : i32, piece = 2 : i64
// CHECK: pipe.forward({{.*}}) stage 1 microbatch 0 cost 10 window 30 :
// CHECK: pipe.backward({{.*}}) stage 1 microbatch 0 cost 20 :
// CHECK: pipe.forward({{.*}}) stage 1 microbatch 1 cost 10 :
// CHECK: pipe.backward({{.*}}) stage 1 microbatch 1 cost 20 :

// ONE-LABEL: pipe.program @rank0
// ONE-NOT: job =
// ONE-NOT: window
// ONE-LABEL: pipe.program @rank1
// ONE-SAME: piece = 5 : i64
// ONE: pipe.forward({{.*}}) stage 1 microbatch 0 cost 10 window 30 :
// NONE-LABEL: pipe.program @rank0
// NONE-NOT: job =
// NONE-NOT: window

pipe.pipeline @"1f1b" problem <placement = [0, 1], microbatches = 2>
    jobs <slow_down = 100000, work = [#pipe.job<name = "j", samples = 1, atoms = 5, atom = 1, overhead = 1MORE>]>
{
  pipe.block interval 3 {
    %0:3 = pipe.forward stage 0 at 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 at 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 at 2 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 at 4 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}
