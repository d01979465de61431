// What shards of ranks and their portions may not be.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{expected a cost between 0 and 1000000000000000000 ps, found -1}}
module attributes {a = #pipe.sharded_pass<F, cost = -1, meets = true>} {}

// -----

// expected-error @below {{expected a cost between 0 and 0 ps, found 3}}
module attributes {a = #pipe.sharded_pass<W, cost = 3>} {}

// -----

// expected-error @below {{expected picoseconds of a shard between 0 and 1000000000000000000, found -1}}
module attributes {a = #pipe.sharded_pass<F, before = [-1, 2]>} {}

// -----

// expected-error @below {{expected a unit or more of a split, found 0}}
module attributes {a = #pipe.portion<split = "a", first = 0, end = 1, units = 0, owned = [], worked = [], kept = []>} {}

// -----

// expected-error @below {{expected ranges of three numbers each, found 2 numbers}}
module attributes {a = #pipe.portion<split = "a", first = 0, end = 1, units = 4, owned = [0, 1], worked = [], kept = [1]>} {}

// -----

// expected-error @below {{expected one of 1 shards, and units within 4, found shard 0, 4 units from 1 on}}
module attributes {a = #pipe.portion<split = "a", first = 0, end = 1, units = 4, owned = [0, 1, 4], worked = [], kept = [1]>} {}

// -----

// expected-error @below {{expected units kept between 0 and 4, found 5}}
module attributes {a = #pipe.portion<split = "a", first = 0, end = 1, units = 4, owned = [], worked = [], kept = [5]>} {}

// -----

// expected-error @below {{expected bytes of a shard between 0 and 1152921504606846976, found -1}}
module attributes {a = #pipe.sharded_stage<activation = [-1], passes = [], portions = []>} {}

// -----

// expected-error @below {{expected a list of '#pipe.sharded_pass' as the passes of a stage}}
module attributes {a = #pipe.sharded_stage<passes = [1], portions = []>} {}

// -----

// expected-error @below {{expected a list of '#pipe.portion' as the portions of a stage}}
module attributes {a = #pipe.sharded_stage<passes = [], portions = [1]>} {}

// -----

// expected-error @below {{expected between 2 and 65536 shards, found 1}}
module attributes {a = #pipe.shards<count = 1, factors = [1], stages = [], balance = "">} {}

// -----

// expected-error @below {{expected at most 65536 factors, each of 1 or more, and a balance}}
module attributes {a = #pipe.shards<count = 2, factors = [1, 0], stages = [], balance = "">} {}

// -----

// expected-error @below {{expected bytes of each process of 2, found 1}}
module attributes {a = #pipe.shards<count = 2, factors = [1, 1], static_bytes = [1], stages = [], balance = "">} {}

// -----

// expected-error @below {{expected bytes of a process between 0 and 1152921504606846976, found -1}}
module attributes {a = #pipe.shards<count = 2, factors = [1, 1], workspace = [1, -1], stages = [], balance = "">} {}

// -----

// expected-error @below {{expected a list of '#pipe.sharded_stage', found [1]}}
module attributes {a = #pipe.shards<count = 2, factors = [1, 1], stages = [1], balance = "">} {}

// -----

// expected-error @below {{expected bytes of each shard of 2, found 1}}
module attributes {a = #pipe.shards<count = 2, factors = [1, 1], stages = [#pipe.sharded_stage<weight_context = [1], passes = [], portions = []>], balance = "">} {}

// -----

// expected-error @below {{expected times of each shard of 2, found 1}}
module attributes {a = #pipe.shards<count = 2, factors = [1, 1], stages = [#pipe.sharded_stage<passes = [#pipe.sharded_pass<W, before = [1]>], portions = []>], balance = "">} {}

// -----

// expected-error @below {{expected units of each shard of 2, found 1}}
module attributes {a = #pipe.shards<count = 2, factors = [1, 1], stages = [#pipe.sharded_stage<passes = [], portions = [#pipe.portion<split = "a", first = 0, end = 1, units = 4, owned = [], worked = [], kept = [1]>]>], balance = "">} {}

// -----

// expected-error @below {{expected replicas or shards, found both}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    replicas <degree = 4, all_reduce = <>, reduce_scatter = <>, all_gather = <>, layers = [[#pipe.layer<gradients = [8]>]]>
    shards <count = 2, factors = [1, 1], stages = [#pipe.sharded_stage<passes = [], portions = []>], balance = ""> {
  pipe.block {}
}

// -----

// expected-error @below {{expected shards with a factor for each of 1 x 2 processes, found 1}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    shards <count = 2, factors = [1], stages = [#pipe.sharded_stage<passes = [], portions = []>], balance = ""> {
  pipe.block {}
}

// -----

// expected-error @below {{expected shards with each of its 1 stages, found those of 0}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    shards <count = 2, factors = [1, 1], stages = [], balance = ""> {
  pipe.block {}
}
