#!/usr/bin/env python3
"""recompute: auto against none and all of the stages, on random models under limits of which many are too low for none.

  recompute.py PIPEC [--models N] [--seed S]     fails if recompute: auto is ever the slower one
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time


def model(rng, schedule):
    """Stages that are not equal; a stage keeps eight to forty times what it receives."""
    ranks = rng.choice([4, 8, 16])
    f = rng.randint(4000, 20000)
    rows = [(f * rng.randint(8, 12) // 10, f * rng.randint(8, 12) // 10, f * rng.randint(6, 11) // 10)
            for _ in range(ranks)]
    boundary = rng.choice([8, 32])
    kept = boundary * rng.randint(8, 40)
    times = [", ".join(f"{row[i]}us" for row in rows) for i in range(3)]
    limit = kept * rng.uniform(1.3, 1.1 * ranks) + 4 * boundary
    return (f"pipec: 1\npipeline: {{ranks: {ranks}, microbatches: {rng.choice([2, 3, 4]) * ranks}}}\n"
            f"costs: {{forward: [{times[0]}], backward_input: [{times[1]}], backward_weight: [{times[2]}], "
            f"link: {{latency: {rng.choice([0, 20, 200])}us, bandwidth: 25GB/s}}}}\n"
            f"tensors: {{boundary: {boundary}MiB, activation: {kept * 2 // 3}MiB, weight_context: {kept // 3}MiB}}\n"
            f"memory: {{limit: {int(limit)}MiB}}\nbackward: split\nschedule: {schedule}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipec")
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    gains, unfit, worse, seconds, gaps = {}, {}, 0, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.yaml")

        def report(choice):
            done = subprocess.run([options.pipec, "report", path, "--json", "--set", f"recompute={choice}"],
                                  capture_output=True, text=True)
            if done.returncode not in (0, 3):
                sys.exit(done.stderr)
            return json.loads(done.stdout) if done.returncode == 0 else None

        for n in range(options.models):
            schedule = ["1f1b", "zb-h1", "gpipe", "auto"][n % 4]
            with open(path, "w", encoding="utf-8") as file:
                file.write(model(rng, schedule))
            begin = time.monotonic()
            own = report("auto")
            seconds.setdefault(schedule, []).append(time.monotonic() - begin)
            if own:
                gaps.setdefault(schedule, []).append(own["span_gap"])
            for choice in ("none", "all"):
                its = report(choice)
                if its is None:
                    unfit[schedule, choice] = unfit.get((schedule, choice), 0) + (own is not None)
                    continue
                if own is None or its["span_ms"] < own["span_ms"] - 1e-9:
                    worse += 1
                    print(f"worse than {choice}: model {n}, {schedule}: {own and own['span_ms']} against {its['span_ms']}")
                    continue
                gains.setdefault((schedule, choice), []).append(its["span_ms"] / own["span_ms"] - 1)
    for schedule in ("1f1b", "zb-h1", "gpipe", "auto"):
        for choice in ("none", "all"):
            values = gains.get((schedule, choice), [])
            mean = f"takes {100 * sum(values) / len(values):6.2f} % more (most {100 * max(values):6.2f} %)" if values else ""
            print(f"{schedule:6} {choice:5}: fits {len(values):3}, does not {unfit.get((schedule, choice), 0):3}; {mean}")
        own = gaps.get(schedule, [0])
        print(f"{schedule:6} auto : fits {len(gaps.get(schedule, [])):3}; gap {100 * sum(own) / len(own):5.2f} % "
              f"(most {100 * max(own):5.2f} %); {sum(seconds[schedule]) / len(seconds[schedule]):.2f} s "
              f"(most {max(seconds[schedule]):.2f} s)")
    sys.exit(worse != 0)


if __name__ == "__main__":
    main()
