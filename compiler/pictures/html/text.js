// Times, sizes and shares as people read them: the same words as runtime/plan/Text.cpp.

const TIMES = [["s", 1e12], ["ms", 1e9], ["us", 1e6], ["ns", 1e3], ["ps", 1]];
const SIZES = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]];

/** The value in the largest unit that it reaches, with at most three decimals and no trailing zero. */
function inUnits(value, units) {
  const [name, size] = units.find(([, size]) => Math.abs(value) >= size) ?? units.at(-1);
  let number = value / size;
  // A number that lies between two of three decimals goes to the even one; only odd sixteenths do.
  if (Math.abs((number * 16) % 2) === 1) number = Math.round(number * 500) / 500;
  return `${Number(number.toFixed(3))} ${name}`;
}

const timeText = (picoseconds) => inUnits(picoseconds, TIMES);
const bytesText = (bytes) => inUnits(bytes, SIZES);
const percentText = (share, digits = 2) => `${(100 * share).toFixed(digits)} %`;

/** "1 rank", "8 microbatches". */
const countText = (count, what) => `${count} ${what}${count === 1 ? "" : what.endsWith("ch") ? "es" : "s"}`;

/** "+1.2 ms", "−30 us", "±0". */
function differenceText(picoseconds) {
  if (picoseconds === 0) return "±0";
  return (picoseconds > 0 ? "+" : "−") + timeText(Math.abs(picoseconds));
}

/** Ticks of an axis: the times of so many labels at most, 1, 2 or 5 of a power of ten apart. */
function tickStep(span, most) {
  const least = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least * (1 - 1e-9));
}
