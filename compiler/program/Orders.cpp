#include "compiler/program/Orders.h"

#include "llvm/ADT/STLExtras.h"

namespace pipec {

using namespace pipe;

static constexpr std::pair<schedule::Letter, plan::Kind> kLetters[] = {
    {schedule::Letter::F, plan::Kind::Forward},
    {schedule::Letter::B, plan::Kind::BackwardInput},
    {schedule::Letter::W, plan::Kind::BackwardWeight},
    {schedule::Letter::BW, plan::Kind::Backward},
};

schedule::Letter letterOf(plan::Kind kind) {
  return llvm::find_if(kLetters, [kind](const auto &each) { return each.second == kind; })->first;
}

plan::Kind kindOf(schedule::Letter letter) {
  return llvm::find_if(kLetters, [letter](const auto &each) { return each.first == letter; })->second;
}

schedule::Word wordOf(OrderAttr order) {
  schedule::Word word;
  for (const Action &action : order.getActions())
    if (plan::isCompute(action.kind))
      word.push_back({action.stage, letterOf(action.kind), action.overlapped});
  return word;
}

std::vector<Action> actionsOf(const schedule::Word &word) {
  std::vector<Action> actions;
  actions.reserve(word.size());
  for (const schedule::Op &op : word)
    actions.push_back({.kind = kindOf(op.letter), .overlapped = op.overlapped, .stage = op.stage});
  return actions;
}

} // namespace pipec
