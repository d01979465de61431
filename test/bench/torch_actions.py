#!/usr/bin/env python3
"""What PyTorch's pipeline runtime takes for an action: one process with all stages of an order, on a GPU.

  python3 test/bench/torch_actions.py ORDER.csv [--steps 50] [--device cuda]

ORDER.csv is of one rank, compute_only (pipec compile SPEC --emit=torch-csv-compute). Stages are a matrix of 8 x 8 each,
so that what counts is the runtime, autograd included. Prints the median over the steps, in microseconds an action."""
import argparse
import csv
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH, WARM = 8, 5  # of a layer; steps that do not count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("order")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    with open(given.order, newline="", encoding="ascii") as file:
        rows = [[cell for cell in row if cell] for row in csv.reader(file)]
    assert len(rows) == 1, f"expected the order of one rank, found {len(rows)}"
    stages = 1 + max(int(cell.split("F")[0]) for cell in rows[0] if "F" in cell)
    microbatches = sum("F" in cell for cell in rows[0]) // stages

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    PipelineStage._get_init_p2p_neighbors_ops = lambda self: []  # Gloo cannot send to itself; nothing is sent
    device = torch.device(given.device)
    own = [PipelineStage(torch.nn.Linear(WIDTH, WIDTH).to(device), stage, stages, device) for stage in range(stages)]
    run = _PipelineScheduleRuntime(own, microbatches, loss_fn=torch.nn.functional.mse_loss)
    run._load_csv(given.order, format="compute_only")
    x, y = torch.rand(2, microbatches, WIDTH, device=device)
    times = []
    for _ in range(WARM + given.steps):
        if device.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        run.step(x, target=y)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    print(f"{1e6 * statistics.median(times[WARM:]) / len(rows[0]):.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
