"""What tests of training have in common: specs, and processes that each run a rank of cases (trains.py)."""
import json
import multiprocessing
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "system"))

import models  # noqa: E402
import torch  # noqa: E402
from ports import free_port  # noqa: E402

import pipec  # noqa: E402
import pipec.torch  # noqa: E402

SOAK = os.environ.get("PIPEC_SOAK", "") not in ("", "0")
HERE = pathlib.Path(__file__).resolve().parent
HANG = 1800 if SOAK else 900
ROWS = 8  # of a batch, in four microbatches
BOUNDARY = ROWS // 4 * models.LENGTH * models.WIDTH * 4

SPEC = """\
pipec: 1
pipeline: {ranks: RANKS, microbatches: MICROBATCHESMORE}
costs: {forward: 2ms, backward_input: 2ms, backward_weight: 2msCOSTS}
tensors: {boundary: BOUNDARYB, activation: 1MiB, weight_context: 512KiB}
schedule: SCHEDULE
"""


def spec(schedule, ranks, more="", costs="", tail="", boundary=BOUNDARY, microbatches=4):
    text = SPEC.replace("MICROBATCHES", str(microbatches))
    text = text.replace("SCHEDULE", schedule).replace("RANKS", str(ranks)).replace("MORE", more).replace("COSTS", costs)
    return text.replace("BOUNDARY", str(boundary)) + tail


def cut(schedule, tail=""):
    """Two ranks of three and two layers."""
    layer = "{forward: 2ms, backward_input: 2ms, backward_weight: 2ms, activation: 1MiB, weight_context: 512KiB, count: 5}"
    return (f"pipec: 1\npipeline: {{ranks: 2, microbatches: 4, cut: [3, 2]}}\nlayers:\n- {layer}\n"
            f"tensors: {{boundary: {BOUNDARY}B}}\nschedule: {schedule}\n{tail}")


def replicated(policy, ranks, degree, microbatches, costs=""):
    """A spec of replicas, with four layers as models.layers(4) has them."""
    sizes = [4 * sum(p.numel() for p in layer().parameters()) for layer in models.layers(4)]
    rows = "".join(f"- {{forward: 2ms, backward: 4ms, activation: 1MiB, weights: {each}B, gradients: {each}B, optimizer: 1ms, "
                   f"optimizer_state: {2 * each}B}}\n" for each in sizes)
    return (f"pipec: 1\npipeline: {{ranks: {ranks}, microbatches: {microbatches}}}\nlayers:\n{rows}"
            f"tensors: {{boundary: {BOUNDARY}B}}\nschedule: 1f1b\ncosts: {{link: {{bandwidth: 1GB/s}}{costs}}}\n"
            f"data_parallel: {{degree: {degree}, link: {{latency: 50us, bandwidth: 1GB/s}}, {policy}}}\n")


torch.set_num_threads(1)  # a process that has threads cannot be forked


class Program(multiprocessing.get_context("fork").Process):
    """A Python program in a process of its own, which is forked off this one: to import PyTorch and to make a first optimizer
    takes a process four seconds. Used as a subprocess.Popen, whose first word is Python."""

    def __init__(self, command, env, stdout, stderr=None, stdin=None):
        super().__init__()
        self.command, self.environment, self.files = [*map(str, command[1:])], env, (stdin, stdout, stderr)
        threads = os.listdir("/proc/self/task")
        assert len(threads) == 1, f"{len(threads)} threads, of which a forked process has one"
        self.start()

    def run(self):
        for descriptor, file in enumerate(self.files):
            if file:
                os.dup2(file.fileno(), descriptor)
        os.environ.update(self.environment)
        sys.stdin, sys.argv = open(0, encoding="utf-8", closefd=False), self.command
        torch.manual_seed(0)  # whatever this process has drawn
        runpy.run_path(self.command[0], run_name="__main__")

    def wait(self, timeout=None):
        self.join(timeout)
        if self.exitcode is None:
            raise subprocess.TimeoutExpired(self.command, timeout)
        return self.exitcode

    @property
    def returncode(self):
        return self.exitcode

    def send_signal(self, signal):
        os.kill(self.pid, signal)


class FolderTest(unittest.TestCase):
    """A test with a folder of its own."""
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pipec-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class RunsTest(FolderTest):
    """A test that starts processes, each with one rank of every case, and reads what they say. program: which reads
    cases as JSON, and says a line of each. forks: processes are forked off this one, which has no threads then."""

    program, forks = "trains.py", True

    def setUp(self):
        super().setUp()
        self.plans, self.files = 0, {}

    def plan(self, text, **settings):
        """The path of a spec's plan."""
        self.plans += 1
        source, path = self.folder / f"spec-{self.plans}.yaml", self.folder / f"plan-{self.plans}.pipe"
        source.write_text(text, encoding="utf-8")
        pipec.compile(source, set=settings).save(path)
        return str(path)

    def places(self, launcher, world):
        """[of each rank: the variables that its launcher sets]."""
        port = str(free_port())
        if launcher == "torchrun":
            return [{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(world), "RANK": str(rank),
                     "LOCAL_RANK": str(rank)} for rank in range(world)]
        return [{"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(world), "SLURM_LOCALID": str(rank), "SLURM_NNODES": "1",
                 "SLURM_JOB_ID": port, "SLURM_STEP_ID": "0", "SLURM_JOB_NODELIST": "localhost"} for rank in range(world)]

    def begin(self, world, cases, launcher="torchrun"):
        processes, path = [], self.folder / f"cases-{len(self.files)}"
        path.write_text(json.dumps(cases), encoding="utf-8")
        for rank, place in enumerate(self.places(launcher, world)):
            files = [open(self.folder / f"said-{len(self.files)}-{rank}{name}", "w+") for name in (".out", ".err")]
            place["PIPEC_SECRET"] = "of the test"
            with open(path, encoding="utf-8") as said:
                process = (Program if self.forks else subprocess.Popen)(
                    [sys.executable, HERE / self.program], env={**os.environ, **place}, stdin=said, stdout=files[0], stderr=files[1])
            processes.append(process)
            self.files[process] = files
            for last in (*(file.close for file in files), process.wait, process.kill):
                self.addCleanup(last)
        return processes

    def said_by(self, process):
        """What stands on its standard output and error so far: in files, as pipes fill up."""
        return [pathlib.Path(file.name).read_text(encoding="utf-8") for file in self.files[process]]

    def end(self, processes, code=0):
        """[of each rank: [what it said of each case]]."""
        said = []
        for rank, process in enumerate(processes):
            process.wait(timeout=HANG)
            out, error = self.said_by(process)
            self.assertEqual(process.returncode, code, f"rank {rank}: {out}\n{error}")
            said.append([json.loads(line) for line in out.splitlines() if line.startswith("{")])
        return said

    def run_cases(self, world, cases, launcher="torchrun"):
        return self.end(self.begin(world, cases, launcher))

    def modules(self, case):
        plan = pipec.load(case["plan"])
        dtype = torch.float64 if case.get("double") else torch.float32
        made = {}
        for rank in range(plan.ranks):
            made.update(pipec.torch.stages(plan, models.layers(case["layers"], case.get("frozen", ())), rank))
        return {s: made[s].to(dtype) for s in sorted(made)}
