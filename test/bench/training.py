#!/usr/bin/env python3
"""Measures what a step of training takes beside what its plan says, on two ranks of this machine.

  training.py [--steps N] [--judge]      --judge: fails where a median, or what mixed gains, is more than 5 % off

specs/pytorch/gpt is profiled, compiled for several schedules and trained, on two ranks and as two replicas; some schedules with
`backward: split` and `mixed`, one beside the other. It wants PyTorch, pipec's package (PYTHONPATH=build/release/python) and two
cores with nothing else to do; on a busy machine it says so and stops.
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
        with pipec.torch.Run(plan, pipec.torch.stages(plan, model.layers(), rank), loss=model.loss, progress=False,
                             optimizer=lambda named: torch.optim.AdamW([each for _, each in named])) as run:
            samples = SAMPLES * plan.microbatches * plan.degree
            x, target = (each.chunk(plan.degree)[replica] for each in (model.example(samples), model.target(samples)))
            for _ in range(steps):
                run.step(x, target=target)
        if plan.world_rank() == 0:
            said = run.report()
            measured, simulated = (statistics.median(said[key][3:]) for key in ("step_ms", "simulated_step_ms"))
            print(json.dumps({"measured": measured, "predicted": simulated}), flush=True)
    torch.distributed.destroy_process_group()


def launch(*arguments):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    done = subprocess.run([*torchrun, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--plans", nargs="+", help=argparse.SUPPRESS)  # what this program starts itself with
    given = parser.parse_args()
    if given.plans:
        train(given.steps, given.plans)
        return 0
    if os.getloadavg()[0] > BUSY or os.cpu_count() < RANKS:
        found = f"{os.cpu_count()} cores with a load of {os.getloadavg()[0]:.2f}"
        print(f"training: {found}: this needs {RANKS} quiet ones", file=sys.stderr)
        return 2
    import pipec

    with tempfile.TemporaryDirectory(prefix="pipec-") as folder:
        spec, plans = pathlib.Path(folder) / "gpt.yaml", []
        found = json.loads(launch("-m", "pipec.profile", GPT / "model.py", "--microbatch", SAMPLES, "--json", "-o", spec)[-1])
        link = "{{latency: {latency_ms}ms, bandwidth: {0}GB/s}}".format(found["links"][0]["bytes_per_s"] / 1e9, **found["links"][0])
        alone = {"schedule": "1f1b", "pipeline.ranks": 1, "costs.links": "[]"}
        kinds = [{"schedule": each} for each in SCHEDULES]
        kinds += [{"schedule": each, "backward": backward} for each, backward in PAIRS]
        kinds += [{**alone, "data_parallel": f"{{degree: {RANKS}, link: {link}, {each}}}"} for each in REPLICAS]
        for number, kind in enumerate(kinds):
            plans.append(pathlib.Path(folder) / f"{number}.pipe")
            pipec.compile(spec, set=kind).save(plans[-1])
        rows = [json.loads(row) for row in launch(__file__, "--steps", given.steps, "--plans", *plans)]
    off = []
    for name, row in zip([*SCHEDULES, *map(", ".join, PAIRS), *REPLICAS], rows):
        off.append(row["measured"] / row["predicted"] - 1)
        print(f"{name:42} {row['measured']:9.3f} ms, {row['predicted']:9.3f} predicted: {off[-1] * 100:+.2f} %")
    pairs = rows[len(SCHEDULES):]
    for (name, _), split, mixed in zip(PAIRS[::2], pairs[::2], pairs[1::2]):
        measured, predicted = (mixed[key] / split[key] for key in ("measured", "predicted"))
        off.append(measured / predicted - 1)
        print(f"{name + ', mixed / split':42} {measured:9.3f} times, {predicted:6.3f} predicted: {off[-1] * 100:+.2f} %")
    return int(given.judge and max(map(abs, off)) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
