"""Boxes for the tensors that autograd saves in F: when B ends, what W never reads is taken out, although the graph,
which W needs, still holds the boxes."""
import functools

import torch
from torch.autograd.graph import saved_tensors_hooks

from .older import TELLS_HOOKS, is_custom

_NOTHING = torch.empty(0)


class Box:
    __slots__ = ("tensor", "version")

    def __init__(self, tensor):
        # A node's own output leads back to the node, which would hold the box and so itself.
        self.tensor, self.version = tensor if tensor.is_leaf else tensor.detach(), tensor._version


_seen = None  # where an older PyTorch looks into boxes, those that it has opened


def open_box(box):
    if _seen is not None:
        _seen.append(box)
        return _NOTHING if box.tensor is None else box.tensor
    # PyTorch checks that only of tensors that have no hooks.
    if box.tensor._version != box.version:
        raise RuntimeError("a tensor that backward needs has been changed in place after it was saved")
    return box.tensor


def in_boxes():
    """with in_boxes(): what is saved meanwhile goes into boxes."""
    return saved_tensors_hooks(Box, open_box)


def nothing_saved():
    """Hooks for an F whose graph is dropped: it takes the same way through the module, and saves nothing."""
    return saved_tensors_hooks(lambda tensor: None, _refuse)


def _refuse(_):
    raise RuntimeError("a module whose F is computed again by R can run no backward in it: no tensors are saved")


@functools.cache
def _names(kind):
    return [name for name in dir(kind) if name.startswith("_raw_saved_")]


def _looked_at(node):
    """As _saved, where a saved tensor does not tell its hooks: all of them are ours."""
    global _seen
    for name in _names(type(node)):
        name, _seen = "saved_tensors" if name == "_raw_saved_tensors" and is_custom(node) else name[len("_raw"):], []
        try:
            saved = getattr(node, name)
        except RuntimeError:  # it has been freed
            saved = ()
        finally:
            boxes, _seen = _seen, None
        saved = saved if isinstance(saved, (tuple, list)) else (saved,)
        yield from ((each, open_box if boxes else None) for each in boxes or saved)


def _saved(node):
    """What a node has saved, as it is packed, and the hook that unpacks it."""
    if not TELLS_HOOKS:
        yield from _looked_at(node)
        return
    for name in _names(type(node)):
        saved = getattr(node, name)
        for each in saved if isinstance(saved, (tuple, list)) else (saved,):
            yield getattr(each, "data", None), getattr(each, "unpack_hook", None)


def saved_tensors(node):
    """What a node has saved, in boxes or not; what others' hooks have packed is theirs."""
    found = (packed.tensor if isinstance(packed, Box) else packed for packed, _ in _saved(node))
    return [each for each in found if isinstance(each, torch.Tensor)]


def empty_boxes(node):
    """Takes out what a node has saved; it will not run again."""
    for packed, _ in _saved(node):
        if isinstance(packed, Box):
            packed.tensor = None


def has_foreign_boxes(node):
    """Whether a node's tensors went through others' hooks, those of torch.utils.checkpoint for one."""
    return any(hook not in (None, open_box) for _, hook in _saved(node))
