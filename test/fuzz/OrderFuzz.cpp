// An order file from a stranger: refused with a place inside it, or words that keep every rule but that of cycles.
#include "compiler/schedule/OrderCsv.h"

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
