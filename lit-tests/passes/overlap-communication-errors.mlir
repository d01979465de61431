// RUN: pipe-opt %s --pipe-overlap-communication -split-input-file -verify-diagnostics

// expected-error @below {{expected a 'pipe.program' for each rank, found none}}
module {}

// -----

pipe.program @rank0 rank 0 communicator shared enter {} step {
  // expected-error @below {{recv B stage 0 microbatch 0 names rank 2, which has no program}}
  %0 = pipe.recv B stage 0 microbatch 0 from 2 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}

// -----

// A send and a receive that do not find each other, or nobody who takes what is sent.

pipe.program @rank0 rank 0 communicator shared enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{send F stage 0 microbatch 0 on rank 0 has no receive on rank 1}}
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 0 latency 0 : (!pipe.tensor<8>) -> !pipe.token
} leave {}
pipe.program @rank1 rank 1 communicator shared enter {} step {} leave {}

// -----

pipe.program @rank0 rank 0 communicator shared enter {} step {} leave {}
pipe.program @rank1 rank 1 communicator shared enter {} step {
  // expected-error @below {{recv F stage 1 microbatch 0 on rank 1 has no send on rank 0}}
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 : () -> !pipe.tensor<8>
  %1:2 = pipe.forward(%0) stage 1 microbatch 0 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator shared enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 0 latency 0 : (!pipe.tensor<8>) -> !pipe.token
} leave {}
pipe.program @rank1 rank 1 communicator shared enter {} step {
  // expected-error @below {{recv F stage 1 microbatch 0 is expected to have one pass that takes it}}
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}
