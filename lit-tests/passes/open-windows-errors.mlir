// Where no window opens: no pipeline, no memory, no wait, no time; a job that is not there.
// RUN: pipe-opt %s --pipe-open-windows -split-input-file -verify-diagnostics

// expected-error @below {{expected a 'pipe.pipeline' in the module, found none}}
module {}

// -----

// Rank 0 holds 6 bytes of its limit of 10.
// expected-error @below {{jobs.work[0].memory: no job fits any rank: rank 0 needs 6 B and job 'j' 5 B, over the limit of 10 B; the least limit that would do there is 11 B (11B)}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, memory_limit = [10]>
    jobs <slow_down = 10000, work = [#pipe.job<name = "j", samples = 1, atoms = 5, atom = 1, memory = 5>]> {
  pipe.block {}
}
pipe.program @rank0 rank 0 communicator per_edge
  attributes {memory_limit = 10 : i64, rings = [], stages = array<i32: 0>} enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
  pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  pipe.optimizer_step stage 0 cost 0
} leave {}

// -----

// A rank that waits for nobody has no window.
// expected-warning @below {{jobs.work[0]: job 'j' never runs: its shortest piece takes 1 ps, and no rank that may run it waits for longer than 0}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    jobs <slow_down = 10000, work = [#pipe.job<name = "j", samples = 1, atoms = 5, atom = 1>]> {
  pipe.block {}
}
pipe.program @rank0 rank 0 communicator per_edge attributes {rings = [], stages = array<i32: 0>} enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
  pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  pipe.optimizer_step stage 0 cost 0
} leave {}

// -----

// A step takes 60 ps, and rank 1 waits 30 of them, for its forward, at whose start a piece may run late once a step.
// expected-error @below {{jobs.slow_down: no piece of job 'j' keeps within 0.0001%: its shortest takes 3 ps; the least that would do is 5%}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1>
    jobs <slow_down = 1, work = [#pipe.job<name = "j", samples = 1, atoms = 5, atom = 3, ranks = [1]>]> {
  pipe.block {}
}
pipe.program @rank0 rank 0 communicator per_edge
  attributes {rings = [#pipe.ring<recv 1 slots 1 bytes 8>, #pipe.ring<send 1 slots 1 bytes 8>], stages = array<i32: 0>}
  enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 0 latency 0 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %2 = pipe.recv B stage 0 microbatch 0 from 1 cost 0 latency 0 slot 0 : () -> !pipe.tensor<8>
  pipe.backward(%0#1, %0#2, %2) stage 0 microbatch 0 cost 20
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  pipe.optimizer_step stage 0 cost 0
} leave {}
pipe.program @rank1 rank 1 communicator per_edge
  attributes {rings = [#pipe.ring<recv 0 slots 1 bytes 8>, #pipe.ring<send 0 slots 1 bytes 8>], stages = array<i32: 1>}
  enter {} step {
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 slot 0 : () -> !pipe.tensor<8>
  %1:2 = pipe.forward(%0) stage 1 microbatch 0 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
  %2 = pipe.backward(%1#0, %1#1) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  %3 = pipe.send(%2) B stage 1 microbatch 0 to 0 cost 0 latency 0 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  pipe.optimizer_step stage 1 cost 0
} leave {}

// -----

// expected-error @below {{rank 0 runs job 0, the pipeline has 0}}
pipe.program @rank0 rank 0 communicator per_edge attributes {job = 0 : i32, piece = 1 : i64} enter {} step {} leave {}
pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block {}
}
