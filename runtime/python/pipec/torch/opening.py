"""What a Run is refused for before it trains: of this rank's program alone, and once the ranks have met."""
import collections.abc
import json

import torch

from ..errors import SpecError
from . import shared, wrapped


def check(model, loss, optimizer, clip):
    """Of this rank's program. loss, optimizer, clip: as the Run's."""
    plan, modules, facts = model.plan, model.modules, model.plan.facts
    if not isinstance(modules, collections.abc.Mapping):
        raise SpecError(f"modules is a {type(modules).__name__}: expected {{stage: module}}; pipec.torch.stages makes them")
    missing, extra = set(model.own) - set(modules), set(modules) - set(model.own)
    if missing or extra:
        raise SpecError(f"rank {model.rank} has the stages {model.own}: modules lack {sorted(missing)} and have "
                        f"{sorted(extra)} too much; pipec.torch.stages makes them", plan.name)
    if model.last in model.own and loss is None:
        raise SpecError(f"rank {model.rank} has the last stage, {model.last}: it needs a loss")
    wrapped.check(modules, plan)
    model.find_shared()
    _check_shared(plan, modules, optimizer, model.shared.held)
    shared.check_noted(plan, modules, model.shared.held)
    if model.loss is not None and plan.degree > 1 and any(p.requires_grad for p in model.loss.parameters()):
        raise SpecError("the loss has parameters, and replicas sum those of layers alone: put them into the last layer, or "
                        "freeze them", plan.name)
    if clip is not None and not facts["global_norm"] and plan.world == 1:
        raise SpecError("clip needs the norm of all gradients, which a plan of one process does not ask for: step an optimizer "
                        "of your own, behind run.clip_grad_norm_", plan.name)
    if clip is not None and not facts["global_norm"]:
        raise SpecError("clip needs the norm of all gradients: set costs.optimizer to {time: …, global_norm: true}", plan.name)
    if facts["shards_updates"] and not optimizer:
        raise SpecError("each replica updates its share of a layer (data_parallel.shard: optimizer), which an optimizer of the "
                        "program's own cannot: pass what makes the plan's, or set data_parallel.shard to none", plan.name)
    if (clip is not None or optimizer) and not facts["updates"]:
        raise SpecError("the plan has no optimizer steps: set costs.optimizer, or step an optimizer of your own between two "
                        "steps", plan.name)


def check_state(state):
    """Refuses an optimizer of the program's own that would step a weight twice in a step."""
    for name, optimizer in state.items():
        if isinstance(optimizer, torch.optim.Optimizer):
            weights = [p for group in optimizer.param_groups for p in group["params"]]
            if len({*map(id, weights)}) < len(weights):
                raise SpecError(f"the optimizer {name} has a weight twice, as two of the rank's stages share it, and would step it twice: make "
                                "it from torch.nn.ModuleList(modules.values()).parameters(), which gives each once")


def _check_shared(plan, modules, optimizer, held):
    """Gradients of a weight that is used twice are summed within a stage alone, and where replicas have the plan's optimizer,
    which steps layers one by one, within a layer; else where the plan says so. held: ids of such parameters."""
    parts = {f"stage {s}": module for s, module in modules.items()}
    if plan.degree > 1 and optimizer:
        parts = {f"stage {s} layer {n}": layer for s, module in modules.items()
                 for n, layer in enumerate(module if isinstance(module, torch.nn.Sequential) else [module])}
    owners = {}
    for where, module in parts.items():
        for name, p in module.named_parameters():
            if (other := owners.setdefault(id(p), where)) != where and p.requires_grad and id(p) not in held:
                raise SpecError(f"{where} and {other} share the parameter {name}, whose gradients would not be summed: tie "
                                f"weights within one {where.split()[-2]}, or let the spec's `shared` name the layers", plan.name)


def check_replicas(model, session):
    """They train the same weights only if they begin with the same."""
    if not model.flat:
        return
    own = {f"stage {s} layer {n}": layer.digest() for s, layers in model.flat.items() for n, layer in enumerate(layers)}
    if model.replica == 0:
        return session.put(f"weights/{model.rank}", json.dumps(own))
    for where, digest in json.loads(session.get(f"weights/{model.rank}")).items():
        if own[where] != digest:
            raise SpecError(f"replica {model.replica} of rank {model.rank} begins with other weights than replica 0, in {where}: pass "
                            "pipec.torch.stages what makes layers (it seeds them), or seed before they are made", model.plan.name)


def check_ranks(model, session, checks, keys, shapes):
    """What only all ranks together show: shared parameters, and that each compares when the others do, and lets shapes vary."""
    if model.plan.world == 1:
        return
    held = model.shared.held
    model.shared.begin_equal(session)
    session.put(f"open/{model.world_rank}", json.dumps([checks.kind, shared.held_elsewhere(model.modules, held), keys.own, shapes]))
    kinds, elsewhere, takes, vary = zip(*(json.loads(session.get(f"open/{process}")) for process in range(model.plan.world)))
    keys.hear(takes)
    if checks.kind != kinds[0]:
        raise SpecError(f"check is {checks.kind!r}, on rank 0 {kinds[0]!r}: pass the same on all ranks")
    if shapes != vary[0]:
        raise SpecError(f"shapes is {shapes!r}, on rank 0 {vary[0]!r}: pass the same on all ranks")
    shared.compare(model.plan, model.modules, held, elsewhere)
