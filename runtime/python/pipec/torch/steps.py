"""What a rank does in a step: the instructions F, B, W, BW and R, on the microbatches of the step's batch."""
import contextlib
import json

import torch
from torch.utils._pytree import tree_leaves

from .. import _library as lib
from ..errors import SpecError
from .checks import checksum_of_batch, different_batches
from .keywords import each_of, rows_of
from .layered import LayeredStage, first_stage
from .slots import SIZES, Boundaries
from .split import UNREACHED, Stage
from .wrapped import Sums

_WHOLE = {}  # a pass of all layers


def split(value, parts, what, varies=False):
    """A batch by microbatches: of a tensor its rows, of a tuple or dict each of theirs. varies: a list has an entry of each."""
    if varies and type(value) is list:
        return each_of(value, parts, what)
    if isinstance(value, torch.Tensor):
        if value.dim() == 0 or value.shape[0] % parts:
            raise SpecError(f"{what} has shape {tuple(value.shape)}: its first dimension is not divided by the {parts} "
                            f"microbatches of a step; {'pass a list with an entry of each' if varies else SIZES}")
        return value.chunk(parts)
    if isinstance(value, (tuple, list)):
        return list(zip(*(split(each, parts, what) for each in value)))
    if isinstance(value, dict):
        rows = {key: split(each, parts, what) for key, each in value.items()}
        return [{key: row[i] for key, row in rows.items()} for i in range(parts)]
    raise SpecError(f"{what} is a {type(value).__name__}: expected a tensor, or a tuple or dict of tensors")


def _samples(x, varies):
    """A batch's tokens: the elements of its first tensor where they are integers, else its rows."""
    if varies and type(x) is list:
        return sum(_samples(each, False) for each in x)
    first = next(each for each in tree_leaves(x) if isinstance(each, torch.Tensor))
    return rows_of(x) if first.is_floating_point() else first.numel()


def _without_autocast(work):
    """Backward passes are not under the autocast of forwards (torch.autocast's documentation), whose block is around both here."""
    def run(what):
        on = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
        if not on:
            return work(what)
        with contextlib.ExitStack() as stack:
            for kind in on:
                stack.enter_context(torch.autocast(kind, enabled=False))
            return work(what)
    return run


class Steps:
    """Those of a rank's stages. loss, seed, scaler, shapes: as the Run's. keys: Keywords of the rank."""

    def __init__(self, model, session, losses, checks, keys, *, loss, seed, scaler, shapes):
        self._model, self._plan, self._session = model, model.plan, session
        self._losses, self._checks, self._keys = losses, checks, keys
        self._parts, split = self._plan.facts["parts"], self._plan.facts["split"]
        self._stages = {}
        for s, module in model.modules.items():
            make = LayeredStage if self._parts else first_stage if s == 0 and split else Stage
            self._stages[s] = make(module, number=s, loss=loss if s == model.last else None, seed=seed, wants_gradient=s > 0,
                                   split=split, checks=checks, scale=scaler and scaler.scale)
        self._layered = {s: tuple(model.modules[s]) for s, each in self._stages.items() if isinstance(each, LayeredStage)}
        self._boundaries, self._varies = Boundaries(model, session, shapes), shapes == "vary"
        self._sums = Sums(model.modules)
        self._handed, self._gradients = {}, {}
        self._x = self._target = self._batch_id = None
        self._keywords = {}
        self.microbatches = self._first = 0
        self.active = False  # whether a step has begun that has not ended
        self._here = 0  # steps of this process
        self._measures_memory, self.peak, self.tokens = False, 0, 0

    @property
    def rows_of_microbatch(self):
        """In the last step, on the first stage's rank; 0: not known."""
        return self._boundaries.rows[1] // self.microbatches if self.microbatches else 0

    def evaluate(self, what, microbatch, x, **options):
        """F of an evaluation: (what the stage gives, the count where that is a loss with one)."""
        stage = self._stages[what.stage]
        output = stage.evaluate(microbatch, x, step=what.step, **options, **self._part(what))
        return output, stage.count

    def instructions(self):
        """{kind: what does it}."""
        return {lib.F: self._forward, lib.R: self._recompute, lib.B: _without_autocast(self._backward_input),
                lib.W: _without_autocast(self._backward_weight), lib.BW: _without_autocast(self._backward)}

    def begin(self, x, target, batch_id, keywords):
        """With Run.step's arguments."""
        for stage, layers in self._layered.items():
            if tuple(self._model.modules[stage]) != layers:
                raise SpecError(f"stage {stage} has other layers than when the run began: begin a run with them")
        rows = rows_of(x, self._varies)
        if self._keys.check(keywords, rows) and self._plan.world > 1:
            self._session.put(f"keywords/{self._model.world_rank}", json.dumps(self._keys.told))
        if rows:
            self._boundaries.rows = self._boundaries.rows[0] or rows, rows
        self.active = True
        self._x, self._target, self._batch_id, self._keywords = x, target, batch_id, keywords
        self.microbatches = 0

    def release(self):
        """All passes of the step are done."""
        self._boundaries.release()
        self._handed.clear()
        self._gradients.clear()
        self._x = self._target = None
        self._keywords = {}

    def end(self, x):
        """A step ends, of the batch x."""
        session, process = self._session, self._model.world_rank
        self._here += 1
        self._measures_memory = self._here == 1  # in the second step: the first one still learns
        if x is not None and 0 in self._model.own:
            self.tokens = _samples(x, self._varies)
        if self._here == 2:
            session.put(f"peak/{process}", str(self.peak))
            session.put(f"tokens/{process}", str(self.tokens))

    def compare_keywords(self):
        """Behind the first step: what ranks were given."""
        own = self._keys.told
        if self._here == 0 and own is not None:
            self._keys.compare([own] if self._plan.world == 1 else
                               [json.loads(self._session.get(f"keywords/{process}")) for process in range(self._plan.world)])

    def _begin_microbatches(self, what):
        model = self._model
        self.microbatches = what.microbatches
        self._boundaries.begin(what.microbatches)
        self._first = model.replica * what.microbatches  # of its own among those of all replicas
        self._sums.begin(what.microbatches)
        self._checks.begin(what.epoch)
        if self._checks.on:
            self._compare_batches(what.step)
        if 0 in model.own:
            if self._x is None:
                raise SpecError(f"rank {model.rank} has the first stage: step needs x")
            self._x = split(self._x, what.microbatches, "x", self._varies)
        if model.last in model.own:
            if self._target is None:
                raise SpecError(f"rank {model.rank} has the last stage: step needs target")
            self._target = split(self._target, what.microbatches, "target", self._varies)
        if self._keywords:
            self._keywords = self._keys.cut(self._keywords, what.microbatches, split)

    def _compare_batches(self, step):
        """What the first stage's rank was given with what the last one's was. The first has begun its step before anything
        comes to the last."""
        model, key = self._model, f"batch/{self._model.replica}"
        ends = [rank for stage in (0, model.last) for rank in range(self._plan.ranks) if stage in model.stages_of[rank]]
        if ends[0] == ends[1] or model.rank not in ends:
            return
        own = {"x": checksum_of_batch(self._x), "target": checksum_of_batch(self._target), "batch_id": self._batch_id,
               **{name: checksum_of_batch(value) for name, value in self._keywords.items()}}
        if model.rank == ends[0]:
            return self._session.put_of_step(key, step, own)
        names = [f"rank {rank}" + (f" replica {model.replica}" if self._plan.degree > 1 else "") for rank in ends]
        different_batches(step, (names[0], self._session.get_of_step(key, step)), (names[1], own))

    # Instructions.

    def _measure(self):
        self.peak = max(self.peak, sum(stage.held() for stage in self._stages.values()))

    def _part(self, what):
        return {"first": what.first_layer, "layers": what.layers} if self._parts else _WHOLE

    def _forward(self, what):
        stage, m = what.stage, what.microbatch
        if not self.microbatches:
            self._begin_microbatches(what)
        if what.input:
            x = self._boundaries.receive(what)
        elif what.first_layer > 0:
            x = None
        elif stage > 0:
            x = self._handed.pop((stage, m))
        else:
            x = self._x[m]
        target = self._target[m] if stage == self._model.last else None
        output = self._stages[stage].forward(self._first + m, x, step=what.step, target=target, keep=not what.recomputed,
                                             keywords=self._keywords and self._keywords[m], **self._part(what))
        if output is None:  # more parts follow
            pass
        elif stage == self._model.last:
            self._losses.add(what, output, self._stages[stage].count)
        elif what.output:
            self._boundaries.send(what, output)
        else:
            self._handed[stage + 1, m] = output
        if self._measures_memory:
            self._measure()

    def _recompute(self, what):
        self._stages[what.stage].recompute(self._first + what.microbatch, **self._part(what))
        if self._measures_memory:
            self._measure()

    def _ends(self, what):
        """Whether a backward begins with the stage's last layer, to which the gradient comes."""
        return not what.layers or what.first_layer + what.layers == len(self._model.modules[what.stage])

    def _gradient(self, what):
        """Of a stage's output."""
        stage = what.stage
        if stage == self._model.last or not self._ends(what):
            return None
        if what.input:
            return self._boundaries.receive_gradient(what, lambda: self._stages[stage].needs_gradient(self._first + what.microbatch))
        gradient = self._gradients.pop((stage, what.microbatch))
        return UNREACHED if gradient is None else gradient

    def _hand_back(self, what, gradient):
        stage = what.stage
        if what.output:
            self._boundaries.send_gradient(what, gradient)
        elif stage > 0 and what.first_layer == 0:
            self._gradients[stage - 1, what.microbatch] = gradient

    def _backward_input(self, what):
        self._hand_back(what, self._stages[what.stage].backward_input(self._first + what.microbatch, self._gradient(what),
                                                                      **self._part(what)))
        if self._measures_memory:  # what it makes may be more than what it frees
            self._measure()

    def _backward_weight(self, what):
        self._stages[what.stage].backward_weight(self._first + what.microbatch, **self._part(what))
        self._sums.behind_backward(what.stage)
        self._model.shared.passed(what)

    def _backward(self, what):
        self._hand_back(what, self._stages[what.stage].backward(self._first + what.microbatch, self._gradient(what),
                                                                **self._part(what)))
        self._sums.behind_backward(what.stage)
        self._model.shared.passed(what)
