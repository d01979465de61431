// Which part of the step is on the canvas, and what stands where on it. Lengths are CSS pixels.

const GUTTER = 104, AXIS = 58, LABELS = 15, OVERVIEW = 40, MARGIN = 12;

/** Heights of the bands of a rank's row: at least, at most. */
const BANDS = {
  boxes: [5, 40],
  run: [5, 32],
  transfers: [6, 12],
  memory: [20, 64],
};
const BAND_GAP = 2, ROW_GAP = [1, 18];

class View {
  constructor() {
    this.width = this.height = 1;
    this.from = 0; // the times at the plot's edges
    this.to = 1;
    this.scroll = 0;
    this.tall = 1; // how much taller than what fits the user wants the rows
    this.bands = {boxes: true};
    this.axis = AXIS; // its height: more where decisions have their labels in it
  }

  setFrame(frame, bands) {
    this.end = Math.max(frame.end, frame.run?.length ?? 0, 1);
    this.rows = frame.ranks.length;
    this.axis = AXIS + (frame.run?.decisions.length ? LABELS : 0);
    this.bands = bands;
    this.layOut();
  }
  resize(width, height) {
    this.width = width;
    this.height = height;
    this.layOut();
  }
  get plotWidth() {
    return Math.max(1, this.width - GUTTER - MARGIN);
  }
  get plotHeight() {
    return Math.max(1, this.height - this.axis - OVERVIEW);
  }

  /** Between what a row needs at least and what it takes at most, as much as there is; what has to scroll has room. */
  layOut() {
    if (!this.rows) return;
    const shown = Object.keys(BANDS).filter((band) => this.bands[band]);
    const sum = (which) => shown.reduce((all, band) => all + BANDS[band][which], 0) + ROW_GAP[which] +
      BAND_GAP * (shown.length - 1);
    const least = sum(0), most = sum(1);
    const room = this.plotHeight / this.rows;
    const share = room < least ? 0.3 : Math.min(1, (room - least) / (most - least));
    const between = ([a, b]) => Math.floor((a + share * (b - a)) * this.tall);
    this.heights = {};
    this.tops = {};
    let y = 0;
    for (const band of shown) {
      this.tops[band] = y;
      this.heights[band] = between(BANDS[band]);
      y += this.heights[band] + BAND_GAP;
    }
    this.rowHeight = y - BAND_GAP + between(ROW_GAP);
    const left = this.plotHeight / this.rows - this.rowHeight; // by rounding down
    if (left > 0 && left < 1.5) this.rowHeight += left;
    this.clamp();
  }

  fit() {
    this.from = 0;
    this.to = this.end * 1.01;
    this.scroll = 0;
    this.tall = 1;
    this.layOut();
  }
  clamp() {
    const longest = this.end * 1.5, shortest = Math.max(this.end * 1e-6, 10);
    const centre = (this.from + this.to) / 2;
    const span = Math.min(longest, Math.max(shortest, this.to - this.from));
    const inside = Math.min(this.end, Math.max(0, centre)); // the step never leaves the picture
    this.from = inside - span / 2;
    this.to = inside + span / 2;
    this.scroll = Math.max(0, Math.min(this.scroll, this.rowHeight * this.rows - this.plotHeight));
  }

  get scale() {
    return this.plotWidth / (this.to - this.from);
  }
  x(time) {
    return GUTTER + (time - this.from) * this.scale;
  }
  time(x) {
    return this.from + (x - GUTTER) / this.scale;
  }
  y(rank, band = "boxes") {
    return this.axis + rank * this.rowHeight + this.tops[band] - this.scroll;
  }
  /** The rank and band at a height; band is null between two. */
  rowAt(y) {
    if (y < this.axis || y > this.height - OVERVIEW) return null;
    const rank = Math.floor((y - this.axis + this.scroll) / this.rowHeight);
    if (rank < 0 || rank >= this.rows) return null;
    const band = Object.keys(this.tops).find((each) => {
      const top = this.y(rank, each);
      return y >= top && y < top + this.heights[each];
    });
    return {rank, band: band ?? null};
  }
  /** A time, or the nearest of the step: what was decided between two steps has its line at an edge. */
  inStep(time) {
    return Math.min(this.end, Math.max(0, time));
  }
  get firstRow() {
    return Math.max(0, Math.floor(this.scroll / this.rowHeight));
  }
  get lastRow() {
    return Math.min(this.rows, Math.ceil((this.scroll + this.plotHeight) / this.rowHeight));
  }

  zoom(factor, x = GUTTER + this.plotWidth / 2) {
    const time = this.time(x);
    const longest = this.end * 1.5, shortest = Math.max(this.end * 1e-6, 10);
    const span = this.to - this.from;
    const scaled = Math.min(longest, Math.max(shortest, span / factor)) / span;
    this.from = time - (time - this.from) * scaled;
    this.to = time + (this.to - time) * scaled;
    this.clamp();
  }
  pan(dx, dy = 0) {
    const span = this.to - this.from;
    const centre = Math.min(this.end, Math.max(0, (this.from + this.to) / 2 + dx / this.scale));
    this.from = centre - span / 2;
    this.to = centre + span / 2;
    this.scroll += dy;
    this.clamp();
  }
  resizeRows(factor) {
    this.tall = Math.min(8, Math.max(1, this.tall * factor));
    this.layOut();
  }
  revealTime(from, to) {
    const margin = (this.to - this.from) * 0.08;
    if (to + margin > this.to) this.pan((to + margin - this.to) * this.scale);
    if (from - margin < this.from) this.pan((from - margin - this.from) * this.scale);
  }
  /** Moves as little as it takes to have a stretch of a row in the picture. */
  reveal(rank, from, to) {
    this.revealTime(from, to);
    const top = rank * this.rowHeight;
    this.scroll = Math.min(top, Math.max(this.scroll, top + this.rowHeight - this.plotHeight));
    this.clamp();
  }
}
