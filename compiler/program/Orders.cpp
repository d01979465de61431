#include "compiler/program/Orders.h"

namespace pipec {

using namespace pipe;

schedule::Word wordOf(OrderAttr order) {
  schedule::Word word;
  for (const Action &action : order.getActions())
    if (plan::isOrdered(action.kind))
      word.push_back({action.stage, schedule::letterOf(action.kind), action.overlapped});
  return word;
}

std::vector<Action> actionsOf(const schedule::Word &word) {
  std::vector<Action> actions;
  actions.reserve(word.size());
  for (const schedule::Op &op : word)
    actions.push_back({.kind = schedule::kindOf(op.letter), .overlapped = op.overlapped, .stage = op.stage});
  return actions;
}

} // namespace pipec
