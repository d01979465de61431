#!/usr/bin/env python3
"""What real steps of replicas take on a shaped network, beside the simulated ones: one rank of four replicas, two ranks of
two, gradients summed by DDP's buckets, by DeAR's halves and as `auto` has it. Payloads are whole and go over loopback
sockets no sooner than the scenario lets them; passes are waits. A mean is of the steps behind the first two; the gain is
over DDP, real and simulated.

  replicas.py BIN [--steps N] [--judge]     BIN: the folder of pipec and piperun; --judge fails above 5 %
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

NETWORK = {"scenario": 1, "default": {"bandwidth": "1GB/s", "latency": "100us"},
           "replicas": {"bandwidth": "200MB/s", "latency": "200us"}}
SPEC = """
pipec: 1
pipeline: {ranks: %d, microbatches: 4}
layers:
  - {count: 8, forward: 10ms, backward_input: 10ms, backward_weight: 10ms, gradients: 4MB, optimizer: 1ms}
costs: {link: {latency: 100us, bandwidth: 1GB/s}}
tensors: {boundary: 1MB}
schedule: %s
backward: fused
data_parallel: {degree: %d, link: {latency: 200us, bandwidth: 200MB/s}, policy: %s}
"""
SHAPES = [(1, 4, "gpipe"), (2, 2, "1f1b")]
POLICIES = ["ddp", "dear-queue", "auto"]


def real_and_simulated(binaries, folder, ranks, degree, schedule, policy, steps):
    spec, plan, network = folder / "spec.yaml", folder / "plan.pipe", folder / "network.json"
    spec.write_text(SPEC % (ranks, schedule, degree, policy))
    network.write_text(json.dumps(NETWORK))
    subprocess.run([binaries / "pipec", "compile", spec, "-o", plan], check=True, stderr=subprocess.DEVNULL)
    done = subprocess.run([binaries / "piperun", plan, "--local", "--network", network, "--steps", str(steps), "--json", "-q"],
                          check=True, capture_output=True, text=True)
    run = json.loads(done.stdout)
    return statistics.mean(run["step_ms"][2:]), statistics.mean(run["simulated_step_ms"][2:])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bin", type=pathlib.Path)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--judge", action="store_true")
    given = options.parse_args()
    worst = 0
    print("| ranks x replicas | policy | real, ms | simulated, ms | off | real gain | simulated gain |")
    print("|---|---|---|---|---|---|---|")
    for ranks, degree, schedule in SHAPES:
        first = None
        for policy in POLICIES:
            with tempfile.TemporaryDirectory() as folder:
                real, simulated = real_and_simulated(given.bin, pathlib.Path(folder), ranks, degree, schedule, policy, given.steps)
            first = first or (real, simulated)
            worst = max(worst, abs(real / simulated - 1))
            print(f"| {ranks} x {degree} | {policy} | {real:.1f} | {simulated:.1f} | {100 * (real / simulated - 1):+.1f} % | "
                  f"{first[0] / real:.3f} | {first[1] / simulated:.3f} |", flush=True)
    if given.judge and worst > 0.05:
        sys.exit(f"{100 * worst:.1f} % off, at most 5 is asked")


if __name__ == "__main__":
    main()
