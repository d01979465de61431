// What is drawn over the rows: bounds, chains of causes, what is pointed at.

class Marks extends Rows {
  /** The marks of the axis: {time, text, colour, pattern}. */
  marks() {
    const {variant, run, step} = this.frame;
    const {ink, faint, bound} = this.theme, list = [];
    const mark = (name, time, colour, pattern) => list.push({time, text: `${name} ${timeText(time)}`, colour, pattern});
    mark(step === 0 ? "makespan" : "predicted", this.frame.end, ink, []);
    if (variant.lowerBound > 0 && step === 0) mark("lower bound", variant.lowerBound, bound, [5, 4]);
    if (run) mark("run", run.length, faint, [1, 2]);
    return list;
  }

  paintBounds(view) {
    for (const mark of this.marks()) {
      const x = this.snap(view.x(mark.time)) + 0.5 / this.ratio;
      this.dashed(mark.colour, mark.pattern, mark.pattern.length ? 1.5 : 1, x, view.axis, x, view.axis + view.plotHeight);
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

  /**
   * Decisions in sight as lines: {x, decisions, label, from, to}. Those on one pixel are one line; the label is as much
   * as there is room for, to the right or the left of it, maybe nothing.
   */
  decisionLines(view) {
    const c = this.context, lines = [], gap = 6;
    c.font = `10px ${this.theme.font}`;
    for (const decision of this.frame.run?.decisions ?? []) {
      const x = view.x(view.inStep(decision.at)), last = lines.at(-1);
      if (x < GUTTER - 1 || x > GUTTER + view.plotWidth + 1) continue;
      if (last && x - last.x < 1) last.decisions.push(decision);
      else lines.push({x, decisions: [decision], label: ""});
    }
    let taken = GUTTER; // up to the last label or line
    lines.forEach((line, n) => {
      const until = n + 1 < lines.length ? lines[n + 1].x - gap : view.width - 4;
      line.from = line.to = line.x;
      for (const label of decisionLabels(line.decisions)) {
        const {width} = c.measureText(label), right = line.x + gap, left = line.x - gap - width;
        const from = right + width <= until ? right : left >= taken ? left : NaN;
        if (Number.isNaN(from)) continue;
        Object.assign(line, {label, left: from, from: Math.min(from, line.x), to: Math.max(from + width, line.x)});
        break;
      }
      taken = line.to + gap;
    });
    return lines;
  }

  paintDecisions(view) {
    this.context.fillStyle = this.theme.decision;
    for (const {x} of this.decisionLines(view)) this.context.fillRect(this.snap(x), view.axis, 1, view.plotHeight);
  }

  /** Above the ticks, with what points at the line. */
  paintDecisionLabels(view) {
    const c = this.context, y = view.axis - LABELS - 12;
    for (const {x, label, left} of this.decisionLines(view)) {
      const at = this.snap(x);
      c.fillStyle = this.theme.decision;
      c.fillRect(at, y - 5, 1, LABELS - 3); // not through the tick
      c.beginPath();
      c.moveTo(at - 3, y - 5);
      c.lineTo(at + 4, y - 5);
      c.lineTo(at + 0.5, y + 1);
      c.fill();
      c.textAlign = "left";
      if (label) c.fillText(label, left, y);
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
      const held = n > 0 && heldBy(frame, chain[n - 1]) === chain[n]; // then what held it goes on where they meet
      const begin = beginOf(frame, chain[n]), end = held ? beginOf(frame, chain[n - 1]) : endOf(frame, chain[n]);
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
}
