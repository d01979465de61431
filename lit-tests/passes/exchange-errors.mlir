// What a pipeline with replicas may not be.
// RUN: pipe-opt %s -split-input-file --pipe-build-schedule -verify-diagnostics

// expected-error @below {{expected at most 65536 processes, found 2 ranks of 65536 replicas}}
pipe.pipeline @"1f1b" problem <placement = [0, 1], microbatches = 2>
    replicas <degree = 65536, all_reduce = <>, reduce_scatter = <>, all_gather = <>,
              layers = [[#pipe.layer<>], [#pipe.layer<>]]> {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

// expected-error @below {{replicas of two copies, of slices or with weights = fill are not supported yet}}
pipe.pipeline @gpipe problem <placement = [0], microbatches = 2, slices = 2>
    replicas <degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[#pipe.layer<>]]> {
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// Programs that have been written by hand, and another model than theirs.
module {
  pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 1>
      replicas <degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[#pipe.layer<>]]> {
    pipe.block {
      %0:2 = pipe.forward stage 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
      pipe.backward(%0#0, %0#1) stage 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    }
  }
  // expected-error @below {{expected no 'pipe.program' yet}}
  pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>} enter {} step {} leave {}
}
