// RUN: pipe-opt %s --pipe-allocate-slots -split-input-file -verify-diagnostics

// expected-error @below {{expected a 'pipe.program' for each rank, found none}}
module {}

// -----

// expected-error @below {{expected a program without slots}}
pipe.program @rank0 rank 0 communicator per_edge attributes {rings = []} enter {} step {} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {} leave {}
pipe.program @rank1 rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected one pass that takes what it receives}}
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}

// -----

// Two transfers of one ring's slot: whoever takes what came first must say when the slot is free.

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 0 latency 0 : (!pipe.tensor<8>) -> !pipe.token
  %2:3 = pipe.forward stage 0 microbatch 1 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %3 = pipe.send(%2#0) F stage 0 microbatch 1 to 1 cost 0 latency 0 : (!pipe.tensor<8>) -> !pipe.token
} leave {}
pipe.program @rank1 rank 1 communicator per_edge enter {} step {
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 : () -> !pipe.tensor<8>
  // expected-error @below {{expected a token among its results: it takes what was received}}
  %1:2 = pipe.forward(%0) stage 1 microbatch 0 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
  %2 = pipe.recv F stage 1 microbatch 1 from 0 cost 0 latency 0 : () -> !pipe.tensor<8>
  %3:2 = pipe.forward(%2) stage 1 microbatch 1 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}
