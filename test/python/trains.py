"""A process of a training: one rank of each case in a list of JSON, one run after the other. Prints for each case a line
{"case", "digests": [after each step {stage: digest}], "losses", "report", "turned": [passes of a stage whose microbatches did
not come in their order]}; for one that fails {"case", "error", "kind"}."""
import functools
import json
import os
import signal
import sys
import time

import models
import torch

import pipec
import pipec.torch
from pipec import _library as lib

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may ignore it


class Raises(torch.nn.Module):
    def forward(self, x):
        return x * (1 / 0)


class Slow:
    """A state that takes so many seconds to save."""

    def __init__(self, seconds):
        self.seconds = seconds

    def state_dict(self):
        time.sleep(self.seconds)
        return {}

    def load_state_dict(self, state):
        pass


class Watched(pipec.torch.Run):
    """Counts the updates that come once their step has ended for the program, and each step's microbatches."""
    late = 0

    def __init__(self, *arguments, **options):
        self.microbatches, self._counted = [], None
        super().__init__(*arguments, **options)
        for kind, watch in ((lib.OPTIMIZER, self._watch_update), (lib.F, self._watch_forward)):
            self._session.does[kind] = functools.partial(self._watched, watch, self._session.does[kind])

    @staticmethod
    def _watched(watch, work, what):
        watch(what)
        work(what)

    def _watch_update(self, what):
        self.late += what.step < self.steps_done

    def _watch_forward(self, what):
        if what.step != self._counted:
            self._counted = what.step
            self.microbatches.append(what.microbatches)


class Order:
    """In place of the library's call for the next instruction: notes in which order a stage has its microbatches."""
    PASSES = {lib.F: ["forward"], lib.B: ["for the input"], lib.W: ["for the weights"],
              lib.BW: ["for the input", "for the weights"]}

    def __init__(self):
        self.last, self.turned, self.next = {}, set(), lib.LIBRARY.pipec_run_next
        lib.LIBRARY.pipec_run_next = self

    def __call__(self, run, instruction, error):
        code, what = self.next(run, instruction, error), instruction._obj
        for each in [] if what.evaluation else self.PASSES.get(what.kind, []):
            key, at = (what.stage, each), (what.step, what.microbatch)
            if at < self.last.get(key, at):
                self.turned.add(f"stage {what.stage}: {each}")
            self.last[key] = at
        return code

    def end(self):
        lib.LIBRARY.pipec_run_next = self.next
        return sorted(self.turned)


def counts():
    """What the process has."""
    with open("/proc/self/status", encoding="ascii") as status:
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return {"threads": len(os.listdir("/proc/self/task")), "descriptors": len(os.listdir("/proc/self/fd")),
            "kilobytes": resident}


def evaluate(run, modules, case):
    """What an evaluation finds, and bytes that stages hold meanwhile."""
    steps, held = run._steps, []
    forward, stages = steps.evaluate, steps._stages.values()

    def watched(*arguments, **options):
        found = forward(*arguments, **options)
        held.append(sum(stage.held() for stage in stages))
        return found

    for module in modules.values():
        module.train(case.get("mode") == "train")
    x, target = models.batch(9000, case["rows"])
    if run.plan.degree > 1:
        x, target = x.chunk(run.plan.degree)[run.replica], target.chunk(run.plan.degree)[run.replica]
    steps.evaluate = watched
    found = run.evaluate(x if 0 in modules else None, target=target if run.plan.stage_count - 1 in modules else None,
                         microbatches=case.get("microbatches"), outputs=case.get("outputs", False),
                         **{name: torch.ones(len(x)) for name in case.get("keywords", [])})
    del steps.evaluate
    for module in modules.values():
        module.train()
    found = [models.digest_of(each) for each in found] if type(found) is list else None if found is None else found.item()
    return {"found": found, "held": max(held)}


def train(case):
    plan = pipec.load(case["plan"])
    rank, replica = plan.place()
    dtype = torch.float64 if case.get("double") else torch.float32
    layers = models.layers(case["layers"], case.get("frozen", ()))
    if case.get("tied"):
        layers = models.tied(layers, case["tied"])
    if case.get("tied") == "by hand":
        modules = {each.stage: torch.nn.Sequential(layers[each.stage]) for each in plan.stages(rank)}
    else:
        modules = {s: m.to(dtype) for s, m in pipec.torch.stages(plan, layers, rank).items()}
    if case.get("wide"):
        modules = {s: torch.nn.Sequential(torch.nn.Linear(models.WIDTH, 2 * models.WIDTH)) for s in modules}
    if case.get("dry"):  # random numbers are a stage's, of which there are others then
        models.dry(modules.values())
    if case.get("shares"):
        modules[max(modules)] = modules[min(modules)]
    if case.get("has_more") == rank:
        modules[9] = torch.nn.Identity()
    if case.get("apart"):  # replicas
        with torch.no_grad():
            next(iter(modules.values()))[0].weight.add_(replica)
    torch.manual_seed(5)
    made, children = [], []

    def planned(named):
        made.append(models.optimizer(named))
        return made[-1]

    own = None if case.get("planned") else models.optimizer([("", p) for p in {id(p): p for m in modules.values() for p in m.parameters()}.values()])
    state = {"optimizer": own} if own else {}
    if case.get("saves", [None])[0] == rank:
        state["slow"] = Slow(case["saves"][1])
    digests, losses, values, order, evaluated = [], [], {}, Order(), []
    options = {key: case[key] for key in ("seed", "clip", "checkpoint", "every", "resume", "overwrite", "trace", "deadline", "idle",
                                          "control", "adapt", "check", "keep", "save") if key in case}
    if case.get("checks") is not None:
        options["check"] = case["checks"][rank]
    scaler = torch.amp.GradScaler("cpu", growth_interval=2) if case.get("infinite") else None
    with Watched(plan, modules, loss=models.summed if case.get("sums") else models.loss, scaler=scaler, optimizer=planned if case.get("planned") else None,
                         state=state or None, progress=case.get("progress", False), **options) as run:
        for step in range(run.steps_done, case["steps"]):
            evaluated += [evaluate(run, modules, each) for each in case.get("evaluations", []) if each["at"] == step]
            if case.get("evaluates", [])[:2] == [rank, step]:
                time.sleep(case["evaluates"][2])
            for at, variant, *by in case.get("swaps", []):
                if at == step and run.world_rank in (by or [run.world_rank]):
                    run.swap(variant)
            if case.get("dies") == [rank, step]:
                os._exit(9)
            if case.get("replaces") and step == 1:
                module = next(iter(modules.values()))
                if case["replaces"] == "data":
                    module[0].weight.data = module[0].weight.data.clone()
                elif case["replaces"] == "weights":
                    module[0].weight = torch.nn.Parameter(module[0].weight.detach().clone())
                else:
                    module[0] = torch.nn.Sequential(module[0])
            if case.get("raises") == [rank, step]:
                next(iter(modules.values())).register_module("0", Raises())
            for group in [group for each in (*made, own) if each and case.get("rates") for group in each.param_groups]:
                group["lr"] = models.rate(step)
            if case.get("forks") and step == 1:  # as a loader's workers, which have the run's sockets then
                children.append(os.fork())
                if not children[-1]:
                    time.sleep(900)
                    os._exit(0)
            if case.get("infinite") == [rank, step]:
                hook = next(iter(modules[0].parameters())).register_hook(lambda gradient: gradient * float("inf"))
            elif case.get("infinite") == [rank, step - 1]:
                hook.remove()
            x, target = models.batch(step, case["rows"])
            if case.get("sums"):
                target = models.masked(target, step)
            if case.get("draws"):
                x = torch.randint(models.WORDS, x.shape)
            if case.get("shrinks") and step > 0:
                x, target = x[:plan.microbatches], target[:plan.microbatches]
            if case.get("reshapes") and step > 0:
                x, target = (each.reshape(2 * each.shape[0], -1) for each in (x, target))
            if plan.degree > 1:
                x, target = x.chunk(plan.degree)[replica], target.chunk(plan.degree)[replica]
            if case.get("strays", [None])[0] == rank and step >= case["strays"][1]:
                x, target = x.flip(0), target.flip(0)
            if case.get("sees_its_own"):
                x, target = x if rank == 0 else None, target if rank == plan.ranks - 1 else None
            loss = run.step(x, target=target, batch_id=case["ids"][rank] if case.get("ids") else None,
                            loss=case.get("wants", "all"))
            if case.get("clips"):
                run.clip_grad_norm_(case["clips"])
            if scaler:
                scaler.unscale_(own)
                scaler.step(own)
                scaler.update()
                own.zero_grad()
            elif own and (step + 1) % case.get("accumulates", 1) == 0:
                own.step()
                own.zero_grad()
            if not case.get("blind"):
                run.sync()
                digests.append({stage: models.digest(module) for stage, module in modules.items()})
            if loss is not None:
                losses.append(loss.item())
            if case.get("meets"):
                run._session.put(f"met/{step}/{run.world_rank}", "here")
                for process in range(plan.world):
                    run._session.get(f"met/{step}/{process}")
        evaluated += [evaluate(run, modules, each) for each in case.get("evaluations", []) if each["at"] == case["steps"]]
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
    sums = {}
    plan_cut = plan.cut or [1] * plan.stage_count
    for stage, module in modules.items():
        for number, layer in enumerate(module):
            sums[sum(plan_cut[:stage]) + number] = models.digest(layer)
    if case.get("double") or case.get("values"):
        values = {s: [p.detach().flatten().tolist() for p in m.parameters()] for s, m in modules.items()}
    return {"digests": digests, "losses": losses, "report": run.report(), "weights": sums, "values": values, "late": run.late,
            "turned": order.end(), "evaluated": evaluated, "microbatches": run.microbatches}


def main():
    for number, case in enumerate(json.loads(sys.stdin.read())):
        try:
            said = train(case)
        except pipec.Error as error:
            said = {"error": str(error), "kind": type(error).__name__}
        if case.get("counts"):
            said = {"counts": counts()}
        print(json.dumps({"case": number, **said}), flush=True)


if __name__ == "__main__":
    main()
