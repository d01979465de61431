"""The page of --emit=html in a real headless Chromium: it draws what the plan says, a tooltip says what the simulator
says, zoom, menus, themes and keys work, and the console stays silent. Where there is no Chromium the test is skipped,
which PIPEC_BROWSER_REQUIRED=1 (.ci/run) makes a failure."""
import json
import re
import sys
import unittest

import browser
import pages
import support

sys.path.append(str(support.SOURCE / "test" / "bench"))
import page  # noqa: E402  (what tools/soak holds to its limits)

TRANSFERS = ("send", "recv")
SPEC = """
pipec: 1
pipeline: {ranks: 4, microbatches: 8}
costs: {forward: 10ms, backward: 20ms, link: {latency: 1ms, bandwidth: 16GiB/s}}
tensors: {boundary: 16MiB, activation: 1GiB, weight_context: 256MiB, static: 2GiB}
memory: {limit: 16GiB}
schedule: 1f1b
"""


def time_text(ps):
    """As pipec writes it."""
    unit, size = next(((u, s) for u, s in (("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3)) if abs(ps) >= s), ("ps", 1))
    return f"{ps / size:.3f}".rstrip("0").rstrip(".") + " " + unit


def instructions(trace, step=0):
    """The instructions of a trace: rank, kind, stage, microbatch, start and end in picoseconds."""
    return [(e["pid"], e["args"]["kind"], e["args"]["stage"], e["args"]["microbatch"], round(e["ts"] * 1e6),
             round(e["ts"] * 1e6) + round(e["dur"] * 1e6))
            for e in trace["traceEvents"] if e["ph"] == "X" and e["args"]["step"] == step]


class Html(support.ToolTest):
    @classmethod
    def setUpClass(cls):
        if browser.find() is None:
            why = "no chromium and chromedriver here, so no page was opened (tools/setup installs them)"
            if browser.REQUIRED:
                raise AssertionError(why)
            raise unittest.SkipTest("SKIPPED: " + why)
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def page(self, spec, *arguments, command="compile", **settings):
        """Opens the page of a spec (or, with command="show", a plan)."""
        path = self.folder / "page.html"
        self.pipec(command, self.spec(spec), "--emit=html", "-o", path, *arguments, *support.sets(settings))
        self.browser.open(path)
        return path

    def predicted(self, spec, **settings):
        return json.loads(self.pipec("compile", self.spec(spec), "--emit=perfetto", *support.sets(settings)).stdout)

    def tearDown(self):
        if hasattr(self, "browser") and not self.skipped_console:
            self.assertEqual(self.browser.errors(), [])
        super().tearDown()

    skipped_console = False

    def rect(self, rank, index, kind="box"):
        """Where a rank's index-th box stands in the window, and the picoseconds of its start and end."""
        return self.browser.run("""
            const [rank, index, type] = arguments, {frame, rectOf} = window.pipec, box = frame.ranks[rank].first + index;
            const rect = rectOf({type, index: box, rank}), canvas = document.getElementById("canvas").getBoundingClientRect();
            return {x: canvas.x + rect.x, y: canvas.y + rect.y, width: rect.width, height: rect.height,
                    start: frame.boxes.start[box], end: frame.boxes.end[box], fill: window.pipec.painter.fills[
                        window.pipec.painter.colours[box]]};""", rank, index, kind)

    def tip(self, rect):
        """The tooltip under the middle of a place: its heading and rows."""
        self.browser.mouse("mouseMoved", rect["x"] + rect["width"] / 2, rect["y"] + rect["height"] / 2)
        return self.browser.wait("""
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            const tip = document.getElementById("tip");
            if (tip.hidden) return null;
            const labels = [...tip.querySelectorAll("dt")].map((each) => each.textContent);
            const texts = [...tip.querySelectorAll("dd")].map((each) => each.textContent);
            return {title: tip.querySelector("b").textContent, place: tip.querySelector(".place").textContent,
                    ...Object.fromEntries(labels.map((label, n) => [label, texts[n]]))};""")

    def boxes(self):
        """What the page has of each rank, as instructions() has it of a trace."""
        return [tuple(each) for each in self.browser.run("""
            const {frame, data} = window.pipec, {boxes, operations} = frame;
            return [...boxes.start.keys()].map((box) => {
              const {kind, stage} = operations[boxes.operation[box]];
              return [boxes.group[box], data.kinds[kind].name, stage, boxes.microbatch[box], boxes.start[box], boxes.end[box]];
            });""")]

    def transfers(self):
        return [tuple(each) for each in self.browser.run("""
            const {transfers, operations} = window.pipec.frame;
            return [...transfers.start.keys()].map((t) => [transfers.from[t], "send", operations[transfers.operation[t]].stage,
              transfers.microbatch[t], transfers.start[t], transfers.end[t]]);""")]

    def assert_draws(self, trace):
        expected = instructions(trace)
        self.assertEqual(sorted(self.boxes()), sorted(each for each in expected if each[1] not in TRANSFERS))
        self.assertEqual(sorted(self.transfers()), sorted(each for each in expected if each[1] == "send"))

    def test_draws_what_the_plan_says(self):
        for spec in ("1f1b", "v-half", "interleaved-1f1b", "1f1b-fill"):
            with self.subTest(spec=spec):
                self.page(support.SPECS / f"{spec}.yaml")
                self.assert_draws(self.predicted(support.SPECS / f"{spec}.yaml"))

    def test_boxes_stand_where_their_times_are(self):
        self.page(SPEC)
        first, last = self.rect(0, 0), self.rect(0, 15)
        scale = (last["x"] - first["x"]) / (last["start"] - first["start"])
        boxes = [(rank, self.rect(rank, index)) for rank in range(4) for index in range(16)]
        for rank, box in boxes:
            self.assertAlmostEqual(box["x"] - first["x"], (box["start"] - first["start"]) * scale, delta=0.01)
            self.assertAlmostEqual(box["width"], (box["end"] - box["start"]) * scale, delta=0.01)
            self.assertEqual(box["y"], next(each["y"] for of, each in boxes if of == rank))
        # A pixel at the left edge of each, over its text and without the line of the critical path.
        self.browser.keys("c")
        pixels = self.pixels([(box["x"] + 3, box["y"] + 3) for _, box in boxes])
        self.assertEqual(pixels, [box["fill"] for _, box in boxes])
        self.assertEqual({(round((box["end"] - box["start"]) / 1e9), box["fill"]) for _, box in boxes},
                         {(10, "#0072b2"), (20, "#e69f00")})  # F and BW

    def pixels(self, points):
        """Colours of the canvas, from a copy: reading often changes how a browser draws."""
        return self.browser.wait("""
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            const canvas = document.getElementById("ground"), at = canvas.getBoundingClientRect();
            const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
            copy.drawImage(canvas, 0, 0);
            return %s.map(([x, y]) => hex([...copy.getImageData(x - at.x, y - at.y, 1, 1).data.slice(0, 3)]));
            function hex(rgb) { return "#" + rgb.map((part) => part.toString(16).padStart(2, "0")).join(""); }
            """ % json.dumps(points))

    def test_tooltips_say_what_the_simulator_says(self):
        self.page(SPEC)
        # Rank 1's first F waits for rank 0's and 2 ms of transfer.
        tip = self.tip(self.rect(1, 0))
        self.assertEqual(tip, {"title": "F stage 1 microbatch 0", "place": "rank 1",
                               "time": "11.977 ms to 21.977 ms (10 ms)",
                               "waited for": "its data: F stage 0 microbatch 0 from rank 0 to rank 1 arrives",
                               "idle before": "11.977 ms: 10 ms work of another rank, 1.977 ms data on their way",
                               "holds": "1.25 GiB from its start", "held then": tip["held then"],
                               "critical path": "the step ends later if this does"})
        for rank, index in ((0, 3), (2, 5), (3, 9)):
            box = self.rect(rank, index)
            tip = self.tip(box)
            self.assertEqual(tip["place"], f"rank {rank}")
            self.assertEqual(tip["time"], f"{time_text(box['start'])} to {time_text(box['end'])} "
                                          f"({time_text(box['end'] - box['start'])})")
        # Its turn on the last rank, where nothing waits: BW of microbatch 0 after F of microbatch 0.
        self.assertEqual(self.tip(self.rect(3, 1))["waited for"], "its turn: F stage 3 microbatch 0 ends")
        idle = self.rect(1, 0)
        idle["x"] -= 10
        idle["width"] = 2
        self.assertEqual(self.tip(idle)["title"], "idle")

    def test_memory_is_the_reports(self):
        for spec in ("1f1b", "v-half", "zb-h1"):
            with self.subTest(spec=spec):
                self.page(support.SPECS / f"{spec}.yaml")
                report = self.report(support.SPECS / f"{spec}.yaml")
                self.assertEqual(self.browser.run("return window.pipec.painter.memory.map((curve) => curve.most)"),
                                 report["peak_bytes"])

    def test_words_are_the_reports(self):
        """Sizes between two of three decimals too, where printf and browsers round apart."""
        for sixteenths in (17, 19, 21, 23):
            text = SPEC.replace("static: 2GiB", "static: 0B").replace("boundary: 16MiB", "boundary: 0B").replace(
                "activation: 1GiB, weight_context: 256MiB", f"activation: {sixteenths * 16}MiB")
            self.page(text)
            peak = self.browser.run("return [...document.querySelectorAll('#figures dd')].map((each) => each.textContent)")
            report = self.pipec("report", self.spec(text)).stdout
            self.assertIn(re.search(r"memory +([\d.]+ \w+) ", report)[1], peak)
            self.assertIn(re.search(r"makespan +([\d.]+ \w+) ", report)[1], peak)

    def test_two_directions(self):
        """Microbatches of the second direction are counted on; the legend says which boxes are its."""
        self.page(support.SPECS / "chimera.yaml")
        self.assertIn("4 stages twice", self.browser.run("return document.getElementById('shape').textContent"))
        self.assertIn("lighter: the other direction", self.browser.run("return document.getElementById('legend').textContent"))
        # Numbers as large as their own boxes allow, whatever the slivers of the optimizer; letters for all of a kind or none.
        labels = self.browser.wait("""
            const texts = [], context = CanvasRenderingContext2D.prototype, {fillText} = context;
            context.fillText = function (text, ...more) {
              if (/^(F|BW|B|W)?\\d+$/.test(text)) texts.push([text, parseInt(this.font.match(/(\\d+)px/)[1])]);
              return fillText.call(this, text, ...more);
            };
            document.getElementById("theme").click();
            document.getElementById("theme").click();
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            context.fillText = fillText;
            return texts;""")
        self.assertGreater(len(labels), 4 * 16)
        self.assertGreater(min(size for _, size in labels), 9)
        for kind in ("F", "BW"):
            numbers = {text for text, _ in labels if text.startswith(kind)}
            self.assertIn(len(numbers), (0, 8), kind)
        titles = {self.tip(self.rect(rank, 0))["title"] for rank in range(4)}
        self.assertEqual(titles, {"F stage 0 microbatch 0", "F stage 1 microbatch 0", "F stage 4 microbatch 4",
                                  "F stage 5 microbatch 4"})
        said = json.loads(self.pipec("explain", support.SPECS / "chimera.yaml", "--rank", 2, "--at", "3ms", "--json").stdout)
        self.assertEqual(said["next"], "F stage 5 microbatch 4")

    def test_network(self):
        """A page of what a scenario would make of the plan: no bound, which holds for the plan's links, and its own bubble."""
        network = support.SPECS / "networks" / "slow-link.json"
        self.page(support.SPECS / "1f1b.yaml", "--network", network, command="show")
        figures = self.browser.run("return [...document.querySelectorAll('#figures div')].map((each) => each.textContent)")
        self.assertEqual(figures[0], "step 075.298 ms66\u00a0ms as planned")
        self.assertTrue(figures[1].startswith("bubble36.25"), figures[1])
        self.assertIn("under slow-link.json", self.browser.run("return document.getElementById('shape').textContent"))
        self.assertNotIn("bound", self.browser.run("return document.getElementById('legend').textContent"))

    def test_causes_are_those_of_explain(self):
        for name in ("1f1b", "v-half", "zb-v"):
            spec = support.SPECS / f"{name}.yaml"
            self.page(spec)
            idle = self.browser.run("""
                const {frame, found: {idle}, data} = window.pipec;
                return frame.ranks.flatMap((_, rank) => [...idle.start.keys()].slice(idle.first[rank], idle.first[rank + 1])
                  .filter((i) => idle.before[i] >= 0).map((i) => [rank, (idle.start[i] + idle.end[i]) / 2,
                    frame.boxes.start[idle.before[i]], data.whys[frame.boxes.why[idle.before[i]]]]));""")
            plan = self.compile(spec)
            for rank, at, until, why in idle[:: max(1, len(idle) // 8)]:
                with self.subTest(spec=name, rank=rank, at=at):
                    found = json.loads(self.pipec("explain", plan, "--rank", rank, "--at", f"{round(at)}ps", "--json").stdout)
                    self.assertFalse(found["busy"])
                    self.assertAlmostEqual(found["to_ms"], until / 1e9)
                    self.assertEqual(found["causes"][0]["because"], why)

    def test_every_example(self):
        """What idles and what runs fill the step, the critical path has no hole, and all of it is in the page."""
        for spec in sorted(support.SPECS.glob("*.yaml")):
            with self.subTest(spec=spec.name):
                self.page(spec)
                found = self.browser.run("""
                    const {frame, found} = window.pipec, {idle, path} = found;
                    const sum = (start, end) => start.reduce((all, from, n) => all + end[n] - from, 0);
                    let busy = 0, at = 0, holes = 0, pairs = 0; // of boxes that overlap
                    for (const rank of frame.ranks)
                      for (let box = rank.first, until = 0; box < rank.devices; ++box) {
                        const {start, end} = frame.boxes;
                        pairs += start[box] < until;
                        busy += Math.max(end[box] - Math.max(start[box], until), 0);
                        until = Math.max(until, end[box]);
                      }
                    const item = (each) => each < frame.boxes.count ? [frame.boxes.start[each], frame.boxes.end[each]]
                      : [frame.transfers.start[(each - frame.boxes.count) >> 1],
                         frame.transfers[(each - frame.boxes.count) & 1 ? "arrival" : "end"][(each - frame.boxes.count) >> 1]];
                    let before = -1; // on the path
                    for (const each of [...path].reverse()) {
                      // What another shard held in a sum counts from when that one came, in the middle of its own.
                      const held = frame.shards > 1 && each < frame.boxes.count && frame.boxes.last[each] >= 0;
                      const met = held ? frame.boxes.met[each] : 0;
                      holes += held ? !(item(before)[0] <= met && met <= item(before)[1]) : item(each)[0] !== at;
                      [before, at] = [each, item(each)[1]];
                    }
                    return {items: frame.boxes.count + 2 * frame.transfers.count, pairs, busy, holes, end: at,
                            // What waits in a sum (7) is idle time within what its shard runs.
                            idle: sum([...idle.start].map((from, n) => idle.why[n] === 7 ? idle.end[n] : from),
                                      idle.end), ranks: frame.ranks.length, makespan: frame.variant.makespan};""")
                report = self.report(spec)
                self.assertEqual(found["items"] + found["pairs"], sum(report["instructions"]))  # each pair has a header
                self.assertEqual(found["pairs"] > 0, "overlapped:" in spec.read_text())
                self.assertEqual(self.browser.run("return window.pipec.state.idleOf.every((share) => share >= 0)"), True)
                self.assertEqual(found["end"], found["makespan"])
                self.assertEqual(found["holes"], 0)
                self.assertEqual(found["busy"] + found["idle"], found["ranks"] * found["makespan"])
                self.assertAlmostEqual(found["makespan"] / 1e9, report["makespan_ms"])
                self.assertEqual(self.browser.errors(), [])

    def test_odd_sizes(self):
        """A step that takes no time, one of picoseconds, one of an hour: no figure is left without a number."""
        for forward, backward, ranks in (("0s", "0s", 1), ("7ps", "11ps", 2), ("100s", "333.123456789s", 3)):
            with self.subTest(forward=forward):
                spec = (f"pipec: 1\npipeline: {{ranks: {ranks}, microbatches: {2 * ranks - 1}}}\n"
                        f"costs: {{forward: {forward}, backward: {backward}}}\nschedule: 1f1b\n")
                self.page(spec)
                self.assert_draws(self.predicted(spec))
                self.assertNotRegex(self.browser.run("return document.body.innerText"), "NaN|undefined|Infinity")
                self.assertEqual(self.browser.run("return window.pipec.state.idleOf.every((share) => share >= 0)"), True)
                shape = self.browser.run("return document.getElementById('shape').textContent")
                self.assertEqual(shape.startswith("1 rank · 1 stage · 1 microbatch"), ranks == 1)

    def view(self):
        return self.browser.run("const {from, to, scroll} = window.pipec.view; return {from, to, scroll}")

    def test_zoom_and_pan(self):
        self.page(SPEC)
        canvas = self.browser.run("const r = document.getElementById('canvas').getBoundingClientRect(); return [r.x, r.y]")
        x, y = canvas[0] + 500, canvas[1] + 200
        time = lambda: self.browser.run("return window.pipec.view.time(arguments[0])", x - canvas[0])  # noqa: E731
        whole, under = self.view(), time()
        self.browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400)
        zoomed = self.view()
        self.assertLess(zoomed["to"] - zoomed["from"], 0.5 * (whole["to"] - whole["from"]))
        self.assertAlmostEqual(time() / under, 1, places=6)  # what is under the pointer stays there
        self.browser.drag(x, y, -100, 0)
        moved = self.view()
        self.assertAlmostEqual(moved["to"] - moved["from"], zoomed["to"] - zoomed["from"], delta=1)
        self.assertGreater(moved["from"], zoomed["from"])
        self.browser.keys("0")
        self.assertEqual(self.view(), whole)
        self.browser.keys("w")
        self.assertLess(self.view()["to"] - self.view()["from"], whole["to"] - whole["from"])
        self.browser.click("#fit")
        self.assertEqual(self.view(), whole)
        # Neither end of the step can be lost.
        self.browser.keys("d" * 60)
        self.assertLess(self.view()["from"], whole["to"])
        self.browser.keys("w" * 60)
        self.assertGreater(self.view()["to"], self.view()["from"])

    def test_keyboard(self):
        self.page(SPEC)
        said = lambda: self.browser.run("return document.getElementById('said').textContent")  # noqa: E731
        self.browser.keys("\ue014")  # right: the first box
        self.assertTrue(said().startswith("F stage 0 microbatch 0, rank 0. time 0 ps to 10 ms"), said())
        self.browser.keys("\ue014")
        self.assertTrue(said().startswith("F stage 0 microbatch 1, rank 0."), said())
        self.browser.keys("\ue015")  # down: what rank 1 runs then or next
        self.assertTrue(said().startswith("F stage 1 microbatch 0, rank 1."), said())
        self.browser.keys("\ue007")  # Enter: what it waited for
        self.assertTrue(said().startswith("F stage 0 microbatch 0, rank 0."), said())
        self.browser.keys("\ue00c")  # Escape
        self.assertIsNone(self.browser.run("return window.pipec.state.selected"))
        for key, what in (("c", "path"), ("i", "idle"), ("t", "transfers"), ("m", "memory")):
            before = self.browser.run("return document.getElementById('show-' + arguments[0]).ariaPressed", what)
            self.browser.keys(key)
            after = self.browser.run("return document.getElementById('show-' + arguments[0]).ariaPressed", what)
            self.assertEqual({before, after}, {"true", "false"})

    def test_variants(self):
        spec = support.SPECS / "kfkb-variants.yaml"
        self.page(spec)
        variants = self.report(spec)["variants"]
        options = self.browser.run("return [...document.querySelectorAll('#variant option')].map((each) => each.textContent)")
        self.assertEqual(options, [each["variant"] for each in variants])
        for index, each in enumerate(variants):
            self.browser.wait("""const menu = document.getElementById("variant"); menu.value = %d;
                menu.dispatchEvent(new Event("change")); await window.pipec.ready;""" % index)
            shown = self.browser.run("return [document.getElementById('title').textContent, window.pipec.frame.end,"
                                     "document.querySelector('#figures dd').textContent]")
            self.assertEqual(shown[0], each["variant"])
            self.assertAlmostEqual(shown[1] / 1e9, each["makespan_ms"])
            self.assertEqual(shown[2], time_text(each["makespan_ms"] * 1e9))

    def test_light_and_dark(self):
        def lightness():
            corner = self.browser.run("""
                const at = document.getElementById("canvas").getBoundingClientRect();
                return [at.x + 2, at.y + 2];""")
            return max(bytes.fromhex(self.pixels([corner])[0][1:]))

        path = self.page(SPEC)
        self.assertGreater(lightness(), 240)
        self.browser.click("#theme")
        self.assertLess(lightness(), 40)
        self.browser.click("#theme")
        self.assertGreater(lightness(), 240)
        features = lambda value: self.browser.command(  # noqa: E731
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])
        features("dark")
        self.addCleanup(features, "light")
        self.browser.open(path)
        self.assertLess(lightness(), 40)

    def test_a_run_under_the_simulated_one(self):
        plan = self.compile(SPEC)
        trace = self.folder / "trace.json"
        self.piperun(plan, "--local", "--steps", 2, "--trace", trace)
        self.page(plan, "--trace", trace, command="show")
        events = json.loads(trace.read_text())
        for step in (0, 1):
            self.browser.wait("""const menu = document.getElementById("step"); menu.selectedIndex = %d;
                menu.dispatchEvent(new Event("change")); await window.pipec.ready;""" % step)
            ran = [each for each in instructions(events, step) if each[1] not in TRANSFERS]
            begin = min(each[4] for each in ran)
            shown = self.browser.run("const {start, end} = window.pipec.frame.run.boxes; return [[...start], [...end]]")
            boxes = {each[:4]: n for n, each in enumerate(self.boxes())}
            self.assertEqual(len(boxes), len(ran))
            for each in ran:
                self.assertEqual(shown[0][boxes[each[:4]]], each[4] - begin)
                self.assertEqual(shown[1][boxes[each[:4]]], each[5] - begin)
        rect = self.rect(2, 3, "run")
        tip = self.tip(rect)
        real = next(each for each in ran if each[0] == 2 and f"{each[1]} stage {each[2]} microbatch {each[3]}" == tip["title"])
        self.assertEqual(tip["ran"], f"{time_text(real[4] - begin)} to {time_text(real[5] - begin)} "
                                     f"({time_text(real[5] - real[4])})")
        late, longer = re.fullmatch(r"start (\S+(?: \S+)?), length (\S+(?: \S+)?)", tip["difference"]).groups()
        sign = lambda ps: "±0" if ps == 0 else ("+" if ps > 0 else "−") + time_text(abs(ps))  # noqa: E731
        self.assertEqual(late, sign(real[4] - begin - rect["start"]))
        self.assertEqual(longer, sign(real[5] - real[4] - (rect["end"] - rect["start"])))

    def test_decisions_are_marks(self):
        plan, trace = self.compile(SPEC), self.folder / "trace.json"
        run = json.loads(self.pipec("compile", self.spec(SPEC), "--emit=perfetto").stdout)
        run["traceEvents"] += [{"ph": "i", "s": "g", "name": "mark", "cat": "decision", "ts": ms * 1000, "args": {
            "step": step, "from": "k=1", "to": to, "policy": "now", "why": why}} for ms, step, to, why in (
                (30, 1, "k=2", "<b>80 us a step</b>"), (150, 2, "k=4", "late"), (150, 2, "k=1", "again"), (9000, 3, "k=2", "after"))]
        trace.write_text(json.dumps(run))
        self.page(plan, "--trace", trace, command="show")
        self.assertIn("decision", self.browser.run("return document.getElementById('legend').textContent"))
        lines = self.browser.run("""const {view, painter} = window.pipec, canvas = document.getElementById("canvas");
            const {x, y} = canvas.getBoundingClientRect();
            return painter.decisionLines(view).map((line) => [line.x + x, y + view.axis, line.label, view.time(line.x)])""")
        self.assertEqual(len(lines), 3)
        self.assertEqual(lines[0][2], "step 1: k=1 → k=2 (now): <b>80 us a step</b>")
        self.assertEqual(lines[1][2], "2 decisions")
        self.assertAlmostEqual(lines[0][3], 30e9, delta=1e6)
        self.assertAlmostEqual(lines[2][3], self.browser.run("return window.pipec.frame.end"), delta=1e6)  # at the edge
        at = lambda line, down: {"x": line[0], "y": line[1] + down, "width": 0, "height": 0}  # noqa: E731
        for down in (-20, 3, 60):  # its label, a box, between two ranks
            self.assertEqual(self.tip(at(lines[0], down)), {"title": "k=1 → k=2", "place": "from step 1 on", "decided": "30 ms",
                                                            "policy": "now", "why": "<b>80 us a step</b>"})
        self.assertEqual(self.tip(at(lines[1], 3))["title"], "2 decisions")
        for said in ("k=1 → k=2, from step 1 on. decided 30 ms.", "k=1 → k=4", "k=1 → k=1", "k=1 → k=2, from step 3 on."):
            self.browser.keys("n")
            self.assertIn(said, self.browser.run("return document.getElementById('said').textContent"))

    def test_names_are_text(self):
        path = self.page(SPEC)
        name = '<img src=x onerror="window.taken = 1">'
        written = '"name":' + json.dumps(name).replace("<", "\\u003c")
        path.write_text(path.read_text(encoding="utf-8").replace('"name":"1f1b"', written), encoding="utf-8")
        self.browser.open(path)
        self.assertEqual(self.browser.run("return document.getElementById('title').textContent"), name)
        self.assertIsNone(self.browser.run("return window.taken ?? null"))

    def test_names_for_screen_readers(self):
        self.page(support.SPECS / "kfkb-variants.yaml")
        unnamed = self.browser.run("""return [...document.querySelectorAll("button, select, canvas[tabindex], [role]")]
            .filter((each) => !(each.ariaLabel || each.textContent.trim() || each.labels?.length || each.hidden))
            .map((each) => each.outerHTML)""")
        self.assertEqual(unnamed, [])
        label = self.browser.run("return document.getElementById('canvas').getAttribute('aria-label')")
        self.assertRegex(label, r"^timeline of k=1: 4 ranks, \d+ operations, [\d.]+ ms$")

    def test_needs_no_network(self):
        self.page(SPEC)
        self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').map((each) => each.name)"), [])

    def test_a_damaged_page_says_so(self):
        self.skipped_console = True  # the error that is looked for stands there
        path = self.page(SPEC)
        damaged = re.sub(r'"columns":"[^"]{40}', '"columns":"' + "A" * 40, path.read_text(encoding="utf-8"))
        path.write_text(damaged, encoding="utf-8")
        with self.assertRaises(RuntimeError):
            self.browser.open(path)
        self.assertRegex(self.browser.run("return document.getElementById('shape').textContent"), "this page cannot be shown")
        self.browser.errors()

    def test_pictures_of_pages_are_current(self):
        with browser.Browser(*pages.SIZE) as chromium:
            self.assertEqual(list(pages.stale(chromium)), [], "take them anew: cmake --build BUILD --target update-gallery")

    def test_a_picture_of_another_page_is_not_current(self):
        folder = self.folder
        with browser.Browser(*pages.SIZE) as chromium:
            one = pages.take(chromium, pages.PAGES["page-dualpipe"], folder)
            for other in (("specs/dualpipe.yaml", "--set", "costs.link.latency=1ms"), ("specs/chimera.yaml",)):
                found = pages.take(chromium, pages.Page("", other), folder)
                self.assertGreater(pages.difference(chromium, one, found), 2 * pages.ALIKE)
            dark = pages.take(chromium, pages.Page("", ("specs/dualpipe.yaml",), True), folder)
            self.assertGreater(pages.difference(chromium, one, dark), 0.3)
            self.assertEqual(pages.difference(chromium, one, one), 0)

    @unittest.skipUnless(support.SOAK, "takes a quiet machine: tools/soak")
    def test_large_page_is_fast(self):
        for schedule, chunks in page.LARGE:
            with self.subTest(schedule=schedule):
                figures = page.measure(self.folder, schedule, chunks)
                self.assertLess(figures["bytes"], 15_000_000)
                self.assertLess(figures["open_ms"], 3000)
                self.assertGreaterEqual(figures["frames_per_second"], 20)


if __name__ == "__main__":
    unittest.main()
