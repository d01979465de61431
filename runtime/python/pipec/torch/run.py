"""A rank of a plan in this process: `Run.step` does its instructions, one after the other, as the library gives them."""
import os
import time
import warnings

import torch

from .. import _library as lib
from ..errors import Ended, SpecError
from .checkpoints import Checkpoints
from .checks import Checks
from .evaluation import Evaluations
from .interrupts import Interrupts
from .keywords import Keywords
from .losses import RunLosses
from .meeting import Meeting
from .model import LocalModel
from .opening import check, check_ranks, check_replicas, check_state
from .optimizers import Optimizers
from .progress import Progress
from .replicas import described
from .session import Session
from .slots import SIZES
from .steps import Steps
from .varying import SHAPES


def _path(text):
    return None if text is None else os.fsencode(text)


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
        checkpoint: a folder that all ranks have in common. every: steps from one checkpoint to the next (0: only at the end).
            resume: goes on from the last one, if there is any, of whatever cut and ranks. overwrite: begins anew. keep: how many
            stay, the newest. save: "between" two steps, or "beside" the next one, from a copy in memory. names: names(layer, name)
            gives what a weight or buffer of a layer is called in the whole model; None: "LAYER.NAME". Ctrl-C ends a run that has
            checkpoints behind the step, with a last one, and is raised behind the block.
        control: a socket for `piperun --control`. adapt: "on", "observe" or "profile". trace: a file, written as trace.RANK.json.
        deadline, idle: seconds that a pass or a transfer may last while others wait for it; and the first step, saving, loading
            and the time between two steps.
        secret: the job's; None: PIPEC_SECRET's, or a random one that the ranks share by their process group or torchrun's store.
        check: when R's output is compared with F's, and the batches of the first stage's rank with those of the last one's:
            "first" (in two steps, at the beginning and behind each swap), "always" or "never"; the same on all ranks.
        shapes: "vary": sizes of what stages hand on may be others in each microbatch, up to the bytes of the plan; "same": they stay
            as in the first one. The same on all ranks.
        progress: whether rank 0 prints; of several pipelines the one that has the launcher's process 0.
        group: the processes of the pipeline, a torch.distributed process group such as mesh["pp"].get_group(). Each pipeline of a mesh is
            a run of its own. None: all processes that the launcher has started.

    Raises SpecError for what cannot be, RunError where another rank or the network fails."""

    def __init__(self, plan, modules, *, loss=None, seed=0, optimizer=None, clip=None, scaler=None, state=None, checkpoint=None, every=0,
                 resume=False, overwrite=False, keep=1, save="between", names=None, control=None, adapt=None, trace=None, deadline=None,
                 idle=None, secret=None, check="first", shapes="same", progress=True, group=None):
        self.plan = plan
        if plan.facts["refused"]:
            raise SpecError(plan.facts["refused"], plan.name)
        meeting = Meeting(plan, secret, group)
        self.world_rank = meeting.process
        self._model = LocalModel(plan, self.world_rank, modules, loss)
        self.rank, self.replica = self._model.rank, self._model.replica
        self._session, self._report, self._warned = Session(plan, meeting), None, False
        try:
            self._checks = Checks(check)
            if shapes not in SHAPES:
                raise SpecError(f"shapes is {shapes!r}: expected {', '.join(map(repr, SHAPES))}")
            check_state(dict(state or {}))
            self._make(loss, seed, optimizer, clip, scaler, shapes)
            self._checkpoints = Checkpoints(self._model, self._optimizers, state=dict(state or {}),
                                            keeps=checkpoint is not None, keep=keep, save=save, names=names, scaler=scaler, idle=idle)
        except Exception as error:
            self._session.refuse(f"{type(error).__name__}: {error}")
            raise
        first = self.world_rank == 0 and (group is None or torch.distributed.get_rank() == 0)
        self._progress = Progress(plan, self.rank) if progress and first else None
        self._open(checkpoint, every, resume, overwrite, control, adapt, trace, deadline, idle)
        try:
            self._session.until_end_of_step()
            self._session.steps_done = self._session.instruction.step
            check_replicas(self._model, self._session)
            self._checkpoints.meet(self._session)
            check_ranks(self._model, self._session, self._checks, self._keys, shapes)
            self._session.done()
            self._checkpoints.note_random()
        except BaseException as error:
            self._session.close(f"{type(error).__name__}: {error}")
            raise
        self._interrupts = Interrupts(self._session.stop) if checkpoint is not None else None

    def _make(self, loss, seed, optimizer, clip, scaler, shapes):
        """All that this rank needs of the program."""
        model, session = self._model, self._session
        check(model, loss, optimizer, clip)
        if scaler is not None and optimizer is not None:
            raise SpecError("a GradScaler steps an optimizer of the program's own: pass no optimizer, or train without a scaler, for "
                            "example in bfloat16")
        model.prepare()
        self.modules = model.modules
        self._keys = Keywords(self.rank, model.modules, loss if model.last in model.own else None, SIZES, shapes == "vary")
        self._losses = RunLosses(model, session)
        self._steps = Steps(model, session, self._losses, self._checks, self._keys, loss=loss, seed=seed, scaler=scaler, shapes=shapes)
        self._evaluations = Evaluations(model, session, self._steps, self._keys, shapes)
        self._optimizers = Optimizers(model, session, self._losses, optimizer, clip, scaler)

    def _open(self, checkpoint, every, resume, overwrite, control, adapt, trace, deadline, idle):
        model, optimizers, checkpoints = self._model, self._optimizers, self._checkpoints
        does = {**self._steps.instructions(), lib.OPTIMIZER: optimizers.update, lib.NORM: optimizers.norm, lib.CLIP: optimizers.scale,
                lib.SAVE: checkpoints.save, lib.LOAD: checkpoints.load}
        self._session.does = {kind: model.device.in_order(work) for kind, work in does.items()}
        layers = described(model.flat, model.shared.described())
        if checkpoint is not None:
            checkpoint = self._checkpoints.begin(checkpoint)
        self._session.open(resume=int(resume), device=model.device.name, deadline=deadline or 0, idle=idle or 0,
                           checkpoint=_path(checkpoint), every=every, control=_path(control), trace=_path(trace), adapt=_path(adapt),
                           overwrite=int(overwrite), layers=layers, layer_count=len(layers), folders=1)

    @property
    def steps_done(self):
        return self._session.steps_done

    def step(self, x=None, target=None, *, batch_id=None, loss="all", **keywords):
        """One step: x, the batch, on the first stage's rank; target on the last one's; None on the others. Each is a tensor, or a
        tuple or dict of tensors, cut into microbatches along their first dimension. batch_id: a number of the batch, where x and
        target come from two loaders; compared as `check` says. Gives the mean loss of all microbatches and replicas, a scalar
        tensor. loss="last": nobody waits for it; the last stage's rank gives its replica's, the others None.

        keywords: further inputs, for example attention_mask=mask. A layer gets those that its forward names, the loss those that it
        names; what goes into **kwargs has no name. Every rank passes those that its stages take. They are cut as x is; what is no
        tensor, or a tensor without dimensions, goes whole to each microbatch.

        Where shapes vary, x, target and keywords may also be lists with an entry of each microbatch: sequences padded to the longest
        of theirs, for example."""
        session, steps = self._session, self._steps
        if session.ended:
            raise Ended(f"the run has ended after {self.steps_done} steps")
        if not session.is_open:
            raise SpecError("the run is closed")
        if not torch.is_grad_enabled():
            raise SpecError("step trains, and gradients are off (torch.no_grad or torch.inference_mode): leave that block, or "
                            "call evaluate")
        if loss not in ("all", "last"):
            raise SpecError(f"loss is {loss!r}: expected 'all' or 'last', the ranks that want it")
        self._warn_of_eval()
        self._checkpoints.poll()
        steps.begin(x, target, batch_id, keywords)
        self._losses.begin()
        self._optimizers.begin()
        began = time.perf_counter()
        session.until_end_of_step()
        if not session.ended and self._optimizers.drains:
            session.done()
            session.drain()
        if session.ended:
            raise Ended(f"the run was asked to end, after {self.steps_done} steps")
        step = session.instruction.step - 1
        steps.release()
        self._optimizers.end(step, steps.microbatches)
        mean = self._losses.mean(step, loss)
        steps.compare_keywords()
        took = time.perf_counter() - began
        session.steps_done = step + 1
        steps.end(x)
        session.done()
        steps.active = False
        self._optimizers.done()
        self._checkpoints.note_random()
        if self._progress:
            self._progress.step(self.steps_done, took, steps.tokens, steps.peak, mean)
        return mean

    def evaluate(self, x=None, target=None, *, microbatches=None, outputs=False, **keywords):
        """Between two steps, on all ranks alike: the forwards of a batch, without gradients, and the mean loss of all microbatches
        and replicas, a scalar tensor on every rank. Nothing of it is kept, and training goes on as if it had not been. Modules are
        in the mode they are in: call eval() on them before and train() afterwards where they have dropout or batch norm. Random
        numbers are apart from those of steps: pipec.torch.reseed(seed, -1 - steps_done, stage, microbatch).

        x, target, keywords: as step takes them, of any number of rows. They are cut into microbatches of as many rows as in the
        last step (before the first step: into as many microbatches as the plan has), or into `microbatches`; those must not be
        larger than a step's. outputs: the last stage's rank gets [the last stage's output of each microbatch] in place of the
        loss, the others None; target is not needed then.

        Raises SpecError where the plan has no evaluation, rows are not divided, or a keyword is missing."""
        session = self._session
        if session.ended:
            raise Ended(f"the run has ended after {self.steps_done} steps")
        if not session.is_open:
            raise SpecError("the run is closed")
        if self.plan.facts["no_evaluation"]:
            raise SpecError(self.plan.facts["no_evaluation"], self.plan.name)
        if self._optimizers.planned:  # updates of the last step may be left
            self._model.attach()
        self._steps.active = True
        found = self._evaluations.run(x, target, keywords, microbatches, outputs)
        session.done()
        self._steps.active = False
        self._checkpoints.note_random()
        return found

    def clip_grad_norm_(self, most):
        """Between two steps, on all ranks: multiplies the gradients so that the norm of those of all ranks is `most` at most, as
        `clip` does for the plan's optimizer, to the same bits. (torch.nn.utils.clip_grad_norm_ sees this rank's alone.) Gives
        the norm, a tensor of one double."""
        return self._optimizers.clip_grad_norm_(most)

    def _warn_of_eval(self):
        """Once."""
        for stage in () if self._warned else self._model.own:
            if not any(each.training and not each._modules for each in self.modules[stage].modules()):  # of leaves
                self._warned = True
                warnings.warn(f"stage {stage} is trained in eval() mode, in which dropout and batch norm are off: call train() on its "
                              "module, unless that is meant", stacklevel=3)

    def sync(self):
        """Waits until all of the last step is done. With the plan's optimizer updates may go on beside the next step's forwards
        (`collective: decoupled`): call it before weights are read or written outside of a step."""
        if not self._session.is_open or self._session.ended:
            return
        if self._optimizers.planned:
            self._model.attach()
        self._session.drain()
        self._session.done()

    def swap(self, variant):
        """Goes over to another variant, by number or name; on one rank or on all alike. Returns the step it holds from."""
        if not self._session.is_open:
            raise SpecError("the run is closed")
        return self._session.swap(variant)

    def report(self):
        """After the block: what `piperun --json` prints, with tokens_per_s, peak_bytes and predicted_peak_bytes of the ranks."""
        if self._report is None:
            raise SpecError("the run has not ended: its report comes behind the with block")
        return self._report

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind not in (None, Ended):
            self._fail(f"{kind.__name__}: {error}")
            return False
        interrupted = self._interrupts is not None and self._interrupts.came is not None
        self.close()
        if interrupted:
            raise KeyboardInterrupt from None
        return kind is Ended

    def _fail(self, why):
        """Ends the run on all ranks."""
        self._session.close(why)
        self._leave()

    def _leave(self):
        if self._interrupts is not None:
            self._interrupts.end()
        self._checkpoints.abandon()

    def close(self):
        """Ends the run on all ranks, behind the same step, with a last checkpoint where it has a folder. In a child that the
        program has forked it does nothing: the run is the parent's."""
        session = self._session
        if not session.is_open or session.is_forked:
            return
        if self._steps.active and not session.ended:  # a step has failed, and the program has not minded
            return self._fail(f"rank {self.rank} left step {self.steps_done}")
        try:
            if not session.ended:
                if self._optimizers.planned:
                    self._model.attach()
                session.finish()
            self._checkpoints.end()
            self._read_report()
        except BaseException as failure:
            self._fail(f"{type(failure).__name__}: {failure}")
            raise
        session.close(None)
        self._leave()

    def _read_report(self):
        report, processes = self._session.report(), range(self.plan.world)
        peaks = [self._session.get(f"peak/{process}", wait=False) for process in processes]
        tokens = sum(int(self._session.get(f"tokens/{process}", wait=False) or 0) for process in processes)
        times = sorted(report.get("step_ms", []))
        report["peak_bytes"] = [int(peak) if peak else None for peak in peaks]
        report["predicted_peak_bytes"] = self.plan.facts["variants"][0]["peak_activation_bytes"]
        middle = times[len(times) // 2] if times else 0
        report["tokens_per_s"] = tokens / middle * 1e3 if tokens and middle else None
        self._report = report
