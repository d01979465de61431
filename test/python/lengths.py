"""A process that trains layers of a recorded model on microbatches whose sequences are of other lengths: for each {"model", "plan",
"varies"} of a list of JSON it prints {"weights": {name: digest after the last step}, "losses"}, or {"error"}."""
import models
import torch
import whole

import pipec
import pipec.torch

STEPS, MICROBATCHES, SHORTEST = 3, whole.MICROBATCHES, 2


def cut(value, length):
    """The beginning of sequences."""
    return value[:, :length].contiguous() if isinstance(value, torch.Tensor) and value.dim() == 2 else value


def varied(value, step, how):
    """A batch, or a keyword, with other lengths by step, or by microbatch: then a list."""
    if how == "step":
        return cut(value, whole.LENGTH - step)
    return [cut(whole.part(value, m), SHORTEST + (3 * m + step) % (whole.LENGTH - SHORTEST + 1)) for m in range(MICROBATCHES)]


def examples(batch, keywords):
    """(x, target, keywords): of each a list of the shortest and the longest microbatch."""
    def both(value):
        return [cut(whole.part(value, 0), length) for length in (SHORTEST, whole.LENGTH)]
    x, target = map(both, batch(0))
    return x, target, {name: both(value) for name, value in keywords(0).items()}


def plain(name):
    """{how: ({name: digest}, losses)} of one process that trains the whole model."""
    found = {}
    for how in ("step", "microbatch"):
        model, loss, batch, keywords = whole.made(name)

        def of(value, step, m, how=how):
            return varied(value, step, how)[m] if how == "microbatch" else whole.part(varied(value, step, how), m)

        def run(stages, step, given, m, of=of, loss=loss, keywords=keywords):
            x, target = (of(each, step, m) for each in given)
            return loss(stages[0][0](x, **{key: of(value, step, m) for key, value in keywords(step).items()}), target), 1

        _, losses = models.alone([model], [1], map(batch, range(STEPS)), MICROBATCHES, run)
        found[how] = whole.digests(model.state_dict()), losses
    return found


def train(case):
    plan, how = pipec.load(case["plan"]), case["varies"]
    rank, _ = plan.place()
    model, loss, batch, keywords = whole.made(case["model"])
    x, _, given = examples(batch, keywords)
    if case.get("shapes") == "same":
        layers = pipec.torch.layers(model, example=x[-1], **{name: value[-1] for name, value in given.items()})
    else:
        layers = pipec.torch.layers(model, example=x, shapes="vary", **given)
    modules = pipec.torch.stages(plan, layers, rank)
    own, losses = models.adamw(modules.values()), []
    with pipec.torch.Run(plan, modules, loss=loss, progress=False, shapes="vary") as run:
        for step in range(STEPS):
            x, target = (varied(each, step, how) for each in batch(step))
            losses.append(run.step(x, target=target, **{key: varied(value, step, how) for key, value in keywords(step).items()}).item())
            own.step()
            own.zero_grad()
    return {"weights": whole.digests_of(modules), "losses": losses}


def main():
    torch.set_num_threads(1)
    models.answer(train)


if __name__ == "__main__":
    main()
