"""Trains a small model with an order file that pipec exported, one process a rank:

  torchrun --nproc-per-node 4 train.py order.csv

PyTorch of any release that has the file's spelling (compute_comms), or any from 2.8 on (compute_only); CPU and Gloo. The
model is a chain of small layers, two a stage; every process makes all of it from one seed and keeps its own stages. With
--check it also trains in a single process and compares the gradients, which must be equal to rounding.
"""
import argparse
import csv
import os
import re

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH, SAMPLES = 16, 3  # of a layer; of a microbatch
RELEASE = tuple(map(int, re.match(r"(\d+)\.(\d+)", torch.__version__).groups()))


def model(stages):
    torch.manual_seed(1)
    layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))
              for _ in range(stages)]
    return [layer.to(torch.float64) for layer in layers]


def order(path):
    """What the file says: its rows of actions."""
    with open(path, newline="", encoding="ascii") as file:
        # (0F7;7B3)OVERLAP_F_B is its two actions.
        return [[re.fullmatch(r"(\d+)([A-Z_]+)(\d*)", action).groups() for cell in row if cell
                 for action in cell.removesuffix("OVERLAP_F_B").strip("()").split(";")] for row in csv.reader(file)]


def batches(steps, microbatches):
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        yield torch.rand(2, microbatches * SAMPLES, WIDTH, dtype=torch.float64, generator=generator)


def alone(stages, microbatches, steps, rate):
    """The same training in one process: losses and gradients of the last step."""
    layers = torch.nn.Sequential(*model(stages))
    losses = []
    for x, y in batches(steps, microbatches):
        layers.zero_grad()
        losses.append(torch.nn.functional.mse_loss(layers(x), y))
        losses[-1].backward()
        with torch.no_grad():
            for weight in layers.parameters():
                weight -= rate * weight.grad
    return [loss.item() for loss in losses], {name: weight.grad for name, weight in layers.named_parameters()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("order")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    rows = order(given.order)
    comms = any(kind not in "FBIW" for row in rows for _, kind, _ in row)
    split = any(kind == "W" for row in rows for _, kind, _ in row)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    assert len(rows) == ranks, f"the order is for {len(rows)} processes, torchrun has started {ranks}"
    mine = sorted({int(stage) for stage, _, _ in rows[rank]})  # ascending: PyTorch infers shapes in this order
    stages = 1 + max(int(stage) for row in rows for stage, _, _ in row)
    microbatches = 1 + max(int(number) for row in rows for _, kind, number in row if kind == "F")

    dist.init_process_group("gloo")
    if RELEASE < (2, 12):  # Gloo cannot send to itself, which the warm-up of neighbouring stages on one rank tries
        PipelineStage._get_init_p2p_neighbors_ops = lambda self: []
    # Releases 2.8 and 2.9 do not scale after a split backward: there the loss does.
    unscaled = split and RELEASE < (2, 10)
    mse = torch.nn.functional.mse_loss
    layers = model(stages)
    own = [PipelineStage(layers[stage], stage, stages, torch.device("cpu")) for stage in mine]
    run = _PipelineScheduleRuntime(own, microbatches, scale_grads=not unscaled,
                                   loss_fn=(lambda x, y: mse(x, y) / microbatches) if unscaled else mse)
    run._load_csv(given.order, format="compute_comms" if comms else "compute_only")

    weights = {f"{stage}.{name}": weight for stage in mine for name, weight in layers[stage].named_parameters()}
    for step, (x, y) in enumerate(batches(given.steps, microbatches)):
        for weight in weights.values():
            weight.grad = None
        losses = []
        run.step(*([x] if 0 in mine else []), target=y if stages - 1 in mine else None, losses=losses)
        with torch.no_grad():
            for weight in weights.values():
                weight -= given.rate * weight.grad
        if losses:
            mean = sum(loss.item() for loss in losses) / (1 if unscaled else microbatches)
            print(f"step {step}: loss {mean:.6f}", flush=True)
    if given.check:
        _, expected = alone(stages, microbatches, given.steps, given.rate)
        worst = max(((weight.grad - expected[name]).abs().max() / expected[name].abs().max()).item()
                    for name, weight in weights.items())
        every = [None] * ranks
        dist.all_gather_object(every, worst)
        if rank == 0:
            print(f"largest relative difference of a gradient from a single process: {max(every):.1e}", flush=True)
        assert max(every) < 1e-9, every
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
