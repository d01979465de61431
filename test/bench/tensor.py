#!/usr/bin/env python3
"""What each balance of two shards costs in accuracy, beside the time it wins back: specs/stages/tensor trained for 12 epochs
with one shard four times as slow, always the same one or the other one every epoch. Accuracy: of 2,048 test glyphs, all units, after the last
step; mean and, in brackets, least to most of the seeds. Won back: (even - this) / (even - healthy), as `pipec report` computes it. FlexTP
trains its first epoch whole, so `resize` and `semi` do here.

  tensor.py BIN [--seeds N] [--steps N] [--only WORD ...] [--keep FILE] [--jobs N]

BIN: the folder of pipec and bench-tensor; WORD: what a row that is wanted has in its name; FILE: keeps what has been measured, so that
a run can go on. All rows are some 90 trainings of 1.5 minutes.
"""
import argparse
import concurrent.futures
import pathlib
import statistics
import subprocess

from programs import Programs

SPEC = pathlib.Path(__file__).resolve().parent.parent.parent / "specs/stages/tensor/tensor.yaml"
SLOW = "tensor_parallel.slow=[{rank: 0, shard: 0, factor: 4}]"
VALUES = '"rate": 4e-3, "steps": %d, "seed": %d, "full_epochs": 1'
ALL = "all units"


def rows():
    """Name, balance of the spec, balance as the library is told it."""
    yield ALL, "even", '{"name": "even"}'
    for impute in ["zero", "average", "same"]:
        for priority in ["change", "random", "first"]:
            yield (f"resize, gamma 0.75, {impute}, {priority}", "{name: resize, gamma: 0.75}",
                   '{"name": "resize", "impute": "%s", "priority": "%s"}' % (impute, priority))
    for gamma in [0.25, 0.5]:
        yield f"resize, gamma {gamma}, zero, change", "{name: resize, gamma: %g}" % gamma, '{"name": "resize"}'
    yield "semi", "semi", '{"name": "semi"}'
    for most in [0.125, 0.25, 0.375]:
        yield f"auto, most {most}", "{name: auto, most: %g}" % most, '{"name": "auto", "most": %g}' % most


def computed(programs, balance):
    """Units of both splits by layer, as bench-tensor reads them, and the part of the lost time that is won back."""
    said = programs.told("pipec", "report", SPEC, "--set", SLOW, "--set", f"tensor_parallel.balance={balance}")
    splits = {"heads": [], "columns": []}
    for each in said["portions"]:
        units = "/".join(",".join(map(str, each[key])) for key in ("owned", "worked", "kept"))
        splits[each["split"]].append((each["layers"], units))
    texts = [each[0][1] if len({units for _, units in each}) == 1 else ";".join(f"{layers}:{units}" for layers, units in each)
             for each in splits.values()]
    return texts, 100 * said["won_back"]


def accuracy(bench, arguments, keep):
    """After the last step, in percent."""
    key = "\t".join(arguments)
    for line in keep.read_text().splitlines() if keep and keep.exists() else []:
        if line.startswith(key + "\t="):
            return float(line.rsplit("=", 1)[1])
    done = subprocess.run([bench] + arguments, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    found = 100 * float(done.stdout.split()[0])
    if keep:
        with keep.open("a") as file:
            file.write(f"{key}\t={found}\n")
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("binaries", type=pathlib.Path)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--steps", type=int, default=1536)
    options.add_argument("--only", nargs="*", default=[])
    options.add_argument("--keep", type=pathlib.Path)
    options.add_argument("--jobs", type=int, default=1)
    given = options.parse_args()
    programs = Programs(given.binaries)
    wanted = [(name, told, *computed(programs, balance)) for name, balance, told in rows()
              if name == ALL or not given.only or any(word in name for word in given.only)]
    table = []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for seed in range(1, given.seeds + 1):
            for name, told, units, won in wanted:
                for slow in ["fixed", "rotates"][:1 if name == ALL else 2]:
                    arguments = [VALUES % (given.steps, seed), str(given.steps), told, *units] + ["rotate"] * (slow == "rotates")
                    run = pool.submit(accuracy, programs.binaries / "bench-tensor", arguments, given.keep)
                    table.append((name, slow, won, run))
    print("| balance | won back | slow shard | accuracy, % | lost, points |\n|---|---|---|---|---|")
    base = None
    for name, slow, won in dict.fromkeys(row[:3] for row in table):
        found = [row[3].result() for row in table if row[:2] == (name, slow)]
        mean = statistics.mean(found)
        base = mean if base is None else base
        print(f"| {name} | {'-' if name == ALL else f'{won:.1f} %'} | {slow} | {mean:.1f} ({min(found):.1f} to {max(found):.1f}) | "
              f"{base - mean:.1f} |")


if __name__ == "__main__":
    main()
