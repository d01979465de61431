"""What instructions and links take while all ranks train: from the traces of a few steps of the measured model."""
import json
import pathlib
import statistics
import tempfile

import torch

from .errors import SpecError
from .plan import Plan, compile as compile_spec

SCHEDULES = ("1f1b", "zb-h1")  # in one backwards are fused, in the other split
TIMES = {"F": "forward", "B": "backward_input", "W": "backward_weight", "BW": "backward", "optimizer": "optimizer"}
WARM_UP = 3  # steps: they learn, and count memory


class Running:
    """Steps of the model in pipec.torch.Run, on all of torchrun's ranks."""

    def __init__(self, model, steps, around):
        """around(): a context for forwards."""
        self.model, self._steps, self._around = model, steps, around
        self._rank = torch.distributed.get_rank()

    def train(self, text, rows, samples):
        """Trains the plans of a spec. Gives by the names of times how many times as long instructions take as their layers'
        `rows` say, and of each two neighbours [(bytes, seconds)]: half of what a boundary takes there and back."""
        planned, found = dict.fromkeys(TIMES.values(), 0.0), dict.fromkeys(TIMES.values(), 0.0)
        links = []
        for schedule in SCHEDULES:
            plan = self._compile(text, schedule)
            every = [None] * plan.ranks
            torch.distributed.all_gather_object(every, self._events(plan, samples))
            events = {key: times for of_rank in every for key, times in of_rank.items()}
            add(plan, rows, events, planned, found)
            senders = [plan.stages(left)[0] for left in range(plan.ranks - 1)]
            links.append([((each.output_bytes + each.output_gradient_bytes) / 2, transfer(events, left))
                          for left, each in enumerate(senders)])
        ratios = {name: found[name] / planned[name] if planned[name] and found[name] else 1.0 for name in planned}
        return ratios, list(zip(*links))

    def _compile(self, text, schedule):
        """On rank 0, for all."""
        box = [None]
        if self._rank == 0:
            with tempfile.TemporaryDirectory(prefix="pipec-") as folder:
                path = pathlib.Path(folder) / "spec.yaml"
                path.write_text(text, encoding="utf-8")
                try:
                    plan = compile_spec(path, {"schedule": schedule})
                    box = [plan.path.read_bytes()]
                except SpecError as error:
                    box = [str(error)]
        torch.distributed.broadcast_object_list(box, src=0)
        if isinstance(box[0], str):
            raise SpecError(f"a plan of what was measured cannot be: {box[0]}", self.model.path)
        return Plan(box[0], self.model.path)

    def _events(self, plan, samples):
        """{(kind, stage, step, microbatch): (start, end, end of the one before)} in seconds, of this rank's instructions."""
        from .torch import Run, stages

        batch, device = samples * plan.microbatches, torch.device("cpu")
        keywords = self.model.keywords(batch, device)
        x = self.model.tensor("example", batch, device)
        target = self.model.tensor("target", batch, device) if self.model.loss else x
        loss = self.model.loss or (lambda output, _: output.sum())

        def still(named):
            return torch.optim.AdamW([each for _, each in named] or [torch.zeros(())], lr=0.0, weight_decay=0.0)

        with tempfile.TemporaryDirectory(prefix="pipec-") as folder:
            modules = stages(plan, self.model.layers(samples, device), self._rank)
            with Run(plan, modules, loss=loss if self._rank == plan.ranks - 1 else None,
                     optimizer=still if plan.facts["updates"] else None, progress=False,
                     trace=pathlib.Path(folder) / "trace.json") as run:
                for _ in range(WARM_UP + self._steps):
                    with self._around():
                        run.step(x if self._rank == 0 else None, target=target if self._rank == plan.ranks - 1 else None, loss="last",
                                 **keywords)
            said = json.loads((pathlib.Path(folder) / f"trace.{self._rank}.json").read_text(encoding="utf-8"))
        rows = sorted((each["ts"], each["ts"] + each["dur"], each["args"]) for each in said["traceEvents"] if each.get("cat") == "compute")
        events, before = {}, float("-inf")
        for start, end, what in rows:
            if what["step"] >= WARM_UP:
                events[what["kind"], what["stage"], what["step"], what.get("microbatch")] = start / 1e6, end / 1e6, before / 1e6
            before = end
        return events


def add(plan, rows, events, planned, found):
    """Of each stage and kind what its layers' rows say, and what was."""
    taken = {}
    for (kind, stage, *_), (start, end, _) in events.items():
        if kind in TIMES:
            taken.setdefault((kind, stage), []).append(end - start)
    for (kind, stage), times in taken.items():
        first = sum(plan.cut[:stage])
        planned[TIMES[kind]] += sum(row[TIMES[kind]] for row in rows[first:first + plan.cut[stage]])
        found[TIMES[kind]] += usual(times)


def usual(times):
    """The mean of times, of which a step is a sum; their median is less where some take long. Times above twice the median are
    left out: something else on the machine has held those instructions up."""
    most = 2 * statistics.median(times)
    return statistics.fmean(each for each in times if each <= most)


def transfer(events, left):
    """Seconds from where an instruction ends on a rank to where its neighbour begins what that feeds, where the neighbour waits
    already. The mean of both ways, in which clocks that are apart do not count."""
    ways = []
    for kinds, sender, receiver in ((("F",), left, left + 1), (("B", "BW"), left + 1, left)):
        took = []
        for (kind, stage, *which), (start, _, before) in events.items():
            fed = events.get((kind, sender, *which))
            if kind in kinds and stage == receiver and fed and before <= fed[1]:
                took.append(start - fed[1])
        ways += [statistics.median(took)] if took else []
    return max(statistics.fmean(ways), 0.0) if ways else 0.0
