"""Processes that others have started: by hand with torchrun's variables, by Open MPI's mpirun, by torchrun."""
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

from support import BIN, HANG, OK, PATIENCE, RUN, SPECS, USAGE, ToolTest, free_port

COSTS = {"costs__forward": "1ms", "costs__backward_input": "1ms", "costs__backward_weight": "1ms",
         "costs__link": "{latency: 50us, bandwidth: 10GB/s}"}
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "OMPI_", "PMIX_", "SLURM_", "TORCHELASTIC_", "PIPEC_SECRET")


def clean():
    """An environment in which nobody has started anything."""
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


class LaunchTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPECS / "1f1b.yaml", pipeline__ranks=3, **COSTS)
        self.port = free_port()

    def environment(self, rank, **more):
        return {**clean(), "RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self.port), "TORCHELASTIC_RUN_ID": "job 1", "PIPEC_SECRET": "a secret of the test",
                **more}

    def start(self, rank, *arguments, plan=None, deadline=PATIENCE, **more):
        process = subprocess.Popen([BIN / "piperun", plan or self.plan, "--deadline", str(deadline), "--rendezvous",
                                    str(deadline), *map(str, arguments)],
                                   env=self.environment(rank, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        for last in (process.stderr.close, process.stdout.close, process.wait, process.kill):
            self.addCleanup(last)
        return process

    def finish(self, processes, codes):
        outs, messages = zip(*(process.communicate(timeout=HANG) for process in processes))
        self.assertEqual([process.returncode for process in processes], codes, "\n".join(messages))
        return outs, messages

    def await_line(self, process, says):
        """It says so while it runs."""
        said = []
        for line in process.stderr:
            said.append(line)
            if re.search(says, line):
                return
        self.fail(f"{says}\nis not in\n{''.join(said)}")

    def refused(self, code=USAGE, arguments=(), **variables):
        done = subprocess.run([BIN / "piperun", self.plan, *map(str, arguments)], env={**clean(), **variables}, text=True,
                              capture_output=True, timeout=HANG)
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

    def test_shards_are_processes_of_the_job(self):
        plan = self.compile(SPECS / "slow-shard.yaml", pipeline__ranks=1, tensor_parallel__shards=3, pipeline__cut="auto",
                            tensor_parallel__slow="[{rank: 0, shard: 2, factor: 2}]")
        states = self.folder / "states"
        arguments = ["--steps", 4, "--json", "--checkpoint", states]
        outs, _ = self.finish([self.start(rank, *arguments, plan=plan) for rank in range(3)], [OK] * 3)
        run = json.loads(outs[0])
        self.assertEqual((run["ranks"], run["shards"], run["processes"], len(run["step_ms"]), len(run["own_ms"])), (1, 3, 3, 4, 3))
        self.assertEqual(sorted(file["name"] for file in json.loads((states / "manifest.json").read_text())["files"]),
                         [f"step-4-rank-0-shard-{shard}.state" for shard in range(3)])

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

    def test_what_rank_0_refuses_all_hear(self):
        """They would wait for it until the meeting ends, which it here never does."""
        states, control = self.folder / "states", self.folder / "none" / "control"
        self.finish([self.start(rank, "--steps", 1, "--checkpoint", states) for rank in range(3)], [OK] * 3)
        for options, says in ((["--checkpoint", states], "--checkpoint: .* has a checkpoint: go on from it with --resume"),
                              (["--checkpoint", states, "--resume", "--control", control], str(control))):
            processes = [self.start(rank, "--steps", 3, *options, deadline=0) for rank in range(3)]
            _, messages = self.finish(processes, [USAGE, RUN, RUN])
            self.assertRegex(messages[0], says)
            for rank in (1, 2):
                self.assertRegex(messages[rank], f"rank {rank}: the controller ended the run: rank 0: .*{says}")

    def test_a_restart_goes_on_from_the_last_checkpoint_and_so_does_its_trace(self):
        states = self.folder / "states"
        arguments = ["--checkpoint", states, "--every", 5, "--trace", self.folder / "trace.json"]
        first = [self.start(rank, *arguments, "--steps", 100000, "-v") for rank in range(3)]
        for line in first[0].stderr:
            if "checkpoint after 10 steps" in line:
                break
        first[1].kill()
        self.finish(first, [RUN, -signal.SIGKILL, RUN])
        self.assertEqual(list(self.folder.glob("trace*")), [])
        saved = json.loads((states / "manifest.json").read_text())["step"]
        outs, _ = self.finish([self.start(rank, *arguments, "--steps", saved + 12, "--json", TORCHELASTIC_RESTART_COUNT="1")
                               for rank in range(3)], [OK] * 3)
        self.assertEqual(json.loads(outs[0])["first_step"], saved)
        self.check_attempts([self.folder / f"trace.{rank}.json" for rank in range(3)], saved, saved + 12)
        self.assertEqual(list(states.glob("trace*")), [])

    def test_another_job_on_the_first_port_is_passed_over(self):
        first = [self.start(rank, "--steps", 100000, "-v") for rank in range(3)]
        for line in first[0].stderr:
            if "have met" in line:
                break
        second = [self.start(rank, "--steps", 3, TORCHELASTIC_RUN_ID="job 2") for rank in range(3)]
        self.finish(second, [OK] * 3)
        first[1].send_signal(signal.SIGTERM)  # any process may be told; all end at one step
        outs, _ = self.finish(first, [OK] * 3)
        self.assertRegex(outs[0], r"SIGTERM ended the run: \d+ of 100000 steps are done")

    def test_what_differs_is_named_on_both_ends(self):
        other = self.folder / "other.pipe"
        self.pipec("compile", SPECS / "1f1b.yaml", "-o", other, "--set", "pipeline.ranks=3")
        processes = [self.start(rank, plan=other if rank == 1 else None) for rank in range(3)]
        _, messages = self.finish(processes, [RUN] * 3)
        for rank in (0, 1):
            self.assertRegex(messages[rank], r"the plan differs: rank 1 at 127\.0\.0\.1 has [0-9a-f]{16}, "
                                             r"rank 0 at 127\.0\.0\.1:\d+ has [0-9a-f]{16}")
        processes = [self.start(rank, "--steps", 4 if rank == 1 else 3) for rank in range(3)]
        _, messages = self.finish(processes, [RUN] * 3)
        for rank in (0, 1):
            self.assertRegex(messages[rank], r"the number of steps \(--steps\) differs: rank 1 at 127\.0\.0\.1 has 4, "
                                             r"rank 0 at 127\.0\.0\.1:\d+ has 3")

    def test_another_secret_is_named_on_both_ends_at_once(self):
        """Who brings it ends; the others, who cannot know who it was, go on waiting for who holds theirs."""
        for secret, says in (({"PIPEC_SECRET": "another"}, "and rank 0 at {} have not the same PIPEC_SECRET"),
                             ({"PIPEC_SECRET": ""}, r"has none \(--no-secret\), rank 0 at {} has one")):
            with self.subTest(secret):
                arguments = ["--steps", 3, "--no-secret"]
                others = [self.start(rank, *arguments) for rank in (0, 1)]
                wrong = self.start(2, *arguments, **secret)
                says = r"the secret differs: rank 2 at 127\.0\.0\.1 " + says.format(r"127\.0\.0\.1:\d+")
                _, messages = self.finish([wrong], [RUN])
                self.assertRegex(messages[0], says)
                self.await_line(others[0], "rank 0: who called was refused: " + says)
                self.finish([*others, self.start(2, *arguments)], [OK] * 3)

    def test_two_jobs_on_one_port_are_named_on_both_ends_at_once(self):
        waiting = self.start(0, "--steps", 3, "-v")
        self.await_line(waiting, "meets the others at")
        displaced = [self.start(rank, "--steps", 3, TORCHELASTIC_RUN_ID="job 2") for rank in range(3)]
        says = r"the job id differs: rank 1 at 127\.0\.0\.1 has [0-9a-f]{16}, rank 0 at 127\.0\.0\.1:\d+ has [0-9a-f]{16}"
        _, messages = self.finish(displaced, [OK] * 3)
        self.assertRegex(messages[0], fr"port {self.port + 1} of 127\.0\.0\.1 is taken, by another job or another program: "
                                      fr"this job meets at port {self.port + 2}")
        self.assertRegex(messages[1], "rank 1: who answered is not rank 0 of this job: " + says)
        self.await_line(waiting, "rank 0: who called was refused: " + says)
        waiting.send_signal(signal.SIGTERM)
        self.finish([waiting], [RUN])

    def test_who_comes_twice_is_told_and_named(self):
        processes = [self.start(rank, "--steps", 3) for rank in (0, 1, 1)]
        _, messages = self.finish(processes, [RUN] * 3)
        for said in messages:
            self.assertIn("rank 1 came twice; each process needs a rank of its own", said)

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

    def test_a_host_that_stays_unknown_is_named(self):
        for rank in (0, 1):
            said = self.refused(RUN, ["--rendezvous", 1], **self.environment(rank, MASTER_ADDR="no.such.invalid"))
            self.assertRegex(said, rf"rank {rank}: the host of rank 0, no\.such\.invalid, is not known: .* for 1 s; "
                                   "set MASTER_ADDR")

    def test_slurm(self):
        def variables(rank):
            return {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "3", "SLURM_LOCALID": str(rank), "SLURM_JOB_ID":
                    str(self.port), "SLURM_STEP_ID": "0", "SLURM_JOB_NODELIST": "localhost", "PIPEC_SECRET": "s"}
        processes = [subprocess.Popen([BIN / "piperun", self.plan, "--steps", "3", "--json", "--deadline", str(PATIENCE)], text=True,
                                      env={**clean(), **variables(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                     for rank in range(3)]
        outs, _ = self.finish(processes, [OK] * 3)
        self.assertEqual(json.loads(outs[0])["steps"], 3)

    def test_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("SKIPPED: there is no mpirun here (package openmpi-bin)")
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3", BIN / "piperun", self.plan,
                               "--steps", "5", "--json", "--deadline", str(PATIENCE)], env={**clean(), "PIPEC_SECRET": "s"}, text=True,
                              capture_output=True, timeout=HANG)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(json.loads(done.stdout)["steps"], 5)

    def test_who_is_missing_is_said_and_a_signal_ends_the_waiting(self):
        for rank, says in ((0, r"rank 0: 5 s: waiting for rank 1, rank 2"), (1, r"rank 1: 5 s: waiting for rank 0 at 127")):
            with self.subTest(rank=rank):
                process = self.start(rank)
                self.assertRegex(process.stderr.readline(), says)
                process.send_signal(signal.SIGTERM)
                _, messages = process.communicate(timeout=HANG)
                self.assertEqual(process.returncode, RUN if rank == 0 else -signal.SIGTERM, messages)

    def test_a_launcher_that_is_killed_takes_its_processes_along(self):
        # Ranks 0 and 1 of 3, started by a process of their own: they wait for the third when it dies.
        script = ("import os, subprocess, sys, time\n"
                  "for rank in '01':\n"
                  "    each = subprocess.Popen(sys.argv[1:], env={**os.environ, 'RANK': rank})\n"
                  "    print(each.pid, flush=True)\n"
                  "time.sleep(600)\n")
        launcher = subprocess.Popen([sys.executable, "-c", script, BIN / "piperun", self.plan, "-v"], text=True,
                                    env=self.environment(0), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for last in (launcher.stderr.close, launcher.stdout.close, launcher.wait, launcher.kill):
            self.addCleanup(last)
        pids = [int(launcher.stdout.readline()) for _ in range(2)]
        seen = ""
        while not ("rank 0: pid" in seen and "rank 1: pid" in seen):  # they have met, without the third
            seen += launcher.stderr.readline()
        launcher.kill()
        self.nobody_is_left(pids)

    def torchrun(self):
        """How to start torchrun: PIPEC_TORCH_PYTHON names a Python that has torch, else this one has it, or the PATH."""
        python = os.environ.get("PIPEC_TORCH_PYTHON") or (sys.executable if importlib.util.find_spec("torch") else None)
        if python:
            return [python, "-m", "torch.distributed.run"]
        if shutil.which("torchrun"):
            return ["torchrun"]
        return self.skipTest("SKIPPED: there is no torchrun here (Python's torch; PIPEC_TORCH_PYTHON may name a Python "
                             "that has it)")

    def under_torchrun(self, *arguments, launcher=()):
        return subprocess.Popen([*self.torchrun(), "--master-port", str(self.port), "--nproc-per-node", "3", *launcher,
                                 "--no-python", BIN / "piperun", self.plan, "--deadline", str(PATIENCE),
                                 *map(str, arguments)],
                                env={**clean(), "PIPEC_SECRET": "s", "OMP_NUM_THREADS": "1"}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_torchrun(self):
        out, messages = self.finish([self.under_torchrun("--steps", 5, "--json")], [OK])
        self.assertIn('"steps":5', out[0], messages)

    def test_torchrun_ends_when_a_rank_is_lost(self):
        process = self.under_torchrun("--steps", 100000, "-v")
        pids = []
        for line in process.stderr:
            if match := re.search(r"rank \d: pid (\d+)", line):
                pids.append(int(match[1]))
            if "ranks have met" in line:
                break
        os.kill(pids[-1], signal.SIGKILL)
        _, messages = self.finish([process], [1])  # torchrun's own code
        self.assertRegex(messages[0], r"lost rank \d")
        self.nobody_is_left(pids)

    def test_torchrun_restarts_from_the_last_checkpoint(self):
        # The agent starts all ranks again in the same job: another attempt, which nobody left over may join.
        states, trace = self.folder / "states", self.folder / "trace.json"
        process = self.under_torchrun("--steps", 1000, "-v", "--json", "--checkpoint", states, "--every", 20, "--trace", trace,
                                      launcher=("--max-restarts", "1"))
        pids, met, killed = [], 0, False
        for line in process.stderr:
            if match := re.search(r"rank 1: pid (\d+)", line):
                pids.append(int(match[1]))
            met += "ranks have met" in line
            if "checkpoint after" in line and not killed:
                os.kill(pids[0], signal.SIGKILL)
                killed = True
            if met == 2:
                break
        outs, _ = self.finish([process], [OK])
        self.assertEqual(len(pids), 2)
        saved = json.loads(re.findall(r"{.*}", outs[0])[-1])["first_step"]  # the first attempt says why it failed
        self.assertGreater(saved, 0)
        self.check_attempts([self.folder / f"trace.{rank}.json" for rank in range(3)], saved, 1000)


if __name__ == "__main__":
    unittest.main()
