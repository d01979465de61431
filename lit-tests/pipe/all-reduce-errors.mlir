// What an all-reduce may not be.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{'pipe.all_reduce' op expected to stand in a 'pipe.program'}}
%0 = pipe.all_reduce norm bytes 8 cost 1 : !pipe.token

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected two or more ranks between 0 and 65535, ascending, found [1, 65536]}}
  %0 = pipe.all_reduce gradients over [1, 65536] bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected two or more ranks between 0 and 65535, ascending, found [2, 1]}}
  %0 = pipe.all_reduce gradients over [2, 1] bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected its own rank among its ranks}}
  %0 = pipe.all_reduce gradients over [0, 2] bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected a cost between 0 and 1000000000000000000 ps, found -1}}
  %0 = pipe.all_reduce norm bytes 8 cost -1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected 'bytes' between 0 and 1152921504606846976 bytes, found -1}}
  %0 = pipe.all_reduce norm bytes -1 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected the ranks that gradients are summed over}}
  %0 = pipe.all_reduce gradients bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected a norm over all ranks}}
  %0 = pipe.all_reduce norm over [0, 1] bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected an all-reduce over ranks, found another of a shared weight}}
  %0 = pipe.all_reduce shared stage 1 layers 0 to 1 bytes 0 to 8 cost 1 : !pipe.token
} leave {}
