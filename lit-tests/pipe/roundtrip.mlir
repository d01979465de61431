// Both levels, as text, in the generic form, and through bytecode: what is printed reads back the same.
// RUN: pipe-opt %s --verify-roundtrip | FileCheck %s
// RUN: pipe-opt %s --mlir-print-op-generic | pipe-opt | FileCheck %s
// RUN: pipe-opt %s --emit-bytecode | pipe-opt | FileCheck %s
// RUN: pipe-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// A problem prints what is not as usual.
// CHECK-LABEL: pipe.pipeline @design problem <placement = [0, 1], microbatches = 4, communicator = per_pair,
// CHECK-SAME: {{^}} link = <latency 1000 bandwidth 12500000000>, links = [#pipe.link<0 to 1 latency 5>],
// CHECK-SAME: {{^}} optimizer = [7, 8], static_bytes = [100, 200], workspace = [1, 2], memory_limit = [1024, 2048]> {
// GENERIC: "pipe.pipeline"() <{
// GENERIC-SAME: problem = #pipe.problem<placement = [0, 1], microbatches = 4, communicator = per_pair,
pipe.pipeline @design problem <link = #pipe.link<latency 1000 bandwidth 12500000000>, slices = 1, copies = 1,
      placement = [0, 1], microbatches = 4, communicator = per_pair, weights = ordered,
      links = [#pipe.link<0 to 1 latency 5 bandwidth 0>], optimizer = [7, 8],
      static_bytes = [100, 200], workspace = [1, 2], memory_limit = [1024, 2048]> {
  // CHECK: pipe.block interval 3 {
  pipe.block interval 3 {
    // CHECK-NEXT: %[[F0:.*]]:3 = pipe.forward stage 0 at 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    // CHECK-NEXT: %[[F1:.*]]:2 = pipe.forward(%[[F0]]#0) stage 1 at 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    // CHECK-NEXT: %[[B1:.*]] = pipe.backward_input(%[[F1]]#0) stage 1 at 2 cost 11 : (!pipe.activation<4>) -> !pipe.tensor<8>
    // CHECK-NEXT: pipe.backward_weight(%[[F1]]#1) stage 1 at 3 cost 9 : (!pipe.context<2>) -> ()
    // CHECK-NEXT: pipe.backward_input(%[[F0]]#1, %[[B1]]) stage 0 at 4 cost 11 : (!pipe.activation<4>, !pipe.tensor<8>) -> ()
    // CHECK-NEXT: pipe.backward_weight(%[[F0]]#2) stage 0 at 5 cost 9 : (!pipe.context<2>) -> ()
    %0:3 = pipe.forward stage 0 at 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1:2 = pipe.forward(%0#0) stage 1 at 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %2 = pipe.backward_input(%1#0) stage 1 at 2 cost 11 : (!pipe.activation<4>) -> !pipe.tensor<8>
    pipe.backward_weight(%1#1) stage 1 at 3 cost 9 : (!pipe.context<2>) -> ()
    pipe.backward_input(%0#1, %2) stage 0 at 4 cost 11 : (!pipe.activation<4>, !pipe.tensor<8>) -> ()
    pipe.backward_weight(%0#2) stage 0 at 5 cost 9 : (!pipe.context<2>) -> ()
  }
}

// A solution: an order a rank, with a pair and with a rank's transfers and waits where they are given; of two copies of a
// stage, with slices.
// CHECK-LABEL: pipe.pipeline @orders problem <placement = [0, 1], microbatches = 2, copies = 2, slices = 2,
// CHECK-SAME: {{^}} communicator = shared, gradients = [5, 5], whole = [18, 19], overlapped = [-1, 20]> orders [
// CHECK-NEXT: {{^ *}}#pipe.order<F0 send(F0, 0) (F0 BW1) wait(F0, 0) send(F0, 1) recv(B0, 0) B0 W0>,
// CHECK-NEXT: {{^ *}}#pipe.order<>] {
// GENERIC: "pipe.pipeline"() <{
// GENERIC-SAME: orders = [#pipe.order<F0 send(F0, 0) (F0 BW1) wait(F0, 0) send(F0, 1) recv(B0, 0) B0 W0>, #pipe.order<>]
pipe.pipeline @orders problem <placement = [0, 1], microbatches = 2, communicator = shared, copies = 2, slices = 2,
      gradients = [5, 5], whole = [18, 19], overlapped = [-1, 20]>
    orders [
      #pipe.order<F0 send(F0, 0) (F0 BW1) wait(F0, 0)
                  send(F0, 1) recv(B0, 0) B0 W00>,
      #pipe.order<>] {
  pipe.block {}
}

// What else a problem may say, and a schedule's own parameters.
// CHECK-LABEL: pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 6, slices = 3, backward_group = 6,
// CHECK-SAME: {{^}} weights = fill, global_norm = 0> parameters {k = 2 : i64, list = array<i64: 1, 2>} {
pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 6, slices = 3, backward_group = 6, weights = fill,
      global_norm = 0> parameters {k = 2 : i64, list = array<i64: 1, 2>} {
  pipe.block {}
}

// CHECK-LABEL: pipe.program @rank0 rank 0 communicator per_edge
// CHECK-SAME: rings = [#pipe.ring<send 1 slots 1 bytes 8>, #pipe.ring<recv 1 slots 1 bytes 8>]
// CHECK-SAME: stages = array<i32: 0>
// GENERIC: "pipe.program"() <{communicator = 0 : i32,
// GENERIC-SAME: rings = [#pipe.ring<send 1 slots 1 bytes 8>
pipe.program @rank0 rank 0 communicator per_edge
    attributes {stages = array<i32: 0>, static_bytes = 100 : i64, workspace = 1 : i64, memory_limit = 1024 : i64,
                rings = [#pipe.ring<send 1 slots 1 bytes 8>, #pipe.ring<recv 1 slots 1 bytes 8>]}
  // CHECK-NEXT: } step {
  enter {} step {
  // CHECK-NEXT: %[[F:.*]]:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  // CHECK-NEXT: %[[SENT:.*]] = pipe.send(%[[F]]#0) F stage 0 microbatch 0 to 1 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
  // CHECK-NEXT: %[[GRAD:.*]] = pipe.recv B stage 0 microbatch 0 from 1 cost 3 latency 5 slot 0 : () -> !pipe.tensor<8>
  // CHECK-NEXT: %[[FREE:.*]] = pipe.backward(%[[F]]#1, %[[F]]#2, %[[GRAD]]) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
  // CHECK-NEXT: %[[F_1:.*]]:3 = pipe.forward(%[[SENT]]) stage 0 microbatch 1 cost 10 : (!pipe.token) -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
  // CHECK-NEXT: %{{.*}} = pipe.recv(%[[FREE]]) B stage 0 microbatch 1 from 1 cost 3 latency 5 slot 0 : (!pipe.token) -> !pipe.tensor<8>
  // CHECK-NEXT: pipe.optimizer_step stage 0 cost 7
  // CHECK-NEXT: } leave {
  // GENERIC: "pipe.send"(%{{.*}}#0) <{cost = 3 : i64, latency = 5 : i64, microbatch = 0 : i32, of = 1 : i32, peer = 1 : i32, slot = 0 : i32, stage = 0 : i32}> : (!pipe.tensor<8>) -> !pipe.token
    %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 3 latency 5 slot 0 : (!pipe.tensor<8>) -> !pipe.token
    %2 = pipe.recv B stage 0 microbatch 0 from 1 cost 3 latency 5 slot 0 : () -> !pipe.tensor<8>
    %3 = pipe.backward(%0#1, %0#2, %2) stage 0 microbatch 0 cost 20
        : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> !pipe.token
    %4:3 = pipe.forward(%1) stage 0 microbatch 1 cost 10
        : (!pipe.token) -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %5 = pipe.recv(%3) B stage 0 microbatch 1 from 1 cost 3 latency 5 slot 0 : (!pipe.token) -> !pipe.tensor<8>
    pipe.optimizer_step stage 0 cost 7
  } leave {}

// A forward and a backward that run together.
// CHECK-LABEL: pipe.program @pair rank 2
// CHECK: %[[PAIR:.*]]:2 = pipe.overlapped cost 25
// CHECK-NEXT: pipe.forward stage 0 microbatch 1 cost 10
// CHECK-NEXT: pipe.backward({{.*}}) stage 0 microbatch 0 cost 20
// CHECK-NEXT: pipe.yield
// CHECK: pipe.backward(%[[PAIR]]#0, %[[PAIR]]#1) stage 0 microbatch 1
// GENERIC: "pipe.overlapped"() <{cost = 25 : i64}> ({
pipe.program @pair rank 2 communicator per_edge enter {} step {
  %0:2 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
  %1:2 = pipe.overlapped cost 25 : !pipe.activation<4>, !pipe.context<2> {
    %2:2 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    pipe.yield %2#0, %2#1 : !pipe.activation<4>, !pipe.context<2>
  }
  pipe.backward(%1#0, %1#1) stage 0 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
} leave {}

// A stage on two ranks, then one on rank 0 alone.
// CHECK-LABEL: pipe.program @wide rank 0
// CHECK: %[[TOKEN:.*]]:3 = pipe.forward stage 0
// CHECK: pipe.reshard F stage 0 over [0, 1](%[[TOKEN]]#2 : !pipe.token) bytes 8 cost 3 : !pipe.token
// CHECK: pipe.reshard B stage 1 over [0, 1] bytes 8 cost 3 : !pipe.token
// CHECK: pipe.all_reduce gradients over [0, 1] stage 0 layers 0 to 2 bytes 0 to 16 cost 5 : !pipe.token
// GENERIC: "pipe.reshard"(%{{.*}}) <{bytes = 8 : i64, cost = 3 : i64, of = {{.*}}, ranks = array<i32: 0, 1>, stage = 0 : i32}>
pipe.program @wide rank 0 communicator per_edge enter {} step {
  %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
  %1 = pipe.reshard F stage 0 over [0, 1](%0#2 : !pipe.token) bytes 8 cost 3 : !pipe.token
  %2 = pipe.reshard B stage 1 over [0, 1] bytes 8 cost 3 : !pipe.token
  pipe.backward(%0#0, %0#1, %2) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.token) -> ()
  %3 = pipe.all_reduce gradients over [0, 1] stage 0 layers 0 to 2 bytes 0 to 16 cost 5 : !pipe.token
} leave {}

// A program of nothing, and the largest numbers that the limits allow.
// CHECK-LABEL: pipe.program @empty rank 65535 communicator shared enter {
pipe.program @empty rank 65535 communicator shared enter {} step {} leave {}
// CHECK-LABEL: pipe.program @large rank 1 communicator per_pair
// CHECK: pipe.forward stage 1048575 microbatch 1048575 cost 1000000000000000000 : () -> (!pipe.tensor<1152921504606846976>, !pipe.activation<0>, !pipe.context<0>)
pipe.program @large rank 1 communicator per_pair enter {} step {
  %0:3 = pipe.forward stage 1048575 microbatch 1048575 cost 1000000000000000000
      : () -> (!pipe.tensor<1152921504606846976>, !pipe.activation<0>, !pipe.context<0>)
} leave {}
