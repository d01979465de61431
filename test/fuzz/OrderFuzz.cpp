// An order file from a stranger, in either format: refused with a place inside it, or an order that runs to its end or
// stops in a cycle of its own cells under every queue model; what ends where more shares a queue ends where less does.
// Of what a spec takes, words that keep every rule but that of cycles.
#include "compiler/torch/OrderCsv.h"
#include "compiler/torch/OrderProof.h"
#include "test/fuzz/Mutate.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

using namespace pipec;
using namespace pipec::schedule;

namespace {

void require(bool right) {
  if (!right)
    std::abort();
}

/// A place inside the file, where a line has been named.
void checkPlace(std::string_view text, int line, int column) {
  const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
  require(line >= 1 && line <= lines && column >= 1 && size_t(column) <= text.size() + 1);
}

void checkWords(std::string_view text) {
  Order order;
  OrderError error;
  if (!readOrder(text, order, error)) {
    require(!error.message.empty());
    return checkPlace(text, error.line, error.column);
  }
  Problem problem;
  problem.ranks = int32_t(order.words.size());
  problem.microbatches = order.microbatches;
  problem.backward = order.backward;
  problem.rankOf = order.rankOf;
  problem.stages.resize(order.rankOf.size());
  std::string wrong = verify(problem, order.words);
  require(wrong.empty() || wrong.find("cycle") != std::string::npos);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  checkWords(text);
  OrderCells cells;
  OrderIndex index;
  OrderError error;
  if (!readCells(text, cells, error) || !checkCells(cells, index, error)) {
    require(!error.message.empty());
    checkPlace(text, error.line, error.column);
    return 0;
  }
  bool endsShared = false, endsMore = false; // under shared; under any but per_edge, which holds up least
  for (emit::Communicator communicator : {emit::Communicator::Shared, emit::Communicator::LaunchOrder,
                                          emit::Communicator::PerPair, emit::Communicator::PerEdge}) {
    emit::OrderStop stop;
    const bool ends = proveOrder(cells, index, communicator, stop);
    require(ends || (!endsShared && (!endsMore || communicator != emit::Communicator::PerEdge)));
    endsShared |= ends && communicator == emit::Communicator::Shared;
    endsMore |= ends;
    if (ends)
      continue;
    require(stop.error.readable && !stop.notes.empty());
    checkPlace(text, stop.error.line, stop.error.column);
    for (const emit::OrderNote &note : stop.notes)
      if (note.line != 0)
        checkPlace(text, note.line, note.column);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  static const std::vector<std::string> known = {"0F0",
                                                 "1I0",
                                                 "1W0",
                                                 "0B1",
                                                 ",",
                                                 "\r\n",
                                                 "(0F0;1B0)OVERLAP_F_B",
                                                 "F",
                                                 "W",
                                                 "0SEND_F0",
                                                 "1RECV_F0",
                                                 "1SEND_B0",
                                                 "0RECV_B0",
                                                 "0UNSHARD",
                                                 "0RESHARD",
                                                 "0REDUCE_GRAD",
                                                 "0WAIT_REDUCE_GRAD",
                                                 "0WAIT_SEND_F0",
                                                 "1WAIT_SEND_B0"};
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
