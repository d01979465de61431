"""A model's layers, and a rank's stages, which are made of them."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from ..errors import SpecError
from ..plan import Plan
from . import shared
from .keywords import each_of
from .random import Seeded
from .recording import WAY_OUT
from .traced import traced
from .varying import SHAPES


class Layers(list):
    """Those of a model. Empty until there is an example, where the model has to be recorded on one."""

    def __init__(self, model):
        is_sequential = isinstance(model, nn.Sequential) and type(model).forward is nn.Sequential.forward
        super().__init__(model if is_sequential else ())
        self._model = None if is_sequential else model

    def record(self, example, keywords, shapes="same"):
        """Cuts the model, as it goes through model(example, **keywords), a microbatch; where shapes vary, lists of these."""
        if self or self._model is None:
            return
        given = examples(example, keywords) if varies(shapes) else [(example, keywords)]
        model, self._model = self._model, None
        names = inspect.signature(model.forward).parameters
        # What a model keeps to go on from, word by word, is of no use in training, and no tensor.
        settings = {"use_cache": False} if "use_cache" in names and "use_cache" not in keywords else {}
        try:
            self.extend(traced(model, given, settings))
        except SpecError:
            raise
        except Exception as error:
            raise SpecError(f"a {type(model).__name__} fails on the example, {type(error).__name__}: {error}: pass the input of a "
                            f"microbatch and the keywords that its forward takes, or {WAY_OUT}") from error

    def check(self):
        if self._model is not None:
            raise SpecError(f"a {type(self._model).__name__} is cut as its forward goes, which is not known before an example: pass "
                            f"pipec.torch.layers(model, example=…) the input of a microbatch and keywords, call pipec.torch.plan(layers, "
                            f"example=…) first, or {WAY_OUT}")


def varies(shapes):
    """Whether they do."""
    if shapes not in SHAPES:
        raise SpecError(f"shapes is {shapes!r}: expected {', '.join(map(repr, SHAPES))}")
    return shapes == "vary"


def examples(example, keywords):
    """[(x, keywords)] of a list of microbatches and of keywords that are lists, as a step of a run with shapes="vary" takes them: of
    each size one."""
    if type(example) is not list:
        raise SpecError(f'example is a {type(example).__name__}: with shapes="vary" expected a list of microbatches, of the smallest and the '
                        "largest sizes that the run's will have")
    found = {}
    for number, x in enumerate(example):
        given = {name: each_of(value, len(example), f"the keyword {name}", "example") if type(value) is list else [value] * len(example)
                 for name, value in keywords.items()}
        given = {name: each[number] for name, each in given.items()}
        found.setdefault(str([each.shape for each in tree_leaves((x, given)) if isinstance(each, torch.Tensor)]), (x, given))
    if len(found) < 2:
        raise SpecError('all microbatches in example are of one size: with shapes="vary" let them have the smallest and the largest sizes '
                        "that the run's will have")
    return list(found.values())


def layers(model: nn.Module | Sequence[nn.Module | Callable[[], nn.Module]], example: Any = None, shapes: str = "same",
           **keywords: Any) -> list:
    """The layers of a model, as `plan` and `stages` take them.

    model: a list of modules (or of what makes one when called), each of which takes what the one before gives; an nn.Sequential; or any
    other module with an nn.ModuleList in it (or an nn.ModuleDict of blocks of one type), in front of whose elements it is cut. The forward
    of such a model is recorded: once, on `example`, the input of a microbatch, and `keywords`. Whatever else goes from one layer to the
    next, as a mask or an encoder's states, becomes a part of what the layer gives. Modules within stay what they are, and weights keep
    their names. Without an example
    `plan` records it.

    shapes: "vary" for a run whose microbatches are of several sizes. `example` is then a list of microbatches, and so is each keyword
    that has sizes: of the smallest and the largest sizes, and of others between them where the forward might do other things for
    these. Sizes that are independent of each other have to differ in one of them.

    Raises SpecError where a forward does other things for other numbers, or hands on what is no tensor.

    Example:
        layers = pipec.torch.layers(GPT2LMHeadModel(config))
        plan = pipec.torch.plan(layers, example=words, ranks=4, microbatches=16, schedule="zb-h1")"""
    if isinstance(model, (list, tuple)):
        return list(model)
    if not isinstance(model, nn.Module):
        raise SpecError(f"model is a {type(model).__name__}: expected a torch.nn.Module or a list of these")
    found = Layers(model)
    if example is not None:
        found.record(example, keywords, shapes)
    return found


def stages(plan: Plan, layers: Sequence[nn.Module | Callable[[], nn.Module]], rank: int, seed: int = 0) -> dict[int, nn.Sequential]:
    """{stage: Sequential} of a rank. layers: the model's, in order; each a module, or what makes one when called, which is
    then called on the rank that has it alone, with random numbers of the layer's own."""
    if isinstance(layers, Layers):
        layers.check()
    cut = plan.cut or [1] * plan.stage_count
    if len(layers) != sum(cut):
        whose = f"its layers are cut {'-'.join(map(str, cut))}" if plan.cut else f"it has {plan.stage_count} stages and no layers"
        raise SpecError(f"the model has {len(layers)} layers, the plan {sum(cut)} ({whose})", plan.name)
    shared.note(cut, layers)
    made = {}
    for stage in plan.stages(rank):
        first = sum(cut[:stage.stage])
        made[stage.stage] = torch.nn.Sequential(
            *(make(layers[number], number, seed) for number in range(first, first + cut[stage.stage])))
    return made


def make(layer, number, seed):
    if isinstance(layer, torch.nn.Module):
        return layer
    with Seeded(seed, -1, number, 0):
        made = layer() if callable(layer) else layer
    if not isinstance(made, torch.nn.Module):
        raise SpecError(f"layer {number} is a {type(made).__name__}: expected a torch.nn.Module, or what makes one")
    return made
