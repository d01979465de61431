#include "compiler/emit/TorchCsv.h"

#include "runtime/simulate/Simulate.h"

#include <fmt/format.h>

#include <iterator>
#include <vector>

namespace pipec::emit {

std::string torchComputeCsv(const plan::Variant &variant) {
  // A device runs one pass at a time, so the walk meets a rank's in the order in which they start.
  std::vector<std::string> rows(variant.programs.size());
  simulate::Options options;
  options.observe = [&](const simulate::Event &event) {
    if (!plan::isCompute(event.operation->kind))
      return;
    constexpr char kLetters[] = {'F', 'I', 'W', 'B'}; // in the order of plan::Kind
    std::string &row = rows[size_t(event.rank)];
    fmt::format_to(std::back_inserter(row), "{}{}{}{}", row.empty() ? "" : ",", event.operation->stage,
                   kLetters[size_t(event.operation->kind)], event.microbatch);
  };
  simulate::Result result;
  (void)simulate::simulate(variant, options, result); // it ends: check-deadlock has seen to that
  std::string text;
  for (const std::string &row : rows)
    text += row + "\n";
  return text;
}

} // namespace pipec::emit
