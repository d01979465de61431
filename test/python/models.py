"""Small models that tests train, and the plain loop that they are held against."""
import hashlib
import json
import sys

import torch

import pipec

WORDS, WIDTH, LENGTH = 64, 32, 8


class Block(torch.nn.Module):
    """A transformer's block, with dropout."""

    def __init__(self):
        super().__init__()
        self.before, self.behind = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.attention = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True, dropout=0.1)
        self.wide = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH),
                                        torch.nn.Dropout(0.1))

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.wide(self.behind(x))


class Head(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WORDS))


def layers(count, frozen=()):
    """An embedding, blocks and a head: `count` in all, each as what makes it. frozen: numbers of those not to be trained."""
    if count == 1:
        made = [lambda: torch.nn.Sequential(torch.nn.Embedding(WORDS, WIDTH), Block(), Head())]
    else:
        made = [lambda: torch.nn.Embedding(WORDS, WIDTH), *[Block] * (count - 2), Head]
    return [(lambda make=make: make().requires_grad_(False)) if number in frozen else make for number, make in enumerate(made)]


def tied(layers, how):
    """Modules, of which the head has the embedding's weight."""
    torch.manual_seed(3)
    made = [make() for make in layers]
    made[-1][1].weight = made[0].weight
    if how == "frozen":
        made[0].weight.requires_grad_(False)
    return made


def apart(stages):
    """[(the first stage's embedding, the last one's head)] of stages whose head has the embedding's numbers, made parameters of
    their own in one memory."""
    first, last = (stages[s] for s in (min(stages), max(stages)))
    head = last[-1][1]
    head.weight = torch.nn.Parameter(first[0].weight.data)
    return [(first[0].weight, head.weight)]


def loss(output, target):
    return torch.nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


def summed(output, target):
    """The sum of the losses of those words that count, and how many there are."""
    total = torch.nn.functional.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=-100, reduction="sum")
    return total, (target != -100).sum()


def masked(target, step):
    """Rows of unequal length; in step 1 the first half is empty, in step 2 all of them."""
    lengths = torch.randint(1, LENGTH + 1, (len(target), 1), generator=torch.Generator().manual_seed(step))
    lengths[:{1: len(target) // 2, 2: len(target)}.get(step, 0)] = 0
    return target.masked_fill(torch.arange(LENGTH) >= lengths, -100)


def batch(step, rows):
    """Words and what follows them, the same in every process."""
    generator = torch.Generator().manual_seed(1000 + step)
    words = torch.randint(0, WORDS, (rows, LENGTH + 1), generator=generator)
    return words[:, :-1].contiguous(), words[:, 1:].contiguous()


def dry(modules):
    """Without dropout."""
    for module in modules:
        for each in module.modules():
            if isinstance(each, torch.nn.Dropout):
                each.p = 0
            elif isinstance(each, torch.nn.MultiheadAttention):
                each.dropout = 0


class Counting(torch.optim.AdamW):
    """Keeps something in its groups from step to step, as schedule-free optimizers do."""

    def __init__(self, parameters, **options):
        super().__init__(parameters, **options)
        for group in self.param_groups:
            group["taken"] = 0

    def step(self, closure=None):
        for group in self.param_groups:
            group["taken"] += 1
            group["betas"] = 0.9, 0.99 + 0.001 * (group["taken"] % 7)
        return super().step(closure)


def optimizer(named):
    return Counting([parameter for _, parameter in named], lr=1e-2)


def digest(module):
    """Of all weights and buffers, to the last bit."""
    found = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        found.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def digest_of(tensor):
    return hashlib.sha256(tensor.cpu().contiguous().numpy().tobytes()).hexdigest()


def adamw(modules):
    """Of all weights, each once."""
    return torch.optim.AdamW(torch.nn.ModuleList(modules).parameters(), lr=1e-2)


def alone(layers, cut, batches, microbatches, run, summed=lambda: None):
    """({stage: module}, losses) of one process that trains all layers with adamw(), a step for each of the batches.
    run(stages, step, batch, microbatch): the sum of the losses, and how many there are. summed() adds up, behind the backwards of a
    step, gradients that these have kept apart."""
    ends = [sum(cut[:n]) for n in range(len(cut) + 1)]
    stages = {n: torch.nn.Sequential(*layers[ends[n]:ends[n + 1]]) for n in range(len(cut))}
    own, losses = adamw(stages.values()), []
    for step, batch in enumerate(batches):
        counted, total = 0, 0.0
        for microbatch in range(microbatches):
            of, count = run(stages, step, batch, microbatch)
            of.backward()
            counted, total = counted + int(count), total + of.item()
        summed()
        for module in stages.values():
            for p in module.parameters():
                if p.grad is not None:
                    p.grad /= counted
        own.step()
        own.zero_grad()
        losses.append(total / counted)
    return stages, losses


def answer(train):
    """Reads a list of JSON, the cases, from standard input. Prints for each what train(case) gives, or {"error"}."""
    for number, case in enumerate(json.loads(sys.stdin.read())):
        try:
            said = train(case)
        except (pipec.Error, ValueError, RuntimeError) as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"case": number, **said}), flush=True)


def rate(step):
    """The learning rate of a program that sets another one before each step."""
    return 1e-3 * (1 + step % 3)


def plain(stages, steps, microbatches, rows, reseed, seed=0, clip=None, first=0, rates=False, accumulates=1, sums=False,
          skips=(), tied=()):
    """Trains {stage: module} in one process, microbatch by microbatch. Yields after each step the digests of the stages
    and the mean loss. stages: in their order; of `steps` steps from `first` on; microbatches: of all steps or of each;
    rates: the optimizer's by step; accumulates: steps whose gradients an update has; sums: the loss is summed();
    skips: steps without an update; tied: [(parameter, another in the same memory)], whose gradients are kept apart in a step,
    and summed at its end."""
    others = [id(other) for _, other in tied]
    parameters = [p for module in stages.values() for p in module.parameters() if p.requires_grad and id(p) not in others]
    own = optimizer([("", p) for p in parameters])
    for step in range(first, steps):
        for group in own.param_groups if rates else []:
            group["lr"] = rate(step)
        before = [p.grad for p in parameters]
        for p in parameters:
            p.grad = None
        x, target = batch(step, rows)
        target = masked(target, step) if sums else target
        count, total = microbatches[step] if isinstance(microbatches, list) else microbatches, 0.0
        counted = 0
        for m, (words, following) in enumerate(zip(x.chunk(count), target.chunk(count))):
            value = words
            for stage, module in stages.items():
                reseed(seed, step, stage, m)
                value = module(value)
            of, counts = summed(value, following) if sums else (loss(value, following), 1)
            counted += int(counts)
            total += of.item()
            of.backward()
        for p, other in tied:
            p.grad += other.grad
            other.grad = None
        for p in parameters:
            p.grad /= counted or 1
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        for p, gradient in zip(parameters, before):
            if gradient is not None:
                p.grad += gradient
        if (step + 1) % accumulates == 0:
            if step not in skips:
                own.step()
            own.zero_grad()
        yield {stage: digest(module) for stage, module in stages.items()}, total / (counted or 1)
