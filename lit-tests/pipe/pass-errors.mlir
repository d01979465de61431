// What a pass of a stage may not be: wherever it stands, what it takes, what it yields.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{'pipe.forward' op expected to stand in a 'pipe.block' or a 'pipe.program'}}
%0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a microbatch and no slot ('at') in a 'pipe.program'}}
  %0:2 = pipe.forward stage 0 microbatch 0 at 3 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a microbatch and no slot ('at') in a 'pipe.program'}}
  %0:2 = pipe.forward stage 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {
    // expected-error @below {{expected no microbatch in a 'pipe.block'}}
    %0:2 = pipe.forward stage 0 microbatch 0 at 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  }
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block interval 3 {
    // expected-error @below {{expected a slot ('at') in a 'pipe.block' with an interval, and none in one without}}
    %0:2 = pipe.forward stage 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  }
}

// -----

pipe.pipeline @p problem <placement = [0], microbatches = 1> {
  pipe.block {
    // expected-error @below {{expected a slot ('at') in a 'pipe.block' with an interval, and none in one without}}
    %0:2 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  }
}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a stage between 0 and 1048575, found -1}}
  %0:2 = pipe.forward stage -1 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a stage between 0 and 1048575, found 1048576}}
  %0:2 = pipe.forward stage 1048576 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a microbatch between 0 and 1048575, found -1}}
  %0:2 = pipe.forward stage 0 microbatch -1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a microbatch between 0 and 1048575, found 1048576}}
  %0:2 = pipe.forward stage 0 microbatch 1048576 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a cost between 0 and 1000000000000000000 ps, found -1}}
  %0:2 = pipe.forward stage 0 microbatch 0 cost -1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a cost between 0 and 1000000000000000000 ps, found 1000000000000000001}}
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1000000000000000001 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

// What each takes.

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0 = pipe.recv F stage 1 microbatch 0 from 1 cost 0 latency 0 : () -> !pipe.tensor<8>
  // expected-error @below {{expected at most one tensor as operand, found 2}}
  %1:2 = pipe.forward(%0, %0) stage 1 microbatch 0 cost 1
      : (!pipe.tensor<8>, !pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{'pipe.forward' op expected 0 activation and 0 context as operands, found 1 and 0}}
  %1:2 = pipe.forward(%0#0) stage 0 microbatch 1 cost 1 : (!pipe.activation<4>) -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{'pipe.backward' op expected 1 activation and 1 context as operands, found 1 and 0}}
  pipe.backward(%0#0) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>) -> ()
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{'pipe.backward_input' op expected 1 activation and 0 context as operands, found 1 and 1}}
  pipe.backward_input(%0#0, %0#1) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{'pipe.backward_weight' op expected 0 activation and 1 or 2 context as operands, found 1 and 0}}
  pipe.backward_weight(%0#0) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>) -> ()
} leave {}

// -----

// What each yields.

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected at most one tensor and one token as results, found 2 and 0}}
  %0:4 = pipe.forward stage 0 microbatch 0 cost 1
      : () -> (!pipe.tensor<8>, !pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected at most one tensor and one token as results, found 0 and 2}}
  %0:4 = pipe.forward stage 0 microbatch 0 cost 1
      : () -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token, !pipe.token)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected 1 activation and 1 context as results, found 1 and 0}}
  %0 = pipe.forward stage 0 microbatch 0 cost 1 : () -> !pipe.activation<4>
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{'pipe.backward_weight' op expected 0 activation and 0 context as results, found 0 and 1}}
  %1 = pipe.backward_weight(%0#1) stage 0 microbatch 0 cost 1 : (!pipe.context<2>) -> !pipe.context<2>
} leave {}

// -----

// Whose activation, context and tensor.

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-note @below {{kept here}}
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{takes what another stage's or microbatch's forward keeps}}
  pipe.backward(%0#0, %0#1) stage 0 microbatch 1 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-note @below {{kept here}}
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{takes what another stage's or microbatch's forward keeps}}
  pipe.backward(%0#0, %0#1) stage 2 microbatch 0 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{takes what another pass takes too}}
  pipe.backward_input(%0#0) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>) -> ()
  pipe.backward_input(%0#0) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>) -> ()
} leave {}

// -----

pipe.pipeline @p problem <placement = [0, 0, 0], microbatches = 1> {
  pipe.block interval 8 {
    // expected-note @below {{it comes from here}}
    %0:3 = pipe.forward stage 0 at 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    // expected-error @below {{expected its tensor to be that of stage 1 in the same direction and microbatch}}
    %1:2 = pipe.forward(%0#0) stage 2 at 1 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
  }
}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-note @below {{it comes from here}}
  %0 = pipe.recv F stage 1 microbatch 3 from 1 cost 0 latency 0 : () -> !pipe.tensor<8>
  // expected-error @below {{expected its tensor to be that of stage 0 in the same direction and microbatch}}
  %1:2 = pipe.forward(%0) stage 1 microbatch 0 cost 1 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  // expected-note @below {{it comes from here}}
  %1 = pipe.recv B stage 0 microbatch 1 from 1 cost 0 latency 0 : () -> !pipe.tensor<8>
  // expected-error @below {{expected its tensor to be that of stage 1 in the same direction and microbatch}}
  pipe.backward(%0#1, %0#2, %1) stage 0 microbatch 0 cost 1
      : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
} leave {}

// -----

%0:2 = "builtin.unrealized_conversion_cast"() : () -> (!pipe.activation<4>, !pipe.context<2>)
pipe.program @rank0 rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected its activation and context to come from a 'pipe.forward'}}
  pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>, !pipe.context<2>) -> ()
} leave {}

// -----

// What a pair holds is verified before the pair looks at it.
pipe.program @p rank 0 communicator per_edge enter {} step {
  %0:2 = "pipe.overlapped"() <{cost = 9223372036854775807 : i64}> ({
    %1:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<1>, !pipe.context<1>)
    // expected-error @below {{'pipe.backward' op requires attribute 'cost'}}
    "pipe.backward"() <{stage = 0 : i32, microbatch = 1 : i32}> : () -> ()
    pipe.yield %1#0, %1#1 : !pipe.activation<1>, !pipe.context<1>
  }) : () -> (!pipe.activation<1>, !pipe.context<1>)
} leave {}

// -----

// A B makes one context at most.
pipe.program @two rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-error @below {{'pipe.backward_input' op expected 0 activation and at most 1 context as results, found 0 and 2}}
  %1:2 = pipe.backward_input(%0#0) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>) -> (!pipe.context<1>, !pipe.context<1>)
} leave {}

// -----

// A whole backward takes none of a B's.
pipe.program @whole rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  %1:2 = pipe.forward stage 0 microbatch 1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  %2 = pipe.backward_input(%0#0) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>) -> !pipe.context<1>
  // expected-error @below {{'pipe.backward' op expected its activation and context to come from a 'pipe.forward'}}
  pipe.backward(%1#0, %2) stage 0 microbatch 1 cost 1 : (!pipe.activation<4>, !pipe.context<1>) -> ()
} leave {}

// -----

// Nor a W that of another microbatch.
pipe.program @other rank 0 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  %1:2 = pipe.forward stage 0 microbatch 1 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
  // expected-note @below {{kept here}}
  %2 = pipe.backward_input(%0#0) stage 0 microbatch 0 cost 1 : (!pipe.activation<4>) -> !pipe.context<1>
  // expected-error @below {{'pipe.backward_weight' op takes what another stage's or microbatch's forward keeps}}
  pipe.backward_weight(%1#1, %2) stage 0 microbatch 1 cost 1 : (!pipe.context<2>, !pipe.context<1>) -> ()
} leave {}

// -----

// An F that keeps an input keeps nothing else.
pipe.program @both rank 0 communicator per_edge enter {} step {
  // expected-error @below {{'pipe.forward' op expected 0 activation and 0 context as results, found 1 and 0}}
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.input<2>)
} leave {}

// -----

pipe.program @twice rank 0 communicator per_edge enter {} step {
  // expected-error @below {{'pipe.forward' op expected 1 input as result, found 2}}
  %0:2 = pipe.forward stage 0 microbatch 0 cost 1 : () -> (!pipe.input<4>, !pipe.input<2>)
} leave {}

// -----

pipe.program @none rank 0 communicator per_edge enter {} step {
  // expected-error @below {{'pipe.recompute' op expected 1 input as operand, found 0}}
  %0:2 = pipe.recompute stage 0 microbatch 0 cost 1 : () -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

// Only R takes an input, and of its own stage and microbatch.
pipe.program @straight rank 0 communicator per_edge enter {} step {
  %0 = pipe.forward stage 0 microbatch 0 cost 1 : () -> !pipe.input<4>
  // expected-error @below {{'pipe.backward' op expected 1 activation and 1 context as operands, found 0 and 0}}
  pipe.backward(%0) stage 0 microbatch 0 cost 1 : (!pipe.input<4>) -> ()
} leave {}

// -----

pipe.program @other rank 0 communicator per_edge enter {} step {
  // expected-note @below {{kept here}}
  %0 = pipe.forward stage 0 microbatch 0 cost 1 : () -> !pipe.input<4>
  // expected-error @below {{'pipe.recompute' op takes what another stage's or microbatch's forward keeps}}
  %1:2 = pipe.recompute(%0) stage 0 microbatch 1 cost 1 : (!pipe.input<4>) -> (!pipe.activation<4>, !pipe.context<2>)
} leave {}

// -----

pipe.program @negative rank 0 communicator per_edge enter {} step {
  // expected-error @below {{expected a size between 0 and 1152921504606846976 bytes, found -4}}
  %0 = pipe.forward stage 0 microbatch 0 cost 1 : () -> !pipe.input<-4>
} leave {}
