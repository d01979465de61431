"""Boxes for the tensors that autograd saves in F: when B ends, what W never reads is taken out, although the graph,
which W needs, still holds the boxes."""
import functools
import weakref

import torch
from torch.autograd.graph import saved_tensors_hooks


class Box:
    __slots__ = ("tensor", "version", "number", "opened", "__weakref__")

    def __init__(self, tensor, number, opened):
        self.tensor, self.version, self.number, self.opened = tensor, tensor._version, number, opened


def open_box(box):
    box.opened.add(box.number)
    if box.tensor is None:
        raise RuntimeError("W reads a saved tensor that it did not read in the first microbatch of this graph")
    # PyTorch checks that only of tensors that have no hooks.
    if box.tensor._version != box.version:
        raise RuntimeError("a tensor that backward needs has been changed in place after it was saved")
    return box.tensor


class Boxes:
    """The boxes of one F, numbered in the order in which they were filled: with boxes.filling(): …"""

    __slots__ = ("boxes", "opened")

    def __init__(self):
        self.boxes = []  # weak: a backward frees them one by one, as it goes
        self.opened = set()  # numbers of those that have been read

    def __len__(self):
        return len(self.boxes)

    def filling(self):
        boxes, opened = self.boxes, self.opened

        def fill(tensor):
            box = Box(tensor, len(boxes), opened)
            boxes.append(weakref.ref(box))
            return box

        return saved_tensors_hooks(fill, open_box)

    def empty(self, kept):
        """Takes out what is in the boxes with other numbers."""
        for number, each in enumerate(self.boxes):
            if number not in kept and (box := each()) is not None:
                box.tensor = None


def nothing_saved():
    """Hooks for an F whose graph is dropped: it takes the same way through the module, and saves nothing."""
    return saved_tensors_hooks(lambda tensor: None, _refuse)


def _refuse(_):
    raise RuntimeError("a module whose F is computed again by R can run no backward in it: no tensors are saved")


@functools.cache
def _names(kind):
    return [name for name in dir(kind) if name.startswith("_raw_saved_")]


def _saved(node):
    """What a node has saved, as it is packed, and the hook that unpacks it."""
    for name in _names(type(node)):
        saved = getattr(node, name)
        for each in saved if isinstance(saved, (tuple, list)) else (saved,):
            yield getattr(each, "data", None), getattr(each, "unpack_hook", None)


def saved_tensors(node):
    """What a node has saved, in boxes or not; what others' hooks have packed is theirs."""
    found = (packed.tensor if isinstance(packed, Box) else packed for packed, _ in _saved(node))
    return [each for each in found if isinstance(each, torch.Tensor)]


def has_foreign_boxes(node):
    """Whether a node's tensors went through others' hooks, those of torch.utils.checkpoint for one."""
    return any(hook not in (None, open_box) for _, hook in _saved(node))
