"""Processes that others have started: by hand with torchrun's variables, by Open MPI's mpirun, by torchrun."""
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import unittest

from support import BIN, OK, RUN, SPECS, USAGE, ToolTest

COSTS = {"costs__forward": "1ms", "costs__backward_input": "1ms", "costs__backward_weight": "1ms",
         "costs__link": "{latency: 50us, bandwidth: 10GB/s}"}
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "OMPI_", "PMIX_", "SLURM_", "TORCHELASTIC_", "PIPEC_SECRET")


def clean():
    """An environment in which nobody has started anything."""
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


def free_port():
    """A port that nobody listens at now, nor at the one above."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return min(probe.getsockname()[1], 60000)


class LaunchTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPECS / "1f1b.yaml", pipeline__ranks=3, **COSTS)
        self.port = free_port()

    def environment(self, rank, **more):
        return {**clean(), "RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self.port), "TORCHELASTIC_RUN_ID": "job 1", "PIPEC_SECRET": "a secret of the test",
                **more}

    def start(self, rank, *arguments, plan=None, deadline=10, **more):
        process = subprocess.Popen([BIN / "piperun", plan or self.plan, "--deadline", str(deadline),
                                    *map(str, arguments)],
                                   env=self.environment(rank, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        for last in (process.stderr.close, process.stdout.close, process.wait, process.kill):
            self.addCleanup(last)
        return process

    def finish(self, processes, codes):
        outs, messages = zip(*(process.communicate(timeout=90) for process in processes))
        self.assertEqual([process.returncode for process in processes], codes, "\n".join(messages))
        return outs, messages

    def refused(self, code=USAGE, arguments=(), **variables):
        done = subprocess.run([BIN / "piperun", self.plan, *arguments], env={**clean(), **variables}, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_processes_started_by_hand_form_a_job(self):
        trace = self.folder / "trace.json"
        processes = [self.start(rank, "--steps", 5, "--json", "--trace", trace, "-v") for rank in range(3)]
        outs, messages = self.finish(processes, [OK] * 3)
        run = json.loads(outs[0])
        self.assertEqual((run["ranks"], run["steps"], len(run["step_ms"])), (3, 5, 5))
        self.assertEqual(outs[1:], ("", ""))
        self.assertIn("rank 0: all 3 ranks have met", messages[0])
        for rank in range(3):
            events = json.loads((self.folder / f"trace.{rank}.json").read_text())["traceEvents"]
            self.assertEqual({event["pid"] for event in events if event["ph"] == "X"}, {rank})

    def test_swaps_and_checkpoints_work_over_tcp(self):
        plan = self.compile(SPECS / "1f1b.yaml", pipeline__ranks=3, variants="[{schedule: 1f1b}, {schedule: gpipe}]", **COSTS)
        states = self.folder / "states"
        arguments = ["--steps", 30, "--json", "--swap-every", 5, "--checkpoint", states, "--every", 10]
        outs, _ = self.finish([self.start(rank, *arguments, plan=plan) for rank in range(3)], [OK] * 3)
        run = json.loads(outs[0])
        self.assertGreater(run["swaps"], 0)
        self.assertEqual(run["checkpoint_step"], 30)
        arguments += ["--resume"]
        arguments[1] = 40
        outs, _ = self.finish([self.start(rank, *arguments, plan=plan) for rank in range(3)], [OK] * 3)
        self.assertEqual(json.loads(outs[0])["first_step"], 30)

    def test_another_job_on_the_first_port_is_passed_over(self):
        first = [self.start(rank, "--steps", 100000, "-v") for rank in range(3)]
        for line in first[0].stderr:
            if "have met" in line:
                break
        second = [self.start(rank, "--steps", 3, TORCHELASTIC_RUN_ID="job 2") for rank in range(3)]
        self.finish(second, [OK] * 3)
        first[1].send_signal(signal.SIGTERM)  # any process may be told; all end at one step
        self.finish(first, [OK] * 3)

    def test_what_differs_is_named_on_both_ends(self):
        other = self.folder / "other.pipe"
        self.pipec("compile", SPECS / "1f1b.yaml", "-o", other, "--set", "pipeline.ranks=3")
        processes = [self.start(rank, plan=other if rank == 1 else None) for rank in range(3)]
        _, messages = self.finish(processes, [RUN] * 3)
        for rank in (0, 1):
            self.assertRegex(messages[rank], r"the plan differs: rank \d has [0-9a-f]{16}, rank \d has [0-9a-f]{16}")
        processes = [self.start(rank, deadline=2, PIPEC_SECRET=f"secret {rank > 1}") for rank in range(3)]
        _, messages = self.finish(processes, [RUN] * 3)
        self.assertIn("the secret differs", messages[2])
        self.assertIn("rank 2 did not come to the meeting", messages[0])

    def test_a_lost_process_is_named_by_all(self):
        processes = [self.start(rank, "--steps", 100000, "-v") for rank in range(3)]
        for line in processes[0].stderr:
            if "have met" in line:
                break
        processes[1].kill()
        _, messages = self.finish(processes, [RUN, -signal.SIGKILL, RUN])
        for rank in (0, 2):
            self.assertRegex(messages[rank], r"lost rank 1")

    def test_the_environment_must_make_sense(self):
        good = self.environment(0)
        for variables, message in [
                ({}, "started by none of torchrun"),
                ({**good, "WORLD_SIZE": "4"}, "the plan is of 3 ranks, torchrun has started 4 processes"),
                ({**good, "RANK": "3"}, 'RANK is "3", expected a number from 0 to 2'),
                ({**good, "WORLD_SIZE": "many"}, 'WORLD_SIZE is "many"'),
                ({**good, "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"},
                 "torchrun and Open MPI disagree: RANK is 0, OMPI_COMM_WORLD_RANK is 1"),
                ({**good, "SLURM_PROCID": "0", "SLURM_NTASKS": "2"},
                 "torchrun and Slurm disagree: WORLD_SIZE is 3, SLURM_NTASKS is 2"),
                ({**good, "MASTER_ADDR": ""}, "does not say where rank 0 is"),
                ({**good, "MASTER_PORT": "http"}, 'MASTER_PORT is "http"'),
                ({**good, "PIPEC_SECRET": ""}, "PIPEC_SECRET is not set")]:
            with self.subTest(message):
                self.assertIn(message, self.refused(**variables))
        self.assertIn("is not known", self.refused(RUN, **{**good, "MASTER_ADDR": "no.such.invalid"}))

    def test_slurm(self):
        def variables(rank):
            return {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "3", "SLURM_LOCALID": str(rank), "SLURM_JOB_ID":
                    str(self.port), "SLURM_STEP_ID": "0", "SLURM_JOB_NODELIST": "localhost", "PIPEC_SECRET": "s"}
        processes = [subprocess.Popen([BIN / "piperun", self.plan, "--steps", "3", "--json"], text=True,
                                      env={**clean(), **variables(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                     for rank in range(3)]
        outs, _ = self.finish(processes, [OK] * 3)
        self.assertEqual(json.loads(outs[0])["steps"], 3)

    def test_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("SKIPPED: there is no mpirun here (package openmpi-bin)")
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3", BIN / "piperun", self.plan,
                               "--steps", "5", "--json"], env={**clean(), "PIPEC_SECRET": "s"}, text=True,
                              capture_output=True, timeout=120)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(json.loads(done.stdout)["steps"], 5)

    def test_torchrun(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("SKIPPED: Python's torch is not installed here, so torchrun was not tried")
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--no-python",
                               BIN / "piperun", self.plan, "--steps", "5", "--json"],
                              env={**clean(), "PIPEC_SECRET": "s"}, text=True, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn('"steps":5', done.stdout)


if __name__ == "__main__":
    unittest.main()
