// Programs that can be read and must not run: transfers that do not match in order, one that is missing, what the loader of a
// plan refuses too.
// RUN: pipe-opt %s --pipe-check-deadlock -split-input-file -verify-diagnostics

// expected-error @below {{expected a 'pipe.program' for each rank, found none}}
module {}

// -----

// Each microbatch's activation is received where the other's is expected: nothing stops, and the gradients would be wrong.

// expected-error @below {{P24: }}
module {
pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>,
    rings = [#pipe.ring<send 1 slots 1 bytes 8>, #pipe.ring<recv 1 slots 1 bytes 8>]} enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %2:3 = pipe.forward(%1) stage 0 microbatch 1 cost 10
      : (!pipe.token) -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %3 = pipe.send(%2#0) F stage 0 microbatch 1 to 1 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %4 = pipe.recv B stage 0 microbatch 0 from 1 cost 3 latency 5 slot 0 : () -> !pipe.tensor<8>
  %5 = pipe.backward(%0#1, %0#2, %4) stage 0 microbatch 0 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  %6 = pipe.recv(%5) B stage 0 microbatch 1 from 1 cost 3 latency 5 slot 0 : (!pipe.token) -> !pipe.tensor<8>
  %7 = pipe.backward(%2#1, %2#2, %6) stage 0 microbatch 1 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 0 cost 0
} leave {}
pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>,
    rings = [#pipe.ring<send 0 slots 1 bytes 8>, #pipe.ring<recv 0 slots 1 bytes 8>]} enter {} step {
  %0 = pipe.recv F stage 1 microbatch 1 from 0 cost 3 latency 5 slot 0 : () -> !pipe.tensor<8>
  %1:3 = pipe.forward(%0) stage 1 microbatch 1 cost 10
      : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %2 = pipe.backward(%1#0, %1#1) stage 1 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  %4 = pipe.recv(%1#2) F stage 1 microbatch 0 from 0 cost 3 latency 5 slot 0 : (!pipe.token) -> !pipe.tensor<8>
  %3 = pipe.send(%2) B stage 1 microbatch 1 to 0 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %5:3 = pipe.forward(%4) stage 1 microbatch 0 cost 10
      : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %6 = pipe.backward(%5#0, %5#1, %3) stage 1 microbatch 0 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.token) -> !pipe.tensor<8>
  %7 = pipe.send(%6) B stage 1 microbatch 0 to 0 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 1 cost 0
} leave {}
}

// -----

// A send whose receive is missing.

// expected-error @below {{it stops: rank 1: send B stage 1 microbatch 0 to rank 0 waits for something that never comes}}
module {
pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>,
    rings = [#pipe.ring<send 1 slots 1 bytes 8>]} enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  pipe.backward(%0#1, %0#2) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  pipe.optimizer_step stage 0 cost 0
} leave {}
pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>,
    rings = [#pipe.ring<send 0 slots 1 bytes 8>, #pipe.ring<recv 0 slots 1 bytes 8>]} enter {} step {
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 3 latency 5 slot 0 : () -> !pipe.tensor<8>
  %1:3 = pipe.forward(%0) stage 1 microbatch 0 cost 10
      : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %2 = pipe.backward(%1#0, %1#1) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  %3 = pipe.send(%2) B stage 1 microbatch 0 to 0 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 1 cost 0
} leave {}
}

// -----

// A forward without what it computes from.

// expected-error @below {{P23: }}
module {
pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>, rings = []} enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  pipe.backward(%0#1, %0#2) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  pipe.optimizer_step stage 0 cost 0
} leave {}
pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>, rings = []} enter {} step {
  %0:2 = pipe.forward stage 1 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.backward(%0#0, %0#1) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  pipe.optimizer_step stage 1 cost 0
} leave {}
}

// -----

// A slot used again while it may still be read: no token is taken.

// expected-error @below {{P31: }}
module {
pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>,
    rings = [#pipe.ring<send 1 slots 1 bytes 8>, #pipe.ring<recv 1 slots 1 bytes 8>]} enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %2:3 = pipe.forward stage 0 microbatch 1 cost 10
      : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %3 = pipe.send(%2#0) F stage 0 microbatch 1 to 1 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %4 = pipe.recv B stage 0 microbatch 0 from 1 cost 3 latency 5 slot 0 : () -> !pipe.tensor<8>
  %5 = pipe.backward(%0#1, %0#2, %4) stage 0 microbatch 0 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  %6 = pipe.recv(%5) B stage 0 microbatch 1 from 1 cost 3 latency 5 slot 0 : (!pipe.token) -> !pipe.tensor<8>
  %7 = pipe.backward(%2#1, %2#2, %6) stage 0 microbatch 1 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 0 cost 0
} leave {}
pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>,
    rings = [#pipe.ring<send 0 slots 1 bytes 8>, #pipe.ring<recv 0 slots 1 bytes 8>]} enter {} step {
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 3 latency 5 slot 0 : () -> !pipe.tensor<8>
  %1:3 = pipe.forward(%0) stage 1 microbatch 0 cost 10
      : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %2 = pipe.backward(%1#0, %1#1) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  %4 = pipe.recv(%1#2) F stage 1 microbatch 1 from 0 cost 3 latency 5 slot 0 : (!pipe.token) -> !pipe.tensor<8>
  %3 = pipe.send(%2) B stage 1 microbatch 0 to 0 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %5:3 = pipe.forward(%4) stage 1 microbatch 1 cost 10
      : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %6 = pipe.backward(%5#0, %5#1, %3) stage 1 microbatch 1 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.token) -> !pipe.tensor<8>
  %7 = pipe.send(%6) B stage 1 microbatch 1 to 0 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 1 cost 0
} leave {}
}

// -----

// A window is of an instruction that waits.
// expected-error @below {{P54: rank 0: the window of instruction 0 is of one without waits}}
module {
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    jobs <slow_down = 10000, work = [#pipe.job<name = "j", samples = 1, atoms = 5, atom = 1>]> {
  pipe.block {}
}
pipe.program @rank0 rank 0 communicator per_edge
  attributes {job = 0 : i32, piece = 1 : i64, rings = [], stages = array<i32: 0>} enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 10 window 5 : () -> (!pipe.activation<4>, !pipe.context<2>)
  pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  pipe.optimizer_step stage 0 cost 0
} leave {}
}
