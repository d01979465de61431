#!/usr/bin/env python3
"""cut: auto against three cuts that people make: equal ones, shares of the time, and the dynamic program's, whose slowest
stage is fastest. Random models with a heavy first and last layer; one and two stages a rank.

  cuts.py PIPEC [--models N] [--seed S]     fails if cut: auto is ever the slowest
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time


def model(rng):
    """Layers of 16 to 96, in picojoules of nothing: (forward, backward_input, backward_weight, activation) in us and MiB."""
    count = rng.randint(16, 96)
    f = rng.randint(800, 3000)
    block = (f, rng.randint(f * 8 // 10, f * 12 // 10), rng.randint(f * 6 // 10, f * 11 // 10), rng.randint(20, 200))
    layers = [block] * count
    if rng.random() < 0.5:  # layers that alternate, as mixtures of experts do
        other = tuple(x * rng.randint(11, 18) // 10 for x in block)
        layers = [other if i % 2 else block for i in range(count)]
    layers[0] = tuple(int(x * rng.uniform(0.2, 4)) for x in block)
    layers[-1] = tuple(int(x * rng.uniform(1, 6)) for x in block)
    return layers


def shares(times, stages):
    total, done, cut, at = sum(times), 0, [], 0
    for s in range(stages):
        end = at
        while end < len(times) - (stages - 1 - s) and (
                end == at or s + 1 == stages or (done + times[end] / 2) * stages <= total * (s + 1)):
            done += times[end]
            end += 1
        cut.append(end - at)
        at = end
    return cut


def equal(times, stages):
    each, extra = divmod(len(times), stages)
    before = (stages - extra) // 2
    return [each + (before <= s < before + extra) for s in range(stages)]


def slowest(times, stages):
    """The textbook's program: best[s][i] is the slowest of s stages over the first i layers."""
    sums = [0]
    for t in times:
        sums.append(sums[-1] + t)
    count = len(times)
    best = [[float("inf")] * (count + 1) for _ in range(stages + 1)]
    came = [[0] * (count + 1) for _ in range(stages + 1)]
    best[0][0] = 0
    for s in range(1, stages + 1):
        for i in range(s, count + 1):
            for j in range(s - 1, i):
                if (value := max(best[s - 1][j], sums[i] - sums[j])) < best[s][i]:
                    best[s][i], came[s][i] = value, j
    cut, i = [], count
    for s in range(stages, 0, -1):
        cut.append(i - came[s][i])
        i = came[s][i]
    return cut[::-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipec")
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    gains, worse, seconds = {}, 0, []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.yaml")

        def span(cut):
            begin = time.monotonic()
            done = subprocess.run([options.pipec, "report", path, "--json", "--set", f"pipeline.cut={cut}"],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            if cut == "auto":
                seconds.append(time.monotonic() - begin)
            return json.loads(done.stdout)["span_ms"]

        for _ in range(options.models):
            layers = model(rng)
            two = rng.random() < 0.5
            schedule = rng.choice(["zb-v", "v-half", "interleaved-1f1b", "1f1b-v"] if two else ["1f1b", "zb-h1", "zb-h2"])
            ranks = rng.choice([r for r in (4, 8, 16) if r * (2 if two else 1) <= len(layers) // 2] or [4])
            stages = ranks * (2 if two else 1)
            if stages > len(layers):
                continue
            rows = "\n".join(f"  - {{forward: {f}us, backward_input: {b}us, backward_weight: {w}us, activation: {a}MiB}}"
                             for f, b, w, a in layers)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"pipec: 1\npipeline: {{ranks: {ranks}, stages_per_rank: {2 if two else 1}, "
                           f"microbatches: {rng.choice([2, 3, 4]) * ranks}, cut: auto}}\nlayers:\n{rows}\n"
                           f"costs: {{link: {{latency: {rng.choice([0, 20, 200])}us, bandwidth: 25GB/s}}}}\n"
                           f"tensors: {{boundary: {rng.choice([8, 32])}MiB}}\nschedule: {schedule}\n")
            times = [f + b + w for f, b, w, _ in layers]
            own = span("auto")
            for name, of in (("equal", equal), ("shares", shares), ("slowest stage", slowest)):
                its = span(of(times, stages))
                gains.setdefault((name, 2 if two else 1), []).append(its / own - 1)
                if its < own - 1e-9:
                    worse += 1
                    print(f"worse than {name}: {schedule} on {ranks}, {len(layers)} layers: {own} against {its}")
    for (name, each), values in sorted(gains.items()):
        print(f"{name:14} {each} a rank: {len(values):4} models, mean gain {100 * sum(values) / len(values):6.2f} %, "
              f"least {100 * min(values):6.2f} %, most {100 * max(values):6.2f} %")
    print(f"time of cut: auto: mean {sum(seconds) / len(seconds):.2f} s, most {max(seconds):.2f} s")
    sys.exit(worse != 0)


if __name__ == "__main__":
    main()
