"""Runs under a scenario: payloads really travel, and steps take the time that the simulator gives the same scenario (how
nearly, tools/soak judges; less they never do). What a scenario gets wrong is named with its place; a link that goes silent
in the middle of a run ends it."""
import json
import subprocess
import sys
import unittest

from support import BIN, HANG, INPUT, OK, PATIENCE, RUN, SOAK, SOURCE, SPECS, USAGE, ToolTest, tool
from timing import judge

# Operations of 10 ms and 20 ms; a transfer of 1 MiB takes a millisecond where nothing else is said.
SPEC = """
pipec: 1
pipeline: {ranks: 4, microbatches: 8}
costs: {forward: 10ms, backward: 20ms, optimizer: 1ms, link: {latency: 50us, bandwidth: 1GB/s}}
tensors: {boundary: 1MiB}
schedule: 1f1b
"""
STEPS = 40 if SOAK else 5


def both(a, b, **link):
    return [{"from": a, "to": b, **link}, {"from": b, "to": a, **link}]


# A step takes some 340 ms where the network does not matter.
SCENARIOS = {
    "a slow link": {"links": both(1, 2, bandwidth="80MB/s", latency="50us")},
    "a link that changes": {"links": [{"from": 0, "to": 1, "bandwidth": "1GB/s", "latency": "50us", "changes": [
        {"at": "400ms", "bandwidth": "60MB/s"}, {"at": "900ms", "bandwidth": "150MB/s", "latency": "3ms"},
        {"at": "1.3s", "bandwidth": "1GB/s", "latency": "50us"}]}]},
    "a long link": {"links": both(2, 3, bandwidth="500MB/s", latency="12ms")},
    "a slow rank": {"faults": [{"slow": 2, "percent": 140, "at": "300ms", "until": "1s"}]},
}


def deviation(measured, predicted, scenario, pace):
    """The largest of a step. A naive run is a little late, more at each step, and what a scenario does at an instant finds
    it at another place in a step: there, that of the whole run."""
    if pace == "naive" and '"at"' in json.dumps(scenario):
        measured, predicted = [sum(measured)], [sum(predicted)]
    return max(abs(a / b - 1) for a, b in zip(measured, predicted, strict=True))


class NetworkTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPEC)

    def network(self, text):
        path = self.folder / "network.json"
        path.write_text(text if isinstance(text, str) else json.dumps({"scenario": 1, **text}), encoding="utf-8")
        return path

    def predicted(self, *arguments):
        return json.loads(self.pipec("report", self.plan, "--json", *arguments).stdout)

    def test_measured_steps_are_the_simulated_ones(self):
        usual = self.predicted()["span_ms"]
        for name, scenario in SCENARIOS.items():
            for pace in ("carry", "naive"):
                with self.subTest(name, pace=pace):
                    path = self.network(scenario)
                    predicted = self.predicted("--network", path, "--steps", STEPS)["step_ms"]
                    self.assertGreater(max(predicted), 1.05 * usual)  # else the scenario shows nothing
                    run = self.run_json(self.plan, "--network", path, "--steps", STEPS, "--emulate", pace)
                    self.assertEqual(run["simulated_step_ms"], predicted)
                    self.assertEqual(len(run["step_ms"]), STEPS)
                    if '"at"' not in json.dumps(scenario):  # else who is late may find a better network
                        self.assertGreater(sum(run["step_ms"]), 0.99 * sum(predicted))
                    judge(self, f"{name}, {pace}", deviation(run["step_ms"], predicted, scenario, pace), 0.05)

    def test_a_step_is_listed_under_every_variant(self):
        spec = SPEC.replace("schedule: 1f1b", "schedule: kfkb\nvariants: {k: [1, 2]}")
        self.plan = self.compile(spec)
        report = self.predicted("--network", self.network(SCENARIOS["a long link"]), "--steps", 3)
        for variant in report["variants"]:
            self.assertEqual(len(variant["step_ms"]), 3)
        self.assertLess(report["variants"][1]["mean_step_ms"], report["variants"][0]["mean_step_ms"])
        text = self.pipec("report", self.plan, "--network", self.folder / "network.json", "--steps", 3).stdout
        self.assertIn("mean of 3 steps", text)

    def test_a_real_network_emulates_nothing(self):
        run = self.run_json(self.plan, "--network", "real", "--steps", 3)
        self.assertEqual(len(run["step_ms"]), 3)

    def test_runs_in_network_namespaces_take_the_simulated_time(self):
        """The same scenario, shaped by the kernel: real sockets over HTB, nothing emulated (tools/netlab)."""
        path = self.network({"default": {"bandwidth": "100MB/s"}, "links": both(1, 2, bandwidth="25MB/s")})
        predicted = self.predicted("--network", path, "--steps", STEPS)["step_ms"]
        done = subprocess.run([sys.executable, "-B", SOURCE / "tools" / "netlab", path, "--ranks", "4", "--",
                               BIN / "piperun", self.plan, "--network", "real", "--steps", str(STEPS), "--json",
                               "--deadline", str(PATIENCE)], capture_output=True, text=True, timeout=HANG)
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, OK, done.stderr)
        measured = json.loads(done.stdout)["step_ms"]
        self.assertEqual(len(measured), STEPS)
        judge(self, "in network namespaces", deviation(measured, predicted, {}, "carry"), 0.05)

    def test_a_silent_cut_ends_the_run(self):
        path = self.network({"faults": [{"cut": [1, 2], "at": "800ms"}]})
        # Long before the deadline, which is named otherwise.
        done = self.piperun(self.plan, "--local", "--steps", 1000000, "--network", path, "--deadline", 10 * HANG, code=RUN)
        self.assertRegex(done.stderr, r"rank (1|2): .* lost rank (2|1): the network to it has been silent for 3 s")
        done = self.pipec("report", self.plan, "--network", path, "--steps", 10, code=3)
        self.assertRegex(done.stderr, r"the link between ranks . and . is cut at 800 ms, in step 2")

    def test_a_wrong_scenario_is_named_with_its_place(self):
        path = self.network('{"scenario": 1,\n "links": [{"from": 0, "to": 4}]}')
        for command in (("piperun", self.plan, "--local", "--network", path), ("pipec", "report", self.plan, "--network",
                                                                               path)):
            done = tool(*command)
            self.assertEqual(done.returncode, INPUT)
            self.assertIn(f"{path}:2:30: error: there is no rank 4, the plan has 4", done.stderr)
            failure = json.loads(tool(*command, "--json").stdout)
            self.assertEqual((failure["file"], failure["line"], failure["column"]), (str(path), 2, 30))
        self.pipec("report", self.plan, "--network", self.folder / "none.json", code=INPUT)
        self.pipec("report", self.plan, "--steps", 3, code=USAGE)

    def test_the_examples_run(self):
        for name in ("slow-link", "long-haul", "congestion"):
            self.predicted("--network", SPECS / "networks" / f"{name}.json", "--steps", 6)


if __name__ == "__main__":
    unittest.main()
