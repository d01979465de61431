// What a synthetic stage does on a GPU, in CUDA C++ of its own: no header of the toolkit is needed to build it. Beside
// it stands what clang makes of it, kernels.ptx, which is what piperun carries (test/cuda says how it is made again).
// As plain C++ (test/standin) the same kernels run on the host, one thread at a time.
using u64 = unsigned long long;

#if defined(__CUDA__)
#define PIPEC_KERNEL extern "C" __attribute__((global)) void
#define PIPEC_DEVICE static __attribute__((device)) inline

PIPEC_DEVICE u64 now() {
  u64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}
PIPEC_DEVICE u64 thread() { return u64(__nvvm_read_ptx_sreg_ctaid_x()) * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x(); }
PIPEC_DEVICE u64 threads() { return u64(__nvvm_read_ptx_sreg_nctaid_x()) * __nvvm_read_ptx_sreg_ntid_x(); }
PIPEC_DEVICE void lower(u64 *place, u64 value) {
  asm volatile("red.relaxed.sys.global.min.u64 [%0], %1;" ::"l"(place), "l"(value) : "memory");
}
#else
#define PIPEC_KERNEL void
#define PIPEC_DEVICE static inline
PIPEC_DEVICE u64 thread() { return 0; }
PIPEC_DEVICE u64 threads() { return 1; }
PIPEC_DEVICE void lower(u64 *place, u64 value) { *place = value < *place ? value : *place; }
#endif

// The pattern of runtime/stage/synthetic/Pattern.h, by words of 8 bytes.
PIPEC_DEVICE u64 word(u64 seed, u64 index) { return seed + index * 0x9e3779b97f4a7c15; }

#if defined(__CUDA__)
/// Keeps one thread busy for `ns` nanoseconds. `times`, if not null: when it began and ended, by the GPU's clock.
PIPEC_KERNEL pipec_spin(u64 ns, u64 *times) {
  const u64 begin = now();
  u64 end = begin;
  while (end - begin < ns)
    end = now();
  if (times) {
    times[0] = begin;
    times[1] = end;
  }
}
#endif

PIPEC_KERNEL pipec_fill(u64 *data, u64 words, u64 seed) {
  for (u64 i = thread(); i < words; i += threads())
    data[i] = word(seed, i);
}

/// `firstWrong`, which the host sees, becomes the index of the first word that is not the pattern's, if that is lower
/// than what it is.
PIPEC_KERNEL pipec_check(const u64 *data, u64 words, u64 seed, u64 *firstWrong) {
  for (u64 i = thread(); i < words; i += threads())
    if (data[i] != word(seed, i)) {
      lower(firstWrong, i);
      return;
    }
}
