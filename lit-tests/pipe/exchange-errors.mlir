// What collectives of replicas, layers and tokens of the step before may not be.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{'pipe.all_gather' op expected to stand in a 'pipe.program'}}
%0 = pipe.all_gather weights replicas 2 stage 0 layers 0 to 1 bytes 0 to 8 cost 1 : !pipe.token

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected gradients or weights of 'replicas'}}
  %0 = pipe.reduce_scatter gradients over [0, 1] bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected a sum of gradients or of a norm, found one of weights}}
  %0 = pipe.reduce_scatter weights replicas 2 stage 0 layers 0 to 1 bytes 0 to 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected the ranks that gradients are summed over, or the replicas}}
  %0 = pipe.all_reduce gradients over [0, 1] replicas 2 stage 0 layers 0 to 1 bytes 0 to 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected a stage, layers and a range of bytes with 'replicas', all three or none over ranks, and none of them else}}
  %0 = pipe.all_gather weights replicas 2 stage 0 bytes 0 to 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected a stage, layers and a range of bytes with 'replicas', all three or none over ranks, and none of them else}}
  %0 = pipe.all_reduce gradients over [0, 1] bytes 0 to 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected 2 replicas or more, and at most 65536 processes, found 1 on rank 1}}
  %0 = pipe.all_gather weights replicas 1 stage 0 layers 0 to 1 bytes 0 to 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected 2 replicas or more, and at most 65536 processes, found 32769 on rank 1}}
  %0 = pipe.all_gather weights replicas 32769 stage 0 layers 0 to 1 bytes 0 to 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected a stage between 0 and 1048575, found -1}}
  %0 = pipe.all_gather weights replicas 2 stage -1 layers 0 to 1 bytes 0 to 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected 'bytes' between 0 and 1152921504606846976 bytes, found -8}}
  %0 = pipe.all_gather weights replicas 2 stage 0 layers 0 to 1 bytes 8 to 0 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected 'begin' between 0 and 1152921504606846976 bytes, found -8}}
  %0 = pipe.all_gather weights replicas 2 stage 0 layers 0 to 1 bytes -8 to 0 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected layers from 0 on, one or more, found 3 to 3}}
  pipe.optimizer_step stage 0 layers 3 to 3 cost 1
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected 1 activation and 1 context as results, found 1 and 0}}
  %0 = pipe.forward stage 0 microbatch 0 layers 0 to 1 cost 4 : () -> !pipe.activation<4>
} leave {}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block {
    // expected-error @below {{expected no layers: parts of a pass stand in a 'pipe.program', and in no pair}}
    %0:2 = pipe.forward stage 0 layers 0 to 1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  }
}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{takes what is yielded behind it, which only a forward or a collective may, and only a token of the step before}}
  pipe.optimizer_step(%0 : !pipe.token) stage 0 layers 0 to 1 cost 1
  // expected-note @below {{yielded here}}
  %0 = pipe.all_gather gradients replicas 2 stage 0 layers 0 to 1 bytes 0 to 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{takes what is yielded behind it}}
  pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  // expected-note @below {{yielded here}}
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

// expected-error @below {{expected replicas with the layers of each of its 1 stages, found those of 2}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    replicas <degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>,
              layers = [[#pipe.layer<>], [#pipe.layer<>]]> {
  pipe.block {}
}

// -----

// expected-error @below {{expected between 2 and 65536 replicas, found 1}}
module attributes {a = #pipe.replicas<degree = 1, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = []>} {}

// -----

// expected-error @below {{expected a round between 0 and 1000000000000000000 ps, found -1}}
module attributes {a = #pipe.replicas<degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, round = -1, layers = []>} {}

// -----

// expected-error @below {{expected a norm's time between 0 and 1000000000000000000 ps, or -1, found -2}}
module attributes {a = #pipe.replicas<degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, norm = -2, layers = []>} {}

// -----

// expected-error @below {{expected a list of layers for each stage, one '#pipe.layer' or more, found []}}
module attributes {a = #pipe.replicas<degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[]]>} {}

// -----

// expected-error @below {{expected a start between 0 and 1000000000000000000 ps, found -1}}
module attributes {a = #pipe.collective_time<start = -1>} {}

// -----

// expected-error @below {{expected a bandwidth of 0 (unlimited) or more bytes per second, found -1}}
module attributes {a = #pipe.collective_time<bandwidth = -1>} {}

// -----

// expected-error @below {{expected one hop or more, of one part or more, found 1 and 0}}
module attributes {a = #pipe.collective_time<parts = 0>} {}

// -----

// expected-error @below {{expected times of a layer between 0 and 1000000000000000000 ps, found -1}}
module attributes {a = #pipe.layer<update = -1>} {}

// -----

// expected-error @below {{expected sizes of a layer between 0 and 1152921504606846976 bytes, found -1}}
module attributes {a = #pipe.layer<gradients = [4, -1]>} {}

// -----

// expected-error @below {{expected replicas where there is an exchange}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    exchange <queues = [[]]> {
  pipe.block {}
}

// -----

// expected-error @below {{expected an exchange of each of its 1 ranks, found one of 2}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    replicas <degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[#pipe.layer<>]]>
    exchange <queues = [[], []]> {
  pipe.block {}
}

// -----

// expected-error @below {{expected an exchange of each of its 1 ranks}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    replicas <degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[#pipe.layer<>]]>
    exchange <tails = [1, 2], queues = [[]]> {
  pipe.block {}
}

// -----

// expected-error @below {{expected collectives of rank 0 about its own stages, found stage 1}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    replicas <degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[#pipe.layer<>]]>
    exchange <queues = [[#pipe.collective<all_reduce stage 1 layers 0 to 1 bytes 0 to 8>]]> {
  pipe.block {}
}

// -----

// expected-error @below {{expected collectives about layers 0 to 1 of stage 0, found 0 to 2}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    replicas <degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[#pipe.layer<>]]>
    exchange <queues = [[#pipe.collective<all_reduce stage 0 layers 0 to 2 bytes 0 to 8>]]> {
  pipe.block {}
}

// -----

// expected-error @below {{expected a stage between 0 and 1048575, found -1}}
module attributes {a = #pipe.collective<all_reduce stage -1 layers 0 to 2 bytes 0 to 8>} {}

// -----

// expected-error @below {{expected a range of bytes between 0 and 1152921504606846976, found 8 to 0}}
module attributes {a = #pipe.collective<all_reduce stage 0 layers 0 to 2 bytes 8 to 0>} {}

// -----

// expected-error @below {{expected rounds between 0 and 1000000000000000000 ps, found -1}}
module attributes {a = #pipe.collective<all_reduce stage 0 layers 0 to 2 bytes 0 to 8 rounds -1>} {}

// -----

// expected-error @below {{expected layers from 0 on, one or more, found 2 to 2}}
module attributes {a = #pipe.collective<all_reduce stage 0 layers 2 to 2 bytes 0 to 8>} {}

// -----

// expected-error @below {{expected tails of 0 or more W, found}}
module attributes {a = #pipe.exchange<tails = [-1], queues = []>} {}

// -----

// expected-error @below {{expected a list of collectives for each rank, found 1}}
module attributes {a = #pipe.exchange<queues = [1]>} {}

// -----

// expected-error @below {{expected the layers of a stage to take at most 1000000000000000000 ps and 1152921504606846976 bytes in all}}
module attributes {a = #pipe.replicas<degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>,
    layers = [[#pipe.layer<update = 1000000000000000000>, #pipe.layer<update = 1>]]>} {}

// -----

// expected-error @below {{expected the layers of a stage to take at most 1000000000000000000 ps and 1152921504606846976 bytes in all}}
module attributes {a = #pipe.replicas<degree = 2, all_reduce = <>, reduce_scatter = <>, all_gather = <>,
    layers = [[#pipe.layer<gradients = [1152921504606846976, 1]>]]>} {}

// -----

pipe.program @pair rank 2 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
  %1:2 = pipe.overlapped cost 25 : !pipe.activation<4>, !pipe.context<2> {
    // expected-error @below {{takes what is yielded behind it}}
    %2:2 = pipe.forward(%3) stage 0 microbatch 1 cost 10 : (!pipe.token) -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    pipe.yield %2#0, %2#1 : !pipe.activation<4>, !pipe.context<2>
  }
  // expected-note @below {{yielded here}}
  %3 = pipe.backward(%1#0, %1#1) stage 0 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.token
} leave {}

// -----

// expected-error @below {{'pipe.reshard' op expected to stand in a 'pipe.program'}}
%0 = pipe.reshard F stage 0 over [0, 1] bytes 8 cost 1 : !pipe.token

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected two or more ranks between 0 and 65535, ascending, found [1]}}
  %0 = pipe.reshard F stage 0 over [1] bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected its own rank among its ranks}}
  %0 = pipe.reshard B stage 1 over [0, 2] bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected a stage between 0 and 1048575, found -1}}
  %0 = pipe.all_reduce gradients over [0, 1] stage -1 layers 0 to 1 bytes 0 to 8 cost 1 : !pipe.token
} leave {}
