"""What a rank does in an evaluation: the forwards of a batch between two steps, of which nothing is kept."""
import torch

from .. import _library as lib
from ..errors import SpecError
from .keywords import rows_of
from .random import Again
from .slots import Boundaries
from .steps import split
from .sums import Losses, mean_of_all


class Evaluations:
    """Those of a rank. A round has as many microbatches as a step; the last round's last ones may be empty."""

    def __init__(self, model, session, steps, keys, shapes):
        self._model, self._plan, self._session = model, model.plan, session
        self._steps, self._keys = steps, keys
        self._boundaries = Boundaries(model, session, shapes)  # apart from the steps': nothing needs a gradient here
        self._number = 0
        self._forget()

    def _forget(self):
        self._x = self._target = None
        self._keywords, self._handed = [], {}
        self._count = 0  # microbatches
        self._losses, self._outputs = Losses(), None

    def run(self, x, target, keywords, microbatches, outputs):
        """With Run.evaluate's arguments; gives what it gives."""
        self._number += 1
        self._check_keywords(keywords, outputs)
        count, rows = self._shares(x, microbatches)
        self._count, self._outputs = count, [None] * count if outputs else None
        self._cut(x, target, keywords, count, rows)
        self._boundaries.begin(f"evaluate/{rows // count}")
        session, each = self._session, self._steps.microbatches or self._plan.microbatches
        does, session.does = session.does, {**session.does, lib.F: self._model.device.in_order(self._forward)}
        try:
            with torch.no_grad(), Again():
                session.evaluate(-(-count // each))
        finally:
            session.does = does
        mean, found = self._mean(), self._outputs
        self._boundaries.release()
        self._forget()
        if not outputs:
            return mean
        return found if self._model.last in self._model.own else None

    def _check_keywords(self, keywords, outputs):
        self._keys.check_known(keywords)
        self._keys.check_given(keywords, "evaluate", with_loss=not outputs)

    def _shares(self, x, microbatches):
        """(microbatches, rows of all): the first stage's rank tells the others of its replica."""
        key = f"evaluate/{self._model.replica}"
        if 0 not in self._model.own:
            return self._session.get_of_step(key, self._number)
        if x is None:
            raise SpecError(f"rank {self._model.rank} has the first stage: evaluate needs x")
        rows, usual = rows_of(x), self._steps.rows_of_microbatch
        count = microbatches or (-(-rows // usual) if usual else self._plan.microbatches)
        if count < 1 or rows == 0 or rows % count or (microbatches is None and usual and rows % usual):
            of = f"microbatches of {usual} rows, as those of steps," if microbatches is None and usual else f"{count} microbatches"
            raise SpecError(f"x has {rows} rows, which {of} do not divide: pad the batch, leave the rest out, or pass microbatches=, a "
                            "number that divides its rows")
        if self._plan.world > 1:
            self._session.put_of_step(key, self._number, [count, rows])
        return count, rows

    def _cut(self, x, target, keywords, count, rows):
        model = self._model
        if 0 in model.own:
            self._x = split(x, count, "x")
        if model.last in model.own and self._outputs is None:
            if target is None:
                raise SpecError(f"rank {model.rank} has the last stage: evaluate needs target, or outputs=True")
            self._target = split(target, count, "target")
        for name, value in keywords.items():
            if rows_of(value) not in (0, rows):
                raise SpecError(f"the keyword {name} has {rows_of(value)} rows, x has {rows}: a keyword's first dimension is that of "
                                "the batch")
        self._keywords = self._keys.cut(keywords, count, split) if keywords else []

    def _forward(self, what):
        stage, m = what.stage, (what.evaluation - 1) * what.microbatches + what.microbatch
        if m >= self._count:
            return
        if what.input:
            x = self._boundaries.receive(what)
        elif what.first_layer > 0:
            x = None
        else:
            x = self._handed.pop((stage, m)) if stage > 0 else self._x[m]
        last = stage == self._model.last
        output, count = self._steps.evaluate(what, self._model.replica * self._count + m, x,
                                             target=self._target[m] if last and self._target else None,
                                             with_loss=self._outputs is None, keywords=self._keywords and self._keywords[m])
        if output is None:  # more parts follow
            pass
        elif last and self._outputs is not None:
            self._outputs[m] = output
        elif last:
            self._losses.add(m, output, count)
        elif what.output:
            self._boundaries.send(what, output)
        else:
            self._handed[stage + 1, m] = output

    def _mean(self):
        """Of all microbatches and replicas, on every rank; None where there are outputs instead. All ranks wait for the last stages',
        so that none is evaluations ahead."""
        own, key = self._losses.mean, "evaluated"
        if self._plan.world == 1:
            return own
        if self._model.last in self._model.own:
            row = None if own is None else [own.item(), self._losses.counted, str(own.dtype).removeprefix("torch.")]
            self._session.put_of_step(f"{key}/{self._model.replica}", self._number, row)
        rows = [self._session.get_of_step(f"{key}/{replica}", self._number) for replica in range(self._plan.degree)]
        if self._outputs is not None:
            return None
        if len({row[1] is None for row in rows}) > 1:
            raise SpecError("the loss is (sum, count) on some replicas and a scalar on others: let it be the same")
        return torch.tensor(mean_of_all([row[:2] for row in rows]), dtype=getattr(torch, rows[0][2]),
                            device=None if own is None else own.device)
