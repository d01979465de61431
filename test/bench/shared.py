#!/usr/bin/env python3
"""Steps of tied weights as `piperun` takes them beside the simulated ones, and what the sum of a large tied weight adds to a step.

  shared.py BIN [--steps N] [--judge]     BIN: the folder of pipec and piperun

First table: the first and the last layer hold one weight, the norm of all gradients is clipped, operations wait (`carry`); a step is
the median of N. Second: 100 MB that the first and the last of eight stages hold, on four ranks. In pipec's plan the update of the
rank's other stage goes beside the sum. Beside it a plan whose sum has nothing beside it: as much update a rank, all of it in the
stages that hold the weight, so that all of it waits for the sum. --judge: exit code 1 where a step is more than 2 % off the
simulated one, or pipec's placement does not expose less.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from programs import Programs

TIED = """
pipec: 1
pipeline: {ranks: %d, microbatches: 8}
layers:
  - {count: 8, forward: 4ms, backward_input: 4ms, backward_weight: 4ms, gradients: 10MB}
costs: {optimizer: {time: 1ms, global_norm: true}, link: {latency: 100us, bandwidth: 1GB/s}}
tensors: {boundary: 1MB}
schedule: %s
%s
shared: [{layers: [0, 7], gradients: 10MB}]
"""
REPLICAS = "data_parallel: {degree: %d, link: {latency: 200us, bandwidth: 1GB/s}}"
SHAPES = [(1, 2), (2, 1), (2, 2), (4, 1)]  # ranks, replicas
LARGE = """
pipec: 1
pipeline: {ranks: 4, stages_per_rank: 2, microbatches: 8}
layers:
%s
costs: {link: {latency: 20us, bandwidth: 10GB/s}}
tensors: {boundary: 1MB}
schedule: interleaved-1f1b
%s
"""
SHARED = "shared: [{layers: [0, 7], gradients: 100MB}]"
BESIDE, BEHIND = [4] * 8, [8, 4, 4, 0, 0, 4, 4, 8]  # milliseconds of update of each stage; rank 0 has 0 and 4, rank 3 has 3 and 7


def large(updates, shared):
    layer = "  - {forward: 2ms, backward_input: 2ms, backward_weight: 2ms, gradients: 100MB, optimizer: %dms}"
    return LARGE % ("\n".join(layer % each for each in updates), shared)


class Bench(Programs):
    def __init__(self, binaries, folder, steps):
        super().__init__(binaries)
        self.folder, self.steps = pathlib.Path(folder), steps

    def simulated_and_real(self, text):
        """The step of a spec, in ms: as it is simulated, and the median of the run's."""
        spec, plan = self.folder / "spec.yaml", self.folder / "plan.pipe"
        spec.write_text(text)
        self.told("pipec", "compile", spec, "-o", plan)
        run = self.told("piperun", plan, "--local", "--steps", self.steps)
        return statistics.median(run["simulated_step_ms"]), statistics.median(run["step_ms"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.bin, folder, options.steps)
        print("| ranks × replicas | schedule | simulated, ms | real, ms | off |\n|---|---|---|---|---|")
        for ranks, replicas in SHAPES:
            for schedule in ("1f1b", "zb-h1"):
                simulated, real = bench.simulated_and_real(TIED % (ranks, schedule, REPLICAS % replicas if replicas > 1 else ""))
                off = 100 * (real / simulated - 1)
                print(f"| {ranks} × {replicas} | {schedule} | {simulated:.1f} | {real:.1f} | {off:+.2f} % |", flush=True)
                if abs(off) > 2:
                    wrong.append(f"{ranks} × {replicas}, {schedule}: {off:+.2f} % off")
        print("\n| 100 MB, the sum goes | simulated, ms | exposed | real, ms | exposed |\n|---|---|---|---|---|")
        exposed = {}
        for name, updates in (("beside other updates", BESIDE), ("before all updates", BEHIND)):
            alone = bench.simulated_and_real(large(updates, ""))
            steps = bench.simulated_and_real(large(updates, SHARED))
            exposed[name] = [step - each for step, each in zip(steps, alone)]
            print(f"| {name} | {steps[0]:.1f} | {exposed[name][0]:.1f} | {steps[1]:.1f} | {exposed[name][1]:.1f} |", flush=True)
        for where, beside, behind in zip(("simulated", "real"), *exposed.values()):
            if beside >= behind:
                wrong.append(f"{where}: {beside:.1f} ms exposed beside other updates, {behind:.1f} ms before all of them")
    for each in wrong:
        print(each, file=sys.stderr)
    sys.exit(1 if options.judge and wrong else 0)


if __name__ == "__main__":
    main()
