"""Keywords of a step: which a module takes, and how a stage's module gets them."""
import inspect
import weakref

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from ..errors import SpecError
from .traced import Layer

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
        inner = getattr(module, "_orig_mod", module)
        names = _names[module] = inner.keywords if isinstance(inner, Layer) else _named(inner.forward, 1)
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


def rows_of(value, varies=False):
    """Of a batch, by its first tensor that has dimensions; 0: it has none. varies: a list is of microbatches."""
    if varies and type(value) is list:
        return sum(map(rows_of, value))
    return next((each.shape[0] for each in tree_leaves(value) if isinstance(each, torch.Tensor) and each.dim() > 0), 0)


def each_of(value, microbatches, what, of="the step"):
    """A list of what microbatches get."""
    if len(value) != microbatches:
        raise SpecError(f"{what} is a list of {len(value)}: expected an entry of each of {of}'s {microbatches} microbatches, as "
                        'shapes is "vary"; what is to be cut is a tensor, or a tuple or dict of tensors')
    return value


class Keywords:
    """Those of a run's steps: who takes them, and whether each rank is given its own, in each step the same. sizes: what is said
    where rows are others. varies: these may be, and a list is of microbatches."""

    def __init__(self, rank, modules, loss, sizes, varies=False):
        self._rank, self._sizes, self._varies = rank, sizes, varies
        self._takes = {f"stage {s}": taken(module) for s, module in modules.items()}
        self._takes["the loss"] = {} if loss is None else taken_by_loss(loss)
        self.own = sorted(set().union(*self._takes.values()))  # what this rank takes
        self._taken = [self.own]  # by process
        self.told = None  # of the first step, for the other ranks

    def hear(self, taken):
        """own of each process."""
        self._taken = taken

    def check(self, keywords, rows):
        """Refuses what nobody takes, what is missing, and what is other than in the first step. rows: of x. Whether this is the
        first step, of which there is `told` then."""
        self.check_known(keywords)
        given = {name: rows_of(value, self._varies) for name, value in keywords.items()}
        if self.told is not None:
            if self._varies and rows:
                self._check_rows(self._rank, given, rows)
            if given.keys() != self.told[0].keys() if self._varies else given != self.told[0]:
                raise SpecError(f"step got keywords of {_shown(given)}, in the first step it was {_shown(self.told[0])}: pass the "
                                f"same in each step, with as many rows; {self._sizes}")
            return False
        self.check_given(keywords, "step")
        self.told = given, rows
        return True

    def check_known(self, keywords):
        """Refuses what nobody takes."""
        for name in keywords:
            if not any(name in names for names in self._taken):
                known = ", ".join(sorted(set().union(*self._taken))) or "none"
                raise SpecError(f"no stage takes the keyword {name}, nor does the loss (they take: {known}): name it in a layer's "
                                "forward, where **kwargs does not count, or leave it out")

    def check_given(self, keywords, call, with_loss=True):
        """Refuses what is missing on this rank. call: the method that was to be given it. with_loss: whether that calls the loss."""
        for where, names in self._takes.items():
            for name, needed in names.items():
                if needed and name not in keywords and (with_loss or where != "the loss"):
                    raise SpecError(f"rank {self._rank} lacks the keyword {name}, which {where} takes: pass {name}= to {call}")

    def compare(self, said):
        """said: what each process has told. All find the same."""
        rows = max(each for _, each in said)
        for process, (given, _) in enumerate(said):
            for other, (others, _) in enumerate(said):
                for name in others:
                    if name not in given and name in self._taken[process]:
                        raise SpecError(f"rank {process} lacks the keyword {name}, which its stages take and rank {other} was given: "
                                        f"pass {name}= to step on every rank whose stages take it")
            self._check_rows(process, given, rows)

    @staticmethod
    def _check_rows(process, given, rows):
        for name, own in given.items():
            if own and own != rows:
                raise SpecError(f"the keyword {name} has {own} rows on rank {process}, x has {rows}: a keyword's first dimension "
                                "is that of the batch; expand what is the same for all rows, or keep it in a buffer")

    def cut(self, keywords, microbatches, split):
        """[of each microbatch: {name: value}] of those that this rank takes. split(tensor, microbatches, name) gives a tensor's
        rows; what is no tensor, or a tensor without dimensions, goes whole to each microbatch."""
        def rows(value, name):
            if isinstance(value, torch.Tensor) and value.dim() > 0:
                return [each.detach() for each in split(value, microbatches, name)]
            if type(value) in (tuple, list):
                parts = [rows(each, name) for each in value]
                return [type(value)(part[m] for part in parts) for m in range(microbatches)]
            if type(value) is dict:
                parts = {key: rows(each, name) for key, each in value.items()}
                return [{key: part[m] for key, part in parts.items()} for m in range(microbatches)]
            return [value] * microbatches

        def of_all(value, name):
            if self._varies and type(value) is list:
                return tree_map_only(torch.Tensor, torch.Tensor.detach, each_of(value, microbatches, f"the keyword {name}"))
            return rows(value, name)

        parts = {name: of_all(value, name) for name, value in keywords.items() if name in self.own}
        return [{name: part[m] for name, part in parts.items()} for m in range(microbatches)]


def _shown(given):
    """Keywords and their rows."""
    return ", ".join(f"{name} ({rows} rows)" if rows else name for name, rows in given.items()) or "none"
