// Read strictly: what PyTorch's own reader lets through by accident (text after a cell, other letter cases) is refused,
// with its place. Cells are split at commas; the format has no quoting to undo.
#include "compiler/schedule/OrderCsv.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <map>

namespace pipec::schedule {

namespace {

struct Action {
  int32_t stage = 0, microbatch = 0;
  Letter letter = Letter::F;
  int line = 0, column = 0;
};

class Reader {
public:
  Reader(std::string_view text, Order &order, OrderError &error) : text(text), order(order), error(error) {}

  bool run() { return split() && checkStages() && checkKinds() && checkRows(); }

private:
  bool fail(int line, int column, std::string message) {
    error = {line, column, std::move(message)};
    return false;
  }
  bool fail(const Action &at, std::string message) { return fail(at.line, at.column, std::move(message)); }

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
      if (rows.size() == size_t(limits::kRanks))
        return fail(line, 1, fmt::format("expected at most {} ranks, a row each", limits::kRanks));
      rows.emplace_back();
      if (!splitRow(row, line))
        return false;
      if (rows.back().empty())
        return fail(line, 1, fmt::format("rank {} has no action in its row", rows.size() - 1));
    }
    return rows.empty() ? fail(1, 1, "the order is empty, expected a row for each rank") : true;
  }

  bool splitRow(std::string_view row, int line) {
    for (size_t at = 0; at <= row.size();) {
      size_t end = std::min(row.find(',', at), row.size());
      std::string_view cell = row.substr(at, end - at);
      int column = int(at) + 1;
      at = end + 1;
      while (!cell.empty() && cell.front() == ' ') {
        cell.remove_prefix(1);
        ++column;
      }
      while (!cell.empty() && cell.back() == ' ')
        cell.remove_suffix(1);
      if (cell.empty())
        continue;
      Action action{.line = line, .column = column};
      if (!parse(cell, action))
        return false;
      rows.back().push_back(action);
    }
    return true;
  }

  bool parse(std::string_view cell, Action &action) {
    if (cell.front() == '(')
      return fail(action, fmt::format("{}: overlapped pairs are not supported yet", shown(cell)));
    const char *at = cell.data(), *end = at + cell.size();
    auto number = [&](int32_t &value) {
      auto [next, wrong] = std::from_chars(at, end, value);
      bool leadingZero = next - at > 1 && *at == '0';
      bool right = wrong == std::errc() && value >= 0 && *at != '-' && !leadingZero;
      at = next;
      return right;
    };
    bool right = number(action.stage) && at != end;
    if (right) {
      constexpr std::string_view kLetters = "FIWB"; // in the order of Letter
      size_t letter = kLetters.find(*at++);
      right = letter != std::string_view::npos && number(action.microbatch) && at == end;
      action.letter = static_cast<Letter>(letter);
    }
    if (!right)
      return fail(action,
                  fmt::format("expected an action such as 2F0 (a stage, one of F, B, I, W, a microbatch), found {}",
                              shown(cell)));
    if (action.stage >= limits::kStages || action.microbatch >= limits::kMicrobatches)
      return fail(action, fmt::format("{} is beyond {} stages or {} microbatches", shown(cell), limits::kStages,
                                      limits::kMicrobatches));
    return true;
  }

  bool checkStages() {
    std::map<int32_t, std::pair<int32_t, Action>> rankOf; // of a stage, with its first action
    for (size_t rank = 0; rank != rows.size(); ++rank)
      for (const Action &action : rows[rank]) {
        auto [known, isNew] = rankOf.try_emplace(action.stage, int32_t(rank), action);
        if (!isNew && known->second.first != int32_t(rank))
          return fail(action, fmt::format("stage {} is on rank {} already (line {})", action.stage, known->second.first,
                                          known->second.second.line));
        order.microbatches = std::max(order.microbatches, action.microbatch + 1);
      }
    for (const auto &[stage, place] : rankOf) {
      if (stage != int32_t(order.rankOf.size()))
        return fail(place.second,
                    fmt::format("stage {} stands in no row, but stage {} does", order.rankOf.size(), stage));
      order.rankOf.push_back(place.first);
    }
    return true;
  }

  bool checkKinds() {
    const Action *fused = nullptr, *split = nullptr;
    for (const auto &row : rows)
      for (const Action &action : row) {
        if (action.letter == Letter::BW && !fused)
          fused = &action;
        if ((action.letter == Letter::B || action.letter == Letter::W) && !split)
          split = &action;
        if (fused && split)
          return fail(std::pair(fused->line, fused->column) < std::pair(split->line, split->column) ? *split : *fused,
                      "whole (B) and split (I, W) backwards in one order are not supported yet");
      }
    order.backward = split ? BackwardMode::Split : BackwardMode::Fused;
    // The first backward says which way they go.
    for (const auto &row : rows)
      for (const Action &action : row)
        if (action.letter == Letter::B || action.letter == Letter::BW) {
          order.lastMicrobatchFirst = action.microbatch != 0 && action.microbatch == order.microbatches - 1;
          return true;
        }
    return fail(1, 1, "the order has no backward");
  }

  bool checkRows() {
    std::vector<std::array<int32_t, 3>> done(order.rankOf.size(), {0, 0, 0}); // F, B, W of a stage
    for (const auto &row : rows) {
      Word &word = order.words.emplace_back();
      word.reserve(row.size());
      for (const Action &action : row) {
        size_t kind = action.letter == Letter::F ? 0 : action.letter == Letter::W ? 2 : 1;
        auto &count = done[size_t(action.stage)];
        bool descends = kind != 0 && order.lastMicrobatchFirst;
        int32_t expected = descends ? order.microbatches - 1 - count[kind] : count[kind];
        std::string name = spell(action);
        if (count[kind] == order.microbatches)
          return fail(action, name + " is one more than there are microbatches");
        if (action.microbatch != expected)
          return fail(action,
                      fmt::format("expected microbatch {} next of this stage and kind, found {}: microbatches run in "
                                  "order, or all backwards from the last",
                                  expected, name));
        ++count[kind];
        int32_t needed = descends ? order.microbatches - action.microbatch : count[kind];
        if (kind == 1 && count[0] <= action.microbatch)
          return fail(action, fmt::format("{} comes before its forward {}F{}", name, action.stage, action.microbatch));
        if (kind == 2 && count[1] < needed)
          return fail(action, fmt::format("{} comes before its backward {}I{}", name, action.stage, action.microbatch));
        word.push_back({action.stage, action.letter});
      }
    }
    for (size_t stage = 0; stage != done.size(); ++stage)
      for (size_t kind = 0; kind != (order.backward == BackwardMode::Split ? 3u : 2u); ++kind)
        if (done[stage][kind] != order.microbatches)
          return fail(order.rankOf[stage] + 1, 1,
                      fmt::format("stage {} has {} {}, expected one for each of {} microbatches", stage,
                                  done[stage][kind],
                                  kind == 0   ? "forwards"
                                  : kind == 2 ? "weight backwards"
                                              : "backwards",
                                  order.microbatches));
    return true;
  }

  static std::string spell(const Action &action) {
    return fmt::format("{}{}{}", action.stage, "FIWB"[static_cast<size_t>(action.letter)], action.microbatch);
  }

  std::string_view text;
  Order &order;
  OrderError &error;
  std::vector<std::vector<Action>> rows;
};

} // namespace

bool readOrder(std::string_view text, Order &order, OrderError &error) {
  order = {};
  return Reader(text, order, error).run();
}

} // namespace pipec::schedule
