"""What a boundary that is a tree of three tensors adds to a forward and to a backward of the stage behind it, beside one tensor: the
medians of Python's time for receiving, computing and sending, by turns, on tensors too small to matter. A measurement, run by hand.

  PYTHONPATH=build/release/python build/torch/bin/python test/bench/trees.py [--turns 3000] [--judge]

--judge: exit code 1 where the tree adds more than 3 us.
"""
import argparse
import statistics
import sys
import time
from types import SimpleNamespace

import torch

from pipec.torch.slots import Boundaries
from pipec.torch.split import Stage
from pipec.torch.trees import Tree

LIMIT_US = 3
BYTES = 4096  # of a slot


class Twice(torch.nn.Module):
    def forward(self, x):
        return x * 2


class TwiceOfThree(torch.nn.Module):
    """The second part, which needs a gradient, and the third, which needs none, go through as they are."""

    def forward(self, x):
        return x[0] * 2, x[1], x[2]


class Texts(dict):
    """In place of a session: what stages tell each other."""
    put, get = dict.__setitem__, dict.__getitem__


class Memory(dict):
    """In place of a device: slots by address."""

    def slot(self, address, size):
        return self.setdefault(address, torch.zeros(size, dtype=torch.uint8))


def instructions(of_tree, split):
    """Gives a function that runs a forward and a backward: (seconds of each)."""
    model = SimpleNamespace(plan=SimpleNamespace(name="plan"), device=Memory(), rank=0)
    boundaries = Boundaries(model, Texts(), "same")
    boundaries.begin(1)
    stage = Stage(TwiceOfThree() if of_tree else Twice(), number=1, split=split)
    tensors = [torch.randn(4, 16), torch.randn(4, 16), torch.arange(4)]
    given = Tree((tuple, None, (0, 1, 2)), tensors, (True, True, False)) if of_tree else tensors[0]
    before, forward, backward = (SimpleNamespace(stage=s, microbatch=0, input=input, output=output, input_bytes=BYTES, output_bytes=BYTES)
                                 for s, input, output in ((0, 0, 1), (1, 1, 2), (1, 3, 4)))
    boundaries.send(before, given)
    call = stage.backward_input if split else stage.backward

    def run():
        begin = time.perf_counter()
        boundaries.send(forward, stage.forward(0, boundaries.receive(forward)))
        middle = time.perf_counter()
        boundaries.send_gradient(backward, call(0, boundaries.receive_gradient(backward, lambda: True)))
        end = time.perf_counter()
        if split:
            stage.backward_weight(0)
        return middle - begin, end - middle
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3000)
    parser.add_argument("--judge", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    runs = {(of_tree, split): instructions(of_tree, split) for split in (False, True) for of_tree in (False, True)}
    times = {key: [] for key in runs}
    for _ in range(given.turns):
        for key, run in runs.items():
            times[key].append(run())
    most = 0
    for split in (False, True):
        one, tree = ([statistics.median(column) * 1e6 for column in zip(*times[of_tree, split][given.turns // 10:])]
                     for of_tree in (False, True))
        for name, tensor, more in zip(("F", "B" if split else "BW"), one, (b - a for a, b in zip(one, tree))):
            print(f"{name:2} of a {'split' if split else 'fused'} stage: {tensor:5.1f} us of a tensor, a tree of three adds {more:4.1f} us")
            most = max(most, more)
    return int(given.judge and most > LIMIT_US)


if __name__ == "__main__":
    sys.exit(main())
