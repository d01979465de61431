"""What the split of B and W is held against: PyTorch's own, the storages that are alive, and blocks to measure."""
import gc

import torch
from torch import nn
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, tokens, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(rows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(rows, tokens, width))
        # No view stands last: PyTorch's split fails on outputs that are views.
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Batch(nn.Module):
    """Convolutions and batch norm, whose W needs autograd's nodes."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Theirs:
    """The calls that PyTorch's stages make."""

    def __init__(self, module):
        self.module, self.kept = module, {}

    def forward(self, microbatch, x):
        x = x.detach().requires_grad_()
        output = self.module(x)
        self.kept[microbatch] = x, output
        return output

    def backward_input(self, microbatch, gradient):
        x, output = self.kept.pop(microbatch)
        (found,), groups = stage_backward_input([output], [gradient], [x], self.module.parameters())
        self.kept[microbatch] = groups
        x.grad = None
        return found

    def backward_weight(self, microbatch):
        stage_backward_weight(self.module.parameters(), self.kept.pop(microbatch))


class Storages(TorchDispatchMode):
    """Every storage that an operation makes while this is on: bytes() of those alive, each once."""

    def __init__(self, before):
        super().__init__()
        self.before = {tensor.untyped_storage()._cdata for tensor in before}
        self.seen = {}

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        found = function(*arguments, **(options or {}))
        for each in tree_iter(found):
            if isinstance(each, torch.Tensor):
                storage = each.untyped_storage()
                if storage._cdata not in self.before and storage._cdata not in self.seen:
                    self.seen[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        return found

    def bytes(self):
        gc.collect()
        self.seen = {at: each for at, each in self.seen.items() if not each[0].expired()}
        return sum(size for _, size in self.seen.values())


def held(kind, module, shape):
    """Bytes after F, after B, after W of the third microbatch; all of them come before their W."""
    stage = kind(module)
    for microbatch in range(2):  # which teach, and give parameters their gradients
        stage.forward(microbatch, torch.randn(*shape))
        stage.backward_input(microbatch, torch.randn(*shape))
        stage.backward_weight(microbatch)
    x, gradient, found = torch.randn(*shape), torch.randn(*shape), []
    before = [x, gradient, *module.parameters(), *module.buffers(), *(each.grad for each in module.parameters())]
    with Storages(before) as storages:
        stage.forward(2, x)
        found.append(storages.bytes())
        stage.backward_input(2, gradient)
        found.append(storages.bytes())
        stage.backward_weight(2)
        found.append(storages.bytes())
    return found
