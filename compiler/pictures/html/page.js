// What the page shows: a frame, and which parts of it.

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

async function showFrame(index) {
  const head = data.frames[index];
  if (!frames.has(index)) frames.set(index, await readFrame(head, data.variants[head.variant]));
  frame = frames.get(index);
  const idle = idleStretches(frame), path = criticalPath(frame);
  all = {idle, path, shares: idleShares(frame, idle)};
  words.setFrame(frame, idle, path);
  painter.setFrame(frame);
  Object.assign(state, {hovered: null, selected: null, chain: []});
  state.idleOf = frame.ranks.map((rank) => {
    const {start, end} = frame.boxes;
    let busy = 0, until = 0; // two that overlap count once
    for (let box = rank.first; box < rank.devices; ++box) {
      busy += Math.max(0, end[box] - Math.max(start[box], until));
      if (heldBy(frame, box) >= 0) busy -= frame.boxes.met[box] - frame.boxes.came[box];
      until = Math.max(until, end[box]);
    }
    return frame.end > 0 ? 1 - busy / frame.end : 0;
  });
  hideTip();
  chooseBands();
  fillFigures();
  updateShown();
  view.fit();
  canvas.setAttribute("aria-label", `timeline of ${nameOf(frame.variant)}: ${ranksText(frame)}, ` +
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
