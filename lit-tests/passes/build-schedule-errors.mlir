// RUN: pipe-opt %s --pipe-build-schedule -split-input-file -verify-diagnostics

// expected-error @below {{expected a 'pipe.pipeline' in the module, found none}}
module {}

// -----

// expected-note @below {{here}}
pipe.pipeline @a problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {}
}
// expected-error @below {{expected one 'pipe.pipeline' in the module, found another}}
pipe.pipeline @b problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {}
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {}
}
// expected-error @below {{expected no 'pipe.program' yet}}
pipe.program @rank0 rank 0 communicator per_edge enter {} step {} leave {}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  // expected-error @below {{expected a backward for each stage, found none}}
  pipe.block interval 3 {}
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {
    // expected-error @below {{F stage 1 is not in the placement, which has 1 stage}}
    %0:2 = pipe.forward stage 1 at 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  }
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {
    // expected-note @below {{the other is here}}
    %0:2 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    // expected-error @below {{stage 0 has two forwards}}
    %1:2 = pipe.forward stage 0 at 1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  }
}

// -----

pipe.pipeline @p problem <placement = [0, 0], microbatches = 1> {
  // expected-error @below {{expected all backwards fused or all split, found both}}
  pipe.block interval 6 {
    %0:3 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 at 1 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 at 2 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward_input(%0#1, %2) stage 0 at 3 cost 1 : (!pipe.activation<4>, !pipe.tensor<8>) -> ()
    pipe.backward_weight(%0#2) stage 0 at 4 cost 1 : (!pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  // expected-error @below {{expected a forward and a backward for each stage, stage 0 lacks its weight backward}}
  pipe.block interval 6 {
    %0:2 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward_input(%0#0) stage 0 at 3 cost 1 : (!pipe.activation<4>) -> ()
  }
}

// -----

pipe.pipeline @p problem <placement = [0, 0], microbatches = 1> {
  // expected-error @below {{expected a forward and a backward for each stage, stage 1 lacks its forward}}
  pipe.block interval 6 {
    %0:3 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#1, %0#2) stage 0 at 3 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @p problem <placement = [0, 0], microbatches = 1> {
  // expected-error @below {{expected a forward and a backward for each stage, stage 1 lacks its backward}}
  pipe.block interval 6 {
    %0:3 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 at 1 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#1, %0#2) stage 0 at 3 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 6 {
    // expected-error @below {{F stage 0 yields a tensor, but there is no next stage}}
    %0:3 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#1, %0#2) stage 0 at 3 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @p problem <placement = [0, 0], microbatches = 1> {
  pipe.block interval 6 {
    // expected-error @below {{F stage 0 yields no tensor for the next stage}}
    %0:2 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward stage 1 at 1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 at 2 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#0, %0#1, %2) stage 0 at 3 cost 1
        : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 6 {
    %0:2 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    // expected-error @below {{BW stage 0 yields a gradient, but there is no stage before}}
    %1 = pipe.backward(%0#0, %0#1) stage 0 at 3 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
  }
}

// -----

pipe.pipeline @p problem <placement = [0, 0], microbatches = 1> {
  pipe.block interval 6 {
    %0:3 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 at 1 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    // expected-error @below {{BW stage 1 yields no gradient for the stage before}}
    pipe.backward(%1#0, %1#1) stage 1 at 2 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    pipe.backward(%0#1, %0#2) stage 0 at 3 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// What compiler/schedule finds wrong with a block: order, range, two passes in one slot.

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  // expected-error @below {{the backward of stage 0 is in slot 2, expected after slot 2, the forward of stage 0}}
  pipe.block interval 6 {
    %0:2 = pipe.forward stage 0 at 2 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 at 2 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  // expected-error @below {{on rank 0 the forward of stage 0 and the backward of stage 0 both fall on slot 1 modulo 2, expected different slots}}
  pipe.block interval 2 {
    %0:2 = pipe.forward stage 0 at 1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 at 3 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  // expected-error @below {{the forward slot of stage 0 is -1, expected 0 to 1000000000000000000}}
  pipe.block interval 2 {
    %0:2 = pipe.forward stage 0 at -1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 at 2 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  // expected-error @below {{expected an interval and slots, or the name of a known schedule, found 'p'}}
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @"1f1b" problem <placement = [1, 0], microbatches = 1> {
  // expected-error @below {{schedule '1f1b' places stages in a loop, stage 0 on rank 0; found it on rank 1}}
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 1 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

pipe.pipeline @"looped-bfs" problem <placement = [0, 1, 1], microbatches = 1> {
  // expected-error @below {{schedule 'looped-bfs' has equally many stages on each rank, found 3 stages on 2 ranks}}
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:3 = pipe.forward(%0#0) stage 1 cost 1 : (!pipe.tensor<8>) -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %2:2 = pipe.forward(%1#0) stage 2 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %3 = pipe.backward(%2#0, %2#1) stage 2 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    %4 = pipe.backward(%1#1, %1#2, %3) stage 1 cost 1 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %4) stage 0 cost 1 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1, weights = fill> {
  // expected-error @below {{weights = fill needs a split backward, found a fused one}}
  pipe.block interval 6 {
    %0:2 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 at 3 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// expected-error @below {{shards with two copies, slices, overlapped pairs or weights = fill are not supported yet}}
pipe.pipeline @p problem <placement = [0], microbatches = 1, weights = fill>
    shards <count = 2, factors = [1, 1], stages = [#pipe.sharded_stage<passes = [], portions = []>], balance = ""> {
  pipe.block interval 6 {
    %0:2 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward_input(%0#0) stage 0 at 3 cost 1 : (!pipe.activation<4>) -> ()
    pipe.backward_weight(%0#1) stage 0 at 5 cost 1 : (!pipe.context<2>) -> ()
  }
}
