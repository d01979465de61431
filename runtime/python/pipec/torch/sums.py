"""What a step sums over microbatches, replicas and ranks: the loss, gradients' norm, and whether all gradients are finite."""
import functools
import math

import torch

from ..errors import SpecError
from .trees import zero_of
from .wrapped import local, whole


def parted(found, output):
    """What a loss gives, as (scalar, count). count: of what the scalar is the sum, a float; None: the scalar is a mean. A
    microbatch in which nothing counts has the loss 0 and zero gradients, whatever its sum is."""
    if not isinstance(found, tuple):
        return found, None
    total, count = found if len(found) == 2 else (found, math.nan)
    count = float(count)
    if not 0 <= count < math.inf:
        raise SpecError(f"the loss gives {count if len(found) == 2 else f'a tuple of {len(found)}'}: expected a scalar, or "
                        "(sum, count) with a count from 0 on")
    return (total, count) if count else (zero_of(output), count)


class Losses:
    """Those of a step's microbatches on the last stage's rank: add() all before the rest is asked for."""

    def __init__(self):
        self.rows = []  # (microbatch, loss, count)

    def add(self, microbatch, loss, count):
        self.rows.append((microbatch, loss.reshape(()), count))
        if (count is None) != (self.rows[0][2] is None):
            raise SpecError(f"the loss of microbatch {microbatch} is {'a scalar' if count is None else '(sum, count)'}, that of "
                            f"microbatch {self.rows[0][0]} is not: let it always be the same")

    @functools.cached_property
    def mean(self):
        """Of this replica, a tensor; of sums by their counts. None: there is no loss."""
        if not self.rows:
            return None
        losses = torch.stack([loss for _, loss, _ in self.rows])
        return losses.mean() if self.counted is None else losses.sum() / (self.counted or 1.0)

    @functools.cached_property
    def counted(self):
        """The sum of the counts; None: there are none."""
        return None if self.rows[0][2] is None else math.fsum(count for _, _, count in self.rows)

    def first_not_finite(self):
        """(microbatch, loss); None: all are finite."""
        return next(((microbatch, loss.item()) for microbatch, loss, _ in self.rows if not math.isfinite(loss)), None)


def mean_of_all(rows):
    """The mean over replicas, of [(mean, count)] of each: by counts where there are any."""
    if rows[0][1] is None:
        return math.fsum(mean for mean, _ in rows) / len(rows)
    return math.fsum(mean * count for mean, count in rows) / (math.fsum(count for _, count in rows) or 1.0)


def squares(gradients, divisor=1.0):
    """The sum of the squares of gradients, each divided first; a tensor of one double. None: there are no gradients."""
    parts = [(each / divisor if divisor != 1 else each).double().square().sum() for each in gradients]
    return torch.stack([whole(part) for part in parts]).sum() if parts else None


def all_finite(gradients):
    norms = torch._foreach_norm([local(each) for each in gradients], math.inf) if gradients else []
    return not norms or bool(torch.isfinite(torch.stack(list(norms))).all())


def make_infinite(parameters):
    """So that a GradScaler finds it on this rank too, and leaves the step out."""
    for p in parameters:
        if p.grad is not None:
            local(p.grad).fill_(math.inf)
