// RUN: pipe-opt %s --pipe-overlap-communication -split-input-file -verify-diagnostics

// expected-error @below {{expected a 'pipe.program' for each rank, found none}}
module {}

// -----

pipe.program @rank0 rank 0 communicator shared enter {} step {
  // expected-error @below {{recv B stage 0 microbatch 0 names rank 2, which has no program}}
  %0 = pipe.recv B stage 0 microbatch 0 from 2 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}
