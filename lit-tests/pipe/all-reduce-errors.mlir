// What an all-reduce may not be.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{'pipe.all_reduce' op expected to stand in a 'pipe.program'}}
%0 = pipe.all_reduce bytes 8 cost 1 : !pipe.token

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected a peer between 0 and 65535, found 65536}}
  %0 = pipe.all_reduce with 65536 bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected a peer between 0 and 65535, found -1}}
  %0 = pipe.all_reduce with -1 bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected another rank as its peer, found its own}}
  %0 = pipe.all_reduce with 1 bytes 8 cost 1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected a cost between 0 and 1000000000000000000 ps, found -1}}
  %0 = pipe.all_reduce bytes 8 cost -1 : !pipe.token
} leave {}

// -----

pipe.program @p rank 1 communicator per_edge enter {} step {
  // expected-error @below {{expected 'bytes' between 0 and 1152921504606846976 bytes, found -1}}
  %0 = pipe.all_reduce bytes -1 cost 1 : !pipe.token
} leave {}
