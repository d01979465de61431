"""Planning anew beside runs, and in virtual time: what is found for a network that has changed."""
import json
import os
import signal
import subprocess
import time
import unittest

from support import BIN, HANG, INPUT, OK, SOAK, SPECS, ControlledTest, ToolTest, until
from timing import judge

SPEC = SPECS / "replan.yaml"
SLOWS_DOWN = SPECS / "networks" / "slows-down.json"
SLOW = '{"from": %d, "to": %d, "bandwidth": "200MB/s"}'


class VirtualTest(ToolTest):
    def test_within_ten_seconds_a_plan_is_near_what_was_compiled_for_the_network(self):
        plan = self.compile(SPEC)
        run = json.loads(self.pipec("report", plan, "--network", SLOWS_DOWN, "--steps", 120, "--adapt", "--replan", SPEC,
                                    "--json").stdout)["adapt"]
        slow = "[{from: 1, to: 2, bandwidth: 200MB/s}, {from: 2, to: 1, bandwidth: 200MB/s}]"
        own = self.report(SPEC, schedule="{name: slack, per_link: [1, 3, 1]}", variants="[{}]", costs__links=slow,
                          memory__limit="610MB")  # six microbatches
        groups = self.report(SPEC, schedule="{name: kfkb, k: 2}", variants="[{}]", costs__links=slow)  # in eight
        self.assertAlmostEqual(own["span_ms"], 172.3, delta=0.1)
        self.assertAlmostEqual(groups["span_ms"], 218, delta=0.1)
        at = 0
        for taken in run["step_ms"]:
            at += taken
            if 4000 < at < 6000:
                self.assertAlmostEqual(taken, groups["span_ms"], delta=8)
            elif at > 7000:
                self.assertLess(taken, 1.05 * own["span_ms"])
        self.assertGreater(at, 15000)
        # Before the link becomes slow there is nothing to gain, nor once the plan is there.
        self.assertEqual([each["loaded"] for each in run["replans"]], [None, "slack 1-3-1"] + [None] * (len(run["replans"]) - 2))
        self.assertLess(run["replans"][1]["at_ms"], 5000)

    def test_each_network_gets_its_plan_once(self):
        # One link after the other is slow for ten seconds, twice.
        links = []
        for link in range(3):
            changes = [{"at": f"{(3 * i + j) * 10 + 5}s", "bandwidth": "200MB/s" if j == link else "100GB/s"}
                       for i in range(2) for j in range(3)]
            links += [{"from": a, "to": b, "bandwidth": "100GB/s", "changes": changes}
                      for a, b in ((link, link + 1), (link + 1, link))]
        network = self.folder / "network.json"
        network.write_text(json.dumps({"scenario": 1, "default": {"bandwidth": "100GB/s"}, "links": links}))
        run = json.loads(self.pipec("report", self.compile(SPEC), "--network", network, "--steps", 350, "--adapt",
                                    "--replan", SPEC, "--json").stdout)["adapt"]
        self.assertIn(len(run["candidates"]), range(4, 7))
        self.assertEqual([each["loaded"] for each in run["replans"] if each["loaded"]], run["candidates"][2:])
        self.assertLess(run["total_ms"], 0.92 * min(run["fixed_ms"]))


class BesideARunTest(ControlledTest):
    def network(self):
        path = self.folder / "slow.json"
        path.write_text('{"scenario": 1, "default": {"bandwidth": "100GB/s"}, "links": [%s, %s]}' % (SLOW % (1, 2), SLOW % (2, 1)))
        return path

    def start(self, *arguments, plan=None):
        launcher, control, _ = super().start(plan or self.compile(SPEC), "--steps", 100000, *arguments)
        return launcher, control

    def measured(self, control):
        until(lambda: len(self.status(control)["adapt"]["estimates"]["links"]) == 6, "estimates of all links")

    def replan(self, control, *arguments, **options):
        return json.loads(self.pipec("replan", SPEC, "--control", control, "--json", "--once", *arguments, **options).stdout)

    def beside(self, spec, control, *arguments):
        process = subprocess.Popen([BIN / "pipec", "replan", str(spec), "--control", str(control), *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for last in (process.stderr.close, process.stdout.close, process.wait, process.kill):
            self.addCleanup(last)
        return process

    def test_a_slow_link_is_planned_for(self):
        launcher, control = self.start("--network", self.network(), "--adapt")
        self.measured(control)
        tried = self.replan(control, "--dry-run")
        self.assertIsNone(tried["loaded"])
        self.assertEqual(len(self.status(control)["adapt"]["candidates"]), 2)
        made = self.replan(control)
        self.assertEqual(made["loaded"], "slack 1-3-1")
        self.assertGreater(made["gain"], 0.2)
        self.assertIsNone(made["cut_gain"])
        self.assertEqual(len(made["estimates"]["links"]), 6)
        times = {each["name"]: each["predicted_ms"] for each in made["candidates"]}
        self.assertAlmostEqual(times["slack 1-3-1"], 172.3, delta=0.1)
        self.assertEqual(self.status(control)["adapt"]["candidates"][2:], ["slack 1-3-1"])
        until(lambda: self.status(control)["running"] == "slack 1-3-1", "a run of the new plan")
        again = self.replan(control)  # it is there already
        self.assertEqual((again["loaded"], again["candidates"][2]["name"]), (None, "slack 1-3-1"))
        self.assertLess(again["gain"], 0.02)
        run, _ = self.end(launcher, control)
        self.assertEqual(run["adapt"]["replans"], 1)
        self.assertIn(2, run["adapt"]["ran"])

    def test_it_ends_with_the_run(self):
        launcher, control = self.start("--network", self.network(), "--adapt")
        planner = self.beside(SPEC, control, "--every", "200ms", "--gain", "5%")
        until(lambda: "slack 1-3-1" in self.status(control)["adapt"]["candidates"], "a plan")
        self.end(launcher, control)
        out, messages = planner.communicate(timeout=HANG)
        self.assertEqual((planner.returncode, messages), (OK, ""))
        self.assertIn("loaded slack 1-3-1: a step 2", out)

    def test_piperun_starts_it(self):
        plan = self.compile(SPEC)
        launcher, control = self.start("--network", self.network(), "--replan", SPEC, plan=plan)
        until(lambda: self.status(control)["adapt"]["replans"] == 1, "a plan")
        self.end(launcher, control)

    @unittest.skipUnless(SOAK, "what a run measures of its links says little on a busy machine")
    def test_within_ten_seconds_a_run_is_near_what_was_compiled_for_the_network(self):
        slow = "[{from: 1, to: 2, bandwidth: 200MB/s}, {from: 2, to: 1, bandwidth: 200MB/s}]"
        own = self.report(SPEC, schedule="{name: slack, per_link: [1, 3, 1]}", variants="[{}]", costs__links=slow,
                          memory__limit="610MB")["span_ms"]  # in six microbatches
        launcher, control = self.start("--network", SLOWS_DOWN, "--replan", SPEC)
        until(lambda: self.status(control)["running"] == "slack 1-3-1", "a run of the plan that is made anew")
        step = self.status(control)["step"]
        until(lambda: self.status(control)["step"] > step + 30, "thirty steps of it")
        run, _ = self.end(launcher, control)
        ran, made = run["adapt"]["ran"], run["adapt"]["candidates"].index("slack 1-3-1")
        self.assertEqual((ran.index(made) > 0, run["lost_steps"]), (True, 0))
        judge(self, "from when a link slows to a plan made for it, of 10 s", sum(run["step_ms"][:ran.index(made)]) / 1e4 - 0.3, 1)
        steps = sorted(taken for taken, each, before in zip(run["step_ms"][1:], ran[1:], ran) if each == before == made)
        judge(self, f"its step, median {steps[len(steps) // 2]:.1f} ms, over what was compiled for the network",
              steps[len(steps) // 2] / own - 1, 0.05)

    def test_a_plan_that_the_run_does_not_get_is_a_line(self):
        launcher, control = self.start("--network", self.network(), "--adapt")
        self.measured(control)
        done = self.pipec("replan", SPEC, "--control", control, "--json", "--once", env={**os.environ, "TMPDIR": str(self.folder / "none")})
        self.assertIn("pipec replan: slack 1-3-1 was not loaded: no folder for a plan", done.stderr)
        self.assertIsNone(json.loads(done.stdout)["loaded"])
        self.assertEqual(len(self.status(control)["adapt"]["candidates"]), 2)
        self.assertEqual(self.replan(control)["loaded"], "slack 1-3-1")  # the next time
        self.end(launcher, control)

    def test_killed_it_is_missed_by_nobody(self):
        launcher, control = self.start("--network", self.network(), "--adapt")
        for pause in (0.0, 0.05, 0.2, 0.7):
            planner = self.beside(SPEC, control, "--every", "100ms")
            time.sleep(pause)
            planner.send_signal(signal.SIGKILL)
            planner.wait()
        step = self.status(control)["step"]
        until(lambda: self.status(control)["step"] > step + 3, "more steps")
        self.end(launcher, control)

    def test_a_spec_that_stops_compiling_is_a_line(self):
        spec = self.folder / "changes.yaml"
        spec.write_text(SPEC.read_text())
        launcher, control = self.start("--network", self.network(), "--adapt")
        planner = self.beside(spec, control, "--every", "200ms", "--dry-run")
        self.assertIn("has", planner.stdout.readline())
        spec.write_text(SPEC.read_text().replace("ranks: 4", "ranks: four"))
        self.assertIn("changes.yaml:6:10: error: pipeline.ranks: expected an integer", planner.stderr.readline())
        spec.write_text(SPEC.read_text())
        self.end(launcher, control)
        planner.communicate(timeout=HANG)
        self.assertEqual(planner.returncode, OK)

    def test_layers_off_a_slow_rank_would_gain(self):
        spec = self.folder / "layers.yaml"
        spec.write_text("pipec: 1\npipeline: {ranks: 4, microbatches: 24, cut: [8, 8, 8, 8]}\n"
                        "layers: [{count: 32, forward: 250us, backward: 500us}]\ntensors: {boundary: 1kB}\n"
                        "schedule: {name: kfkb, k: 1}\nvariants: {k: [1, 2]}\n")
        network = self.folder / "network.json"
        network.write_text('{"scenario": 1, "faults": [{"slow": 2, "percent": 130, "at": "0s"}]}')
        launcher, control = self.start("--network", network, "--adapt", plan=self.compile(spec))
        until(lambda: [s for s in self.status(control)["adapt"]["estimates"]["stages"] if s["percent"] == 130], "a slow rank")
        made = json.loads(self.pipec("replan", spec, "--control", control, "--json", "--once").stdout)
        self.assertGreater(made["cut_gain"], 0.11)
        self.end(launcher, control)

    def test_one_that_does_not_adapt_or_has_other_stages_is_refused(self):
        plan = self.compile(SPEC)
        launcher, control = self.start(plan=plan)
        done = self.pipec("replan", SPEC, "--control", control, code=INPUT)
        self.assertIn("the run does not adapt: start it with --adapt", done.stderr)
        self.end(launcher, control)
        launcher, control = self.start("--adapt", plan=plan)
        self.measured(control)
        done = self.pipec("replan", SPECS / "1f1b.yaml", "--control", control, code=INPUT)
        self.assertRegex(done.stderr, r"1f1b.yaml:\d+:\d+: error: the spec has")
        self.end(launcher, control)


if __name__ == "__main__":
    unittest.main()
