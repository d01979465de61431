// What a pipeline and its block may not be.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{expected between 1 and 1048576 stages in the placement, found 0}}
pipe.pipeline @p placement [] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected one copy of its stages or two equal ones, found 3 stages of 2}}
pipe.pipeline @p placement [0, 1, 0] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {copies = 2 : i32} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 'slices' between 1 and 1048576, found 0}}
pipe.pipeline @p placement [0] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {slices = 0 : i32} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 'backward_group' between 1 and 1048576, found -2}}
pipe.pipeline @p placement [0] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {backward_group = -2 : i32} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected ranks between 0 and 65535 in the placement, found -1}}
pipe.pipeline @p placement [0, -1] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected ranks between 0 and 65535 in the placement, found 65536}}
pipe.pipeline @p placement [65536] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected every rank to hold a stage, found none on rank 1}}
pipe.pipeline @p placement [0, 2] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected between 1 and 1048576 microbatches, found 0}}
pipe.pipeline @p placement [0] microbatches 0 communicator per_edge link <-1 to -1 latency 0 bandwidth 0> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected between 1 and 1048576 microbatches, found -2}}
pipe.pipeline @p placement [0] microbatches -2 communicator per_edge link <-1 to -1 latency 0 bandwidth 0> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected the default link to be from -1 to -1, found 0 to 1}}
pipe.pipeline @p placement [0, 1] microbatches 1 communicator per_edge link <0 to 1 latency 0 bandwidth 0> {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected links between ranks 0 and 1, found 0 to 2}}
pipe.pipeline @p placement [0, 1] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {links = [#pipe.link<0 to 2 latency 0 bandwidth 0>]} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected links between ranks 0 and 1, found -1 to -1}}
pipe.pipeline @p placement [0, 1] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {links = [#pipe.link<-1 to -1 latency 0 bandwidth 0>]} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{has two links from 1 to 0}}
pipe.pipeline @p placement [0, 1] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {links = [#pipe.link<1 to 0 latency 0 bandwidth 0>, #pipe.link<1 to 0 latency 9 bandwidth 0>]} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 'memory_limit' between 1 and 1152921504606846976 bytes, found 0}}
pipe.pipeline @p placement [0] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {memory_limit = 0 : i64} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 2 values in 'optimizer', found 1}}
pipe.pipeline @p placement [0, 1] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {optimizer = array<i64: 1>} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected values between 0 and 1000000000000000000 in 'optimizer', found -1}}
pipe.pipeline @p placement [0, 1] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {optimizer = array<i64: 1, -1>} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected 1 values in 'static_bytes', found 2}}
pipe.pipeline @p placement [0, 0] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {static_bytes = array<i64: 1, 1>} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected values between 0 and 1152921504606846976 in 'workspace', found 1152921504606846977}}
pipe.pipeline @p placement [0] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {workspace = array<i64: 1152921504606846977>} {
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{expected an order for each of its 2 ranks, found 1}}
pipe.pipeline @p placement [0, 1] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    orders [#pipe.order<F0 BW0>] {
  pipe.block {}
}

// -----

// expected-error @below {{expected exactly one 'pipe.block' as its body}}
pipe.pipeline @p placement [0] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0> {}

// -----

// expected-error @below {{expected exactly one 'pipe.block' as its body}}
pipe.pipeline @p placement [0] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0> {
  pipe.block interval 1 {}
  pipe.block interval 1 {}
}

// -----

// expected-error @below {{'pipe.block' op expects parent op 'pipe.pipeline'}}
pipe.block interval 1 {}

// -----

pipe.pipeline @p placement [0] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0> {
  // expected-error @below {{expected a positive interval, found 0}}
  pipe.block interval 0 {}
}

// -----

pipe.pipeline @p placement [0] microbatches 1 communicator per_edge link <-1 to -1 latency 0 bandwidth 0> {
  pipe.block interval 1 {
    // expected-error @below {{expected only passes of stages in a 'pipe.block'}}
    pipe.optimizer_step stage 0 cost 1
  }
}
