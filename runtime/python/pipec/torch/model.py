"""What a rank has of the model."""
import torch

from .device import device_of
from .replicas import flatten, share
from .shared import SharedWeights


class LocalModel:
    """The modules of a rank's stages, with their parameters and gradients. loss: the module that the last stage's rank has, or
    None."""

    def __init__(self, plan, world_rank, modules, loss):
        self.plan, self.world_rank = plan, world_rank
        self.rank, self.replica = plan.place(world_rank)
        self.last = plan.stage_count - 1
        self.stages_of = [[each.stage for each in plan.stages(rank)] for rank in range(plan.ranks)]
        self.own = self.stages_of[self.rank]
        self.modules, self.loss = modules, loss if isinstance(loss, torch.nn.Module) and self.last in self.own else None
        self.device, self.flat, self.shared = None, {}, None

    def find_shared(self):
        """Once there is a module for each stage: the weights that the plan says they share."""
        self.shared = SharedWeights(self.plan, self.world_rank, self.modules)

    def prepare(self):
        """Once all is checked: finds the device, and lays weights and gradients flat where there are replicas."""
        self.modules = dict(self.modules)
        self.device = device_of(self.modules, self.world_rank)
        self.shared.flatten(self.modules)
        self.flat = flatten(self.plan, self.rank, self.modules, self.shared.held) if self.plan.degree > 1 else {}

    def named_parameters(self, stage):
        """Those of its module, and of the last stage the loss's."""
        yield from ((name, p) for name, p in self.modules[stage].named_parameters() if not self.shared.is_alias(p))
        if stage == self.last and self.loss is not None:
            yield from self.loss.named_parameters(prefix="loss")

    def parameters(self):
        """Each once."""
        return {id(p): p for stage in self.own for _, p in self.named_parameters(stage)}.values()

    def trained(self):
        """[(stage, layer), [(name, parameter)]]: what one optimizer of the plan's steps. Replicas sum layer by layer, and where
        each updates its share that is one flat parameter."""
        if not self.flat:
            for stage in self.own:
                yield (stage, 0), list(self.named_parameters(stage))
        sharded = {stage.stage: stage.sharded for stage in self.plan.stages(self.rank)}
        for stage, layers in self.flat.items():
            for number, layer in enumerate(layers):
                if not sharded[stage][number]:
                    yield (stage, number), layer.named + [("shared", copy.first) for copy in self.shared.of(stage, number)]
                    continue
                part = share(layer.weights, self.replica, self.plan.degree)
                own = torch.nn.Parameter(layer.weights[part])
                own.grad = layer.gradients[part]
                yield (stage, number), [(f"{number}.share", own)]

    def layers(self, stages, first=0, layers=0):
        """(stage, layer) of what is averaged and stepped by itself."""
        for stage in stages:
            count = len(self.flat[stage]) if self.flat else 1
            for number in range(first, first + layers) if layers and self.flat else range(count):
                yield stage, number

    def flat_layers(self):
        return [layer for layers in self.flat.values() for layer in layers]

    def attach(self):
        for layer in self.flat_layers():
            layer.attach()

    def gradients_of(self, stage, number):
        if self.flat:
            return [self.flat[stage][number].gradients, *(copy.gradients for copy in self.shared.of(stage, number))]
        return [p.grad for _, p in self.named_parameters(stage) if p.grad is not None]

    def own_gradients(self):
        return [p.grad for p in self.parameters() if p.grad is not None]

    def shares(self):
        """Gradients of this rank that the norm of all counts here; of replicas those of its shares, as all have the same."""
        if not self.flat:
            return [p.grad for p in self.parameters() if p.grad is not None and not self.shared.counts_elsewhere(p)]
        return [flat.gradients[share(flat.weights, self.replica, self.plan.degree)] for flat in (
            *self.flat_layers(), *(copy for copy in self.shared.copies if not self.shared.counts_elsewhere(copy.first)))]
