"""What a stage hands on: one tensor, or a tree of tensors, whose parts lie one after the other in the plan's slot."""
import dataclasses
import functools
import json
import sys

import torch
from torch.utils import _pytree as pytree

from ..errors import SpecError

_ALIGNMENT = 64  # bytes: each part begins at a multiple


class NoTree(Exception):
    """A leaf is no tensor. path: where; value: what it is."""

    def __init__(self, value):
        super().__init__(value)
        self.value, self.path = value, ""


class Tree:
    """The tensors of a tree, each once. structure: None, the number of a tensor, or (type, context, structures of the children).
    needs: of each tensor, whether it needs a gradient."""

    __slots__ = ("structure", "tensors", "needs")

    def __init__(self, structure, tensors, needs):
        self.structure, self.tensors, self.needs = structure, tensors, needs

    def clone(self):
        return Tree(self.structure, [each.clone() for each in self.tensors], self.needs)


def _opened(value):
    """(context, children) of a node; None of a leaf. The context is what a type keeps beside the children: a dict's keys."""
    kind = type(value)
    if kind is tuple or kind is list:
        return None, value
    if kind is dict:
        return list(value), value.values()
    node = pytree.SUPPORTED_NODES.get(kind)
    if node is not None:
        children, context = node.flatten_fn(value)
        return context, children
    if _is_named_tuple(kind):
        return None, value
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.init]
        return names, [getattr(value, name) for name in names]
    return None


def _closed(kind, context, children):
    """The inverse of _opened."""
    if kind is tuple:
        return tuple(children)
    if kind is list:
        return children
    if kind is dict:
        return dict(zip(context, children))
    node = pytree.SUPPORTED_NODES.get(kind)
    if node is not None:
        return node.unflatten_fn(children, context)
    return kind(*children) if _is_named_tuple(kind) else kind(**dict(zip(context, children)))


def _is_named_tuple(kind):
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


@functools.cache
def _flat(count):
    """The structure of a tuple of so many tensors."""
    return tuple, None, tuple(range(count))


def flatten(value):
    """(structure, tensors) of a tree, as a Tree has them. Raises NoTree."""
    if type(value) is tuple and len({id(each) for each in value if isinstance(each, torch.Tensor)}) == len(value):
        return _flat(len(value)), [*value]  # the same as below, in a third of its time
    tensors, numbers = [], {}

    def opened(value):
        if isinstance(value, torch.Tensor):
            number = numbers.setdefault(id(value), len(tensors))
            if number == len(tensors):
                tensors.append(value)
            return number
        if value is None:
            return None
        found = _opened(value)
        if found is None:
            raise NoTree(value)
        context, children = found
        structures = []
        for at, child in enumerate(children):
            try:
                structures.append(opened(child))
            except NoTree as error:
                error.path = _step(type(value), context, at) + error.path
                raise
        return type(value), context, tuple(structures)

    return opened(value), tensors


def unflatten(structure, tensors):
    if structure == _flat(len(tensors)):
        return tuple(tensors)  # as below
    if structure is None:
        return None
    if type(structure) is int:
        return tensors[structure]
    kind, context, children = structure
    return _closed(kind, context, [unflatten(child, tensors) for child in children])


def tensors_of(value):
    """Those of a value that goes through a stage: of a tensor, a tree, a list of gradients or what stands in their place."""
    values = value.tensors if type(value) is Tree else value if type(value) is list else (value,)
    return [each for each in values if isinstance(each, torch.Tensor)]


def zero_of(value):
    """A zero that depends on all numbers of a tree."""
    return sum((each * 0).sum() for each in flatten(value)[1] if each.is_floating_point() or each.is_complex())


def _step(kind, context, at):
    """From a node to a child: a path's element."""
    if _is_named_tuple(kind):
        return f".{kind._fields[at]}"
    if not isinstance(context, (list, tuple)) or at >= len(context):
        return f"[{at}]"
    return f".{context[at]}" if dataclasses.is_dataclass(kind) and not issubclass(kind, dict) else f"[{context[at]!r}]"


def _paths(structure, path=""):
    """(path, number) of each part; the number of None is None."""
    if structure is None or type(structure) is int:
        yield path, structure
        return
    kind, context, children = structure
    for at, child in enumerate(children):
        yield from _paths(child, path + _step(kind, context, at))


def _shown(structure):
    """A structure, for a message."""
    if structure is None:
        return "None"
    if type(structure) is int:
        return "tensor"
    kind, context, children = structure
    shown = [_shown(child) for child in children]
    if kind is tuple or kind is list:
        text = ", ".join(shown) + ("," if kind is tuple and len(shown) == 1 else "")
        return f"({text})" if kind is tuple else f"[{text}]"
    steps = [_step(kind, context, at) for at in range(len(children))]
    return f"{kind.__name__}({', '.join(f'{step}: {each}' for step, each in zip(steps, shown))})"


def size_of(kinds):
    """(where each part begins, bytes of all with what lies between them). kinds: [(dtype, shape)]."""
    begins, end = [], 0
    for dtype, shape in kinds:
        begin = -(-end // _ALIGNMENT) * _ALIGNMENT
        begins.append(begin)
        end = begin + torch.Size(shape).numel() * dtype.itemsize
    return begins, end


def bytes_of(value):
    """Of a tensor, or of a Tree in its slot."""
    return Layout.of(value).bytes if type(value) is Tree else value.numel() * value.element_size()


def gradient_bytes_of(value, need):
    """Of the gradients of a Tree in their slot, or of that of a tensor. need: whether a tensor needs one."""
    return Layout.of(value).gradient_bytes if type(value) is Tree else bytes_of(value) if need else 0


class Layout:
    """What a rank knows of a boundary before a microbatch comes: structure, which tensors need a gradient, and of each tensor its
    dtype and shape. A tensor that is no tree has the structure 0."""

    def __init__(self, structure, needs, kinds):
        self.structure, self.needs, self.kinds = structure, needs, kinds
        self.begins, self.bytes = size_of(kinds)
        self.gradients = [kind for kind, need in zip(kinds, needs) if need]
        self.gradient_begins, self.gradient_bytes = size_of(self.gradients)

    @staticmethod
    def of(value):
        """Of a Tree or a tensor."""
        if type(value) is Tree:
            return Layout(value.structure, value.needs, _kinds(value))
        return Layout(0, (value.is_floating_point() or value.is_complex(),), [(value.dtype, value.shape)])

    @property
    def is_tree(self):
        return type(self.structure) is not int

    def fits(self, tree):
        return self.needs == tree.needs and self.kinds == _kinds(tree) and self.structure == tree.structure

    def difference(self, other, *, sizes=True):
        """How another layout is not this one, as texts (of that one, of this one); None: it is the same. sizes: whether those
        count; the number of dimensions always does."""
        if self.structure != other.structure:
            return str(other), str(self)
        paths = {number: path for path, number in _paths(self.structure) if number is not None}
        for number, (now, before) in enumerate(zip(other.kinds, self.kinds)):
            if now != before and (sizes or now[0] != before[0] or len(now[1]) != len(before[1])):
                part = f"part {paths[number]} as " if self.is_tree else ""
                return f"{part}{_of_kind(*now)}", _of_kind(*before)
            if other.needs[number] != self.needs[number]:
                says = {True: "one that needs a gradient", False: "one that needs no gradient"}
                return f"part {paths[number]} as {says[other.needs[number]]}", says[self.needs[number]]
        return None

    def __str__(self):
        return f"the tree {_shown(self.structure)}" if self.is_tree else _of_kind(*self.kinds[0])

    def parts(self, gradients=False):
        """Each part, or each that needs a gradient, with its shape, dtype and bytes: a text."""
        if not self.is_tree:
            return _of_kind(*self.kinds[0])
        paths = {number: path for path, number in _paths(self.structure) if number is not None}
        parts = [f"{paths[n]} {_of_kind(dtype, shape)} ({torch.Size(shape).numel() * dtype.itemsize} bytes)"
                 for n, (dtype, shape) in enumerate(self.kinds) if self.needs[n] or not gradients]
        return f"{', '.join(parts)}, each at a multiple of {_ALIGNMENT}"

    def told(self):
        """As JSON's values. Raises SpecError where a text cannot say what the tree is."""
        def told(structure):
            if structure is None or type(structure) is int:
                return structure
            kind, context, children = structure
            try:
                same = json.loads(json.dumps(context)) == context
            except (TypeError, ValueError):
                same = False
            if not same:
                raise SpecError(f"a {kind.__name__} with {context!r} cannot go to another rank: let keys be texts or integers")
            name = f"{kind.__module__}:{kind.__qualname__}"
            if _type(name) is not kind:
                raise _not_found(name)
            return [name, context, [told(child) for child in children]]

        return {"tree": told(self.structure), "needs": list(self.needs),
                "parts": [[str(dtype).removeprefix("torch."), list(shape)] for dtype, shape in self.kinds]}

    @staticmethod
    def heard(said):
        """The inverse of told(). Raises SpecError."""
        def heard(structure):
            if structure is None or type(structure) is int:
                return structure
            name, context, children = structure
            return _type(name), context, tuple(map(heard, children))

        return Layout(heard(said["tree"]), tuple(said["needs"]),
                      [(getattr(torch, dtype), torch.Size(shape)) for dtype, shape in said["parts"]])


def _of_kind(dtype, shape):
    return f"{tuple(shape)} of {dtype}"


def _kinds(tree):
    return [(each.dtype, each.shape) for each in tree.tensors]


def _type(name):
    """A node's type, by its module and name: one that this process has and that a tree may have."""
    module, path = name.split(":")
    found = sys.modules.get(module)
    for each in path.split("."):
        found = getattr(found, each, None)
    if not isinstance(found, type) or not (found in (tuple, list, dict) or found in pytree.SUPPORTED_NODES
                                           or _is_named_tuple(found) or dataclasses.is_dataclass(found)):
        raise _not_found(name)
    return found


def _not_found(name):
    module, path = name.split(":")
    return SpecError(f"a tree has a {path} of {module} in it, which is not found by that name: define it at the top of a module that all "
                     "ranks import")


class TreeSlot:
    """A slot of the runtime's with a tree in it."""

    shape = dtype = None  # no tensor's

    def __init__(self, layout, memory):
        self.layout = layout
        self._parts = _views(layout.kinds, layout.begins, memory)

    def copy_(self, tree):
        torch._foreach_copy_(self._parts, tree.tensors)

    def clone(self):
        return Tree(self.layout.structure, [each.clone() for each in self._parts], self.layout.needs)


class GradientSlot:
    """A slot of the runtime's with the gradients of those parts of a tree that need one."""

    def __init__(self, layout, memory):
        self._parts = _views(layout.gradients, layout.gradient_begins, memory)

    def clone(self):
        """[gradient of each part that needs one]."""
        return [each.clone() for each in self._parts]

    def copy_(self, gradients):
        """None: there are none; None in place of a gradient: zero."""
        if gradients and not any(each is None for each in gradients):
            torch._foreach_copy_(self._parts, gradients)
            return
        for slot, each in zip(self._parts, gradients or [None] * len(self._parts)):
            slot.zero_() if each is None else slot.copy_(each)


def _views(kinds, begins, memory):
    return [memory[begin:begin + torch.Size(shape).numel() * dtype.itemsize].view(dtype).view(shape)
            for (dtype, shape), begin in zip(kinds, begins)]
