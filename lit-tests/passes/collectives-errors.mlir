// What the passes for collectives cannot work with.
// RUN: pipe-opt %s -split-input-file --pipe-fuse-collectives -verify-diagnostics
// RUN: pipe-opt %s -split-input-file --pipe-decouple-all-reduce -verify-diagnostics

// expected-error @below {{expected a 'pipe.pipeline' in the module, found none}}
module {}

// -----

module {
  pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 1>
      replicas <degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[#pipe.layer<>]]> {
    pipe.block {
      %0:2 = pipe.forward stage 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
      pipe.backward(%0#0, %0#1) stage 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    }
  }
  pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>} enter {} step {
    // expected-error @below {{all_reduce gradients names layers that the pipeline's replicas do not have}}
    %0 = pipe.all_reduce gradients replicas 2 stage 0 layers 0 to 2 bytes 0 to 8 cost 1 : !pipe.token
  } leave {}
}

// -----

module {
  // expected-error @below {{rank 0 has 0 F of stage 0, expected 1}}
  pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 1>
      replicas <degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[#pipe.layer<>]]> {
    pipe.block {
      %0:2 = pipe.forward stage 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
      pipe.backward(%0#0, %0#1) stage 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    }
  }
  pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>} enter {} step {} leave {}
}

// -----

module {
  pipe.pipeline @"1f1b" problem <placement = [0, 1], microbatches = 1>
      replicas <degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>,
                layers = [[#pipe.layer<>], [#pipe.layer<>]]> {
    pipe.block {}
  }
  pipe.program @rank0 rank 0 communicator per_edge attributes {stages = array<i32: 0>} enter {} step {
    %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    // expected-error @below {{expected programs without communication}}
    %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 1 latency 0 : (!pipe.tensor<8>) -> !pipe.token
  } leave {}
  pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>} enter {} step {} leave {}
}
