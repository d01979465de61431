"""Layers of a model that is no Sequential: each plays back its part of a recording of the model's forward."""
from operator import attrgetter

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..errors import SpecError
from . import recording
from .recording import Attribute, Stand, Value

_RECORD = "record it with microbatches as the run's are (pipec.torch.layers(model, example=…))"


class _Names(nn.Module):
    """A step of a name."""


def _put(root, name, what, persistent=False):
    """Puts a module, parameter or buffer where the model has it, so that it has the model's name."""
    *way, last = name.split(".")
    for step in way:
        if step not in root._modules:
            root.add_module(step, _Names())
        root = root._modules[step]
    if isinstance(what, nn.Module):
        root.add_module(last, what)
    elif isinstance(what, nn.Parameter):
        root.register_parameter(last, what)
    else:
        root.register_buffer(last, what, persistent=persistent)


def without_numbers(name):
    """A name without its numbers."""
    return ".".join(each for each in name.split(".") if not each.isdigit())


def _values(leaves):
    return [leaf for leaf in leaves if isinstance(leaf, Value)]


class _Free:
    """What layers of a process make of keywords alone: once for all layers that get the same keywords."""

    def __init__(self, calls):
        self._calls = calls
        self._made = {}  # {Value: (what it was made of, tensor)}

    def __deepcopy__(self, memo):
        return _Free(self._calls)

    def __reduce__(self):
        return _Free, (self._calls,)

    def values(self, wanted, values, leaf_of, device):
        """Adds `wanted`: {Value: (keywords that it is made of, numbers of the calls that make it)}."""
        for value, (keywords, numbers) in wanted.items():
            of = (device, *(values[each] for each in keywords))
            known, made = self._made.get(value, ((), None))
            if len(known) != len(of) or known[0] != device or any(a is not b for a, b in zip(known[1:], of[1:])):
                made = self._make(value, values, numbers, leaf_of)
                if type(made) is torch.Tensor:  # with numbers
                    self._made[value] = of, made
            values[value] = made

    def _make(self, value, values, numbers, leaf_of):
        local = dict(values)
        for number in numbers:
            call = self._calls[number]
            leaves = [local[leaf] if isinstance(leaf, Value) else leaf_of(leaf) for leaf in call.leaves]
            _note(local, number, call, leaves, _do(call, call.what, leaves))
        return local[value]


def _do(call, function, leaves):
    args, kwargs = pytree.tree_unflatten(leaves, call.structure)
    with torch.set_grad_enabled(call.grad and torch.is_grad_enabled()):
        return function(*args, **kwargs)


def _note(values, number, call, leaves, found):
    if call.gives is None:
        values[Value(number, 0)] = next(each for each in leaves if isinstance(each, torch.Tensor))
    elif isinstance(found, torch.Tensor):
        values[Value(number, 0)] = found
    else:
        outputs, gives = pytree.tree_flatten(found)
        if gives != call.gives:
            raise SpecError(f"{call.what} gives {gives}, and gave {call.gives} when its model was recorded: {recording.WAY_OUT}")
        values.update((Value(number, at), leaf) for at, leaf in enumerate(outputs) if isinstance(leaf, torch.Tensor))


class Layer(nn.Module):
    """A part of a model. It takes what the part before gives, and keywords of the model's forward. Weights have the model's names.

    Attributes:
        name: of the module that begins the part.
        keywords: {name: True} of those that `forward` takes."""

    def __init__(self, model, recorded, number, calls, free, takes, gives):
        """calls: numbers of its own. takes, gives: values that come in and go out; gives None: the model's output does."""
        super().__init__()
        self._of, self._mode, self._takes, self._gives = type(model).__name__, recorded.training, takes, gives
        self._calls = [(each, recorded.calls[each]) for each in calls]
        self._output = recorded.output if gives is None else ([], None)
        self._input = recorded.input if number == 0 else None
        self._trees = {name: tree for name, tree in recorded.keywords.items() if number == 0 and not _values(tree[0])}
        leaves = [leaf for _, call in self._calls for leaf in call.leaves] + self._output[0]
        for _, call in self._calls:
            if call.is_module:
                _put(self, call.what, model.get_submodule(call.what))
        inside = tuple(f"{call.what}." for _, call in self._calls if call.is_module)
        for name in dict.fromkeys(leaf.name for leaf in leaves if isinstance(leaf, Attribute)):
            if not name.startswith(inside):
                _put(self, name, recorded.tensors[name], name in recorded.saved)
        self._free, self._wanted = free, {}
        for value in dict.fromkeys(_values(leaves)):
            if value.call is not None and recorded.calls[value.call].free:
                numbers = _closure(recorded, value)
                of = [each for number in numbers for each in _values(recorded.calls[number].leaves) if each.keyword is not None]
                self._wanted[value] = list(dict.fromkeys(of)), numbers
        self._given = {}  # {keyword: {Value: (dtype, shape)}}
        for value in dict.fromkeys([*_values(leaves), *(each for of, _ in self._wanted.values() for each in of)]):
            if value.keyword is not None:
                self._given.setdefault(value.keyword, {})[value] = recorded.kinds[value]
                self._trees[value.keyword] = recorded.keywords[value.keyword]
        self._kinds = recorded.kinds
        self.keywords = dict.fromkeys(self._trees, True)
        self.name = next((call.what for _, call in self._calls if call.is_module), f"part {number}")
        self._ends = self._last_uses()

    def likeness(self):
        """What two parts have in common that do the same with other weights."""
        def of(call):
            name = without_numbers(call.what) if call.is_module else call.what
            return name, [leaf if not isinstance(leaf, (Value, Attribute)) else type(leaf) for leaf in call.leaves], call.structure
        return [of(call) for _, call in self._calls], len(self._takes or ()), len(self._gives or ()), len(self._wanted)

    def _last_uses(self):
        """By call, the values that nothing behind it needs: what they hold is freed."""
        last = {}
        for at, (_, call) in enumerate(self._calls):
            last.update((leaf, at) for leaf in _values(call.leaves))
        kept = {*(self._gives or ()), *_values(self._output[0])}
        ends = [[] for _ in self._calls]
        for leaf, at in last.items():
            if leaf not in kept:
                ends[at].append(leaf)
        return ends

    def forward(self, x, **keywords):
        if self._mode is not None and self.training != self._mode:
            raise SpecError(f"the {self._of} was recorded in {_shown(self._mode)} mode, and calls other functions in "
                            f"{_shown(self.training)} mode: record it in this one, or {recording.WAY_OUT}")
        values = self._come_in(x)
        self._hear(values, keywords)
        device = next((each.device for each in values.values()), None)

        def leaf_of(leaf):
            kind = type(leaf)
            if kind is Value:
                return values[leaf]
            if kind is Attribute:
                return attrgetter(leaf.name)(self)
            if kind is Stand:
                return self.training if leaf is Stand.MODE else device
            return leaf

        self._free.values(self._wanted, values, leaf_of, device)
        for (number, call), ends in zip(self._calls, self._ends):
            leaves = [leaf_of(leaf) for leaf in call.leaves]
            function = attrgetter(call.what)(self) if call.is_module else call.what
            if call.sides:
                with _Sides(function, call, number, values):
                    found = _do(call, function, leaves)
            else:
                found = _do(call, function, leaves)
            _note(values, number, call, leaves, found)
            for each in ends:
                del values[each]
        if self._gives is None:
            return pytree.tree_unflatten([leaf_of(leaf) for leaf in self._output[0]], self._output[1])
        found = tuple(values[value] for value in self._gives)
        return found[0] if len(found) == 1 else found

    def _come_in(self, x):
        """{Value: tensor} of what the part before gives, or of the model's input."""
        if self._input is None:
            return dict(zip(self._takes, (x,) if len(self._takes) == 1 else x, strict=True))
        values = {}
        leaves, structure = pytree.tree_flatten(x)
        if structure != self._input[1]:
            raise SpecError(f"the input is {structure}, and was {self._input[1]} when the {self._of} was recorded: {_RECORD}")
        for noted, leaf in zip(self._input[0], leaves):
            if isinstance(noted, Value):
                self._check("the input", self._kinds[noted], leaf)
                values[noted] = leaf
            elif noted != leaf:
                raise SpecError(f"the input has {leaf!r} where the {self._of} was recorded with {noted!r}: {_RECORD}")
        return values

    def _hear(self, values, keywords):
        """Adds the keywords."""
        for name, (noted, structure) in self._trees.items():
            leaves, now = pytree.tree_flatten(keywords[name])
            if now != structure or any(leaf != each for leaf, each in zip(leaves, noted) if not isinstance(each, Value)):
                shown = pytree.tree_unflatten(["a tensor" if isinstance(each, Value) else each for each in noted], structure)
                raise SpecError(f"{name} is {keywords[name]!r}, and was {shown!r} when the {self._of} was recorded: {_RECORD}")
            for value, kind in self._given.get(name, {}).items():
                self._check(f"the keyword {name}", kind, leaves[value.leaf])
                values[value] = leaves[value.leaf]

    def _check(self, what, kind, leaf):
        dtype, shape = kind
        if leaf.shape != shape or leaf.dtype != dtype:
            raise SpecError(f"{what} of a microbatch is {tuple(leaf.shape)} of {leaf.dtype}, and was {tuple(shape)} of {dtype} when the "
                            f"{self._of} was recorded: {_RECORD}")


class _Sides:
    """While a module is called: adds what modules within it give."""

    def __init__(self, module, call, number, values):
        self._turns, self._handles = {}, []
        of = {}
        for at, side in enumerate(call.sides):
            of.setdefault(side.module.removeprefix(f"{call.what}."), []).append((side, Value(number, -1 - at)))
        for name, sides in of.items():
            def heard(_, __, found, name=name, sides=sides):
                turn = self._turns[name] = self._turns.get(name, -1) + 1
                for side, value in sides:
                    if side.turn == turn:
                        values[value] = pytree.tree_leaves(found)[side.leaf]
            self._handles.append((module.get_submodule(name), heard))

    def __enter__(self):
        self._handles = [module.register_forward_hook(heard) for module, heard in self._handles]

    def __exit__(self, *_):
        for each in self._handles:
            each.remove()


def name_of(layer):
    """As a spec has it."""
    return layer.name if isinstance(layer, Layer) else type(layer).__name__


def _shown(training):
    return "training" if training else "evaluation"


def _closure(recorded, value):
    """Numbers of the calls that make a free value, ascending."""
    found, left = set(), [value.call]
    while left:
        number = left.pop()
        if number not in found:
            found.add(number)
            left += [leaf.call for leaf in _values(recorded.calls[number].leaves) if leaf.call is not None]
    return sorted(found)


def traced(model, x, keywords, settings):
    """[Layer] of a model as it goes through model(x, **keywords, **settings), x a microbatch. settings: what is always given so."""
    recorded = recording.record(model, x, keywords, settings)
    count = recorded.layers
    own = [[] for _ in range(count)]  # numbers of calls
    made = {value: 0 for value in recorded.kinds if value.keyword is None}  # {Value: the layer that makes it}
    used = {}  # {Value: the last layer that uses it}
    for number, call in enumerate(recorded.calls):
        if not call.free:
            own[call.layer].append(number)
            outputs = 1 if call.gives is None else call.gives.num_leaves
            made.update((Value(number, leaf), call.layer) for leaf in range(-len(call.sides), outputs))
            used.update((value, call.layer) for value in _values(call.leaves))
    used.update((value, count - 1) for value in _values(recorded.output[0]))
    cuts = [[value for value in made if made[value] <= layer < used.get(value, -1)] for layer in range(count - 1)]
    for layer, cut in enumerate(cuts):
        if not cut:
            raise SpecError(f"nothing goes from layer {layer} of the {type(model).__name__} to the next one: {recording.WAY_OUT}")
    free = _Free(recorded.calls)
    takes, gives = [None, *cuts], [*cuts, None]
    return [Layer(model, recorded, layer, own[layer], free, takes[layer], gives[layer]) for layer in range(count)]
