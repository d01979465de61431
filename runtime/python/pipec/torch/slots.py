"""What stages hand on to other ranks' stages: of what type and shape, and tensors over the runtime's slots."""
import json

import torch

from ..errors import SpecError
from .split import UNREACHED
from .trees import GradientSlot, Layout, Tree, TreeSlot
from .varying import Pattern

SIZES = ("batches of a run have one size: leave a loader's last batch out where it is smaller (drop_last=True), pad it, or begin the "
         'run with shapes="vary"')
_SLOTS = 4096  # tensors over them that are remembered
_NOTHING = object()  # a slot of no bytes: what a stage hands on has no gradient


class Boundaries:
    """Of a rank's stages. Their sizes are those of microbatches, of which a step has `microbatches`. shapes: as the Run's."""

    def __init__(self, model, session, shapes):
        self._model, self._plan, self._session = model, model.plan, session
        self._varies = shapes == "vary"
        self._of = {}  # by how many microbatches a step has: slots, and shapes by stage
        # Slots stay where they are: by address and by the Layout of what goes through, as several stages may share them; where that
        # varies, numbers and memory by address and Pattern. Shapes: a Layout each, or a Pattern.
        self._microbatches, self._slots, self._shapes = 0, {}, {}
        self._layouts = {}  # where they vary, of each (stage, microbatch) whose gradient is still to come or go
        self.rows = 0, 0  # of x in the first step, and in this one

    def begin(self, microbatches):
        self._microbatches = microbatches
        self._slots, self._shapes = self._of.setdefault(microbatches, ({}, {}))

    def release(self):
        """All passes of a step are done."""
        self._layouts.clear()

    def receive(self, what):
        """What the stage before hands on."""
        stage = what.stage - 1
        kind = self._shape(stage)
        if not self._varies:
            return self._slot(what.input, what.input_bytes, kind).clone()
        numbers, _ = self._parts(what.input, what.input_bytes, kind)
        layout = self._layouts[stage, what.microbatch] = kind.layout_of(tuple(numbers.tolist()))  # for which a host waits for its GPU
        return self._slot(what.input, what.input_bytes, layout, kind).clone()

    def send(self, what, output):
        """Refuses what is too large, or was another before."""
        stage, kind = what.stage, self._shapes.get(what.stage)
        if kind is None:
            kind = self._tell_shape(stage, output)
        if self._varies:
            layout = self._layouts[stage, what.microbatch] = kind.of(output) or self._refuse_other(stage, kind.layout, output)
            if kind.header + layout.bytes > what.output_bytes:
                self._check_size(what, layout, kind.header)
            numbers, _ = self._parts(what.output, what.output_bytes, kind)
            numbers.copy_(layout.sizes)
            self._slot(what.output, what.output_bytes, layout, kind).copy_(output)
            return
        slot = self._slots.get((what.output, kind))
        if slot is None:
            self._check_size(what, Layout.of(output), 0)
            slot = self._slot(what.output, what.output_bytes, kind)
        if not (kind.fits(output) if type(output) is Tree else
                isinstance(slot, torch.Tensor) and slot.shape == output.shape and slot.dtype is output.dtype):
            self._check_size(what, Layout.of(output), 0)
            self._refuse_other(stage, kind, output)
        slot.copy_(output)

    def receive_gradient(self, what, needs):
        """Of what a stage has handed on. needs: says whether that needs one."""
        layout = self._layout(what, what.stage)
        slot = self._gradient_slot(what.input, what.input_bytes, what, what.stage, layout)
        if slot is not _NOTHING:
            found = slot.clone()
            return found if isinstance(found, torch.Tensor) or found else UNREACHED
        if layout.gradient_bytes and needs():
            raise self._gradient_is_larger(what, what.stage, layout, what.input_bytes)
        return UNREACHED

    def send_gradient(self, what, gradient):
        """Of what the stage before has handed on; None: there is none."""
        stage = what.stage - 1
        slot = self._gradient_slot(what.output, what.output_bytes, what, stage, self._layout(what, stage))
        if type(slot) is GradientSlot:
            slot.copy_(gradient)
        elif slot is not _NOTHING:
            slot.zero_() if gradient is None else slot.copy_(gradient)

    def _layout(self, what, stage):
        return self._layouts.pop((stage, what.microbatch)) if self._varies else self._shape(stage)

    def _parts(self, address, size, pattern):
        """(numbers, memory behind them) of a slot with sizes that vary."""
        found = self._slots.get((address, pattern))
        if found is None:
            found = self._remember(address, pattern, pattern.parted(self._model.device.slot(address, size)))
        return found

    def _slot(self, address, size, layout, pattern=None):
        found = self._slots.get((address, layout))
        if found is None:
            memory = self._parts(address, size, pattern)[1] if pattern else self._model.device.slot(address, size)
            found = self._remember(address, layout, TreeSlot(layout, memory) if layout.is_tree else _tensor(layout, memory))
        return found

    def _remember(self, address, kind, slot):
        if len(self._slots) >= _SLOTS:
            self._slots.clear()
        self._slots[address, kind] = slot
        return slot

    def _gradient_slot(self, address, size, what, stage, layout):
        """Refuses a plan with too few bytes. 0 are enough for a tensor that needs no gradient, as receive_gradient sees."""
        found = self._slots.get((address, layout))
        if found is None:
            if layout.gradient_bytes > size and (size or layout.is_tree):
                raise self._gradient_is_larger(what, stage, layout, size)
            if not layout.is_tree and (not layout.needs[0] or size < layout.gradient_bytes):
                found = _NOTHING
            else:
                memory = self._model.device.slot(address, size)
                found = GradientSlot(layout, memory) if layout.is_tree else _tensor(layout, memory)
            self._remember(address, layout, found)
        return found

    def _shape(self, stage):
        """Of what a stage hands on to another rank, as that rank's host said."""
        found = self._shapes.get(stage)
        if found is None:
            said = json.loads(self._session.get(f"boundary/{stage}/{self._microbatches}"))
            try:
                found = Layout.heard(said)
            except SpecError as error:
                raise SpecError(f"stage {stage} hands on to rank {self._model.rank}: {error}", self._plan.name) from None
            found = self._shapes[stage] = Pattern(found) if self._varies else found
        return found

    def _tell_shape(self, stage, output):
        """To the next stage's rank, once."""
        layout = Layout.of(output)
        try:
            said = layout.told()
        except SpecError as error:
            raise SpecError(f"stage {stage} hands on: {error}", self._plan.name) from None
        found = self._shapes[stage] = Pattern(layout) if self._varies else layout
        self._session.put(f"boundary/{stage}/{self._microbatches}", json.dumps(said))
        return found

    def _check_size(self, what, layout, header):
        size, planned = header + layout.bytes, what.output_bytes
        if size != planned and self.rows[0] != self.rows[1] and not self._varies:
            raise SpecError(f"x has {self.rows[1]} rows, that of the first step had {self.rows[0]}: {SIZES}")
        if size > planned:
            tree = "a tree of " if layout.is_tree else ""
            say = f", behind {header} bytes for their sizes" if header else ""
            raise SpecError(f"stage {what.stage} hands on {tree}{layout.parts()}{say}, {size} bytes {self._of_microbatch(what)}; the plan "
                            f"has {planned}: set tensors.boundary to {size}B", self._plan.name)

    def _gradient_is_larger(self, what, stage, layout, planned):
        gradients = "the gradients of" if layout.is_tree else "the gradient of"
        return SpecError(f"stage {stage} gets back {gradients} {layout.parts(gradients=True)}, {layout.gradient_bytes} bytes "
                         f"{self._of_microbatch(what)}; the plan has {planned}: set tensors.boundary_gradient to "
                         f"{layout.gradient_bytes}B", self._plan.name)

    def _of_microbatch(self, what):
        return f"in microbatch {what.microbatch}" if self._varies else "a microbatch"

    def _refuse_other(self, stage, layout, output):
        now, before = layout.difference(Layout.of(output), sizes=not self._varies)
        ways = ("sizes alone may vary" if self._varies else "while a step has as many microbatches; pad what varies, or begin the run "
                'with shapes="vary", where sizes may')
        raise SpecError(f"stage {stage} hands on {now}, before it was {before}: in a run this stays as it is, {ways}", self._plan.name)


def _tensor(layout, memory):
    dtype, shape = layout.kinds[0]
    return memory[:layout.bytes].view(dtype).view(shape)
