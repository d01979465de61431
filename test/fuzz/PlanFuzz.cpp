// A plan file from a stranger, its checksum made right so that the tables behind it are reached: refused, or else
// harmless to verify, simulate, disassemble and write again.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Write.h"
#include "runtime/simulate/Simulate.h"

#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace pipec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  constexpr size_t kChecksumAt = 12, kHeader = 16; // magic, versions, checksum
  if (file.size() > kHeader) {
    auto checksum = uint32_t(crc32(0, file.data() + kHeader, uInt(file.size() - kHeader)));
    std::memcpy(file.data() + kChecksumAt, &checksum, sizeof checksum);
  }
  plan::Plan plan;
  if (!plan::decode(file, plan).ok() || !plan::verify(plan).ok())
    return 0;
  for (const plan::Variant &variant : plan.variants) {
    simulate::Result result;
    (void)simulate::simulate(variant, {}, result);
  }
  (void)plan::disassemble(plan, {});
  plan::Plan again;
  if (!plan::decode(plan::encode(plan), again).ok() || !(again == plan))
    std::abort(); // what loads must be written and read back as it was
  return 0;
}
