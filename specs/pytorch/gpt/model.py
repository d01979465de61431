"""A GPT over bytes, by layers: an embedding, blocks, a head."""
import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, BLOCKS, CONTEXT, BYTES = 128, 4, 6, 128, 256


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.byte, self.place = nn.Embedding(BYTES, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        nn.init.normal_(self.byte.weight, std=0.02)
        nn.init.normal_(self.place.weight, std=0.02)

    def forward(self, text):
        return self.byte(text) + self.place.weight[:text.shape[1]]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.behind = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        parts = self.attention(self.before(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).flatten(2))
        return x + self.wide(self.behind(x))


class Head(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, BYTES))


def layers():
    return [Embedding, *[Block] * BLOCKS, Head]


def example(samples):
    return torch.randint(BYTES, (samples, CONTEXT))


target = example  # of each byte the next one


def loss(output, following):
    return functional.cross_entropy(output.flatten(0, 1), following.flatten())
