"""Times the stages of a PyTorch model and prints the costs: and tensors: of a spec.

  measure.py my_model.py --microbatch 4 [--device cuda] [--optimizer adam]

my_model.py has two functions: stages(), a list of modules, each taking what the one before it returns (one tensor), and
example(microbatch), what the first one takes. Forward, the backward for the input and the one for the weights are timed
as torch.distributed.pipelining splits them (its stage_backward_input and stage_backward_weight), the median of --repeat
runs. What backwards keep is counted as autograd keeps it; of the model itself, weights, gradients and the optimizer's
two moments (adam) or one (sgd). Links are not measured: put your network's latency and bandwidth there.
"""
import argparse
import importlib.util
import statistics
import sys
import time
import weakref

import torch
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight


class Saved:
    """What autograd keeps of one tensor; alive for as long as the graph wants it."""

    def __init__(self, tensor):
        self.tensor = tensor


class Keeps:
    """Counts the bytes that graphs made inside it keep, each storage once; weights are not counted."""

    def __init__(self, weights):
        self.own = {weight.untyped_storage().data_ptr() for weight in weights}
        self.saved = []

    def __enter__(self):
        def pack(tensor):
            saved = Saved(tensor)
            self.saved.append(weakref.ref(saved))
            return saved

        self.hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor)
        self.hooks.__enter__()
        return self

    def __exit__(self, *error):
        self.hooks.__exit__(*error)

    def bytes(self):
        alive = [each().tensor.untyped_storage() for each in self.saved if each() is not None]
        return sum({each.data_ptr(): each.nbytes() for each in alive if each.data_ptr() not in self.own}.values())


class Clock:
    def __init__(self, device):
        self.device = device

    def now(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def run(stage, x, clock):
    """One microbatch through one stage: seconds of F, B and W, bytes kept until B and until W, and the output."""
    weights = [weight for weight in stage.parameters() if weight.requires_grad]
    x = x.detach().requires_grad_(x.is_floating_point())
    with Keeps(weights) as keeps:
        begin = clock.now()
        y = stage(x)
        forward = clock.now() - begin
    if y._is_view():  # up to 2.9 the split backward cannot detach a view
        y = y.clone()
    output, gradient = y.detach(), torch.ones_like(y)
    held = keeps.bytes()
    if not x.requires_grad:  # the first stage of a language model takes integers: its whole backward is W
        begin = clock.now()
        torch.autograd.backward(y, gradient)
        return (forward, 0.0, clock.now() - begin), held, held, output
    begin = clock.now()
    _, groups = stage_backward_input((y,), (gradient,), (x,), iter(weights))
    backward = clock.now() - begin
    del y
    context = keeps.bytes()
    begin = clock.now()
    stage_backward_weight(iter(weights), groups)
    return (forward, backward, clock.now() - begin), held, context, output


def measure(stages, x, repeat, clock):
    rows = []
    for stage in stages:
        times = []
        for _ in range(repeat + 2):
            stage.zero_grad()
            seconds, held, context, y = run(stage, x, clock)
            times.append(seconds)
        medians = [statistics.median(each) for each in zip(*times[2:])]  # the first two warm up
        weights = sum(weight.numel() * weight.element_size() for weight in stage.parameters())
        rows.append((*medians, y.numel() * y.element_size(), max(held - context, 0), context, weights))
        x = y
    return rows


def duration(seconds):
    return f"{max(seconds, 1e-9) * 1e6:.3f}us"


def size(count):
    return f"{int(count)}B"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--microbatch", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--optimizer", choices=("adam", "sgd", "none"), default="adam")
    parser.add_argument("--repeat", type=int, default=20)
    given = parser.parse_args()
    found = importlib.util.spec_from_file_location("model", given.model)
    model = importlib.util.module_from_spec(found)
    found.loader.exec_module(model)
    device = torch.device(given.device)
    stages = [stage.to(device) for stage in model.stages()]
    rows = measure(stages, model.example(given.microbatch).to(device), given.repeat, Clock(device))
    states = {"adam": 2, "sgd": 1, "none": 0}[given.optimizer]

    def each(column, text, scale=1):
        values = [text(row[column] * scale) for row in rows]
        return values[0] if len(set(values)) == 1 else "[" + ", ".join(values) + "]"

    what = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"# {len(rows)} stages, microbatches of {given.microbatch}, torch {torch.__version__}, {what}, median of "
          f"{given.repeat}")
    print("costs:")
    for column, name in enumerate(("forward", "backward_input", "backward_weight")):
        print(f"  {name}: {each(column, duration)}")
    print("  link: {latency: 10us, bandwidth: 25GB/s}  # not measured: your network's")
    print("tensors:")
    for column, name in ((3, "boundary"), (4, "activation"), (5, "weight_context"), (6, "gradients")):
        print(f"  {name}: {each(column, size)}")
    print(f"  static: {each(6, size, 2 + states)}  # weights, gradients, {given.optimizer}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
