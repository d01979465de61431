// The text of `#pipe.order`, as a person writes an order, and the rules that hold for one order by itself.
#include "dialects/pipe/Pipe.h"

#include "runtime/plan/Limits.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace pipec::pipe;

namespace plan = pipec::plan;

static constexpr auto kPasses = plan::kindsThat([](const plan::KindRow &row) { return plan::isOrdered(row.kind); });

/// "F, B, W or BW", for messages.
static std::string letters() {
  std::string all;
  for (size_t i = 0; i != kPasses.count; ++i)
    all += std::string(i == 0 ? "" : i + 1 == kPasses.count ? " or " : ", ") + plan::name(kPasses.list[i]);
  return all;
}

std::string pipec::pipe::text(const Action &action) {
  const std::string stage = std::to_string(action.stage);
  if (plan::isOrdered(action.kind))
    return plan::name(action.kind) + stage;
  return (action.waits ? "wait" : plan::name(action.kind)) +
         std::string(action.of == plan::Payload::Forward ? "(F" : "(B") + stage + ", " +
         std::to_string(action.microbatch) + ")";
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
class OrderParser {
public:
  explicit OrderParser(AsmParser &parser) : parser(parser) {}

  /// Parses what follows `<`, up to and including `>`.
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
    Action action;
    action.waits = word == "wait";
    action.kind = word == "recv" ? plan::Kind::Recv : plan::Kind::Send;
    if (word != "send" && word != "recv" && !action.waits) {
      if (understand(at, word, action))
        return failure();
    } else if (parser.parseLParen() || parseCarried(action) || parser.parseComma() ||
               parser.parseInteger(action.microbatch) || parser.parseRParen()) {
      return failure();
    }
    actions.push_back(action);
    return success();
  }

  /// Parses "F0" or "B0", which names what a transfer carries: a send carries what that pass gives, a receive what it
  /// takes.
  ParseResult parseCarried(Action &action) {
    const SMLoc at = parser.getCurrentLocation();
    Action pass;
    if (parsePass(pass))
      return failure();
    if (pass.kind != plan::Kind::Forward && pass.kind != plan::Kind::BackwardInput)
      return parser.emitError(at, "expected a transfer of what F or B gives, found '") << text(pass) << "'";
    action.of = plan::rowOf(pass.kind).gives;
    action.stage = pass.stage;
    return success();
  }

  /// Parses a pair after its `(`.
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
      return parser.emitError(at, "expected a letter ") << letters() << " and a stage";
    return understand(at, word, action);
  }

  ParseResult understand(SMLoc at, StringRef word, Action &action) {
    const size_t digits = std::min(word.find_first_of("0123456789"), word.size());
    const auto *kind =
        llvm::find_if(kPasses, [&](plan::Kind each) { return word.take_front(digits) == plan::name(each); });
    if (kind == kPasses.end() || word.drop_front(digits).getAsInteger(10, action.stage))
      return parser.emitError(at, "expected a letter ") << letters() << " and a stage, found '" << word << "'";
    action.kind = *kind;
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
  bool paired = false; // whether this entry is the backward of a pair
  for (auto [i, action] : llvm::enumerate(getActions())) {
    printer << (i == 0 ? "" : " ") << (action.overlapped ? "(" : "") << text(action) << (paired ? ")" : "");
    paired = action.overlapped;
  }
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

static LogicalResult verifyAction(llvm::function_ref<InFlightDiagnostic()> emitError, const Action &action) {
  if (action.stage < 0 || action.stage >= pipec::limits::kStages)
    return emitError() << "expected stages between 0 and " << pipec::limits::kStages - 1 << " in an order, found "
                       << text(action);
  if (!plan::isOrdered(action.kind) && (action.microbatch < 0 || action.microbatch >= pipec::limits::kMicrobatches))
    return emitError() << "expected microbatches between 0 and " << pipec::limits::kMicrobatches - 1
                       << " in an order, found " << text(action);
  return success();
}

/// A pair is a forward and, next to it, a backward that makes the gradient of the input.
static LogicalResult verifyPair(llvm::function_ref<InFlightDiagnostic()> emitError, const Action &forward,
                                const Action *backward) {
  if (forward.kind == plan::Kind::Forward && backward && plan::isOrdered(backward->kind) &&
      plan::does(backward->kind, plan::kInputGradient) && !backward->overlapped)
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
  return llvm::any_of(getActions(), [](const Action &action) { return !plan::isOrdered(action.kind); });
}
