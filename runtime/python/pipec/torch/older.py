"""What newer PyTorch does by itself, for an older one (2.8 is): a custom function's node keeps its graph alive, and of a saved
tensor can be told who has packed it."""
from contextlib import contextmanager, nullcontext

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

_autograd = torch._C._autograd


class _Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def _has_graph(node):
    try:
        return node.next_functions is not None
    except RuntimeError:
        return False


KEEPS_NODES = _has_graph(_Identity.apply(torch.zeros((), requires_grad=True)).grad_fn)
TELLS_HOOKS = hasattr(_autograd.SavedTensor, "unpack_hook")


def is_custom(node):
    return isinstance(node, torch._C._FunctionBase)


def is_alive(node):
    """Whether a custom function's node still has its graph."""
    return KEEPS_NODES or _has_graph(node)


def edge_of(output):
    """Its gradient edge. PyTorch makes a further node for what keeps a custom function's alive, which keeps itself alive here."""
    node = output.grad_fn
    return get_gradient_edge(output) if node is None or not KEEPS_NODES else GradientEdge(node, output.output_nr)


def owner_of(output):
    """A node that keeps the graph of an output alive, where its own does not."""
    if KEEPS_NODES or not is_custom(output.grad_fn):
        return None
    with torch.enable_grad():
        return output.view_as(output).grad_fn


def needs_owner(nodes):
    """Whether these nodes are alive only as long as what leads to them."""
    return not KEEPS_NODES and any(map(is_custom, nodes))


@contextmanager
def _watched(state):
    push = _autograd._push_saved_tensors_default_hooks

    def note(pack, unpack):
        state.foreign = True
        push(pack, unpack)

    _autograd._push_saved_tensors_default_hooks = note
    try:
        yield
    finally:
        _autograd._push_saved_tensors_default_hooks = push


def watched(state):
    """with watched(state): state.foreign becomes true where others' hooks take saved tensors meanwhile."""
    return nullcontext() if TELLS_HOOKS else _watched(state)
