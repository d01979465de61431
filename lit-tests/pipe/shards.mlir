// Shards of ranks and their portions, as they are printed.
// RUN: pipe-opt %s | pipe-opt | FileCheck %s

// CHECK-LABEL: pipe.pipeline @p problem <placement = [0], microbatches = 1>
// CHECK-SAME: shards <count = 2, factors = [4000000, 1000000], static_bytes = [512, 1536], stages = [#pipe.sharded_stage<activation = [64, 192], weight_context = [1, 2], passes = [#pipe.sharded_pass<F, cost = 120, before = [40, 10], between = [80, 90], after = [1, 2], meets = true>, #pipe.sharded_pass<W, before = [3, 4]>], portions = [#pipe.portion<split = "heads", first = 0, end = 4, units = 16, owned = [0, 0, 4, 1, 4, 12], worked = [0, 0, 4, 1, 4, 12], kept = [4, 12]>]>], balance = "{\22name\22: \22auto\22}">
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    shards <count = 2, factors = [4000000, 1000000], static_bytes = [512, 1536],
            stages = [#pipe.sharded_stage<activation = [64, 192], weight_context = [1, 2], passes = [
              #pipe.sharded_pass<F, cost = 120, before = [40, 10], between = [80, 90], after = [1, 2], meets = true>,
              #pipe.sharded_pass<W, before = [3, 4]>],
              portions = [#pipe.portion<split = "heads", first = 0, end = 4, units = 16, owned = [0, 0, 4, 1, 4, 12],
                                        worked = [0, 0, 4, 1, 4, 12], kept = [4, 12]>]>],
            balance = "{\22name\22: \22auto\22}"> {
  pipe.block {}
}
