#!/usr/bin/env python3
"""Measures what a step of training takes beside what its plan says, on two ranks of this machine.

  training.py [--rounds N] [--steps N] [--only TEXT] [--judge]
  --only: kinds whose name has TEXT; --judge: fails where a median, or what mixed gains, is more than 5 % off

specs/pytorch/gpt is profiled, compiled for several schedules and trained, on two ranks and as two replicas; some schedules with
`backward: split` and `mixed`, one beside the other. Each round profiles anew; a row is the median of the rounds, with the least
and the most of them: processors of virtual machines change their speed by a quarter within seconds, each for itself. It wants
PyTorch, pipec's package (PYTHONPATH=build/release/python) and two cores with nothing else to do; on a busy machine it says so
and stops.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

GPT = pathlib.Path(__file__).resolve().parents[2] / "specs" / "pytorch" / "gpt"
SCHEDULES = ("1f1b", "{name: kfkb, k: 2}", "zb-h1", "v-half")
PAIRS = [(each, backward) for each in ("1f1b", "zb-h1", "zb-v") for backward in ("split", "mixed")]
REPLICAS = ("policy: none", "policy: wfbp", "policy: {name: dear-queue, bundle: 0B}", "collective: decoupled, shard: optimizer")
RANKS, SAMPLES = 2, 4  # SAMPLES: of a microbatch
BUSY = 0.3  # load before it begins
LIMIT = 0.05


def train(steps, plans):
    """A rank: prints {"measured", "predicted"} in ms for each plan."""
    sys.path.insert(0, str(GPT))
    import model
    import torch

    import pipec
    import pipec.torch

    torch.distributed.init_process_group("gloo")
    for path in plans:
        plan = pipec.load(path)
        rank, replica = plan.place()
        modules = pipec.torch.stages(plan, model.layers(), rank)
        with pipec.torch.Run(plan, modules, loss=model.loss, progress=False,
                             optimizer=lambda named: torch.optim.AdamW([each for _, each in named])) as run:
            samples = SAMPLES * plan.microbatches * plan.degree
            x, target = (each.chunk(plan.degree)[replica] for each in (model.example(samples), model.target(samples)))
            for _ in range(steps):
                run.step(x if 0 in modules else None, target=target if plan.stage_count - 1 in modules else None)
        if plan.world_rank() == 0:
            said = run.report()
            measured, simulated = (statistics.median(said[key][3:]) for key in ("step_ms", "simulated_step_ms"))
            print(json.dumps({"measured": measured, "predicted": simulated}), flush=True)
    torch.distributed.destroy_process_group()


def launch(*arguments):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    done = subprocess.run([*torchrun, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def run_round(folder, kinds, steps):
    """Profiles, compiles and trains. Gives a row for each kind."""
    import pipec

    spec, plans = folder / "gpt.yaml", []
    found = json.loads(launch("-m", "pipec.profile", GPT / "model.py", "--microbatch", SAMPLES, "--json", "-o", spec)[-1])
    link = "{{latency: {latency_ms}ms, bandwidth: {0}GB/s}}".format(found["links"][0]["bytes_per_s"] / 1e9, **found["links"][0])
    for number, (_, kind) in enumerate(kinds):
        plans.append(folder / f"{number}.pipe")
        replicas = {"data_parallel": f"{{degree: {RANKS}, link: {link}, {kind['data_parallel']}}}"} if "data_parallel" in kind else {}
        pipec.compile(spec, set={**kind, **replicas}).save(plans[-1])
    return [json.loads(row) for row in launch(__file__, "--steps", steps, "--plans", *plans)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--only", default="", metavar="TEXT", help="kinds whose name has TEXT")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--plans", nargs="+", help=argparse.SUPPRESS)  # what this program starts itself with
    given = parser.parse_args()
    if given.plans:
        return train(given.steps, given.plans)
    if os.getloadavg()[0] > BUSY or os.cpu_count() < RANKS:
        found = f"{os.cpu_count()} cores with a load of {os.getloadavg()[0]:.2f}"
        print(f"training: {found}: this needs {RANKS} quiet ones", file=sys.stderr)
        return 2
    alone = {"schedule": "1f1b", "pipeline.ranks": 1, "costs.links": "[]"}
    kinds = [(each, {"schedule": each}) for each in SCHEDULES]
    kinds += [(f"{each}, {backward}", {"schedule": each, "backward": backward}) for each, backward in PAIRS]
    kinds += [(f"replicas, {each}", {**alone, "data_parallel": each}) for each in REPLICAS]
    if not (kinds := [kind for kind in kinds if given.only in kind[0]]):
        parser.error(f"--only: no kind has '{given.only}' in its name")
    off, rounds = [], []
    for number in range(given.rounds):
        with tempfile.TemporaryDirectory(prefix="pipec-") as folder:
            rounds.append(dict(zip([name for name, _ in kinds], run_round(pathlib.Path(folder), kinds, given.steps))))
        print(f"training: round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)

    def say(name, ratios, more):
        off.append(statistics.median(ratios) - 1)
        print(f"{name:52} {off[-1] * 100:+6.2f} % ({min(ratios) * 100 - 100:+.1f} to {max(ratios) * 100 - 100:+.1f}); {more}")

    for name, _ in kinds:
        rows = [each[name] for each in rounds]
        measured, predicted = (statistics.median(row[key] for row in rows) for key in ("measured", "predicted"))
        say(name, [row["measured"] / row["predicted"] for row in rows], f"{measured:.1f} ms, {predicted:.1f} predicted")
    for name in dict.fromkeys(each for each, _ in PAIRS):
        split, mixed = ([each.get(f"{name}, {backward}") for each in rounds] for backward in ("split", "mixed"))
        if split[0] and mixed[0]:
            gains = [{key: b[key] / a[key] for key in ("measured", "predicted")} for a, b in zip(split, mixed)]
            measured, predicted = (statistics.median(gain[key] for gain in gains) for key in ("measured", "predicted"))
            say(f"{name}, mixed / split", [gain["measured"] / gain["predicted"] for gain in gains],
                f"{measured:.3f} times, {predicted:.3f} predicted")
    return int(given.judge and max(map(abs, off)) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
