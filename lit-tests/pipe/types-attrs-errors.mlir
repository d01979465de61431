// Types and attributes that are out of range, or cannot be read.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{expected a size between 0 and 1152921504606846976 bytes, found -1}}
module attributes {a = !pipe.tensor<-1>} {}

// -----

// expected-error @below {{expected a size between 0 and 1152921504606846976 bytes, found 1152921504606846977}}
module attributes {a = !pipe.activation<1152921504606846977>} {}

// -----

// expected-error @below {{expected a size between 0 and 1152921504606846976 bytes, found -4}}
module attributes {a = !pipe.context<-4>} {}

// -----

// expected-error @below {{integer value too large}}
// expected-error @below {{failed to parse Pipe_Buffer parameter 'bytes' which is to be a `int64_t`}}
module attributes {a = !pipe.tensor<18446744073709551617>} {}

// -----

// The parser wraps; it stays out of range.
// expected-error @below {{expected a size between 0 and 1152921504606846976 bytes, found -9223372036854775808}}
module attributes {a = !pipe.tensor<9223372036854775808>} {}

// -----

// expected-error @below {{unknown  type `buffer` in dialect `pipe`}}
module attributes {a = !pipe.buffer<1>} {}

// -----

// expected-error @below {{expected ranks between 0 and 65535 (or no ranks for the default), found 0 to 65536}}
module attributes {a = #pipe.link<0 to 65536 latency 0 bandwidth 0>} {}

// -----

// expected-error @below {{expected ranks between 0 and 65535 (or no ranks for the default), found -1 to 1}}
module attributes {a = #pipe.link<-1 to 1 latency 0 bandwidth 0>} {}

// -----

// expected-error @below {{expected two ranks, found 3 to itself}}
module attributes {a = #pipe.link<3 to 3 latency 0 bandwidth 0>} {}

// -----

// expected-error @below {{expected a latency between 0 and 1000000000000000000 ps, found -1}}
module attributes {a = #pipe.link<0 to 1 latency -1 bandwidth 0>} {}

// -----

// expected-error @below {{expected a latency between 0 and 1000000000000000000 ps, found 1000000000000000001}}
module attributes {a = #pipe.link<0 to 1 latency 1000000000000000001 bandwidth 0>} {}

// -----

// expected-error @below {{expected a bandwidth of 0 (unlimited) or more bytes per second, found -1}}
module attributes {a = #pipe.link<0 to 1 latency 0 bandwidth -1>} {}

// -----

// expected-error @below {{expected a peer between 0 and 65535 and at least one slot, found peer 1 and 0 slots}}
module attributes {a = #pipe.ring<send 1 slots 0 bytes 0>} {}

// -----

// expected-error @below {{expected a peer between 0 and 65535 and at least one slot, found peer -1 and 1 slots}}
module attributes {a = #pipe.ring<recv -1 slots 1 bytes 0>} {}

// -----

// expected-error @below {{expected a peer between 0 and 65535 and at least one slot, found peer 65536 and 1 slots}}
module attributes {a = #pipe.ring<recv 65536 slots 1 bytes 0>} {}

// -----

// expected-error @below {{expected a size between 0 and 1152921504606846976 bytes, found -8}}
module attributes {a = #pipe.ring<recv 1 slots 1 bytes -8>} {}

// -----

// expected-error @below {{expected 'send' or 'recv', found 'both'}}
module attributes {a = #pipe.ring<both 1 slots 1 bytes 8>} {}

// -----

// expected-error @below {{expected 'slots'}}
module attributes {a = #pipe.ring<send 1 bytes 8>} {}

// -----

// expected-error @below {{expected string or keyword containing one of the following enum values for attribute 'communicator' [per_edge, per_pair, launch_order, shared]}}
pipe.program @rank0 rank 0 communicator none enter {} step {} leave {}

// -----

// expected-error @below {{expected 'to'}}
module attributes {a = #pipe.link<0 latency 3>} {}

// -----

// expected-error @below {{expected 'latency'}}
module attributes {a = #pipe.link<0 to 1 bandwidth 3>} {}

// -----

// expected-error @below {{expected two or more 'layers', ascending}}
#weight = #pipe.shared_weight<layers = [0], stages = [0], gradients = 8>

// -----

// expected-error @below {{expected one or more 'stages', ascending}}
#weight = #pipe.shared_weight<layers = [0, 1], stages = [1, 0], gradients = 8>

// -----

// expected-error @below {{expected 'gradients' between 1 and 1152921504606846976 bytes, found 0}}
#weight = #pipe.shared_weight<layers = [0, 1], stages = [0, 1], gradients = 0>
