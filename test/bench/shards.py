#!/usr/bin/env python3
"""Real steps of shards beside the predicted ones: specs/stages/tensor on one rank of two shards, profiled on this machine, shard 1
slowed four times by a scenario, under each balance; then with three busy processes on that shard's core in the scenario's place.

  python3 test/bench/shards.py build/release/bin [--steps 60] [--rounds 7] [--busy] [--judge]

Each round calibrates the predictions by two runs and then runs each balance, so what else a machine does falls on both; printed are
medians over the rounds. --judge: exit code 1 where one is more than 5 % off, or auto wins back less than 70 %. For two cores or more.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from programs import Programs

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
SPEC = SOURCE / "specs/stages/tensor/tensor.yaml"
BALANCES = ["even", "auto", "migrate", "{name: resize, gamma: auto}", "semi", "{name: auto, most: 0.25}"]
PARTS = {"first": 0, "heads": 4, "columns": 8, "middle": 12, "last": 16}  # where profile prints the times of each
SUMS = 2 * 2 * 4 * 2  # of a step: two microbatches, forward and backward, four layers, two splits
WIRE = 270336 / 2e3  # microseconds that the bytes of a sum take at the 2GB/s that plans are told
FACTOR = 4
SLOW = f"tensor_parallel.slow=[{{rank: 0, shard: 1, factor: {FACTOR}}}]"


def whole_of(times):
    """What every shard does in a step of two microbatches, in ms."""
    return sum((1 if key == "optimizer" else 2) * time * layers for part, layers in (("first", 1), ("middle", 2), ("last", 1))
               for key, time in times[PARTS[part]:][:4]) / 1e3


class Bench(Programs):
    def __init__(self, binaries, folder, steps):
        super().__init__(binaries)
        self.folder, self.steps = pathlib.Path(folder), steps
        self.spec, self.times = self.folder / "tensor.yaml", []

    def profiled(self, whole=1, units=1):
        """The spec with the times that its stage library takes here: what every shard does so many times as long, and its units."""
        text = SPEC.read_text()
        provider = json.dumps({key: int(re.search(rf"^provider:.*\b{key}: (\d+)", text, re.M)[1])
                               for key in ("width", "columns", "patch", "samples")})
        if not self.times:
            self.times = [(key, float(time)) for key, time in re.findall(
                r"(forward|backward_input|backward_weight|optimizer): ([\d.]+)us", self.printed("tensor-profile", provider, 4))]
        part = None
        lines = []
        for line in text.splitlines():
            if found := re.match(r"(- |  - )name: (\w+)", line):
                part = self.times[PARTS[found[2]]:][:4]
                scale = units if found[1] == "  - " else whole
            for key, value in part or []:
                line = re.sub(rf"(?<![\w]){key}: [\d.]+us", f"{key}: {value * scale:.1f}us", line)
            lines.append(line)
        return "\n".join(lines) + "\n"

    def plan(self, balance, *settings):
        path = self.folder / "plan.pipe"
        said = self.told("pipec", "compile", self.spec, "-o", path, "--set", f"tensor_parallel.balance={balance}",
                         *[each for one in settings for each in ("--set", one)])
        return path, said["span_ms"]

    def run(self, plan, *arguments):
        said = self.told("piperun", plan, "--local", f"--stage={self.binaries / 'tensor.so'}", "--steps", self.steps, *arguments)
        return statistics.mean(said["step_ms"]), said  # own_ms is a mean too

    def calibrate(self, network):
        """From a healthy run with the units of `auto` and a slow one with those of `even`, by least squares: how many times as long as
        by itself a shard's own work takes beside the sums, what every shard does and its units; what a sum takes where one comes late."""
        self.spec.write_text(self.profiled())
        free = "tensor_parallel.link={latency: 0us, bandwidth: 2GB/s}"
        rows, sums = [], []
        for balance, slow, arguments in (("auto", 1, ()), ("even", FACTOR, ("--network", network))):
            taken, said = self.run(self.plan(balance, free, SLOW)[0], *arguments)
            sums.append((taken - max(said["own_ms"])) * 1e3 / SUMS)
            whole = whole_of(self.times)
            rows += [(times * whole, times * (own / factor - whole), own)
                     for own, factor, times in zip(said["own_ms"], said["factors"], (1, slow))]
        aa, ab, bb = (sum(x[i] * x[j] for x in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
        ac, bc = (sum(x[i] * x[2] for x in rows) for i in (0, 1))
        whole, units = (ac * bb - bc * ab) / (aa * bb - ab * ab), (bc * aa - ac * ab) / (aa * bb - ab * ab)
        self.spec.write_text(self.profiled(whole, units))
        took = statistics.mean(sums)
        self.link = f"tensor_parallel.link={{latency: {max(took - WIRE, 0) / 2:.1f}us, bandwidth: 2GB/s}}"
        print(f"beside the sums what every shard does takes {whole:.2f} times what it takes by itself, units {units:.2f} times; a sum of "
              f"270336 B {took:.0f} us", flush=True)


def busy(core):
    return [subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"])
            for _ in range(3)]


def measured(bench, network):
    """By balance: predicted, measured, how far it is off, part of the lost time that is won back, factors."""
    bench.calibrate(network)
    healthy, _ = bench.run(bench.plan("even", bench.link)[0])
    even, rows = None, {}
    for balance in BALANCES:
        plan, predicted = bench.plan(balance, bench.link, SLOW)
        taken, said = bench.run(plan, "--network", network)
        even = even or taken
        rows[balance] = [predicted, taken, 100 * (taken / predicted - 1), 100 * (even - taken) / (even - healthy), *said["factors"]]
    return rows


def print_busy(bench):
    hogs = busy(1)
    try:
        for balance in ("even", "auto"):
            taken, said = bench.run(bench.plan(balance, bench.link, SLOW)[0])
            print(f"{balance}, three busy processes on a core: {taken:.2f} ms, factors "
                  f"{', '.join(f'{each:.2f}' for each in said['factors'])}")
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--busy", action="store_true", help="also with three busy processes in place of the scenario")
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.binaries, folder, options.steps)
        network = pathlib.Path(folder) / "slow.json"
        network.write_text(json.dumps({"scenario": 1, "faults": [{"slow": 0, "shard": 1, "percent": 100 * FACTOR}]}))
        rounds = [measured(bench, network) for _ in range(options.rounds)]
        wrong = []
        print("| balance | predicted | measured | off | least to most | won back | factors |\n|---|---|---|---|---|---|---|")
        for balance in BALANCES:
            rows = [each[balance] for each in rounds]
            predicted, taken, off, won, *factors = (statistics.median(each) for each in zip(*rows))
            print(f"| {balance} | {predicted:.2f} ms | {taken:.2f} ms | {off:+.1f} % | {min(row[2] for row in rows):+.1f} to "
                  f"{max(row[2] for row in rows):+.1f} % | {won:.1f} % | {', '.join(f'{each:.2f}' for each in factors)} |")
            if abs(off) > 5:
                wrong.append(f"{balance}: {off:+.1f} % off")
            if balance == "auto" and won < 70:
                wrong.append(f"auto wins back {won:.1f} %")
        if options.busy:
            print_busy(bench)
    for each in wrong:
        print(each, file=sys.stderr)
    sys.exit(1 if options.judge and wrong else 0)


if __name__ == "__main__":
    main()
