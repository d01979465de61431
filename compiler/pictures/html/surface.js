// What all drawing of a frame stands on: the canvases, the colours of its boxes, where things are.

class Surface {
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
    const lastMicrobatch = frame.boxes.microbatch.reduce((most, each) => Math.max(most, each), 0) +
      (frame.variant.copies - 1) * frame.variant.microbatchesOfCopy;
    this.longest = String(lastMicrobatch).length; // number, in digits
    this.chunks = Math.max(1, chunks);
    this.lighter = chunks < 2 ? "" : frame.variant.copies > 1 ? "lighter: the other direction"
      : `lighter: later chunk (of ${chunks})`;
    this.bins = [...new Set(this.colours)].sort((a, b) => a - b); // those in use
    this.binOf = this.fills.map((_, colour) => this.bins.indexOf(colour));
    this.transferFill = this.data.looks[this.data.kinds.find(({transfers}) => transfers).look].fill;
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

  clipped(view, paint) {
    const c = this.context;
    c.save();
    c.beginPath();
    c.rect(GUTTER, view.axis, view.plotWidth, view.plotHeight);
    c.clip();
    paint();
    c.restore();
  }

  /** Strokes that rise to the right, across a rectangle: pieces of a background job. */
  static hatch(c, colour, left, top, width, height) {
    c.save();
    c.beginPath();
    c.rect(left, top, width, height);
    c.clip();
    c.strokeStyle = colour;
    c.lineWidth = 1;
    c.beginPath();
    for (let x = left - height; x < left + width; x += 4) {
      c.moveTo(x, top + height);
      c.lineTo(x + height, top);
    }
    c.stroke();
    c.restore();
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

  *ticks(view) {
    const step = tickStep(view.to - view.from, view.plotWidth / 110);
    const last = Math.min(view.to, view.end * 1.5);
    for (let n = Math.ceil(Math.max(0, view.from) / step); n * step <= last; ++n) yield n * step;
  }

  rectOf(view, {type, index, rank}) {
    const {boxes, transfers, run} = this.frame;
    if (type === "transfer") {
      const n = this.linksOf[rank].findIndex((link) => index >= link.first && index < link.last);
      const each = view.heights.transfers / this.linksOf[rank].length;
      const top = view.y(rank, "transfers") + n * each;
      return this.rect(view, transfers.start[index], transfers.arrival[index], top, each);
    }
    if (type === "collective")
      return this.rect(view, boxes.start[index], boxes.end[index], view.y(rank, "transfers"), view.heights.transfers);
    const [of, band] = type === "run" ? [run?.boxes, "run"] : type === "box" ? [boxes, "boxes"] : [];
    if (!of) return null;
    const {first, devices} = this.frame.ranks[rank], part = partOf(of, index, first, devices);
    const height = part ? view.heights[band] / 2 : view.heights[band];
    return this.rect(view, of.start[index], of.end[index], view.y(rank, band) + (part === 2 ? height : 0), height);
  }

  rect(view, start, end, y, height) {
    const x = view.x(start);
    return {x, y, width: view.x(end) - x, height};
  }
}
