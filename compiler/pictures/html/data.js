// The frames of the page (compiler/pictures/html/Frame.h is their format) as typed arrays. A frame is one simulated step of
// a variant, with the same step of a real run where there is one. Times are numbers of picoseconds.

/** Whether a kind is work on a microbatch of a stage; the rest is about a rank's step. */
const isOfMicrobatch = (kind) => data.kinds[kind].passes;
const NOTHING = 0, BOX = 1, SEND = 2, RECV = 3; // what a cause refers to

/** Bytes of a base64 text of zlib's format. */
async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads the columns one after the other. Numbers may pass 2^32, so no bit operations but on single bytes. */
class ColumnReader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  number() {
    let byte = this.bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127;
    for (let scale = 128; ; scale *= 128) {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }
  difference() {
    const value = this.number();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
  /** A column into an array that takes its type from `Type`. */
  column(Type, count, read) {
    const values = new Type(count);
    for (let i = 0; i < count; ++i) values[i] = read(i);
    return values;
  }
}

/** A microbatch as people count it: those of a second direction go on from the first's. */
const numberOf = (frame, operation, microbatch) => frame.operations[operation].firstNumber + microbatch;

/** What boxes and transfers have in common; `groups` says how many follow each other in each rank or link. */
function readItems(reader, head, count, groups) {
  const operation = reader.column(Uint32Array, count, () => reader.number());
  const group = new Uint32Array(count);
  let begin = 0;
  groups.forEach((size, g) => {
    group.fill(g, begin, begin + size);
    begin += size;
  });
  const last = new Map();
  const microbatch = reader.column(Int32Array, count, (i) => {
    const key = group[i] * head.operations.length + operation[i];
    const value = (last.get(key) ?? 0) + reader.difference();
    last.set(key, value);
    return value;
  });
  const gap = reader.column(Float64Array, count, () => reader.difference());
  const extra = reader.column(Float64Array, count, () => reader.difference());
  const start = new Float64Array(count), end = new Float64Array(count);
  let before = 0; // the end of the one before, in units
  for (let i = 0; i < count; ++i) {
    if (i === 0 || group[i] !== group[i - 1]) before = 0;
    const from = before + gap[i];
    before = from + Math.trunc(head.operations[operation[i]][3] / head.unit) + extra[i];
    start[i] = from * head.unit;
    end[i] = before * head.unit;
  }
  return {count, group, operation, microbatch, start, end};
}

function readCauses(reader, items) {
  const codes = reader.column(Uint8Array, items.count, () => reader.number());
  items.why = codes.map((code) => code >> 2);
  items.causeKind = codes.map((code) => code & 3);
  const last = [0, 0, 0, 0];
  items.cause = reader.column(Int32Array, items.count, (i) => {
    const kind = items.causeKind[i];
    return kind === NOTHING ? -1 : (last[kind] += reader.difference());
  });
}

/** Where ranks have shards: of boxes that waited in a sum when they came to it, when all met, and the box of the last. */
function readSums(reader, head, boxes, firsts) {
  boxes.came = Float64Array.from(boxes.end);
  boxes.met = Float64Array.from(boxes.end);
  boxes.last = new Int32Array(boxes.count).fill(-1);
  for (let i = 0; i < boxes.count; ++i) {
    const shard = reader.number() - 1;
    if (shard < 0) continue;
    const rank = boxes.group[i], last = rank - (rank % head.shards) + shard;
    boxes.came[i] -= reader.number() * head.unit;
    boxes.met[i] -= reader.number() * head.unit;
    boxes.last[i] = i - firsts[rank] + firsts[last]; // they run one program
  }
}

/** "rank 3", "rank 3 shard 0" */
const rankName = ({shards}, place) =>
  shards > 1 ? `rank ${Math.trunc(place / shards)} shard ${place % shards}` : `rank ${place}`;

/** "4 ranks", "4 ranks of 2 shards" */
const ranksText = ({shards, ranks}) =>
  countText(ranks.length / shards, "rank") + (shards > 1 ? ` of ${countText(shards, "shard")}` : "");

/** Starts and ends of what ran; NaN where it did not. */
function readRun(reader, unit, count) {
  const ran = reader.column(Uint8Array, count, () => reader.number());
  const start = new Float64Array(count).fill(NaN), end = new Float64Array(count).fill(NaN);
  let last = 0;
  for (let i = 0; i < count; ++i) if (ran[i]) start[i] = (last += reader.difference()) * unit;
  for (let i = 0; i < count; ++i) if (ran[i]) end[i] = start[i] + reader.difference() * unit;
  return {start, end};
}

/** A frame's arrays from its head, which the page holds as JSON. */
async function readFrame(head, variant) {
  const reader = new ColumnReader(await inflate(head.columns));
  const boxes = readItems(reader, head, head.boxes, head.ranks.map((rank) => rank.boxes + rank.collectives));
  readCauses(reader, boxes);
  let count = 0;
  const firsts = head.ranks.map((rank) => (count += rank.boxes + rank.collectives) - rank.boxes - rank.collectives);
  if (head.shards > 1) readSums(reader, head, boxes, firsts);
  const transfers = readItems(reader, head, head.transfers, head.links.map(([, , count]) => count));
  transfers.arrival = reader.column(Float64Array, head.transfers, (i) =>
    transfers.end[i] +
    (Math.trunc(head.operations[transfers.operation[i]][4] / head.unit) + reader.difference()) * head.unit);
  readCauses(reader, transfers);
  transfers.from = transfers.group.map((link) => head.links[link][0]);
  transfers.to = transfers.group.map((link) => head.links[link][1]);
  let run = null;
  if (head.run) {
    run = {step: head.run.step, length: head.run.length, decisions: head.run.decisions ?? [], boxes: readRun(reader, head.run.unit, head.boxes)};
    run.sends = readRun(reader, head.run.unit, head.transfers);
    run.recvs = readRun(reader, head.run.unit, head.transfers);
  }
  const operations = head.operations.map(([kind, of, stage, cost, latency, bytes, taken, freed]) =>
    ({kind, of, stage, cost, latency, bytes, taken, freed,
      firstNumber: Math.trunc(stage / variant.stagesOfCopy) * variant.microbatchesOfCopy}));
  const ranks = [];
  let first = 0;
  for (const rank of head.ranks) {
    ranks.push({...rank, first, devices: first + rank.boxes, last: first + rank.boxes + rank.collectives});
    first = ranks.at(-1).last;
  }
  let firstTransfer = 0;
  const links = head.links.map(([from, to, count]) => {
    const link = {from, to, first: firstTransfer, last: firstTransfer + count};
    firstTransfer = link.last;
    return link;
  });
  const end = boxes.end.reduce((latest, time) => Math.max(latest, time), 0);
  return {variant, step: head.step, shards: head.shards, operations, ranks, links, boxes, transfers, run, end};
}

/** Of two boxes of a row that overlap, a forward and a backward, the first is drawn above: 1, below: 2; 0: it is alone. */
function partOf({start, end}, box, first, last) {
  if (box > first && start[box - 1] < end[box] && start[box] < end[box - 1]) return 2;
  return box + 1 < last && start[box + 1] < end[box] && start[box] < end[box + 1] ? 1 : 0;
}

/** The first index in [from, to) whose value is over `time`, in an ascending array. */
function firstAfter(values, time, from, to) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (values[middle] > time) to = middle;
    else from = middle + 1;
  }
  return from;
}
