#!/usr/bin/env python3
"""Background jobs in emulated runs of 1F1B on four ranks and of a plan whose layers are on 4, 2 and 1 of them, rounds with the job and
without it by turns: how much longer a step gets, and how many of the predicted pieces run.

  python3 test/bench/jobs.py build/release/bin [--steps 20] [--rounds 5] [--lies] [--judge]

--lies: 1F1B at the naive pace with jobs whose atoms take five times what they say: with atoms so short that a piece of fewer keeps
the promise, and with such that a single one breaks it. --steps are then counted behind the 40th. Wants a quiet machine: where others
take its cores, sleeping atoms are late three times in a row too, and the first job rests as well.
--judge: exit code 1 where, at the pace of deadlines (carry), a step differs from the prediction by more than 2 % in the mean or the pieces
by more than 5 %; or where, at the naive pace, steps are longer with jobs than without by more than the bound and 1 %. Of a job that
lies also where the first rests, or where the second does not rest within 3 steps on each rank that runs it, or is not named.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from programs import Programs

JOB = "jobs: {slow_down: %s, work: [{name: background, samples: 8, atoms: 340, atom: 50us, overhead: 20us}]}\n"
ONE_F_ONE_B = """
pipec: 1
pipeline: {ranks: 4, microbatches: 8}
costs: {forward: 20ms, backward: 40ms}
tensors: {boundary: 1KiB}
schedule: 1f1b
"""
LIE = "jobs: {slow_down: 1%%, work: [{name: liar, samples: 8, atoms: 340, atom: %s, overhead: 20us, provider: {times: 5}}]}\n"
HELD, RESTS = 40, 3  # steps after which the promise holds again; within which a job rests that no piece can keep it with
SPECS = {"1f1b": ONE_F_ONE_B + JOB % "1%", "widths 4, 2, 1": """
pipec: 1
pipeline: {ranks: 4, batch: 16}
costs: {link: {latency: 200us, bandwidth: 10GB/s}, optimizer: 1ms}
schedule: {name: burst, widths: [4, 4, 2, 1]}
layers:
- {count: 4, forward: {samples: {4: 20ms, 8: 22ms, 16: 26ms}}, backward: {samples: {4: 40ms, 8: 44ms, 16: 52ms}}, gradients: 16MiB,
   boundary: {per_sample: 64KiB}}
""" + JOB % "2%"}


class Bench(Programs):
    def __init__(self, binaries, folder, spec):
        super().__init__(binaries)
        (pathlib.Path(folder) / "spec.yaml").write_text(spec)
        self.plan = pathlib.Path(folder) / "plan.pipe"
        self.said = self.told("pipec", "compile", pathlib.Path(folder) / "spec.yaml", "-o", self.plan)

    def run(self, pace, steps, *more):
        """The mean step without the first, in ms, and the pieces and the samples of all ranks."""
        run = self.told("piperun", self.plan, "--local", "--steps", steps, "--emulate", pace, *more)
        return [statistics.fmean(run["step_ms"][1:]), *(sum(job[what] for job in run["jobs"]) for what in ("pieces", "samples"))]


class Liar(Bench):
    """Runs whose first HELD steps do not count."""

    def steps(self, steps, *more):
        """The mean of the steps behind those, in ms, and the jobs."""
        run = self.told("piperun", self.plan, "--local", "--steps", HELD + steps, "--emulate", "naive", *more)
        return statistics.fmean(run["step_ms"][HELD:]), run["jobs"]

    def with_job(self, steps):
        """The same, and for each rank the number of steps until its last piece."""
        trace = self.plan.with_suffix(".json")
        mean, jobs = self.steps(steps, "--trace", trace)
        last = {}
        for event in json.loads(trace.read_text())["traceEvents"]:
            if event.get("cat") == "job":
                last[event["pid"]] = max(last.get(event["pid"], 0), event["args"]["step"] + 1)
        return mean, jobs, last


def lies(atom, rests, options):
    """Whether something is missed with a job whose atoms take five times as long as this."""
    alone, beside, missed = [], [], False
    with tempfile.TemporaryDirectory() as folder:
        bench = Liar(options.binaries, folder, ONE_F_ONE_B + LIE % atom)
        print(f"atoms of {atom} that take five times as long, pieces of {bench.said['jobs'][0]['piece_ms']:.2f} ms")
        for _ in range(options.rounds):
            alone.append(bench.steps(options.steps, "--no-jobs")[0])
            mean, jobs, last = bench.with_job(options.steps)
            beside.append(mean)
            for job in jobs:
                print(f"  rank {job['rank']}: {job['pieces']} pieces, the last in step {last.get(job['rank'], 0)} of "
                      f"{HELD + options.steps}; {job['failed'] or 'it goes on'}")
                named = "job liar rests: an atom takes" in (job["failed"] or "")
                missed |= job["pieces"] == 0 or named != rests or (rests and last[job["rank"]] > RESTS)
    without, time = statistics.fmean(alone), statistics.fmean(beside)
    slow = time / without - 1
    print(f"behind step {HELD} alone {without:.3f} ms, with the job {time:.3f} ms: {100 * slow:+.3f} %", flush=True)
    return missed or slow > 0.01 + 0.01  # the promised slow_down and 1 %


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lies", action="store_true")
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    missed = False
    if options.lies:
        for atom, rests in (("50us", False), ("300us", True)):
            missed |= lies(atom, rests, options)
        return 1 if missed and options.judge else 0
    for name, spec in SPECS.items():
        with tempfile.TemporaryDirectory() as folder:
            missed |= judged(name, Bench(options.binaries, folder, spec), options)
    return 1 if missed and options.judge else 0


def judged(name, bench, options):
    """Whether a plan misses what is asked of it."""
    missed, said = False, bench.said
    span, bound = said["span_ms"], said["slow_down_bound"]
    # A piece before the first pass of a run is not run: of so many steps all but one have those of the step's beginning.
    planned = sum(said["jobs"][0]["pieces"]) * (options.steps - 1)
    samples = said["jobs"][0]["samples_per_s"] * span / 1000 * (options.steps - 1)
    print(f"{name}: span {span:.1f} ms, bound {100 * bound:.2f} %, {planned} pieces or a few more planned in {options.steps} steps")
    for pace in ("carry", "naive"):
        alone, beside = [], []
        for _ in range(options.rounds):
            alone.append(bench.run(pace, options.steps, "--no-jobs"))
            beside.append(bench.run(pace, options.steps))
        without = statistics.fmean(each[0] for each in alone)
        time, pieces, got = (statistics.fmean(each) for each in zip(*beside))
        slow, off, done = time / without - 1, time / span - 1, pieces / planned
        print(f"{pace}: alone {without:.3f} ms, with jobs {time:.3f} ms: {100 * slow:+.3f} %, {100 * off:+.3f} % off the "
              f"prediction; {100 * done:.1f} % of the pieces, {100 * got / samples:.1f} % of the samples", flush=True)
        missed |= abs(off) > 0.02 or done < 0.95 if pace == "carry" else slow > bound + 0.01
    return missed


if __name__ == "__main__":
    sys.exit(main())
