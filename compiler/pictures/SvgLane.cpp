#include "compiler/pictures/SvgLane.h"

#include "compiler/pictures/Palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace pipec::emit {

namespace {

constexpr Cent kPixel = 100;

/// Look and chunk, in the order in which they are stacked.
struct Key {
  size_t look;
  int32_t chunk;
  auto operator<=>(const Key &) const = default;
};
Key keyOf(const Box &box) { return {lookIndex(box.kind), box.chunk}; }

/// One path a colour.
class Paths {
public:
  void rect(Key key, Cent x, Cent y, Cent width, Cent height) {
    if (width > 0 && height > 0)
      paths[key] += fmt::format("M{} {}h{}v{}h-{}z", centText(x), centText(y), centText(width), centText(height),
                                centText(width));
  }
  std::string text(int chunks) const {
    std::string text;
    for (const auto &[key, path] : paths)
      text += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", hex(shade(kLooks[key.look].fill, key.chunk, chunks)), path);
    return text;
  }

private:
  std::map<Key, std::string> paths;
};

std::string boxes(const Lane &lane, const LaneLook &look) {
  Paths paths;
  std::map<std::pair<Cent, Colour>, std::string> numbers; // by size and ink
  for (const Box &box : lane.boxes) {
    const bool half = box.part != Box::Part::Whole;
    const Cent top = box.part == Box::Part::Lower ? look.height / 2 : 0, height = half ? look.height / 2 : look.height;
    const Cent size = half ? std::min(look.text, height) : look.text;
    const Cent from = centOf(box.start, look.scale, look.width), to = centOf(box.end, look.scale, look.width);
    // Neighbours stand a little apart, wherever they are wide enough for that.
    const Cent apart = to - from >= 5 * kPixel ? 70 : to - from >= 2 * kPixel ? 40 : 0;
    const Cent width = std::max<Cent>(to - from - apart, 20);
    paths.rect(keyOf(box), from, top, width, height);
    if (look.text == 0 || !plan::isCompute(box.kind) || textWidth(box.microbatch, size) > width)
      continue;
    const Colour fill = shade(lookOf(box.kind).fill, box.chunk, look.chunks);
    numbers[{-size, inkOn(fill)}] += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", centText(from + width / 2),
                                                 centText(top + height / 2 + size * 36 / 100), box.microbatch);
  }
  std::string text = paths.text(look.chunks);
  for (const auto &[sizeAndInk, each] : numbers)
    text += fmt::format("<g font-size=\"{}\" fill=\"{}\">{}</g>\n", centText(-sizeAndInk.first), hex(sizeAndInk.second),
                        each);
  return text;
}

/// How much of a stretch of the lane each kind takes, in hundredths of pixels.
struct Stretch {
  Cent from = 0, to = 0;
  std::vector<Cent> taken; // by key

  Cent length() const { return to - from; }
  /// The one kind, or idleness, that fills it; -1 if several share it.
  int only() const {
    Cent sum = 0;
    int found = int(taken.size()); // idle
    for (size_t k = 0; k != taken.size(); ++k) {
      sum += taken[k];
      if (taken[k] > 0)
        found = found == int(taken.size()) ? int(k) : -1;
    }
    return sum == 0 || (found >= 0 && sum >= length()) ? found : -1;
  }
  void add(const Stretch &next) {
    to = next.to;
    for (size_t k = 0; k != taken.size(); ++k)
      taken[k] += next.taken[k];
  }
};

/// Whether two stretches may be drawn as one: no kind's share differs by more than what cutting a row of boxes anywhere
/// makes of it.
bool alike(const Stretch &a, const Stretch &b) {
  constexpr double kApart = 0.2;
  for (size_t k = 0; k != a.taken.size(); ++k)
    if (std::abs(double(a.taken[k]) / double(a.length()) - double(b.taken[k]) / double(b.length())) > kApart)
      return false;
  return true;
}

std::vector<Stretch> columnsOf(const Lane &lane, const LaneLook &look, const std::vector<Key> &keys) {
  std::vector<Stretch> columns(size_t((look.width + look.column - 1) / look.column));
  for (size_t c = 0; c != columns.size(); ++c)
    columns[c] = {Cent(c) * look.column, std::min(Cent(c + 1) * look.column, look.width),
                  std::vector<Cent>(keys.size())};
  for (const Box &box : lane.boxes) {
    const auto key = size_t(std::lower_bound(keys.begin(), keys.end(), keyOf(box)) - keys.begin());
    const Cent from = centOf(box.start, look.scale, look.width), to = centOf(box.end, look.scale, look.width);
    for (Cent c = from / look.column; c * look.column < to; ++c) {
      Stretch &column = columns[size_t(c)];
      const Cent taken = std::min(to, column.to) - std::max(from, column.from);
      column.taken[key] += box.part == Box::Part::Whole ? taken : taken / 2;
    }
  }
  return columns;
}

std::string shares(const Lane &lane, const LaneLook &look) {
  const Cent mixed = 4 * look.column; // stretches of mixed work are compared over so much
  std::vector<Key> keys;
  for (const Box &box : lane.boxes)
    if (std::find(keys.begin(), keys.end(), keyOf(box)) == keys.end())
      keys.push_back(keyOf(box));
  std::sort(keys.begin(), keys.end());

  std::vector<Stretch> runs;
  for (const Stretch &column : columnsOf(lane, look, keys)) {
    const int only = column.only();
    if (!runs.empty()) {
      Stretch &last = runs.back();
      const int lastOnly = last.only();
      if (only == lastOnly && (only >= 0 || last.length() < mixed)) {
        last.add(column);
        continue;
      }
      // A mixed stretch is whole now: it may continue the one before it.
      if (lastOnly < 0 && runs.size() > 1 && runs[runs.size() - 2].only() < 0 && alike(runs[runs.size() - 2], last)) {
        runs[runs.size() - 2].add(last);
        runs.pop_back();
      }
    }
    runs.push_back(column);
  }

  Paths paths;
  for (const Stretch &run : runs) {
    Cent bottom = look.height;
    for (size_t k = 0; k != keys.size(); ++k) {
      const Cent part = run.taken[k] * look.height / run.length() / 10 * 10;
      paths.rect(keys[k], run.from, bottom - part, run.length(), part);
      bottom -= part;
    }
  }
  return paths.text(look.chunks);
}

} // namespace

std::string centText(Cent cents) {
  std::string text = fmt::format("{}{}", cents < 0 ? "-" : "", std::abs(cents) / 100);
  const Cent rest = std::abs(cents) % 100;
  if (rest != 0)
    text += rest % 10 == 0 ? fmt::format(".{}", rest / 10) : fmt::format(".{:02}", rest);
  return text;
}

Cent centOf(plan::Time time, plan::Time scale, Cent width) { return Cent(__int128(time) * width / scale); }

Cent textWidth(int64_t number, Cent size) { return Cent(std::to_string(number).size()) * size * 56 / 100 + 120; }

std::string hatchSvg(const Lane &lane, const LaneLook &look) {
  constexpr Cent kApart = 4 * kPixel;
  std::string strokes, frames;
  for (const Filled &each : lane.pieces) {
    const Cent from = centOf(each.start, look.scale, look.width), to = centOf(each.end, look.scale, look.width);
    if (to - from < kPixel / 2)
      continue;
    frames += fmt::format("M{} 0h{}v{}h-{}z", centText(from), centText(to - from), centText(look.height),
                          centText(to - from));
    // Strokes rise to the right at 45 degrees; each is cut to the frame.
    for (Cent x = from - look.height + kApart; x < to; x += kApart) {
      const Cent left = std::max(x, from), right = std::min(x + look.height, to);
      strokes += fmt::format("M{} {}L{} {}", centText(left), centText(look.height - (left - x)), centText(right),
                             centText(look.height - (right - x)));
    }
  }
  if (frames.empty())
    return {};
  return fmt::format("<path class=\"piece\" stroke=\"{0}\" stroke-width=\"0.8\" fill=\"none\" d=\"{1}\"/>\n",
                     hex(kLight.faint), frames + strokes);
}

std::string laneSvg(const Lane &lane, const LaneLook &look) {
  return look.column > 0 ? shares(lane, look) : boxes(lane, look);
}

} // namespace pipec::emit
