"""F, B, W, BW and R of one stage's module, whatever it is made of. B computes the gradient of the stage's input alone;
W, at any later time, those of the weights, to the same bits as one backward of both. What W does not read is free when
B ends. The first microbatch shows how (graph.py), and so does each later one whose graph is new."""
from contextlib import nullcontext

import torch
from torch.autograd.graph import GradientEdge, _engine_run_backward

from ..errors import Error
from .boxes import in_boxes, nothing_saved, saved_tensors
from .buffers import Buffers
from .checks import Checks, checksum, state_outside
from .graph import Plan, behind, walk
from .keywords import call, taken_by_loss
from .older import edge_of, is_alive, needs_owner, owner_of, watched
from .random import Again, Seeded
from .sums import parted
from .trees import NoTree, Tree, flatten, tensors_of, unflatten
from .weights import Kept
from .wrapped import local

_PLANS = 64  # graphs remembered; a module with more of them (sequences of many lengths) learns these again and again
_BEFORE = {"forwarded": "F with keep=True, or R,", "forgotten": "F with keep=False", "backwarded": "B"}


class StageError(Error):
    """What a stage cannot do, with its number and the way out."""


UNREACHED = object()  # in a gradient's place: none comes back to the stage, as what follows does not depend on its output


class _Entry(torch.autograd.Function):
    """The input as the module sees it: its tensors want gradients, which `found` gets in BW; they are no leaves, so that they may
    be changed in place; and the graph behind them does not hold their memory."""

    @staticmethod
    def forward(ctx, _, found, *tensors):
        ctx.found, ctx.count = found, len(tensors)
        ctx.set_materialize_grads(False)
        return tuple([each.detach() for each in tensors])

    @staticmethod
    def backward(ctx, *gradients):
        ctx.found.extend(gradients)
        return (None,) * (2 + ctx.count)


_WANTS_GRADIENT = torch.zeros((), requires_grad=True)


class _Microbatch:
    """What is alive of one microbatch, from F to W."""

    __slots__ = ("state", "step", "x", "target", "keywords", "buffers", "again", "entry", "entries", "found", "roots", "owners",
                 "shapes", "boxed", "foreign", "hooked", "gradients", "kept", "output", "of_tree")

    def __init__(self, step, x, target, keywords):
        self.step, self.x, self.target, self.keywords = step, x, target, keywords
        self.of_tree = type(x) is Tree
        self.boxed = self.foreign = self.hooked = False
        self.buffers = self.again = self.gradients = self.kept = self.output = None
        self.drop_graph()

    def drop_graph(self):
        self.entry = self.found = self.roots = self.owners = None


class _HooksNoted:
    """state.hooked becomes true where the module hooks a tensor meanwhile: such a hook may change a gradient now and then."""

    def __init__(self, state):
        self._state = state

    def __enter__(self):
        state, self._register = self._state, torch.Tensor.register_hook
        register = self._register

        def noting(tensor, hook):
            state.hooked = True
            return register(tensor, hook)

        torch.Tensor.register_hook = noting

    def __exit__(self, *_):
        torch.Tensor.register_hook = self._register


class Stage:
    """One stage's module in this process. Calls of one microbatch come in the order F (R) B W or F (R) BW; those of
    different microbatches in any order. Gradients are added to the parameters' `grad` in the order of W and BW, neither
    divided nor averaged.

    module: called with a tensor or a tree of tensors, gives one of these. What goes from stage to stage is a tensor or a Tree; of a
    Tree the gradient is a list, of those tensors that need one. loss: of the last stage, loss(output, target) gives the scalar to
    begin from, or (sum, count). seed: of reseed() before F and R. wants_gradient: whether anybody wants the input's gradient, false on
    the first stage; an integer input has none. Without it all is W's. split=False: only BW will be called, and F
    prepares nothing else. checks: whether R compares its output with F's. scale: of
    the loss, what backward begins from. Calls out of order, outputs and gradients that do not fit raise StageError; what the module
    raises comes out as it is."""

    def __init__(self, module, *, number=0, loss=None, seed=0, wants_gradient=True, split=True, checks=None, scale=None):
        self.module, self.number, self.loss, self.seed = module, number, loss, seed
        self.wants_gradient, self.split = wants_gradient, split
        self._checks, self._scale = checks or Checks(), scale
        self._loss_takes = taken_by_loss(loss)
        self.count = None  # of the last loss, where that is (sum, count)
        self._microbatches = {}
        self._plans = {}
        self._boxes_wanted = split  # until a graph needs none
        self._buffers = Buffers(module, loss)
        self._changes_input = None  # not known before the first F that R computes again

    def forward(self, microbatch, x, *, step=0, target=None, keep=True, keywords=None):
        """F: the module's output, or the loss; it holds no graph. x, target and keywords are not copied, and autograd or R may
        read them until W. keep=False: nothing but these is kept, and recompute() comes before backward. keywords: of which the
        module and the loss get those that they name."""
        if microbatch in self._microbatches:
            raise self._error(f"microbatch {microbatch} is forwarded again before its backward has ended")
        if not isinstance(x, torch.Tensor) and type(x) is not Tree:
            x = self._tree(x, "its input is")[0]
        state = _Microbatch(step, x, target, keywords)
        if keep:
            output = self._run(microbatch, state)
            state.x = state.target = state.keywords = None
        else:
            output = self._run_and_forget(microbatch, state)
        self._microbatches[microbatch] = state
        return output

    def evaluate(self, microbatch, x, *, step=0, target=None, with_loss=True, keywords=None):
        """F of an evaluation: the module's output, or, with_loss, the loss; nothing is kept. The caller has turned gradients off.
        Random numbers are those of reseed(seed, -1 - step, number, microbatch), which no step draws."""
        with self._seeded(-1 - step, microbatch):
            output = call(self.module, unflatten(x.structure, x.tensors) if type(x) is Tree else x, keywords)
            if self.loss is not None and with_loss:
                output = self._of_loss(output, _Microbatch(step, None, target, keywords))
        if isinstance(output, torch.Tensor) or (self.loss is not None and not with_loss):
            return output
        return self._tree(output, "its module gives")[0]

    def drop_input(self, microbatch):
        """Behind F with keep=False: R will be given the input again."""
        self._take(microbatch, "F", "forgotten", remove=False).x = None

    def recompute(self, microbatch, x=None):
        """R: F again with the same random numbers and, in buffers, what F found there; buffers stay as F left them. x: the
        input, where it was dropped. Gives the output again."""
        state = self._take(microbatch, "R", "forgotten", remove=False)
        if x is not None:
            state.x = x
        present = self._buffers.swap(state.buffers)
        try:
            with state.again:
                output = self._run(microbatch, state)
        finally:
            self._buffers.swap(present)
        if state.output is not None and not torch.equal(state.output, checksum(output)):
            raise self._repeats_otherwise(microbatch, state)
        state.output = None
        state.x = state.target = state.keywords = state.buffers = state.again = None
        return output

    def backward_input(self, microbatch, gradient=None):
        """B: the gradient of x; None where x is of integers, or the output does not depend on it. gradient: of the
        output, of its shape, or UNREACHED; None on the last stage. Of a tree: a list, with None in place of what is not reached.
        It is kept until W, and what is returned may share its memory."""
        state = self._take(microbatch, "B", "forwarded", remove=False)
        found = None
        if self._begins(state, gradient):
            plan, nodes = self._plan(state)
            if plan is not None:  # else all is W's
                gradients, state.gradients = state.gradients, None
                way = self._backward_all if plan.fused else self._backward_path
                found = way(state, gradients, plan, nodes)
        state.state = "backwarded"
        return found

    def backward_weight(self, microbatch):
        """W: adds to the parameters' gradients."""
        state = self._take(microbatch, "W", "backwarded")
        if state.kept is not None:
            state.kept.compute_weights()
        elif state.roots is not None:
            torch.autograd.backward(state.roots, state.gradients)

    def backward(self, microbatch, gradient=None):
        """BW: B and W in one, torch.autograd.backward. Arguments and result are those of B."""
        state = self._take(microbatch, "BW", "forwarded")
        return self._backward_all(state, state.gradients) if self._begins(state, gradient) else None

    def needs_gradient(self, microbatch):
        """Whether what F, or R, gave depends on anything that is trained."""
        return self._microbatches[microbatch].roots is not None

    def held(self):
        """Bytes of what is kept for backward, each storage once, parameters and buffers aside. It walks the graphs: for
        tests and reports, not for each instruction."""
        return sum(self.storages().values())

    def storages(self):
        """Bytes by storage of what held() counts."""
        storages = {}
        for state in self._microbatches.values():
            tensors = [*tensors_of(state.x), state.target, *(state.gradients or ())]
            nodes = [root.node for root in state.roots or ()]
            if state.kept is not None:
                tensors += state.kept.all_tensors()
                nodes += state.kept.nodes.values()
            if not state.foreign:
                tensors += [each for node in behind(nodes) for each in saved_tensors(node)]
            for tensor in tensors:
                if isinstance(tensor, torch.Tensor):
                    storage = local(tensor).untyped_storage()
                    storages[storage.data_ptr()] = storage.nbytes()
        for tensors in (self.module.parameters(), self.module.buffers()):
            for tensor in tensors:
                storages.pop(local(tensor).untyped_storage().data_ptr(), None)
        return storages

    def _error(self, text):
        return StageError(f"stage {self.number}: {text}")

    def _take(self, microbatch, what, wanted, remove=True):
        state = self._microbatches.get(microbatch)
        found = "not forwarded" if state is None else state.state
        if found != wanted:
            raise self._error(f"{what} of microbatch {microbatch}, which is {found}: {_BEFORE[wanted]} comes before")
        if remove:
            del self._microbatches[microbatch]
        return state

    def _run(self, microbatch, state, hooks=None):
        """F. The graph is left in `state`."""
        x, keywords = state.x, state.keywords
        if state.of_tree:
            inputs = [*x.tensors]  # which have no graph
            wanted = [number for number, need in enumerate(x.needs) if need] if self.wants_gradient else ()
        else:
            inputs = [x.detach()]
            wanted = (0,) if self.wants_gradient and (x.is_floating_point() or x.is_complex()) else ()
        if wanted and self._boxes_wanted and hooks is None:
            state.boxed, hooks = True, in_boxes()
        noted = _HooksNoted(state) if wanted and self.split else nullcontext()
        with torch.enable_grad(), self._seeded(state.step, microbatch), hooks or nullcontext(), watched(state), noted:
            if wanted:
                state.found, state.entries = [], len(wanted)
                entered = _Entry.apply(_WANTS_GRADIENT, state.found, *[inputs[number] for number in wanted])
                for number, each in zip(wanted, entered):
                    inputs[number] = each
                state.entry = entered[0].grad_fn
            output = call(self.module, unflatten(x.structure, inputs) if state.of_tree else inputs[0], keywords)
            if self.loss is not None:
                output = self._of_loss(output, state)
            outputs = (output,)
            if not isinstance(output, torch.Tensor):
                output, outputs = self._tree(output, "its module gives")
            elif self.loss is not None and self._scale is not None:
                outputs = (self._scale(output),)
        roots = [each for each in outputs if each.requires_grad]
        state.state, state.shapes = "forwarded", [each.shape for each in roots]
        if roots:
            state.roots, state.owners = [*map(edge_of, roots)], [*map(owner_of, roots)]
        else:
            state.drop_graph()
        return output if type(output) is Tree else output.detach()

    def _of_loss(self, output, state):
        further = {} if not state.keywords else {name: value for name, value in state.keywords.items() if name in self._loss_takes}
        loss, self.count = parted(self.loss(output, state.target, **further), output)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise self._error(f"its loss is {_named(loss)}, not a scalar: reduce it, for example by mean()")
        return loss

    def _tree(self, value, what):
        """(the Tree without a graph, its tensors with theirs) of what a module gives or takes."""
        try:
            structure, tensors = flatten(value)
        except NoTree as error:
            part = f"{_named(error.value)} as part {error.path}" if error.path else _named(error.value)
            raise self._error(f"{what} {part}: expected a tensor, or a tree (tuple, list, dict, dataclass, or what "
                              "torch.utils._pytree knows) of tensors and None") from None
        if not tensors:
            raise self._error(f"{what} {_named(value)} without a tensor in it: expected a tensor, or a tree of tensors")
        needs = tuple([each.requires_grad for each in tensors])
        return Tree(structure, [each.detach() if need else each for each, need in zip(tensors, needs)], needs), tensors

    def _seeded(self, step, microbatch):
        """The random numbers of a microbatch, for F and R."""
        return Seeded(self.seed, step, self.number, microbatch)

    def _run_and_forget(self, microbatch, state):
        """F whose graph R makes again. It goes through the module as with a graph, so that R gives the same bits: some
        modules compute otherwise without."""
        seen, state.buffers = self._buffers.look()
        state.again = Again()
        x, given = state.x, tensors_of(state.x)
        versions = [each._version for each in given]
        copy = None if self._changes_input is False else x.clone()
        output = self._run(microbatch, state, nothing_saved())
        state.drop_graph()
        state.state = "forgotten"
        if self._checks.on:
            state.output = checksum(output)
        changed = [each._version for each in given] != versions
        if changed and copy is None:
            raise self._cannot_repeat("its input in place")
        if changed:
            state.x = copy
        self._changes_input = changed or self._changes_input is True
        missed = self._buffers.learn(seen, state.buffers)
        if missed is not None:
            raise self._cannot_repeat(f"the buffer {missed}")
        return output

    def _cannot_repeat(self, what):
        return self._error(f"its module changes {what}, which it did not do in the first microbatch, so that R cannot "
                           "repeat it: let it do so always or never")

    def _repeats_otherwise(self, microbatch, state):
        found = state_outside(self.module) or f"its module ({type(self.module).__name__}) depends on what is no argument of its"
        return self._error(f"R gives another output than F of microbatch {microbatch} in step {state.step}: {found}. Keep what goes "
                           "from one microbatch to the next in buffers (register_buffer), which R finds as F did, or leave the stage "
                           "out of the spec's recompute; where an operation alone is not repeatable: "
                           'torch.use_deterministic_algorithms, or check="never"')

    def _begins(self, state, gradient):
        """Whether there is a backward: from `roots` with `gradients`, those of its state that are reached."""
        if gradient is UNREACHED:
            state.drop_graph()
        if state.roots is None:
            return False
        gradients, of_tree = (gradient, True) if type(gradient) is list else ([gradient], False)
        if len(gradients) != len(state.shapes):
            raise self._error(f"backward got {len(gradients)} gradients: {len(state.shapes)} of its output's tensors need one")
        for each, shape in zip(gradients, state.shapes):
            found = shape if each is None and (of_tree or shape.numel() == 1) else getattr(each, "shape", None)
            if found != shape:
                raise self._error(f"backward got {_named(each)}: its output's gradient has shape {tuple(shape)}")
        if of_tree and any(each is None for each in gradients):
            reached = [number for number, each in enumerate(gradients) if each is not None]
            state.roots, gradients = [state.roots[number] for number in reached], [gradients[number] for number in reached]
            if not reached:
                state.drop_graph()
                return False
        state.gradients = gradients
        return True

    def _plan(self, state):
        """None where no path leads from the output to the input."""
        if state.entry is None or not is_alive(state.entry):
            return None, None
        nodes, rows = walk(state.roots, state.entry)
        if None not in rows:
            return None, None
        key = (rows, state.hooked)
        plan = self._plans.get(key)
        if plan is not None and plan.facts and (facts := plan.look(nodes)) != plan.facts:
            key = (rows, state.hooked, facts)
            plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[key] = Plan(nodes, rows, state.foreign)
        return plan, nodes

    def _backward_path(self, state, gradients, plan, nodes):
        first = not plan.settled
        seen, handles = plan.watch(nodes) if first else (None, ())
        # What kernels need is taken before B, so that B frees as it goes.
        state.kept = None if first else Kept(plan, nodes)
        plan.narrow(nodes, "B")
        try:
            entries = [GradientEdge(state.entry, number) for number in range(state.entries)]
            found = _run_backward(state.roots, gradients, tuple(entries + plan.captures(nodes)), first or plan.with_graph)
            found, arrived = found[:state.entries], list(found[state.entries:])
        finally:
            for handle in handles:
                handle.remove()
        if first:
            plan.settle(nodes, {cut.number for cut in plan.cuts} if state.hooked else plan.hooked(seen, arrived))
            if plan.fused:  # only now is that known
                plan.narrow(nodes, "BW")
                torch.autograd.backward(state.roots, gradients, inputs=plan.all_leaves())
                state.drop_graph()
                return self._found(state, found)
            state.kept = Kept(plan, nodes)
        state.kept.gradients = arrived
        if needs_owner(state.kept.nodes.values()):
            state.kept.owner = state.roots, state.owners
        state.drop_graph()
        self._boxes_wanted = plan.with_graph
        if plan.with_graph and state.boxed:
            plan.empty_boxes(nodes)
        return self._found(state, found)

    def _backward_all(self, state, gradients, *_):
        _run_backward(state.roots, gradients)
        found = state.found
        state.drop_graph()
        return self._found(state, found)

    @staticmethod
    def _found(state, gradients):
        """The input's gradient, as it goes on."""
        if not state.of_tree:
            return gradients[0] if gradients else None
        return list(gradients) if gradients and any(each is not None for each in gradients) else None


def _run_backward(roots, gradients, inputs=(), keeps_graph=False):
    """torch.autograd.backward, or of inputs torch.autograd.grad, without the look at each gradient, which _begins has had."""
    if gradients[0] is None:  # of a loss
        if inputs:
            return torch.autograd.grad(roots, inputs, gradients, retain_graph=keeps_graph, allow_unused=True)
        return torch.autograd.backward(roots, gradients)
    return _engine_run_backward(tuple(roots), tuple(gradients), keeps_graph, False, inputs, allow_unreachable=True,
                                accumulate_grad=not inputs)


def _named(value):
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
