// An all-reduce to which one rank never comes, and one to which a rank comes before its backwards are done.
// RUN: pipe-opt %s -split-input-file --pipe-check-deadlock -verify-diagnostics

// expected-error @below {{it stops: rank 0: all_reduce norm waits for something that never comes}}
module {
  pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>,
      rings = [#pipe.ring<send 1 slots 1 bytes 1>]} enter {} step {
    %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<1>, !pipe.activation<0>, !pipe.context<0>)
    %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 1 latency 0 slot 0 : (!pipe.tensor<1>) -> !pipe.token
    %2 = pipe.all_reduce norm bytes 8 cost 1 : !pipe.token
  } leave {}
  pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>,
      rings = [#pipe.ring<recv 0 slots 1 bytes 1>]} enter {} step {
    %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 1 latency 0 slot 0 : () -> !pipe.tensor<1>
    %1:2 = pipe.forward(%0) stage 1 microbatch 0 cost 1 : (!pipe.tensor<1>) -> (!pipe.activation<0>, !pipe.context<0>)
  } leave {}
}

// -----

// expected-error @below {{P39: rank 0: all_reduce norm does not wait for the last backward of its rank}}
module {
  pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>,
      rings = [#pipe.ring<send 1 slots 1 bytes 1>]} enter {} step {
    %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<1>, !pipe.activation<0>, !pipe.context<0>)
    %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 1 latency 0 slot 0 : (!pipe.tensor<1>) -> !pipe.token
    %2 = pipe.all_reduce norm bytes 8 cost 1 : !pipe.token
  } leave {}
  pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>,
      rings = [#pipe.ring<recv 0 slots 1 bytes 1>]} enter {} step {
    %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 1 latency 0 slot 0 : () -> !pipe.tensor<1>
    %1:2 = pipe.forward(%0) stage 1 microbatch 0 cost 1 : (!pipe.tensor<1>) -> (!pipe.activation<0>, !pipe.context<0>)
    %2 = pipe.all_reduce norm bytes 8 cost 1 : !pipe.token
  } leave {}
}

// -----

// A group names a rank that never adds anything.
module {
  pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>} enter {} step {
    // expected-error @below {{all_reduce gradients is over rank 1 too, which has none of it}}
    %0 = pipe.all_reduce gradients over [0, 1] bytes 8 cost 1 : !pipe.token
  } leave {}
  pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>} enter {} step {} leave {}
}
