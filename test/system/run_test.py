"""Plans run: every shape to its end, with the figures and the trace that the design lists."""
import json
import os
import signal
import subprocess
import unittest

from support import HANG, OK, SOAK, SPECS, ToolTest

KEYS = {"ranks", "steps", "step_ms", "predicted_ms", "lateness_ms", "swaps", "lost_steps", "epochs", "steps_asked", "ended"}
SHORT = {"costs__forward": "200us", "costs__backward_input": "200us", "costs__backward_weight": "100us"}


class RunTest(ToolTest):
    def test_every_shape_runs(self):
        # More ranks than microbatches, one microbatch, one rank, primes.
        shapes = [(4, 2), (4, 1), (1, 1), (1, 5), (3, 7), (5, 13), (8, 3), (2, 2)]
        steps = 50 if SOAK else 3
        for example in ("1f1b", "gpipe", "1f1b-split"):
            for ranks, microbatches in shapes:
                with self.subTest(example, ranks=ranks, microbatches=microbatches):
                    plan = self.compile(SPECS / f"{example}.yaml", pipeline__ranks=ranks,
                                        pipeline__microbatches=microbatches, memory__limit="64GiB",
                                        costs__link="{latency: 50us, bandwidth: 10GB/s}", **SHORT)
                    self.pipec("verify", plan)
                    run = self.run_json(plan, "--steps", steps)
                    self.assertEqual((run["ranks"], len(run["step_ms"])), (ranks, steps))

    def test_every_schedule_of_the_catalogue_runs(self):
        catalogue = json.loads(self.pipec("schedules", "--json").stdout)
        self.assertLessEqual({"1f1b", "gpipe"}, {each["name"] for each in catalogue})
        needs = {"seq1f1b": {"pipeline__slices": 2}}
        for name in (each["name"] for each in catalogue):
            with self.subTest(name):
                plan = self.compile(SPECS / "1f1b.yaml", schedule=name, costs__link="{latency: 50us, bandwidth: 10GB/s}",
                                    **needs.get(name, {}), **SHORT)
                self.pipec("verify", plan)
                self.assertEqual(self.run_json(plan, "--steps", 3)["lost_steps"], 0)

    def test_every_queueing_of_transfers_runs(self):
        for communicator in ("per_edge", "per_pair", "launch_order", "shared"):
            with self.subTest(communicator):
                plan = self.compile(SPECS / "1f1b.yaml", communicator=communicator,
                                    costs__link="{latency: 50us, bandwidth: 10GB/s}", **SHORT)
                self.run_json(plan, "--steps", 3)

    def test_json_has_what_the_design_lists(self):
        plan = self.compile(SPECS / "1f1b.yaml", **SHORT)
        for mode in ("carry", "naive"):
            run = self.run_json(plan, "--steps", 4, "--emulate", mode)
            self.assertLessEqual(KEYS, run.keys())
            self.assertEqual((run["ranks"], run["steps"], run["swaps"], run["lost_steps"]), (4, 4, 0, 0))
            self.assertEqual((run["steps_asked"], run["ended"]), (4, "done"))
            self.assertEqual((len(run["step_ms"]), len(run["epochs"])), (4, 4))
            self.assertTrue(all(each > 0 for each in run["step_ms"]))
            self.assertEqual(run["predicted_ms"], self.report(plan)["span_ms"])

    def test_text_shows_measured_beside_simulated(self):
        text = self.piperun(self.compile(SPECS / "1f1b.yaml", **SHORT), "--local", "--steps", 2).stdout
        self.assertIn("measured ms", text)
        self.assertIn("simulated ms", text)

    def test_what_ended_a_run_is_said(self):
        plan = self.compile(SPECS / "1f1b.yaml", **SHORT)
        self.assertNotIn("ended", self.piperun(plan, "--local", "--steps", 2).stdout)
        for end, says in ((lambda launcher: launcher.send_signal(signal.SIGTERM), "SIGTERM"),
                          (lambda launcher: launcher.send_signal(signal.SIGINT), "SIGINT"),
                          (lambda launcher: self.piperun("--control", self.folder / "control", "stop"),
                           "a stop at its control socket")):
            with self.subTest(says):
                launcher, _ = self.launch(plan, "--steps", 1000000, "--control", self.folder / "control")
                end(launcher)
                out, messages = launcher.communicate(timeout=HANG)
                self.assertEqual(launcher.returncode, OK, messages)
                self.assertRegex(out, rf"(?m)^{says} ended the run: \d+ of 1000000 steps are done$")

    def test_a_terminal_sees_how_the_run_goes(self):
        plan = self.compile(SPECS / "1f1b.yaml", **SHORT)
        terminal, theirs = os.openpty()
        self.addCleanup(os.close, terminal)
        done = self.piperun(plan, "--local", "--steps", 200, "--json", stdout=subprocess.PIPE, stderr=theirs,
                            capture_output=False)
        os.close(theirs)
        shown = os.read(terminal, 1 << 16).decode()
        self.assertRegex(shown, r"step \d+ of 200: [\d.]+ ms/step, predicted [\d.]+, bubble -?[\d.]+ %")
        self.assertEqual(json.loads(done.stdout)["steps"], 200)

    def test_verbose_names_every_process(self):
        done = self.piperun(self.compile(SPECS / "1f1b.yaml", **SHORT), "--local", "--steps", 2, "-v")
        for rank in range(4):
            self.assertRegex(done.stderr, rf"(?m)^piperun: rank {rank} has pid \d+$")

    def test_quiet_says_nothing(self):
        done = self.piperun(self.compile(SPECS / "1f1b.yaml", **SHORT), "--local", "--steps", 2, "-q")
        self.assertEqual((done.stdout, done.stderr), ("", ""))


class TraceTest(ToolTest):
    def test_real_and_simulated_runs_write_the_same_trace(self):
        plan = self.compile(SPECS / "1f1b.yaml", costs__optimizer="100us", **SHORT)
        self.run_json(plan, "--steps", 3, "--trace", self.folder / "real.json")
        self.pipec("compile", self.spec(SPECS / "1f1b.yaml"), "--emit=perfetto", "-o", self.folder / "simulated.json",
                   "--set", "costs.optimizer=100us")
        real = json.loads((self.folder / "real.json").read_text())
        simulated = json.loads((self.folder / "simulated.json").read_text())
        expected = self.complete_events(simulated, 0)
        # 4 ranks × 8 F and BW, an optimizer step a rank, 3 links × 8 microbatches × 2 directions × both ends.
        self.assertEqual(sum(expected.values()), 4 * 8 * 2 + 4 + 3 * 8 * 2 * 2)
        for step in range(3):
            self.assertEqual(self.complete_events(real, step), expected)
        for phase in "XsfCM":  # instructions, the two ends of a flow, counters, names
            self.assertTrue(any(each["ph"] == phase for each in real["traceEvents"]), phase)
            self.assertTrue(any(each["ph"] == phase for each in simulated["traceEvents"]), phase)

        def names(trace):
            return {(e["pid"], e.get("tid"), e["args"]["name"]) for e in trace["traceEvents"] if e["ph"] == "M" and
                    e["name"].endswith("_name")}

        self.assertEqual(names(real), names(simulated))


if __name__ == "__main__":
    unittest.main()
