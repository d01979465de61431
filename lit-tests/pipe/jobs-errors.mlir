// What jobs, their ranks and windows may not be.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{expected a job's name of 1 to 64 letters, digits, '-', '_' and '.', found "a b"}}
module attributes {a = #pipe.job<name = "a b", samples = 1, atoms = 1, atom = 1>} {}

// -----

// expected-error @below {{expected samples of a job between 1 and 1000000000000000000, found 0}}
module attributes {a = #pipe.job<name = "a", samples = 0, atoms = 1, atom = 1>} {}

// -----

// expected-error @below {{expected atoms of a job between 1 and 1048576, found 1048577}}
module attributes {a = #pipe.job<name = "a", samples = 1, atoms = 1048577, atom = 1>} {}

// -----

// expected-error @below {{expected ps of an atom between 1 and 1000000000000000000, found 0}}
module attributes {a = #pipe.job<name = "a", samples = 1, atoms = 1, atom = 0>} {}

// -----

// expected-error @below {{expected ps of overhead between 0 and 1000000000000000000, found -1}}
module attributes {a = #pipe.job<name = "a", samples = 1, atoms = 1, atom = 1, overhead = -1>} {}

// -----

// expected-error @below {{expected bytes of a job between 0 and 1152921504606846976, found -1}}
module attributes {a = #pipe.job<name = "a", samples = 1, atoms = 1, atom = 1, memory = -1>} {}

// -----

// expected-error @below {{expected atoms of a piece between 1 and 1000, found 1001}}
module attributes {a = #pipe.job<name = "a", samples = 1, atoms = 1, atom = 1000000000000000, piece = 1001>} {}

// -----

// expected-error @below {{expected a job's ranks, ascending, found [1, 1]}}
module attributes {a = #pipe.job<name = "a", samples = 1, atoms = 1, atom = 1, ranks = [1, 1]>} {}

// -----

// expected-error @below {{expected millionths of a step between 0 and 1000000, found 1000001}}
module attributes {a = #pipe.jobs<slow_down = 1000001, work = []>} {}

// -----

// expected-error @below {{expected jobs between 1 and 256, found 0}}
module attributes {a = #pipe.jobs<slow_down = 0, work = []>} {}

// -----

// expected-error @below {{expected jobs, each '#pipe.job' with a name of its own, found #pipe.job<name = "a", samples = 2, atoms = 1, atom = 1>}}
module attributes {a = #pipe.jobs<slow_down = 0, work = [#pipe.job<name = "a", samples = 1, atoms = 1, atom = 1>,
                                                         #pipe.job<name = "a", samples = 2, atoms = 1, atom = 1>]>} {}

// -----

// expected-error @below {{expected jobs, each '#pipe.job' with a name of its own, found 1}}
module attributes {a = #pipe.jobs<slow_down = 0, work = [1]>} {}

// -----

// expected-error @below {{expected ps of a window between 1 and 1000000000000000000, found 0}}
module attributes {a = #pipe.window<0 from 0>} {}

// -----

// expected-error @below {{expected ps before a window between 0 and 1000000000000000000, found -1}}
module attributes {a = #pipe.window<1 from -1>} {}

// -----

// expected-error @below {{expected jobs on its ranks, 0 to 0, found one on rank 1}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    jobs <slow_down = 0, work = [#pipe.job<name = "a", samples = 1, atoms = 1, atom = 1, ranks = [0, 1]>]> {
  pipe.block {}
}

// -----

// expected-error @below {{expected jobs or shards, found both}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    shards <count = 2, factors = [1, 1], stages = [#pipe.sharded_stage<passes = [], portions = []>], balance = "{}">
    jobs <slow_down = 0, work = [#pipe.job<name = "a", samples = 1, atoms = 1, atom = 1>]> {
  pipe.block {}
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {
    // expected-error @below {{expected no window: passes of a 'pipe.program' have one, and pairs as a whole}}
    %0:2 = pipe.forward stage 0 at 0 cost 10 window 5 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 at 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// expected-error @below {{expected a job from 0 on and a piece of 1 atom or more, or neither}}
pipe.program @p rank 0 communicator per_edge attributes {job = 0 : i32} enter {} step {} leave {}

// -----

// expected-error @below {{expected a job from 0 on and a piece of 1 atom or more, or neither}}
pipe.program @p rank 0 communicator per_edge attributes {job = 0 : i32, piece = 0 : i64} enter {} step {} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected no window: the program has no job}}
  pipe.optimizer_step stage 0 cost 5 window 5
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge attributes {job = 0 : i32, piece = 1 : i64} enter {} step {
  // expected-error @below {{expected no window: it runs on a queue of its own}}
  pipe.optimizer_step stage 0 layers 0 to 1 cost 5 window 5
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge attributes {job = 0 : i32, piece = 1 : i64, fill_weights} enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.backward_input(%0#0) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>) -> !pipe.token
  // expected-error @below {{expected no window: it runs on a queue of its own}}
  pipe.backward_weight(%0#1, %1) stage 0 microbatch 0 cost 5 window 5 : (!pipe.context<2>, !pipe.token) -> ()
} leave {}
