"""Pipelines in a mesh of processes, pp x dp or pp x tp, each a run of its own: for each {"how", "plan"} of a list of JSON a process prints
{"weights": {name: numbers after the last step}, "losses", "sums": how
often something was summed over processes in the last step}, or {"error"}."""

import models
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils._python_dispatch import TorchDispatchMode

import pipec
import pipec.torch

STEPS, MICROBATCHES, ROWS, WIDTH = 3, 4, 8, 8


class Sums(TorchDispatchMode):
    """Counts the sums over processes. (CommDebugMode of PyTorch 2.8 fails at modules that were called when it was not on.)"""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented
        self.count += function.namespace in ("c10d", "_c10d_functional") and "reduce" in function.__name__
        return function(*args, **(kwargs or {}))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).tanh())


def layers():
    torch.manual_seed(2)
    return [nn.Linear(WIDTH, WIDTH), Block(), Block(), nn.Linear(WIDTH, WIDTH)]


def batch(step, part=0):
    """part: of those that the mesh's other dimension has, each its own rows."""
    generator = torch.Generator().manual_seed(10 * step + part)
    return torch.randn(ROWS, WIDTH, generator=generator), torch.randn(ROWS, WIDTH, generator=generator)


def wrapped(layer, how, mesh):
    """A layer as its stage has it."""
    if how == "fully_shard":
        for block in [each for each in layer.modules() if isinstance(each, Block)]:
            fully_shard(block, mesh=mesh)
        return fully_shard(layer, mesh=mesh) if not isinstance(layer, Block) else layer
    if how == "ddp":
        return nn.parallel.DistributedDataParallel(layer, process_group=mesh.get_group())
    if how == "tp" and isinstance(layer, Block):
        return parallelize_module(layer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return layer


def plain(parts):
    """{name: weight} of one process, whose gradients are means over the parts of a batch."""
    model = nn.Sequential(*layers())
    own = models.adamw([model])
    for step in range(STEPS):
        sums = []
        for part in range(parts):
            own.zero_grad()
            x, target = batch(step, part)
            for a, b in zip(x.chunk(MICROBATCHES), target.chunk(MICROBATCHES)):
                nn.functional.mse_loss(model(a), b).backward()
            sums.append([p.grad for p in model.parameters()])
        for p, *gradients in zip(model.parameters(), *sums):
            p.grad = sum(gradients[1:], gradients[0]) / parts / MICROBATCHES
        own.step()
    return dict(model.named_parameters())


def train(case):
    plan, how = pipec.load(case["plan"]), case["how"]
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))  # PyTorch 2.8 has tensor parallelism innermost
    group = mesh["pp"].get_group()
    if how == "size":
        group = torch.distributed.new_group([0, 1, 2, 3])
    part = mesh["dp"].get_local_rank()
    rank, _ = plan.place(torch.distributed.get_rank(group) % plan.world)
    modules = pipec.torch.stages(plan, [wrapped(layer, how, mesh["dp"]) for layer in layers()], rank)
    own, losses = models.adamw(modules.values()), []
    options = {"checkpoint": case["states"], "resume": True, "state": {"optimizer": own}} if "states" in case else {}
    with pipec.torch.Run(plan, modules, loss=nn.functional.mse_loss, group=group, progress=False, **options) as run:
        for step in range(run.steps_done, case.get("steps", STEPS)):
            x, target = batch(step, 0 if how == "tp" else part)
            with Sums() as sums:
                losses.append(run.step(x, target=target).item())
            own.step()
            own.zero_grad()
        if "states" in case:
            run.evaluate(x, target=target)  # which leaves gathered weights
    weights = {}
    for stage in plan.stages(rank):
        for number, layer in enumerate(modules[stage.stage]):
            for name, p in layer.named_parameters():
                p = p.full_tensor() if hasattr(p, "full_tensor") else p
                weights[f"{stage.first_layer + number}.{name.removeprefix('module.')}"] = p.tolist()
    return {"weights": weights, "losses": losses, "sums": sums.count}


def main():
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    models.answer(train)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
