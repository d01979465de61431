// membarrier(2), which glibc does not wrap. A process registers once; a forked child does so when it is told to.
#include "runtime/device/host/Fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pipec::runtime {

static bool command(int which) { return syscall(SYS_membarrier, which, 0, 0) == 0; }

const bool fence::kExpedited = command(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

// A read-modify-write: thread sanitizers know no fences.
void fence::full() {
  static std::atomic<int> any{0};
  any.fetch_add(1, std::memory_order_seq_cst);
}

void Fences::heavy() const {
  fence::full();
  while (uneven && !command(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
    if (!command(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
      return;
}

} // namespace pipec::runtime
