// RUN: pipe-opt %s --pipe-allocate-slots -split-input-file -verify-diagnostics

// expected-error @below {{expected a 'pipe.program' for each rank, found none}}
module {}

// -----

// expected-error @below {{expected a program without slots}}
pipe.program @rank0 rank 0 communicator per_edge attributes {rings = []} enter {} step {} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 0 latency 0 : (!pipe.tensor<8>) -> !pipe.token
} leave {}
pipe.program @rank1 rank 1 communicator per_edge enter {} step {
  // expected-error @below {{is expected to have one pass that takes it}}
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}
