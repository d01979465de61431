"""Where a rank has replicas: each layer's weights and gradients lie flat, and the runtime's threads sum and gather them in
place; who computes sees views of them."""
import ctypes

import torch

from .. import _library as lib
from ..errors import SpecError

TYPES = {torch.float32: 1, torch.float64: 2}


class FlatLayer:
    """The parameters of a layer that are trained, end to end. Their `grad` is never None."""

    def __init__(self, module, name, held=()):
        named = [(each, p) for each, p in module.named_parameters() if p.requires_grad and id(p) not in held]
        kinds = {p.dtype for _, p in named}
        if len(kinds) > 1 or not kinds <= TYPES.keys():
            raise SpecError(f"{name} has parameters of {', '.join(sorted(map(str, kinds)))}: replicas sum one type in a layer, "
                            f"float32 or float64")
        self.dtype = kinds.pop() if kinds else torch.float32
        self.weights = torch.empty(sum(p.numel() for _, p in named), dtype=self.dtype,
                                   device=named[0][1].device if named else None)
        self.gradients = torch.zeros_like(self.weights)
        self.named, self._parts, at = named, [], 0
        owners = {id(p): (owner, each) for owner in module.modules() for each, p in owner._parameters.items()}
        for each, p in named:
            part = slice(at, at + p.numel())
            at = part.stop
            weights, gradients = self.weights[part].view(p.shape), self.gradients[part].view(p.shape)
            weights.copy_(p.detach())
            p.data, p.grad = weights, gradients
            self._parts.append((f"{name}'s {each}", p, *owners[id(p)], weights.data_ptr(), gradients))
        self._frozen = [(f"{name}'s {each}", p) for each, p in module.named_parameters() if not p.requires_grad]

    def attach(self):
        """Gradients stay where the runtime sums them, whatever the program did with `grad`; weights have to."""
        for name, p, owner, attribute, weights, gradients in self._parts:
            if owner._parameters.get(attribute) is not p or p.data_ptr() != weights:
                raise SpecError(f"{name} is another than when the run began, or lies elsewhere, where replicas do not sum it: write "
                                "into it, or begin a run with it")
            p.grad = gradients
        for name, p in self._frozen:
            if p.requires_grad:
                raise SpecError(f"{name} was frozen when the run began, and replicas do not sum it: begin a run with it trained")

    def digest(self):
        """A number that tells other weights from these."""
        return int(self.weights.view(torch.int32).sum())

    @property
    def bytes(self):
        return self.weights.numel() * self.weights.element_size()

    def share(self, replica, replicas):
        """The part of its elements that is a replica's."""
        return share(self.weights, replica, replicas)


def share(flat, replica, replicas):
    """The part of the elements of a flat tensor that is a replica's (pipec_stage.h)."""
    count = flat.numel()
    return slice(count * replica // replicas, count * (replica + 1) // replicas)


def flatten(plan, rank, modules, held):
    """{stage: [FlatLayer]} of a rank's modules, which must be Sequentials of the plan's layers. held: ids of parameters that the
    plan's `shared` names, which lie elsewhere."""
    found = {}
    for stage in plan.stages(rank):
        module = modules[stage.stage]
        if not isinstance(module, torch.nn.Sequential) or len(module) != len(stage.gradients):
            raise SpecError(f"stage {stage.stage} has replicas, which sum {len(stage.gradients)} layers: pass a Sequential of these "
                            f"(pipec.torch.stages makes it), not {_named(module)}", plan.name)
        layers = found[stage.stage] = [FlatLayer(each, f"stage {stage.stage} layer {n}", held) for n, each in enumerate(module)]
        for number, (layer, planned) in enumerate(zip(layers, stage.gradients)):
            if layer.bytes != planned:
                raise SpecError(f"stage {stage.stage} layer {number} has {layer.bytes} bytes of gradients, the plan {planned}: set "
                                f"its layers[].gradients to {layer.bytes}B", plan.name)
    return found


def _named(module):
    return f"a Sequential of {len(module)}" if isinstance(module, torch.nn.Sequential) else f"a {type(module).__name__}"


def described(flat, shared=()):
    """As the library takes them. shared: [lib.Layer] besides."""
    rows = [lib.Layer(size=ctypes.sizeof(lib.Layer), type=TYPES[layer.dtype], stage=stage, layer=number,
                      gradients=layer.gradients.data_ptr(), weights=layer.weights.data_ptr(), elements=layer.weights.numel())
            for stage, layers in flat.items() for number, layer in enumerate(layers) if layer.weights.numel()]
    rows += shared
    return (lib.Layer * len(rows))(*rows)
