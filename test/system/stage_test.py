"""Stage libraries in whole runs: the example trains the same on any number of ranks, its errors end the run, and two
ranks of real arithmetic take the time that was predicted, which tools/soak judges."""
import json
import os
import pathlib
import subprocess
import unittest

from support import BIN, OK, RUN, SOAK, SPECS, USAGE, ToolTest, tool
from timing import judge

PROBES = pathlib.Path(os.environ["PIPEC_PROBES"])
MLP = SPECS / "stages" / "mlp" / "mlp.yaml"
LIBRARY = BIN / "mlp.so"

TRAINING = """
pipec: 1
pipeline: {ranks: %d, stages_per_rank: %d, microbatches: 8}
costs: {forward: 1ms, backward_input: 1ms, backward_weight: 1ms, overlapped: 2.5ms, optimizer: 200us,
        link: {latency: 60us}}
tensors: {boundary: 4KiB}
schedule: %s
backward: %s
provider: {hidden: 64, layers: 2, samples: 16, seed: 1, rate: 0.1, log: %s}
"""

# Six layers, cut as pipec chooses: the last one's cost leads to other cuts than equal ones.
CUT = """
pipec: 1
pipeline: {ranks: %d, microbatches: 8, cut: auto}
layers:
  - {count: 5, forward: 1ms, backward_input: 1ms, backward_weight: 1ms, boundary: 4KiB}
  - {forward: %s, backward_input: %s, backward_weight: %s, boundary: 4KiB}
costs: {optimizer: 200us, link: {latency: 60us}}
schedule: 1f1b
backward: split
provider: {hidden: 64, samples: 16, seed: 1, rate: 0.1, log: %s}
"""


class StageTest(ToolTest):
    def train(self, ranks, schedule, backward, steps=20):
        """Four stages on so many ranks: {(step, stage): (hash of the weights, loss or "")}."""
        log = self.folder / f"{ranks}-{schedule}-{backward}.csv"
        plan = self.compile(TRAINING % (ranks, 4 // ranks, schedule, backward, log))
        run = self.run_json(plan, f"--stage={LIBRARY}", "--steps", steps)
        self.assertEqual(run["stage"], str(LIBRARY))
        self.assertEqual(run["emulate"], "none")
        result = self.read(log)
        self.assertEqual(len(result), 4 * steps)
        return result

    def read(self, log):
        lines = [line.split(",") for line in log.read_text(encoding="ascii").splitlines()]
        result = {(int(step), int(stage)): (weights, loss) for step, stage, weights, loss in lines}
        self.assertEqual(len(result), len(lines), "a step was run twice")
        return result

    def test_any_number_of_ranks_trains_the_same(self):
        one = self.train(1, "interleaved-1f1b", "split")
        losses = [float(one[step, 3][1]) for step in range(20)]
        self.assertLess(losses[-1], 0.5 * losses[0])
        self.assertEqual(len({weights for weights, _ in one.values()}), 4 * 20)
        for ranks, schedule, backward in [(2, "interleaved-1f1b", "split"), (4, "1f1b", "split"), (4, "1f1b", "fused"),
                                          (4, "gpipe", "split"), (2, "dualpipe-v", "split"), (4, "auto", "split")]:
            with self.subTest(ranks=ranks, schedule=schedule, backward=backward):
                self.assertEqual(self.train(ranks, schedule, backward), one)

    def test_any_cut_of_the_layers_trains_the_same(self):
        losses, cuts = [], []
        for ranks, last in [(1, "1ms"), (2, "1ms"), (2, "3ms"), (3, "4ms")]:
            log = self.folder / f"cut-{len(cuts)}.csv"
            plan = self.compile(CUT % (ranks, last, last, last, log))
            cuts.append(json.loads(tool("pipec", "report", plan, "--json").stdout)["variants"][0]["cut"])
            self.run_json(plan, f"--stage={LIBRARY}", "--steps", 10)
            losses.append([loss for (_, stage), (_, loss) in sorted(self.read(log).items()) if stage == ranks - 1])
        self.assertEqual(len({tuple(cut) for cut in cuts}), 4, cuts)
        self.assertEqual([sum(cut) for cut in cuts], [6] * 4)
        self.assertEqual(len(set(losses[0])), 10)
        self.assertEqual(losses, [losses[0]] * 4)

    def test_resumed_training_goes_on_the_same(self):
        whole = self.train(2, "interleaved-1f1b", "split")
        log, checkpoint = self.folder / "resumed.csv", self.folder / "checkpoint"
        plan = self.compile(TRAINING % (2, 2, "interleaved-1f1b", "split", log))
        self.run_json(plan, f"--stage={LIBRARY}", "--steps", 8, "--checkpoint", checkpoint, "--every", 4)
        self.run_json(plan, f"--stage={LIBRARY}", "--steps", 20, "--checkpoint", checkpoint, "--resume")
        self.assertEqual(self.read(log), whole)

    def test_a_swap_of_schedules_changes_no_weights(self):
        log, control = self.folder / "log.csv", self.folder / "control"
        plan = self.compile(TRAINING % (4, 1, "{name: kfkb, k: 1}", "split", log) + "variants: {k: [1, 4]}\n")
        launcher, _ = self.launch(plan, f"--stage={LIBRARY}", "--steps", 100000, "--control", control, "--json")
        self.piperun("--control", control, "swap", "1")
        self.piperun("--control", control, "stop")
        output, messages = launcher.communicate()
        self.assertEqual(launcher.returncode, OK, messages)
        run = json.loads(output)
        self.assertEqual((run["swaps"], set(run["epochs"])), (1, {0, 1}))
        swapped = self.read(log)
        log.unlink()
        self.run_json(plan, f"--stage={LIBRARY}", "--steps", run["steps"])
        self.assertEqual(swapped, self.read(log))

    def test_evaluations_change_nothing_and_give_the_same_losses(self):
        settings, losses = [(1, "interleaved-1f1b", "split"), (4, "1f1b", "fused"), (2, "interleaved-1f1b", "split"),
                            (2, "dualpipe-v", "split")], []
        plain = self.train(1, "interleaved-1f1b", "split", steps=9)
        for ranks, schedule, backward in settings:
            with self.subTest(ranks=ranks, schedule=schedule, backward=backward):
                log, states = self.folder / f"evaluated-{len(losses)}.csv", self.folder / f"states-{len(losses)}"
                plan = self.compile(TRAINING % (ranks, 4 // ranks, schedule, backward, log))
                for steps, more in ((5, ["--overwrite"]), (9, ["--resume"])):
                    run = self.run_json(plan, f"--stage={LIBRARY}", "--steps", steps, "--evaluate-every", 3, "--checkpoint",
                                        states, "--every", 2, *more)
                self.assertEqual([each["step"] for each in run["evaluations"]], [6, 9])
                lines = log.read_text(encoding="ascii").splitlines()
                own = [line for line in lines if line.startswith("evaluation")]
                log.write_text("".join(f"{line}\n" for line in lines if line not in own), encoding="ascii")
                self.assertEqual(self.read(log), plain)
                losses.append({tuple(line.split(",")[1:3]): line.split(",")[3] for line in own})
                self.assertEqual(sorted(losses[-1]), sorted((str(step), str(m)) for step in (3, 6, 9) for m in range(8)))
        self.assertEqual(losses, [losses[0]] * len(settings))
        self.assertLess(float(losses[0]["9", "0"]), float(losses[0]["3", "0"]))

    def test_a_library_that_cannot_evaluate(self):
        message = self.ends(f"--stage={PROBES / 'probe-backward.so'}", "--evaluate-every", 2, settings={"backward": "fused"}, code=USAGE)
        self.assertIn("the stage library has no pipec_stage_evaluate, which an evaluation needs", message)

    def ends(self, *arguments, settings, code):
        done = self.piperun(self.compile(MLP, **settings), "--local", *arguments, code=code)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_an_error_of_a_stage_ends_the_run_with_its_message(self):
        message = self.ends(f"--stage={LIBRARY}", settings={"provider__rate": "1e30"}, code=RUN)
        self.assertRegex(message, r"rank 1: F stage 1 microbatch \d: the loss is not finite in step \d; lower")

    def test_an_error_before_the_first_step_ends_the_run(self):
        message = self.ends(f"--stage={LIBRARY}", settings={"provider__samples": "32"}, code=RUN)
        self.assertIn("the plan's boundary is 65536 bytes, samples x hidden x 4 is 32768", message)
        message = self.ends(f"--stage={LIBRARY}", settings={"tensors__boundary_gradient": "0B"}, code=RUN)
        self.assertIn("the plan's boundary_gradient is 0 bytes, samples x hidden x 4 is 65536", message)

    def test_a_library_that_is_wrong_starts_nothing(self):
        for library, says in [("./nothing.so", "there is no such stage library"), (MLP, "cannot be loaded"),
                              ("mlp", "there is no such stage; use synthetic or the path of a library")]:
            with self.subTest(library):
                message = self.ends("-v", f"--stage={library}", settings={}, code=USAGE)
                self.assertIn(says, message)
                self.assertNotIn("pid", message)

    def test_a_forward_that_runs_again_is_for_synthetic_stages(self):
        message = self.ends(f"--stage={LIBRARY}", settings={"recompute": "[0]"}, code=USAGE)
        self.assertIn("the plan runs the forward of stage 0 again (R), which a library cannot yet", message)
        run = self.run_json(self.compile(MLP, recompute="[0]"), "--steps", 3)
        self.assertEqual(run["stage"], "synthetic")

    def test_emulation_is_for_synthetic_stages(self):
        self.assertIn("--emulate", self.ends(f"--stage={LIBRARY}", "--emulate", "naive", settings={}, code=USAGE))

    def test_the_json_of_a_failure_names_no_file(self):
        done = self.piperun(self.compile(MLP), "--local", "--json", "--stage=./nothing.so", code=USAGE)
        self.assertIsNone(json.loads(done.stdout)["file"])

    def measured_costs(self):
        """The costs block that the example's README has people measure."""
        values = '{"hidden": 256, "layers": 4, "samples": 64, "seed": 1, "rate": 0.1}'
        printed = subprocess.run([BIN / "mlp-profile", values, "2", "65536"], check=True, capture_output=True, text=True)
        kinds = (line.split(": ") for line in printed.stdout.splitlines()[1:])
        return {f"costs__{kind.strip()}": times for kind, times in kinds}

    def test_two_ranks_of_real_arithmetic_take_the_predicted_time(self):
        run = self.run_json(self.compile(MLP, **self.measured_costs()), f"--stage={LIBRARY}", "--steps",
                            200 if SOAK else 20)
        steps = sorted(run["step_ms"])
        judge(self, "real arithmetic, 2 ranks, which need 2 processors",
              abs(steps[len(steps) // 2] / run["predicted_ms"] - 1), 0.05)


if __name__ == "__main__":
    unittest.main()
