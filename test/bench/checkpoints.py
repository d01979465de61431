"""How long training stands still for a checkpoint of 2 GB: with save="between", and with save="beside", which copies to memory and
writes beside the next steps. Judged of the second and later ones. Measurements, run by hand; they need 6 GB of memory and of
disk.

  PYTHONPATH=build/dev/python build/torch/bin/python test/bench/checkpoints.py [--gigabytes 2] [--rounds 3] [--judge]

--judge: exit code 1 where training stands still beside for more than a tenth of what writing takes.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

import torch

import pipec
import pipec.torch

PART = 0.1  # at most, of what writing takes
LAYERS = 8
SPEC = """\
pipec: 1
pipeline: {ranks: 1, microbatches: 1, cut: [8]}
layers:
- {forward: 2ms, backward_input: 2ms, backward_weight: 2ms, activation: 1MiB, weight_context: 512KiB, count: 8}
tensors: {boundary: 1KiB}
costs: {optimizer: 1ms}
schedule: 1f1b
"""


class Wide(torch.nn.Module):
    """Weights that a forward hardly uses."""

    def __init__(self, elements):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(elements))

    def forward(self, x):
        return x + self.weight[:1]


def adam(named):
    """With its state as after a step."""
    made = torch.optim.Adam([p for _, p in named])
    for p in made.param_groups[0]["params"]:
        made.state[p] = {"step": torch.tensor(1.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    return made


def measured(plan, elements, save, rounds, folder):
    """[seconds that a step with a checkpoint before it stands still], and [seconds until that is complete]."""
    modules = pipec.torch.stages(plan, [lambda: Wide(elements)] * LAYERS, 0)
    stood, wrote = [], []
    with pipec.torch.Run(plan, modules, loss=lambda output, target: (output * 0).sum(), optimizer=adam, checkpoint=folder, save=save,
                         progress=False) as run:
        checkpoints, x = run._checkpoints, torch.zeros(1, 8)
        run.step(x, target=x)
        for number in range(rounds):
            path = pathlib.Path(folder) / f"step-{number + 1:08}"
            began = time.perf_counter()
            checkpoints.save_to(path, number + 1)
            stood.append(time.perf_counter() - began)
            checkpoints.end()
            wrote.append(time.perf_counter() - began)
    return stood, wrote


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    elements = int(options.gigabytes * 2**30 / 12 / LAYERS)
    found = {}
    with tempfile.TemporaryDirectory(prefix="pipec-bench-") as folder:
        spec = pathlib.Path(folder) / "spec.yaml"
        spec.write_text(SPEC, encoding="utf-8")
        plan = pipec.compile(spec)
        for save in ("between", "beside"):
            stood, wrote = measured(plan, elements, save, options.rounds, f"{folder}/{save}")
            found[save] = {"stands_still_s": statistics.median(stood[1:] or stood), "written_s": statistics.median(wrote[1:] or wrote)}
    part = found["beside"]["stands_still_s"] / found["between"]["written_s"]
    print(json.dumps({**found, "part": part}, indent=1))
    sys.exit(options.judge and part > PART)


if __name__ == "__main__":
    main()
