"""Checkpoints: what is saved is what a job goes on from, and nothing else is."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import unittest

from support import BIN, HANG, INPUT, OK, RUN, SOAK, SPECS, USAGE, ToolTest, patient

COSTS = {"costs__forward": "500us", "costs__backward_input": "500us", "costs__backward_weight": "300us",
         "pipeline__ranks": 4, "costs__link": "{latency: 20us, bandwidth: 10GB/s}"}


class CheckpointTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPECS / "1f1b.yaml", **COSTS)
        self.states = self.folder / "states"

    def run_on(self, *arguments, code=OK):
        done = self.piperun(self.plan, "--local", "--json", "--checkpoint", self.states, *arguments,
                            code=code)
        return json.loads(done.stdout)

    def manifest(self):
        return json.loads((self.states / "manifest.json").read_text())

    def test_a_run_resumes_where_the_last_one_stopped(self):
        first = self.run_on("--steps", 20, "--every", 5)
        self.assertEqual((first["checkpoint_step"], self.manifest()["step"]), (20, 20))
        self.assertEqual(sorted(each.name for each in self.states.iterdir()),
                         sorted(["manifest.json", *(f"step-20-rank-{rank}.state" for rank in range(4))]))
        trace = self.folder / "trace.json"
        second = self.run_on("--steps", 33, "--every", 5, "--resume", "--trace", trace)
        self.assertEqual((second["first_step"], second["steps"], len(second["step_ms"])), (20, 33, 13))
        self.assertEqual(self.manifest()["step"], 33)
        steps = {event["args"]["step"] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"}
        self.assertEqual(steps, set(range(20, 33)))
        done = self.run_on("--steps", 33, "--resume")
        self.assertEqual((done["first_step"], done["step_ms"], done["steps_asked"], done["ended"]), (33, [], 33, "done"))

    def test_a_run_that_has_nothing_left_to_do_says_so(self):
        self.run_on("--steps", 4)
        for steps in (4, 3):
            done = self.piperun(self.plan, "--local", "--checkpoint", self.states, "--resume", "--steps", steps)
            self.assertEqual(done.stdout,
                             f"nothing is left to do: the checkpoint is of 4 steps, {steps} are asked for\n")
            self.assertEqual(self.manifest()["step"], 4)

    def test_a_checkpoint_is_not_overwritten_unasked(self):
        self.run_on("--steps", 6, "--every", 2)
        before = {each.name: each.read_bytes() for each in self.states.iterdir()}
        for arguments in (["--steps", 2], ["--steps", 9, "--restart", 2]):
            error = self.run_on(*arguments, code=USAGE)["error"]
            self.assertIn(f"{self.states} has a checkpoint: go on from it with --resume, or begin anew without it with "
                          "--overwrite", error)
            self.assertEqual({each.name: each.read_bytes() for each in self.states.iterdir()}, before)
        self.run_on("--steps", 2, "--resume", "--overwrite", code=USAGE)
        # A run that never starts has taken nothing's place.
        self.run_on("--steps", 2, "--overwrite", "--rendezvous", "0.000001", "--restart", 1, code=RUN)
        self.assertEqual({each.name: each.read_bytes() for each in self.states.iterdir()}, before)
        run = self.run_on("--steps", 2, "--overwrite")
        self.assertEqual((run["first_step"], self.manifest()["step"]), (0, 2))
        self.assertEqual(sorted(each.name for each in self.states.iterdir()),
                         sorted(["manifest.json", *(f"step-2-rank-{rank}.state" for rank in range(4))]))

    def test_a_folder_that_another_run_has_is_refused(self):
        control = self.folder / "control"
        launcher, pids = self.launch(self.plan, "--steps", 1000000, "--checkpoint", self.states, "--every", 5, "--control",
                                     control)
        for arguments in ([], ["--resume"], ["--overwrite"]):
            self.assertIn(f"another run has its checkpoints in {self.states}",
                          self.run_on("--steps", 4, *arguments, code=RUN)["error"])
        self.piperun("--control", control, "stop")
        self.assertEqual(launcher.wait(timeout=HANG), OK)
        self.run_on("--steps", self.manifest()["step"] + 2, "--resume")
        # One that was killed has nothing any more.
        launcher, pids = self.launch(self.plan, "--steps", 1000000, "--checkpoint", self.states, "--resume")
        launcher.kill()
        launcher.wait()
        self.nobody_is_left(pids.values())
        self.run_on("--steps", self.manifest()["step"] + 2, "--resume")
        self.assertFalse((self.states / "lock").exists())

    def test_what_cannot_be_resumed_from_is_refused(self):
        self.assertIn("there is no checkpoint", self.run_on("--resume", code=INPUT)["error"])
        self.run_on("--steps", 4, "--every", 2)
        manifest = self.states / "manifest.json"
        sound = manifest.read_text()
        for torn in (sound[:len(sound) // 2], "", "[]", sound.replace('"step"', '"stop"'), sound.replace("step-4", "../x")):
            manifest.write_text(torn)
            self.assertIn("damaged", self.run_on("--resume", code=INPUT)["error"])
        manifest.write_text(sound)
        state = self.states / "step-4-rank-2.state"
        content = state.read_bytes()
        state.write_bytes(content + b"x")
        self.assertIn(f"rank 2: {state}: is not what was saved", self.run_on("--resume", code=RUN)["error"])
        state.unlink()
        self.assertIn(f"rank 2: {state}: ", self.run_on("--resume", code=RUN)["error"])
        state.write_bytes(content)
        self.plan = self.compile(SPECS / "1f1b.yaml", **{**COSTS, "pipeline__ranks": 3})
        self.assertIn("is of 4 ranks, the plan has 3", self.run_on("--resume", code=INPUT)["error"])

    def test_usage(self):
        for wrong in (["--every", 5], ["--resume"], ["--restart", 2]):
            self.piperun(self.plan, "--local", *wrong, code=USAGE)
        self.piperun(self.plan, "--local", "--checkpoint", "/proc/nowhere", code=USAGE)

    def killed(self, *arguments):
        """A run without end of which one rank is killed at a random moment after its first checkpoint, and which is asked
        to stop where it goes on after that: its exit code, its JSON and its messages."""
        control = self.folder / "control"
        launcher = subprocess.Popen([BIN / "piperun", *patient([self.plan, "--local", "-v", "--json", "--steps", 1000000,
                                                                "--checkpoint", self.states, "--every", "5", "--control",
                                                                control, *arguments])],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for last in (launcher.stderr.close, launcher.stdout.close, launcher.wait, launcher.kill):
            self.addCleanup(last)
        pids, checkpoints = {}, random.randint(1, 4)
        text = ""
        for line in launcher.stderr:
            text += line
            if match := re.search(r"rank (\d+) has pid (\d+)", line):
                pids[int(match[1])] = int(match[2])
            checkpoints -= "checkpoint after" in line
            if checkpoints == 0:
                break
        victim = random.choice(sorted(pids))
        os.kill(pids[victim], signal.SIGKILL)
        for line in launcher.stderr:
            text += line
            if "checkpoint after" in line and "restart 1" in text:
                self.piperun("--control", control, "stop")
                break
        out, rest = launcher.communicate(timeout=HANG)
        return launcher.returncode, out, text + rest, victim

    def test_a_killed_job_resumes_as_if_nothing_had_happened(self):
        for _ in range(10 if SOAK else 2):
            shutil.rmtree(self.states, ignore_errors=True)
            code, _, messages, victim = self.killed()
            self.assertEqual(code, RUN, messages)
            self.assertRegex(messages, rf"rank {victim} \(pid \d+\) was killed by signal 9")
            saved = self.manifest()["step"]
            self.assertEqual(saved % 5, 0)
            run = self.run_on("--steps", saved + 7, "--resume")
            self.assertEqual((run["first_step"], run["steps"], run["lost_steps"]), (saved, saved + 7, 0))
            self.assertEqual(self.manifest()["step"], saved + 7)

    def test_restart_goes_on_by_itself(self):
        trace = self.folder / "trace.json"
        code, out, messages, _ = self.killed("--restart", 1, "--trace", trace)
        self.assertEqual(code, OK, messages)
        run = json.loads(out)
        self.assertEqual((run["restarts"], run["first_step"] + len(run["step_ms"])), (1, run["steps"]))
        self.assertEqual(run["first_step"] % 5, 0)
        self.assertGreater(run["first_step"], 0)
        self.assertGreaterEqual(run["lost_steps"], 0)
        self.assertIn(f"restart 1 of 1 from step {run['first_step']}", messages)
        # The trace is of both attempts: up to the checkpoint the first one's, then the second one's, which came later.
        self.check_attempts([trace], run["first_step"], run["steps"])


if __name__ == "__main__":
    unittest.main()
