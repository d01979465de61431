"""The bytes of this repository's own documents, on which examples train."""
import pathlib

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def documents():
    """All of them, one after the other."""
    paths = sorted(path for path in ROOT.rglob("*.md") if path.relative_to(ROOT).parts[0] != "build")
    return torch.frombuffer(bytearray(b"\n".join(path.read_bytes() for path in paths)), dtype=torch.uint8).long()


def batch(text, number, samples, context):
    """Pieces of a text and what follows each byte, the same in every process that asks for this number."""
    starts = torch.randint(len(text) - context, (samples, 1), generator=torch.Generator().manual_seed(number))
    pieces = text[starts + torch.arange(context + 1)]
    return pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()
