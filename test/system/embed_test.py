"""Programs that run a rank in their own process: a host in C (test/embed/host.c) under torchrun's variables, also on GPUs,
which the stand-ins are (test/standin)."""
import json
import os
import random
import signal
import subprocess
import time
import unittest

from gpu_test import STANDIN
from support import BIN, HANG, INPUT, OK, PATIENCE, RUN, SOAK, USAGE, ToolTest, free_port, tool, until

WIDTH, RATE = 256, 1e-4

SPEC = """\
pipec: 1
pipeline: {ranks: RANKS, microbatches: 8}
costs: {forward: 2ms, backward_input: 2ms, backward_weight: 2ms}
tensors: {boundary: 2KiB, activation: 2KiB, weight_context: 1KiB}
schedule: SCHEDULE
"""

VARIANTS = """\
pipec: 1
pipeline: {ranks: 2, microbatches: 8}
costs: {forward: 2ms, backward_input: 2ms, backward_weight: 2ms}
tensors: {boundary: 2KiB}
schedule: 1f1b
variants:
  - schedule: 1f1b
  - schedule: zb-h1
  - schedule: {name: kfkb, k: 2}
"""


def reference(stages, steps, microbatches=8, clip=0.0):
    """What the host computes, in one process: the losses and the weights."""
    weights = [[1 + 0.001 * ((s * 31 + i * 7) % 97) for i in range(WIDTH)] for s in range(stages)]
    losses = []
    for step in range(steps):
        gradients = [[0.0] * WIDTH for _ in range(stages)]
        loss = 0.0
        for m in range(microbatches):
            kept = []
            x = [0.01 * ((step * 13 + m * 5 + k) % 89) for k in range(WIDTH)]
            for w in weights:
                kept.append(x)
                x = [a * b for a, b in zip(x, w)]
            for value in x:
                loss += value * value / 2
            for s in reversed(range(stages)):
                gradients[s] = [g + b * i for g, b, i in zip(gradients[s], x, kept[s])]
                x = [a * b for a, b in zip(x, weights[s])]
        losses.append(loss / microbatches)
        for s in range(stages):
            weights[s] = [w - RATE * 1.0 * g / microbatches for w, g in zip(weights[s], gradients[s])]
    return losses, weights


class HostTest(ToolTest):
    def environment(self, world, rank, port):
        # One arena of malloc's: how many threads that compete make differs from run to run, and CudaTest counts memory.
        return {**os.environ, "MALLOC_ARENA_MAX": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world),
                "RANK": str(rank), "LOCAL_RANK": str(rank), "PIPEC_SECRET": "of the test"}

    def begin(self, plan, world, *arguments, only=None):
        """A host for each rank; `only`: more arguments, by rank."""
        port = free_port()
        hosts = []
        for rank in range(world):
            host = subprocess.Popen([BIN / "embed-host", plan, *map(str, arguments), *map(str, (only or {}).get(rank, []))],
                                    env=self.environment(world, rank, port), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True)
            hosts.append(host)
            for last in (host.stderr.close, host.stdout.close, host.wait, host.kill):
                self.addCleanup(last)
        return hosts

    def end(self, hosts, code=OK):
        """What each has said: its lines of JSON, and its standard error."""
        said = []
        for rank, host in enumerate(hosts):
            out, error = host.communicate(timeout=HANG)
            self.assertEqual(host.returncode, code, f"rank {rank}: {out}\n{error}")
            said.append(([json.loads(line) for line in out.splitlines()], error))
        return said

    def host(self, plan, world, *arguments, code=OK, only=None):
        return self.end(self.begin(plan, world, "--idle", PATIENCE, "--deadline", PATIENCE, *arguments, only=only), code)

    def check(self, said, stages, steps, first=0):
        """Losses and weights are those of one process, to the last bit."""
        losses, weights = reference(stages, steps)
        found, seen = {}, {}
        for lines, _ in said:
            for line in lines:
                found.update({int(s): w for s, w in line.get("weights", {}).items()})
                if line.get("loss"):
                    seen[line["step"]] = line["loss"]
        self.assertEqual(seen, dict(list(enumerate(losses))[first:]))
        self.assertEqual(found, dict(enumerate(weights)))


class EmbedTest(HostTest):
    def test_all_schedules_train_like_one_process(self):
        rows = [("1f1b", 4, 4), ("zb-h1", 4, 4), ("gpipe", 2, 2), ("{name: kfkb, k: 2}", 4, 4), ("eager-1f1b", 3, 3),
                ("v-half", 2, 4), ("v-min", 4, 8), ("zb-v", 2, 4), ("interleaved-1f1b", 2, 4)]
        for schedule, ranks, stages in rows:
            with self.subTest(schedule):
                spec = SPEC.replace("SCHEDULE", schedule).replace("RANKS", str(ranks))
                if schedule == "interleaved-1f1b":
                    spec = spec.replace("microbatches: 8}", "microbatches: 8, stages_per_rank: 2}")
                if schedule in ("v-half", "v-min", "zb-v"):
                    spec = spec.replace("microbatches: 8}", "microbatches: 8, placement: v}")
                self.check(self.host(self.compile(spec), ranks, "--stages", stages, "--steps", 4), stages, 4)

    def test_the_plans_own_optimizer_and_the_norm_of_all(self):
        spec = SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2").replace(
            "costs: {", "costs: {optimizer: {time: 1ms, global_norm: true}, ")
        said = self.host(self.compile(spec), 2, "--stages", 2, "--steps", 4, "--clip", 1e9)
        self.check(said, 2, 4)

    def test_a_forked_child_leaves_the_run_alone(self):
        """It closes the run and exits; the run goes on, keeps its folder, and ends as if there had been no child."""
        plan, folder = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2")), self.folder / "states"
        said = self.host(plan, 2, "--stages", 2, "--steps", 6, "--fork", 2, "--checkpoint", folder, "--every", 2,
                         "--sleep", 4, 0.1)
        self.check(said, 2, 6)
        for _, error in said:
            self.assertRegex(error, r"child: the run is of process \d+, this is its child \d+")
        self.assertEqual(json.loads((folder / "manifest.json").read_text())["step"], 6)

    def test_a_drained_step_ends_once_more(self):
        spec = SPEC.replace("SCHEDULE", "zb-h1").replace("RANKS", "2").replace("costs: {", "costs: {optimizer: 1ms, ")
        self.check(self.host(self.compile(spec), 2, "--stages", 2, "--steps", 6, "--drain"), 2, 6)
        self.check(self.host(self.compile(spec), 2, "--stages", 2, "--steps", 6, only={1: ["--drain"]}), 2, 6)

    def test_a_swap_in_mid_run_changes_no_bit(self):
        plan = self.compile(VARIANTS)
        said = self.host(plan, 2, "--stages", 2, "--steps", 30, "--swap", 10, "zb-h1")
        self.check(said, 2, 30)
        for lines, _ in said:  # both ranks asked alike
            self.assertIn([line["swapped"] for line in lines if "swapped" in line][0], (10, 11))
        said = self.host(plan, 2, "--stages", 2, "--steps", 30, only={1: ["--swap", 5, "2"]})
        self.check(said, 2, 30)
        hosts = self.begin(plan, 2, "--stages", 2, "--steps", 30, "--swap", 5, "none")
        errors = [host.communicate(timeout=HANG)[1] for host in hosts]
        self.assertIn(USAGE, [host.returncode for host in hosts])  # one may hear it of the other
        for error in errors:
            self.assertIn('there is no variant "none"; the plan has variant 0 (1f1b), variant 1 (zb-h1)', error)

    def test_a_run_of_many_steps_ends(self):
        """What its report says of each step has room in what the ranks send each other."""
        spec = SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "1").replace("microbatches: 8}", "microbatches: 1}")
        lines, _ = self.host(self.compile(spec), 1, "--stages", 1, "--steps", 12000)[0]
        self.assertEqual([line["step"] for line in lines if "loss" in line][-1:], [11999])

    def test_a_control_socket_swaps_and_stops(self):
        plan, control = self.compile(VARIANTS), self.folder / "control"
        hosts = self.begin(plan, 2, "--stages", 2, "--steps", 1000000, "--control", control)
        until(control.exists, "the control socket")
        done = until(lambda: (found := tool("piperun", "--control", control, "swap", "1")).returncode == OK and found,
                     "a swap")
        self.assertIn("variant 1 (zb-h1)", done.stdout)
        self.run_tool("piperun", "--control", control, "stop")
        said = self.end(hosts)
        steps = {len([line for line in lines if "step" in line]) for lines, _ in said}
        self.assertEqual(len(steps), 1)

    def test_one_rank_stops_all(self):
        plan, folder = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2")), self.folder / "states"
        said = self.host(plan, 2, "--stages", 2, "--steps", 1000000, "--checkpoint", folder, only={1: ["--stop", 3]})
        steps = {len([line for line in lines if "step" in line]) for lines, _ in said}
        self.assertEqual(len(steps), 1)
        self.assertEqual({json.loads((folder / "manifest.json").read_text())["step"]}, steps)

    def test_killed_and_resumed_it_ends_as_if_it_never_was(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "zb-h1").replace("RANKS", "2"))
        for attempt in range(100 if SOAK else 3):
            folder = self.folder / f"states-{attempt}"
            hosts = self.begin(plan, 2, "--stages", 2, "--steps", 1000000, "--checkpoint", folder, "--every", 7)
            until(lambda: list(folder.glob("*.json")), "a checkpoint")
            time.sleep(0.001 * random.randrange(20))
            hosts[attempt % 2].send_signal(signal.SIGKILL)
            for host in hosts:
                host.wait(timeout=HANG)
            manifest = json.loads(max(folder.glob("*.json"), key=lambda path: path.stat().st_mtime).read_text())
            steps = manifest["step"] + 10
            said = self.host(plan, 2, "--stages", 2, "--steps", steps, "--checkpoint", folder, "--resume")
            self.check(said, 2, steps, first=manifest["step"])
        self.host(plan, 2, "--stages", 2, "--steps", 3, "--checkpoint", self.folder / "empty", "--resume")
        hosts = self.begin(plan, 2, "--stages", 2, "--steps", 3, "--checkpoint", folder)
        _, error = hosts[0].communicate(timeout=HANG)
        self.assertEqual(hosts[0].returncode, USAGE)
        says = "has a checkpoint: go on from it with resume, or begin anew without it with overwrite"
        self.assertIn(says, error)
        _, error = hosts[1].communicate(timeout=HANG)
        self.assertRegex(error, f"rank 1: the controller ended the run: rank 0: checkpoint: .* {says}")

    def test_the_reports_are_one(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2"))
        said = self.host(plan, 2, "--stages", 2, "--steps", 5, "--report", "--trace", self.folder / "t.json")
        reports = [next(line for line in lines if "step_ms" in line) for lines, _ in said]
        self.assertEqual(reports[0], reports[1])
        self.assertEqual((len(reports[0]["step_ms"]), reports[0]["ended"]), (5, "done"))
        for rank in range(2):
            trace = json.loads((self.folder / f"t.{rank}.json").read_text())
            self.assertEqual(sum(self.complete_events(trace, 4).values()), 8 * 4 + 1)  # F, BW, both transfers, the update

    def test_an_error_is_told_to_all(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "4"))
        said = self.host(plan, 4, "--stages", 4, "--steps", 50, code=RUN, only={2: ["--fail", 3]})
        for _, error in said:
            self.assertIn("rank 2: F stage 2 microbatch 0: asked to fail", error)

    def test_a_lost_rank_is_named(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2"))
        hosts = self.begin(plan, 2, "--stages", 2, "--steps", 1000000)
        for host in hosts:
            host.stdout.readline()
        hosts[1].kill()
        _, error = hosts[0].communicate(timeout=HANG)
        self.assertEqual(hosts[0].returncode, RUN)
        self.assertIn("rank 1", error)

    def test_who_pauses_between_steps_is_not_late_and_who_stops_in_one_is(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2"))
        for deadline in (1, 10, 100):  # where a busy machine makes the other one late for it, longer
            said = None
            hosts = self.begin(plan, 2, "--stages", 2, "--steps", 6, "--deadline", deadline, "--idle", PATIENCE,
                               only={1: ["--sleep", 3, 2.5 * deadline]})
            codes = [host.wait(timeout=HANG) for host in hosts]
            errors = [host.stderr.read() for host in hosts]
            if codes == [RUN, RUN] and f"within {deadline} s" in errors[0]:
                break
        else:
            self.fail(f"{codes} {errors}")

    def test_all_end_behind_the_same_step(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2"))
        said = self.host(plan, 2, "--stages", 2, "--steps", 9, code=RUN, only={1: ["--finish-at", 4]})
        for _, error in said:
            self.assertRegex(error, "rank 1 ends after 4 steps, rank 0 (begins step 4|after 9)")

    def test_bad_input(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2"))
        said = self.host(plan, 3, "--stages", 2, "--steps", 2, code=USAGE)
        for _, error in said:
            self.assertIn("the plan is for 2 processes (2 ranks), torchrun has started 3", error)
        alone = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "PIPEC_SECRET")}
        done = self.run_tool("embed-host", plan, env=alone, code=USAGE)
        self.assertIn("start it with torchrun, Slurm or Open MPI", done.stderr)
        done = self.run_tool("embed-host", self.folder / "nothing.pipe", env=alone, code=INPUT)
        self.assertIn("nothing.pipe", done.stderr)
        (self.folder / "cut.pipe").write_bytes(plan.read_bytes()[:200])
        self.run_tool("embed-host", self.folder / "cut.pipe", env=alone, code=INPUT)
        launched = self.environment(2, 0, free_port())
        del launched["PIPEC_SECRET"]
        self.assertIn("PIPEC_SECRET", self.run_tool("embed-host", plan, env=launched, code=USAGE).stderr)
        jobs = self.folder / "jobs.pipe"
        self.pipec("compile", "specs/background.yaml", "-o", jobs, cwd=os.environ["PIPEC_SOURCE"])
        self.assertIn("background jobs", self.run_tool("embed-host", jobs, env=alone, code=INPUT).stderr)

    def test_a_thousand_runs_leave_nothing_behind(self):
        spec = SPEC.replace("SCHEDULE", "1f1b")
        runs = 1000 if SOAK else 200
        for ranks, opens in ((1, runs), (2, runs // 4)):
            said = self.host(self.compile(spec.replace("RANKS", str(ranks))), ranks, "--stages", ranks, "--steps", 2,
                             "--opens", opens)
            for lines, _ in said:
                before, after = [line for line in lines if "when" in line]
                self.assertEqual((before["threads"], after["threads"]), (1, 1))
                self.assertEqual(before["descriptors"], after["descriptors"])
                if "asan" not in os.environ.get("PIPEC_PRESET", ""):
                    self.assertLess(after["kilobytes"], before["kilobytes"] + 1024)


class CudaTest(HostTest):
    """The same host on streams: to the last bit what it is without a GPU."""

    DEVICES = 8

    def environment(self, world, rank, port):
        # The host's thread puts its work on the streams of the runtime's.
        return {**super().environment(world, rank, port), "LD_LIBRARY_PATH": str(STANDIN),
                "PIPEC_STANDIN": f"devices={self.DEVICES} issuers=2"}

    def both(self, plan, world, *arguments, **options):
        """What it says on GPUs over each transport is what it says on the host."""
        on_host = self.host(plan, world, *arguments, **options)
        for transport in ("ipc", "nccl"):
            with self.subTest(transport=transport):
                self.same(on_host, self.host(plan, world, *arguments, "--device", "cuda", "--transport", transport, **options))
        return on_host

    def same(self, *all_said):
        on_host, on_gpu = ([lines for lines, _ in said] for said in all_said)
        self.assertEqual(on_gpu, on_host)

    def test_all_schedules_train_like_the_host(self):
        for schedule, ranks, stages in [("1f1b", 4, 4), ("zb-h1", 4, 4), ("v-half", 2, 4), ("interleaved-1f1b", 2, 4)]:
            with self.subTest(schedule):
                spec = SPEC.replace("SCHEDULE", schedule).replace("RANKS", str(ranks))
                more = {"v-half": ", placement: v", "interleaved-1f1b": ", stages_per_rank: 2"}.get(schedule, "")
                spec = spec.replace("microbatches: 8}", f"microbatches: 8{more}}}")
                self.check(self.both(self.compile(spec), ranks, "--stages", stages, "--steps", 5), stages, 5)

    def test_ranks_that_share_a_gpu(self):
        self.DEVICES = 1
        plan = self.compile(SPEC.replace("SCHEDULE", "zb-h1").replace("RANKS", "3"))
        self.check(self.host(plan, 3, "--stages", 3, "--steps", 3, "--device", "cuda"), 3, 3)

    def test_the_norm_of_all_goes_through_slots(self):
        spec = SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2").replace(
            "costs: {", "costs: {optimizer: {time: 1ms, global_norm: true}, ")
        self.check(self.both(self.compile(spec), 2, "--stages", 2, "--steps", 4, "--clip", 1e9), 2, 4)
        clipped = self.both(self.compile(spec), 2, "--stages", 2, "--steps", 4, "--clip", 1e-3)
        with self.assertRaises(AssertionError):
            self.check(clipped, 2, 4)

    def test_replicas_sum_gradients_on_gpus(self):
        spec = """
pipec: 1
pipeline: {ranks: 2, microbatches: 4}
layers: [{count: 2, forward: 2ms, backward_input: 2ms, backward_weight: 2ms, boundary: 2KiB, gradients: 2KiB%s}]
schedule: 1f1b
data_parallel: {degree: 2, costs: {all_reduce: {start: 100us, bandwidth: 1GB/s}}, %s}
"""
        for optimizer, way in [("", "policy: ddp"), (", optimizer: 1ms", "collective: decoupled"), (", optimizer: 1ms", "policy: ddp")]:
            with self.subTest(way, optimizer=optimizer):
                plan = self.compile(spec % (optimizer, way))
                arguments = ("--stages", 2, "--steps", 4, "--replicas", 2, "--drain")
                on_host = self.host(plan, 4, *arguments)
                self.same(on_host, self.host(plan, 4, *arguments, "--device", "cuda", "--transport", "nccl"))
                weights = [lines[-1]["weights"] for lines, _ in on_host]
                self.assertEqual((weights[0], weights[2]), (weights[1], weights[3]))
        for _, error in self.host(plan, 4, *arguments, "--device", "cuda", "--transport", "ipc", code=USAGE):
            self.assertIn("--transport=ipc has no collectives between replicas yet", error)

    def test_swaps_and_states(self):
        plan = self.compile(VARIANTS)
        self.check(self.host(plan, 2, "--stages", 2, "--steps", 12, "--swap", 5, "zb-h1", "--device", "cuda", "--checkpoint",
                             self.folder / "states", "--every", 4), 2, 12)
        self.check(self.host(plan, 2, "--stages", 2, "--steps", 15, "--device", "cuda", "--checkpoint", self.folder / "states",
                             "--resume"), 2, 15, first=12)
        self.check(self.host(plan, 2, "--stages", 2, "--steps", 17, "--checkpoint", self.folder / "states", "--resume"), 2, 17,
                   first=15)

    def test_times_are_of_the_gpus(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2"))
        said = self.host(plan, 2, "--stages", 2, "--steps", 5, "--report", "--trace", self.folder / "t.json", "--device", "cuda")
        report = next(line for line in said[0][0] if "step_ms" in line)
        self.assertEqual((report["device"], report["stage"], len(report["step_ms"])), ("cuda", "host", 5))
        for rank in range(2):
            trace = json.loads((self.folder / f"t.{rank}.json").read_text())
            self.assertEqual(sum(self.complete_events(trace, 4).values()), 8 * 4 + 1)

    def test_an_error_is_told_to_all(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "4"))
        for transport in ("ipc", "nccl"):
            said = self.host(plan, 4, "--stages", 4, "--steps", 50, "--device", "cuda", "--transport", transport, code=RUN,
                             only={2: ["--fail", 3]})
            for _, error in said:
                self.assertIn("rank 2: F stage 2 microbatch 0: asked to fail", error)

    def test_a_lost_rank_is_named(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "2"))
        for transport in ("ipc", "nccl"):
            hosts = self.begin(plan, 2, "--stages", 2, "--steps", 1000000, "--device", "cuda", "--transport", transport)
            for host in hosts:
                host.stdout.readline()
            hosts[1].kill()
            _, error = hosts[0].communicate(timeout=HANG)
            self.assertEqual(hosts[0].returncode, RUN, error)
            self.assertIn("rank 1", error)

    def test_bad_input(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "1f1b").replace("RANKS", "1"))
        for expected, *arguments in [("device: expected host or cuda, got tpu", "--device", "tpu"),
                                     ("transport: expected ipc or nccl, with the device cuda, got tcp", "--device", "cuda",
                                      "--transport", "tcp"),
                                     ("got nccl with host", "--transport", "nccl")]:
            [(_, error)] = self.host(plan, 1, "--stages", 1, "--steps", 2, *arguments, code=USAGE)
            self.assertIn(expected, error)

    def counts(self, said):
        for lines, error in said:
            before, after = [line for line in lines if "when" in line]
            for what in ("threads", "descriptors"):
                self.assertEqual(before[what], after[what], f"{what}: {error}")
            if "asan" not in os.environ.get("PIPEC_PRESET", ""):
                self.assertLess(after["kilobytes"], before["kilobytes"] + 1024)

    def test_many_runs_leave_nothing_behind(self):
        spec = SPEC.replace("SCHEDULE", "1f1b")
        runs = 1000 if SOAK else 100
        for ranks, opens, transport in ((1, runs, "ipc"), (2, runs // 2, "ipc"), (2, runs // 2, "nccl")):
            with self.subTest(ranks=ranks, transport=transport):
                self.counts(self.host(self.compile(spec.replace("RANKS", str(ranks))), ranks, "--stages", ranks, "--steps", 2,
                                      "--opens", opens, "--device", "cuda", "--transport", transport))

    def test_runs_that_are_closed_in_a_step_leave_nothing_behind(self):
        plan = self.compile(SPEC.replace("SCHEDULE", "zb-h1").replace("RANKS", "2"))
        for transport in ("ipc", "nccl"):
            with self.subTest(transport=transport):
                self.counts(self.host(plan, 2, "--stages", 2, "--steps", 3, "--opens", 30, "--abandon", 1, "--device", "cuda",
                                      "--transport", transport))


if __name__ == "__main__":
    unittest.main()
