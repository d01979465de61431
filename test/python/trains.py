"""A process of a training: one rank of each case in a list of JSON, one run after the other. Prints for each case a line
{"case", "digests": [after each step {stage: digest}], "losses", "report"}; for one that fails {"case", "error", "kind"}."""
import json
import os
import sys

import models
import torch

import pipec
import pipec.torch

torch.set_num_threads(1)


def train(case):
    plan = pipec.load(case["plan"])
    rank, _ = plan.place(int(os.environ["RANK"]))
    dtype = torch.float64 if case.get("double") else torch.float32
    modules = {s: m.to(dtype) for s, m in pipec.torch.stages(plan, models.layers(case["layers"]), rank).items()}
    own = None if case.get("planned") else models.optimizer([("", p) for m in modules.values() for p in m.parameters()])
    digests, losses, values = [], [], {}
    options = {key: case[key] for key in ("seed", "clip", "checkpoint", "every", "resume", "overwrite", "trace", "deadline", "idle",
                                          "control", "adapt") if key in case}
    with pipec.torch.Run(plan, modules, loss=models.loss, optimizer=models.optimizer if case.get("planned") else None,
                         state={"optimizer": own} if own else None, progress=case.get("progress", False), **options) as run:
        for step in range(run.steps_done, case["steps"]):
            for at, variant in case.get("swaps", []):
                if at == step:
                    run.swap(variant)
            if case.get("dies") == [rank, step]:
                os._exit(9)
            x, target = models.batch(step, case["rows"])
            loss = run.step(x, target=target)
            if own:
                own.step()
                own.zero_grad()
            digests.append({stage: models.digest(module) for stage, module in modules.items()})
            if loss is not None:
                losses.append(loss.item())
    if case.get("double"):
        values = {s: [p.detach().flatten().tolist() for p in m.parameters()] for s, m in modules.items()}
    return {"digests": digests, "losses": losses, "report": run.report(), "values": values}


def main():
    for number, case in enumerate(json.loads(sys.stdin.read())):
        try:
            said = train(case)
        except pipec.Error as error:
            said = {"error": str(error), "kind": type(error).__name__}
        print(json.dumps({"case": number, **said}), flush=True)


if __name__ == "__main__":
    main()
