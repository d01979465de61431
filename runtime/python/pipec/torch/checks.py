"""What a run compares: R's output with F's, and the batches of the two ends of the pipeline. By checksums, in the first steps
and in those after each swap."""
import torch
from torch.utils._pytree import tree_leaves

from ..errors import SpecError
from .trees import Tree

KINDS = ("always", "first", "never")
_STEPS = 2  # from the beginning, and from each swap
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_CONTAINERS = ("_parameters", "_buffers", "_modules")


class Checks:
    """Whether a step is compared. kind: "always", "first" or "never"."""

    def __init__(self, kind="never"):
        if kind not in KINDS:
            raise SpecError(f"check is {kind!r}: expected {', '.join(map(repr, KINDS))}")
        self.kind, self.on = kind, kind == "always"
        self._epoch, self._left = None, 0

    def begin(self, epoch):
        """A step begins. epoch: the number of swaps before it."""
        if self.kind == "first":
            if epoch != self._epoch:
                self._epoch, self._left = epoch, _STEPS
            self.on = self._left > 0
            self._left -= self.on


def checksum(tensor):
    """Of a tensor's bits and of the order of its rows: an int64 scalar on the tensor's device; of a Tree, those of its tensors."""
    if type(tensor) is Tree:
        return torch.stack([checksum(each) for each in tensor.tensors])
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dim() == 0:
        tensor = tensor.reshape(1)
    bits = tensor.contiguous().view(_BITS[tensor.element_size()])
    rows = (bits.sum(-1, dtype=torch.int64) if bits.dim() > 1 else bits.long()).flatten()
    return (rows * torch.arange(1, rows.numel() + 1, device=rows.device)).sum()


def checksum_of_batch(value):
    """Of a tensor, or a tuple or dict of tensors; an int. None: of nothing."""
    tensors = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return hash(tuple((checksum(each).item(), *each.shape) for each in tensors)) if tensors else None


def different_batches(step, first, last):
    """Compares what two ranks were given. first, last: (name of the rank, {what: its checksum or number, None where the rank has
    none}). Raises SpecError."""
    for what, own in last[1].items():
        other = first[1].get(what)
        if own is None or other is None or own == other:
            continue
        numbers = f" ({other} and {own})" if what == "batch_id" else ""
        raise SpecError(f"{what} of step {step} differs between {first[0]} and {last[0]}{numbers}: the output of one batch would be "
                        "held against the target of another. Draw the same batches on all ranks of a pipeline (loaders of one seed; "
                        "a DistributedSampler's num_replicas is plan.degree, its rank the replica), or pass x on the first stage's "
                        "rank alone and target on the last one's")


def state_outside(module):
    """Where a module keeps tensors that are neither parameters nor buffers: a text, or None."""
    for name, each in module.named_modules():
        for attribute, value in vars(each).items():
            if attribute not in _CONTAINERS and any(isinstance(leaf, torch.Tensor) and not isinstance(leaf, torch.nn.Parameter)
                                                    for leaf in tree_leaves(value)):
                return f"{f'{name} ' if name else ''}({type(each).__name__}) keeps a tensor in its attribute {attribute!r}"
    return None
