// RUN: pipe-opt %s --pipe-insert-communication -split-input-file -verify-diagnostics

// expected-error @below {{expected a 'pipe.pipeline' in the module, found none}}
module {
  pipe.program @rank0 rank 0 communicator per_edge enter {} step {} leave {}
}

// -----

// expected-error @below {{expected a 'pipe.program' for each rank, found none}}
module {
  pipe.pipeline @p problem <placement = [0], microbatches = 1> {
    pipe.block interval 3 {}
  }
}

// -----

pipe.pipeline @p problem <placement = [0, 1], microbatches = 1> {
  pipe.block interval 3 {}
}
// expected-error @below {{expected a 'pipe.program' for each rank, found none for rank 0}}
pipe.program @rank1 rank 1 communicator per_edge enter {} step {} leave {}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {}
}
// expected-note @below {{the other is here}}
pipe.program @one rank 0 communicator per_edge enter {} step {} leave {}
// expected-error @below {{rank 0 has two programs}}
pipe.program @two rank 0 communicator per_edge enter {} step {} leave {}

// -----

pipe.pipeline @p problem <placement = [0, 1], microbatches = 1> {
  pipe.block interval 3 {}
}
pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected programs without communication}}
  %0 = pipe.recv B stage 0 microbatch 0 from 1 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}
pipe.program @rank1 rank 1 communicator per_edge enter {} step {} leave {}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {}
}
pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{F stage 0 microbatch 0 stands twice}}
  %1:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {}
}
pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{F stage 0 microbatch 0 yields a tensor that no stage takes}}
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

// Rank 0 asks for the gradient of microbatch 0 before it sends the activation of microbatch 1, rank 1 wants that first: no
// order of the transfers lets this end. The cycle is named, each waiting for the next.

pipe.pipeline @p problem <placement = [0, 1], microbatches = 2> {
  pipe.block interval 3 {}
}
pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{the programs wait for each other in a cycle of 7: rank 0: BW stage 0 microbatch 0}}
  %1 = pipe.backward(%0#1, %0#2) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.token
  // expected-note @below {{which waits for the transfer from rank 0 to rank 1 after F stage 0 microbatch 1}}
  // expected-note @below {{which waits for rank 0: F stage 0 microbatch 1}}
  %2:3 = pipe.forward stage 0 microbatch 1 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
} leave {}
pipe.program @rank1 rank 1 communicator per_edge enter {} step {
  // expected-note @below {{which waits for rank 1: F stage 1 microbatch 1}}
  %0:3 = pipe.forward stage 1 microbatch 1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  // expected-note @below {{which waits for rank 1: F stage 1 microbatch 0}}
  %1:3 = pipe.forward stage 1 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  // expected-note @below {{which waits for the transfer from rank 1 to rank 0 after BW stage 1 microbatch 0}}
  // expected-note @below {{which waits for rank 1: BW stage 1 microbatch 0}}
  %2 = pipe.backward(%1#0, %1#1) stage 1 microbatch 0 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
} leave {}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {}
}
pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{F stage 0 microbatch 1 is none of the pipeline's 1 stages and 1 microbatches}}
  %0:2 = pipe.forward stage 0 microbatch 1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

// expected-error @below {{expected a program for each of its 2 orders}}
pipe.pipeline @p problem <placement = [0, 1], microbatches = 1>
    orders [#pipe.order<F0 send(F0, 0) BW0>, #pipe.order<F1 BW1>] {
  pipe.block {}
}
pipe.program @rank0 rank 0 communicator per_edge enter {} step {} leave {}

// -----

// expected-error @below {{expected the passes of rank 0's program in its order, found more}}
pipe.pipeline @p problem <placement = [0], microbatches = 1>
    orders [#pipe.order<F0 BW0 send(F0, 0)>] {
  pipe.block {}
}
pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}
