#include "compiler/emit/Timeline.h"

#include "runtime/plan/Text.h"
#include "runtime/simulate/Simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace pipec::emit {

namespace {

struct Box {
  plan::Kind kind;
  int64_t microbatch;
  plan::Time start, end;
};

struct Look {
  const char *letter;
  // SGR, for even and odd microbatches, so that neighbours stand apart: text on hues that colour-blind people can tell
  // apart (blue, orange, green, grey).
  std::array<const char *, 2> colours;
};

Look lookOf(plan::Kind kind) {
  switch (kind) {
  case plan::Kind::Forward:
    return {"F", {"\x1b[38;5;231;48;5;25m", "\x1b[38;5;231;48;5;31m"}};
  case plan::Kind::BackwardInput:
  case plan::Kind::Backward:
    return {"B", {"\x1b[38;5;16;48;5;214m", "\x1b[38;5;16;48;5;222m"}};
  case plan::Kind::BackwardWeight:
    return {"W", {"\x1b[38;5;16;48;5;79m", "\x1b[38;5;16;48;5;115m"}};
  default:
    return {"O", {"\x1b[38;5;16;48;5;250m", "\x1b[38;5;16;48;5;250m"}};
  }
}

/// One rank's row: cells of letters and numbers, dots where it is idle.
class Row {
public:
  Row(int width, plan::Time scale) : width(width), scale(scale), cells(size_t(width)) {}

  void add(const Box &box) {
    int from = column(box.start), to = std::max(from + 1, column(box.end));
    // Where several share a cell, the longest in it shows.
    for (int c = from; c < std::min(to, width); ++c) {
      plan::Time share = std::min(box.end, edge(c + 1)) - std::max(box.start, edge(c));
      Cell &cell = cells[size_t(c)];
      if (!cell.box || share > cell.share)
        cell = {&box, share, ' '};
    }
  }

  std::string text(bool colour) {
    label();
    std::string text;
    const char *last = "";
    for (const Cell &cell : cells) {
      const char *next = cell.box ? lookOf(cell.box->kind).colours[size_t(cell.box->microbatch % 2)] : "\x1b[2m";
      if (colour && std::string_view(next) != last)
        text += std::string("\x1b[0m") + next;
      last = next;
      text += cell.box ? cell.shown : '.';
    }
    return colour ? text + "\x1b[0m" : text;
  }

private:
  struct Cell {
    const Box *box = nullptr;
    plan::Time share = 0;
    char shown = ' ';
  };

  int column(plan::Time time) const {
    return int(std::min<__int128>(__int128(time) * width / std::max<plan::Time>(scale, 1), width));
  }
  plan::Time edge(int column) const { return plan::Time(__int128(scale) * column / width); }

  /// The letter, then the number if all of it fits.
  void label() {
    for (size_t c = 0; c != cells.size();) {
      const Box *box = cells[c].box;
      size_t end = c + 1;
      while (end != cells.size() && cells[end].box == box)
        ++end;
      if (box) {
        std::string letter = lookOf(box->kind).letter;
        std::string label = box->kind == plan::Kind::Optimizer ? letter : letter + std::to_string(box->microbatch);
        if (label.size() > end - c)
          label = letter;
        for (size_t i = 0; i != end - c; ++i)
          cells[c + i].shown = i < label.size() ? label[i] : ' ';
      }
      c = end;
    }
  }

  int width;
  plan::Time scale;
  std::vector<Cell> cells;
};

} // namespace

Status timeline(const plan::Variant &variant, const TimelineOptions &options, std::string &text) {
  std::vector<std::vector<Box>> boxes(variant.programs.size());
  simulate::Options run;
  run.observe = [&](const simulate::Event &event) {
    if (!plan::isCommunication(event.operation->kind) && event.end > event.start)
      boxes[size_t(event.rank)].push_back({event.operation->kind, event.microbatch, event.start, event.end});
  };
  simulate::Result result;
  if (Status status = simulate::simulate(variant, run, result); !status.ok())
    return status;

  plan::Time scale = options.scale > 0 ? options.scale : result.makespan;
  size_t digits = std::to_string(variant.programs.size() - 1).size();
  int width = std::max(10, options.columns - int(digits) - 7);
  for (size_t rank = 0; rank != boxes.size(); ++rank) {
    Row row(width, scale);
    for (const Box &box : boxes[rank])
      row.add(box);
    text += fmt::format("rank {:>{}} {}\n", rank, digits, row.text(options.colour));
  }
  std::string end = plan::timeText(scale);
  text += fmt::format("{:>{}}0{:>{}}\n", "", 6 + digits, end, width - 1);
  std::array kinds{plan::Kind::Forward, plan::Kind::Backward, plan::Kind::BackwardWeight, plan::Kind::Optimizer};
  std::array<const char *, 4> names{"forward", "backward", "weight backward", "optimizer"};
  text += fmt::format("{:>{}}", "", 6 + digits);
  for (size_t k = 0; k != kinds.size(); ++k) {
    bool used = std::any_of(boxes.begin(), boxes.end(), [&](const auto &own) {
      return std::any_of(own.begin(), own.end(), [&](const Box &box) {
        return std::string_view(lookOf(box.kind).letter) == lookOf(kinds[k]).letter;
      });
    });
    if (used)
      text += options.colour
                  ? fmt::format("{} {} \x1b[0m {}  ", lookOf(kinds[k]).colours[0], lookOf(kinds[k]).letter, names[k])
                  : fmt::format("{} {}  ", lookOf(kinds[k]).letter, names[k]);
  }
  text += options.colour ? "\x1b[2m.\x1b[0m idle\n" : ". idle\n";
  return {};
}

} // namespace pipec::emit
