"""Runs that choose their variants: what was measured, what was decided, what an operator sees and says."""
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

from support import BIN, HANG, INPUT, OK, PATIENCE, RUN, SOAK, SOURCE, SPECS, USAGE, ControlledTest, ToolTest, tool, until
from timing import judge

# Larger k hide transfers that are slow.
SPEC = """
pipec: 1
pipeline: {{ranks: {ranks}, microbatches: 8}}
costs: {{forward: 4ms, backward_input: 4ms, backward_weight: 4ms, link: {{latency: 20us, bandwidth: 10GB/s}}}}
tensors: {{boundary: 1MiB, activation: 1MiB, weight_context: 1MiB}}
schedule: 1f1b
variants: [{{schedule: 1f1b}}, {{schedule: {{name: kfkb, k: 2}}}}, {{schedule: {{name: kfkb, k: 4}}}}]
"""

# Of equal memory: the first is the best where links are quick, the second where they are slow.
LAB = """
pipec: 1
pipeline: {ranks: 4, batch: 48, microbatch_size: 4}
costs: {forward: {fixed: 4ms, per_sample: 3.6ms}, backward: {fixed: 8ms, per_sample: 7.2ms}, link: {latency: 60us, bandwidth: 1GB/s}}
tensors: {boundary: {per_sample: 256KiB}, activation: {per_sample: 490MB}}
schedule: 1f1b
variants:
  - {schedule: {name: kfkb, k: 1}}
  - {schedule: {name: kfkb, k: 2}, pipeline: {microbatch_size: 2}}
  - {schedule: {name: kfkb, k: 4}, pipeline: {microbatch_size: 1}}
"""


def children_of(pid):
    """{pid: command line} of the processes that it has started."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[1]) == pid:
                found[int(folder.name)] = (folder / "cmdline").read_text(errors="replace")
        except OSError:
            pass  # ended meanwhile
    return found


class AdaptTest(ControlledTest):
    def plan(self, ranks=4):
        return self.compile(SPEC.format(ranks=ranks))

    def network(self):
        return SPECS / "networks" / "heavy.json"

    def test_a_slow_network_is_measured_and_answered(self):
        trace = self.folder / "trace.json"
        launcher, control, _ = self.start(self.plan(), "--steps", 100000, "--network", self.network(), "--adapt", "--trace", trace)
        status = until(lambda: (s := self.status(control))["adapt"]["switches"] > 0 and s["swaps"] > 0 and s, "a switch")
        self.assertIn("adapt on: 3 candidates", self.ask(control, "status").stdout)
        self.assertEqual(status["adapt"]["candidates"], ["variant 0 (1f1b)", "variant 1 (kfkb k=2)", "variant 2 (kfkb k=4)"])
        run, messages = self.end(launcher, control)
        adapt = run["adapt"]
        self.assertEqual(adapt["mode"], "on")
        self.assertEqual(len(adapt["ran"]), run["steps"])
        self.assertEqual(adapt["switches"], run["swaps"])
        for change in adapt["decisions"]: # what was decided is what ran
            self.assertEqual(adapt["ran"][change["step"]], change["to"])
            self.assertEqual(adapt["ran"][change["step"] - 1], change["from"])
            self.assertIn(f"step {change['step']}: {adapt['candidates'][change['to']]} after", messages)
        # The scenario shapes whole payloads, and deadlines are what is measured: exact, whatever the machine does.
        measured = {(each["from"], each["to"]): each for each in adapt["estimates"]["links"]}
        self.assertEqual(set(measured), {(a, b) for a in range(4) for b in range(4) if abs(a - b) == 1})
        self.assertTrue(all(each["bandwidth"] > 0 and each["samples"] > 0 for each in measured.values()))
        self.assertEqual({each["percent"] for each in adapt["estimates"]["stages"]}, {100})
        marks = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "decision"]
        self.assertEqual([mark["args"]["step"] for mark in marks], [each["step"] for each in adapt["decisions"]])
        self.assertIn("adapting", self.piperun(self.plan(), "--local", "--steps", 3, "--adapt").stdout)

    def test_every_instruction_runs_once_whatever_is_decided(self):
        trace = self.folder / "trace.json"
        steps = 200 if SOAK else 60
        self.run_json(self.plan(), "--steps", steps, "--network", SPECS / "networks" / "bursty.json", "--adapt=profile", "--trace", trace)
        seen, epochs = collections.Counter(), collections.defaultdict(set)
        for event in json.loads(trace.read_text())["traceEvents"]:
            if event["ph"] == "X":
                a = event["args"]
                seen[(a["step"], a["stage"], a["kind"] + a.get("of", ""), a["microbatch"])] += 1
                epochs[a["step"]].add(a["epoch"])
        self.assertEqual({key for key, times in seen.items() if times != 1}, set())
        self.assertEqual(sorted(epochs), list(range(steps)))
        self.assertEqual({step: each for step, each in epochs.items() if len(each) != 1}, {})

    def test_a_slow_rank_is_named(self):
        network = self.folder / "slow.json"
        network.write_text('{"scenario": 1, "faults": [{"slow": 2, "percent": 130, "at": "0s"}]}')
        launcher, control, _ = self.start(self.plan(), "--steps", 100000, "--network", network, "--adapt=observe")
        stages = until(lambda: [s for s in self.status(control)["adapt"]["estimates"]["stages"] if s["percent"] != 100], "a slow rank")
        self.assertEqual([(each["stage"], each["rank"], each["percent"]) for each in stages], [(2, 2, 130)])
        self.assertIn("stage 2 on rank 2: takes 130 % of its costs", self.ask(control, "status").stdout)
        run, _ = self.end(launcher, control)
        self.assertEqual((run["swaps"], run["adapt"]["switches"], set(run["adapt"]["ran"])), (0, 0, {0}))

    def test_a_swap_by_hand_stays_until_adapt_on(self):
        launcher, control, _ = self.start(self.plan(), "--steps", 100000, "--network", self.network(), "--adapt=observe")
        until(lambda: self.status(control)["adapt"]["decision"], "a decision")
        self.ask(control, "adapt", "on")
        until(lambda: self.status(control)["adapt"]["switches"] > 0, "a switch")
        self.ask(control, "swap", 0)
        status = self.status(control)
        self.assertEqual((status["adapt"]["mode"], status["running"]), ("observe", "variant 0 (1f1b)"))
        swaps, step = status["swaps"], status["step"]
        until(lambda: self.status(control)["step"] > step + 5, "five steps")
        self.assertEqual(self.status(control)["swaps"], swaps)
        self.ask(control, "adapt", "on")
        until(lambda: self.status(control)["swaps"] > swaps, "another switch")
        self.ask(control, "adapt", "off")
        self.assertEqual(self.status(control)["adapt"]["mode"], "off")
        self.end(launcher, control)

    def test_a_rank_killed_among_decisions_ends_all(self):
        deadline = 5 if SOAK else PATIENCE
        launcher, control, pids = self.start(self.plan(), "--steps", 100000, "--network", self.network(), "--adapt=profile",
                                             "--deadline", deadline)
        until(lambda: self.status(control)["step"] > (205 if SOAK else 5), "some steps, a decision each")
        victim, killed = random.randrange(4), time.monotonic()
        os.kill(pids[victim], signal.SIGKILL)
        _, messages = launcher.communicate(timeout=HANG)
        judge(self, "the end of a run behind that of a rank, of a deadline of 5 s and 2 s more", (time.monotonic() - killed) / 7, 1)
        self.assertEqual(launcher.returncode, RUN, messages)
        self.assertRegex(messages, rf"error: rank {victim} \(pid {pids[victim]}\) was killed by signal 9")
        self.nobody_is_left(pids.values())

    def lab(self, network, plan, *arguments):
        """Real processes in tools/netlab: their JSON."""
        done = subprocess.run([sys.executable, "-B", SOURCE / "tools" / "netlab", network, "--ranks", "4", "--start-at", "have met", "--",
                               BIN / "piperun", plan, "--network", "real", "--no-secret", "-v", "--json", *map(str, arguments)],
                              capture_output=True, text=True, timeout=HANG)
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])

    def test_bandwidth_is_what_the_kernel_gives(self):
        network = self.folder / "network.json"
        network.write_text('{"scenario": 1, "default": {"bandwidth": "60MB/s"}}')
        plan = self.compile(SPEC.format(ranks=4).replace("boundary: 1MiB", "boundary: 2MiB"))
        links = self.lab(network, plan, "--steps", 12, "--adapt=observe")["adapt"]["estimates"]["links"]
        self.assertEqual(len(links), 6)
        self.assertTrue(all(each["bandwidth"] > 1e6 and each["latency_us"] > 0 for each in links), links)
        print("bandwidth off by", *(f"{100 * (each['bandwidth'] / 60e6 - 1):+.1f} %" for each in links))
        judge(self, "bandwidth as measured", max(abs(each["bandwidth"] / 60e6 - 1) for each in links), 0.1)

    def test_a_lab_whose_links_change_beside_its_oracle(self):
        network, steps = self.folder / "network.json", 60 if SOAK else 12
        network.write_text('{"scenario": 1, "default": {"bandwidth": "1GB/s", "changes": [{"at": "8s", "bandwidth": "60MB/s"}], "repeat": "16s"}}')
        plan = self.compile(LAB)
        known = json.loads(self.pipec("report", plan, "--network", network, "--steps", steps, "--adapt", "--json").stdout)["adapt"]
        run = self.lab(network, plan, "--steps", steps, "--adapt")
        self.assertEqual((len(run["adapt"]["ran"]), run["lost_steps"]), (steps, 0))
        self.assertEqual(len(run["adapt"]["decisions"]), run["adapt"]["switches"])
        took = sum(run["step_ms"])
        print(f"a lab, {steps} steps: {run['adapt']['switches']} swaps ({known['switches']} in virtual time), to the best fixed variant "
              f"{100 * (took / min(known['fixed_ms']) - 1):+.2f} %")
        judge(self, "a run in a lab, over the oracle", took / known["oracle_ms"] - 1, 0.05)

    def test_plans_made_anew_and_what_becomes_of_their_maker(self):
        plan, network = self.compile(SPECS / "replan.yaml"), self.folder / "network.json"
        network.write_text('{"scenario": 1, "links": [{"from": 1, "to": 2, "bandwidth": "200MB/s"}, {"from": 2, "to": 1, "bandwidth": "200MB/s"}]}')
        launcher, control, _ = self.start(plan, "--steps", 100000, "--network", network, "--adapt")
        until(lambda: self.status(control)["adapt"]["estimates"]["links"], "measurements")
        done = tool("pipec", "replan", SPECS / "replan.yaml", "--control", control, "--once", "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        loaded = json.loads(done.stdout)["loaded"]
        self.assertTrue(loaded.startswith("slack"), done.stdout)
        until(lambda: self.status(control)["running"].startswith("slack"), "the plan that was loaded")
        run, _ = self.end(launcher, control)
        self.assertEqual(run["adapt"]["replans"], 1)
        self.assertIn(2, run["adapt"]["ran"])

        launcher, control, _ = self.start(plan, "--steps", 100000, "--replan", SPECS / "replan.yaml")
        children = until(lambda: [pid for pid, words in children_of(launcher.pid).items() if "\0replan\0" in words], "pipec replan")
        os.kill(children[0], signal.SIGKILL)
        step = self.status(control)["step"]
        until(lambda: self.status(control)["step"] > step + 10, "ten steps more")
        damaged = self.folder / "damaged.pipe"
        content = bytearray(plan.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        self.ask(control, "load", damaged, code=INPUT)
        _, messages = self.end(launcher, control)
        self.assertIn("pipec replan was killed by signal 9: the run goes on as it is", messages)
        self.nobody_is_left(children)

    def test_all_that_is_said_wrong(self):
        plan = self.plan()
        for arguments, code, says in (
                ([plan, "--local", "--adapt=often"], USAGE, "--adapt: expected on, observe or profile, found 'often'"),
                ([plan, "--local", "--adapt=off"], USAGE, "--adapt: expected on, observe or profile, found 'off'"),
                ([plan, "--local", "--adapt", "--swap-every", 2], USAGE, "both say which variant a step runs"),
                ([plan, "--local", "--replan", "x.yaml", "--swap-every", 2], USAGE, "both say which plan a step runs"),
                ([plan, "--local", "--replan", SPECS / "v-half.yaml"], INPUT, "nothing can be planned for this run by this spec"),
                (["--control", self.folder / "nobody", "adapt", "on"], RUN, f"no run listens at {self.folder / 'nobody'}"),
                (["--control", self.folder / "nobody", "adapt"], USAGE, "adapt takes on, observe or off, 0 given")):
            done = tool("piperun", *arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(says, done.stderr)
        launcher, control, _ = self.start(plan, "--steps", 100000)
        self.assertIn("the run does not adapt: start it with --adapt", self.ask(control, "adapt", "on", code=INPUT).stderr)
        self.assertIsNone(self.status(control)["adapt"])
        self.assertIsNone(self.end(launcher, control)[0]["adapt"])
        launcher, control, _ = self.start(plan, "--steps", 100000, "--adapt")
        self.assertIn("adapt: expected on, observe or off, found \"so\"", self.ask(control, "adapt", "so", code=USAGE).stderr)
        self.end(launcher, control)

    def test_one_variant_leaves_nothing_to_choose(self):
        plan = self.compile(SPECS / "1f1b.yaml")
        done = tool("piperun", plan, "--local", "--steps", 2, "--adapt", "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn("there is nothing to choose", done.stderr)
        self.assertEqual(json.loads(done.stdout)["adapt"]["ran"], [0, 0])


class DeferredTest(ToolTest):
    def test_deferring_weights_adds_four_points_in_the_same_memory(self):
        done = subprocess.run([sys.executable, "-B", SOURCE / "test" / "bench" / "adapt.py", BIN / "pipec", "--deferred",
                               "--workload", "gpt_1p3b_s1024_p8", "--steps", "40"], capture_output=True, text=True, timeout=HANG)
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("with W deferred"), 5)


if __name__ == "__main__":
    unittest.main()
