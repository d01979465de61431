"""What a model's forward does, call by call: recorded once on an example, then played back in parts, one part a layer.

Two kinds of calls are recorded. A *module* is called as a whole: a block, an embedding, a norm. A *function* is what the code between
these calls does with tensors: it makes a mask, adds two embeddings. Only the modules on the way to the blocks (a model, its decoder,
the list of its blocks) are looked into. So blocks stay what they are, with hooks, modes and names of weights, and may do
what a tracer cannot follow."""
import contextlib
import dataclasses
import enum
import logging
import types

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..errors import SpecError
from .random import restore, states

WAY_OUT = "pass pipec.torch.layers a list of modules instead, each of which takes what the one before gives"
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
          slice, range, type(Ellipsis), enum.Enum, type, types.FunctionType, types.BuiltinFunctionType)
# What says nothing of a tensor's numbers.
_OF_SHAPES = {"size", "dim", "ndimension", "numel", "nelement", "element_size", "itemsize", "stride", "is_contiguous", "is_floating_point",
              "is_complex", "is_signed", "get_device", "storage_offset", "__len__", "is_tensor", "result_type", "promote_types", "can_cast",
              "__get__", "type", "is_inference", "is_conj", "is_neg", "__hash__", "is_nested", "is_sparse"}


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of a recording: what a call gives, the leaf so-and-so of its tree; of call None, of the input or of a keyword."""
    call: int | None
    leaf: int
    keyword: str | None = None


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A parameter or buffer of the model, or a tensor that it keeps: by its name in the model."""
    name: str


class Stand(enum.Enum):
    """Stands in a call's arguments for what is known when it is played back."""
    MODE = enum.auto()  # the mode of the model, as in F.dropout(x, 0.1, self.training)
    DEVICE = enum.auto()  # that of the input


@dataclasses.dataclass(frozen=True)
class Side:
    """A tensor that a module gives within one that is called: the leaf so-and-so of what it gives at its turn."""
    module: str
    turn: int
    leaf: int


@dataclasses.dataclass
class Call:
    """what: a function, or the name of a module. leaves, structure: its (args, kwargs) as a tree, with Value, Attribute and Stand in
    place of tensors and what they name. gives: the tree of its output; None: it changes its first tensor."""
    what: object
    leaves: list
    structure: object
    gives: object
    grad: bool  # whether gradients were on
    layer: int = 0
    free: bool = False  # depends on keywords alone, so that whoever needs it makes it
    sides: list = dataclasses.field(default_factory=list)  # Value(…, -1 - n) is the n-th of these

    @property
    def is_module(self):
        return isinstance(self.what, str)


@dataclasses.dataclass
class Recording:
    """calls: in their order. input, output: trees, (leaves, structure). keywords: {name: a tree}. kinds: {Value: (dtype, shape)}. tensors:
    {name: tensor} of each Attribute. saved: names in the model's state. training: the mode that was recorded, None: both."""
    calls: list
    input: tuple
    output: tuple
    keywords: dict
    kinds: dict
    tensors: dict
    saved: set
    training: bool | None

    @property
    def layers(self):
        return 1 + max((call.layer for call in self.calls), default=0)


def _elements(model):
    """{module: name} of what layers begin with: the elements of the outermost ModuleLists, or where there are none of Sequentials, or of
    ModuleDicts whose elements are of one type."""
    for kind in (nn.ModuleList, nn.Sequential, nn.ModuleDict):
        found = {}

        def look(module, name):
            for key, child in module.named_children():
                path = f"{name}.{key}" if name else key
                of_blocks = kind is not nn.ModuleDict or len({*map(type, child.children())}) == 1
                if isinstance(child, kind) and len(child) > 1 and of_blocks:
                    found.update({each: f"{path}.{number}" for number, each in child.named_children()})
                else:
                    look(child, path)
        look(model, "")
        if found:
            return found
    raise SpecError(f"a {type(model).__name__} has no ModuleList, Sequential or ModuleDict of blocks in it, where it could be cut: {WAY_OUT}")


class _Recorder(TorchFunctionMode):
    """Notes the calls of a model's forward. blocks: {module: name} of those with which layers begin. real: whether modules compute;
    otherwise they give tensors of zeros, as far as their shapes can be known without numbers."""

    def __init__(self, model, blocks, real):
        super().__init__()
        self.model, self.blocks = model, blocks
        self.names = {each: name for name, each in model.named_modules()}
        starts = tuple(f"{name}." for name in blocks.values())
        # What is looked into: the modules that have blocks in them.
        self.open = {each for each, name in self.names.items() if any(start.startswith(f"{name}." if name else "") for start in starts)
                     and each not in blocks}
        self.attributes = {id(each): name for name, each in (*model.named_parameters(), *model.named_buffers(), *_kept(model))}
        self.calls, self.values, self.alive = [], {}, []
        self.real = real
        self.sides = {}  # {id of a tensor that a module gives within one that is called: (number of the call, Side)}
        self.views = {}  # {storage: ids of tensors}
        self.free = {}  # {Value: whether it depends on keywords alone}
        self.kinds, self.tensors = {}, {}
        self.inside, self.layer, self.device = False, 0, None

    def begin(self, tree, keyword=None):
        """Notes the tensors of the input, or of a keyword."""
        leaves, structure = pytree.tree_flatten(tree)
        noted = []
        for number, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                value = Value(None, number, keyword)
                self.keep(leaf, value, keyword is not None)
                leaf = value
            noted.append(leaf)
        return noted, structure

    def keep(self, tensor, value, free):
        self.values[id(tensor)], self.free[value] = value, free
        with torch._C.DisableTorchFunction():  # which would note it
            self.kinds[value] = tensor.dtype, tensor.shape
        self.views.setdefault(tensor.untyped_storage()._cdata, set()).add(id(tensor))
        self.alive.append(tensor)

    def __torch_function__(self, func, types, args=(), kwargs=None):  # noqa: A002
        kwargs = kwargs or {}
        if self.inside:
            return func(*args, **kwargs)
        before = states()
        grad = torch.is_grad_enabled()
        found = func(*args, **kwargs)
        self.note(func, args, kwargs, found, grad, any(not torch.equal(state, generator.get_state()) for generator, state in before))
        return found

    def call(self, ordinary, module, args, kwargs):
        """A module's call."""
        name = self.names.get(module)
        if self.inside and self.real and name is not None:
            return self.within(name, ordinary(module, *args, **kwargs))
        if self.inside or name is None or module in self.open:
            return ordinary(module, *args, **kwargs)
        if module in self.blocks:
            self.layer += bool(self.calls)
        grad = torch.is_grad_enabled()
        self.inside = True
        try:
            self.turns = {}
            found = ordinary(module, *args, **kwargs) if self.real else self.output(ordinary, module, args, kwargs)
            self.note(name, args, kwargs, found, grad, True)
        finally:
            self.inside = False
        return found

    def within(self, name, found):
        """Notes what a module gives that a recorded one calls: something may keep it for the code behind that."""
        turn = self.turns[name] = self.turns.get(name, -1) + 1
        for at, leaf in enumerate(pytree.tree_leaves(found)):
            if isinstance(leaf, torch.Tensor):
                self.sides.setdefault(id(leaf), (len(self.calls), Side(name, turn, at)))
                self.alive.append(leaf)
        return found

    @staticmethod
    def output(ordinary, module, args, kwargs):
        """What a module gives, without its numbers where it can be had without them: these need no time and no memory."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        leaves, structure = pytree.tree_flatten((args, kwargs))
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        try:
            with _unlogged("torch._subclasses.fake_tensor"), FakeTensorMode(allow_non_fake_inputs=True) as mode:
                fakes = {id(each): mode.from_tensor(each) for each in tensors}
                faked = pytree.tree_unflatten([fakes.get(id(each), each) for each in leaves], structure)
                found, gives = pytree.tree_flatten(ordinary(module, *faked[0], **faked[1]))
            originals = {id(fakes[id(each)]): each for each in tensors}
            made = [originals[id(each)] if id(each) in originals else
                    torch.zeros(each.shape, dtype=each.dtype, device=each.device).requires_grad_(each.requires_grad)
                    if isinstance(each, torch.Tensor) else each for each in found]
            return pytree.tree_unflatten(made, gives)
        except Exception:  # it does what needs numbers
            return ordinary(module, *args, **kwargs)

    def note(self, what, args, kwargs, found, grad, random):
        """Keeps a call. random: whether another call of it may give other numbers."""
        leaves, structure = pytree.tree_flatten((args, kwargs))
        outputs, gives = pytree.tree_flatten(found)
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        if not any(isinstance(each, torch.Tensor) for each in outputs):
            if isinstance(what, str):
                raise self.refused(f"{shown(what)} gives no tensor")
            if found is not None:
                return self.check_reads(what, tensors)
            if not tensors:
                return None  # a setting
            outputs, gives = tensors[:1], None
        noted = [self.leaf(each, what) for each in leaves]
        if not isinstance(what, str):
            self.check_changes(what, [each for each in tensors if any(each is output for output in outputs)])
        free = not random and all(self.free[each] if isinstance(each, Value) else not isinstance(each, Attribute) for each in noted)
        number = len(self.calls)
        for at, leaf in enumerate(outputs):
            if isinstance(leaf, torch.Tensor):
                self.keep(leaf, Value(number, at), free)
            elif not isinstance(leaf, _PLAIN):
                raise self.refused(f"{shown(what)} gives a {type(leaf).__name__}, in which tensors cannot be seen")
        self.calls.append(Call(what, noted, structure, gives, grad, self.layer, free))
        return None

    def leaf(self, leaf, what):
        if isinstance(leaf, torch.Tensor):
            if id(leaf) in self.values:
                return self.values[id(leaf)]
            if id(leaf) in self.sides:
                number, side = self.sides[id(leaf)]
                call = self.calls[number]
                call.sides.append(side)
                self.keep(leaf, Value(number, -len(call.sides)), False)
                return self.values[id(leaf)]
            name = self.attributes.get(id(leaf))
            if name is None:
                raise _Hidden(self.refused(f"{shown(what)} is given a tensor of {tuple(leaf.shape)}, and where this comes from "
                                           "cannot be seen"))
            self.tensors[name] = leaf
            self.alive.append(leaf)
            return Attribute(name)
        if isinstance(leaf, nn.Module) or not isinstance(leaf, _PLAIN):
            raise self.refused(f"{shown(what)} is given a {type(leaf).__name__}, in which tensors cannot be seen")
        return Stand.DEVICE if isinstance(leaf, torch.device) and leaf == self.device else leaf

    def check_reads(self, what, tensors):
        """Refuses what depends on the numbers of a batch or of weights."""
        name = getattr(what, "__name__", "")
        values = [self.values.get(id(each)) for each in tensors]
        if name not in _OF_SHAPES and any(value is None or not self.free[value] or self.of_keyword(value) for value in values):
            raise _Reads(self.refused(f"it reads numbers of a tensor ({name or what}), and may do other things for other numbers"))

    def check_changes(self, what, tensors):
        """Refuses a change in place that another layer would see, or would not see, as it has a copy."""
        for each in tensors:
            value = self.values.get(id(each))
            if value is None:
                name = self.attributes.get(id(each), "tensor")
                raise self.refused(f"{shown(what)} changes the model's {name} in place, of which ranks have copies")
            if value.keyword is not None:
                raise self.refused(f"{shown(what)} changes the keyword {value.keyword} in place")
            shared = {self.values[view] for view in self.views[each.untyped_storage()._cdata]}
            if sum(self.layer_of(view) < self.layer for view in shared) > 1:
                raise self.refused(f"{shown(what)} changes in place what earlier layers have given, of which there are two views")

    def layer_of(self, value):
        return 0 if value.call is None else self.calls[value.call].layer

    def of_keyword(self, value):
        """Whether a free value depends on a keyword, and not on constants alone."""
        if value.call is None:
            return True
        return any(self.of_keyword(each) for each in self.calls[value.call].leaves if isinstance(each, Value))

    def refused(self, why):
        return SpecError(f"the forward of {type(self.model).__name__} cannot be recorded: {why}; {WAY_OUT}")


def shown(what):
    """A call's `what`."""
    return f"the module {what}" if isinstance(what, str) else f"the function {getattr(what, '__name__', what)}"


class _Reads(Exception):
    """A forward reads numbers."""


class _Hidden(Exception):
    """It gets tensors of modules otherwise than by what they give."""


def _kept(model):
    """(name, tensor) of those that modules keep without saying so."""
    for where, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                yield f"{where}.{key}" if where else key, value


@contextlib.contextmanager
def _unlogged(name):
    """Without what a logger says of failures that are none here."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@contextlib.contextmanager
def _as_if_compiled():
    """Models that know compilers leave out then what reads numbers."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def _record(model, blocks, x, keywords, settings, real):
    recorder = _Recorder(model, blocks, real)
    ordinary = nn.Module.__call__
    nn.Module.__call__ = lambda module, *args, **kwargs: recorder.call(ordinary, module, args, kwargs)
    try:
        with recorder, torch.enable_grad():
            recorder.inside = True
            input = recorder.begin(x)  # noqa: A001
            recorder.device = recorder.alive[0].device if recorder.alive else None
            given = {name: recorder.begin(value, name) for name, value in keywords.items()}
            recorder.inside = False
            found = model(x, **keywords, **settings)
    finally:
        nn.Module.__call__ = ordinary
    leaves, structure = pytree.tree_flatten(found)
    output = [recorder.leaf(each, "output") for each in leaves], structure
    last = max((number for number, call in enumerate(recorder.calls) if call.what in blocks.values()), default=None)
    if last is None:
        raise recorder.refused(f"it calls none of {', '.join(list(blocks.values())[:3])}, with which layers begin")
    for call in recorder.calls[last + 1:]:
        call.layer += 1
    return Recording(recorder.calls, input, output, given, recorder.kinds, recorder.tensors, {*model.state_dict()}, model.training)


@contextlib.contextmanager
def _unchanged(model):
    """What recording changes is as before: modes, buffers, the program's random numbers."""
    modes = [(each, each.training) for each in model.modules()]
    buffers, generators = [(each, each.clone()) for each in model.buffers()], states()
    try:
        yield
    finally:
        for each, mode in modes:
            each.training = mode
        with torch.no_grad():
            for each, before in buffers:
                each.copy_(before)
        restore(generators)


def record(model, x, keywords, settings):
    """x, keywords: of a microbatch. Gives the Recording of model(x, **keywords, **settings). Where training and evaluation differ only in a
    number among a call's arguments, Stand.MODE stands in its place."""
    blocks = _elements(model)

    def recorded():
        why = None
        for compiled, real in ((False, False), (False, True), (True, False), (True, True)):
            try:
                with _as_if_compiled() if compiled else contextlib.nullcontext():
                    return _record(model, blocks, x, keywords, settings, real)
            except _Hidden as error:
                why = why or error
            except _Reads as error:
                why = error
            except SpecError:
                raise
            except Exception:
                if real:  # zeros may be what it fails of
                    raise
        raise why.args[0]

    with _unchanged(model):
        found = recorded()
        try:
            model.train(not model.training)
            return _of_both(found, recorded())
        except Exception:  # of the other mode alone
            return found


def _of_both(found, other):
    if len(found.calls) != len(other.calls):
        return found
    merged = []
    for one, two in zip(found.calls, other.calls):
        if (one.what, one.structure, one.gives, one.layer, one.sides) != (two.what, two.structure, two.gives, two.layer, two.sides):
            return found
        leaves = [Stand.MODE if a is found.training and b is other.training else a for a, b in zip(one.leaves, two.leaves)]
        if any(a is not Stand.MODE and a != b for a, b in zip(leaves, two.leaves)):
            return found
        merged.append(dataclasses.replace(one, leaves=leaves))
    if found.output != other.output:
        return found
    return dataclasses.replace(found, calls=merged, training=None)
