// Transfers where the pipeline says, each waiting for the pass before it in its program; and what is wrong with such lists.
// RUN: pipe-opt %s --pipe-build-schedule --pipe-insert-communication -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: pipe.program @rank0
// CHECK: %[[F0:.*]]:3 = pipe.forward stage 0 microbatch 0
// CHECK-NEXT: %[[F1:.*]]:4 = pipe.forward stage 0 microbatch 1
// CHECK-NEXT: pipe.send(%[[F0]]#0, %[[F1]]#3) F stage 0 microbatch 0
// CHECK-NEXT: pipe.send(%[[F1]]#0, %[[F1]]#3) F stage 0 microbatch 1
// CHECK-LABEL: pipe.program @rank1
// CHECK: pipe.recv F stage 1 microbatch 0
// CHECK-NEXT: %[[G0:.*]]:3 = pipe.forward
// CHECK-NEXT: pipe.recv(%[[G0]]#2) F stage 1 microbatch 1
pipe.pipeline @order placement [0, 1] microbatches 2 communicator shared link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: 0, 0, 3, 3>, array<i32: 4, 7, 4, 7>],
                transfers = [array<i32: 2, 0, 0, 0, 2, 0, 0, 1, 2, 3, 0, 0, 3, 3, 0, 1>,
                             array<i32: 0, 1, 1, 0, 1, 1, 1, 1, 2, 2, 1, 0, 4, 2, 1, 1>]} {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

// expected-error @below {{'transfers': expected a list for each rank}}
pipe.pipeline @order placement [0, 1] microbatches 1 communicator shared link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: 0, 3>, array<i32: 4, 7>], transfers = [array<i32: 1, 0, 0, 0>]} {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

// expected-error @below {{'transfers': expected four numbers a transfer, the first no smaller than of the one before and at most the rank's passes}}
pipe.pipeline @order placement [0, 1] microbatches 1 communicator shared link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: 0, 3>, array<i32: 4, 7>],
                transfers = [array<i32: 3, 0, 0, 0>, array<i32: 0, 1, 1, 0, 2, 2, 1, 0>]} {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

// expected-error @below {{'transfers': expected each of rank 0's transfers once, found another of stage 0 microbatch 1}}
pipe.pipeline @order placement [0, 1] microbatches 1 communicator shared link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: 0, 3>, array<i32: 4, 7>],
                transfers = [array<i32: 1, 0, 0, 1>, array<i32: 0, 1, 1, 0, 2, 2, 1, 0>]} {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

// expected-error @below {{'transfers': expected each of rank 0's transfers once, 1 are missing}}
pipe.pipeline @order placement [0, 1] microbatches 1 communicator shared link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: 0, 3>, array<i32: 4, 7>],
                transfers = [array<i32: 1, 0, 0, 0>, array<i32: 0, 1, 1, 0, 2, 2, 1, 0>]} {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

// expected-error @below {{'transfers': expected what rank 0 waits for to be sent before, found stage 0 microbatch 0}}
pipe.pipeline @order placement [0, 1] microbatches 1 communicator shared link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: 0, 3>, array<i32: 4, 7>],
                transfers = [array<i32: 1, 4, 0, 0, 1, 0, 0, 0, 1, 3, 0, 0>, array<i32: 0, 1, 1, 0, 2, 2, 1, 0>]} {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}
