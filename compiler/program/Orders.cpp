#include "compiler/program/Orders.h"

namespace pipec {

using namespace pipe;

static schedule::Letter letterOf(Letter letter) {
  switch (letter) {
  case Letter::F:
    return schedule::Letter::F;
  case Letter::B:
    return schedule::Letter::B;
  case Letter::W:
    return schedule::Letter::W;
  case Letter::BW:
    return schedule::Letter::BW;
  }
  llvm_unreachable("no such letter");
}

static Letter letterOf(schedule::Letter letter) {
  switch (letter) {
  case schedule::Letter::F:
    return Letter::F;
  case schedule::Letter::B:
    return Letter::B;
  case schedule::Letter::W:
    return Letter::W;
  case schedule::Letter::BW:
    return Letter::BW;
  }
  llvm_unreachable("no such letter");
}

schedule::Word wordOf(OrderAttr order) {
  schedule::Word word;
  for (const Action &action : order.getActions())
    if (action.what == Action::What::Pass)
      word.push_back({action.stage, letterOf(action.letter), action.overlapped});
  return word;
}

std::vector<Action> actionsOf(const schedule::Word &word) {
  std::vector<Action> actions;
  actions.reserve(word.size());
  for (const schedule::Op &op : word)
    actions.push_back({.letter = letterOf(op.letter), .overlapped = op.overlapped, .stage = op.stage});
  return actions;
}

} // namespace pipec
