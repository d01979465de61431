"""Measures a model layer by layer and writes a spec of it, whole: pipec compile takes it as it is."""
import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time
import traceback
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

from .errors import Error, SpecError
from .running import Running
from .torch import shared
from .torch.layers import layers as cut_into_layers, make
from .torch.split import Stage
from .torch.traced import name_of
from .torch.trees import Tree, bytes_of, gradient_bytes_of, tensors_of

EXAMPLES = """\
examples:
  python -m pipec.profile model.py -o model.yaml               microbatches of one sample, two ranks
  python -m pipec.profile model.py --microbatch 4 --ranks 8
  python -m pipec.profile model.py --microbatch 1 2 4 8        times and sizes as {fixed, per_sample}
  torchrun --nproc-per-node 2 -m pipec.profile model.py        all ranks at once; then they train: links, and what that adds

MODEL.py has layers(), a list of modules or of what makes one, or model(), a module that pipec.torch.layers cuts; and
example(n), the first one's input of n samples. It may have keywords(n), {name: value} of further inputs, and
loss(output, target) with target(n). torch computes with one thread, unless OMP_NUM_THREADS says otherwise."""

WARM_UP = 3
TIMES = ("forward", "backward_input", "backward_weight", "backward")
SIZES = ("activation", "weight_context", "backward_context", "boundary", "boundary_gradient")  # the last where it is another
MODEL_SIZES = ("weights", "gradients", "optimizer_state")
FASTEST = 1e15  # bytes a second: a link on which these do not count


def say(text):
    if int(os.environ.get("RANK", 0)) == 0:
        print(f"profile: {text}", file=sys.stderr, flush=True)


class Model:
    """The functions of MODEL.py. What goes wrong in them is a SpecError with the line in that file."""

    def __init__(self, path):
        self.path = path
        if not pathlib.Path(path).is_file():
            raise SpecError("there is no such file", path)
        found = importlib.util.spec_from_file_location("_pipec_model", path)
        if found is None:
            raise SpecError("is no Python file: its name ends with .py", path)
        sys.path.insert(0, os.fspath(pathlib.Path(path).resolve().parent))
        self.module = sys.modules["_pipec_model"] = importlib.util.module_from_spec(found)  # dataclasses look there
        self.guard(found.loader.exec_module, self.module)
        for name in ("layers", "example"):
            if not callable(getattr(self.module, name, None)) and not (name == "layers" and hasattr(self.module, "model")):
                raise SpecError(f"it has no function {name}(): {_WHAT[name]}", path)
        self.loss = getattr(self.module, "loss", None)
        self._made, self._cut = None, {}
        if self.loss and not hasattr(self.module, "target"):
            raise SpecError(f"it has loss() and no function target(): {_WHAT['target']}", path)

    def guard(self, function, *arguments):
        try:
            return function(*arguments)
        except SpecError as error:
            raise error if error.file else SpecError(error.message, self.path) from error
        except Error:
            raise
        except Exception as error:
            own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                   if os.path.abspath(frame.filename) == os.path.abspath(self.path)]
            line = error.lineno if isinstance(error, SyntaxError) else own[-1] if own else None
            text = " ".join(str(error).split())
            raise SpecError(f"{type(error).__name__}: {text}", self.path, line, 1) from error

    def layers(self, samples, device):
        """Of microbatches of so many samples; the modules are always the same."""
        if self._made is None:
            made = self.guard(self.module.layers if hasattr(self.module, "layers") else self.module.model)
            if isinstance(made, torch.nn.Module):
                self._made = made.to(device)
            elif not isinstance(made, (list, tuple)) or not made:
                raise SpecError(f"layers() gives a {type(made).__name__}: {_WHAT['layers']}", self.path)
            else:
                self._made = [self.guard(make, each, number, 0).to(device) for number, each in enumerate(made)]
        if samples not in self._cut:
            example, keywords = self.tensor("example", samples, device), self.keywords(samples, device)
            self._cut[samples] = self.guard(lambda: cut_into_layers(self._made, example, **keywords))
        return self._cut[samples]

    def keywords(self, samples, device):
        if not hasattr(self.module, "keywords"):
            return {}
        made = self.guard(self.module.keywords, samples)
        if not isinstance(made, dict):
            raise SpecError(f"keywords({samples}) gives a {type(made).__name__}: let it give {{name: value}}", self.path)
        return tree_map(lambda each: each.to(device) if isinstance(each, torch.Tensor) else each, made)

    def tensor(self, name, samples, device):
        made = self.guard(getattr(self.module, name), samples)
        leaves = list(tree_iter(made))
        if not leaves or not all(isinstance(each, torch.Tensor) for each in leaves):
            raise SpecError(f"{name}({samples}) gives a {type(made).__name__}: {_WHAT[name]}", self.path)
        return tree_map(lambda each: each.to(device), made)


_WHAT = {"layers": "let it give a list of the model's modules, or of what makes one, from first to last, or let model() give the whole",
         "example": "let it give the first layer's input of so many samples, a tensor or a tuple or dict of tensors",
         "target": "let it give what the loss compares so many samples' output with, a tensor or a tuple or dict of tensors"}


class Storages(TorchDispatchMode):
    """Those that operations inside it have made. References are Python's own: with StorageWeakRef, plans crashed PyTorch 2.8."""

    def __init__(self):
        super().__init__()
        self.made = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        given = {each.untyped_storage()._cdata for each in tree_iter((args, kwargs)) if isinstance(each, torch.Tensor)}
        for each in tree_iter(found):
            if isinstance(each, torch.Tensor):
                storage = each.untyped_storage()
                if storage._cdata not in given:
                    self.made[storage._cdata] = weakref.ref(storage), storage.nbytes()
        return found

    def alive(self, *aside):
        """Their bytes, those of some tensors aside."""
        self.made = {key: each for key, each in self.made.items() if each[0]() is not None}
        keys = {each.untyped_storage()._cdata for value in aside for each in tensors_of(value)}
        return sum(size for each, (_, size) in self.made.items() if each not in keys)

    def freed(self, sweep, gradient):
        """Bytes that each layer, from first to last, frees in sweep(after, gradient); gradients on their way aside."""
        left = [self.alive(gradient)]
        sweep(lambda passed: left.append(self.alive(gradient, passed)), gradient)
        return [before - now for before, now in zip(left, left[1:])][::-1]


class Chain:
    """The layers, each a stage, on microbatches of so many samples. The next one takes what one gives, so that what
    both of them keep is one storage, as within a stage."""

    def __init__(self, layers, x, target=None, loss=None, keywords=None, clock=time.perf_counter, around=contextlib.nullcontext,
                 header=None):
        """x, target, keywords: of a microbatch. clock: seconds since some moment. around(): a context for forwards. header(value): bytes
        in front of what a layer gives, in its slot."""
        self.around, self.header = around, header or (lambda _: 0)
        self.layers, self.x, self.target, self.loss, self.keywords, self.clock = layers, x, target, loss, keywords, clock
        self.boundary = []

    def stages(self, split):
        last = len(self.layers) - 1
        return [Stage(layer, number=number, loss=self.loss if number == last else None, split=split)
                for number, layer in enumerate(self.layers)]

    def forward(self, stages, times):
        """F of all. Gives the gradient to begin from: None of a loss."""
        x, self.boundary = self.x, []
        wants_gradient = False
        for stage, took in zip(stages, times):
            stage.wants_gradient = wants_gradient
            begin = self.clock()
            with self.around():
                x = stage.forward(0, x, target=self.target, keywords=self.keywords)
            took["forward"].append(self.clock() - begin)
            wants_gradient = stage.needs_gradient(0)  # that of the next layer's input: frozen layers in front have none
            self.boundary.append((self.header(x) + bytes_of(x), gradient_bytes_of(x, wants_gradient)))
        if self.loss:
            return None
        if type(x) is Tree:
            return [torch.ones_like(each) for each, need in zip(x.tensors, x.needs) if need]
        return torch.ones_like(x)

    def backward(self, stages, times, name, gradient, after=None):
        """B or BW of all; after(gradient) of each."""
        for stage, took in zip(reversed(stages), reversed(times)):
            call = stage.backward if name == "backward" else stage.backward_input
            begin = self.clock()
            gradient = call(0, gradient)
            took[name].append(self.clock() - begin)
            if gradient is None and stage.wants_gradient:
                raise SpecError(f"the gradient ends at layer {stage.number}: its output does not depend on its input, "
                                "or this is of integers")
            if after:
                after(gradient)

    def backward_weight(self, stages, times, after=None):
        for stage, took in zip(reversed(stages), reversed(times)):
            begin = self.clock()
            stage.backward_weight(0)
            took["backward_weight"].append(self.clock() - begin)
            if after:
                after(None)

    def measure(self, repeat, warm_up=WARM_UP):
        """Of each layer a dict of seconds and bytes."""
        whole, parts = self.stages(split=False), self.stages(split=True)
        times = [{name: [] for name in TIMES} for _ in self.layers]
        for turn in range(warm_up + repeat):
            if turn == warm_up:
                times = [{name: [] for name in TIMES} for _ in self.layers]
            self.backward(whole, times, "backward", self.forward(whole, times))
            self.backward(parts, times, "backward_input", self.forward(parts, times))
            self.backward_weight(parts, times)
        rows = [{name: statistics.median(values) for name, values in each.items()} for each in times]
        for number, (row, kept, context, (boundary, back)) in enumerate(zip(rows, *self.held(whole, parts), self.boundary)):
            kept, context = max(kept, 0), max(context, 0)
            # Net: what B frees, or makes, in all.
            row["activation"], row["backward_context"] = max(kept - context, 0), max(context - kept, 0)
            row["weight_context"], row["boundary"] = min(kept, context), boundary
            if back != boundary and number + 1 < len(self.layers):
                row["boundary_gradient"] = back
        return rows

    def held(self, whole, parts):
        """Bytes that each layer holds after F, and after B; what two of them hold is the earlier one's. They are those
        that its BW, and its W, frees."""
        times = [{name: [] for name in TIMES} for _ in self.layers]
        with Storages() as storages:
            kept = storages.freed(lambda after, gradient: self.backward(whole, times, "backward", gradient, after),
                                  self.forward(whole, times))
            self.backward(parts, times, "backward_input", self.forward(parts, times))
            context = storages.freed(lambda after, _: self.backward_weight(parts, times, after), None)
        return kept, context


def autocast(name, device):
    """What makes the context of forwards."""
    if name is None:
        return contextlib.nullcontext
    return lambda: torch.autocast(device.type, {"bf16": torch.bfloat16, "fp16": torch.float16}[name])


def clock(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def of_model(layer, repeat, device):
    """Weights, gradients, AdamW's two moments, and the time of one update."""
    parameters, trained = list(layer.parameters()), [each for each in layer.parameters() if each.requires_grad]
    row = {"weights": sum(each.nbytes for each in (*parameters, *layer.buffers())),
           "gradients": sum(each.nbytes for each in trained), "optimizer": 0.0}
    row["optimizer_state"] = 2 * row["gradients"]
    if trained:
        times, optimizer = [], torch.optim.AdamW(trained, lr=0.0, weight_decay=0.0)
        gradients = [each.grad for each in trained if each.grad is not None]
        for _ in range(WARM_UP + repeat):
            begin = clock(device)
            if gradients:
                torch._foreach_div_(gradients, 1.0)  # their mean
            optimizer.step()
            times.append(clock(device) - begin)
        row["optimizer"] = statistics.median(times[WARM_UP:])
    return row


def line(points):
    """(fixed, per sample), neither below 0, by least squares over (samples, value)."""
    xs, ys = zip(*points)
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x in xs)
    if mean_y - slope * mean_x < 0:
        return 0.0, sum(x * y for x, y in points) / sum(x * x for x in xs)
    return (mean_y, 0.0) if slope < 0 else (mean_y - slope * mean_x, slope)


def structure(layer):
    """What two layers of one kind have alike."""
    return repr(layer), [(name, each.shape, each.dtype) for name, each in layer.state_dict().items()]


def median(values):
    """Of numbers, or of lists of numbers."""
    return [median(each) for each in zip(*values)] if isinstance(values[0], list) else statistics.median(values)


def merged(layers, rows):
    """Layers next to each other that are built alike and hold the same become one, with the medians of their times."""
    groups = []
    for layer, row in zip(layers, rows):
        key = structure(layer), {name: value for name, value in row.items() if name in SIZES + MODEL_SIZES}
        if groups and groups[-1][0] == key:
            groups[-1][2].append(row)
        else:
            groups.append((key, name_of(layer), [row]))
    return [{"name": name, "count": len(rows), **rows[0],
             **{key: median([row[key] for row in rows]) for key in (*TIMES, "optimizer")}} for _, name, rows in groups]


class Ranks:
    """The processes that torchrun has started, or this one alone."""

    def __init__(self):
        self.count, self.rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        if self.count > 1:
            torch.distributed.init_process_group("gloo")

    def median(self, rows):
        """Of what all ranks have measured, [{name: number}] each."""
        if self.count == 1:
            return rows
        every = [None] * self.count
        torch.distributed.all_gather_object(every, rows)
        return [{name: median([row[name] for row in alike]) for name in alike[0]} for alike in zip(*every)]

    def close(self):
        if self.count > 1:
            torch.distributed.destroy_process_group()


def duration(seconds):
    return f"{seconds * 1e6:.3f}us"


def size(count):
    return f"{round(count)}B"


def by_sample(text, value):
    return f"{{fixed: {text(value[0])}, per_sample: {text(value[1])}}}" if isinstance(value, list) else text(value)


def spec(found):
    """The text of a spec."""
    ranks, samples = found["ranks"], found["microbatch"]
    shape = f"microbatches: {2 * ranks}"
    if len(samples) > 1:
        shape = f"batch: {2 * ranks * samples[0]}, microbatch_size: {samples[0]}"
    of = f"microbatches of {' and '.join(map(str, samples))}"
    lines = [f"# {found['model']}, {of}, by pipec.profile: PyTorch {found['torch']}, {found['device']}, "
             f"{found['threads']} thread{'s' * (found['threads'] > 1)}, medians of {found['repeat']}.",
             "pipec: 1", f"pipeline: {{ranks: {ranks}, {shape}, cut: auto}}", "layers:"]
    for row in found["layers"]:
        lines += [f"  - name: {row['name']}"] + [f"    count: {row['count']}"] * (row["count"] > 1)
        lines += [f"    {name}: {by_sample(duration, row[name])}" for name in TIMES]
        lines += [f"    {name}: {by_sample(size, row[name])}" for name in SIZES if name in row]
        lines += [f"    {name}: {size(row[name])}" for name in MODEL_SIZES]
        lines[-1] += "  # AdamW's two moments"
        lines += [f"    optimizer: {duration(row['optimizer'])}"]
    if found["shared"]:
        lines += ["shared:", *(f"  - {{layers: {each['layers']}, gradients: {each['gradients']}}}" for each in found["shared"])]
    if found["links"]:
        lines += ["costs:", "  links:"]
        for left, (latency, bandwidth) in enumerate(found["links"]):
            measured = f"latency: {duration(latency)}, bandwidth: {bandwidth / 1e9:.6f}GB/s"
            lines += [f"    - {{from: {a}, to: {b}, {measured}}}" for a, b in ((left, left + 1), (left + 1, left))]
    else:
        lines += ["# costs: {link: {latency: 10us, bandwidth: 10GB/s}}   not measured: torchrun -m pipec.profile does"]
    return "\n".join([*lines, "schedule: 1f1b", ""])


def profile(given):
    ranks = Ranks()
    try:
        device = torch.device(given.device)
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        model = Model(given.model)
        layers = model.layers(given.microbatch[0], device)
        around = autocast(given.autocast, device)
        count = given.ranks or (ranks.count if ranks.count > 1 else 2)
        if count > len(layers):
            raise SpecError(f"{count} ranks are more than its {len(layers)} layers", given.model)
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        found = {"model": os.path.basename(given.model), "microbatch": given.microbatch, "ranks": count,
                 "torch": torch.__version__, "device": name, "threads": torch.get_num_threads(),
                 "repeat": given.repeat, "links": [], "shared": shared.said(layers)}

        def measure(samples, repeat):
            say(f"{len(layers)} layers on microbatches of {samples}")
            chain = Chain(model.layers(samples, device), model.tensor("example", samples, device),
                          model.loss and model.tensor("target", samples, device), model.loss, model.keywords(samples, device),
                          lambda: clock(device), around)
            return ranks.median(model.guard(chain.measure, repeat))

        points = {samples: measure(samples, given.repeat) for samples in given.microbatch}
        say("the optimizer")
        updates = ranks.median([of_model(layer, given.repeat, device) for layer in layers])
        if ranks.count == count and count > 1 and device.type == "cpu":
            more = {} if len(points) > 1 else {2 * n: measure(2 * n, 1) for n in points}  # links by bytes
            found["links"] = in_a_run(Running(model, given.repeat, around), found, layers, points, more, updates)
        rows = points[given.microbatch[0]]
        if len(points) > 1:
            rows = [{name: list(line([(n, points[n][at].get(name, points[n][at]["boundary"])) for n in points])) for name in row}
                    for at, row in enumerate(rows)]
        for row, of in zip(rows, updates):
            row.update(of)
        found["layers"] = merged(layers, rows)
    finally:
        ranks.close()
    return found if ranks.rank == 0 else None


def in_a_run(running, found, layers, points, more, updates):
    """Corrects what layers take alone by what they take where all ranks train. Gives [(latency, bytes a second)] of each two
    neighbours."""
    links, optimizer = [[] for _ in range(found["ranks"] - 1)], []
    for samples, rows in {**points, **more}.items():
        say(f"{found['ranks']} ranks that train on microbatches of {samples}")
        whole = [{**row, **of} for row, of in zip(rows, updates)]
        text = spec({**found, "microbatch": [samples], "layers": merged(layers, whole)})
        ratios, taken = running.model.guard(running.train, text, whole, samples)
        for link, times in zip(links, taken):
            link += times
        if samples in points:
            for row in rows:
                row.update({name: row[name] * ratios[name] for name in TIMES})
            optimizer.append(ratios["optimizer"])
    for of in updates:
        of["optimizer"] *= statistics.fmean(optimizer)
    lines = [line(link) if len({size for size, _ in link}) > 1 else (median([took for _, took in link]), 0.0) for link in links]
    return [(latency, 1 / max(a_byte, 1 / FASTEST)) for latency, a_byte in lines]


def as_json(found):
    """In milliseconds, as pipec's other JSON."""
    def milliseconds(value):
        return [each * 1e3 for each in value] if isinstance(value, list) else value * 1e3

    rows = [{f"{name}_ms" if name in TIMES or name == "optimizer" else name:
             milliseconds(value) if name in TIMES or name == "optimizer" else value for name, value in row.items()}
            for row in found["layers"]]
    links = [{"latency_ms": latency * 1e3, "bytes_per_s": bandwidth} for latency, bandwidth in found["links"]]
    return json.dumps({**found, "layers": rows, "links": links})


def positive(text):
    if int(text) < 1:
        raise ValueError
    return int(text)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m pipec.profile", description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.py")
    parser.add_argument("--microbatch", metavar="N", type=positive, nargs="+", default=[1],
                        help="samples of a microbatch (default: 1); of several, the spec runs the first")
    parser.add_argument("--ranks", metavar="P", type=positive, help="default: 2, or as many as torchrun has started")
    parser.add_argument("-o", metavar="SPEC", dest="output", help="the file to write (default: standard output)")
    parser.add_argument("--device", default="cpu", help="where the layers compute (default: cpu)")
    parser.add_argument("--autocast", choices=("bf16", "fp16"), help="run forwards under torch.autocast, in this type")
    parser.add_argument("--repeat", metavar="N", type=positive, default=20, help="measurements of a time (default: 20)")
    parser.add_argument("--json", action="store_true", help="print what was measured")
    given = parser.parse_args(arguments)
    given.microbatch = list(dict.fromkeys(given.microbatch))
    try:
        found = profile(given)
        if found is None:
            return 0
        text = spec(found)
        if given.output:
            pathlib.Path(given.output).write_text(text, encoding="utf-8")
            say(f"wrote {given.output}")
    except Error as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"profile: {given.output}: {error.strerror}", file=sys.stderr)
        return 1
    if given.json:
        print(as_json(found))
    elif not given.output:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
