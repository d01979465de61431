// The page: what is shown, and what the user does to it. `window.pipec` is for tests and measurements.

const element = (id) => document.getElementById(id);
const data = JSON.parse(element("data").textContent);
const canvas = element("canvas");
const painter = new Painter(element("ground"), canvas, data);
const words = new Words(data);
const view = new View();
const frames = new Map(); // decoded ones, by index
const state = {path: null, idle: null, hovered: null, selected: null, chain: [], idleOf: []};
const show = {path: true, idle: true, transfers: true, memory: true};
let frame = null, all = null; // `all`: what is known of the frame, shown or not
let asked = false; // whether a picture is due
const timings = []; // of the latest pictures, in milliseconds

function text(parent, tag, content, className) {
  const child = parent.appendChild(document.createElement(tag));
  child.textContent = content;
  if (className) child.className = className;
  return child;
}

function paint() {
  asked = false;
  if (!frame) return;
  const begin = performance.now();
  painter.paint(view, state);
  timings.push(performance.now() - begin);
  if (timings.length > 1000) timings.shift();
}
function ask() {
  if (!asked) requestAnimationFrame(paint);
  asked = true;
}

// What is shown.

async function showFrame(index) {
  if (!frames.has(index)) frames.set(index, await readFrame(data.frames[index], data.variants[data.frames[index].variant]));
  frame = frames.get(index);
  const idle = idleStretches(frame), path = criticalPath(frame);
  all = {idle, path, shares: idleShares(frame, idle)};
  words.setFrame(frame, idle, path);
  painter.setFrame(frame);
  Object.assign(state, {hovered: null, selected: null, chain: []});
  state.idleOf = frame.ranks.map((rank) => {
    let busy = 0;
    for (let box = rank.first; box < rank.devices; ++box) busy += frame.boxes.end[box] - frame.boxes.start[box];
    return frame.end > 0 ? 1 - busy / frame.end : 0;
  });
  hideTip();
  chooseBands();
  fillFigures();
  updateShown();
  view.fit();
  canvas.setAttribute("aria-label", `timeline of ${nameOf(frame.variant)}: ${countText(frame.ranks.length, "rank")}, ` +
    `${countText(frame.boxes.count, "operation")}, ${timeText(frame.end)}`);
}

const nameOf = (variant) => variant.name || variant.schedule || "plan";

/** Lanes beside the boxes are there from the start where the rows stay tall enough to read. */
function chooseBands() {
  const room = view.plotHeight / frame.ranks.length;
  show.memory = painter.mostMemory > 1 && room >= 70;
  show.transfers = frame.transfers.count > 0 && room >= 34;
  element("show-memory").disabled = painter.mostMemory <= 1;
  element("show-transfers").disabled = frame.transfers.count === 0;
}

function updateShown() {
  for (const what of Object.keys(show)) element(`show-${what}`).setAttribute("aria-pressed", show[what]);
  state.path = show.path ? all.path : null;
  state.idle = show.idle ? all.idle : null;
  view.setFrame(frame, {boxes: true, run: frame.run !== null, transfers: show.transfers, memory: show.memory});
  painter.overviewOf = null;
  fillLegend();
  ask();
}

function fillFigures() {
  const {variant, ranks} = frame, list = element("figures");
  element("title").textContent = nameOf(variant);
  const shape = [countText(ranks.length, "rank"), countText(variant.stages, "stage"), countText(variant.microbatches, "microbatch")];
  if (variant.schedule && variant.schedule !== nameOf(variant)) shape.unshift(variant.schedule);
  element("shape").textContent = shape.join(" · ");
  list.replaceChildren();
  const figure = (name, value, note) => {
    const group = list.appendChild(document.createElement("div"));
    text(group, "dt", name);
    text(group, "dd", value);
    text(group, "dd", note.replace(/(\d) (?=[%a-zA-Z])/g, "$1\u00a0")); // a number stays with its unit
  };
  const bound = (time, least, argument) => least > 0
    ? `bound ${timeText(least)} (${argument}), gap ${percentText(time / least - 1)}` : "no bound known";
  figure("makespan", timeText(variant.makespan), bound(variant.makespan, variant.lowerBound, variant.bound));
  figure("span, step after step", timeText(variant.span),
    `${bound(variant.span, variant.spanLowerBound, variant.spanBound)}, bubble ${percentText(variant.spanBubble)}`);
  const causes = all.shares.map((share, why) => [share, why]).filter(([share]) => share >= 5e-5).sort(([a], [b]) => b - a);
  figure("bubble", percentText(variant.bubble),
    causes.map(([share, why]) => `${IDLE[why].name} ${percentText(share, 1)}`).join(" · ") || "no idle time");
  const peaks = ranks.map((rank) => rank.peak), most = Math.max(...peaks);
  figure("peak memory", bytesText(most), `on rank ${peaks.indexOf(most)}` +
    (variant.limit > 0 ? `, limit ${bytesText(variant.limit)}` : ", no limit"));
  if (frame.run) {
    let worst = 0;
    for (let box = 0; box < frame.boxes.count; ++box) {
      const late = frame.run.boxes.end[box] - frame.boxes.end[box];
      if (Math.abs(late) > Math.abs(worst)) worst = late;
    }
    figure(`run, step ${frame.run.step}`, timeText(frame.run.length),
      `${differenceText(frame.run.length - frame.end)} to the prediction; an operation at most ${differenceText(worst)}`);
  }
}

function fillLegend() {
  const list = element("legend"), {operations} = frame;
  list.replaceChildren();
  const entry = (name, draw) => {
    const item = list.appendChild(document.createElement("li"));
    const swatch = item.appendChild(document.createElement("canvas"));
    swatch.width = 36;
    swatch.height = 24;
    swatch.setAttribute("aria-hidden", "true");
    const context = swatch.getContext("2d");
    context.scale(2, 2);
    draw(context);
    text(item, "span", name);
  };
  const fill = (style) => (c) => {
    c.fillStyle = style;
    c.fillRect(0, 0, 18, 12);
  };
  const line = (colour, pattern) => (c) => {
    c.strokeStyle = colour;
    c.lineWidth = 2;
    c.setLineDash(pattern);
    c.beginPath();
    c.moveTo(0, 6);
    c.lineTo(18, 6);
    c.stroke();
  };
  const drawn = ({kind, cost}) => cost > 0 && (view.bands.transfers || (kind !== 4 && kind !== 5));
  const used = new Set(operations.filter(drawn).map(({kind}) => data.kinds[kind].look));
  data.looks.forEach((look, n) => {
    if (used.has(n)) entry(look.name, fill(look.fill));
  });
  all.shares.forEach((share, why) => {
    if (share > 0) entry(why === DONE ? "done" : `waits for ${IDLE[why].name}`, fill(painter.theme.hatch[why]));
  });
  if (frame.variant.limit > 0 && view.bands.memory) entry("memory limit", line(painter.theme.limit, [4, 3]));
  if (show.path) entry("critical path", line(painter.theme.mark, []));
  if (frame.variant.lowerBound > 0 && frame.step === 0) entry("lower bound", line(painter.theme.bound, [4, 3]));
  if (frame.variant.spanLowerBound > 0) entry("span bound", line(painter.theme.bound, [2, 2]));
}

// What is pointed at.

/** What lies under a point of the canvas: {type, index, rank, time}, or null. */
function markAt(x, y) {
  const row = view.rowAt(y);
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
  if (row.band === "run") {
    for (let box = rank.first; box < rank.devices; ++box) if (start[box] <= time && time < end[box]) return mark("run", box);
    return null;
  }
  const box = firstAfter(end, time, rank.first, rank.devices);
  if (box < rank.devices && start[box] <= time) return mark("box", box);
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
  state.chain = [];
  if (mark?.type === "box" || mark?.type === "run" || mark?.type === "collective") state.chain = chainOf(frame, mark.index);
  if (mark?.type === "transfer") state.chain = chainOf(frame, sideItem(frame, mark.index, true));
  if (mark?.type === "idle" && all.idle.before[mark.index] >= 0) state.chain = chainOf(frame, all.idle.before[mark.index]);
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
  if (event.shiftKey) view.pan(0, (event.deltaY || event.deltaX) * lines);
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

function toggle(what) {
  if (element(`show-${what}`).disabled) return;
  show[what] = !show[what];
  updateShown();
}

const KEYS = {
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => stepRank(-1), ArrowDown: () => stepRank(1),
  Enter: goToCause,
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

// Buttons, menus, themes.

for (const what of Object.keys(show)) element(`show-${what}`).addEventListener("click", () => toggle(what));
element("fit").addEventListener("click", () => {
  view.fit();
  ask();
});
function toggleKeys() {
  const keys = element("keys");
  keys.hidden = !keys.hidden;
  element("help").setAttribute("aria-expanded", String(!keys.hidden));
}
element("help").addEventListener("click", toggleKeys);

const system = matchMedia("(prefers-color-scheme: dark)");
const otherTheme = () => (document.documentElement.dataset.theme === "dark" ? "light" : "dark");
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  painter.readTheme();
  if (frame) fillLegend();
  ask();
}
element("theme").addEventListener("click", () => setTheme(otherTheme()));
system.addEventListener("change", () => setTheme(system.matches ? "dark" : "light"));

/** The frames of a variant: one, or a step each of a run. */
function framesOf(variant) {
  return data.frames.map((head, index) => [head, index]).filter(([head]) => head.variant === variant);
}
function fillMenus() {
  const variants = [...new Set(data.frames.map((head) => head.variant))];
  for (const index of variants) {
    const option = text(element("variant"), "option", nameOf(data.variants[index]));
    option.value = index;
  }
  element("variant-label").hidden = variants.length < 2;
  fillSteps(variants[0]);
}
function fillSteps(variant) {
  const list = framesOf(variant);
  element("step").replaceChildren();
  for (const [head, index] of list) text(element("step"), "option", String(head.step)).value = index;
  element("step-label").hidden = list.length < 2;
}
element("variant").addEventListener("change", () => {
  fillSteps(Number(element("variant").value));
  window.pipec.ready = showFrame(Number(element("step").value));
});
element("step").addEventListener("change", () => (window.pipec.ready = showFrame(Number(element("step").value))));

function resize() {
  const {clientWidth: width, clientHeight: height} = canvas;
  painter.resize(width, height);
  view.resize(width, height);
  ask();
}
new ResizeObserver(resize).observe(canvas);

window.pipec = {
  data, view, painter, state, words, timings, ready: null,
  get frame() {
    return frame;
  },
  get found() {
    return all;
  },
  markAt, rectOf: (mark) => painter.rectOf(view, mark), show: showFrame, paint,
};
document.documentElement.dataset.theme = system.matches ? "dark" : "light";
painter.readTheme();
resize();
fillMenus();
window.pipec.ready = showFrame(0).then(() => {
  paint();
  document.documentElement.dataset.ready = performance.now();
}, (error) => {
  element("shape").textContent = `this page cannot be shown: ${error.message}`;
  throw error;
});
