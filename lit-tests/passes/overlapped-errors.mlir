// What words of overlapped forwards, and transfers placed among them, may not be.
// RUN: pipe-opt %s --pipe-build-schedule --pipe-insert-communication -split-input-file -verify-diagnostics

pipe.pipeline @order placement [0] microbatches 2 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: 0, -2, 3, 3>]} {
  // expected-error @below {{expected letters of at least 0 in the words, or -1 less four times the stage of an overlapped F, found -2}}
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @order placement [0] microbatches 2 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: -1, 3, 0, 3>], overlapped = array<i64: 5>} {
  // expected-error @below {{letter 1 of rank 0: BW 0 of stage 0 comes before its F}}
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// expected-error @below {{expected 1 values in 'overlapped', found 2}}
pipe.pipeline @order placement [0] microbatches 2 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: 0, -1, 3, 3>], overlapped = array<i64: 5, 5>} {
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @order placement [0] microbatches 2 communicator per_edge link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: 0, -1, 3, 3>], overlapped = array<i64: 7>} {
  pipe.block {
    // expected-error @below {{expected a cost between that of the longer of the two, 4 ps, and of one after the other, 6 ps, found 7}}
    %0:2 = pipe.forward stage 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// expected-error @below {{'transfers': expected no transfer between the two of an overlapped pair, found one of rank 0}}
pipe.pipeline @order placement [0, 1] microbatches 2 communicator shared link <-1 to -1 latency 0 bandwidth 0>
    attributes {words = [array<i32: 0, -1, 3, 3>, array<i32: 4, 7, 4, 7>], overlapped = array<i64: 5, 5>,
                transfers = [array<i32: 1, 0, 0, 0, 1, 3, 0, 0, 2, 0, 0, 1, 3, 3, 0, 1>,
                             array<i32: 0, 1, 1, 0, 2, 2, 1, 0, 2, 1, 1, 1, 4, 2, 1, 1>]} {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}
