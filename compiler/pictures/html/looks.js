// Colours: those of work come with the page's data (Palette.h), those of the page and of idle time from its sheet.

const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
const hex = (rgb) => "#" + rgb.map((part) => part.toString(16).padStart(2, "0")).join("");

/** As in Palette.cpp: the colour of one of so many chunks on a rank. */
function shade(fill, chunk, chunks) {
  if (chunks < 2) return fill;
  const white = Math.trunc(((chunks === 2 ? 50 : 60) * chunk) / (chunks - 1));
  return hex(parts(fill).map((part) => part + Math.trunc(((255 - part) * white) / 100)));
}

/** As in Palette.cpp: black or white, whichever stands out more. */
function inkOn(fill) {
  const [red, green, blue] = parts(fill).map((part) => part / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return (1.05 / (luminance + 0.05)) * 1.5 >= (luminance + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

/** Causes of idle time differ in their pattern too, not in colour alone. */
const HATCHES = {link: "M0 8L8 0M-1 1L1 -1M7 9L9 7", buffer: "M0 0L8 8M-1 7L1 9M7 -1L9 1", memory: "M0 8L8 0M0 0L8 8",
                 transfer: "M0 4L8 4", sum: "M4 0L4 8"};

function hatch(name, ground, line) {
  if (!HATCHES[name]) return ground;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const context = tile.getContext("2d");
  context.fillStyle = ground;
  context.fillRect(0, 0, 8, 8);
  context.strokeStyle = line;
  context.stroke(new Path2D(HATCHES[name]));
  return context.createPattern(tile, "repeat");
}

/** The style sheet's colours, as they are now. */
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["page", "ink", "faint", "line", "grid", "mark", "bound", "decision", "limit", "font"];
  const theme = Object.fromEntries(names.map((name) => [name, get(name)]));
  theme.idle = IDLE.map(({name}) => get(`idle-${name}`));
  theme.hatch = IDLE.map(({name}) => hatch(name, get(`idle-${name}`), get(`hatch-${name}`)));
  return theme;
}
