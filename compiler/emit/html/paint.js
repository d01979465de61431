// Draws a frame. Only what is visible is drawn. A row with more boxes than every few pixels is an image (density.js), else
// each box is a rectangle with its microbatch's number where that fits.

const DENSE = 3.5; // pixels a box, under which a row is an image
const FEW = 12;    // ranks that the overview shows apart

class Painter {
  /** `canvas` lies on `ground` and has what changes under the pointer. */
  constructor(ground, canvas, data) {
    this.ground = ground;
    this.canvas = canvas;
    this.data = data;
    this.strip = document.createElement("canvas"); // rows that are images
    this.overview = document.createElement("canvas");
    this.readTheme();
  }

  readTheme() {
    this.theme = readTheme();
    this.overviewOf = null;
  }

  setFrame(frame) {
    this.frame = frame;
    const chunks = Math.max(...frame.ranks.map((rank) => rank.stages.length));
    this.inks = []; // of each look and chunk
    this.fills = [];
    for (const look of this.data.looks)
      for (let chunk = 0; chunk < Math.max(1, chunks); ++chunk) {
        this.fills.push(shade(look.fill, chunk, chunks));
        this.inks.push(inkOn(this.fills.at(-1)));
      }
    this.colours = new Uint16Array(frame.boxes.count); // of each box, into fills
    for (const rank of frame.ranks) {
      const chunkOf = new Map(rank.stages.map((stage, chunk) => [stage, chunk]));
      const ofOperation = new Map();
      for (let box = rank.first; box < rank.last; ++box) {
        const operation = frame.boxes.operation[box];
        if (!ofOperation.has(operation)) {
          const {kind, stage} = frame.operations[operation];
          const chunk = isOfMicrobatch(kind) ? chunkOf.get(stage) ?? 0 : 0;
          ofOperation.set(operation, this.data.kinds[kind].look * Math.max(1, chunks) + chunk);
        }
        this.colours[box] = ofOperation.get(operation);
      }
    }
    this.bins = [...new Set(this.colours)].sort((a, b) => a - b); // those in use
    this.binOf = this.fills.map((_, colour) => this.bins.indexOf(colour));
    this.transferFill = this.data.looks[this.data.kinds[4].look].fill;
    this.linksOf = frame.ranks.map((_, rank) => frame.links.filter((link) => link.from === rank));
    this.memory = frame.ranks.map((rank) => memoryCurve(frame, rank));
    this.mostMemory = Math.max(...this.memory.map((curve) => curve.most), ...frame.ranks.map((rank) => rank.peak),
      frame.variant.limit, 1);
    this.overviewOf = null;
  }

  resize(width, height) {
    this.ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.ground, this.canvas]) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    this.painted = null;
    this.overviewOf = null;
  }

  /** To a whole pixel of the screen. */
  snap(x) {
    return Math.round(x * this.ratio) / this.ratio;
  }

  /** What does not change under the pointer is painted once, on a canvas of its own. */
  paint(view, state) {
    const {theme} = this;
    const now = [this.frame, theme, state.idle, state.path, view.from, view.to, view.scroll, view.rowHeight, this.ground.width,
                 this.ground.height, Object.keys(view.tops).join()];
    if (!this.painted || now.some((each, n) => each !== this.painted[n])) this.paintGround(view, state);
    this.painted = now;
    const c = (this.context = this.canvas.getContext("2d"));
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const marked = state.selected || state.hovered;
    if (marked || this.marked) c.clearRect(0, 0, view.width, view.height);
    this.marked = marked;
    this.clipped(view, () => {
      if (state.selected) this.paintChain(view, state.chain, theme.ink, 1.5);
      if (state.hovered) this.paintOutline(view, state.hovered, theme.ink, 1.5);
      if (state.selected) this.paintOutline(view, state.selected, theme.ink, 2.5);
    });
  }

  clipped(view, paint) {
    const c = this.context;
    c.save();
    c.beginPath();
    c.rect(GUTTER, AXIS, view.plotWidth, view.plotHeight);
    c.clip();
    paint();
    c.restore();
  }

  paintGround(view, state) {
    const {theme} = this;
    const c = (this.context = this.ground.getContext("2d"));
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.fillStyle = theme.page;
    c.fillRect(0, 0, view.width, view.height);
    c.textBaseline = "middle";
    this.paintGrid(view);
    this.clipped(view, () => this.paintRows(view, state));
    this.paintAxis(view);
    this.paintGutter(view, state);
    this.paintOverview(view, state.idle);
  }

  paintRows(view, state) {
    const {frame} = this;
    this.visible = {from: Math.max(view.from, -1), to: view.to};
    const dense = [];
    for (let rank = view.firstRow; rank < view.lastRow; ++rank) {
      const row = frame.ranks[rank];
      this.paintBoxes(view, rank, "boxes", frame.boxes.start, frame.boxes.end, row.first, row.devices, state.idle, dense);
      if (view.heights.run && frame.run)
        this.paintBoxes(view, rank, "run", frame.run.boxes.start, frame.run.boxes.end, row.first, row.devices, null, dense);
      if (view.heights.transfers) this.paintTransfers(view, rank);
      if (view.heights.memory) this.paintMemory(view, rank);
    }
    this.paintDense(view, dense);
    this.paintBounds(view);
    if (state.path) this.paintChain(view, state.path, this.theme.mark, 2);
  }

  paintGrid(view) {
    const c = this.context;
    c.fillStyle = this.theme.grid;
    for (const time of this.ticks(view)) c.fillRect(this.snap(view.x(time)), AXIS, 1 / this.ratio, view.plotHeight);
  }
  *ticks(view) {
    const step = tickStep(view.to - view.from, view.plotWidth / 110);
    for (let n = Math.ceil(Math.max(0, view.from) / step); n * step <= view.to; ++n) if (n * step <= view.end * 1.5) yield n * step;
  }

  /** The boxes of a rank in [first, last), and what idles between them. */
  paintBoxes(view, rank, band, start, end, first, last, idle, dense) {
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
    let filled = "";
    const fits = [];
    for (let box = i; box < j; ++box) {
      const left = this.snap(view.x(Math.max(start[box], from))), right = this.snap(view.x(Math.min(end[box], to)));
      if (!(end[box] > start[box])) continue; // it takes no time, or did not run
      const fill = this.fills[this.colours[box]];
      if (fill !== filled) c.fillStyle = filled = fill;
      const width = right - left;
      c.fillRect(left, y, width > 3 ? width - 1 / this.ratio : Math.max(width, 1 / this.ratio), height);
      if (width >= 8 && height >= 9) fits.push(box, left, width);
    }
    if (fits.length) this.paintNumbers(fits, y, height);
  }

  /** Microbatch numbers, and the kind's letter where there is room for it. */
  paintNumbers(fits, y, height) {
    const c = this.context, {boxes, operations} = this.frame;
    const longest = String(this.frame.variant.microbatches - 1).length;
    let narrowest = Infinity, size = Math.min(12, Math.floor(height * 0.8)), digit = 0, ink = "";
    for (let n = 2; n < fits.length; n += 3) narrowest = Math.min(narrowest, fits[n]);
    // One size for a row, as large as its narrowest box allows.
    for (const least = Math.min(8, size); ; --size) {
      c.font = `500 ${size}px ${this.theme.font}`;
      digit = c.measureText("0").width;
      if (size <= least || longest * digit <= narrowest - 3) break;
    }
    c.textAlign = "center";
    for (let n = 0; n < fits.length; n += 3) {
      const box = fits[n], width = fits[n + 2];
      const {kind} = operations[boxes.operation[box]];
      const counted = isOfMicrobatch(kind);
      const number = counted ? String(boxes.microbatch[box]) : "";
      const name = counted ? this.data.kinds[kind].name : this.data.looks[this.data.kinds[kind].look].name;
      const text = width > (name.length + number.length + 2) * digit ? name + number : number;
      if (text === "" || Math.max(longest, text.length) * digit > width - 2) continue;
      if (ink !== this.inks[this.colours[box]]) c.fillStyle = ink = this.inks[this.colours[box]];
      c.fillText(text, fits[n + 1] + width / 2, y + height / 2 + 0.5);
    }
  }

  paintIdle(view, rank, idle, y, height) {
    const c = this.context, {from, to} = this.visible;
    const last = idle.first[rank + 1];
    for (let i = firstAfter(idle.end, from, idle.first[rank], last); i < last && idle.start[i] < to; ++i) {
      const left = this.snap(view.x(Math.max(idle.start[i], from))), right = this.snap(view.x(Math.min(idle.end[i], to)));
      c.fillStyle = right - left >= 10 ? this.theme.hatch[idle.why[i]] : this.theme.idle[idle.why[i]];
      c.fillRect(left, y, right - left, height);
    }
  }

  paintDense(view, rows) {
    if (rows.length === 0) return;
    const width = Math.max(1, Math.round(view.plotWidth * this.ratio)), height = Math.round(rows[0].height * this.ratio);
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
    for (let box = row.first; box < row.last; ++box) density.add(row.start[box], row.end[box], this.binOf[this.colours[box]], weight);
    if (!row.idle) return;
    const to = density.from + density.width / density.scale, last = row.idle.first[row.rank + 1];
    for (let i = firstAfter(row.idle.end, density.from, row.idle.first[row.rank], last); i < last && row.idle.start[i] < to; ++i)
      density.add(row.idle.start[i], row.idle.end[i], this.bins.length + row.idle.why[i], weight);
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
      for (let i = firstAfter(transfers.arrival, from, link.first, link.last); i < link.last && transfers.start[i] < to; ++i) {
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
    if (this.frame.variant.limit > 0) {
      const y = this.snap(this.memoryY(view, rank, this.frame.variant.limit)) + 0.5;
      this.dashed(theme.limit, [4, 3], 1, view.x(Math.max(0, from)), y, end, y);
    }
  }

  dashed(colour, pattern, width, x1, y1, x2, y2) {
    const c = this.context;
    c.save();
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.setLineDash(pattern);
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(x2, y2);
    c.stroke();
    c.restore();
  }

  /** The marks of the axis: {time, text, colour, pattern}. */
  marks() {
    const {variant, run, step} = this.frame;
    const list = [{time: this.frame.end, text: `${step === 0 ? "makespan" : "predicted"} ${timeText(this.frame.end)}`,
                   colour: this.theme.ink, pattern: []}];
    if (variant.lowerBound > 0 && step === 0)
      list.push({time: variant.lowerBound, text: `lower bound ${timeText(variant.lowerBound)}`, colour: this.theme.bound,
                 pattern: [5, 4]});
    if (run) list.push({time: run.length, text: `run ${timeText(run.length)}`, colour: this.theme.faint, pattern: [1, 2]});
    return list;
  }

  paintBounds(view) {
    for (const mark of this.marks()) {
      const x = this.snap(view.x(mark.time)) + 0.5 / this.ratio;
      this.dashed(mark.colour, mark.pattern, mark.pattern.length ? 1.5 : 1, x, AXIS, x, AXIS + view.plotHeight);
    }
    // From each rank's own first start: some rank takes at least that long, however the steps follow each other.
    const {variant, ranks, boxes} = this.frame;
    if (!(variant.spanLowerBound > 0)) return;
    for (let rank = view.firstRow; rank < view.lastRow; ++rank) {
      if (ranks[rank].devices === ranks[rank].first) continue;
      const x = this.snap(view.x(boxes.start[ranks[rank].first] + variant.spanLowerBound)) + 0.5 / this.ratio;
      const y = view.y(rank);
      this.dashed(this.theme.bound, [2, 2], 1.5, x, y - 1, x, y + view.heights.boxes + 1);
    }
  }

  /** Causes as a line: along the bottom of what runs, across to the next rank with its transfer. */
  paintChain(view, chain, colour, width) {
    const c = this.context, {frame} = this, {from, to} = this.visible;
    const bottom = (rank) => this.snap(view.y(rank) + view.heights.boxes) - width / 2;
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.lineJoin = "round";
    c.beginPath();
    let x = NaN, y = NaN; // where the line ends; what goes on along a rank is one stroke
    for (let n = chain.length - 1; n >= 0; --n) {
      const begin = startOf(frame, chain[n]), end = endOf(frame, chain[n]);
      if (end < from) continue;
      if (begin > to) break;
      const {box, transfer} = itemOf(frame, chain[n]);
      const rank = box >= 0 ? frame.boxes.group[box] : frame.transfers.from[transfer];
      const left = view.x(Math.max(begin, from)), top = bottom(rank);
      if (Number.isNaN(x)) c.moveTo(left, top);
      else if (top !== y) {
        c.lineTo(x, y);
        c.lineTo(left, top);
      }
      x = view.x(Math.min(end, to));
      y = top;
      if (transfer < 0) continue;
      c.lineTo(left, top);
      y = bottom(frame.transfers.to[transfer]);
      c.lineTo(x, y);
    }
    c.lineTo(x, y);
    c.stroke();
  }

  /** What is pointed at: {type, index, rank}, and the transfers that it takes and gives. */
  paintOutline(view, mark, colour, width) {
    const c = this.context, {frame} = this;
    const rect = this.rectOf(view, mark);
    if (!rect) return;
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.strokeRect(rect.x, rect.y, Math.max(rect.width, 1), rect.height);
    for (const transfer of mark.transfers ?? []) {
      const x1 = view.x(frame.transfers.start[transfer]), x2 = view.x(frame.transfers.arrival[transfer]);
      const y1 = view.y(frame.transfers.from[transfer]) + view.heights.boxes / 2;
      const y2 = view.y(frame.transfers.to[transfer]) + view.heights.boxes / 2;
      this.arrow(x1, y1, x2, y2, colour);
    }
  }

  arrow(x1, y1, x2, y2, colour) {
    const c = this.context, bend = Math.max(10, Math.abs(x2 - x1) / 2), size = 6;
    c.lineWidth = 1.5;
    c.beginPath();
    c.moveTo(x1, y1);
    c.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    c.stroke();
    c.fillStyle = colour;
    c.beginPath();
    c.moveTo(x2 + 1, y2);
    c.lineTo(x2 - size, y2 - size / 2);
    c.lineTo(x2 - size, y2 + size / 2);
    c.fill();
    c.beginPath();
    c.arc(x1, y1, 2, 0, 7);
    c.fill();
  }

  rectOf(view, {type, index, rank}) {
    const {boxes, transfers, run} = this.frame;
    if (type === "transfer") {
      const n = this.linksOf[rank].findIndex((link) => index >= link.first && index < link.last);
      const each = view.heights.transfers / this.linksOf[rank].length;
      return this.rect(view, transfers.start[index], transfers.arrival[index], view.y(rank, "transfers") + n * each, each);
    }
    if (type === "collective")
      return this.rect(view, boxes.start[index], boxes.end[index], view.y(rank, "transfers"), view.heights.transfers);
    if (type === "run")
      return this.rect(view, run.boxes.start[index], run.boxes.end[index], view.y(rank, "run"), view.heights.run);
    if (type === "box") return this.rect(view, boxes.start[index], boxes.end[index], view.y(rank), view.heights.boxes);
    return null;
  }
  rect(view, start, end, y, height) {
    const x = view.x(start);
    return {x, y, width: view.x(end) - x, height};
  }

  paintAxis(view) {
    const c = this.context, {theme} = this;
    c.fillStyle = theme.page;
    c.fillRect(0, 0, view.width, AXIS - 4);
    c.font = `11px ${this.theme.font}`;
    c.fillStyle = theme.faint;
    c.textAlign = "center";
    for (const time of this.ticks(view)) {
      const x = view.x(time);
      if (x > GUTTER + 14 && x < view.width - 20) c.fillText(timeText(time), x, AXIS - 12);
      else if (time === 0 && x >= GUTTER) c.fillText("0", x, AXIS - 12);
    }
    // A line for each flag, so that none hides another.
    c.textAlign = "right";
    this.marks().forEach((mark, n) => {
      const x = this.snap(view.x(mark.time)), y = 8 + 12 * n;
      if (x < GUTTER || x > view.width - 4) return;
      c.fillStyle = mark.colour;
      c.fillText(mark.text, x - 5, y);
      c.fillRect(x, y - 5, 1, AXIS - y + 5);
    });
  }

  paintGutter(view, state) {
    const c = this.context, {theme, frame} = this;
    c.fillStyle = theme.page;
    c.fillRect(0, AXIS - 4, GUTTER - 1, view.plotHeight + 4);
    c.save();
    c.beginPath();
    c.rect(0, AXIS - 4, GUTTER, view.plotHeight + 4);
    c.clip();
    c.textAlign = "right";
    const right = GUTTER - 10, every = Math.ceil(9.5 / view.rowHeight);
    for (let rank = Math.ceil(view.firstRow / every) * every; rank < view.lastRow; rank += every) {
      const y = view.y(rank), height = view.heights.boxes;
      const two = height >= 30;
      c.fillStyle = theme.ink;
      c.font = `600 ${Math.min(12, Math.max(9, height))}px ${this.theme.font}`;
      c.fillText(`rank ${rank}`, right, y + height / 2 - (two ? 6 : 0));
      c.fillStyle = theme.faint;
      c.font = `11px ${this.theme.font}`;
      if (two) c.fillText(`${percentText(state.idleOf[rank], 1)} idle`, right, y + height / 2 + 8);
      if (view.heights.run >= 11 && frame.run) c.fillText("run", right, view.y(rank, "run") + view.heights.run / 2);
      if (view.heights.transfers >= 8 && this.linksOf[rank].length) {
        c.font = `9px ${this.theme.font}`;
        c.fillText("sends", right, view.y(rank, "transfers") + view.heights.transfers / 2);
      }
      if (view.heights.memory >= 16) {
        c.font = `10px ${this.theme.font}`;
        c.fillText(bytesText(frame.ranks[rank].peak), right, view.y(rank, "memory") + view.heights.memory / 2);
      }
    }
    c.restore();
  }

  /** The whole step at the bottom, with the window that the view shows of it. */
  paintOverview(view, idle) {
    const c = this.context, {theme, frame} = this;
    const top = view.height - OVERVIEW + 10, height = OVERVIEW - 14;
    c.fillStyle = theme.page;
    c.fillRect(0, view.height - OVERVIEW, view.width, OVERVIEW);
    if (!this.overviewOf) {
      this.drawOverview(Math.max(1, Math.round(view.plotWidth * this.ratio)), Math.round(height * this.ratio), view.end, idle);
      this.overviewOf = view;
    }
    c.imageSmoothingEnabled = false;
    c.drawImage(this.overview, GUTTER, top, view.plotWidth, height);
    const left = GUTTER + (Math.max(0, view.from) / view.end) * view.plotWidth;
    const right = GUTTER + (Math.min(view.end, view.to) / view.end) * view.plotWidth;
    c.globalAlpha = 0.7;
    c.fillStyle = theme.page;
    c.fillRect(GUTTER, top, left - GUTTER, height);
    c.fillRect(right, top, GUTTER + view.plotWidth - right, height);
    c.globalAlpha = 1;
    c.strokeStyle = theme.faint;
    c.lineWidth = 1;
    c.strokeRect(this.snap(left) + 0.5, top - 0.5, Math.max(3, right - left - 1), height + 1);
  }

  /** A lane for each of a few ranks; of many the share of what all do. */
  drawOverview(width, height, end, idle) {
    const density = this.density(width, 0, width / end), {ranks, boxes} = this.frame;
    const image = new ImageData(width, height), words = new Uint32Array(image.data.buffer);
    const few = ranks.length <= FEW;
    ranks.forEach((rank, r) => {
      this.addTo(density, {rank: r, start: boxes.start, end: boxes.end, first: rank.first, last: rank.devices, idle},
        few ? 1 : 1 / ranks.length);
      if (!few) return;
      const top = Math.round((height * r) / ranks.length);
      density.write(words, top, Math.round((height * (r + 1)) / ranks.length) - top);
      density.clear();
    });
    if (!few) density.write(words, 0, height);
    this.overview.width = width;
    this.overview.height = height;
    this.overview.getContext("2d").putImageData(image, 0, 0);
  }
}
