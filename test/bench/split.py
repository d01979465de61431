"""B and W of pipec.torch beside PyTorch's own split (torch.distributed.pipelining): bytes held between B and W of three
transformer blocks of width 256, and host time of F, B and W of such blocks on tensors too small to matter; the same of
convolutions with batch norm, which are not judged. The time is the processor's; rounds of both take turns.
Measurements, run by hand; the time wants a quiet machine.

  OMP_NUM_THREADS=1 PYTHONPATH=build/dev/python build/torch/bin/python test/bench/split.py [--rounds 40] [--judge]

--judge: exit code 1 where more than 0.8 of PyTorch's bytes are held, or F, B and W take longer than PyTorch's.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "test" / "python"))
import torch  # noqa: E402
from torch import nn  # noqa: E402

from peer import Batch, Block, Theirs, held  # noqa: E402
from pipec.torch.split import Stage  # noqa: E402

BYTES, TIME = 0.8, 1.0  # at most, of PyTorch's


def seconds(stage, shape, times=20):
    """Of one microbatch's F, B and W."""
    xs = [torch.randn(*shape) for _ in range(times)]
    spent = [0.0, 0.0, 0.0]
    for microbatch, x in enumerate(xs):
        begin = time.process_time()
        output = stage.forward(microbatch, x).detach()
        ended = [time.process_time()]
        stage.backward_input(microbatch, output)
        ended.append(time.process_time())
        stage.backward_weight(microbatch)
        ended.append(time.process_time())
        for at, (to, since) in enumerate(zip(ended, [begin, *ended])):
            spent[at] += (to - since) / times
    return spent


def compared(make, shape, rounds):
    theirs, ours = Theirs(make()), Stage(make())
    spent = {"PyTorch": [], "pipec": []}
    for turn in range(rounds + 1):
        for name, stage in (("PyTorch", theirs), ("pipec", ours)):
            found = seconds(stage, shape)
            if turn:  # the first is for warming up
                spent[name].append(found)
    return {name: [1e6 * statistics.median(column) for column in zip(*each)] for name, each in spent.items()}, \
        statistics.median(sum(mine) / sum(other) for mine, other in zip(spent["pipec"], spent["PyTorch"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    missed = False
    models = {"3 transformer blocks": (lambda width: nn.Sequential(*(Block(width, 4) for _ in range(3))),
                                       256, (4, 128, 256), 8, (1, 2, 8)),
              "3 convolutions with batch norm": (Batch, 64, (8, 64, 16, 16), 4, (2, 4, 4, 4))}
    for name, (make, wide, shape, small, tiny) in models.items():
        torch.manual_seed(0)
        figures = {kind.__name__: held(kind, make(wide), shape) for kind in (Theirs, Stage)}
        share = figures["Stage"][1] / figures["Theirs"][1]
        times, longer = compared(lambda: make(small), tiny, options.rounds)
        print(json.dumps({
            "model": name, "bytes after F, B, W": {"PyTorch": figures["Theirs"], "pipec": figures["Stage"]},
            "share after B": round(share, 3),
            "us of F, B, W": {who: [round(each) for each in times[who]] for who in ("PyTorch", "pipec")},
            "share of time": round(longer, 3)}))
        if make is not Batch:
            missed |= share > BYTES or longer > TIME
    return int(options.judge and missed)


if __name__ == "__main__":
    sys.exit(main())
