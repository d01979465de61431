// Cells are split at commas, which no action has; a cell may stand in quotes, as spreadsheets write it. A row is a
// line, whether it ends in \n or \r\n.
#include "compiler/torch/OrderCells.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <iterator>
#include <optional>

namespace pipec::schedule {

namespace {

static_assert([] {
  for (size_t i = 0; i != kActionTable.size(); ++i)
    if (kActionTable[i].action != Action(i))
      return false;
  return true;
}());

constexpr std::string_view kPair = "OVERLAP_F_B";

bool isOfStage(Action action) { return action >= Action::Unshard; }

struct Place {
  int line = 0, column = 0;
  Cell cell;
};

class Reader {
public:
  Reader(std::string_view text, OrderCells &cells, OrderError &error) : text(text), cells(cells), error(error) {}

  bool run() { return split() && settleFormat() && settleRelease(); }

private:
  bool fail(int line, int column, std::string message) {
    error = {line, column, std::move(message)};
    return false;
  }

  static std::string shown(std::string_view cell) {
    std::string made;
    for (char c : cell.substr(0, 40))
      made += c >= ' ' && c < 127 ? c : '?';
    return "'" + made + "'";
  }

  bool split() {
    int line = 0;
    if (text.starts_with("\xEF\xBB\xBF"))
      return fail(1, 1, "the file begins with a byte order mark, expected the first action: save it without one");
    for (size_t at = 0; at < text.size();) {
      ++line;
      size_t end = std::min(text.find('\n', at), text.size());
      std::string_view row = text.substr(at, end - at);
      at = end + 1;
      if (!row.empty() && row.back() == '\r')
        row.remove_suffix(1);
      if (cells.rows.size() == size_t(limits::kRanks))
        return fail(line, 1, fmt::format("expected at most {} ranks, a row each", limits::kRanks));
      cells.rows.emplace_back();
      if (!splitRow(row, line))
        return false;
      if (cells.rows.back().empty())
        return fail(line, 1, fmt::format("rank {} has no action in its row", cells.rows.size() - 1));
    }
    return cells.rows.empty() ? fail(1, 1, "the order is empty, expected a row for each rank") : true;
  }

  bool splitRow(std::string_view row, int line) {
    for (size_t at = 0; at <= row.size();) {
      size_t end = std::min(row.find(',', at), row.size());
      std::string_view cell = row.substr(at, end - at);
      int column = int(at) + 1;
      at = end + 1;
      if (cell.starts_with('"') && !unquote(cell, line, column))
        return false;
      trim(cell, column);
      if (cell.empty()) {
        if (!empty)
          empty = {line, column, {}};
        continue;
      }
      if (count >= kOrderCells)
        return fail(line, column, fmt::format("expected at most {} cells", kOrderCells));
      if (cell.front() == '(' ? !parsePair(cell, line, column) : !parseOne(cell, line, column))
        return false;
    }
    return true;
  }

  /// A quote counts where the cell begins with it, as for Python's csv, with which PyTorch reads.
  bool unquote(std::string_view &cell, int line, int &column) {
    if (cell.size() < 2 || !cell.ends_with('"'))
      return fail(line, column, fmt::format("expected a closing quote at the end of the cell, found {}", shown(cell)));
    cell = cell.substr(1, cell.size() - 2);
    ++column;
    return true;
  }

  static void trim(std::string_view &cell, int &column) {
    auto blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!cell.empty() && blank(cell.front())) {
      cell.remove_prefix(1);
      ++column;
    }
    while (!cell.empty() && blank(cell.back()))
      cell.remove_suffix(1);
  }

  bool parseOne(std::string_view text, int line, int column) {
    Cell cell;
    if (!parse(text, line, column, cell))
      return false;
    add(cell, line);
    return true;
  }

  bool parse(std::string_view text, int line, int column, Cell &cell) {
    cell.column = column;
    const char *at = text.data(), *end = at + text.size();
    bool right = number(at, end, cell.stage) && kind(at, end, cell.action);
    if (right && !isOfStage(cell.action))
      right = number(at, end, cell.microbatch);
    if (!right || at != end)
      return fail(line, column, unknown(text));
    if (cell.stage >= limits::kStages || cell.microbatch >= limits::kMicrobatches)
      return fail(line, column,
                  fmt::format("{} is beyond {} stages or {} microbatches", shown(text), limits::kStages,
                              limits::kMicrobatches));
    return true;
  }

  static bool number(const char *&at, const char *end, int32_t &value) {
    auto [next, wrong] = std::from_chars(at, end, value);
    bool right = wrong == std::errc() && *at != '-' && (next - at == 1 || *at != '0');
    at = next;
    return right;
  }

  /// The longest run of capitals and underscores.
  static bool kind(const char *&at, const char *end, Action &action) {
    const char *stop = std::find_if(at, end, [](char c) { return (c < 'A' || c > 'Z') && c != '_'; });
    const std::string_view spelled(at, size_t(stop - at));
    auto known = std::find_if(kActionTable.begin(), kActionTable.end(),
                              [&](const ActionRow &row) { return row.spelling == spelled; });
    at = stop;
    if (known == kActionTable.end())
      return false;
    action = known->action;
    return true;
  }

  static std::string unknown(std::string_view cell) {
    size_t letters = std::min(cell.find_first_not_of("0123456789"), cell.size());
    if (letters != 0 && cell.substr(letters).starts_with("BW"))
      return fmt::format("{} is spelled as before release 2.8, expected B for a whole backward", shown(cell));
    return fmt::format(
        "expected an action such as 2F0, 2SEND_F0 or 2UNSHARD (a stage, what it does, a microbatch where "
        "it is of one), found {}",
        shown(cell));
  }

  bool parsePair(std::string_view text, int line, int column) {
    size_t close = text.find(')'), semicolon = text.find(';');
    if (close == std::string_view::npos || text.substr(close + 1) != kPair || semicolon > close)
      return fail(line, column, fmt::format("expected a pair such as (0F7;7B3){}, found {}", kPair, shown(text)));
    Cell first, second;
    std::string_view left = text.substr(1, semicolon - 1), right = text.substr(semicolon + 1, close - semicolon - 1);
    int leftColumn = column + 1, rightColumn = column + int(semicolon) + 1;
    trim(left, leftColumn);
    trim(right, rightColumn);
    if (!parse(left, line, leftColumn, first) || !parse(right, line, rightColumn, second))
      return false;
    if (first.action != Action::F || (second.action != Action::B && second.action != Action::I))
      return fail(
          line, column,
          fmt::format("{}: a pair is of a forward and a backward, in this order: (0F7;7B3){}", shown(text), kPair));
    first.opensPair = true;
    cells.pairs = true;
    add(first, line);
    add(second, line);
    return true;
  }

  void add(const Cell &cell, int line) {
    cells.rows.back().push_back(cell);
    ++count;
    if (auto &place = first[size_t(cell.action)]; !place)
      place = {line, cell.column, cell};
  }

  // ===--------------------------------------------------------------------===// Which format and which spelling it is
  // ===--------------------------------------------------------------------===//

  /// A file with passes alone is compute_only. Only of such a file does PyTorch fill in the rest, so only it may have
  /// idle cells.
  bool settleFormat() {
    const Place *comms = nullptr;
    for (const auto &place : first)
      if (place && !isPass(place->cell.action) && (!comms || before(*place, *comms)))
        comms = &*place;
    if (!comms)
      return true;
    cells.format = OrderFormat::ComputeComms;
    if (empty)
      return fail(empty->line, empty->column,
                  fmt::format("an empty cell, which only compute_only may have; {} makes this file compute_comms",
                              refer(*comms)));
    return true;
  }

  bool settleRelease() {
    const Place *waitSend = earlier(Action::WaitSendF, Action::WaitSendB);
    const Place *send = earlier(Action::SendF, Action::SendB);
    const Place *reduce = earlier(Action::ReduceGrad, Action::ReduceGrad);
    const Place *waitReduce = earlier(Action::WaitReduceGrad, Action::WaitReduceGrad);
    const Place *wait = !waitSend || (waitReduce && before(*waitReduce, *waitSend)) ? waitReduce : waitSend;
    cells.release = wait ? TorchRelease::V2_15 : reduce ? TorchRelease::V2_10 : TorchRelease::V2_8;
    if (!wait)
      return true;
    auto mixed = [&](const Place &at, std::string_view has, std::string_view lacks) {
      return fail(at.line, at.column,
                  fmt::format("{}, but no {} in the file: spellings are mixed, {} is that of release 2.15, where each "
                              "{} has its {}",
                              nameOf(at.cell), lacks, refer(*wait), has, lacks));
    };
    if (send && !waitSend)
      return mixed(*send, "SEND", "WAIT_SEND");
    if (reduce && !waitReduce)
      return mixed(*reduce, "REDUCE_GRAD", "WAIT_REDUCE_GRAD");
    if (!reduce)
      return mixed(*wait, "stage", "REDUCE_GRAD");
    return true;
  }

  const Place *earlier(Action a, Action b) const {
    const auto &one = first[size_t(a)], &other = first[size_t(b)];
    if (one && other)
      return before(*one, *other) ? &*one : &*other;
    return one ? &*one : other ? &*other : nullptr;
  }

  static bool before(const Place &a, const Place &b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  }

  static std::string refer(const Place &place) {
    return fmt::format("{} ({}:{})", nameOf(place.cell), place.line, place.column);
  }

  std::string_view text;
  OrderCells &cells;
  OrderError &error;
  std::array<std::optional<Place>, kActions> first; // of each action
  std::optional<Place> empty;                       // the first cell without an action
  int64_t count = 0;
};

} // namespace

std::string_view spelling(Action action) { return rowOf(action).spelling; }

void appendName(std::string &text, const Cell &cell) {
  char name[48]; // two numbers of at most 11 characters, and the longest spelling
  char *end = std::to_chars(name, std::end(name), cell.stage).ptr;
  const std::string_view action = spelling(cell.action);
  end = std::copy(action.begin(), action.end(), end);
  if (cell.microbatch >= 0)
    end = std::to_chars(end, std::end(name), cell.microbatch).ptr;
  text.append(name, end);
}

std::string nameOf(const Cell &cell) {
  std::string name;
  appendName(name, cell);
  return name;
}

std::string_view nameOf(TorchRelease release) {
  constexpr std::string_view kNames[] = {"2.8", "2.10", "2.15"};
  return kNames[size_t(release)];
}

bool readCells(std::string_view text, OrderCells &cells, OrderError &error) {
  cells = {};
  return Reader(text, cells, error).run();
}

} // namespace pipec::schedule
