#!/usr/bin/env python3
"""Adaptation to slow shards in real runs: 2 ranks of 2 shards, synthetic, one plan with a variant for each state; shard 1 of rank 0 is
as fast as it should be, then 4, 2 and 1 times as slow, then shard 0 is 4 times as slow, 200 steps each. Beside it *choosing at once*: as many
steps of each state under its own variant, each in a run by itself.

  python3 test/bench/slow_shards.py build/release/bin [--steps 200] [--judge]

--judge: exit code 1 where adapting is more than 3 % behind choosing at once, a factor more than 5 % off its true one at a state's end, or
a variant is swapped in a state that does not change.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from programs import Programs

SPEC = """
pipec: 1
pipeline: {ranks: 2, microbatches: 4}
layers:
  - name: block
    count: 4
    forward: 100us
    backward: 200us
    boundary: 64KiB
    splits: [{name: heads, units: 24, forward: 1ms, backward: 2ms, sum: 1MiB, weights: 100kB, gradients: 100kB}]
costs: {link: {latency: 60us}, optimizer: {time: 200us}}
schedule: 1f1b
tensor_parallel: {shards: 2, link: {latency: 20us, bandwidth: 100GB/s}, balance: auto}
"""
VARIANTS = ["{schedule: 1f1b}", *(f"{{tensor_parallel: {{slow: [{{rank: 0, shard: {shard}, factor: {factor}}}]}}}}"
                                  for shard, factor in ((1, 4), (1, 2), (0, 4)))]
FOREVER = 1e6
STATES = [(0, None, 1), (1, 1, 4), (2, 1, 2), (0, None, 1), (3, 0, 4)]  # its variant, the slow shard of rank 0, its factor


class Bench(Programs):
    def __init__(self, binaries, folder, steps):
        super().__init__(binaries)
        self.folder, self.steps = pathlib.Path(folder), steps
        (self.folder / "spec.yaml").write_text(SPEC)
        self.plan, self.spans = self.compile("all", VARIANTS)
        self.single = [self.compile(f"variant-{i}", [variant])[0] for i, variant in enumerate(VARIANTS)]

    def compile(self, name, variants):
        plan = self.folder / f"{name}.pipe"
        said = self.told("pipec", "compile", self.folder / "spec.yaml", "-o", plan, "--set", f"variants=[{', '.join(variants)}]")
        return plan, [each["span_ms"] for each in said.get("variants", [said])]

    def arguments(self, plan, faults, steps):
        network = self.folder / "network.json"
        network.write_text(json.dumps({"scenario": 1, "faults": faults}))
        return [plan, "--local", "--network", network, "--steps", steps]

    def run(self, plan, faults, steps):
        return self.told("piperun", *self.arguments(plan, faults, steps))

    def adapt(self, faults, steps):
        """Also what the run says of the processes five times a second: (milliseconds of the run at the latest sample, percents of rank 0's shards)."""
        control = self.folder / "control"
        command = [self.binaries / "piperun", *self.arguments(self.plan, faults, steps), "--json", "--adapt", "--control", control]
        seen = []
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as launched:
            while launched.poll() is None:
                time.sleep(0.2)
                asked = subprocess.run([self.binaries / "piperun", "--control", control, "status", "--json"], capture_output=True, text=True)
                if asked.returncode != 0:  # before it listens, or behind its end
                    continue
                stages = [each for each in json.loads(asked.stdout)["adapt"]["estimates"]["stages"] if each["rank"] == 0]
                if len(stages) == 2:
                    seen.append((max(each["since_ms"] for each in stages), [each["percent"] for each in stages]))
            if launched.returncode != 0:
                sys.exit(launched.returncode)
            return json.loads(launched.stdout.read()), seen


def faults(stretches):
    """Of states and when they begin and end; where none is, every shard of rank 0 is as fast as it should be, whatever a variant says."""
    found = [{"slow": 0, "shard": shard, "percent": 100 * factor, "at": f"{at:.6f}ms", "until": f"{until:.6f}ms"}
             for (_, shard, factor), at, until in stretches if shard is not None]
    return found + [{"slow": 0, "shard": shard, "percent": 100} for shard in (0, 1)]


def states_at(bench):
    """When each state begins and ends, in ms, if every step takes what its variant is predicted to; the last one does not end."""
    at, found = 0, []
    for state in STATES:
        until = at + bench.steps * bench.spans[state[0]]
        found.append((state, at, until if state != STATES[-1] else FOREVER))
        at = until
    return found


def choosing_at_once(bench):
    """So many ms, each state under its own variant."""
    took = 0
    print("| rank 0's shards | a step under the variant for it |\n|---|---|")
    for state in STATES:
        variant, shard, factor = state
        said = bench.run(bench.single[variant], faults([(state, 0, FOREVER)]), bench.steps)
        took += sum(said["step_ms"])
        print(f"| {'healthy' if shard is None else f'shard {shard} {factor} times'} | {sum(said['step_ms']) / bench.steps:.2f} ms |")
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("--steps", type=int, default=200, help="of each state")
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.binaries, folder, options.steps)
        knowing = choosing_at_once(bench)
        stretches = states_at(bench)
        said, seen = bench.adapt(faults(stretches), options.steps * len(STATES))
    took = sum(said["step_ms"])
    behind = 100 * (took / knowing - 1)
    print(f"\n{len(said['step_ms'])} steps, adapting: {took:.0f} ms; choosing at once: {knowing:.0f} ms; behind: {behind:.2f} %")
    if behind > 3:
        wrong.append(f"{behind:.2f} % behind choosing at once")
    for (variant, shard, factor), at, until in stretches:
        swaps = [(each["at_ms"] - at, each["to"]) for each in said["adapt"]["decisions"] if at <= each["at_ms"] < until]
        whole = until - 2 * bench.spans[variant]  # behind it a report may be of steps that the next state has begun in
        percents = [each for since, each in seen if since < whole][-1]
        print(f"state at {at:.0f} ms: {', '.join(f'variant {to} after {ms:.0f} ms' for ms, to in swaps) or 'no swap'}; "
              f"factors at its end {percents[0] / 100:.2f}, {percents[1] / 100:.2f}")
        if [to for _, to in swaps] != ([variant] if at > 0 else []):
            wrong.append(f"swaps in the state at {at:.0f} ms")
        true = [100 * factor if each == shard else 100 for each in (0, 1)]
        if any(abs(a / b - 1) > 0.05 for a, b in zip(percents, true)):
            wrong.append(f"factors in the state at {at:.0f} ms")
    for each in wrong:
        print(each, file=sys.stderr)
    sys.exit(1 if options.judge and wrong else 0)


if __name__ == "__main__":
    main()
