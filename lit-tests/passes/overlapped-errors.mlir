// What orders of overlapped pairs may not be.
// RUN: pipe-opt %s --pipe-build-schedule -split-input-file -verify-diagnostics

pipe.pipeline @order problem <placement = [0], microbatches = 2, overlapped = [5]>
    orders [#pipe.order<(F0 BW0) F0 BW0>] {
  // expected-error @below {{letter 1 of rank 0: BW 0 of stage 0 comes before its F}}
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// expected-error @below {{expected 1 values in 'overlapped', found 2}}
pipe.pipeline @order problem <placement = [0], microbatches = 2, overlapped = [5, 5]>
    orders [#pipe.order<F0 (F0 BW0) BW0>] {
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

pipe.pipeline @order problem <placement = [0], microbatches = 2, overlapped = [7]>
    orders [#pipe.order<F0 (F0 BW0) BW0>] {
  pipe.block {
    // expected-error @below {{expected a cost between that of the longer of the two, 4 ps, and of one after the other, 6 ps, found 7}}
    %0:2 = pipe.forward stage 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}
