#include "compiler/pictures/Svg.h"

#include "compiler/pictures/Decisions.h"
#include "compiler/pictures/Markup.h"
#include "compiler/pictures/Palette.h"
#include "compiler/pictures/SvgLane.h"
#include "runtime/plan/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace pipec::emit {

namespace {

using plan::Time;

constexpr Cent kPixel = 100;
constexpr Cent kMargin = 12 * kPixel, kTitle = 14 * kPixel, kText = 11 * kPixel, kSmall = 9 * kPixel;

/// What fonts of any machine draw at the width that is reckoned with.
std::string escaped(std::string_view text) {
  std::string plain(text);
  std::replace_if(plain.begin(), plain.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return markup(plain);
}

/// As wide as a line of Helvetica or Arial is at most, near enough.
Cent widthOf(std::string_view text, Cent size) { return Cent(text.size()) * size * 50 / 100; }

std::string textAt(Cent x, Cent y, std::string_view text, const char *css, Colour fill, Cent size,
                   const char *more = "") {
  return fmt::format("<text class=\"{}\" fill=\"{}\" font-size=\"{}\" x=\"{}\" y=\"{}\"{}>{}</text>\n", css, hex(fill),
                     centText(size), centText(x), centText(y), more, escaped(text));
}

struct Unit {
  const char *name;
  Time length;
};

Unit unitOf(Time scale) {
  constexpr std::array<Unit, 5> kUnits = {
      {{"s", 1'000'000'000'000}, {"ms", 1'000'000'000}, {"us", 1'000'000}, {"ns", 1'000}, {"ps", 1}}};
  return *std::find_if(kUnits.begin(), kUnits.end() - 1, [&](const Unit &unit) { return scale >= unit.length; });
}

/// The least of 1, 2, 5, 10, 20, … that leaves at most so many ticks.
Time tickStep(Time scale, int64_t most) {
  Time step = 1;
  for (int i = 0; scale / step > most; ++i)
    step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

std::string tickText(Time time, const Unit &unit) {
  std::string text = std::to_string(time / unit.length);
  if (Time rest = time % unit.length; rest != 0) {
    std::string decimals = fmt::format("{:0{}}", rest, std::to_string(unit.length).size() - 1);
    decimals.resize(decimals.find_last_not_of('0') + 1);
    text += fmt::format(".{}", decimals);
  }
  return text;
}

/// Draws from top to bottom.
class Figure {
public:
  Figure(const Picture &picture, const SvgOptions &options)
      : picture(picture), width(Cent(options.width) * kPixel), scale(picture.scale()) {}

  std::string text() {
    measure();
    y = kMargin;
    for (const Section &section : picture.sections) {
      header(section);
      lanes(section);
    }
    axis();
    legend();
    const Cent height = y + kMargin - kPixel * 4;
    const std::string title = escaped(picture.sections.front().title + ": " + picture.sections.front().figures);
    return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
                       "role=\"img\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
                       "<title>{2}</title>\n{3}<rect class=\"page\" fill=\"{4}\" width=\"{0}\" height=\"{1}\" "
                       "rx=\"6\"/>\n{5}</svg>\n",
                       centText(width), centText(height), title, style(), hex(kLight.page), body);
  }

private:
  /// Renderers that know nothing of dark pages take the attributes.
  std::string style() const {
    const std::string marks =
        decided ? fmt::format(".decision{{fill:{0};stroke:{0}}}", hex(kDark.decision)) : std::string();
    const std::string pieces = filled ? fmt::format(".piece{{stroke:{}}}", hex(kDark.faint)) : std::string();
    return fmt::format("<style>@media (prefers-color-scheme:dark){{.page{{fill:{}}}.ink{{fill:{}}}.faint{{fill:{}}}"
                       ".idle{{fill:{}}}.grid{{stroke:{}}}.mark{{stroke:{}}}{}{}}}</style>\n",
                       hex(kDark.page), hex(kDark.ink), hex(kDark.faint), hex(kDark.idle), hex(kDark.faint),
                       hex(kDark.mark), marks, pieces);
  }

  /// What is the same in all sections: which ranks are drawn, how high, with which numbers.
  void measure() {
    constexpr Cent kRoom = 640 * kPixel, kHighest = 24 * kPixel, kLowest = 4 * kPixel;
    constexpr size_t kMostBoxes = 12'000;
    constexpr Cent kBox = 150; // narrower ones on average cannot be told apart
    size_t count = 0, boxes = 0, widest = 0;
    for (const Section &section : picture.sections) {
      perPlace = std::max(perPlace, section.lanesPerPlace);
      for (const Lane &lane : section.lanes) {
        if (const std::string name = placeName(section, lane); name.size() >= longest.size())
          longest = name;
        widest = std::max(widest, lane.boxes.size());
        boxes += lane.boxes.size();
        for (const Box &box : lane.boxes)
          used[lookIndex(box.kind)] = true;
      }
      count += section.lanes.size();
    }
    every = std::max<int64_t>(1, (int64_t(count) * kLowest + kRoom - 1) / kRoom);
    pitch = std::clamp(kRoom / std::max<Cent>(Cent(count) / every, 1), kLowest, kHighest);
    height = pitch - std::clamp<Cent>(pitch / 6, 50, 3 * kPixel);
    left = kMargin + widthOf(longest, kText) + (perPlace > 1 ? 36 : 8) * kPixel;
    inner = std::max<Cent>(width - left - kMargin, 50 * kPixel);
    look = {scale, inner, height, 1, 0, 0};
    if (boxes / size_t(every) > kMostBoxes || Cent(widest) * kBox > inner)
      look.column = std::max<Cent>(kPixel, 2 * inner / Cent(widest));
    else
      look.text = numberSize();
  }

  /// The largest at which nearly all numbers fit; 0 where that could not be read.
  Cent numberSize() const {
    for (Cent size = std::min<Cent>(12 * kPixel, height * 3 / 4); size >= 6 * kPixel + 50; size -= 50) {
      int64_t fits = 0, all = 0;
      for (const Section &section : picture.sections)
        for (const Lane &lane : section.lanes)
          for (const Box &box : lane.boxes) {
            ++all;
            fits += textWidth(box.microbatch, size) + 70 <= centOf(box.end - box.start, scale, inner);
          }
      if (fits * 10 >= all * 9)
        return size;
    }
    return 0; // few numbers among many boxes say less than none
  }

  void header(const Section &section) {
    std::string figures = section.figures;
    if (every > 1)
      figures += fmt::format(", every {}th {} drawn", every, section.shards > 1 ? "process" : "rank");
    y += kTitle;
    body += textAt(kMargin, y, section.title, "ink", kLight.ink, kTitle, " font-weight=\"600\"");
    const Cent room = width - 2 * kMargin;
    if (widthOf(section.title, kTitle) + widthOf(figures, kText) + 30 * kPixel <= room) {
      body += textAt(width - kMargin, y, figures, "faint", kLight.faint, kText, " text-anchor=\"end\"");
    } else {
      // Lines are broken at spaces.
      while (!figures.empty()) {
        size_t end = figures.size();
        while (widthOf(std::string_view(figures).substr(0, end), kText) > room &&
               figures.rfind(' ', end - 1) != std::string::npos)
          end = figures.rfind(' ', end - 1);
        y += kText + 4 * kPixel;
        body += textAt(kMargin, y, figures.substr(0, end), "faint", kLight.faint, kText);
        figures.erase(0, end + 1);
      }
    }
    y += 9 * kPixel;
  }

  void lanes(const Section &section) {
    if (!section.decisions.empty())
      y += kSmall + 5 * kPixel; // their labels
    const Cent top = y;
    const Cent between = perPlace > 1 ? pitch / 4 : 0; // of ranks that have two lanes
    // Ranks that have room for it are named: every, every second, fourth, …
    int64_t named = every;
    while (named / every * (pitch * section.lanesPerPlace + between) < 12 * kPixel)
      named *= 2;
    std::string drawn;
    look.chunks = section.chunks;
    for (const Lane &lane : section.lanes) {
      if (lane.place % every != 0)
        continue;
      body += fmt::format("<rect class=\"idle\" fill=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                          hex(kLight.idle), centText(left), centText(y), centText(centOf(section.length, scale, inner)),
                          centText(height));
      drawn += fmt::format("<g transform=\"translate({} {})\" text-anchor=\"middle\">\n{}</g>\n", centText(left),
                           centText(y), hatchSvg(lane, look) + laneSvg(lane, look));
      filled |= !lane.pieces.empty();
      const Cent middle = y + height / 2 + kText * 36 / 100;
      if (section.lanesPerPlace > 1) {
        if (height >= kSmall)
          body += textAt(left - 5 * kPixel, y + height / 2 + kSmall * 36 / 100, nameOf(section, lane), "faint",
                         kLight.faint, kSmall, " text-anchor=\"end\"");
      }
      if (lane.kind == LaneKind::Plan && lane.place % named == 0)
        body += textAt(kMargin, section.lanesPerPlace > 1 ? middle + pitch / 2 : middle, placeName(section, lane),
                       "ink", kLight.ink, kText);
      y += pitch + (lane.kind == LaneKind::Plan ? 0 : between);
    }
    grid(top, y);
    body += drawn;
    const plan::Time least = section.bound.picoseconds();
    if (least > 0 && centOf(section.length - least, scale, inner) >= kPixel) {
      const Cent x = left + centOf(least, scale, inner);
      body += fmt::format("<line class=\"mark\" stroke=\"{}\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\" x1=\"{}\" "
                          "x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n",
                          hex(kLight.mark), centText(x), centText(x), centText(top - 3 * kPixel), centText(y));
      bound = true;
    }
    decisions(section, top);
    y += 8 * kPixel;
  }

  /// Lines across the lanes, each with all that is known of it as its title.
  void decisions(const Section &section, Cent top) {
    DecisionRuler ruler;
    ruler.place = [&](Time at) { return left + centOf(std::clamp<Time>(at, 0, section.length), scale, inner); };
    ruler.width = [](std::string_view text) { return widthOf(text, kSmall) * 6 / 5; }; // some fonts are wider
    ruler.first = kMargin;
    ruler.last = width - kMargin;
    ruler.apart = kPixel;
    ruler.gap = 5 * kPixel;
    for (const DecisionMark &mark : decisionMarks(section.decisions, ruler)) {
      body += fmt::format("<g class=\"decision\" fill=\"{0}\" stroke=\"{0}\"><title>", hex(kLight.decision));
      for (const std::string &text : mark.texts)
        body += (&text == &mark.texts.front() ? "" : "\n") + escaped(text);
      body += fmt::format("</title>{}", decisionSvg(mark.at, top - 8 * kPixel, y));
      if (!mark.label.empty())
        body += fmt::format("<text stroke=\"none\" font-size=\"{}\" x=\"{}\" y=\"{}\"{}>{}</text>", centText(kSmall),
                            centText(mark.from < mark.at ? mark.at - ruler.gap : mark.from), centText(top - 5 * kPixel),
                            mark.from < mark.at ? " text-anchor=\"end\"" : "", escaped(mark.label));
      body += "</g>\n";
      decided = true;
    }
  }

  static std::string decisionSvg(Cent x, Cent from, Cent to) {
    return fmt::format("<path d=\"M{0} {1}V{2}M{3} {1}h6l-3 5z\"/>", centText(x), centText(from), centText(to),
                       centText(x - 3 * kPixel));
  }

  Time step() const { return tickStep(scale, std::max<int64_t>(inner / (70 * kPixel), 1)); }

  void grid(Cent from, Cent to) {
    std::string path;
    for (Time time = 0; time <= scale; time += step())
      path += fmt::format("M{} {}V{}", centText(left + centOf(time, scale, inner)), centText(from), centText(to));
    body += fmt::format("<path class=\"grid\" stroke=\"{}\" stroke-opacity=\"0.35\" stroke-width=\"0.5\" d=\"{}\"/>\n",
                        hex(kLight.faint), path);
  }

  void axis() {
    const Unit unit = unitOf(scale);
    y += 4 * kPixel;
    for (Time time = 0; time <= scale; time += step()) {
      const bool last = time + step() > scale;
      std::string text = tickText(time, unit);
      const Cent x = left + centOf(time, scale, inner);
      if (last)
        text += fmt::format(" {}", unit.name);
      // The last may stand at the edge.
      const bool fits = x + widthOf(text, kText) / 2 <= width - 4 * kPixel;
      body += textAt(fits ? x : width - 4 * kPixel, y + 2 * kPixel, text, "faint", kLight.faint, kText,
                     fits ? " text-anchor=\"middle\"" : " text-anchor=\"end\"");
    }
    y += 22 * kPixel;
  }

  /// A place in the legend, on a new line where the width ends.
  Cent place(Cent wide) {
    if (at + wide > width - kMargin && at > left) {
      at = left;
      y += 17 * kPixel;
    }
    const Cent x = at;
    at += wide + 16 * kPixel;
    return x;
  }

  void entry(std::string_view name, Cent wide, const std::string &swatch) {
    const Cent x = place(wide + 5 * kPixel + widthOf(name, kText));
    body += fmt::format("<g transform=\"translate({} {})\">{}</g>\n", centText(x), centText(y - 10 * kPixel), swatch);
    body += textAt(x + wide + 5 * kPixel, y, name, "ink", kLight.ink, kText);
  }

  void legend() {
    constexpr int kMostShades = 8;
    at = left;
    int chunks = 1, copies = 1;
    for (const Section &section : picture.sections) {
      chunks = std::max(chunks, section.chunks);
      copies = std::max(copies, section.copies);
    }
    for (size_t k = 0; k != kLooks.size(); ++k) {
      if (!used[k])
        continue;
      const bool whole = kLooks[k].letter == "O"; // of a rank, not of a chunk
      const int shades = whole ? 1 : std::min(chunks, kMostShades);
      std::string swatch;
      for (int i = 0; i != shades; ++i)
        swatch +=
            fmt::format("<rect fill=\"{}\" x=\"{}\" width=\"12\" height=\"12\"/>",
                        hex(shade(kLooks[k].fill, shades > 1 ? i * (chunks - 1) / (shades - 1) : 0, chunks)), i * 12);
      entry(kLooks[k].name, 12 * shades * kPixel, swatch);
    }
    if (chunks > 1)
      entry(copies > 1 ? "lighter: the other direction" : fmt::format("lighter: later chunk (of {})", chunks), 0, "");
    entry("idle", 12 * kPixel,
          fmt::format("<rect class=\"idle\" fill=\"{}\" width=\"12\" height=\"12\"/>", hex(kLight.idle)));
    if (filled) {
      Lane swatch;
      swatch.pieces = {{0, 12}};
      entry("background job", 12 * kPixel, hatchSvg(swatch, {12, 12 * kPixel, 12 * kPixel, 1, 0, 0}));
    }
    if (bound)
      entry("lower bound", 16 * kPixel,
            fmt::format("<line class=\"mark\" stroke=\"{}\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\" x2=\"16\" "
                        "y1=\"6\" y2=\"6\"/>",
                        hex(kLight.mark)));
    if (decided)
      entry("decision", 6 * kPixel,
            fmt::format("<g class=\"decision\" fill=\"{0}\" stroke=\"{0}\">{1}</g>", hex(kLight.decision),
                        decisionSvg(3 * kPixel, 0, 12 * kPixel)));
    if (look.column > 0)
      entry("height: share of the time", 0, "");
  }

  const Picture &picture;
  Cent width, y = 0, at = 0;
  Time scale;
  std::string body;
  // What measure finds.
  std::array<bool, kLooks.size()> used = {};
  std::string longest; // name of a lane
  int64_t every = 1;
  int perPlace = 1;
  Cent pitch = 0, height = 0, left = 0, inner = 0;
  LaneLook look;
  bool bound = false, decided = false, filled = false;
};

} // namespace

std::string svg(const Picture &picture, const SvgOptions &options) { return Figure(picture, options).text(); }

} // namespace pipec::emit
