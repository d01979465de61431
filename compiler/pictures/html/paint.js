// The whole picture: rows and marks with the axis, the ranks' names, and the step as a whole below.

const FEW = 12; // ranks that the overview shows apart

class Painter extends Marks {
  /** What does not change under the pointer is painted once, on a canvas of its own. */
  paint(view, state) {
    const {theme} = this;
    const now = [this.frame, theme, state.idle, state.path, view.from, view.to, view.scroll, view.rowHeight,
                 this.ground.width, this.ground.height, Object.keys(view.tops).join()];
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
      this.paintBoxes(view, rank, "boxes", frame.boxes, state.idle, dense);
      if (view.heights.run && frame.run)
        this.paintBoxes(view, rank, "run", frame.run.boxes, null, dense);
      if (view.heights.transfers) this.paintTransfers(view, rank);
      if (view.heights.memory) this.paintMemory(view, rank);
    }
    this.paintDense(view, dense);
    this.paintBounds(view);
    this.paintDecisions(view);
    if (state.path) this.paintChain(view, state.path, this.theme.mark, 2);
  }

  paintGrid(view) {
    const c = this.context;
    c.fillStyle = this.theme.grid;
    for (const time of this.ticks(view)) c.fillRect(this.snap(view.x(time)), view.axis, 1 / this.ratio, view.plotHeight);
  }

  paintAxis(view) {
    const c = this.context, {theme} = this;
    c.fillStyle = theme.page;
    c.fillRect(0, 0, view.width, view.axis - 4);
    c.font = `11px ${this.theme.font}`;
    c.fillStyle = theme.faint;
    c.textAlign = "center";
    for (const time of this.ticks(view)) {
      const x = view.x(time);
      if (x > GUTTER + 14 && x < view.width - 20) c.fillText(timeText(time), x, view.axis - 12);
      else if (time === 0 && x >= GUTTER) c.fillText("0", x, view.axis - 12);
    }
    // A line for each flag, so that none hides another.
    c.textAlign = "right";
    this.marks().forEach((mark, n) => {
      const x = this.snap(view.x(mark.time)), y = 8 + 12 * n;
      if (x < GUTTER || x > view.width - 4) return;
      c.fillStyle = mark.colour;
      c.fillText(mark.text, x - 5, y);
      c.fillRect(x, y - 5, 1, view.axis - y + 5);
    });
    this.paintDecisionLabels(view);
  }

  paintGutter(view, state) {
    const c = this.context, {theme, frame} = this;
    c.fillStyle = theme.page;
    c.fillRect(0, view.axis - 4, GUTTER - 1, view.plotHeight + 4);
    c.save();
    c.beginPath();
    c.rect(0, view.axis - 4, GUTTER, view.plotHeight + 4);
    c.clip();
    c.textAlign = "right";
    const right = GUTTER - 10, every = Math.ceil(9.5 / view.rowHeight);
    for (let rank = Math.ceil(view.firstRow / every) * every; rank < view.lastRow; rank += every) {
      const y = view.y(rank), height = view.heights.boxes;
      const two = height >= 30;
      c.fillStyle = theme.ink;
      c.font = `600 ${Math.min(frame.shards > 1 ? 11 : 12, Math.max(9, height))}px ${this.theme.font}`;
      c.fillText(rankName(frame, rank), right, y + height / 2 - (two ? 6 : 0));
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
      const width = Math.max(1, Math.round(view.plotWidth * this.ratio));
      this.drawOverview(width, Math.round(height * this.ratio), view.end, idle);
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
