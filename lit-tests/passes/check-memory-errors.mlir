// What else the check says: static memory alone; without a spec nobody knows which schedules would fit.
// RUN: pipe-opt %s --pipe-check-memory -split-input-file -verify-diagnostics

// expected-error @below {{expected a 'pipe.program' for each rank, found none}}
module {}

// -----

// expected-error @below {{rank 0 needs 11 B, over the limit of 10 B; the least limit that would do is 11 B (11B)}}
// expected-note @below {{static 8 B, workspace 3 B, transfer buffers 0 B}}
pipe.program @rank0 rank 0 communicator per_edge
  attributes {memory_limit = 10 : i64, static_bytes = 8 : i64, workspace = 3 : i64, rings = []} enter {} step {} leave {}

// -----

// GPipe's order of two microbatches on one rank holds 12 bytes; 1F1B on it holds 6.

pipe.pipeline @one problem <placement = [0], microbatches = 2, memory_limit = [7]> {
  pipe.block interval 100 {
    %0:2 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 at 199 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}
// expected-error @below {{rank 0 needs 12 B, over the limit of 7 B; the least limit that would do is 12 B (12B)}}
pipe.program @rank0 rank 0 communicator per_edge
  attributes {memory_limit = 7 : i64, rings = [], stages = array<i32: 0>} enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-note @below {{the peak is reached at F stage 0 microbatch 1: 2 activations and 2 weight contexts live (12 B)}}
  %1:2 = pipe.forward stage 0 microbatch 1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  pipe.backward(%1#0, %1#1) stage 0 microbatch 1 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  pipe.optimizer_step stage 0 cost 0
} leave {}
