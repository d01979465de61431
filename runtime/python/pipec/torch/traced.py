"""Layers of a model that is no Sequential: each plays back its part of a recording of the model's forward."""
from operator import attrgetter

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..errors import SpecError
from . import recording, sizes
from .recording import Attribute, Stand, Value
from .sizes import Compound, Size, sizes_of

_RECORD = "record it with microbatches as the run's are (pipec.torch.layers(model, example=…))"
_VARY = 'where their sizes vary, with the shortest and the longest one (example=[…, …], shapes="vary")'


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
        """Adds `wanted`: {Value: (keywords and sizes that it is made of, numbers of the calls that make it)}."""
        for value, (made_of, numbers) in wanted.items():
            of = (device, *(leaf_of(each) for each in made_of))
            known, made = self._made.get(value, ((), None))
            if len(known) != len(of) or any(a is not b if isinstance(b, torch.Tensor) else a != b for a, b in zip(known, of)):
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
        self._number = number
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
                inner = [leaf for number in numbers for leaf in recorded.calls[number].leaves]
                of = [each for each in _values(inner) if each.keyword is not None] + [size for leaf in inner for size in sizes_of(leaf)]
                self._wanted[value] = list(dict.fromkeys(of)), numbers
        self._given = {}  # {keyword: {Value: (dtype, shape)}}
        for value in dict.fromkeys([*_values(leaves), *(each for of, _ in self._wanted.values() for each in _values(of))]):
            if value.keyword is not None:
                self._given.setdefault(value.keyword, {})[value] = recorded.kinds[value]
                self._trees[value.keyword] = recorded.keywords[value.keyword]
        self._kinds, self._changes = recorded.kinds, any(type(size) is Size for _, shape in recorded.kinds.values() for size in shape)
        self.keywords = dict.fromkeys(self._trees, True)
        self.name = next((call.what for _, call in self._calls if call.is_module), f"part {number}")
        self._ends = self._last_uses()
        self._varies = self._find_sizes(recorded)

    def likeness(self):
        """What two parts have in common that do the same with other weights."""
        def of(call):
            name = without_numbers(call.what) if call.is_module else call.what
            return name, [leaf if not isinstance(leaf, (Value, Attribute)) else type(leaf) for leaf in call.leaves], call.structure
        return [of(call) for _, call in self._calls], len(self._takes or ()), len(self._gives or ()), len(self._wanted)

    def _find_sizes(self, recorded):
        """{number of a call: {Value: kind}} of those of its calls at which a layer learns sizes. Refuses a number that is no size of a
        tensor that the layer has by then."""
        def of(kinds):
            return {size for _, shape in kinds for size in shape if type(size) is Size}

        comes = self._takes if self._input is None else _values(self._input[0])
        known, found = of([*map(recorded.kinds.get, comes), *(kind for kinds in self._given.values() for kind in kinds.values())]), {}
        inner = [number for _, numbers in self._wanted.values() for number in numbers]
        parts = [(-1, recorded.calls[number].what, leaf) for number in inner for leaf in recorded.calls[number].leaves]
        parts += [(number, call.what, leaf) for number, call in self._calls for leaf in call.leaves]
        parts += [(len(recorded.calls), "output", leaf) for leaf in self._output[0]]
        own = {number for number, _ in self._calls}
        for end, what, size in ((end, what, size) for end, what, leaf in parts for size in sizes_of(leaf)):
            if size in known:
                continue
            at = next((value for value, (_, shape) in recorded.kinds.items() if value.call in own and value.call < end and size in shape), None)
            if at is None:
                raise SpecError(f"layer {self._number} of the {self._of} ({self.name}) cannot be played back for sizes that vary: "
                                f"{recording.shown(what)} is given the number {size} of the examples, and no tensor that the layer has by "
                                f"then is of that size; {recording.WAY_OUT}")
            found.setdefault(at.call, {})[at] = recorded.kinds[at]
            known |= of([recorded.kinds[at]])
        return found

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
        numbers = {}  # {Size: what it is in this microbatch}
        values = self._come_in(x, numbers)
        self._hear(values, keywords, numbers)
        device = next((each.device for each in values.values()), None)

        def leaf_of(leaf):
            kind = type(leaf)
            if kind is Value:
                return values[leaf]
            if kind is Attribute:
                return attrgetter(leaf.name)(self)
            if kind is Stand:
                return self.training if leaf is Stand.MODE else device
            if kind is Size:
                return numbers[leaf]
            return leaf.made(numbers) if kind is Compound else leaf

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
            for value, kind in self._varies.get(number, {}).items():
                self._check(f"what {recording.shown(call.what)} gives", kind, values[value], numbers)
            for each in ends:
                del values[each]
        if self._gives is None:
            return pytree.tree_unflatten([leaf_of(leaf) for leaf in self._output[0]], self._output[1])
        found = tuple(values[value] for value in self._gives)
        return found[0] if len(found) == 1 else found

    def _come_in(self, x, numbers):
        """{Value: tensor} of what the part before gives, or of the model's input."""
        if self._input is None:
            values = dict(zip(self._takes, (x,) if len(self._takes) == 1 else x, strict=True))
            if self._changes:
                for at, (value, leaf) in enumerate(values.items()):
                    self._check(f"part {at} of what layer {self._number} ({self.name}) takes", self._kinds[value], leaf, numbers)
            return values
        values = {}
        leaves, structure = pytree.tree_flatten(x)
        if structure != self._input[1]:
            raise SpecError(f"the input is {structure}, and was {self._input[1]} when the {self._of} was recorded: {_RECORD}")
        for noted, leaf in zip(self._input[0], leaves):
            if isinstance(noted, Value):
                self._check("the input", self._kinds[noted], leaf, numbers)
                values[noted] = leaf
            elif noted != leaf:
                raise SpecError(f"the input has {leaf!r} where the {self._of} was recorded with {noted!r}: {_RECORD}")
        return values

    def _hear(self, values, keywords, numbers):
        """Adds the keywords."""
        for name, (noted, structure) in self._trees.items():
            leaves, now = pytree.tree_flatten(keywords[name])
            if now != structure or any(leaf != each for leaf, each in zip(leaves, noted) if not isinstance(each, Value)):
                shown = pytree.tree_unflatten(["a tensor" if isinstance(each, Value) else each for each in noted], structure)
                raise SpecError(f"{name} is {keywords[name]!r}, and was {shown!r} when the {self._of} was recorded: {_RECORD}")
            for value, kind in self._given.get(name, {}).items():
                self._check(f"the keyword {name}", kind, leaves[value.leaf], numbers)
                values[value] = leaves[value.leaf]

    def _check(self, what, kind, leaf, numbers):
        """Refuses a tensor of another kind; notes sizes that vary."""
        dtype, shape = kind
        if leaf.dtype == dtype and (leaf.shape == shape or self._changes and sizes.hear(leaf.shape, shape, numbers) is None):
            return
        why = sizes.hear(leaf.shape, shape, numbers) or ""
        raise SpecError(f"{what} of a microbatch is {tuple(leaf.shape)} of {leaf.dtype}, and was {sizes.shown(shape)} of {dtype} when the "
                        f"{self._of} was recorded{why}: {_RECORD}, {_VARY}")


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


def traced(model, examples, settings):
    """[Layer] of a model as it goes through model(x, **keywords, **settings). examples: [(x, keywords)], a microbatch each; several are of
    sizes that vary. settings: what is always given so."""
    recordings = [recording.record(model, x, keywords, settings) for x, keywords in examples]
    recorded = sizes.merged(model, recordings) if len(recordings) > 1 else recordings[0]
    count = recorded.layers
    own = [[] for _ in range(count)]  # numbers of calls
    made = {value: 0 for value in recorded.kinds if value.call is None and value.keyword is None}  # {Value: the layer that makes it}
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
