"""Keywords of a step: which a module takes, and how a stage's module gets them."""
import inspect
import weakref

import torch

from ..errors import SpecError

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_compiled_call_impl")
_names = weakref.WeakKeyDictionary()
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def has_hooks(module):
    """Whether calling a Sequential is more than calling its layers."""
    return any(getattr(module, name, None) for name in _HOOKS)


def _named(function, inputs):
    """{name: whether it must be given} of a function's parameters behind its inputs. What goes into **kwargs has no name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {}
    while inputs and parameters and parameters[0].kind in _POSITIONAL:
        del parameters[0]
        inputs -= 1
    return {each.name: each.default is each.empty for each in parameters if each.kind in _NAMED}


def _layers(module):
    """Of what hands what one layer gives to the next; None of others."""
    return list(module) if isinstance(module, torch.nn.Sequential) and type(module).forward is torch.nn.Sequential.forward else None


def taken(module):
    """{name: whether it must be given}: keywords that a module takes, a Sequential those of its layers."""
    layers = _layers(module)
    if layers is not None:
        found = {}
        for layer in layers:
            for name, needed in taken(layer).items():
                found[name] = found.get(name, False) or needed
        return found
    names = _names.get(module)
    if names is None:
        names = _names[module] = _named(getattr(module, "_orig_mod", module).forward, 1)
    return names


def taken_by_loss(loss):
    return {} if loss is None else _named(loss.forward if isinstance(loss, torch.nn.Module) else loss, 2)


def call(module, x, keywords):
    """module(x), with those of the keywords that the module takes, or that the layers of a Sequential take."""
    if not keywords:
        return module(x)
    layers = _layers(module)
    if layers is None:
        names = taken(module)
        return module(x, **{name: value for name, value in keywords.items() if name in names})
    if keywords.keys().isdisjoint(taken(module)):
        return module(x)
    if has_hooks(module):
        raise SpecError("a Sequential with hooks cannot hand keywords on to its layers: register the hooks at a layer")
    for layer in layers:
        x = call(layer, x, keywords)
    return x
