// An order file from a stranger: refused with a place inside it, or words that keep every rule but that of cycles.
#include "compiler/schedule/OrderCsv.h"
#include "test/fuzz/Mutate.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

using namespace pipec::schedule;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Order order;
  OrderError error;
  std::string_view text(reinterpret_cast<const char *>(data), size);
  if (!readOrder(text, order, error)) {
    if (error.line < 1 || error.column < 1 || error.message.empty())
      std::abort();
    return 0;
  }
  Problem problem;
  problem.ranks = int32_t(order.words.size());
  problem.microbatches = order.microbatches;
  problem.backward = order.backward;
  problem.rankOf = order.rankOf;
  problem.stages.resize(order.rankOf.size());
  std::string wrong = verify(problem, order.words);
  if (!wrong.empty() && wrong.find("cycle") == std::string::npos)
    std::abort();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  static const std::vector<std::string> known = {"0F0", "1I0", "1W0", "0B1", ",", "\r\n", "(0F0;1B0)OVERLAP_F_B",
                                                 "F",   "W"};
  pipec::fuzz::Random random(seed);
  if (random.oneIn(3))
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text = pipec::fuzz::textOf(data, size);
  for (size_t changes = 1 + random.below(3); changes > 0; --changes)
    if (random.oneIn(2))
      pipec::fuzz::changeParts(text, random.oneIn(3) ? '\n' : ',', random);
    else
      pipec::fuzz::changeWord(text, known, random);
  return pipec::fuzz::give(text, data, maxSize);
}
