"""A rank's stages, made of a model's layers."""
import torch

from ..errors import SpecError
from . import shared
from .random import Seeded


def stages(plan, layers, rank, seed=0):
    """{stage: Sequential} of a rank. layers: the model's, in order; each a module, or what makes one when called, which is
    then called on the rank that has it alone, with random numbers of the layer's own."""
    cut = plan.cut or [1] * plan.stage_count
    if len(layers) != sum(cut):
        whose = f"its layers are cut {'-'.join(map(str, cut))}" if plan.cut else f"it has {plan.stage_count} stages and no layers"
        raise SpecError(f"the model has {len(layers)} layers, the plan {sum(cut)} ({whose})", plan.name)
    shared.note(cut, layers)
    made = {}
    for stage in plan.stages(rank):
        first = sum(cut[:stage.stage])
        made[stage.stage] = torch.nn.Sequential(
            *(_make(layers[number], number, seed) for number in range(first, first + cut[stage.stage])))
    return made


def _make(layer, number, seed):
    if isinstance(layer, torch.nn.Module):
        return layer
    with Seeded(seed, -1, number, 0):
        made = layer() if callable(layer) else layer
    if not isinstance(made, torch.nn.Module):
        raise SpecError(f"layer {number} is a {type(made).__name__}: expected a torch.nn.Module, or what makes one")
    return made
