// What a program, its transfers, rings and optimizer steps may not be.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{expected a rank between 0 and 65535, found -1}}
pipe.program @p rank -1 communicator per_edge enter {} step {} leave {}

// -----

// expected-error @below {{expected a rank between 0 and 65535, found 65536}}
pipe.program @p rank 65536 communicator per_edge enter {} step {} leave {}

// -----

// expected-error @below {{expected 'static_bytes' between 0 and 1152921504606846976 bytes, found -1}}
pipe.program @p rank 0 communicator per_edge attributes {static_bytes = -1 : i64} enter {} step {} leave {}

// -----

// expected-error @below {{expected 'workspace' between 0 and 1152921504606846976 bytes, found -1}}
pipe.program @p rank 0 communicator per_edge attributes {workspace = -1 : i64} enter {} step {} leave {}

// -----

// expected-error @below {{expected 'memory_limit' between 1 and 1152921504606846976 bytes, found -9223372036854775808}}
pipe.program @p rank 0 communicator per_edge attributes {memory_limit = -9223372036854775808 : i64}
  enter {} step {} leave {}

// -----

// expected-error @below {{expected a stage between 0 and 1048575, found -3}}
pipe.program @p rank 0 communicator per_edge attributes {stages = array<i32: -3>} enter {} step {} leave {}

// -----

// expected-error @below {{work that crosses steps ('enter' and 'leave') is not supported yet}}
pipe.program @p rank 0 communicator per_edge enter {
  pipe.optimizer_step stage 0 cost 1
} step {} leave {}

// -----

// expected-error @below {{work that crosses steps ('enter' and 'leave') is not supported yet}}
pipe.program @p rank 0 communicator per_edge enter {} step {} leave {
  pipe.optimizer_step stage 0 cost 1
}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected only passes, communication and optimizer steps in a 'pipe.program'}}
  pipe.program @q rank 0 communicator per_edge enter {} step {} leave {}
} leave {}

// -----

// expected-error @below {{expected rings with other ranks, found one with its own}}
pipe.program @p rank 1 communicator per_edge attributes {rings = [#pipe.ring<send 1 slots 1 bytes 8>]}
  enter {} step {} leave {}

// -----

// expected-error @below {{has two rings for what it receives from rank 0}}
pipe.program @p rank 1 communicator per_edge
  attributes {rings = [#pipe.ring<recv 0 slots 1 bytes 8>, #pipe.ring<recv 0 slots 2 bytes 8>]}
  enter {} step {} leave {}

// -----

// Slots.

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{has a slot, but its program has no rings}}
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 slot 0 : () -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge attributes {rings = [#pipe.ring<send 0 slots 1 bytes 8>]} enter {} step {
  // expected-error @below {{expected a ring for what its program receives from rank 0}}
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 slot 0 : () -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge attributes {rings = [#pipe.ring<recv 0 slots 2 bytes 8>]} enter {} step {
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 slot 0 : () -> !pipe.tensor<8>
  // expected-error @below {{expected slot 1 of its ring, found none}}
  %1 = pipe.recv F stage 1 microbatch 1 from 0 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge attributes {rings = [#pipe.ring<send 1 slots 2 bytes 8>]} enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{expected slot 0 of its ring, found 1}}
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 0 latency 0 slot 1 : (!pipe.tensor<8>) -> !pipe.token
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge attributes {rings = [#pipe.ring<send 1 slots 2 bytes 7>]} enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{carries 8 bytes, more than the 7 of a slot of its ring}}
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 0 latency 0 slot 0 : (!pipe.tensor<8>) -> !pipe.token
} leave {}

// -----

// Transfers.

// expected-error @below {{'pipe.recv' op expected to stand in a 'pipe.program'}}
%0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 : () -> !pipe.tensor<8>

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a stage between 0 and 1048575, found -1}}
  %0 = pipe.recv B stage -1 microbatch 0 from 1 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a microbatch between 0 and 1048575, found -1}}
  %0 = pipe.recv B stage 0 microbatch -1 from 1 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a cost between 0 and 1000000000000000000 ps, found -1}}
  %0 = pipe.recv B stage 0 microbatch 0 from 1 cost -1 latency 0 : () -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a latency between 0 and 1000000000000000000 ps, found -1}}
  %0 = pipe.recv B stage 0 microbatch 0 from 1 cost 0 latency -1 : () -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a peer between 0 and 65535, found 65536}}
  %0 = pipe.recv B stage 0 microbatch 0 from 65536 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 3 communicator per_edge enter {} step {
  // expected-error @below {{expected another rank as its peer, found its own}}
  %0 = pipe.recv B stage 0 microbatch 0 from 3 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{receives an activation at the first stage, which has no stage before it}}
  %0 = pipe.recv F stage 0 microbatch 0 from 1 cost 0 latency 0 : () -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  %0 = pipe.recv B stage 0 microbatch 0 from 1 cost 0 latency 0 : () -> !pipe.tensor<8>
  // expected-error @below {{sends a gradient from the first stage, which has no stage before it}}
  %1 = pipe.send(%0) B stage 0 microbatch 0 to 1 cost 0 latency 0 : (!pipe.tensor<8>) -> !pipe.token
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  %0 = pipe.recv B stage 0 microbatch 0 from 1 cost 0 latency 0 : () -> !pipe.tensor<8>
  // expected-error @below {{'pipe.recv' op expected only tokens as operands}}
  %1 = pipe.recv(%0) B stage 0 microbatch 1 from 1 cost 0 latency 0 : (!pipe.tensor<8>) -> !pipe.tensor<8>
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{'pipe.send' op expected one tensor and otherwise only tokens as operands}}
  %1 = pipe.send(%0#1) F stage 0 microbatch 0 to 1 cost 0 latency 0 : (!pipe.activation<4>) -> !pipe.token
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-note @below {{it comes from here}}
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{expected the tensor of its stage's forward of this microbatch}}
  %1 = pipe.send(%0#0) F stage 0 microbatch 1 to 1 cost 0 latency 0 : (!pipe.tensor<8>) -> !pipe.token
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-note @below {{it comes from here}}
  %0 = pipe.recv B stage 1 microbatch 0 from 1 cost 0 latency 0 : () -> !pipe.tensor<8>
  // expected-error @below {{expected the tensor of its stage's backward of this microbatch}}
  %1 = pipe.send(%0) B stage 1 microbatch 0 to 1 cost 0 latency 0 : (!pipe.tensor<8>) -> !pipe.token
} leave {}

// -----

// Optimizer steps.

// expected-error @below {{'pipe.optimizer_step' op expected to stand in a 'pipe.program'}}
pipe.optimizer_step stage 0 cost 1

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a stage between 0 and 1048575, found -1}}
  pipe.optimizer_step stage -1 cost 1
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a cost between 0 and 1000000000000000000 ps, found -1}}
  pipe.optimizer_step stage 0 cost -1
} leave {}

// -----

// expected-error @below {{expected to stand in a 'pipe.program'}}
pipe.overlapped cost 5 {
  pipe.yield
}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a forward, a backward and a 'pipe.yield'}}
  %0:2 = pipe.overlapped cost 5 : !pipe.activation<4>, !pipe.context<2> {
    %1:2 = pipe.forward stage 0 microbatch 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.yield %1#0, %1#1 : !pipe.activation<4>, !pipe.context<2>
  }
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a backward that takes nothing of the forward, both start at once}}
  %0:2 = pipe.overlapped cost 5 : !pipe.activation<4>, !pipe.context<2> {
    %1:2 = pipe.forward stage 0 microbatch 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%1#0, %1#1) stage 0 microbatch 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    pipe.yield %1#0, %1#1 : !pipe.activation<4>, !pipe.context<2>
  }
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{expected to hand out all that its two yield, in order}}
  %1 = pipe.overlapped cost 5 : !pipe.activation<4> {
    %2:2 = pipe.forward stage 0 microbatch 1 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    pipe.yield %2#0 : !pipe.activation<4>
  }
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{expected a cost between that of the longer of the two, 4 ps, and of one after the other, 6 ps, found 3}}
  %1:2 = pipe.overlapped cost 3 : !pipe.activation<4>, !pipe.context<2> {
    %2:2 = pipe.forward stage 0 microbatch 1 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    pipe.yield %2#0, %2#1 : !pipe.activation<4>, !pipe.context<2>
  }
} leave {}

// -----

pipe.program @p rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{expected a cost between that of the longer of the two, 4 ps, and of one after the other, 6 ps, found 7}}
  %1:2 = pipe.overlapped cost 7 : !pipe.activation<4>, !pipe.context<2> {
    %2:2 = pipe.forward stage 0 microbatch 1 cost 2 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 4 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    pipe.yield %2#0, %2#1 : !pipe.activation<4>, !pipe.context<2>
  }
} leave {}
