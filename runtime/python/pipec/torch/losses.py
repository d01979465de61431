"""The losses of a run's steps, over all microbatches and replicas, and by what gradients are divided."""
import math
import warnings

import torch

from ..errors import SpecError
from .sums import Losses, mean_of_all


class RunLosses:
    """Those of all ranks. The last stage's rank of each replica adds, and tells the others."""

    def __init__(self, model, session):
        self._model, self._plan, self._session = model, model.plan, session
        self._losses, self._not_finite = Losses(), False
        self._counted, self._counts = None, {}  # whether losses are (sum, count), once that is known; the counts of steps
        self._told = -1  # the last step whose loss is

    def begin(self):
        self._losses = Losses()

    def add(self, what, loss, count):
        self._losses.add(what.microbatch, loss, count)
        if len(self._losses.rows) == what.microbatches:
            self._end(what.step)

    def _end(self, step):
        """All of a step are there. Others divide by their counts before they use gradients, so they hear these now, and in the
        first step whether there are any. A mean waits for the end of the step where the host would wait for the device."""
        counted = self._losses.counted
        if self._counted is not None and self._counted != (counted is not None):
            raise SpecError(f"the loss is {'(sum, count)' if counted is not None else 'a scalar'}, in earlier steps it was not: let it "
                            "always be the same")
        if self._counted is not False or not self._model.device.is_behind:
            self._tell(step)

    def _tell(self, step):
        mean, self._told = self._losses.mean, step
        row = mean.item(), self._losses.counted
        if self._plan.degree == 1:
            self._take(step, [row])
        if self._plan.world > 1:
            self._session.put_of_step(f"loss/{self._model.replica}", step, [*row, str(mean.dtype).removeprefix("torch.")])
        if not self._not_finite and not math.isfinite(row[0]) and (found := self._losses.first_not_finite()):
            self._not_finite = True
            warnings.warn(f"the loss is {found[1]} in step {step}, microbatch {found[0]}", RuntimeWarning, stacklevel=2)

    def _take(self, step, rows):
        self._counted = rows[0][1] is not None
        self._counts = {known: count for known, count in self._counts.items() if known >= step - 1}
        if self._counted:
            self._counts[step] = math.fsum(count for _, count in rows) or 1.0

    def _hear(self, step):
        rows = [self._session.get_of_step(f"loss/{replica}", step) for replica in range(self._plan.degree)]
        if len({row[1] is None for row in rows}) > 1:
            raise SpecError(f"the loss is (sum, count) on some replicas and a scalar on others in step {step}: let it be the same")
        self._take(step, [row[:2] for row in rows])
        return rows

    def mean(self, step, wanted):
        """At the end of a step. wanted: as Run.step's loss."""
        if self._losses.rows and self._told != step:
            self._tell(step)
        own = self._losses.mean
        if wanted == "last" or own is not None and self._plan.degree == 1:
            return own
        rows = self._hear(step)
        return torch.tensor(mean_of_all([row[:2] for row in rows]), dtype=getattr(torch, rows[0][2]),
                            device=None if own is None else own.device)

    def divisor(self, step, microbatches):
        """By what sums over the microbatches of all replicas are divided, in a step."""
        if self._counted is not False and step not in self._counts:
            self._hear(step)
        return self._counts[step] if self._counted else float(microbatches * self._plan.degree)
