"""Boundaries whose sizes vary from microbatch to microbatch: in a slot, the sizes of the tensors come before the tensors."""
import torch

from .trees import Layout, Tree

SHAPES = ("same", "vary")  # of a Run
_LAYOUTS = 256  # remembered of a boundary
_NUMBER = torch.int64.itemsize
_ALIGNMENT = 64


def header_of(value):
    """Bytes in front of a Tree, or of a tensor, in a slot."""
    return Pattern(Layout.of(value)).header


class Pattern:
    """What all microbatches of a boundary have alike. layout: of one of them. header: bytes before the tensors of a slot; the
    sizes stand there as integers of 64 bits, tensor by tensor and dimension by dimension."""

    def __init__(self, layout):
        self.layout = layout
        self._numbers = sum(len(shape) for _, shape in layout.kinds)
        self.header = -(-self._numbers * _NUMBER // _ALIGNMENT) * _ALIGNMENT
        self._layouts = {}

    def parted(self, memory):
        """(the numbers, the memory of the tensors) of a slot."""
        return memory[:self._numbers * _NUMBER].view(torch.int64), memory[self.header:]

    def of(self, value):
        """A microbatch's Layout; None where more than sizes differs."""
        own, of_tree = self.layout, type(value) is Tree
        if of_tree != own.is_tree or of_tree and (own.needs != value.needs or own.structure != value.structure):
            return None
        tensors = value.tensors if of_tree else (value,)
        if any(each.dtype is not dtype or each.dim() != len(shape) for each, (dtype, shape) in zip(tensors, own.kinds)):
            return None
        return self.layout_of(tuple([size for each in tensors for size in each.shape]))

    def layout_of(self, sizes):
        """That of a tuple of sizes, always the same one while it is remembered."""
        found = self._layouts.get(sizes)
        if found is None:
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            kinds, at = [], 0
            for dtype, shape in self.layout.kinds:
                kinds.append((dtype, torch.Size(sizes[at:at + len(shape)])))
                at += len(shape)
            found = self._layouts[sizes] = Layout(self.layout.structure, self.layout.needs, kinds)
            found.sizes = torch.tensor(sizes, dtype=torch.int64)
        return found
