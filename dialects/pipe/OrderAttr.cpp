// The text of `#pipe.order`, as a person writes an order, and what holds of one alone.
#include "dialects/pipe/Pipe.h"

#include "runtime/plan/Limits.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace pipec::pipe;

std::string pipec::pipe::text(const Action &action) {
  std::string pass = stringifyLetter(action.letter).str() + std::to_string(action.stage);
  StringRef what = action.what == Action::What::Send ? "send" : action.what == Action::What::Recv ? "recv" : "wait";
  return action.what == Action::What::Pass ? pass
                                           : what.str() + "(" + pass + ", " + std::to_string(action.microbatch) + ")";
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
class OrderParser {
public:
  explicit OrderParser(AsmParser &parser) : parser(parser) {}

  /// What stands between `<` and `>`, and the second.
  ParseResult parse() {
    while (failed(parser.parseOptionalGreater()))
      if (parseEntry())
        return failure();
    return success();
  }

  std::vector<Action> actions;

private:
  ParseResult parseEntry() {
    if (succeeded(parser.parseOptionalLParen()))
      return parsePair();
    const SMLoc at = parser.getCurrentLocation();
    StringRef word;
    if (failed(parser.parseOptionalKeyword(&word)))
      return parser.emitError(at, "expected a pass such as F0, a pair such as (F0 BW1), 'send', 'recv', 'wait' or '>'");
    const auto what = llvm::StringSwitch<Action::What>(word)
                          .Case("send", Action::What::Send)
                          .Case("recv", Action::What::Recv)
                          .Case("wait", Action::What::Wait)
                          .Default(Action::What::Pass);
    Action action;
    action.what = what;
    if (what == Action::What::Pass) {
      if (understand(at, word, action))
        return failure();
    } else if (parser.parseLParen() || parsePass(action) || parser.parseComma() ||
               parser.parseInteger(action.microbatch) || parser.parseRParen()) {
      return failure();
    }
    actions.push_back(action);
    return success();
  }

  /// Behind its `(`.
  ParseResult parsePair() {
    Action forward, backward;
    if (parsePass(forward) || parsePass(backward) || parser.parseRParen())
      return failure();
    forward.overlapped = true;
    actions.insert(actions.end(), {forward, backward});
    return success();
  }

  ParseResult parsePass(Action &action) {
    const SMLoc at = parser.getCurrentLocation();
    StringRef word;
    if (failed(parser.parseOptionalKeyword(&word)))
      return parser.emitError(at, "expected a letter F, B, W or BW and a stage");
    return understand(at, word, action);
  }

  ParseResult understand(SMLoc at, StringRef word, Action &action) {
    const size_t digits = word.find_first_of("0123456789");
    const std::optional<Letter> letter = symbolizeLetter(word.take_front(digits));
    if (!letter || digits == StringRef::npos || word.drop_front(digits).getAsInteger(10, action.stage))
      return parser.emitError(at, "expected a letter F, B, W or BW and a stage, found '") << word << "'";
    action.letter = *letter;
    return success();
  }

  AsmParser &parser;
};
} // namespace

Attribute OrderAttr::parse(AsmParser &parser, Type) {
  const SMLoc at = parser.getCurrentLocation();
  OrderParser order(parser);
  if (parser.parseLess() || order.parse())
    return {};
  return OrderAttr::getChecked([&] { return parser.emitError(at); }, parser.getContext(),
                               ArrayRef<Action>(order.actions));
}

void OrderAttr::print(AsmPrinter &printer) const {
  printer << "<";
  bool paired = false; // with the forward before
  for (auto [i, action] : llvm::enumerate(getActions())) {
    printer << (i == 0 ? "" : " ") << (action.overlapped ? "(" : "") << text(action) << (paired ? ")" : "");
    paired = action.overlapped;
  }
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// Transfers carry what a forward or a backward for the input gives, of a microbatch; passes have none.
static LogicalResult verifyAction(llvm::function_ref<InFlightDiagnostic()> emitError, const Action &action) {
  if (action.stage < 0 || action.stage >= pipec::limits::kStages)
    return emitError() << "expected stages between 0 and " << pipec::limits::kStages - 1 << " in an order, found "
                       << text(action);
  if (action.what == Action::What::Pass)
    return success();
  if (action.microbatch < 0 || action.microbatch >= pipec::limits::kMicrobatches)
    return emitError() << "expected microbatches between 0 and " << pipec::limits::kMicrobatches - 1
                       << " in an order, found " << text(action);
  if (action.letter != Letter::F && action.letter != Letter::B)
    return emitError() << "expected transfers of what F or B gives, found " << text(action);
  return success();
}

/// The two of a pair are a forward and, next to it, a backward.
static LogicalResult verifyPair(llvm::function_ref<InFlightDiagnostic()> emitError, const Action &forward,
                                const Action *backward) {
  auto isPass = [](const Action &action, std::initializer_list<Letter> letters) {
    return action.what == Action::What::Pass && llvm::is_contained(letters, action.letter);
  };
  if (isPass(forward, {Letter::F}) && backward && isPass(*backward, {Letter::B, Letter::BW}) && !backward->overlapped)
    return success();
  return emitError() << "expected a forward and a backward as a pair, found " << text(forward) << " and "
                     << (backward ? text(*backward) : "nothing");
}

LogicalResult OrderAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, ArrayRef<Action> actions) {
  for (size_t i = 0; i != actions.size(); ++i)
    if (failed(verifyAction(emitError, actions[i])) ||
        (actions[i].overlapped &&
         failed(verifyPair(emitError, actions[i], i + 1 == actions.size() ? nullptr : &actions[i + 1]))))
      return failure();
  return success();
}

bool OrderAttr::hasTransfers() const {
  return llvm::any_of(getActions(), [](const Action &action) { return action.what != Action::What::Pass; });
}
