"""What a checkpoint keeps by itself: a layer, where a stage's module is a Sequential of the plan's layers, else the stage."""
import dataclasses

import torch

from ..errors import SpecError
from .sharded import like
from .traced import Layer

_SHOWN = 4  # names in a message


@dataclasses.dataclass
class Unit:
    """first, layers: of the whole model; layers is 0 of the loss."""
    stage: int
    number: int  # of the layer in its stage
    first: int
    layers: int
    module: torch.nn.Module
    names: object  # (first, own name): the name in the whole model

    @property
    def of_model(self):
        """Whether equal names are of one tensor, which several layers have."""
        return self.names is _of_model

    @property
    def name(self):
        """Of its files."""
        if not self.layers:
            return "loss"
        last = self.first + self.layers - 1
        return f"layer-{self.first:05}" if self.layers == 1 else f"layers-{self.first:05}-{last:05}"

    @property
    def title(self):
        return title(self.first, self.layers)

    def parameters(self):
        """{name in the whole model: parameter}, a shared one under each of its names."""
        return {self.names(self.first, name): p for name, p in self.module.named_parameters(remove_duplicate=False)}

    def state(self):
        """({name in the whole model: tensor}, {own name: other value}) of its weights and buffers; a sharded one as it is."""
        tensors, others = {}, {}
        for name, value in self.module.state_dict().items():
            if not isinstance(value, torch.Tensor):
                others[name] = value
                continue
            whole = self.names(self.first, name)
            if whole in tensors:
                raise _twice(whole, self.title, self.title)
            tensors[whole] = value
        return tensors, others

    def load(self, tensors, others):
        """The opposite of state(). Raises SpecError where the tensors are of another module."""
        own, own_others = self.state()
        wrong = [f"it lacks {_some(own.keys() - tensors.keys())}"] * bool(own.keys() - tensors.keys())
        wrong += [f"the run lacks {_some(tensors.keys() - own.keys())}"] * bool(tensors.keys() - own.keys())
        for name in sorted(own.keys() & tensors.keys()):
            there, here = (f"{tuple(each.shape)} of {each.dtype}" for each in (tensors[name], own[name]))
            if there != here:
                wrong.append(f"{name} is {there} there, {here} in the run")
        if own_others.keys() != others.keys():
            wrong.append(f"it has {sorted(others)} beside tensors, the run {sorted(own_others)}")
        if wrong:
            raise SpecError(f"{self.title}: the checkpoint is of another model: {'; '.join(wrong[:_SHOWN])}")
        state = {name: like(tensors[self.names(self.first, name)], value) for name, value in self.module.state_dict().items()
                 if name not in others}
        self.module.load_state_dict({**state, **others})


def title(first, layers):
    if not layers:
        return "the loss"
    return f"layer {first}" if layers == 1 else f"layers {first} to {first + layers - 1} in one module"


def _some(names):
    names = sorted(names)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _twice(name, one, other):
    return SpecError(f"names calls two tensors {name}, of {one} and of {other}: let each have a name of its own")


def _plain(first, name):
    return f"{first}.{name}"


def _of_model(_, name):
    return name


def _names_of(layer):
    """A layer of pipec.torch.layers has the names of its model."""
    return _of_model if isinstance(layer, Layer) else _plain


def _of_loss(_, name):
    return f"loss.{name}"


def units_of(model, names):
    """Those of a LocalModel. names: as the Run's."""
    found = []
    for planned in model.plan.stages(model.rank):
        module, count = model.modules[planned.stage], planned.layers or 1
        first = planned.first_layer if planned.layers else planned.stage
        is_layers = isinstance(module, torch.nn.Sequential) and len(module) == count and not module._parameters and not module._buffers
        parts = list(module) if is_layers else [module]
        for number, part in enumerate(parts):
            found.append(Unit(planned.stage, number, first + number, 1 if is_layers else count, part, names or _names_of(part)))
    if model.loss is not None and model.loss.state_dict():
        found.append(Unit(model.last, -1, layers_of(model.plan), 0, model.loss, _of_loss))
    seen = {}
    for unit in found:
        for name in unit.state()[0]:
            other = seen.setdefault(name, unit)
            if other is not unit and not (unit.of_model and other.of_model):
                raise _twice(name, other.title, unit.title)
    return found


def layers_of(plan):
    """Of the whole model."""
    return sum(plan.cut) if plan.cut else plan.stage_count
