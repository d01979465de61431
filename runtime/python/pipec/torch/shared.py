"""A parameter that stages of several ranks hold. Each process has a copy, whose gradients nobody would sum: it is refused."""
import gc
import json

import torch
from torch.utils.weak import WeakIdKeyDictionary

from ..errors import SpecError
from .checks import checksum
from .wrapped import local

_MOST = 128  # parameters that a rank tells the others of, the largest
_places = WeakIdKeyDictionary()  # by parameter: {stage: "layer N's NAME"} of all stages that hold it


def note(cut, layers):
    """Keeps which parameters the modules among a model's layers have in common, across stages."""
    found, number = {}, 0
    for stage, count in enumerate(cut):
        for layer in layers[number:number + count]:
            if isinstance(layer, torch.nn.Module):
                for name, p in layer.named_parameters():
                    found.setdefault(id(p), (p, {}))[1].setdefault(stage, f"layer {number}'s {name}")
            number += 1
    for p, places in found.values():
        if len(places) > 1:
            _places[p] = places


def _refused(plan, one, other):
    """one, other: (stage, what of it)."""
    ranks = {each.stage: rank for rank in range(plan.ranks) for each in plan.stages(rank)}
    places = [f"stage {stage} {what} (rank {ranks[stage]})" for stage, what in sorted((one, other))]
    return SpecError(f"{places[0]} and {places[1]} are one parameter: each rank would train a copy, and the copies drift apart. Cut "
                     "the pipeline so that one stage has both (pipeline.cut), give one of them weights of its own, or freeze it "
                     "(requires_grad_(False))", plan.name)


def check_noted(plan, modules):
    """Refuses a parameter that other ranks' stages have too, as note() has seen."""
    for stage, module in modules.items():
        for p in filter(lambda p: p.requires_grad, module.parameters()):
            places = _places.get(p, {})
            for other in places.keys() - modules.keys():
                if stage in places:
                    raise _refused(plan, (stage, places[stage]), (other, places[other]))


def _trained(modules):
    return {id(p): (stage, name, p) for stage, module in modules.items() for name, p in module.named_parameters() if p.requires_grad}


def _told(p):
    """What a copy in another process has in common with a parameter; None: it says too little."""
    with torch.no_grad():
        own = local(p)
        if own.numel() < 2 or bool((own == own.flatten()[0]).all()):
            return None
        return f"{p.dtype} {tuple(p.shape)} {checksum(own).item()}"


def held_elsewhere(modules):
    """A text of those parameters of a rank that a module outside of its stages holds too, as a tied head does whose embedding is
    another rank's."""
    own, inside = _trained(modules), {id(each) for module in modules.values() for each in module.modules()}
    found = {}
    for each in gc.get_objects():
        if issubclass(type(each), torch.nn.Module) and id(each) not in inside:
            found.update({id(p): own[id(p)] for p in each.__dict__.get("_parameters", {}).values() if id(p) in own})
    largest = sorted(found.values(), key=lambda row: -row[2].numel())[:_MOST]
    return json.dumps([[stage, name, told] for stage, name, p in largest if (told := _told(p))])


def compare(plan, modules, said):
    """Refuses a parameter of this rank that another rank's stage holds too. said: what held_elsewhere gave on the ranks."""
    theirs = [row for text in said for row in json.loads(text) if row[0] not in modules]
    for stage, name, p in _trained(modules).values() if theirs else ():
        told = _told(p)
        for other, its, same in theirs:
            if told == same:
                raise _refused(plan, (stage, name), (other, its))
