// What stands around the picture: the figures above it, the legend below, the menus.

function text(parent, tag, content, className) {
  const child = parent.appendChild(document.createElement(tag));
  child.textContent = content;
  if (className) child.className = className;
  return child;
}

function fillFigures() {
  const {variant, ranks} = frame, list = element("figures");
  element("title").textContent = nameOf(variant);
  const shape = [ranksText(frame), countText(variant.stages, "stage") + (variant.copies > 1 ? " twice" : ""),
                 countText(variant.microbatches, "microbatch")];
  if (variant.schedule && variant.schedule !== nameOf(variant)) shape.unshift(variant.schedule);
  if (data.network) shape.push(`under ${data.network}`);
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
  if (data.network) figure(`step ${frame.step}`, timeText(frame.end), `${timeText(variant.makespan)} as planned`);
  else {
    figure("makespan", timeText(variant.makespan), bound(variant.makespan, variant.lowerBound, variant.bound));
    figure("span, step after step", timeText(variant.span),
      `${bound(variant.span, variant.spanLowerBound, variant.spanBound)}, bubble ${percentText(variant.spanBubble)}`);
  }
  const causes = all.shares.map((share, why) => [share, why]).filter(([share]) => share >= 5e-5)
    .sort(([a], [b]) => b - a);
  figure("bubble", percentText(data.network ? all.shares.reduce((sum, each) => sum + each, 0) : variant.bubble),
    causes.map(([share, why]) => `${IDLE[why].name} ${percentText(share, 1)}`).join(" · ") || "no idle time");
  const peaks = ranks.map((rank) => rank.peak), most = Math.max(...peaks);
  figure("peak memory", bytesText(most), `on ${rankName(frame, peaks.indexOf(most))}` +
    (variant.limit > 0 ? `, limit ${bytesText(ranks[peaks.indexOf(most)].limit)}` : ", no limit"));
  if (frame.run) {
    let worst = 0;
    for (let box = 0; box < frame.boxes.count; ++box) {
      const late = frame.run.boxes.end[box] - frame.boxes.end[box];
      if (Math.abs(late) > Math.abs(worst)) worst = late;
    }
    figure(`run, step ${frame.run.step}`, timeText(frame.run.length),
      `${differenceText(frame.run.length - frame.end)} to the prediction; ` +
      `an operation at most ${differenceText(worst)}`);
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
  const drawn = ({kind, cost}) => cost > 0 && (view.bands.transfers || !data.kinds[kind].transfers);
  const used = new Set(operations.filter(drawn).map(({kind}) => data.kinds[kind].look));
  const shaded = new Set(operations.filter(({kind}) => isOfMicrobatch(kind))
    .map(({kind}) => data.kinds[kind].look));
  const shades = (n) => (c) => {
    for (let chunk = 0; chunk < painter.chunks; ++chunk) {
      c.fillStyle = painter.fills[n * painter.chunks + chunk];
      c.fillRect((18 * chunk) / painter.chunks, 0, 18, 12);
    }
  };
  data.looks.forEach((look, n) => {
    if (used.has(n)) entry(look.name, shaded.has(n) ? shades(n) : fill(look.fill));
  });
  if (painter.lighter) text(list, "li", painter.lighter);
  all.shares.forEach((share, why) => {
    const name = why === DONE ? "done" : why === BEFORE ? "the step before" : `waits for ${IDLE[why].name}`;
    if (share > 0) entry(name, fill(painter.theme.hatch[why]));
  });
  if (frame.ranks.some((rank) => rank.pieces || rank.ran))
    entry("background job", (c) => Surface.hatch(c, painter.theme.ink, 0, 3, 18, 6));
  if (frame.variant.limit > 0 && view.bands.memory) entry("memory limit", line(painter.theme.limit, [4, 3]));
  if (show.path) entry("critical path", line(painter.theme.mark, []));
  if (frame.variant.lowerBound > 0 && frame.step === 0) entry("lower bound", line(painter.theme.bound, [4, 3]));
  if (frame.run?.decisions.length) entry("decision", line(painter.theme.decision, []));
  if (frame.variant.spanLowerBound > 0) entry("span bound", line(painter.theme.bound, [2, 2]));
}

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
  for (const [head, index] of list) text(element("step"), "option", String(head.run?.step ?? head.step)).value = index;
  element("step-label").hidden = list.length < 2;
}
element("variant").addEventListener("change", () => {
  fillSteps(Number(element("variant").value));
  window.pipec.ready = showFrame(Number(element("step").value));
});
element("step").addEventListener("change", () => (window.pipec.ready = showFrame(Number(element("step").value))));
