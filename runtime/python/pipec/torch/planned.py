"""A plan of a model, made in the program. What its layers take and hold comes of running them on tensors without numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from ..errors import SpecError
from ..plan import Plan, compile as compile_spec
from . import shared
from .keywords import call
from .layers import Layers, examples, make, varies
from .traced import Layer, name_of, without_numbers
from .varying import header_of

# Of a device, where nothing is measured: what matters is how one layer's time compares with another's.
FLOPS = 200e12  # a second
BYTES = 1e12  # to and from its memory, a second
LAUNCH = 2e-6  # seconds of a kernel, at least
_TARGET = ""  # goes with the keywords
TIMES = ("forward", "backward_input", "backward_weight", "backward")


class _Roofline(TorchDispatchMode):
    """Counts the seconds that operations would take: by their flops or by their bytes, whatever is more."""

    def __init__(self):
        super().__init__()
        self.seconds = 0.0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        found = function(*args, **kwargs)
        given = {each.untyped_storage()._cdata: each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)}
        made = [each for each in tree_leaves(found) if isinstance(each, torch.Tensor) and each.untyped_storage()._cdata not in given]
        if made:  # no view
            count = flop_registry.get(function._overloadpacket)
            flops = count(*args, **kwargs, out_val=found) if count else 0
            moved = sum(each.nbytes for each in (*given.values(), *made))
            self.seconds += max(flops / FLOPS, moved / BYTES, LAUNCH)
        return found


def _microbatch(value, microbatches, what):
    """The first of a batch."""
    def first(each):
        if not isinstance(each, torch.Tensor) or each.dim() == 0:
            return each
        if each.shape[0] % microbatches:
            raise SpecError(f"{what} has shape {tuple(each.shape)}: its first dimension is not divided by {microbatches} microbatches")
        return each[:each.shape[0] // microbatches]
    return tree_map(first, value)


def _elements(value):
    return sum(each.numel() for each in tree_leaves(value) if isinstance(each, torch.Tensor))


def _sum(output, target):
    """Stands for a loss that is not known."""
    return sum(each.sum() for each in tree_leaves(output) if isinstance(each, torch.Tensor) and each.requires_grad)


def _kinds(value):
    return [(each.dtype, each.shape) for each in tree_leaves(value) if isinstance(each, torch.Tensor)]


def _alike(layers, x, keywords):
    """Of each layer the number of the one that stands for it. Of many that follow each other and do the same with other weights
    the first two and the last are run: what a layer holds depends on its neighbours."""
    keys = []
    for layer in layers:
        before = _kinds(x)
        x = call(layer, x, keywords)
        weights = [(without_numbers(name), each.shape, each.dtype, each.requires_grad)
                   for name, each in (*layer.named_parameters(), *layer.named_buffers())]
        keys.append((layer.likeness() if isinstance(layer, Layer) else repr(layer), weights, before, before == _kinds(x) or len(keys)))
    numbers = list(range(len(layers)))
    for number in range(2, len(layers) - 1):
        if keys[number - 2] == keys[number - 1] == keys[number] == keys[number + 1]:
            numbers[number] = numbers[number - 1]
    return numbers


def _measured(layers, x, keywords, target, loss, varying):
    """[{figure: seconds or bytes}] by layer. varying: whether a slot has sizes in front."""
    from ..profile import Chain

    before = [(p, p.grad) for layer in layers for p in layer.parameters()]
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode, _Roofline() as clock:
            def fake(value):
                return tree_map(lambda each: mode.from_tensor(each) if isinstance(each, torch.Tensor) else each, value)
            for p, _ in before:
                p.grad = None
            x, keywords = fake(x), fake(keywords)
            with torch.no_grad():
                numbers = _alike(layers, x, keywords)
            run = [layers[number] for number in dict.fromkeys(numbers)]
            chain = Chain(run, x, fake(target), loss or _sum, keywords, lambda: clock.seconds, header=header_of if varying else None)
            found = dict(zip(dict.fromkeys(numbers), chain.measure(1, warm_up=1)))
    finally:
        for p, grad in before:
            p.grad = grad
    rows = [dict(found[number]) for number in numbers]
    for layer, row in zip(layers, rows):
        trained = sum(p.nbytes for p in layer.parameters() if p.requires_grad)
        row.update(weights=sum(each.nbytes for each in (*layer.parameters(), *layer.buffers())), gradients=trained,
                   optimizer_state=2 * trained, optimizer=6 * trained / BYTES)
    return rows


def _text(name, value):
    return f"{value * 1e6:.3f}us" if name in TIMES or name == "optimizer" else f"{round(value)}B"


def _merged(layers, rows):
    """As a spec has them: equal ones that follow each other are one entry with a count."""
    found = []
    for layer, row in zip(layers, rows):
        values = {name: _text(name, value) for name, value in row.items()}
        if found and {**found[-1], "name": None, "count": None} == {"name": None, "count": None, **values}:
            found[-1]["count"] += 1
        else:
            found.append({"name": name_of(layer), "count": 1, **values})
    return found


def plan(layers: Sequence, example: Any = None, *, ranks: int, microbatches: int, schedule: str | list | dict = "1f1b",
         keywords: dict[str, Any] | None = None, target: Any = None, loss: Callable | None = None, shapes: str = "same",
         profile: str | os.PathLike | None = None, **spec: Any) -> Plan:
    """A plan of a model's layers, in the program: no file, no YAML. `plan.spec` shows the spec that it is made of.

    Args:
        layers: what pipec.torch.layers gives, or a list of modules or of what makes one when called.
        example: the input of a step, of all its microbatches; its numbers do not matter.
        ranks, microbatches, schedule: of the pipeline.
        keywords: of a step, {name: value}, where layers take some.
        target, loss: of a step; with them the loss counts as a part of the last layer.
        shapes: "vary" for a run with shapes="vary". example, target and keywords are then lists of microbatches, as
            pipec.torch.layers takes them; the plan has room for the largest.
        profile: a spec that pipec.profile has measured, whose layers' times and sizes are used. Without, times are those of a
            device of 200 Tflop/s and 1 TB/s, and tell how layers compare.
        spec: further keys of a spec, such as memory={"limit": "70GiB"}, recompute="auto" or pipeline={"stages_per_rank": 2}.

    Raises SpecError.

    Example:
        plan = pipec.torch.plan(layers, example=words, ranks=4, microbatches=16, schedule="zb-h1", memory={"limit": "70GiB"})"""
    pipeline = {"ranks": ranks, "microbatches": microbatches, "cut": "auto", **spec.pop("pipeline", {})}
    varying, keywords = varies(shapes), keywords or {}
    if varying and example is not None:
        given = examples(example, {**keywords, **({} if target is None else {_TARGET: target})})
        if isinstance(layers, Layers):
            layers.record(example, keywords, shapes)
        x, keywords = max(given, key=lambda each: _elements(each[0]))
        target = keywords.pop(_TARGET, None)
    else:
        x, target = _microbatch(example, microbatches, "example"), _microbatch(target, microbatches, "target")
        keywords = {name: _microbatch(value, microbatches, f"the keyword {name}") for name, value in keywords.items()}
        if isinstance(layers, Layers) and example is not None:
            layers.record(x, keywords)
    if isinstance(layers, Layers):
        layers.check()
    if profile is not None:
        return compile_spec(profile, {"pipeline": pipeline, "schedule": schedule, **spec})
    if example is None:
        raise SpecError("pass example=, the input of a step, or profile=, a spec that pipec.profile has measured")
    made = [make(layer, number, 0) for number, layer in enumerate(layers)]
    rows = _measured(made, x, keywords, target, loss, varying)
    if tied := shared.said(made):
        spec.setdefault("shared", tied)
    found = compile_spec({"pipec": 1, "pipeline": pipeline, "layers": _merged(made, rows), "schedule": schedule, **spec})
    found.is_timed = False
    return found
