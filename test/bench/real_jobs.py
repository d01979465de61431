#!/usr/bin/env python3
"""A real job beside real training: specs/stages/mlp on two ranks, profiled on this machine, with specs/jobs/mlp behind it and without it by
turns: how much longer a step gets, how many of the predicted pieces run, and whether both compute what they compute alone.

  python3 test/bench/real_jobs.py build/release/bin [--steps 200] [--windows 5] [--judge]

--judge: exit code 1 where steps are more than 3 % longer with the job, less than 75 % of the predicted pieces run, or a loss differs in
any bit. For two cores that do nothing else.
"""
import argparse
import ctypes
import json
import pathlib
import re
import statistics
import sys
import tempfile
import time

from programs import Programs

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
SPEC = SOURCE / "specs/stages/mlp/mlp.yaml"
HIDDEN, LAYERS, ROWS, ATOMS, OVERHEAD = 96, 2, 16, 16, 60  # a piece begins with cold caches
JOB = {"hidden": HIDDEN, "layers": LAYERS, "samples": 4096, "seed": 1, "rate": 0.05}


class Setup(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("rank", ctypes.c_int32), ("world_rank", ctypes.c_int32), ("world", ctypes.c_int32),
                ("name", ctypes.c_char_p), ("samples", ctypes.c_int64), ("atoms", ctypes.c_int64), ("memory", ctypes.c_int64),
                ("provider", ctypes.c_char_p), ("device", ctypes.c_int32), ("context", ctypes.c_void_p)]


class Piece(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("first", ctypes.c_int64), ("count", ctypes.c_int64), ("stream", ctypes.c_void_p)]


def atom_time(library, report):
    """What an atom takes at most, in microseconds: of all but the slowest hundredth, which something else made late. The job's losses,
    alone, are in the report."""
    job, error = ctypes.c_void_p(), ctypes.create_string_buffer(512)
    provider = json.dumps({**JOB, "report": str(report)}, separators=(",", ":")).encode()
    setup = Setup(ctypes.sizeof(Setup), 0, 0, 1, b"job", ROWS * ATOMS, ATOMS, 1 << 30, provider, -1, None)
    library = ctypes.CDLL(str(library))
    if library.pipec_job_create(ctypes.byref(setup), ctypes.byref(job), error):
        sys.exit(error.value.decode())
    times = []
    for atom in range(2000):
        begin = time.perf_counter()
        library.pipec_job_run(job, ctypes.byref(Piece(ctypes.sizeof(Piece), atom, 1, None)), error)
        times.append(1e6 * (time.perf_counter() - begin))
    library.pipec_job_destroy(job)
    return sorted(times)[len(times) * 99 // 100]


class Bench(Programs):
    def __init__(self, binaries, folder, steps):
        super().__init__(binaries)
        self.folder, self.steps = pathlib.Path(folder), steps
        text = SPEC.read_text()
        provider = re.search(r"^provider: \{(.*)\}", text, re.M)[1]
        values = {key: float(value) for key, value in re.findall(r"(\w+): ([\d.]+)", provider)}
        boundary = int(values["samples"] * values["hidden"] * 4)
        costs = self.printed("mlp-profile", json.dumps(values), 2, boundary)
        for key in ("forward", "backward_input", "backward_weight", "optimizer"):
            text = re.sub(rf"(?m)^  {key}: .*", re.search(rf"(?m)^  {key}: .*", costs)[0], text)
        self.atom = atom_time(self.binaries / "mlp_job.so", self.folder / "alone")
        job = ", ".join(f"{key}: {value}" for key, value in JOB.items())
        memory = 4 * (2 * LAYERS * (HIDDEN + 1) * HIDDEN + (2 * LAYERS + 2) * ROWS * HIDDEN + HIDDEN * HIDDEN)
        text = text.replace(provider, provider + f", log: {self.folder / 'losses'}")
        text += (f"jobs: {{slow_down: 3%, work: [{{name: job, samples: {ROWS * ATOMS}, atoms: {ATOMS}, atom: {self.atom:.1f}us, "
                 f"overhead: {OVERHEAD}us, memory: {memory}B, provider: {{{job}, report: {self.folder / 'job'}}}}}]}}\n")
        (self.folder / "spec.yaml").write_text(text)
        self.plan = self.folder / "plan.pipe"
        self.said = self.told("pipec", "compile", self.folder / "spec.yaml", "-o", self.plan)

    def window(self, *more):
        """The mean step without the first, in ms; pieces; what the training has computed, and the job."""
        for name in ("losses", "job"):
            (self.folder / name).unlink(missing_ok=True)
        run = self.told("piperun", self.plan, "--local", "--stage", self.binaries / "mlp.so", "--steps", self.steps, *more)
        failed = {job["failed"] for job in run["jobs"]} - {None}
        if failed:
            sys.exit(f"the job has ended: {failed}")
        job = (self.folder / "job").read_text().splitlines() if run["jobs"] else []
        return (statistics.fmean(run["step_ms"][1:]), sum(each["pieces"] for each in run["jobs"]),
                sorted((self.folder / "losses").read_text().splitlines()), {line.split()[0]: line.split()[1] for line in job}, len(set(job)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.binaries, folder, options.steps)
        planned = sum(bench.said["jobs"][0]["pieces"]) * options.steps
        print(f"span {bench.said['span_ms']:.2f} ms, bound {100 * bench.said['slow_down_bound']:.2f} %, an atom {bench.atom:.0f} us, a piece "
              f"{bench.said['jobs'][0]['piece_ms']:.2f} ms, {planned} pieces planned in {options.steps} steps")
        alone, beside = [], []
        for _ in range(options.windows):
            alone.append(bench.window("--no-jobs"))
            beside.append(bench.window("--job", f"job={bench.binaries / 'mlp_job.so'}"))
        without, time_ = (statistics.median(each[0] for each in of) for of in (alone, beside))
        pieces = statistics.median(each[1] for each in beside)
        same = all(each[2] == alone[0][2] for each in alone + beside)
        job = dict(line.split() for line in (bench.folder / "alone").read_text().splitlines())
        same &= all(job.setdefault(*each) == each[1] for window in beside for each in window[3].items())
        same &= all(len(window[3]) == window[4] for window in beside)
        slow, done = time_ / without - 1, pieces / planned
        print("alone " + ", ".join(f"{each[0]:.2f}" for each in alone) + " ms; with the job " + ", ".join(f"{each[0]:.2f}" for each in beside))
        print(f"medians {without:.3f} and {time_:.3f} ms: {100 * slow:+.2f} %; {100 * done:.1f} % of the pieces; {len(job)} iterations of the "
              f"job; losses {'bit for bit the same' if same else 'DIFFER'}")
    return 1 if options.judge and (slow > 0.03 or done < 0.75 or not same) else 0


if __name__ == "__main__":
    sys.exit(main())
