// What an order may not be.
// RUN: pipe-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{expected a letter F, B, W or BW and a stage, found 'X0'}}
module attributes {order = #pipe.order<F0 X0>} {}

// -----

// expected-error @below {{expected a letter F, B, W or BW and a stage, found 'BWF1'}}
module attributes {order = #pipe.order<F0 BWF1>} {}

// -----

// expected-error @below {{expected a letter F, B, W or BW and a stage, found 'F'}}
module attributes {order = #pipe.order<F -1>} {}

// -----

// expected-error @below {{expected a letter F, B, W or BW and a stage, found 'F99999999999'}}
module attributes {order = #pipe.order<F99999999999>} {}

// -----

// expected-error @below {{expected a pass such as F0, a pair such as (F0 BW1), 'send', 'recv', 'wait' or '>'}}
module attributes {order = #pipe.order<F0, BW0>} {}

// -----

// expected-error @below {{expected a pass such as F0, a pair such as (F0 BW1), 'send', 'recv', 'wait' or '>'}}
module attributes {order = #pipe.order<F0 0>} {}

// -----

// expected-error @below {{expected '<'}}
module attributes {order = #pipe.order} {}

// -----

// A pair is two passes and no more; nothing stands between the two.

// expected-error @below {{expected a letter F, B, W or BW and a stage}}
module attributes {order = #pipe.order<(F0)>} {}

// -----

// expected-error @below {{expected a letter F, B, W or BW and a stage, found 'send'}}
module attributes {order = #pipe.order<(F0 send(F0, 1) BW0)>} {}

// -----

// expected-error @below {{expected ')'}}
module attributes {order = #pipe.order<(F0 BW0 F0)>} {}

// -----

// expected-error @below {{expected a forward and a backward as a pair, found B0 and F0}}
module attributes {order = #pipe.order<(B0 F0)>} {}

// -----

// expected-error @below {{expected a forward and a backward as a pair, found F0 and W1}}
module attributes {order = #pipe.order<(F0 W1)>} {}

// -----

// Transfers are of an activation (F) or a gradient (B), and of a microbatch.

// expected-error @below {{expected a letter F, B, W or BW and a stage}}
module attributes {order = #pipe.order<send(3, 1)>} {}

// -----

// expected-error @below {{expected ','}}
module attributes {order = #pipe.order<send(F0)>} {}

// -----

// expected-error @below {{expected a transfer of what F or B gives, found 'BW0'}}
module attributes {order = #pipe.order<recv(BW0, 1)>} {}

// -----

// expected-error @below {{expected microbatches between 0 and 1048575 in an order, found wait(F0, -1)}}
module attributes {order = #pipe.order<wait(F0, -1)>} {}

// -----

// expected-error @below {{expected microbatches between 0 and 1048575 in an order, found wait(F0, 1048576)}}
module attributes {order = #pipe.order<wait(F0, 1048576)>} {}

// -----

// expected-error @below {{expected stages between 0 and 1048575 in an order, found F1048576}}
module attributes {order = #pipe.order<F1048576>} {}
