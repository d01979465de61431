"""The state of optimizers, parameter by parameter, as a checkpoint keeps it of layers: whatever optimizer of whatever rank had a
parameter, that of another rank, or of a replica that updates its share of a layer, takes its state."""
import torch

from ..errors import SpecError
from .sharded import like_values, whole_values


def is_layered(optimizer, units):
    """Whether it is a torch.optim.Optimizer of parameters of the model alone."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        return False
    known = {id(p) for unit in units for p in unit.module.parameters()}
    own = [p for group in optimizer.param_groups for p in group["params"]]
    return bool(own) and all(id(p) in known for p in own) and optimizer.state_dict().keys() == {"state", "param_groups"}


def _parameters(optimizer, state):
    """[(index in the state, parameter, its group's settings)] of an optimizer and its state_dict."""
    for saved, group in zip(state["param_groups"], optimizer.param_groups):
        settings = {key: value for key, value in saved.items() if key != "params"}
        for index, p in zip(saved["params"], group["params"]):
            yield index, p, settings


def of_parameters(optimizer, names):
    """{"kind", "groups": [settings], "parameters": {name: {"state", "group"}}}. names: {id of a parameter: its names}; those of
    others are left out."""
    state = optimizer.state_dict()
    groups, found = [], {}
    for index, p, settings in _parameters(optimizer, state):
        for name in names.get(id(p), ()):
            if settings not in groups:
                groups.append(settings)
            found[name] = {"state": whole_values(state["state"].get(index)), "group": groups.index(settings)}
    return {"kind": type(optimizer).__name__, "groups": groups, "parameters": found}


def take(title, optimizer, found):
    """Gives an optimizer its state. found(parameter): {"kind", "state", "settings"} of the checkpoint, or None."""
    state = optimizer.state_dict()
    for number, (saved, group) in enumerate(zip(state["param_groups"], optimizer.param_groups)):
        taken = None
        for index, p in zip(saved["params"], group["params"]):
            of = found(p)
            if of is None:
                raise SpecError(f"the checkpoint has no state of {title} for a parameter of {tuple(p.shape)} in its group {number}: "
                                "pass the optimizer it was saved with, of the same parameters")
            if of["kind"] != type(optimizer).__name__:
                raise SpecError(f"{title} is a {type(optimizer).__name__}, in the checkpoint a {of['kind']}: pass what it was saved "
                                "with")
            if taken is not None and not _same(taken, of["settings"]):
                raise SpecError(f"the parameters in group {number} of {title} had other settings than each other when they were saved "
                                f"({taken} and {of['settings']}): let groups be as they were")
            taken = of["settings"]
            state["state"].pop(index, None)
            if of["state"] is not None:
                state["state"][index] = like_values(of["state"], p)
        saved.update(taken or {})
    optimizer.load_state_dict(state)


def _same(one, other):
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _by_element(key, values, sizes, title):
    """Whether tensors are of the elements of what they are of. Refuses what is neither that nor a scalar."""
    if not all(isinstance(value, torch.Tensor) and value.dim() for value in values):
        return False
    if all(value.numel() == size for value, size in zip(values, sizes)):
        return True
    raise SpecError(f"{title}: the optimizer's {key} is neither a number nor of the layer's elements, so that replicas cannot share it: "
                    "resume with the same replicas, or set data_parallel.shard to none")


def join(title, shares, parameters):
    """{name: state} of shares of a layer, which are [state of the flat elements] in their order. parameters: [(name, shape)] of
    the layer, in the order of its elements."""
    if any(state is None for state, _ in shares):
        return {name: None for name, _ in parameters}
    found = {name: {} for name, _ in parameters}
    sizes = [size for _, size in shares]
    for key, first in shares[0][0].items():
        values = [state[key] for state, _ in shares]
        if not _by_element(key, values, sizes, title):
            for state in found.values():
                state[key] = first.clone() if isinstance(first, torch.Tensor) else first
            continue
        flat, at = torch.cat([value.flatten() for value in values]), 0
        for name, shape in parameters:
            count = torch.Size(shape).numel()
            found[name][key] = flat[at:at + count].view(shape)
            at += count
    return found


def share(title, states, parameters, part):
    """The state of a part, a slice, of a layer's elements: the opposite of join()."""
    own = [states[name] for name, _ in parameters]
    if any(state is None for state in own):
        return None
    sizes, found = [p.numel() for _, p in parameters], {}
    for key, first in own[0].items():
        values = [state[key] for state in own]
        found[key] = torch.cat([value.flatten() for value in values])[part] if _by_element(key, values, sizes, title) else first
    return found
