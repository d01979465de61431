// Each pass fits, both one after the other do not.
// RUN: pipe-opt %s --pipe-check-length -verify-diagnostics

// expected-error @below {{a step takes longer than 1000000000000000000 ps (about 11 days), the longest step: fewer microbatches, shorter costs or faster links}}
pipe.program @rank0 rank 0 communicator per_edge attributes {rings = [], stages = array<i32: 0>} enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 600000000000000000 : () -> (!pipe.activation<4>, !pipe.context<2>)
  pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 600000000000000000 : (!pipe.activation<4>, !pipe.context<2>) -> ()
} leave {}
