"""What stages hand on to other ranks' stages: of what type and shape, and tensors over the runtime's slots."""
import json

import torch

from ..errors import SpecError
from .trees import Layout, Tree, TreeSlot

SIZES = "batches of a run have one size: leave a loader's last batch out where it is smaller (drop_last=True), or pad it"


def _shown(kind):
    return f"{tuple(kind[1])} of {kind[0]}" if type(kind) is tuple else str(kind)


class _Slots(dict):
    """Tensors over the runtime's slots, which stay where they are: by address and by the stage whose output, or whose
    output's gradient, goes through."""

    def __init__(self, device):
        super().__init__()
        self._device = device

    def add(self, address, stage, size, kind):
        """kind: (dtype, shape), or a tree's Layout."""
        memory = self._device.slot(address, size)
        if type(kind) is Layout:
            found = TreeSlot(kind, memory)
        else:
            dtype, shape = kind
            found = memory[:shape.numel() * dtype.itemsize].view(dtype).view(shape)
        self[address, stage] = found
        return found


class Boundaries:
    """Of a rank's stages. Their sizes are those of microbatches, of which a step has `microbatches`."""

    def __init__(self, model, session):
        self._model, self._plan, self._session = model, model.plan, session
        self._of = {}  # by how many microbatches a step has: slots, and shapes by stage
        self._microbatches, self._slots, self._shapes = 0, {}, {}
        self.rows = 0, 0  # of x in the first step, and in this one

    def begin(self, microbatches):
        self._microbatches = microbatches
        self._slots, self._shapes = self._of.setdefault(microbatches, (_Slots(self._model.device), {}))

    def slot(self, address, size, stage):
        """Of what goes from a stage to the next, or of its gradient."""
        found = self._slots.get((address, stage))
        return self._slots.add(address, stage, size, self._shape(stage)) if found is None else found

    def send(self, what, stage, output):
        slot = self._slots.get((what.output, stage))
        if type(output) is Tree:
            fits = type(slot) is TreeSlot and slot.layout.fits(output)
        else:
            fits = slot is not None and slot.shape == output.shape and slot.dtype is output.dtype
        if not fits:
            self._tell_shape(stage, output, what.output_bytes)
            slot = self.slot(what.output, what.output_bytes, stage)
        slot.copy_(output)

    def _shape(self, stage):
        """Of what a stage hands on to another rank, as that rank's host said."""
        found = self._shapes.get(stage)
        if found is None:
            said = json.loads(self._session.get(f"boundary/{stage}/{self._microbatches}"))
            try:
                found = Layout.heard(said) if "tree" in said else (getattr(torch, said["dtype"]), torch.Size(said["shape"]))
            except SpecError as error:
                raise SpecError(f"stage {stage} hands on to rank {self._model.rank}: {error}", self._plan.name) from None
            self._shapes[stage] = found
        return found

    def _tell_shape(self, stage, output, planned):
        """To the next stage's rank, once, of what kind a boundary is. Refuses one that is too large, or was another before."""
        of_tree = type(output) is Tree
        kind = Layout.of(output) if of_tree else (output.dtype, output.shape)
        size = kind.bytes if of_tree else output.numel() * output.element_size()
        if size != planned and self.rows[0] != self.rows[1]:
            raise SpecError(f"x has {self.rows[1]} rows, that of the first step had {self.rows[0]}: {SIZES}")
        if size > planned:
            what = f"a tree of {kind.parts()}, each at a multiple of 64" if of_tree else _shown(kind)
            raise SpecError(f"stage {stage} hands on {what}, {size} bytes a microbatch; the plan has {planned}: set tensors.boundary to "
                            f"{size}B", self._plan.name)
        known = self._shapes.get(stage)
        if known is None:
            try:
                said = kind.told() if of_tree else {"dtype": str(output.dtype).removeprefix("torch."), "shape": tuple(output.shape)}
            except SpecError as error:
                raise SpecError(f"stage {stage} hands on: {error}", self._plan.name) from None
            self._shapes[stage] = kind
            self._session.put(f"boundary/{stage}/{self._microbatches}", json.dumps(said))
            return
        found = known.difference(kind) if of_tree and type(known) is Layout else None if kind == known else (_shown(kind), _shown(known))
        if found is not None:
            raise SpecError(f"stage {stage} hands on {found[0]}, before it was {found[1]}: in a run this stays as it is, while a step "
                            "has as many microbatches; pad what varies", self._plan.name)
