// What the page says of a thing: {title, place, rows: [[label, text], …]}. Texts go into the page as text, never as
// markup: names come from files.

const CRITICAL = ["critical path", "the step ends later if this does"];

class Words {
  constructor(data) {
    this.data = data;
  }
  setFrame(frame, idle, path) {
    this.frame = frame;
    this.idle = idle;
    this.onPath = new Set(path);
    this.idleBefore = new Map(); // box → its stretches
    for (let i = 0; i < idle.before.length; ++i) {
      const box = idle.before[i];
      if (box >= 0 && idle.why[i] !== SUM) this.idleBefore.set(box, [...(this.idleBefore.get(box) ?? []), i]);
    }
    this.memory = new Map();
    this.transferIndex = null;
  }

  rank(place) {
    return rankName(this.frame, place);
  }
  kind(operation) {
    return this.data.kinds[operation.kind].name;
  }
  /** "F stage 1 microbatch 2", as every message of pipec has it. */
  boxName(box) {
    const {boxes, operations} = this.frame;
    const operation = operations[boxes.operation[box]];
    if (!isOfMicrobatch(operation.kind)) return this.kind(operation);
    return `${this.kind(operation)} stage ${operation.stage} microbatch ${numberOf(this.frame, boxes.operation[box], boxes.microbatch[box])}`;
  }
  transferName(transfer) {
    const {transfers, operations} = this.frame;
    const operation = operations[transfers.operation[transfer]];
    const number = numberOf(this.frame, transfers.operation[transfer], transfers.microbatch[transfer]);
    return `${operation.of === 1 ? "F" : "B"} stage ${operation.stage} microbatch ${number}`;
  }
  /** "rank 1's F stage 1 microbatch 2", "the transfer of … from rank 0". */
  itemName(item, ownRank) {
    const {boxes, transfers} = this.frame;
    const {box, transfer} = itemOf(this.frame, item);
    if (transfer >= 0)
      return `${this.transferName(transfer)} from ${this.rank(transfers.from[transfer])} to ${this.rank(transfers.to[transfer])}`;
    return boxes.group[box] === ownRank ? this.boxName(box) : `${this.boxName(box)} on ${this.rank(boxes.group[box])}`;
  }

  span(start, end) {
    return `${timeText(start)} to ${timeText(end)} (${timeText(end - start)})`;
  }

  waitedFor(item, rank) {
    const cause = causeOf(this.frame, item);
    const by = cause.item < 0 ? "the step before" : this.itemName(cause.item, rank);
    switch (cause.why) {
      case WHYS.begin: return "nothing: it starts with the step";
      case WHYS.order: return `its turn: ${by} ends`;
      case WHYS.data: return `its data: ${by} ${itemOf(this.frame, cause.item).transfer >= 0 ? "arrives" : "ends"}`;
      case WHYS.buffer: return `a transfer buffer: ${by} frees it`;
      case WHYS.memory: return `memory: ${by} gives it back`;
      default: return `the link or communicator: ${by} ends`;
    }
  }

  /** The transfer that brings a box its data, and those that carry on what it makes. */
  transfersOf(box) {
    const {boxes, transfers, operations} = this.frame;
    const key = (rank, of, stage, microbatch) => `${rank} ${of} ${stage} ${microbatch}`;
    if (!this.transferIndex) {
      this.transferIndex = {out: new Map(), in: new Map()};
      for (let t = 0; t < transfers.count; ++t) {
        const {of, stage} = operations[transfers.operation[t]];
        this.transferIndex.out.set(key(transfers.from[t], of, stage, transfers.microbatch[t]), t);
        const taker = of === 1 ? stage + 1 : stage - 1;
        this.transferIndex.in.set(key(transfers.to[t], of, taker, transfers.microbatch[t]), t);
      }
    }
    const {kind, stage} = operations[boxes.operation[box]];
    return this.data.kinds[kind].payloads.map((each) => key(boxes.group[box], each, stage, boxes.microbatch[box]))
      .flatMap((each) => [this.transferIndex.in.get(each), this.transferIndex.out.get(each)])
      .filter((transfer) => transfer !== undefined);
  }

  memoryAt(rank, time) {
    if (!this.memory.has(rank)) this.memory.set(rank, memoryCurve(this.frame, this.frame.ranks[rank]));
    const curve = this.memory.get(rank);
    return curve.bytes[Math.max(0, firstAfter(curve.time, time, 0, curve.time.length) - 1)];
  }
  ofLimit(rank, bytes) {
    const {limit} = this.frame.ranks[rank];
    return limit > 0 ? `${bytesText(bytes)} of ${bytesText(limit)}` : bytesText(bytes);
  }

  ofBox(box) {
    const {boxes, operations, run} = this.frame;
    const rank = boxes.group[box], operation = operations[boxes.operation[box]];
    const rows = [["time", this.span(boxes.start[box], boxes.end[box])], ["waited for", this.waitedFor(box, rank)]];
    const stretches = this.idleBefore.get(box);
    if (stretches) {
      const idle = stretches.reduce((sum, i) => sum + this.idle.end[i] - this.idle.start[i], 0);
      rows.push(["idle before", `${timeText(idle)}: ${this.idleParts(stretches)}`]);
    }
    const last = heldBy(this.frame, box);
    if (last >= 0) rows.push(["waits in a sum", `${this.span(boxes.came[box], boxes.met[box])} for ${this.rank(boxes.group[last])}`]);
    const {taken, freed} = operation;
    if (taken > 0) rows.push(["holds", `${bytesText(taken)} from its start`]);
    if (freed > 0) rows.push(["frees", `${bytesText(freed)} at its end`]);
    const then = taken > 0 ? boxes.start[box] : boxes.end[box];
    if (taken + freed > 0) rows.push(["held then", this.ofLimit(rank, this.memoryAt(rank, then))]);
    if (operation.bytes > 0) rows.push(["bytes", bytesText(operation.bytes)]);
    if (this.onPath.has(box)) rows.push(CRITICAL);
    if (run) rows.push(...this.ofRun(run.boxes.start[box], run.boxes.end[box], boxes.start[box], boxes.end[box]));
    return {title: this.boxName(box), place: this.rank(rank), rows};
  }

  ofRun(start, end, simulatedStart, simulatedEnd) {
    if (Number.isNaN(start)) return [["ran", "not in the trace"]];
    return [["ran", this.span(start, end)],
            ["difference", `start ${differenceText(start - simulatedStart)}, ` +
                           `length ${differenceText(end - start - (simulatedEnd - simulatedStart))}`]];
  }

  ofTransfer(transfer) {
    const {boxes, transfers, operations, run} = this.frame;
    const operation = operations[transfers.operation[transfer]];
    const item = sideItem(this.frame, transfer, false);
    const rows = [["wire", this.span(transfers.start[transfer], transfers.end[transfer])],
                  ["arrives", timeText(transfers.arrival[transfer])], ["bytes", bytesText(operation.bytes)],
                  ["waited for", this.waitedFor(item, transfers.from[transfer])]];
    if (this.onPath.has(item) || this.onPath.has(item + 1)) rows.push(CRITICAL);
    if (run)
      rows.push(...this.ofRun(run.sends.start[transfer], run.recvs.end[transfer], transfers.start[transfer],
                              transfers.arrival[transfer]));
    return {title: this.transferName(transfer), rows,
            place: `${this.rank(transfers.from[transfer])} to ${this.rank(transfers.to[transfer])}`};
  }

  idleParts(stretches) {
    const sums = new Map();
    for (const i of stretches) {
      const why = this.idle.why[i];
      sums.set(why, (sums.get(why) ?? 0) + this.idle.end[i] - this.idle.start[i]);
    }
    return [...sums].sort(([, a], [, b]) => b - a)
      .map(([why, sum]) => (sums.size > 1 ? `${timeText(sum)} ` : "") + IDLE[why].text).join(", ");
  }

  ofIdle(index) {
    const {idle, frame} = this;
    const rank = idle.first.findIndex((first, r) => index >= first && index < idle.first[r + 1]);
    const box = idle.before[index];
    const rows = [["time", this.span(idle.start[index], idle.end[index])]];
    if (box < 0) rows.push(["waits for", "the other ranks to end the step"]);
    else {
      rows.push(["waits for", IDLE[idle.why[index]].text]);
      if (idle.of[index] >= 0) rows.push(["meanwhile", this.itemName(idle.of[index], rank)]);
      const at = idle.why[index] === SUM ? ["goes on", frame.boxes.met[box]] : ["runs next", frame.boxes.start[box]];
      rows.push([at[0], `${this.boxName(box)} at ${timeText(at[1])}`]);
    }
    return {title: "idle", place: this.rank(rank), rows};
  }

  ofMemory(rank, time) {
    const {static: fixed, workspace, rings, peak} = this.frame.ranks[rank];
    const held = this.memoryAt(rank, Math.max(0, Math.min(time, this.frame.end)));
    const rows = [["held", this.ofLimit(rank, held)], ["static", bytesText(fixed)]];
    if (workspace > 0) rows.push(["workspace", bytesText(workspace)]);
    if (rings > 0) rows.push(["transfer buffers", bytesText(rings)]);
    rows.push(["activations", bytesText(held - this.frame.ranks[rank].base)], ["peak", this.ofLimit(rank, peak)]);
    return {title: "memory", place: `${this.rank(rank)} at ${timeText(Math.max(0, time))}`, rows};
  }

  ofDecisions(decisions) {
    const [first] = decisions, {length} = this.frame.run;
    if (decisions.length > 1)
      return {title: countText(decisions.length, "decision"), place: "",
              rows: decisions.map((each) => [`step ${each.step}`, `${changeOf(each)} (${each.policy}): ${each.why}`])};
    const when = first.at < 0 ? `${timeText(-first.at)} before the step`
      : first.at > length ? `${timeText(first.at - length)} after the step` : timeText(first.at);
    return {title: changeOf(first), place: `from step ${first.step} on`,
            rows: [["decided", when], ["policy", first.policy], ["why", first.why]]};
  }

  /** Of a mark: {type, index, rank, time, decisions}. */
  of(mark) {
    switch (mark.type) {
      case "decision": return this.ofDecisions(mark.decisions);
      case "box": case "run": case "collective": return this.ofBox(mark.index);
      case "transfer": return this.ofTransfer(mark.index);
      case "idle": return this.ofIdle(mark.index);
      default: return this.ofMemory(mark.rank, mark.time);
    }
  }
}

const changeOf = ({from, to}) => `${from} → ${to}`;

/** From all that there is to say to the least. */
function decisionLabels(decisions) {
  if (decisions.length > 1) return [countText(decisions.length, "decision")];
  const [decision] = decisions, who = `step ${decision.step}: ${changeOf(decision)} (${decision.policy})`;
  return [`${who}: ${decision.why}`, who, changeOf(decision), decision.to];
}

/** The same as a line, for a screen reader. */
const spoken = ({title, place, rows}) =>
  `${place ? `${title}, ${place}` : title}. ${rows.map(([label, said]) => `${label} ${said}`).join(". ")}`;
