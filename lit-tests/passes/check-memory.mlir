// Rank 0 holds two microbatches at once, 6 bytes each, three buffers of 8, workspace 3 and static 100: 139 bytes.
// RUN: sed 's/LIMIT/139/' %s | pipe-opt --pipe-check-memory -o /dev/null
// RUN: sed 's/LIMIT/138/' %s | not pipe-opt --pipe-check-memory --mlir-print-op-on-diagnostic=false 2>&1 | FileCheck %s
// Without a limit there is nothing to check.
// RUN: sed 's/memory_limit = LIMIT : i64, //' %s | pipe-opt --pipe-check-memory -o /dev/null
// A limit that static memory alone passes is said on the rank that is furthest over it.
// RUN: sed 's/LIMIT/1/' %s | not pipe-opt --pipe-check-memory --mlir-print-op-on-diagnostic=false 2>&1 | FileCheck %s --check-prefix=ONE
// CHECK: error: rank 0 needs 139 B, over the limit of 138 B; the least limit that would do is 139 B (139B)
// CHECK: note: the peak is reached at F stage 0 microbatch 1: 2 activations and 2 weight contexts live (12 B), static 100 B, workspace 3 B, transfer buffers 24 B
// CHECK-NOT: note: within
// ONE: error: rank 0 needs 139 B, over the limit of 1 B
pipe.program @rank0 rank 0 communicator per_edge
  attributes {memory_limit = LIMIT : i64, static_bytes = 100 : i64, workspace = 3 : i64, stages = array<i32: 0>,
              rings = [#pipe.ring<recv 1 slots 1 bytes 8>, #pipe.ring<send 1 slots 2 bytes 8>]} enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 1 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  %2:3 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  %3 = pipe.send(%2#0) F stage 0 microbatch 1 to 1 cost 1 latency 5 slot 1 : (!pipe.tensor<8>) -> !pipe.token
  %4 = pipe.recv B stage 0 microbatch 0 from 1 cost 1 latency 5 slot 0 : () -> !pipe.tensor<8>
  %5 = pipe.backward_input(%0#1, %4) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.tensor<8>) -> !pipe.token
  pipe.backward_weight(%0#2) stage 0 microbatch 0 cost 5 : (!pipe.context<2>) -> ()
  %6 = pipe.recv(%5) B stage 0 microbatch 1 from 1 cost 1 latency 5 slot 0 : (!pipe.token) -> !pipe.tensor<8>
  %7 = pipe.backward_input(%2#1, %6) stage 0 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.tensor<8>) -> !pipe.token
  pipe.backward_weight(%2#2) stage 0 microbatch 1 cost 5 : (!pipe.context<2>) -> ()
  pipe.optimizer_step stage 0 cost 0
} leave {}
pipe.program @rank1 rank 1 communicator per_edge
  attributes {memory_limit = LIMIT : i64, stages = array<i32: 1>,
              rings = [#pipe.ring<recv 0 slots 2 bytes 8>, #pipe.ring<send 0 slots 1 bytes 8>]} enter {} step {
  %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 1 latency 5 slot 0 : () -> !pipe.tensor<8>
  %1:3 = pipe.forward(%0) stage 1 microbatch 0 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %2 = pipe.backward_input(%1#0) stage 1 microbatch 0 cost 20 : (!pipe.activation<4>) -> !pipe.tensor<8>
  %3 = pipe.send(%2) B stage 1 microbatch 0 to 0 cost 1 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  pipe.backward_weight(%1#1) stage 1 microbatch 0 cost 5 : (!pipe.context<2>) -> ()
  %4 = pipe.recv F stage 1 microbatch 1 from 0 cost 1 latency 5 slot 1 : () -> !pipe.tensor<8>
  %5:3 = pipe.forward(%4) stage 1 microbatch 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %6 = pipe.backward_input(%5#0, %3) stage 1 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.token) -> !pipe.tensor<8>
  %7 = pipe.send(%6) B stage 1 microbatch 1 to 0 cost 1 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  pipe.backward_weight(%5#1) stage 1 microbatch 1 cost 5 : (!pipe.context<2>) -> ()
  pipe.optimizer_step stage 1 cost 0
} leave {}
