// Transfers that share a queue. The order below sends the first gradient before it receives the second activation, and rank 0
// the other way round: it stops. In the order of levels, as everywhere, the receive comes first.
// RUN: pipe-opt %s --pipe-overlap-communication | FileCheck %s
// RUN: pipe-opt %s --pipe-overlap-communication --pipe-allocate-slots --pipe-check-deadlock -o /dev/null
// RUN: not pipe-opt %s --pipe-allocate-slots --pipe-check-deadlock 2>&1 | FileCheck %s --check-prefix=STOPS
// STOPS: it stops in a cycle of 2 instructions
// With a queue for each direction nothing is shared, and nothing moves.
// RUN: sed 's/communicator shared/communicator per_edge/' %s > %t.mlir
// RUN: pipe-opt %t.mlir > %t.before
// RUN: pipe-opt %t.mlir --pipe-overlap-communication | diff %t.before -
// What comes out depends on the words alone, not on the order that was found: run twice, the second run changes nothing.
// RUN: pipe-opt %s --pipe-overlap-communication > %t.once
// RUN: pipe-opt %t.once --pipe-overlap-communication | diff %t.once -

// CHECK-LABEL: @rank1
// CHECK: pipe.recv F stage 1 microbatch 0
// CHECK-NEXT: pipe.forward{{.*}} stage 1 microbatch 0
// CHECK-NEXT: pipe.recv F stage 1 microbatch 1
// CHECK-NEXT: pipe.backward{{.*}} stage 1 microbatch 0
// CHECK-NEXT: pipe.send{{.*}} B stage 1 microbatch 0
// CHECK-NEXT: pipe.forward{{.*}} stage 1 microbatch 1
pipe.program @rank0 rank 0 communicator shared attributes {stages = array<i32: 0>} enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 3 latency 5 : (!pipe.tensor<8>) -> !pipe.token
  %2:3 = pipe.forward stage 0 microbatch 1 cost 10
      : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %3 = pipe.send(%2#0) F stage 0 microbatch 1 to 1 cost 3 latency 5 : (!pipe.tensor<8>) -> !pipe.token
  %4 = pipe.recv B stage 0 microbatch 0 from 1 cost 3 latency 5 : () -> !pipe.tensor<8>
  %5 = pipe.backward(%0#1, %0#2, %4) stage 0 microbatch 0 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  %6 = pipe.recv B stage 0 microbatch 1 from 1 cost 3 latency 5 : () -> !pipe.tensor<8>
  %7 = pipe.backward(%2#1, %2#2, %6) stage 0 microbatch 1 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 0 cost 0
} leave {}
pipe.program @rank1 rank 1 communicator shared attributes {stages = array<i32: 1>} enter {} step {
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 3 latency 5 : () -> !pipe.tensor<8>
  %1:3 = pipe.forward(%0) stage 1 microbatch 0 cost 10
      : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %2 = pipe.backward(%1#0, %1#1) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  %3 = pipe.send(%2) B stage 1 microbatch 0 to 0 cost 3 latency 5 : (!pipe.tensor<8>) -> !pipe.token
  %4 = pipe.recv F stage 1 microbatch 1 from 0 cost 3 latency 5 : () -> !pipe.tensor<8>
  %5:3 = pipe.forward(%4) stage 1 microbatch 1 cost 10
      : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %6 = pipe.backward(%5#0, %5#1) stage 1 microbatch 1 cost 20
      : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  %7 = pipe.send(%6) B stage 1 microbatch 1 to 0 cost 3 latency 5 : (!pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 1 cost 0
} leave {}
