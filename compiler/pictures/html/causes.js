// What idle time is made of, what a step hangs on, and what memory is held when. All of it follows from what kept each
// instruction from an earlier start, which the simulator says.

const WHYS = {begin: 0, order: 1, data: 2, buffer: 3, memory: 4, queue: 5, launch: 6, sum: 7};

/** Why a device is idle, in the order of the legend: name, what a sentence says. */
const IDLE = [
  {name: "data", text: "work of another rank"},
  {name: "transfer", text: "data on their way"},
  {name: "link", text: "a busy link or communicator"},
  {name: "buffer", text: "a transfer buffer"},
  {name: "memory", text: "memory that a W gives back"},
  {name: "done", text: "the end of the step"},
  {name: "before", text: "what began in the step before"},
  {name: "sum", text: "another shard in a sum"},
];
const IDLE_OF_WHY = {[WHYS.data]: 0, [WHYS.queue]: 2, [WHYS.buffer]: 3, [WHYS.memory]: 4};
const TRANSFER = 1, DONE = 5, BEFORE = 6, SUM = 7;

/** An item as one number, so that chains are arrays of numbers: boxes first, then both sides of each transfer. */
const boxItem = (frame, box) => box;
const sideItem = (frame, transfer, received) => frame.boxes.count + 2 * transfer + (received ? 1 : 0);

function itemOf(frame, item) {
  if (item < frame.boxes.count) return {box: item, transfer: -1, received: false};
  const side = item - frame.boxes.count;
  return {box: -1, transfer: side >> 1, received: (side & 1) === 1};
}

const startOf = (frame, item) =>
  item < frame.boxes.count ? frame.boxes.start[item] : frame.transfers.start[(item - frame.boxes.count) >> 1];

function endOf(frame, item) {
  const {box, transfer, received} = itemOf(frame, item);
  if (box >= 0) return frame.boxes.end[box];
  return received ? frame.transfers.arrival[transfer] : frame.transfers.end[transfer];
}

/** {why, item}: item is -1 where nothing in the step is the cause. */
function causeOf(frame, item) {
  const {box, transfer} = itemOf(frame, item);
  const items = box >= 0 ? frame.boxes : frame.transfers;
  const index = box >= 0 ? box : transfer;
  const kind = items.causeKind[index];
  const by = items.cause[index];
  return {why: items.why[index], item: kind === NOTHING ? -1 : kind === BOX ? by : sideItem(frame, by, kind === RECV)};
}

/** The box of the shard that came last to an item's first sum and made it wait there; -1: it did not wait. */
const heldBy = (frame, item) => (frame.shards > 1 && item < frame.boxes.count ? frame.boxes.last[item] : -1);

/** Where its own part in a chain begins: when the shards met, or its start. */
const beginOf = (frame, item) => (heldBy(frame, item) >= 0 ? frame.boxes.met[item] : startOf(frame, item));

/** The items whose ends and starts meet, the last first, back to one without a cause. */
function chainOf(frame, item) {
  const chain = [];
  while (item >= 0) {
    chain.push(item);
    const held = heldBy(frame, item);
    item = held >= 0 ? held : causeOf(frame, item).item;
  }
  return chain;
}

/** The chain to the last end of the step: of a device's, or of a collective with replicas. */
function criticalPath(frame) {
  let last = -1;
  for (const rank of frame.ranks)
    for (let box = rank.first; box < rank.last; ++box)
      if (last < 0 || frame.boxes.end[box] > frame.boxes.end[last]) last = box;
  return last < 0 ? [] : chainOf(frame, last);
}

/**
 * The idle time of every rank, in stretches of one cause each: {start, end, why (an index into IDLE), before (the box
 * that starts at the end of it all, -1 after the last)}. A stretch before a box is parted where the chain of its causes
 * goes on: while a transfer runs it is what one waits for, before it its sender's work.
 */
function idleStretches(frame) {
  const {boxes} = frame;
  const start = [], end = [], why = [], before = [], of = []; // `of`: what runs meanwhile, an item or -1
  const first = frame.ranks.map((rank) => {
    const begin = start.length;
    let free = 0;
    for (let box = rank.first; box < rank.devices; ++box) {
      if (boxes.start[box] > free) {
        const mark = start.length;
        let until = boxes.start[box], reason = WHYS.data, item = box;
        while (until > free) {
          const held = item === box ? -1 : heldBy(frame, item);
          const cause = held >= 0 ? {why: WHYS.order, item: held} : causeOf(frame, item);
          if (cause.why !== WHYS.order && cause.why !== WHYS.begin) reason = cause.why;
          item = cause.item;
          const from = item < 0 ? free : Math.max(free, beginOf(frame, item));
          if (from === until && item >= 0) continue; // it took no time
          const flies = item >= boxes.count && reason === WHYS.data;
          start.push(from);
          end.push(until);
          why.push(item < 0 && frame.step > 0 ? BEFORE : flies ? TRANSFER : IDLE_OF_WHY[reason]);
          before.push(box);
          of.push(item);
          until = from;
        }
        for (const list of [start, end, why, before, of]) list.push(...list.splice(mark).reverse());
      }
      if (heldBy(frame, box) >= 0) {
        start.push(boxes.came[box]);
        end.push(boxes.met[box]);
        why.push(SUM);
        before.push(box);
        of.push(heldBy(frame, box));
      }
      free = Math.max(free, boxes.end[box]);
    }
    if (frame.end > free) {
      start.push(free);
      end.push(frame.end);
      why.push(DONE);
      before.push(-1);
      of.push(-1);
    }
    return begin;
  });
  first.push(start.length);
  return {start: Float64Array.from(start), end: Float64Array.from(end), why: Uint8Array.from(why),
          before: Int32Array.from(before), of: Int32Array.from(of), first};
}

/** How much of all ranks' time each cause of idling takes. */
function idleShares(frame, idle) {
  const sums = IDLE.map(() => 0);
  for (let i = 0; i < idle.why.length; ++i) sums[idle.why[i]] += idle.end[i] - idle.start[i];
  return sums.map((sum) => sum / Math.max(1, frame.end * frame.ranks.length));
}

/** Of a rank: `bytes[i]` are held from `time[i]` on, everything counted. */
function memoryCurve(frame, rank) {
  const {boxes, operations} = frame;
  const time = [0], bytes = [rank.base];
  let most = rank.base;
  for (let box = rank.first; box < rank.devices; ++box) {
    const operation = operations[boxes.operation[box]];
    for (const [change, at] of [[operation.taken, boxes.start[box]], [-operation.freed, boxes.end[box]]]) {
      if (change === 0) continue;
      const now = bytes.at(-1) + change;
      if (time.at(-1) === at) bytes[bytes.length - 1] = now;
      else {
        time.push(at);
        bytes.push(now);
      }
      most = Math.max(most, now);
    }
  }
  return {time: Float64Array.from(time), bytes: Float64Array.from(bytes), most};
}
