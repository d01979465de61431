// Rows whose boxes are narrower than a few pixels, as an image: each column of pixels is parted among what runs in its
// time, from the bottom in the order of the legend, idle time on top. No box is lost, no colour is made up by mixing.

/** "#0072b2" as a pixel of an ImageData's words. */
function pixelOf(colour) {
  const [red, green, blue] = parts(colour);
  return new Uint32Array(Uint8ClampedArray.of(red, green, blue, 255).buffer)[0];
}

class Density {
  /** Of `width` columns from a time on, so many to a picosecond; a bin each for colours and, last, the ground. */
  constructor(width, from, scale, colours, ground) {
    Object.assign(this, {width, from, scale});
    this.bins = colours.length;
    this.pixels = Uint32Array.from([...colours, ground].map(pixelOf));
    this.shares = new Float32Array(width * this.bins);
  }
  clear() {
    this.shares.fill(0);
  }
  add(start, end, bin, weight = 1) {
    const a = Math.max(0, (start - this.from) * this.scale), b = Math.min(this.width, (end - this.from) * this.scale);
    if (!(b > a)) return;
    const first = Math.floor(a), last = Math.ceil(b) - 1, {shares, bins} = this;
    if (first === last) shares[first * bins + bin] += (b - a) * weight;
    else {
      shares[first * bins + bin] += (first + 1 - a) * weight;
      for (let column = first + 1; column < last; ++column) shares[column * bins + bin] += weight;
      shares[last * bins + bin] += (b - last) * weight;
    }
  }
  /** What was added, as rows [top, top + height) of an image's words. */
  write(words, top, height) {
    const {width, bins, shares, pixels} = this;
    for (let column = 0, share = 0; column < width; ++column) {
      let sum = 0, at = (top + height - 1) * width + column, left = height; // rows to fill, upwards
      for (let bin = 0; bin < bins; ++bin) {
        const part = shares[share++];
        if (part === 0) continue;
        sum += part;
        const pixel = pixels[bin], until = Math.max(0, height - Math.round(sum * height));
        for (; left > until; --left, at -= width) words[at] = pixel;
      }
      for (; left > 0; --left, at -= width) words[at] = pixels[bins];
    }
  }
}
