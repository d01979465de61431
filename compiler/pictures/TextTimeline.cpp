#include "compiler/pictures/TextTimeline.h"

#include "compiler/pictures/Decisions.h"
#include "compiler/pictures/Palette.h"
#include "runtime/plan/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace pipec::emit {

namespace {

constexpr const char *kPlain = "\x1b[0m", *kFaint = "\x1b[2m", *kBold = "\x1b[1m";

std::string colourOf(const Box &box) {
  const Look &look = lookOf(box.kind);
  return fmt::format("\x1b[38;5;{};48;5;{}m", look.terminalInk, look.terminal[size_t(box.microbatch % 2)]);
}

/// What a terminal shows: two that overlap as one, which has both numbers.
struct Shown : Box {
  std::string label; // after the letter; of an overlapped pair all of it
};

std::vector<Shown> shownOf(const Lane &lane) {
  std::vector<Shown> shown;
  for (size_t i = 0; i != lane.boxes.size(); ++i) {
    const Box &box = lane.boxes[i];
    Shown &made = shown.emplace_back(Shown{box, std::to_string(box.microbatch)});
    if (box.part != Box::Part::Upper || i + 1 == lane.boxes.size())
      continue;
    const Box &other = lane.boxes[++i];
    made.label =
        fmt::format("{}{}{}{}", lookOf(box.kind).letter, box.microbatch, lookOf(other.kind).letter, other.microbatch);
    made.kind = plan::Kind::Overlapped;
    made.end = std::max(box.end, other.end);
  }
  return shown;
}

/// One lane: cells of letters and numbers, dots where it is idle.
class Row {
public:
  Row(int width, plan::Time scale) : width(width), scale(scale), cells(size_t(width)) {}

  void add(const Shown &box) {
    const int from = column(box.start), to = column(std::max(box.end - 1, box.start)) + 1;
    for (int c = from; c < std::min(to, width); ++c) {
      const plan::Time share = std::max<plan::Time>(std::min(box.end, edge(c + 1)) - std::max(box.start, edge(c)), 1);
      Cell &cell = cells[size_t(c)];
      ++cell.boxes;
      cell.shares[lookIndex(box.kind)] += share;
      if (share > cell.share) {
        cell.box = &box;
        cell.share = share;
      }
    }
  }

  /// Pieces of a job, which show where nothing else does.
  void fill(const Filled &pieces) {
    for (int c = column(pieces.start); c < width && edge(c) < pieces.end; ++c)
      cells[size_t(c)].filled +=
          std::max<plan::Time>(std::min(pieces.end, edge(c + 1)) - std::max(pieces.start, edge(c)), 0);
  }

  /// A line through the row, behind letters and numbers.
  void mark(int64_t column) { cells[size_t(column)].marked = true; }

  /// What comes after the section's end is not idle, but nothing.
  std::string text(plan::Time length, bool colour) {
    settle();
    label();
    std::string text, last;
    for (size_t c = 0; c != cells.size(); ++c) {
      const Cell &cell = cells[c];
      if (!cell.box && edge(int(c)) >= length)
        break;
      const std::string next = cell.box ? colourOf(*cell.box) : cell.marked ? kBold : kFaint;
      if (colour && next != last)
        text += kPlain + next;
      last = next;
      const bool filled = 2 * cell.filled >= edge(int(c) + 1) - edge(int(c));
      const char shown = cell.box ? cell.shown : filled ? '/' : '.';
      text += cell.marked && (shown == ' ' || shown == '.') ? '|' : shown;
    }
    return colour ? text + kPlain : text;
  }

private:
  struct Cell {
    const Shown *box = nullptr; // which shows
    plan::Time share = 0;       // of that box
    int boxes = 0;
    std::array<plan::Time, kLooks.size()> shares = {};
    char shown = ' ';
    bool marked = false;
    plan::Time filled = 0; // of pieces
  };

  int column(plan::Time time) const { return int(std::min<__int128>(__int128(time) * width / scale, width)); }
  plan::Time edge(int column) const { return plan::Time(__int128(scale) * column / width); }

  /// A cell is idle where less than half of it is taken, but for a box that would show nowhere then. Where many share
  /// it, the kind shows that takes the most of it.
  void settle() {
    for (size_t c = 0; c != cells.size(); ++c) {
      Cell &cell = cells[c];
      const plan::Time whole = edge(int(c) + 1) - edge(int(c));
      const plan::Time busy = std::accumulate(cell.shares.begin(), cell.shares.end(), plan::Time(0));
      const bool alone = cell.box && !merged(c) && cell.box->end - cell.box->start < whole;
      if (busy * (alone ? 10 : 2) < whole) {
        cell.box = nullptr;
      } else if (merged(c)) {
        const auto most = std::max_element(cell.shares.begin(), cell.shares.end()) - cell.shares.begin();
        cell.box = &kStandIns[size_t(most)];
        cell.shown = kLooks[size_t(most)].letter.front();
      }
    }
  }

  bool merged(size_t c) const { return cells[c].boxes >= 3; }

  /// The letter, then the number if all of it fits.
  void label() {
    for (size_t c = 0; c != cells.size();) {
      const Shown *box = cells[c].box;
      size_t end = c + 1;
      while (end != cells.size() && cells[end].box == box)
        ++end;
      if (box && !merged(c)) {
        const std::string letter(lookOf(box->kind).letter);
        std::string label = plan::isHeader(box->kind)    ? box->label
                            : plan::isCompute(box->kind) ? letter + box->label
                                                         : letter;
        if (label.size() > end - c)
          label = letter;
        for (size_t i = 0; i != end - c; ++i)
          cells[c + i].shown = i < label.size() ? label[i] : ' ';
      }
      c = end;
    }
  }

  // One of each look, for cells in which many boxes are one.
  inline static const std::array<Shown, kLooks.size()> kStandIns = [] {
    std::array<Shown, kLooks.size()> shown;
    for (const plan::KindRow &row : plan::kKindTable)
      shown[lookIndex(row.kind)].kind = row.kind;
    return shown;
  }();

  int width;
  plan::Time scale;
  std::vector<Cell> cells;
};

/// Words, and a new line before the one that would pass the width.
std::string wrapped(const std::vector<std::string> &words, const std::vector<size_t> &lengths, size_t columns,
                    size_t indent) {
  std::string text(indent, ' ');
  size_t used = indent;
  for (size_t i = 0; i != words.size(); ++i) {
    const size_t space = used > indent ? 1 : 0;
    if (space + used + lengths[i] > columns && used > indent) {
      text += fmt::format("\n{:{}}", "", indent);
      used = indent;
    } else if (space) {
      text += ' ';
      ++used;
    }
    text += words[i];
    used += lengths[i];
  }
  text += '\n';
  return text;
}

/// Broken after a comma or a colon where that does, so that a number stays with its unit.
std::string wrapped(std::string_view text, size_t columns) {
  std::vector<std::string> words;
  std::vector<size_t> lengths;
  for (size_t from = 0; from < text.size();) {
    size_t to = from;
    do
      to = std::min(text.find(' ', to + 1), text.size());
    while (to != text.size() && text[to - 1] != ',' && text[to - 1] != ':');
    if (to - from > columns)
      to = std::min(text.find(' ', from), text.size());
    words.emplace_back(text.substr(from, to - from));
    lengths.push_back(to - from);
    from = to + 1;
  }
  return wrapped(words, lengths, columns, 0);
}

std::string legend(const Picture &picture, const TimelineOptions &options, size_t indent) {
  std::array<bool, kLooks.size()> used = {};
  for (const Section &section : picture.sections)
    for (const Lane &lane : section.lanes)
      for (const Shown &box : shownOf(lane))
        used[lookIndex(box.kind)] = true;
  std::vector<std::string> words;
  std::vector<size_t> lengths;
  for (size_t look = 0; look != kLooks.size(); ++look) {
    const auto &[letter, name, css, fill, terminal, ink] = kLooks[look];
    if (!used[look])
      continue;
    words.push_back(options.colour
                        ? fmt::format("\x1b[38;5;{};48;5;{}m {} {} {} ", ink, terminal[0], letter, kPlain, name)
                        : fmt::format("{} {} ", letter, name));
    lengths.push_back(name.size() + (options.colour ? 5 : 3));
  }
  words.push_back(options.colour ? fmt::format("{}.{} idle", kFaint, kPlain) : ". idle");
  lengths.push_back(6);
  if (std::ranges::any_of(picture.sections, [](const Section &section) {
        return std::ranges::any_of(section.lanes, [](const Lane &lane) { return !lane.pieces.empty(); });
      })) {
    words.push_back(options.colour ? fmt::format("{}/{} background job", kFaint, kPlain) : "/ background job");
    lengths.push_back(16);
  }
  if (std::any_of(picture.sections.begin(), picture.sections.end(),
                  [](const Section &section) { return !section.decisions.empty(); })) {
    words.push_back(options.colour ? fmt::format("{}|{} decision", kBold, kPlain) : "| decision");
    lengths.push_back(10);
  }
  return wrapped(words, lengths, size_t(options.columns), indent);
}

/// "rank 3 ", "rank 3 run ", or the number alone where columns are few.
std::string label(const Section &section, const Lane &lane, size_t digits, bool narrow) {
  std::string text = fmt::format("{}{:>{}}", narrow ? "" : "rank ", lane.place / section.shards, digits);
  if (section.shards > 1) {
    const size_t width = std::to_string(section.shards - 1).size();
    text += fmt::format("{}{:>{}}", narrow ? "." : " shard ", lane.place % section.shards, width);
  }
  if (section.lanesPerPlace > 1)
    text = fmt::format("{:>{}} {}", lane.kind == LaneKind::Plan ? text : "", text.size(), nameOf(section, lane));
  text += ' ';
  return text;
}

/// How many characters of UTF-8.
int64_t lengthOf(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

std::vector<DecisionMark> marksOf(const Section &section, int width, plan::Time scale) {
  DecisionRuler ruler;
  ruler.place = [&](plan::Time at) {
    const plan::Time inside = std::clamp<plan::Time>(at, 0, std::max<plan::Time>(section.length - 1, 0));
    return std::min<int64_t>(int64_t(__int128(inside) * width / scale), width - 1);
  };
  ruler.width = lengthOf;
  ruler.first = 0;
  ruler.last = width;
  ruler.apart = 1;
  ruler.gap = 1;
  ruler.whole = false; // that stands below
  return decisionMarks(section.decisions, ruler);
}

/// The line above the lanes.
std::string markLine(const std::vector<DecisionMark> &marks, size_t indent) {
  std::string text(indent, ' ');
  int64_t used = 0;
  const auto put = [&](int64_t at, const std::string &part) {
    text += std::string(size_t(at - used), ' ') + part;
    used = at + lengthOf(part);
  };
  for (const DecisionMark &mark : marks) {
    if (!mark.label.empty() && mark.from < mark.at)
      put(mark.from, mark.label);
    put(mark.at, "|");
    if (!mark.label.empty() && mark.from > mark.at)
      put(mark.from, mark.label);
  }
  return text + "\n";
}

/// All that is known of each.
std::string markList(const std::vector<DecisionMark> &marks, size_t columns) {
  constexpr size_t kListed = 10;
  std::string text;
  size_t count = 0;
  for (const DecisionMark &mark : marks)
    for (const std::string &each : mark.texts)
      if (++count <= kListed)
        text += wrapped("| " + each, columns);
  if (count > kListed)
    text += fmt::format("| {} more decisions\n", count - kListed);
  return text;
}

} // namespace

std::string timeline(const Picture &picture, const TimelineOptions &options) {
  constexpr int kNarrow = 50, kLeast = 8;
  const plan::Time scale = picture.scale();
  const bool narrow = options.columns < kNarrow;
  std::string text, decisions;
  size_t digits = 1, labels = 0;
  for (const Section &section : picture.sections)
    digits = std::max(digits,
                      std::to_string(section.lanes.empty() ? 0 : section.lanes.back().place / section.shards).size());
  for (const Section &section : picture.sections)
    for (const Lane &lane : section.lanes)
      labels = std::max(labels, label(section, lane, digits, narrow).size());
  const int width = std::max(kLeast, options.columns - int(labels));
  for (const Section &section : picture.sections) {
    text += &section == &picture.sections.front() ? "" : "\n";
    std::string title = wrapped(section.title + ": " + section.figures, size_t(options.columns));
    if (options.colour)
      title.insert(std::min(title.find(": "), title.size()), kPlain).insert(0, kBold);
    text += title;
    const std::vector<DecisionMark> marks = marksOf(section, width, scale);
    if (!marks.empty())
      text += markLine(marks, labels);
    decisions += markList(marks, size_t(options.columns));
    for (const Lane &lane : section.lanes) {
      Row row(width, scale);
      const std::vector<Shown> shown = shownOf(lane);
      for (const Shown &box : shown)
        row.add(box);
      for (const Filled &pieces : lane.pieces)
        row.fill(pieces);
      for (const DecisionMark &mark : marks)
        row.mark(mark.at);
      text += fmt::format("{:<{}}{}\n", label(section, lane, digits, narrow), labels,
                          row.text(section.length, options.colour));
    }
  }
  const std::string end = plan::timeText(scale);
  text += fmt::format("{:>{}}0{:>{}}\n", "", labels, end, width - 1);
  text += legend(picture, options, labels) + decisions;
  if (picture.sections.size() > 1)
    text += wrapped(comparison(picture.sections[0], picture.sections[1]), size_t(options.columns));
  return text;
}

} // namespace pipec::emit
