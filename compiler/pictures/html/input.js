// What lies under the pointer, and what the pointer and the keyboard do.

/** The decisions whose line is at a point of the rows, or whose label is at one of the axis. */
function decisionsAt(x, y) {
  if (!frame || y > view.height - OVERVIEW) return [];
  const near = y < view.axis ? ({from, to}) => from - 4 <= x && x <= to + 4 : (line) => Math.abs(line.x - x) <= 2;
  return painter.decisionLines(view).find(near)?.decisions ?? [];
}

/** What lies under a point of the canvas: {type, index, rank, time, decisions}, or null. */
function markAt(x, y) {
  const row = view.rowAt(y), decisions = decisionsAt(x, y);
  if (decisions.length) return {type: "decision", index: -1, rank: row?.rank ?? 0, time: view.time(x), decisions};
  if (!frame || !row || !row.band || x < GUTTER || x > GUTTER + view.plotWidth) return null;
  const time = view.time(x), rank = frame.ranks[row.rank], near = 3 / view.scale;
  const mark = (type, index) => ({type, index, rank: row.rank, time});
  if (row.band === "memory") return mark("memory", -1);
  if (row.band === "transfers") {
    for (let box = rank.devices; box < rank.last; ++box)
      if (frame.boxes.start[box] <= time && time < frame.boxes.end[box]) return mark("collective", box);
    const links = painter.linksOf[row.rank];
    const link = links[Math.floor(((y - view.y(row.rank, "transfers")) / view.heights.transfers) * links.length)];
    if (!link) return null;
    const {start, arrival} = frame.transfers;
    const at = firstAfter(arrival, time - near, link.first, link.last);
    return at < link.last && start[at] <= time + near ? mark("transfer", at) : null;
  }
  const {start, end} = row.band === "run" ? frame.run.boxes : frame.boxes;
  // Of two that overlap the second is drawn below.
  const below = (band, box) => {
    const isPair = partOf({start, end}, box, rank.first, rank.devices) === 1;
    return isPair && y >= view.y(row.rank, band) + view.heights[band] / 2 ? box + 1 : box;
  };
  if (row.band === "run") {
    for (let box = rank.first; box < rank.devices; ++box)
      if (start[box] <= time && time < end[box]) return mark("run", below("run", box));
    return null;
  }
  const box = firstAfter(end, time, rank.first, rank.devices);
  if (box < rank.devices && start[box] <= time) return mark("box", below("boxes", box));
  const {idle} = all;
  const stretch = firstAfter(idle.end, time, idle.first[row.rank], idle.first[row.rank + 1]);
  return stretch < idle.first[row.rank + 1] && idle.start[stretch] <= time ? mark("idle", stretch) : null;
}

function withTransfers(mark) {
  if (mark?.type === "box" && !mark.transfers) mark.transfers = words.transfersOf(mark.index);
  if (mark?.type === "transfer") mark.transfers = [mark.index];
  return mark;
}

function showTip(mark, x, y) {
  const tip = element("tip"), said = words.of(mark);
  tip.replaceChildren();
  text(tip, "b", said.title);
  text(tip, "span", said.place, "place");
  const list = tip.appendChild(document.createElement("dl"));
  for (const [label, value] of said.rows) {
    text(list, "dt", label);
    text(list, "dd", value);
  }
  tip.hidden = false;
  const margin = 14, {offsetWidth: width, offsetHeight: height} = tip;
  const left = x + margin + width < view.width ? x + margin : Math.max(4, x - margin - width);
  const top = y + margin + height < view.height ? y + margin : Math.max(4, y - margin - height);
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
  return said;
}
function hideTip() {
  element("tip").hidden = true;
}

/** Keeps a mark, with the chain of its causes drawn; null lets go. */
function select(mark) {
  state.selected = withTransfers(mark);
  const item = !mark || mark.type === "memory" ? -1 : mark.type === "idle" ? all.idle.before[mark.index]
    : mark.type === "transfer" ? sideItem(frame, mark.index, true) : mark.index;
  state.chain = chainOf(frame, item);
  ask();
}

function point(x, y) {
  const mark = markAt(x, y);
  state.hovered = withTransfers(mark);
  if (mark) showTip(mark, x, y);
  else hideTip();
  ask();
}

// The pointer.

let drag = null; // {x, y, moved, overview}

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  drag = {x: event.offsetX, y: event.offsetY, moved: false, overview: event.offsetY > view.height - OVERVIEW};
  canvas.setPointerCapture(event.pointerId);
  if (drag.overview) moveOverview(event.offsetX);
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) return point(event.offsetX, event.offsetY);
  const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
  if (drag.overview) return moveOverview(event.offsetX);
  if (!drag.moved && Math.hypot(dx, dy) < 4) return;
  Object.assign(drag, {x: event.offsetX, y: event.offsetY, moved: true});
  canvas.classList.add("dragging");
  hideTip();
  view.pan(-dx, -dy);
  ask();
});
canvas.addEventListener("pointerup", (event) => {
  canvas.classList.remove("dragging");
  if (drag && !drag.moved && !drag.overview) select(markAt(event.offsetX, event.offsetY));
  drag = null;
});
canvas.addEventListener("pointercancel", () => (drag = null));
canvas.addEventListener("pointerleave", () => {
  state.hovered = null;
  hideTip();
  ask();
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const lines = event.deltaMode === 1 ? 16 : 1;
  if (event.shiftKey || event.offsetX < GUTTER) view.pan(0, (event.deltaY || event.deltaX) * lines);
  else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan(event.deltaX * lines);
  else view.zoom(Math.exp((-event.deltaY * lines) / 400), event.offsetX);
  hideTip();
  ask();
}, {passive: false});
canvas.addEventListener("dblclick", (event) => {
  view.zoom(2, event.offsetX);
  ask();
});

function moveOverview(x) {
  const time = ((x - GUTTER) / view.plotWidth) * view.end;
  view.pan((time - (view.from + view.to) / 2) * view.scale);
  ask();
}

// The keyboard.

/** Selects a box, brings it into the picture and says what it is. */
function goTo(box) {
  const rank = frame.boxes.group[box], {start, end} = frame.boxes;
  const collective = box >= frame.ranks[rank].devices;
  select({type: collective ? "collective" : "box", index: box, rank, time: start[box]});
  view.reveal(rank, start[box], end[box]);
  const rect = painter.rectOf(view, state.selected);
  element("said").textContent = spoken(showTip(state.selected, Math.max(GUTTER, rect.x) + 4, rect.y + rect.height));
}

function selectedBox() {
  const mark = state.selected;
  if (mark?.type === "idle") return Math.max(all.idle.before[mark.index], frame.ranks[mark.rank].first);
  return mark && mark.type !== "transfer" && mark.index >= 0 ? mark.index : -1;
}

function step(direction) {
  const box = selectedBox();
  if (box < 0) return goTo(frame.ranks.find((rank) => rank.last > rank.first)?.first ?? 0);
  const rank = frame.ranks[frame.boxes.group[box]];
  goTo(Math.min(rank.devices - 1, Math.max(rank.first, box + direction)));
}

function stepRank(direction) {
  const box = selectedBox();
  if (box < 0) return step(0);
  const to = Math.min(frame.ranks.length - 1, Math.max(0, frame.boxes.group[box] + direction)), rank = frame.ranks[to];
  if (rank.devices === rank.first) return;
  goTo(Math.min(rank.devices - 1, firstAfter(frame.boxes.end, frame.boxes.start[box], rank.first, rank.devices)));
}

/** From a box to the one that kept it from an earlier start, over a transfer where there is one between. */
function goToCause() {
  const box = selectedBox();
  if (box < 0) return step(0);
  for (let item = causeOf(frame, box).item; item >= 0; item = causeOf(frame, item).item)
    if (item < frame.boxes.count) return goTo(item);
}

function goToDecision() {
  const decisions = frame.run?.decisions ?? [];
  if (decisions.length === 0) return;
  const next = decisions[(decisions.indexOf(state.selected?.decisions?.at(-1)) + 1) % decisions.length];
  const at = view.inStep(next.at);
  view.revealTime(at, at);
  select({type: "decision", index: -1, rank: view.firstRow, time: at, decisions: [next]});
  element("said").textContent = spoken(showTip(state.selected, view.x(at), view.axis));
}

function toggle(what) {
  if (element(`show-${what}`).disabled) return;
  show[what] = !show[what];
  updateShown();
}

const KEYS = {
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => stepRank(-1), ArrowDown: () => stepRank(1),
  Enter: goToCause, n: goToDecision,
  w: () => view.zoom(1.4), "+": () => view.zoom(1.4), "=": () => view.zoom(1.4),
  s: () => view.zoom(1 / 1.4), "-": () => view.zoom(1 / 1.4),
  a: () => view.pan(-80), d: () => view.pan(80), "[": () => view.resizeRows(1 / 1.3), "]": () => view.resizeRows(1.3),
  "0": () => view.fit(), Home: () => view.fit(),
  c: () => toggle("path"), i: () => toggle("idle"), t: () => toggle("transfers"), m: () => toggle("memory"),
  l: () => setTheme(otherTheme()),
  "?": () => toggleKeys(),
  Escape: () => {
    select(null);
    hideTip();
    element("keys").hidden = true;
  },
};
document.addEventListener("keydown", (event) => {
  const inForm = event.target.closest("select") || (event.target.closest("button") && event.key === "Enter");
  if (!frame || inForm || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  if (!event.key.startsWith("Arrow") && event.key !== "Enter") hideTip();
  KEYS[event.key]();
  ask();
});
