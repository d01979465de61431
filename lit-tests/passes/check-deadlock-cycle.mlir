// Two programs whose every use is right, and which each send first under one queue: rank 0 the second activation, rank 1 the
// first gradient. Neither receive is ever reached; the cycle is printed with its instructions, and what would mend it.
// RUN: pipe-opt %s --pipe-check-deadlock -verify-diagnostics
// With a queue for each direction they end.
// RUN: sed 's/communicator shared/communicator per_edge/' %s | pipe-opt --pipe-check-deadlock | FileCheck %s
// CHECK: pipe.program @rank0

// expected-error @below {{it stops in a cycle of 2 instructions, each waiting for the next:}}
// expected-note @below {{it would end with communicator launch_order}}
module {
pipe.program @rank0 rank 0 communicator shared attributes {stages = array<i32: 0>,
    rings = [#pipe.ring<send 1 slots 1 bytes 8>, #pipe.ring<recv 1 slots 1 bytes 8>]} enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %2:3 = pipe.forward(%1) stage 0 microbatch 1 cost 10
      : (!pipe.token) -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  // expected-note @below {{rank 0: send F stage 0 microbatch 1 to rank 1}}
  %3 = pipe.send(%2#0) F stage 0 microbatch 1 to 1 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %4 = pipe.recv B stage 0 microbatch 0 from 1 cost 3 latency 5 slot 0 : () -> !pipe.tensor<8>
  %5 = pipe.backward(%0#1, %0#2, %4) stage 0 microbatch 0 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  %6 = pipe.recv(%5) B stage 0 microbatch 1 from 1 cost 3 latency 5 slot 0 : (!pipe.token) -> !pipe.tensor<8>
  %7 = pipe.backward(%2#1, %2#2, %6) stage 0 microbatch 1 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 0 cost 0
} leave {}
pipe.program @rank1 rank 1 communicator shared attributes {stages = array<i32: 1>,
    rings = [#pipe.ring<send 0 slots 1 bytes 8>, #pipe.ring<recv 0 slots 1 bytes 8>]} enter {} step {
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 3 latency 5 slot 0 : () -> !pipe.tensor<8>
  %1:3 = pipe.forward(%0) stage 1 microbatch 0 cost 10
      : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %2 = pipe.backward(%1#0, %1#1) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  // expected-note @below {{rank 1: send B stage 1 microbatch 0 to rank 0}}
  %3 = pipe.send(%2) B stage 1 microbatch 0 to 0 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %4 = pipe.recv(%1#2) F stage 1 microbatch 1 from 0 cost 3 latency 5 slot 0 : (!pipe.token) -> !pipe.tensor<8>
  %5:3 = pipe.forward(%4) stage 1 microbatch 1 cost 10
      : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %6 = pipe.backward(%5#0, %5#1, %3) stage 1 microbatch 1 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.token) -> !pipe.tensor<8>
  %7 = pipe.send(%6) B stage 1 microbatch 1 to 0 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 1 cost 0
} leave {}
}
