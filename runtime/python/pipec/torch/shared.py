"""A parameter that layers of several stages hold. Where the plan's `shared` names these layers, each rank that holds it has one
copy, and the runtime sums the copies' gradients once a step (SharedWeights). Any other is refused: nobody would sum its gradients."""
import base64
import ctypes
import gc
import json

import torch
from torch.utils.weak import WeakIdKeyDictionary

from .. import _library as lib
from ..errors import SpecError
from .checks import checksum
from .replicas import TYPES
from .wrapped import local

_MOST = 128  # parameters that a rank tells the others of, the largest
_PART = 45_000  # bytes of a weight that fit into a text between ranks
_OF_ALL = -1  # lib.Layer.stage of a weight that several ranks share
_places = WeakIdKeyDictionary()  # by parameter: {stage: "layer N's NAME"} of all stages that hold it
_layers = WeakIdKeyDictionary()  # likewise: [layer] of the model


def note(cut, layers):
    """Keeps which parameters the modules among a model's layers have in common, across stages."""
    found, number = {}, 0
    for stage, count in enumerate(cut):
        for layer in layers[number:number + count]:
            if isinstance(layer, torch.nn.Module):
                for name, p in layer.named_parameters():
                    _, places, numbers = found.setdefault(id(p), (p, {}, []))
                    places.setdefault(stage, f"layer {number}'s {name}")
                    numbers.append(number)
            number += 1
    for p, places, numbers in found.values():
        if len(places) > 1:
            _places[p], _layers[p] = places, numbers


def said(layers):
    """What a spec says of the trained parameters that several of a model's layers hold: its `shared`."""
    found = {}
    for number, layer in enumerate(layers):
        for p in {id(p): p for p in layer.parameters() if p.requires_grad}.values():
            found.setdefault(id(p), (p, []))[1].append(number)
    return [{"layers": numbers, "gradients": f"{p.numel() * p.element_size()}B"} for p, numbers in found.values() if len(numbers) > 1]


class _Copy:
    """A shared weight on a rank that holds it. number: in the plan's facts["shared"]. parts: {stage: parameter} of the rank's
    stages, in their order. layer: of the first part, in its stage. The first part's gradient is what the runtime sums, behind the
    last backward of the last part: by then fold() has added the others', in the order of stages."""

    def __init__(self, number, fact, parts, layer):
        self.number, self.fact, self.parts, self.layer = number, fact, parts, layer
        self.first = next(iter(parts.values()))
        self.weights = self.gradients = None  # flat
        self._of_parts, self._left = {}, {}  # gradients of the other parts; of each stage, how many layers' backwards are due

    @property
    def stage(self):
        """That has the part which is stepped."""
        return next(iter(self.parts))

    @property
    def is_summed(self):
        return len(self.fact["ranks"]) > 1

    def flatten(self, modules):
        """Puts all parts into one memory, and gives each a gradient of its own."""
        first = self.first
        self.weights = first.detach().clone().flatten()
        self.gradients = torch.zeros_like(self.weights)
        first.data = self.weights.view(first.shape)
        for stage, p in list(self.parts.items())[1:]:
            own = self.parts[stage] = torch.nn.Parameter(first.data, requires_grad=first.requires_grad)
            for owner in modules[stage].modules():
                owner._parameters.update({name: own for name, each in owner._parameters.items() if each is p})
        self._of_parts = {p: torch.zeros_like(first.data) for p in list(self.parts.values())[1:]}

    def attach(self):
        """Before a step: gradients are where they are summed."""
        if self.first.data_ptr() != self.weights.data_ptr():
            raise SpecError(f"the weight that layers {_and(self.fact['layers'])} share lies elsewhere than when the run began, where "
                            "ranks do not sum it: write into it, or begin a run with it")
        if self.first.requires_grad:
            self.first.grad = self.gradients.view(self.first.shape)
            for p, gradient in self._of_parts.items():
                p.grad = gradient
        self._left = {}

    def passed(self, stage, layers, due):
        """A backward of the weights of some layers of a stage has run, of so many that are due in a step."""
        if stage not in self.parts:
            return
        self._left[stage] = self._left.get(stage, due) - layers
        if len(self._left) == len(self.parts) and not any(self._left.values()):
            for p, gradient in self._of_parts.items():
                self.gradients.add_(gradient.flatten())
                gradient.zero_()
                p.grad = None  # an optimizer of all parameters steps the weight once

    def said(self):
        return [f"stage {self.stage}", list(self.first.shape), str(self.first.dtype).removeprefix("torch."), self.first.requires_grad,
                checksum(self.weights).item()]


def _and(numbers):
    return ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"


class SharedWeights:
    """Those of the plan that this rank's stages hold. modules: {stage: module}."""

    def __init__(self, plan, process, modules):
        self._plan, self._process = plan, process
        self.copies = []
        for number, fact in enumerate(plan.facts["shared"]):
            parts = {stage: _find(plan, fact, stage, modules[stage]) for stage in fact["stages"] if stage in modules}
            if parts and len(fact["stages"]) > 1:
                first, _ = _range(plan, next(iter(parts)))
                layer = next(each for each in fact["layers"] if each >= first) - first
                self.copies.append(_Copy(number, fact, parts, layer))
        self.held = {id(p) for copy in self.copies for p in copy.parts.values()}
        self._aliases, self._elsewhere = set(), set()

    def flatten(self, modules):
        for copy in self.copies:
            copy.flatten(modules)
            first, *others = copy.parts.values()
            self._aliases.update(map(id, others))
            if copy.fact["ranks"][0] != self._process // self._plan.degree:
                self._elsewhere.add(id(first))
        self.held = {id(p) for copy in self.copies for p in copy.parts.values()}

    def is_alias(self, p):
        """Whether another stage of this rank has the copy that is stepped."""
        return id(p) in self._aliases

    def counts_elsewhere(self, p):
        """Whether another rank counts it in the norm of all gradients."""
        return id(p) in self._elsewhere or id(p) in self._aliases

    def attach(self):
        for copy in self.copies:
            copy.attach()

    def of(self, stage, layer=None):
        """The copies that are stepped with a stage, or with one of its layers."""
        return [copy for copy in self.copies if copy.stage == stage and layer in (None, copy.layer)]

    def zero(self, copies):
        for copy in copies:
            copy.gradients.zero_()

    def passed(self, what):
        """A backward of weights has run."""
        if self.copies:
            count = _range(self._plan, what.stage)[1]
            for copy in self.copies:
                copy.passed(what.stage, what.layers or count, count * what.microbatches)

    def described(self):
        """[lib.Layer] of those that the runtime sums."""
        return [lib.Layer(size=ctypes.sizeof(lib.Layer), type=TYPES[copy.weights.dtype], stage=_OF_ALL, layer=copy.number,
                          gradients=copy.gradients.data_ptr(), weights=copy.weights.data_ptr(), elements=copy.weights.numel())
                for copy in self.copies if copy.is_summed]

    def begin_equal(self, session):
        """Once the ranks have met: all copies are of one shape and have the first one's numbers."""
        own = {copy.number: copy for copy in self.copies if copy.is_summed}
        for number, fact in enumerate(self._plan.facts["shared"]):
            if len(fact["ranks"]) < 2:
                continue
            copy, degree = own.get(number), self._plan.degree
            if copy is not None:
                session.put(f"shared/{number}/{self._process}", json.dumps(copy.said()))
            holders = [rank * degree + replica for rank in fact["ranks"] for replica in range(degree)]
            said = [json.loads(session.get(f"shared/{number}/{process}")) for process in holders]
            for process, row in zip(holders, said):
                if row[1:4] != said[0][1:4]:
                    shapes = [f"{where} (rank {at // degree}) has {tuple(shape)} {dtype}{'' if trained else ', frozen'}"
                              for at, (where, shape, dtype, trained, _) in ((holders[0], said[0]), (process, row))]
                    raise SpecError(f"layers {_and(fact['layers'])} do not share one weight, as the plan's shared says: {' and '.join(shapes)}",
                                    self._plan.name)
            if any(row[4] != said[0][4] for row in said):
                self._send(session, copy, fact, self._process == holders[0])

    def _send(self, session, copy, fact, sends):
        """The first holder's numbers to the others."""
        parts = range(0, fact["gradients"], _PART)
        flat = None if copy is None else copy.weights.cpu().view(torch.uint8)
        for part in parts:
            text = base64.b64encode(bytes(flat[part:part + _PART].tolist())).decode() if sends else None
            found = next(each for each in session.all_say(text) if each is not None)
            if flat is not None and not sends:
                flat[part:part + _PART] = torch.tensor(list(base64.b64decode(found)), dtype=torch.uint8)
        if flat is not None and not sends:
            copy.weights.copy_(flat.view(copy.weights.dtype))


def _range(plan, stage):
    """The first layer of a stage, and how many it has; without a cut a stage is one layer."""
    if not plan.cut:
        return stage, 1
    return sum(plan.cut[:stage]), plan.cut[stage]


def _find(plan, fact, stage, module):
    """The parameter of a stage's module that is the plan's shared weight: that which pipec.torch.stages has seen in these layers,
    else the only one of so many bytes in the stage's layer."""
    first, count = _range(plan, stage)
    layer = next(each for each in fact["layers"] if first <= each < first + count)
    inside = module[layer - first] if isinstance(module, torch.nn.Sequential) and len(module) == count else module
    found = {id(p): (name, p) for name, p in inside.named_parameters() if p.numel() * p.element_size() == fact["gradients"]}
    noted = {key: row for key, row in found.items() if set(fact["layers"]) <= set(_layers.get(row[1], ()))}
    where = f"layer {layer} (stage {stage})"
    if len(noted or found) != 1:
        what = "no parameter" if not found else f"the parameters {', '.join(name for name, _ in found.values())}"
        raise SpecError(f"{where} has {what} of {fact['gradients']} bytes, the plan says that layers {_and(fact['layers'])} share one: set "
                        "the bytes of its gradients in `shared`, and let the layers have one parameter", plan.name)
    name, p = next(iter((noted or found).values()))
    if p.dtype not in TYPES:
        raise SpecError(f"{where} shares {name}, of {p.dtype}: ranks sum float32 or float64", plan.name)
    return p


def _refused(plan, one, other, p):
    """one, other: (stage, what of it)."""
    ranks = {each.stage: rank for rank in range(plan.ranks) for each in plan.stages(rank)}
    places = [f"stage {stage} {what} (rank {ranks[stage]})" for stage, what in sorted((one, other))]
    layers = sorted(set(_layers.get(p, ()))) or "[…]"
    return SpecError(f"{places[0]} and {places[1]} are one parameter: each rank would train a copy, and the copies drift apart. Say so in "
                     f"the spec (shared: [{{layers: {layers}, gradients: {p.numel() * p.element_size()}B}}]), cut the pipeline so that one "
                     "stage has both (pipeline.cut), give one of them weights of its own, or freeze it (requires_grad_(False))", plan.name)


def check_noted(plan, modules, held):
    """Refuses a parameter that other ranks' stages have too, as note() has seen. held: ids of those of the plan."""
    for stage, module in modules.items():
        for p in filter(lambda p: p.requires_grad and id(p) not in held, module.parameters()):
            places = _places.get(p, {})
            for other in places.keys() - modules.keys():
                if stage in places:
                    raise _refused(plan, (stage, places[stage]), (other, places[other]), p)


def _trained(modules, held):
    return {id(p): (stage, name, p) for stage, module in modules.items() for name, p in module.named_parameters()
            if p.requires_grad and id(p) not in held}


def _told(p):
    """What a copy in another process has in common with a parameter; None: it says too little."""
    with torch.no_grad():
        own = local(p)
        if own.numel() < 2 or bool((own == own.flatten()[0]).all()):
            return None
        return f"{p.dtype} {tuple(p.shape)} {checksum(own).item()}"


def held_elsewhere(modules, held):
    """A text of those parameters of a rank that a module outside of its stages holds too, as a tied head does whose embedding is
    another rank's. held: ids of those that the plan shares."""
    own, inside = _trained(modules, held), {id(each) for module in modules.values() for each in module.modules()}
    found = {}
    for each in gc.get_objects():
        if issubclass(type(each), torch.nn.Module) and id(each) not in inside:
            found.update({id(p): own[id(p)] for p in each.__dict__.get("_parameters", {}).values() if id(p) in own})
    largest = sorted(found.values(), key=lambda row: -row[2].numel())[:_MOST]
    return json.dumps([[stage, name, told] for stage, name, p in largest if (told := _told(p))])


def compare(plan, modules, held, said):
    """Refuses a parameter of this rank that another rank's stage holds too. said: what held_elsewhere gave on the ranks."""
    theirs = [row for text in said for row in json.loads(text) if row[0] not in modules]
    for stage, name, p in _trained(modules, held).values() if theirs else ():
        told = _told(p)
        for other, its, same in theirs:
            if told == same:
                raise _refused(plan, (stage, name), (other, its), p)
