// The rows of a frame: what runs, what idles, transfers, memory. Only what is visible is drawn. A row with a box every
// few pixels is an image (density.js), else each box is a rectangle with its microbatch's number where that fits.

const DENSE = 3.5; // pixels a box, under which a row is an image

class Rows extends Surface {
  /** The boxes of a rank's devices, and what idles between them. */
  paintBoxes(view, rank, band, {start, end}, idle, dense) {
    const {first, devices: last} = this.frame.ranks[rank];
    const {from, to} = this.visible;
    let i = first, j = last;
    if (band === "boxes") {
      i = firstAfter(end, from, first, last);
      j = firstAfter(start, to, i, last);
    } else {
      // What ran may lack a few; it is in the same order but for what a weights queue fills in.
      while (i < last && !(end[i] > from)) ++i;
      while (j > i && !(start[j - 1] < to)) --j;
    }
    const y = this.snap(view.y(rank, band)), height = view.heights[band];
    if (j - i > view.plotWidth / DENSE) {
      dense.push({rank, start, end, first: i, last: j, idle, y, height, alpha: band === "run" ? 0.75 : 1});
      return;
    }
    const c = this.context;
    if (idle) this.paintIdle(view, rank, idle, y, height);
    const {pieces, ran} = this.frame.ranks[rank];
    this.paintPieces(view, (band === "run" ? ran : pieces) ?? [], y, height);
    let filled = "";
    const fits = [[], [], []]; // by part
    for (let box = i; box < j; ++box) {
      const left = this.snap(view.x(Math.max(start[box], from))), right = this.snap(view.x(Math.min(end[box], to)));
      if (!(end[box] > start[box])) continue; // it takes no time, or did not run
      const fill = this.fills[this.colours[box]];
      if (fill !== filled) c.fillStyle = filled = fill;
      const width = right - left, part = partOf({start, end}, box, first, last), tall = part ? height / 2 : height;
      const top = part === 2 ? y + height / 2 : y;
      c.fillRect(left, top, width > 3 ? width - 1 / this.ratio : Math.max(width, 1 / this.ratio), tall);
      if (tall < 9) continue;
      const [numberLeft, room] = idle && heldBy(this.frame, box) >= 0 ? this.widerPart(view, box, left, right) : [left, width];
      if (room >= 8) fits[part].push(box, numberLeft, room);
    }
    if (idle && this.frame.shards > 1) this.paintSums(view, i, j, y, height);
    fits.forEach((each, part) => {
      if (each.length) this.paintNumbers(each, part === 2 ? y + height / 2 : y, part ? height / 2 : height,
                                         (box) => view.x(end[box]) - view.x(start[box]));
    });
  }

  /** Microbatch numbers, and the letter of a kind where all of its boxes in the row have room for it. */
  paintNumbers(fits, y, height, widthOf) {
    const c = this.context, {boxes, operations} = this.frame;
    let narrowest = Infinity, size = Math.min(12, Math.floor(height * 0.8)), digit = 0, ink = "";
    for (let n = 0; n < fits.length; n += 3)
      if (isOfMicrobatch(operations[boxes.operation[fits[n]]].kind)) narrowest = Math.min(narrowest, fits[n + 2]);
    // One size for a row, as large as its narrowest box with a number allows.
    for (const least = Math.min(8, size); ; --size) {
      c.font = `500 ${size}px ${this.theme.font}`;
      digit = c.measureText("0").width;
      if (size <= least || this.longest * digit <= narrowest - 3) break;
    }
    // The narrowest of each kind, the part out of sight counted too.
    const room = new Float64Array(this.data.kinds.length).fill(Infinity);
    for (let n = 0; n < fits.length; n += 3) {
      const {kind} = operations[boxes.operation[fits[n]]];
      room[kind] = Math.min(room[kind], widthOf(fits[n]));
    }
    c.textAlign = "center";
    for (let n = 0; n < fits.length; n += 3) {
      const box = fits[n], width = fits[n + 2];
      const {kind} = operations[boxes.operation[box]];
      const counted = isOfMicrobatch(kind);
      const number = counted ? String(numberOf(this.frame, boxes.operation[box], boxes.microbatch[box])) : "";
      const name = counted ? this.data.kinds[kind].name : this.data.looks[this.data.kinds[kind].look].name;
      const letters = name.length + (counted ? this.longest : 0) + 1.5;
      let text = room[kind] > letters * digit ? name + number : number;
      if (text.length * digit > width - 2) text = number; // partly out of sight
      if (text === "" || Math.max(this.longest, text.length) * digit > width - 2) continue;
      if (ink !== this.inks[this.colours[box]]) c.fillStyle = ink = this.inks[this.colours[box]];
      c.fillText(text, fits[n + 1] + width / 2, y + height / 2 + 0.5);
    }
  }

  /** Left and width of what there is of a box before, or after, it waits in a sum. */
  widerPart(view, box, left, right) {
    const {came, met} = this.frame.boxes, clamped = (x) => Math.min(right, Math.max(left, this.snap(x)));
    const before = clamped(view.x(came[box])) - left, after = clamped(view.x(met[box]));
    return before > right - after ? [left, before] : [after, right - after];
  }

  /** What waits in a sum stands idle meanwhile. */
  paintSums(view, first, last, y, height) {
    const c = this.context, {from, to} = this.visible, {came, met} = this.frame.boxes;
    for (let box = first; box < last; ++box) {
      if (!(met[box] > came[box])) continue;
      const left = this.snap(view.x(Math.max(came[box], from))), right = this.snap(view.x(Math.min(met[box], to)));
      c.fillStyle = right - left >= 10 ? this.theme.hatch[SUM] : this.theme.idle[SUM];
      if (right > left) c.fillRect(left, y, right - left, height);
    }
  }

  paintIdle(view, rank, idle, y, height) {
    const c = this.context, {from, to} = this.visible;
    const last = idle.first[rank + 1];
    for (let i = firstAfter(idle.end, from, idle.first[rank], last); i < last && idle.start[i] < to; ++i) {
      const left = this.snap(view.x(Math.max(idle.start[i], from)));
      const right = this.snap(view.x(Math.min(idle.end[i], to)));
      c.fillStyle = right - left >= 10 ? this.theme.hatch[idle.why[i]] : this.theme.idle[idle.why[i]];
      c.fillRect(left, y, right - left, height);
    }
  }

  paintPieces(view, pieces, y, height) {
    for (const [start, end] of pieces) {
      if (end <= this.visible.from || start >= this.visible.to) continue;
      const left = view.x(Math.max(start, this.visible.from)), right = view.x(Math.min(end, this.visible.to));
      Surface.hatch(this.context, this.theme.ink, left, y + height / 4, right - left, height / 2);
    }
  }

  paintDense(view, rows) {
    if (rows.length === 0) return;
    const width = Math.max(1, Math.round(view.plotWidth * this.ratio));
    const height = Math.max(1, Math.round(rows[0].height * this.ratio));
    const density = this.density(width, view.from, width / (view.to - view.from));
    const image = new ImageData(width, height * rows.length), words = new Uint32Array(image.data.buffer);
    rows.forEach((row, n) => {
      density.clear();
      this.addTo(density, row);
      density.write(words, n * height, height);
    });
    this.strip.width = width;
    this.strip.height = image.height;
    this.strip.getContext("2d").putImageData(image, 0, 0);
    const c = this.context;
    c.imageSmoothingEnabled = false;
    rows.forEach((row, n) => {
      c.globalAlpha = row.alpha;
      c.drawImage(this.strip, 0, n * height, width, height, GUTTER, row.y, view.plotWidth, row.height);
    });
    c.globalAlpha = 1;
  }

  density(width, from, scale) {
    const fills = this.bins.map((colour) => this.fills[colour]);
    return new Density(width, from, scale, [...fills, ...this.theme.idle], this.theme.page);
  }

  addTo(density, row, weight = 1) {
    const sums = row.idle && this.frame.shards > 1 ? this.frame.boxes : null;
    for (let box = row.first; box < row.last; ++box) {
      const bin = this.binOf[this.colours[box]];
      const own = partOf(row, box, row.first, row.last) ? weight / 2 : weight;
      const waits = sums && sums.met[box] > sums.came[box];
      density.add(row.start[box], waits ? sums.came[box] : row.end[box], bin, own);
      if (waits) density.add(sums.met[box], row.end[box], bin, own);
    }
    if (!row.idle) return;
    const {start, end, why, first} = row.idle, last = first[row.rank + 1];
    const to = density.from + density.width / density.scale;
    for (let i = firstAfter(end, density.from, first[row.rank], last); i < last && start[i] < to; ++i)
      density.add(start[i], end[i], this.bins.length + why[i], weight);
  }

  /** A rank's transfers to others: a thin lane for each, solid while the wire is held, thin until the data arrive. */
  paintTransfers(view, rank) {
    const c = this.context, {transfers} = this.frame, {from, to} = this.visible;
    const links = this.linksOf[rank];
    const y = view.y(rank, "transfers"), each = view.heights.transfers / Math.max(1, links.length);
    const row = this.frame.ranks[rank];
    c.fillStyle = this.transferFill;
    links.forEach((link, n) => {
      const top = this.snap(y + n * each), height = Math.max(1, this.snap(each) - (each > 3 ? 1 : 0));
      let drawn = -Infinity;
      let i = firstAfter(transfers.arrival, from, link.first, link.last);
      for (; i < link.last && transfers.start[i] < to; ++i) {
        const left = this.snap(view.x(transfers.start[i]));
        const right = Math.max(left + 1 / this.ratio, this.snap(view.x(transfers.end[i])));
        if (right <= drawn) continue; // merged into the one before
        c.fillRect(left, top, right - left, height);
        const arrives = this.snap(view.x(transfers.arrival[i]));
        if (arrives > right + 1) c.fillRect(right, top + height / 2 - 0.5, arrives - right, 1);
        drawn = right;
      }
    });
    const {boxes} = this.frame;
    for (let box = row.devices; box < row.last; ++box) {
      if (boxes.end[box] < from || boxes.start[box] > to) continue;
      c.fillStyle = this.fills[this.colours[box]];
      const left = this.snap(view.x(boxes.start[box]));
      c.fillRect(left, y, Math.max(1, this.snap(view.x(boxes.end[box])) - left), view.heights.transfers);
    }
  }

  memoryY(view, rank, bytes) {
    return view.y(rank, "memory") + view.heights.memory * (1 - bytes / (this.mostMemory * 1.04));
  }

  paintMemory(view, rank) {
    const c = this.context, {theme} = this, {from, to} = this.visible;
    const {time, bytes} = this.memory[rank];
    const bottom = this.snap(view.y(rank, "memory") + view.heights.memory);
    const end = Math.min(view.x(to), view.x(this.frame.end));
    c.beginPath();
    let i = Math.max(0, firstAfter(time, from, 0, time.length) - 1);
    let x = Math.max(view.x(time[i]), view.x(from));
    c.moveTo(x, bottom);
    while (i < time.length && time[i] < to) {
      // The most that is held within a pixel stands for it.
      let most = bytes[i];
      const next = x + 1 / this.ratio;
      while (i + 1 < time.length && view.x(time[i + 1]) < next) most = Math.max(most, bytes[++i]);
      const right = i + 1 < time.length ? Math.min(end, view.x(time[i + 1])) : end;
      const top = this.memoryY(view, rank, most);
      c.lineTo(x, top);
      c.lineTo(right, top);
      x = right;
      ++i;
    }
    const outline = () => {
      c.strokeStyle = theme.faint;
      c.lineWidth = 1;
      c.stroke();
    };
    c.lineTo(x, bottom);
    c.closePath();
    c.fillStyle = theme.line;
    c.fill();
    if (view.heights.memory >= 16) outline();
    const {limit} = this.frame.ranks[rank];
    if (limit > 0) {
      const y = this.snap(this.memoryY(view, rank, limit)) + 0.5;
      this.dashed(theme.limit, [4, 3], 1, view.x(Math.max(0, from)), y, end, y);
    }
  }
}
