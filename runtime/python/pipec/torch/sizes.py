"""Numbers of a recording that are sizes of tensors. A model whose microbatches have several sizes is recorded on an example of each: what
differs between the recordings has to be a size that a layer finds, when it is played back, at the tensors that it is given."""
import dataclasses

import torch

from ..errors import SpecError
from .recording import WAY_OUT, Recording
from .recording import shown as named


@dataclasses.dataclass(frozen=True)
class Size:
    """Stands for a size of tensors. of: what it was in each example."""
    of: tuple

    def __str__(self):
        return " or ".join(map(str, self.of))


@dataclasses.dataclass(frozen=True)
class Compound:
    """A slice or torch.Size in which sizes are."""
    kind: type
    parts: tuple

    def made(self, numbers):
        """numbers: {Size: number}."""
        parts = [numbers[each] if type(each) is Size else each for each in self.parts]
        return self.kind(parts) if self.kind is torch.Size else self.kind(*parts)


class _Differs(Exception):
    """Examples differ otherwise than by sizes."""


def sizes_of(leaf):
    """Those that a leaf of a call's arguments stands for."""
    if type(leaf) is Compound:
        return [each for each in leaf.parts if type(each) is Size]
    return [leaf] if type(leaf) is Size else []


def _one(leaves):
    """What stands for a leaf that examples may have differently."""
    first, kind = leaves[0], type(leaves[0])
    if all(type(each) is kind and each == first for each in leaves):
        return first
    if all(type(each) is kind for each in leaves):
        if kind is int:
            return Size(leaves)
        if kind is slice:
            return Compound(slice, tuple(_one(each) for each in zip(*((s.start, s.stop, s.step) for s in leaves))))
        if kind is torch.Size and len({*map(len, leaves)}) == 1:
            return Compound(torch.Size, tuple(map(_one, zip(*leaves))))
    raise _Differs(" and ".join(dict.fromkeys(map(repr, leaves))))


def _all(rows):
    """_one of each leaf. rows: the leaves of each example."""
    if len({*map(len, rows)}) > 1:
        raise _Differs("another number of tensors")
    return [_one(each) for each in zip(*rows)]


def _tree(trees, what):
    """One tree, (leaves, structure), of those of the examples."""
    try:
        if any(structure != trees[0][1] for _, structure in trees):
            raise _Differs("another structure")
        return _all([leaves for leaves, _ in trees]), trees[0][1]
    except _Differs as error:
        raise _Differs(f"{what} has {error}") from None


def _call(calls):
    first = calls[0]
    alike = ("what", "structure", "gives", "grad", "layer", "free", "sides")
    if any(getattr(each, name) != getattr(first, name) for each in calls for name in alike):
        raise _Differs(f"it calls {' and '.join(dict.fromkeys(named(each.what) for each in calls))} with other arguments")
    try:
        return dataclasses.replace(first, leaves=_all([each.leaves for each in calls]))
    except _Differs as error:
        raise _Differs(f"{named(first.what)} is given {error}") from None


def merged(model, recordings):
    """The one Recording of those of a model on examples of several sizes. Shapes in its kinds are tuples in which Size may be."""
    first = recordings[0]
    shown = " and ".join(dict.fromkeys(str(_shapes(each)) for each in recordings))
    try:
        if any(each.training != first.training for each in recordings):
            raise _Differs("it depends on the mode of only some")
        if len({len(each.calls) for each in recordings}) > 1:
            raise _Differs("it makes another number of calls")
        calls = [_call(each) for each in zip(*(each.calls for each in recordings))]
        kinds = {}
        for value, (dtype, shape) in first.kinds.items():
            all_of = [each.kinds[value] for each in recordings]
            if any(each != dtype or len(sizes) != len(shape) for each, sizes in all_of):
                raise _Differs("types or dimensions of tensors differ")
            kinds[value] = dtype, tuple(_one(each) for each in zip(*(sizes for _, sizes in all_of)))
        return Recording(
            calls, _tree([each.input for each in recordings], "the input"), _tree([each.output for each in recordings], "the output"),
            {name: _tree([each.keywords[name] for each in recordings], f"the keyword {name}") for name in first.keywords},
            kinds, {name: tensor for each in recordings for name, tensor in each.tensors.items()}, first.saved, first.training)
    except _Differs as error:
        raise SpecError(f"the forward of {type(model).__name__} cannot be recorded for sizes that vary: on the examples, {shown}, {error}, and "
                        f"sizes of tensors alone may differ; {WAY_OUT}") from None


def _shapes(recording):
    return [tuple(shape) for value, (_, shape) in recording.kinds.items() if value.call is None]


def hear(shape, kind, numbers):
    """Notes in `numbers`, {Size: number}, the sizes of a tensor that comes. kind: its shape in the recording. Gives why it cannot be; None:
    it can."""
    if len(shape) != len(kind):
        return ""
    for now, known in zip(shape, kind):
        if type(known) is not Size:
            if now != known:
                return ""
        elif not min(known.of) <= now <= max(known.of):
            return f"; {now} is not between the examples' {min(known.of)} and {max(known.of)}"
        elif numbers.setdefault(known, now) != now:
            return f"; {now} was in all examples the same size ({known}) as what is {numbers[known]} in this microbatch"
    return None


def shown(kind):
    """A shape of a recording."""
    return str(tuple(kind)) if not any(type(each) is Size for each in kind) else f"({', '.join(map(str, kind))})"
