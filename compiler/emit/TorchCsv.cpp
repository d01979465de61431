#include "compiler/emit/TorchCsv.h"

#include <fmt/format.h>

#include <iterator>

namespace pipec::emit {

std::string torchComputeCsv(const plan::Variant &variant) {
  std::string text;
  for (const plan::Program &program : variant.programs) {
    bool first = true;
    for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
      plan::Step step = cursor.at();
      if (!plan::isCompute(step.operation->kind))
        continue;
      constexpr char kLetters[] = {'F', 'I', 'W', 'B'}; // in the order of plan::Kind
      fmt::format_to(std::back_inserter(text), "{}{}{}{}", first ? "" : ",", step.operation->stage,
                     kLetters[size_t(step.operation->kind)], step.microbatch());
      first = false;
    }
    text += "\n";
  }
  return text;
}

} // namespace pipec::emit
