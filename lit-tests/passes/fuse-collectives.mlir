// Collectives that are all start are joined, those that are all bytes are not.
// RUN: pipe-opt %s -split-input-file --pipe-build-schedule --pipe-fuse-collectives | FileCheck %s
// RUN: pipe-opt %s -split-input-file --pipe-build-schedule --pipe-decouple-all-reduce --pipe-fuse-collectives | FileCheck %s --check-prefix=HALVES

// Four starts of 50 would take longer than the backward; one or two do not.
// CHECK-LABEL: pipe.program @rank0
// CHECK: pipe.all_reduce gradients({{.*}}) replicas 2 stage 0 layers [[FIRST:[0-9]]] to 4 bytes {{.*}} to 32 cost 50
// CHECK-NOT: layers 1 to 2
// CHECK: leave
// HALVES-LABEL: pipe.program @rank0
// HALVES: pipe.reduce_scatter gradients({{.*}}) replicas 2 stage 0 layers {{[0-2]}} to 4 bytes {{.*}} to 32 cost 25
// HALVES: pipe.all_gather weights({{.*}}) replicas 2 stage 0 layers {{[0-2]}} to 4 bytes {{.*}} to 32 cost 25
// HALVES: leave
pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 1>
    replicas <degree = 2, all_reduce = <start = 50>, reduce_scatter = <start = 25>, all_gather = <start = 25>,
              layers = [[#pipe.layer<forward = 5, backward = 10, gradients = [8], weights = 8>,
                         #pipe.layer<forward = 5, backward = 10, gradients = [8], weights = 8>,
                         #pipe.layer<forward = 5, backward = 10, gradients = [8], weights = 8>,
                         #pipe.layer<forward = 5, backward = 10, gradients = [8], weights = 8>]]> {
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 20 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 40 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}

// -----

// No start: each layer's goes as soon as it can.
// CHECK-LABEL: pipe.program @rank0
// CHECK: pipe.all_reduce gradients({{.*}}) replicas 2 stage 0 layers 1 to 2 bytes 8 to 16 cost 8
// CHECK: pipe.all_reduce gradients({{.*}}) replicas 2 stage 0 layers 0 to 1 bytes 0 to 8 cost 8
// HALVES-LABEL: pipe.program @rank0
// HALVES: leave
pipe.pipeline @"1f1b" problem <placement = [0], microbatches = 1>
    replicas <degree = 2, all_reduce = <bandwidth = 1000000000000>, reduce_scatter = <bandwidth = 2000000000000>,
              all_gather = <bandwidth = 2000000000000>,
              layers = [[#pipe.layer<forward = 10, backward = 20, gradients = [8], weights = 8>,
                         #pipe.layer<forward = 10, backward = 20, gradients = [8], weights = 8>]]> {
  pipe.block {
    %0:2 = pipe.forward stage 0 cost 20 : () -> (!pipe.activation<4>, !pipe.context<2>)
    pipe.backward(%0#0, %0#1) stage 0 cost 40 : (!pipe.activation<4>, !pipe.context<2>) -> ()
  }
}
