"""A rank of a plan in this process: `Run.step` does its instructions, one after the other, as the library gives them."""
import collections.abc
import contextlib
import ctypes
import json
import math
import os
import pickle
import random
import sys
import time
import warnings

import torch
from torch.utils._pytree import tree_leaves

from .. import _library as lib
from ..errors import Ended, Error, RunError, SpecError, raise_for
from . import meeting, shared, wrapped
from .checks import Checks, checksum_of_batch, different_batches
from .device import device_of
from .keywords import Keywords, rows_of
from .layered import LayeredStage, first_stage
from .replicas import described, flatten
from .split import UNREACHED, Stage
from .sums import Losses, all_finite, make_infinite, mean_of_all, squares
from .trees import Layout, Tree, TreeSlot

_WHOLE = {}  # a pass of all layers
_SIZES = "batches of a run have one size: leave a loader's last batch out where it is smaller (drop_last=True), or pad it"
_PROGRESS = 1.0  # seconds from one line to the next, at least


def _path(text):
    return None if text is None else os.fsencode(text)


def _split(value, parts, what):
    """A batch by microbatches: of a tensor its rows, of a tuple or dict each of theirs."""
    if isinstance(value, torch.Tensor):
        if value.dim() == 0 or value.shape[0] % parts:
            raise SpecError(f"{what} has shape {tuple(value.shape)}: its first dimension is not divided by the {parts} "
                            f"microbatches of a step; {_SIZES}")
        return value.chunk(parts)
    if isinstance(value, (tuple, list)):
        return list(zip(*(_split(each, parts, what) for each in value)))
    if isinstance(value, dict):
        rows = {key: _split(each, parts, what) for key, each in value.items()}
        return [{key: row[i] for key, row in rows.items()} for i in range(parts)]
    raise SpecError(f"{what} is a {type(value).__name__}: expected a tensor, or a tuple or dict of tensors")


def _samples(x):
    """A batch's tokens: the elements of its first tensor where they are integers, else its rows."""
    first = next(each for each in tree_leaves(x) if isinstance(each, torch.Tensor))
    return rows_of(x) if first.is_floating_point() else first.numel()


def _shown(kind):
    return f"{tuple(kind[1])} of {kind[0]}" if type(kind) is tuple else str(kind)


def _other_than_tensors(path):
    """Why a checkpoint can be read only where its program allows more than tensors and plain values; None: it has no more."""
    found = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    return found and (f"the checkpoint has {', '.join(sorted(found))} in it, and only tensors and plain values are read: where the "
                      f"program has put that into `state`, let it call torch.serialization.add_safe_globals([{', '.join(sorted(found))}])"
                      " before it resumes")


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


def _settings(optimizers):
    """What programs change between steps, as learning rates."""
    return {key: [{name: value for name, value in group.items() if name != "params"} for group in each.param_groups]
            for key, each in optimizers.items()}


class _Slots(dict):
    """Tensors over the runtime's slots, which stay where they are: by address and by the stage whose output, or whose
    output's gradient, goes through."""

    def __init__(self, device):
        super().__init__()
        self._device = device

    def add(self, address, stage, size, kind):
        """kind: (dtype, shape), or a tree's Layout."""
        memory = self._device.slot(address, size)
        if type(kind) is Layout:
            found = TreeSlot(kind, memory)
        else:
            dtype, shape = kind
            found = memory[:shape.numel() * dtype.itemsize].view(dtype).view(shape)
        self[address, stage] = found
        return found


class Run:
    """A rank of a plan: a context manager, in whose block `step` trains.

    Args:
        modules: {stage: module} of this rank's stages (pipec.torch.stages), all on the CPU or all on this process's GPU, where the
            run then is.
        loss: loss(output, target) of a microbatch, a scalar or (sum, count). Trained is the mean of the scalars of all microbatches
            and replicas, or the sums by all that counts; a microbatch of count 0 adds nothing. Weights of a loss that is a module
            are the last stage's.
        optimizer: makes that of a stage from [(name, parameter)], which steps where the plan has it. None: the program steps its
            own, between two steps, behind clip_grad_norm_ where it clips.
        clip: the largest norm of all gradients; the plan has `global_norm` then.
        scaler: a torch.amp.GradScaler on each rank, for an optimizer of the program's own: losses are scaled, and what is infinite
            on one rank is so on all, so that all leave the same updates out.
        state: what else a checkpoint keeps, {name: what has a state_dict}.
        checkpoint: a folder. every: steps from one to the next (0: only at the end). resume: goes on from what is there, if
            anything is. overwrite: begins anew.
        control: a socket for `piperun --control`. adapt: "on", "observe" or "profile". trace: a file, written as trace.RANK.json.
        deadline, idle: seconds that a pass or a transfer may last while others wait for it; and the first step, saving, loading
            and the time between two steps.
        secret: the job's; None: PIPEC_SECRET's, or a random one that the ranks share by their process group or torchrun's store.
        check: when R's output is compared with F's, and the batches of the first stage's rank with those of the last one's:
            "first" (in two steps, at the beginning and behind each swap), "always" or "never"; the same on all ranks.
        progress: whether rank 0 prints.

    Raises SpecError for what cannot be, RunError where another rank or the network fails."""

    def __init__(self, plan, modules, *, loss=None, seed=0, optimizer=None, clip=None, scaler=None, state=None, checkpoint=None, every=0,
                 resume=False, overwrite=False, control=None, adapt=None, trace=None, deadline=None, idle=None, secret=None,
                 check="first", progress=True):
        self.plan = plan
        if plan.facts["refused"]:
            raise SpecError(plan.facts["refused"], plan.name)
        self.world_rank = plan.world_rank()
        self.rank, self.replica = plan.place(self.world_rank)
        self.steps_done = 0
        self._run, self._report, self._ended = None, None, False
        self._error, self._instruction = lib.Error(), lib.Instruction()
        try:
            self._checks = Checks(check)
            self._make(modules, loss, seed, optimizer, dict(state or {}), clip, scaler)
        except Exception as error:
            self._refuse(secret, f"{type(error).__name__}: {error}")
            raise
        self._progress = _Progress(plan, self.rank) if progress and self.world_rank == 0 else None
        self._keeps = checkpoint is not None
        self._open(checkpoint, every, resume, overwrite, control, adapt, trace, deadline, idle, meeting.secret(secret, self.plan.world))
        try:
            self._until_end_of_step()
            self.steps_done = self._instruction.step
            self._check_replicas()
            self._check_ranks()
            self._done()
            self._note_random()
        except BaseException as error:
            self._close(f"{type(error).__name__}: {error}")
            raise

    def _make(self, modules, loss, seed, optimizer, state, clip, scaler):
        """All that this rank needs of the program."""
        plan = self.plan
        self._last = plan.stage_count - 1
        self._stages_of = [[each.stage for each in plan.stages(rank)] for rank in range(plan.ranks)]
        self._own = self._stages_of[self.rank]
        self._loss = loss if isinstance(loss, torch.nn.Module) and self._last in self._own else None
        self._check(modules, loss, optimizer, clip)
        if scaler is not None and optimizer is not None:
            raise SpecError("a GradScaler steps an optimizer of the program's own: pass no optimizer, or train without a scaler, for "
                            "example in bfloat16")
        self.modules = dict(modules)
        self._device = device_of(self.modules, self.world_rank)
        self._flat = flatten(plan, self.rank, self.modules) if plan.degree > 1 else {}
        self._parts, split = plan.facts["parts"], plan.facts["split"]
        self._stages = {}
        for s, module in self.modules.items():
            make = LayeredStage if self._parts else first_stage if s == 0 and split else Stage
            self._stages[s] = make(module, number=s, loss=loss if s == self._last else None, seed=seed, wants_gradient=s > 0,
                                   split=split, checks=self._checks, scale=scaler and scaler.scale)
        self._keys = Keywords(self.rank, self.modules, loss if self._last in self._own else None, _SIZES)
        self._layered = {s: tuple(self.modules[s]) for s, each in self._stages.items() if isinstance(each, LayeredStage)}
        self._planned = optimizer is not None  # the optimizer is the plan's
        self._optimizers = {key: optimizer(named) for key, named in self._trained() if named} if optimizer else {}
        self._set = {}  # by step, what optimizers were set to when it began
        self._clip, self._state, self._scaler = clip, state, scaler
        self._exchanges = 0
        self._losses, self._not_finite = Losses(), False
        self._counted, self._counts = None, {}  # whether losses are (sum, count), once that is known; the counts of steps
        self._boundaries = {}  # by how many microbatches a step has, of what size they are then: slots, and shapes by stage
        self._handed, self._gradients = {}, {}
        # Where updates go on beside the next step, the program's own optimizer has to have the sums before.
        self._drains = plan.facts["overlaps"] and not self._planned
        self._settled = {}  # (stage, layer): the last step whose gradients are
        self._factor = -1, None  # a step, and what its gradients are multiplied by
        self._x = self._target = None
        self._keywords = {}
        self._told = -1  # the last step whose loss is
        self._rows = 0, 0  # of x in the first step, and in this one
        self._measures_memory, self._peak, self._steps_here = False, 0, 0
        self._tokens, self._aside, self._in_step, self._warned, self._saved = 0, [], False, False, False
        self._result = lib.Result(size=ctypes.sizeof(lib.Result))
        self._instruction.size = ctypes.sizeof(lib.Instruction)
        self._at = ctypes.byref(self._instruction)
        self._say = (ctypes.byref(self._result), ctypes.byref(self._error))
        self._does = {lib.F: self._forward, lib.B: self._backward_input, lib.W: self._backward_weight, lib.BW: self._backward,
                      lib.R: self._recompute, lib.OPTIMIZER: self._update, lib.NORM: self._norm, lib.CLIP: self._scale,
                      lib.SAVE: self._save, lib.LOAD: self._load}
        for kind in (lib.B, lib.W, lib.BW):
            self._does[kind] = _without_autocast(self._does[kind])
        self._does = {kind: self._device.in_order(work) for kind, work in self._does.items()}

    def _check(self, modules, loss, optimizer, clip):
        if not isinstance(modules, collections.abc.Mapping):
            raise SpecError(f"modules is a {type(modules).__name__}: expected {{stage: module}}; pipec.torch.stages makes them")
        missing, extra = set(self._own) - set(modules), set(modules) - set(self._own)
        if missing or extra:
            raise SpecError(f"rank {self.rank} has the stages {self._own}: modules lack {sorted(missing)} and have "
                            f"{sorted(extra)} too much; pipec.torch.stages makes them", self.plan.name)
        if self._last in self._own and loss is None:
            raise SpecError(f"rank {self.rank} has the last stage, {self._last}: it needs a loss")
        wrapped.check(modules, self.plan)
        self._check_shared(modules, optimizer)
        shared.check_noted(self.plan, modules)
        if self._loss is not None and self.plan.degree > 1 and any(p.requires_grad for p in self._loss.parameters()):
            raise SpecError("the loss has parameters, and replicas sum those of layers alone: put them into the last layer, or "
                            "freeze them", self.plan.name)
        if clip is not None and not self.plan.facts["global_norm"] and self.plan.world == 1:
            raise SpecError("clip needs the norm of all gradients, which a plan of one process does not ask for: step an optimizer "
                            "of your own, behind run.clip_grad_norm_", self.plan.name)
        if clip is not None and not self.plan.facts["global_norm"]:
            raise SpecError("clip needs the norm of all gradients: set costs.optimizer to {time: …, global_norm: true}",
                            self.plan.name)
        if self.plan.facts["shards_updates"] and not optimizer:
            raise SpecError("each replica updates its share of a layer (data_parallel.shard: optimizer), which an optimizer of the "
                            "program's own cannot: pass what makes the plan's, or set data_parallel.shard to none", self.plan.name)
        if (clip is not None or optimizer) and not self.plan.facts["updates"]:
            raise SpecError("the plan has no optimizer steps: set costs.optimizer, or step an optimizer of your own between two "
                            "steps", self.plan.name)

    def _check_shared(self, modules, optimizer):
        """Gradients of a weight that is used twice are summed within a stage alone, and where replicas have the plan's optimizer,
        which steps layers one by one, within a layer."""
        parts = {f"stage {s}": module for s, module in modules.items()}
        if self.plan.degree > 1 and optimizer:
            parts = {f"stage {s} layer {n}": layer for s, module in modules.items()
                     for n, layer in enumerate(module if isinstance(module, torch.nn.Sequential) else [module])}
        owners = {}
        for where, module in parts.items():
            for name, p in module.named_parameters():
                if (other := owners.setdefault(id(p), where)) != where and p.requires_grad:
                    raise SpecError(f"{where} and {other} share the parameter {name}, whose gradients would not be summed: tie "
                                    f"weights within one {where.split()[-2]}", self.plan.name)

    def _check_replicas(self):
        """They train the same weights only if they begin with the same."""
        if not self._flat:
            return
        own = {f"stage {s} layer {n}": layer.digest() for s, layers in self._flat.items() for n, layer in enumerate(layers)}
        if self.replica == 0:
            return self._put(f"weights/{self.rank}", json.dumps(own))
        for where, digest in json.loads(self._get(f"weights/{self.rank}")).items():
            if own[where] != digest:
                raise SpecError(f"replica {self.replica} of rank {self.rank} begins with other weights than replica 0, in {where}: pass "
                                "pipec.torch.stages what makes layers (it seeds them), or seed before they are made", self.plan.name)

    def _check_ranks(self):
        """What only all ranks together show: shared parameters, and that each compares when the others do."""
        if self.plan.world == 1:
            return
        self._put(f"open/{self.world_rank}", json.dumps([self._checks.kind, shared.held_elsewhere(self.modules), self._keys.own]))
        kinds, held, takes = zip(*(json.loads(self._get(f"open/{process}")) for process in range(self.plan.world)))
        self._keys.hear(takes)
        if self._checks.kind != kinds[0]:
            raise SpecError(f"check is {self._checks.kind!r}, on rank 0 {kinds[0]!r}: pass the same on all ranks")
        shared.compare(self.plan, self.modules, held)

    def _open(self, checkpoint, every, resume, overwrite, control, adapt, trace, deadline, idle, secret):
        layers = described(self._flat)
        self._meet(secret, resume=int(resume), device=self._device.name, deadline=deadline or 0, idle=idle or 0,
                   checkpoint=_path(checkpoint), every=every, control=_path(control), trace=_path(trace), adapt=_path(adapt),
                   overwrite=int(overwrite), layers=layers, layer_count=len(layers))

    def _meet(self, secret, **settings):
        setup = lib.Setup(size=ctypes.sizeof(lib.Setup), plan=os.fsencode(self.plan.path), secret=_path(secret), **settings)
        run = ctypes.c_void_p()
        self._call(lib.LIBRARY.pipec_run_open(ctypes.byref(setup), ctypes.byref(run), ctypes.byref(self._error)))
        self._run, self._process = run, os.getpid()

    def _refuse(self, secret, why):
        """Tells the other ranks, which would wait for this one."""
        if self.plan.world == 1:
            return
        what = lib.Instruction(size=ctypes.sizeof(lib.Instruction))
        try:
            self._meet(meeting.secret(secret, self.plan.world), refused=why.encode())
            while True:
                self._call(lib.LIBRARY.pipec_run_next(self._run, ctypes.byref(what), ctypes.byref(self._error)))
        except Error:  # once they have heard it
            self._close(why)

    # The program's side.

    def step(self, x=None, target=None, *, batch_id=None, loss="all", **keywords):
        """One step: x, the batch, on the first stage's rank; target on the last one's; None on the others. Each is a tensor, or a
        tuple or dict of tensors, cut into microbatches along their first dimension. batch_id: a number of the batch, where x and
        target come from two loaders; compared as `check` says. Gives the mean loss of all microbatches and replicas, a scalar
        tensor. loss="last": nobody waits for it; the last stage's rank gives its replica's, the others None.

        keywords: further inputs, for example attention_mask=mask. A layer gets those that its forward names, the loss those that it
        names; what goes into **kwargs has no name. Every rank passes those that its stages take. They are cut as x is; what is no
        tensor, or a tensor without dimensions, goes whole to each microbatch."""
        if self._ended:
            raise Ended(f"the run has ended after {self.steps_done} steps")
        if self._run is None:
            raise SpecError("the run is closed")
        if not torch.is_grad_enabled():
            raise SpecError("step trains, and gradients are off (torch.no_grad or torch.inference_mode): leave that block. Evaluation "
                            "through the pipeline is not supported yet")
        if loss not in ("all", "last"):
            raise SpecError(f"loss is {loss!r}: expected 'all' or 'last', the ranks that want it")
        self._warn_of_eval()
        for stage, layers in self._layered.items():
            if tuple(self.modules[stage]) != layers:
                raise SpecError(f"stage {stage} has other layers than when the run began: begin a run with them")
        rows = rows_of(x)
        if self._keys.check(keywords, rows) and self.plan.world > 1:
            self._put(f"keywords/{self.world_rank}", json.dumps(self._keys.told))
        if rows:
            self._rows = self._rows[0] or rows, rows
        self._in_step = True
        self._x, self._target, self._batch_id, self._losses = x, target, batch_id, Losses()
        self._keywords = keywords
        if self._scaler is not None:
            self._scaler.scale(torch.zeros((), device=self._device.device))  # it learns where it is
        self._microbatches = 0
        if self._planned and self.plan.facts["overlaps"]:
            self._set = {step: found for step, found in self._set.items() if step >= self.steps_done - 1}
            self._set[self.steps_done] = _settings(self._optimizers)
        self._aside = [] if self._planned else [(p, p.grad) for p in self._parameters() if p.grad is not None]
        if self._flat:
            self._attach()
            self._gather_aside()
        else:
            for parameter, _ in self._aside:
                parameter.grad = None
        began = time.perf_counter()
        self._until_end_of_step()
        if not self._ended and self._drains:
            self._done()
            self._drain()
        if self._ended:
            raise Ended(f"the run was asked to end, after {self.steps_done} steps")
        if not self._planned:
            self._settle(self._layers(self._own), self._instruction.step - 1, self._microbatches)
            for parameter, before in self._aside:
                if self._flat:
                    parameter.grad.add_(before)
                else:
                    parameter.grad = before if parameter.grad is None else before.add_(parameter.grad)
        self._handed.clear()
        self._gradients.clear()
        self._x = self._target = None
        self._keywords = {}
        self._aside = []
        if self._scaler is not None and not all(self._all_say(all_finite(self._own_gradients()))):
            make_infinite(self._parameters())
        mean = self._mean_loss(self._instruction.step - 1, loss)
        self._compare_keywords()
        took = time.perf_counter() - began
        self.steps_done = self._instruction.step
        self._steps_here += 1
        self._measures_memory = self._steps_here == 1  # in the second step: the first one still learns
        if x is not None and 0 in self._own:
            self._tokens = _samples(x)
        if self._steps_here == 2:
            self._put(f"peak/{self.world_rank}", str(self._peak))
            self._put(f"tokens/{self.world_rank}", str(self._tokens))
        self._done()
        self._in_step = False
        self._note_random()
        if self._progress:
            self._progress.step(self.steps_done, took, self._tokens, self._peak, mean)
        return mean

    def clip_grad_norm_(self, most):
        """Between two steps, on all ranks: multiplies the gradients so that the norm of those of all ranks is `most` at most, as
        `clip` does for the plan's optimizer, to the same bits. (torch.nn.utils.clip_grad_norm_ sees this rank's alone.) Gives
        the norm, a tensor of one double."""
        if self._planned:
            raise SpecError("clip_grad_norm_ is for an optimizer of the program's own: pass clip to the Run")
        own = squares(self._shares())
        total = 0.0
        for each in self._all_say(0.0 if own is None else float(own)):  # in the order of the runtime's own sum
            total += each
        factor = self._device.factor_of(torch.tensor(total, dtype=torch.float64, device=self._device.device), most)
        gradients = [gradient for key in self._layers(self._own) for gradient in self._gradients_of(*key)]
        if gradients and factor is not None:
            torch._foreach_mul_(gradients, factor)
        return torch.tensor(total, dtype=torch.float64).sqrt()

    def _warn_of_eval(self):
        """Once."""
        for stage in () if self._warned else self._own:
            if not any(each.training and not each._modules for each in self.modules[stage].modules()):  # of leaves
                self._warned = True
                warnings.warn(f"stage {stage} is trained in eval() mode, in which dropout and batch norm are off: call train() on its "
                              "module, unless that is meant", stacklevel=3)

    def sync(self):
        """Waits until all of the last step is done. With the plan's optimizer updates may go on beside the next step's forwards
        (`collective: decoupled`): call it before weights are read or written outside of a step."""
        if self._run is None or self._ended:
            return
        if self._planned:
            self._attach()
        self._drain()
        self._done()

    def swap(self, variant):
        """Goes over to another variant, by number or name; on one rank or on all alike. Returns the step it holds from."""
        if self._run is None:
            raise SpecError("the run is closed")
        step = ctypes.c_int64()
        code = lib.LIBRARY.pipec_run_swap(self._run, str(variant).encode(), ctypes.byref(step), ctypes.byref(self._error))
        if code:
            raise_for(code, self._message())
        return step.value

    def report(self):
        """After the block: what `piperun --json` prints, with tokens_per_s, peak_bytes and predicted_peak_bytes of the ranks."""
        if self._report is None:
            raise SpecError("the run has not ended: its report comes behind the with block")
        return self._report

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind in (None, Ended):
            self.close()
        else:
            self._close(f"{kind.__name__}: {error}")
        return kind is Ended

    def close(self):
        """Ends the run on all ranks, behind the same step, with a last checkpoint where it has a folder. In a child that the
        program has forked it does nothing: the run is the parent's."""
        if self._run is None or os.getpid() != self._process:
            return
        if self._in_step and not self._ended:  # a step has failed, and the program has not minded
            return self._close(f"rank {self.rank} left step {self.steps_done}")
        try:
            if not self._ended:
                if self._planned:
                    self._attach()
                self._call(lib.LIBRARY.pipec_run_finish(self._run, ctypes.byref(self._error)))
                self._until_end_of_step()
            self._read_report()
        except BaseException as failure:
            self._close(f"{type(failure).__name__}: {failure}")
            raise
        self._close(None)

    # The library's side.

    def _message(self):
        return self._error.message.decode(errors="replace")

    def _call(self, code):
        if code:
            raise_for(code, self._message())

    def _done(self):
        self._call(lib.LIBRARY.pipec_run_done(self._run, *self._say))

    def _until_end_of_step(self):
        """Does what comes, up to the end of a step, which is not yet said to be done, or of the run."""
        run, at, error, what, does = self._run, self._at, self._say[1], self._instruction, self._does
        take, say, result = lib.LIBRARY.pipec_run_next, lib.LIBRARY.pipec_run_done, self._say[0]
        while True:
            code = take(run, at, error)
            if code:
                raise_for(code, self._message())
            kind = what.kind
            if kind == lib.NONE:
                continue
            if kind == lib.END_OF_STEP:
                return
            if kind == lib.END:
                self._ended = True
                return
            try:
                does[kind](what)
            except BaseException as failure:
                text = f"{type(failure).__name__}: {failure}"
                self._result.error = " ".join(text.split())[:1000].encode()
                say(run, result, error)
                raise
            code = say(run, result, error)
            if code:
                raise_for(code, self._message())

    def _drain(self):
        """Behind the end of a step, up to its end once more, with all of it done."""
        self._call(lib.LIBRARY.pipec_run_drain(self._run, ctypes.byref(self._error)))
        self._until_end_of_step()

    def _put(self, key, text):
        self._call(lib.LIBRARY.pipec_run_put(self._run, key.encode(), text.encode(), ctypes.byref(self._error)))

    def _get(self, key, wait=True):
        text = ctypes.c_char_p()
        while True:
            self._call(lib.LIBRARY.pipec_run_get(self._run, key.encode(), ctypes.byref(text), ctypes.byref(self._error)))
            if text.value is not None or not wait:
                return None if text.value is None else text.value.decode()

    def _put_of_step(self, key, step, value):
        """For ranks that ask for it in the same step, or beside the next: what JSON can hold."""
        self._put(f"{key}/{step % 4}", json.dumps([step, value]))

    def _get_of_step(self, key, step):
        while True:
            of, value = json.loads(self._get(f"{key}/{step % 4}"))
            if of == step:
                return value
            time.sleep(1e-4)  # there is that of four steps before

    def _all_say(self, value):
        """[of each process: its value], where all say one."""
        if self.plan.world == 1:
            return [value]
        self._exchanges += 1
        self._put_of_step(f"all/{self.world_rank}", self._exchanges, value)
        return [self._get_of_step(f"all/{process}", self._exchanges) for process in range(self.plan.world)]

    def _read_report(self):
        text = ctypes.c_char_p()
        self._call(lib.LIBRARY.pipec_run_report(self._run, ctypes.byref(text), ctypes.byref(self._error)))
        report = json.loads(text.value) if text.value else {}
        peaks = [self._get(f"peak/{process}", wait=False) for process in range(self.plan.world)]
        tokens = sum(int(self._get(f"tokens/{process}", wait=False) or 0) for process in range(self.plan.world))
        times = sorted(report.get("step_ms", []))
        report["peak_bytes"] = [int(peak) if peak else None for peak in peaks]
        report["predicted_peak_bytes"] = self.plan.facts["variants"][0]["peak_activation_bytes"]
        middle = times[len(times) // 2] if times else 0
        report["tokens_per_s"] = tokens / middle * 1e3 if tokens and middle else None
        self._report = report

    def _close(self, why):
        if self._run is not None:
            lib.LIBRARY.pipec_run_close(self._run, why.encode() if why else None)
            self._run = None
            self._does = {}  # of methods, which would keep the run and its modules until Python collects cycles

    # Instructions.

    def _named_parameters(self, stage):
        """Those of its module, and of the last stage the loss's."""
        yield from self.modules[stage].named_parameters()
        if stage == self._last and self._loss is not None:
            yield from self._loss.named_parameters(prefix="loss")

    def _parameters(self):
        return {id(p): p for stage in self._own for _, p in self._named_parameters(stage)}.values()

    def _begin_microbatches(self, what):
        self._microbatches = what.microbatches
        self._slots, self._shapes = self._boundaries.setdefault(what.microbatches, (_Slots(self._device), {}))
        self._first = self.replica * what.microbatches  # of its own among those of all replicas
        self._checks.begin(what.epoch)
        if self._checks.on:
            self._compare_batches(what.step)
        if 0 in self._own:
            if self._x is None:
                raise SpecError(f"rank {self.rank} has the first stage: step needs x")
            self._x = _split(self._x, what.microbatches, "x")
        if self._last in self._own:
            if self._target is None:
                raise SpecError(f"rank {self.rank} has the last stage: step needs target")
            self._target = _split(self._target, what.microbatches, "target")
        if self._keywords:
            self._keywords = self._keys.cut(self._keywords, what.microbatches, _split)

    def _compare_keywords(self):
        """Behind the first step: what ranks were given."""
        own = self._keys.told
        if self._steps_here == 0 and own is not None:
            self._keys.compare([own] if self.plan.world == 1 else
                               [json.loads(self._get(f"keywords/{process}")) for process in range(self.plan.world)])

    def _compare_batches(self, step):
        """What the first stage's rank was given with what the last one's was. The first has begun its step before anything
        comes to the last."""
        ends = [rank for stage in (0, self._last) for rank in range(self.plan.ranks) if stage in self._stages_of[rank]]
        if ends[0] == ends[1] or self.rank not in ends:
            return
        own = {"x": checksum_of_batch(self._x), "target": checksum_of_batch(self._target), "batch_id": self._batch_id,
               **{name: checksum_of_batch(value) for name, value in self._keywords.items()}}
        if self.rank == ends[0]:
            return self._put_of_step(f"batch/{self.replica}", step, own)
        names = [f"rank {rank}" + (f" replica {self.replica}" if self.plan.degree > 1 else "") for rank in ends]
        different_batches(step, (names[0], self._get_of_step(f"batch/{self.replica}", step)), (names[1], own))

    def _shape(self, stage):
        """Of what a stage hands on to another rank, as that rank's host said."""
        found = self._shapes.get(stage)
        if found is None:
            said = json.loads(self._get(f"boundary/{stage}/{self._microbatches}"))
            try:
                found = Layout.heard(said) if "tree" in said else (getattr(torch, said["dtype"]), torch.Size(said["shape"]))
            except SpecError as error:
                raise SpecError(f"stage {stage} hands on to rank {self.rank}: {error}", self.plan.name) from None
            self._shapes[stage] = found
        return found

    def _tell_shape(self, stage, output, planned):
        """To the next stage's rank, once, of what kind a boundary is. Refuses one that is too large, or was another before."""
        of_tree = type(output) is Tree
        kind = Layout.of(output) if of_tree else (output.dtype, output.shape)
        size = kind.bytes if of_tree else output.numel() * output.element_size()
        if size != planned and self._rows[0] != self._rows[1]:
            raise SpecError(f"x has {self._rows[1]} rows, that of the first step had {self._rows[0]}: {_SIZES}")
        if size > planned:
            what = f"a tree of {kind.parts()}, each at a multiple of 64" if of_tree else _shown(kind)
            raise SpecError(f"stage {stage} hands on {what}, {size} bytes a microbatch; the plan has {planned}: set tensors.boundary to "
                            f"{size}B", self.plan.name)
        known = self._shapes.get(stage)
        if known is None:
            try:
                said = kind.told() if of_tree else {"dtype": str(output.dtype).removeprefix("torch."), "shape": tuple(output.shape)}
            except SpecError as error:
                raise SpecError(f"stage {stage} hands on: {error}", self.plan.name) from None
            self._shapes[stage] = kind
            self._put(f"boundary/{stage}/{self._microbatches}", json.dumps(said))
            return
        found = known.difference(kind) if of_tree and type(known) is Layout else None if kind == known else (_shown(kind), _shown(known))
        if found is not None:
            raise SpecError(f"stage {stage} hands on {found[0]}, before it was {found[1]}: in a run this stays as it is, while a step "
                            "has as many microbatches; pad what varies", self.plan.name)

    def _slot(self, address, size, stage):
        """Of what goes from a stage to the next, or of its gradient."""
        found = self._slots.get((address, stage))
        return self._slots.add(address, stage, size, self._shape(stage)) if found is None else found

    def _send(self, what, stage, output):
        slot = self._slots.get((what.output, stage))
        if type(output) is Tree:
            fits = type(slot) is TreeSlot and slot.layout.fits(output)
        else:
            fits = slot is not None and slot.shape == output.shape and slot.dtype is output.dtype
        if not fits:
            self._tell_shape(stage, output, what.output_bytes)
            slot = self._slot(what.output, what.output_bytes, stage)
        slot.copy_(output)

    def _forward(self, what):
        stage, m = what.stage, what.microbatch
        if not self._microbatches:
            self._begin_microbatches(what)
        if what.input:
            x = self._slot(what.input, what.input_bytes, stage - 1).clone()
        elif what.first_layer > 0:
            x = None
        elif stage > 0:
            x = self._handed.pop((stage, m))
        else:
            x = self._x[m]
        target = self._target[m] if stage == self._last else None
        output = self._stages[stage].forward(self._first + m, x, step=what.step, target=target, keep=not what.recomputed,
                                             keywords=self._keywords and self._keywords[m], **self._part(what))
        if output is None:  # more parts follow
            pass
        elif stage == self._last:
            self._losses.add(m, output, self._stages[stage].count)
            if len(self._losses.rows) == what.microbatches:
                self._end_of_losses(what.step)
        elif what.output:
            self._send(what, stage, output)
        else:
            self._handed[stage + 1, m] = output
        if self._measures_memory:
            self._measure()

    def _end_of_losses(self, step):
        """All of a step are there. Others divide by their counts before they use gradients, so they hear these now, and in the
        first step whether there are any. A mean waits for the end of the step where the host would wait for the device."""
        counted = self._losses.counted
        if self._counted is not None and self._counted != (counted is not None):
            raise SpecError(f"the loss is {'(sum, count)' if counted is not None else 'a scalar'}, in earlier steps it was not: let it "
                            "always be the same")
        if self._counted is not False or not self._device.is_behind:
            self._tell_loss(step)

    def _tell_loss(self, step):
        mean, self._told = self._losses.mean, step
        row = mean.item(), self._losses.counted
        if self.plan.degree == 1:
            self._take_losses(step, [row])
        if self.plan.world > 1:
            self._put_of_step(f"loss/{self.replica}", step, [*row, str(mean.dtype).removeprefix("torch.")])
        if not self._not_finite and not math.isfinite(row[0]) and (found := self._losses.first_not_finite()):
            self._not_finite = True
            warnings.warn(f"the loss is {found[1]} in step {step}, microbatch {found[0]}", RuntimeWarning, stacklevel=2)

    def _take_losses(self, step, rows):
        self._counted = rows[0][1] is not None
        self._counts = {known: count for known, count in self._counts.items() if known >= step - 1}
        if self._counted:
            self._counts[step] = math.fsum(count for _, count in rows) or 1.0

    def _hear_losses(self, step):
        rows = [self._get_of_step(f"loss/{replica}", step) for replica in range(self.plan.degree)]
        if len({row[1] is None for row in rows}) > 1:
            raise SpecError(f"the loss is (sum, count) on some replicas and a scalar on others in step {step}: let it be the same")
        self._take_losses(step, [row[:2] for row in rows])
        return rows

    def _mean_loss(self, step, wanted):
        """At the end of a step."""
        if self._losses.rows and self._told != step:
            self._tell_loss(step)
        own = self._losses.mean
        if wanted == "last" or own is not None and self.plan.degree == 1:
            return own
        rows = self._hear_losses(step)
        return torch.tensor(mean_of_all([row[:2] for row in rows]), dtype=getattr(torch, rows[0][2]),
                            device=None if own is None else own.device)

    def _divisor(self, step, microbatches):
        """By what sums over the microbatches of all replicas are divided, in a step."""
        if self._counted is not False and step not in self._counts:
            self._hear_losses(step)
        return self._counts[step] if self._counted else float(microbatches * self.plan.degree)

    def _recompute(self, what):
        self._stages[what.stage].recompute(self._first + what.microbatch, **self._part(what))
        if self._measures_memory:
            self._measure()

    def _part(self, what):
        return {"first": what.first_layer, "layers": what.layers} if self._parts else _WHOLE

    def _ends(self, what):
        """Whether a backward begins with the stage's last layer, to which the gradient comes."""
        return not what.layers or what.first_layer + what.layers == len(self.modules[what.stage])

    def _gradient(self, what):
        """Of a stage's output."""
        stage = what.stage
        if stage == self._last or not self._ends(what):
            return None
        if what.input:
            slot = self._slot(what.input, what.input_bytes, stage)
            if type(slot) is TreeSlot:
                return slot.gradients() or UNREACHED
            return slot.clone() if slot.is_floating_point() or slot.is_complex() else UNREACHED
        gradient = self._gradients.pop((stage, what.microbatch))
        return UNREACHED if gradient is None else gradient

    def _hand_back(self, what, gradient):
        stage = what.stage
        if what.output:
            slot = self._slot(what.output, what.output_bytes, stage - 1)
            if type(slot) is TreeSlot:
                slot.copy_gradients_(gradient)
            elif gradient is None:
                slot.zero_()
            else:
                slot.copy_(gradient)
        elif stage > 0 and what.first_layer == 0:
            self._gradients[stage - 1, what.microbatch] = gradient

    def _backward_input(self, what):
        self._hand_back(what, self._stages[what.stage].backward_input(self._first + what.microbatch, self._gradient(what),
                                                                      **self._part(what)))
        if self._measures_memory:  # what it makes may be more than what it frees
            self._measure()

    def _backward_weight(self, what):
        self._stages[what.stage].backward_weight(self._first + what.microbatch, **self._part(what))

    def _backward(self, what):
        self._hand_back(what, self._stages[what.stage].backward(self._first + what.microbatch, self._gradient(what),
                                                                **self._part(what)))

    def _trained(self):
        """[(stage, layer), [(name, parameter)]]: what one optimizer of the plan's steps. Replicas sum layer by layer, and where
        each updates its share that is one flat parameter."""
        if not self._flat:
            for stage in self._own:
                yield (stage, 0), list(self._named_parameters(stage))
        sharded = {stage.stage: stage.sharded for stage in self.plan.stages(self.rank)}
        for stage, layers in self._flat.items():
            for number, layer in enumerate(layers):
                if not sharded[stage][number]:
                    yield (stage, number), layer.named
                    continue
                share = layer.share(self.replica, self.plan.degree)
                part = torch.nn.Parameter(layer.weights[share])
                part.grad = layer.gradients[share]
                yield (stage, number), [(f"{number}.share", part)]

    def _layers(self, stages, first=0, layers=0):
        """(stage, layer) of what is averaged and stepped by itself."""
        for stage in stages:
            count = len(self._flat[stage]) if self._flat else 1
            for number in range(first, first + layers) if layers and self._flat else range(count):
                yield stage, number

    def _gradients_of(self, stage, number):
        if self._flat:
            return [self._flat[stage][number].gradients]
        return [p.grad for _, p in self._named_parameters(stage) if p.grad is not None]

    def _attach(self):
        for layers in self._flat.values():
            for layer in layers:
                layer.attach()

    def _gather_aside(self):
        """Gradients of the program's own optimizer that it did not make zero are added behind the step."""
        self._aside = [(p, gradient.clone()) for p, gradient in self._aside]
        if not self._planned:
            for layers in self._flat.values():
                for layer in layers:
                    layer.gradients.zero_()

    def _settle(self, layers, step, microbatches):
        """Sums over the microbatches of all replicas become means, whose norm is clipped: once a step, when nobody else uses
        the gradients any more."""
        count, (of, factor) = self._divisor(step, microbatches), self._factor
        for key in layers:
            gradients = self._gradients_of(*key) if self._settled.get(key) != step else []
            self._settled[key] = step
            if gradients and count != 1:
                torch._foreach_div_(gradients, count)
            if gradients and of == step and factor is not None:
                torch._foreach_mul_(gradients, factor)

    def _update(self, what):
        if not self._optimizers:
            return
        layers = list(self._layers([what.stage], what.first_layer, what.layers))
        self._settle(layers, what.step, what.microbatches)
        before = self._set.get(what.step, {}) if what.step != self.steps_done else {}
        for key in filter(self._optimizers.__contains__, layers):
            optimizer = self._optimizers[key]
            if key not in before:
                optimizer.step()
            else:  # it comes beside the next step, for which the program has set others already
                now = _settings({key: optimizer})[key]
                for group, settings in zip(optimizer.param_groups, before[key]):
                    group.update(settings)
                optimizer.step()
                for number, (group, settings) in enumerate(zip(optimizer.param_groups, before[key])):
                    own = {name: group[name] for name in settings if group[name] is not settings[name]}  # which it keeps there
                    for later in (now, *(found[key] for step, found in self._set.items() if step > what.step)):
                        later[number].update(own)
                    group.update(now[number])
            if not self._flat:
                optimizer.zero_grad()
            else:
                self._flat[key[0]][key[1]].gradients.zero_()

    def _own_gradients(self):
        return [p.grad for p in self._parameters() if p.grad is not None]

    def _shares(self):
        """Gradients of this rank; of replicas those of its shares, as all have the same."""
        if not self._flat:
            return self._own_gradients()
        return [layer.gradients[layer.share(self.replica, self.plan.degree)] for layers in self._flat.values() for layer in layers]

    def _norm(self, what):
        """Of the means. Of replicas each says that of its shares; the others' may be on their way meanwhile."""
        total = squares(self._shares(), self._divisor(what.step, what.microbatches))
        self._device.tell(what, self._result, total)

    def _scale(self, what):
        if self._clip is not None:
            self._factor = what.step, self._device.factor(what, self._clip)

    def _measure(self):
        self._peak = max(self._peak, sum(stage.held() for stage in self._stages.values()))

    # Checkpoints.

    def _note_random(self):
        """Keeps the random state for a checkpoint, which is written at the next step's beginning: by then the program has drawn
        that step's batch."""
        if self._keeps:
            self._random = torch.get_rng_state(), random.getstate(), self._device.random_state()

    def _pending(self):
        """{(stage, name): gradient} of the program's own optimizer that it has not made zero."""
        if self._planned:
            return {}
        kept = {id(p): gradient for p, gradient in self._aside} if self._in_step else {id(p): p.grad for p in self._parameters()}
        return {(s, name): kept[id(p)] for s in self._own for name, p in self._named_parameters(s) if kept.get(id(p)) is not None}

    def _save(self, what):
        state = {"steps": what.step, "stages": {s: module.state_dict() for s, module in self.modules.items()},
                 "optimizers": {s: each.state_dict() for s, each in self._optimizers.items()},
                 "state": {name: each.state_dict() for name, each in self._state.items()},
                 "loss": None if self._loss is None else self._loss.state_dict(), "gradients": self._pending(),
                 "random": self._random}
        path = what.path.decode()
        torch.save(state, path)
        if self._state and not self._saved and (found := _other_than_tensors(path)):
            warnings.warn(found, stacklevel=2)
        self._saved = True

    def _load(self, what):
        path = what.path.decode()
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise SpecError(_other_than_tensors(path) or f"the checkpoint is not of a pipec.torch.Run: {error}") from None
        try:
            if set(state["stages"]) != set(self.modules):
                raise SpecError(f"the checkpoint has the stages {sorted(state['stages'])}, rank {self.rank} {sorted(self.modules)}")
            for s, module in self.modules.items():
                try:
                    module.load_state_dict(state["stages"][s])
                except RuntimeError as error:
                    raise SpecError(f"stage {s}: the checkpoint is of another model: {error}") from None
            for kept, own in ((state["optimizers"], self._optimizers), (state["state"], self._state)):
                if set(kept) != set(own):
                    raise SpecError(f"the checkpoint has {sorted(kept)}, the run {sorted(own)}: pass what it was saved with")
                for name, each in own.items():
                    each.load_state_dict(kept[name])
            if self._loss is not None and state.get("loss") is not None:
                self._loss.load_state_dict(state["loss"])
            for s in self._own:
                for name, p in self._named_parameters(s):
                    if (gradient := state.get("gradients", {}).get((s, name))) is not None:
                        gradient = gradient.to(p.device)
                        if p.grad is None:
                            p.grad = gradient
                        else:  # where replicas sum
                            p.grad.copy_(gradient)
            generator, python, *own = state["random"]
            torch.set_rng_state(generator)
            random.setstate(python)
            if own and own[0] is not None:
                self._device.set_random_state(own[0])
        except (KeyError, TypeError) as error:
            raise SpecError(f"the checkpoint is not of a pipec.torch.Run: {error}") from None


class _Progress:
    """Rank 0's line: what is measured beside what was predicted."""

    def __init__(self, plan, rank):
        variant = plan.facts["variants"][0]
        self._predicted, self._bubble = variant["step_ms"], variant["bubble_rate"]
        self._peak, self._printed = variant["peak_activation_bytes"][rank], 0.0
        self._times = collections.deque(maxlen=20)

    def step(self, steps, took, tokens, peak, loss):
        self._times.append(took)
        now = time.monotonic()
        if now - self._printed < _PROGRESS or steps < 2:
            return
        self._printed = now
        middle = sorted(self._times)[len(self._times) // 2]
        parts = [f"step {steps}"]
        if loss is not None:
            parts.append(f"loss {loss.item():.4f}")
        if tokens:
            parts.append(f"{tokens / middle:.0f} tokens/s")
        parts.append(f"{middle * 1e3:.1f} ms ({self._predicted:.1f} predicted, bubble {self._bubble * 100:.0f} %)")
        if peak:
            parts.append(f"peak {peak / 2**20:.1f} MiB ({self._peak / 2**20:.1f} predicted)")
        print("pipec: " + ", ".join(parts), file=sys.stderr, flush=True)
