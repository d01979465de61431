// What a pipeline, its problem and its block may not be.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{struct is missing required parameter: microbatches}}
pipe.pipeline @p problem <placement = [0]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{duplicate or unknown struct parameter name: ranks}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, ranks = 1> {
  pipe.block interval 1 {}
}

// -----

// expected-error @+2 {{failed to parse Pipe_ProblemAttr parameter 'communicator'}}
// expected-error @below {{expected ::pipec::pipe::Communicator to be one of: per_edge, per_pair, launch_order, shared}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, communicator = none> {
  pipe.block interval 1 {}
}

// -----

// expected-error @+2 {{failed to parse Pipe_ProblemAttr parameter 'weights'}}
// expected-error @below {{expected ::pipec::pipe::Weights to be one of: ordered, fill}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, weights = never> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected each of 'links' to be a '#pipe.link', found 3 : i64}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, links = [3]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected a global_norm between 0 and 1000000000000000000 ps, found -5}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, global_norm = -5> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 2 values in 'memory_limit', found 1}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1, memory_limit = [5]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected between 1 and 1048576 stages in the placement, found 0}}
pipe.pipeline @p problem <placement = [], microbatches = 1> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected one copy of its stages or two equal ones, found 3 stages of 2}}
pipe.pipeline @p problem <placement = [0, 1, 0], microbatches = 1, copies = 2> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 'slices' between 1 and 1048576, found 0}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, slices = 0> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 'backward_group' between 1 and 1048576, found -2}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, backward_group = -2> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected ranks between 0 and 65535 in the placement, found -1}}
pipe.pipeline @p problem <placement = [0, -1], microbatches = 1> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected ranks between 0 and 65535 in the placement, found 65536}}
pipe.pipeline @p problem <placement = [65536], microbatches = 1> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected every rank to hold a stage, found none on rank 1}}
pipe.pipeline @p problem <placement = [0, 2], microbatches = 1> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 'microbatches' between 1 and 1048576, found 0}}
pipe.pipeline @p problem <placement = [0], microbatches = 0> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 'microbatches' between 1 and 1048576, found -2}}
pipe.pipeline @p problem <placement = [0], microbatches = -2> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 'link', that of all ranks, to name none, found 0 to 1}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1, link = <0 to 1 latency 0>> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected links between ranks 0 and 1, found 0 to 2}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1, links = [#pipe.link<0 to 2 latency 0>]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected links between ranks 0 and 1, found -1 to -1}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1, links = [#pipe.link<latency 0>]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{has two links from 1 to 0}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1,
      links = [#pipe.link<1 to 0 latency 0>, #pipe.link<1 to 0 latency 9>]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected values between 1 and 1152921504606846976 in 'memory_limit', found 0}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, memory_limit = [0]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 2 values in 'optimizer', found 1}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1, optimizer = [1]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected values between 0 and 1000000000000000000 in 'optimizer', found -1}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1, optimizer = [1, -1]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 1 values in 'static_bytes', found 2}}
pipe.pipeline @p problem <placement = [0, 0], microbatches = 1, static_bytes = [1, 1]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected values between 0 and 1152921504606846976 in 'workspace', found 1152921504606846977}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, workspace = [1152921504606846977]> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected an order for each of its 2 ranks, found 1}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1>
    orders [#pipe.order<F0 BW0>] {
  pipe.block {}
}

// -----

// expected-error @below {{expected exactly one 'pipe.block' as its body}}
pipe.pipeline @p problem <placement = [0], microbatches = 1> {}

// -----

// expected-error @below {{expected exactly one 'pipe.block' as its body}}
pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 1 {}
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{'pipe.block' op expects parent op 'pipe.pipeline'}}
pipe.block interval 1 {}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  // expected-error @below {{expected a positive interval, found 0}}
  pipe.block interval 0 {}
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 1 {
    // expected-error @below {{expected only passes of stages in a 'pipe.block'}}
    pipe.optimizer_step stage 0 cost 1
  }
}

// -----

// expected-error @below {{expected shared weights of stages 0 to 1, found 2}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 2, shared = [#pipe.shared_weight<layers = [0, 2], stages = [0, 2], gradients = 8>]> {
  pipe.block {}
}

// -----

// expected-error @below {{expected at most 1152921504606846976 bytes of all shared weights}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 2, shared = [#pipe.shared_weight<layers = [0, 1], stages = [0, 1], gradients = 1152921504606846976>, #pipe.shared_weight<layers = [0, 1], stages = [0, 1], gradients = 1>]> {
  pipe.block {}
}

// -----

// expected-error @below {{has shared weights and two copies of its stages, which are not supported yet}}
pipe.pipeline @p problem <placement = [0, 1, 1, 0], microbatches = 2, copies = 2, shared = [#pipe.shared_weight<layers = [0, 1], stages = [0, 1], gradients = 8>]> {
  pipe.block {}
}
