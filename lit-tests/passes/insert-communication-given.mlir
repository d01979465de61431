// Transfers where the orders say, each waiting for the pass before it in its program; and what is wrong with such orders.
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
pipe.pipeline @order problem <placement = [0, 1], microbatches = 2, communicator = shared>
    orders [
      #pipe.order<F0 F0 send(F0, 0) send(F0, 1) recv(B0, 0) BW0 recv(B0, 1) BW0>,
      #pipe.order<recv(F1, 0) F1 recv(F1, 1) BW1 send(B1, 0) F1 BW1 send(B1, 1)>] {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

// expected-error @below {{expected each of rank 0's transfers once in its order, found another, send(F0, 1)}}
pipe.pipeline @order problem <placement = [0, 1], microbatches = 1, communicator = shared>
    orders [
      #pipe.order<F0 send(F0, 1) BW0>,
      #pipe.order<recv(F1, 0) F1 BW1 send(B1, 0)>] {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

// expected-error @below {{expected each of rank 0's transfers once in its order, 1 are missing}}
pipe.pipeline @order problem <placement = [0, 1], microbatches = 1, communicator = shared>
    orders [
      #pipe.order<F0 send(F0, 0) BW0>,
      #pipe.order<recv(F1, 0) F1 BW1 send(B1, 0)>] {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}

// -----

// expected-error @below {{expected what rank 0 waits for to be sent before, found wait(F0, 0)}}
pipe.pipeline @order problem <placement = [0, 1], microbatches = 1, communicator = shared>
    orders [
      #pipe.order<F0 wait(F0, 0) send(F0, 0) recv(B0, 0) BW0>,
      #pipe.order<recv(F1, 0) F1 BW1 send(B1, 0)>] {
  pipe.block {
    %0:3 = pipe.forward stage 0 cost 2 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 cost 2 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward(%1#0, %1#1) stage 1 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
    pipe.backward(%0#1, %0#2, %2) stage 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
  }
}
