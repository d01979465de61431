// Rings as large as the predicted run holds at once, slots in turn, and a token where a slot is used again.
// RUN: sed 's/memory_limit = LIMIT : i64, //' %s | pipe-opt --pipe-allocate-slots | FileCheck %s
// A limit that leaves room for them all changes nothing; one that leaves less takes slots of the largest ring away; what a
// rank cannot do without stays, and check-memory says what is missing.
// Rank 0 holds two activations and contexts of 6 bytes, one receive buffer and two send buffers of 8: 36 bytes.
// RUN: sed 's/LIMIT/36/' %s | pipe-opt --pipe-allocate-slots | FileCheck %s
// RUN: sed 's/LIMIT/35/' %s | pipe-opt --pipe-allocate-slots --pipe-check-deadlock | FileCheck %s --check-prefix=LESS
// RUN: sed 's/LIMIT/27/' %s | pipe-opt --pipe-allocate-slots | FileCheck %s --check-prefix=LESS

// CHECK-LABEL: pipe.program @rank0
// CHECK-SAME: rings = [#pipe.ring<recv 1 slots 1 bytes 8>, #pipe.ring<send 1 slots 2 bytes 8>]
// CHECK: %[[F0:.*]]:3 = pipe.forward stage 0 microbatch 0
// CHECK: %[[S0:.*]] = pipe.send(%[[F0]]#0) F stage 0 microbatch 0 to 1 cost 1 latency 5 slot 0
// CHECK: %[[F1:.*]]:3 = pipe.forward stage 0 microbatch 1 {{.*}} : () ->
// CHECK: %[[S1:.*]] = pipe.send(%[[F1]]#0) F stage 0 microbatch 1 to 1 cost 1 latency 5 slot 1
// CHECK: %[[R0:.*]] = pipe.recv B stage 0 microbatch 0 from 1 cost 1 latency 5 slot 0 : () ->
// CHECK: %[[B0:.*]] = pipe.backward(%[[F0]]#1, %[[F0]]#2, %[[R0]]) stage 0 microbatch 0
// The third forward takes over from the first send.
// CHECK: %[[F2:.*]]:3 = pipe.forward(%[[S0]]) stage 0 microbatch 2
// CHECK: pipe.send(%[[F2]]#0) F stage 0 microbatch 2 to 1 cost 1 latency 5 slot 0
// The second receive takes over from the pass that took the first.
// CHECK: %[[R1:.*]] = pipe.recv(%[[B0]]) B stage 0 microbatch 1 from 1 cost 1 latency 5 slot 0
// CHECK: pipe.backward(%[[F1]]#1, %[[F1]]#2, %[[R1]])
// CHECK-LABEL: pipe.program @rank1
// CHECK-SAME: rings = [#pipe.ring<recv 0 slots 2 bytes 8>, #pipe.ring<send 0 slots 1 bytes 8>]

// With one slot each forward waits for the send before it.
// LESS-LABEL: pipe.program @rank0
// LESS-SAME: rings = [#pipe.ring<recv 1 slots 1 bytes 8>, #pipe.ring<send 1 slots 1 bytes 8>]
// LESS: %[[S0:.*]] = pipe.send({{.*}}) F stage 0 microbatch 0 to 1 cost 1 latency 5 slot 0
// LESS: %[[F1:.*]]:3 = pipe.forward(%[[S0]]) stage 0 microbatch 1
// LESS: %[[S1:.*]] = pipe.send(%[[F1]]#0) F stage 0 microbatch 1 to 1 cost 1 latency 5 slot 0
// LESS: pipe.forward(%[[S1]]) stage 0 microbatch 2
pipe.program @rank0 rank 0 communicator per_edge attributes {memory_limit = LIMIT : i64, stages = array<i32: 0>} enter {
} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 1 latency 5 : (!pipe.tensor<8>) -> !pipe.token
  %2:3 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %3 = pipe.send(%2#0) F stage 0 microbatch 1 to 1 cost 1 latency 5 : (!pipe.tensor<8>) -> !pipe.token
  %4 = pipe.recv B stage 0 microbatch 0 from 1 cost 1 latency 5 : () -> !pipe.tensor<8>
  %5 = pipe.backward(%0#1, %0#2, %4) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  %6:3 = pipe.forward stage 0 microbatch 2 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %7 = pipe.send(%6#0) F stage 0 microbatch 2 to 1 cost 1 latency 5 : (!pipe.tensor<8>) -> !pipe.token
  %8 = pipe.recv B stage 0 microbatch 1 from 1 cost 1 latency 5 : () -> !pipe.tensor<8>
  %9 = pipe.backward(%2#1, %2#2, %8) stage 0 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  %10 = pipe.recv B stage 0 microbatch 2 from 1 cost 1 latency 5 : () -> !pipe.tensor<8>
  %11 = pipe.backward(%6#1, %6#2, %10) stage 0 microbatch 2 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 0 cost 7
} leave {
}
pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>} enter {
} step {
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 1 latency 5 : () -> !pipe.tensor<8>
  %1:3 = pipe.forward(%0) stage 1 microbatch 0 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %2 = pipe.recv F stage 1 microbatch 1 from 0 cost 1 latency 5 : () -> !pipe.tensor<8>
  %3 = pipe.backward(%1#0, %1#1) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  %4 = pipe.send(%3) B stage 1 microbatch 0 to 0 cost 1 latency 5 : (!pipe.tensor<8>) -> !pipe.token
  %5:3 = pipe.forward(%2) stage 1 microbatch 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %6 = pipe.backward(%5#0, %5#1) stage 1 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  %7 = pipe.recv F stage 1 microbatch 2 from 0 cost 1 latency 5 : () -> !pipe.tensor<8>
  %8 = pipe.send(%6) B stage 1 microbatch 1 to 0 cost 1 latency 5 : (!pipe.tensor<8>) -> !pipe.token
  %9:3 = pipe.forward(%7) stage 1 microbatch 2 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %10 = pipe.backward(%9#0, %9#1) stage 1 microbatch 2 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  %11 = pipe.send(%10) B stage 1 microbatch 2 to 0 cost 1 latency 5 : (!pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 1 cost 8
} leave {
}
