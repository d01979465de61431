"""Small models whose stages hand on trees of tensors, and a process that trains them: for each {"model", "plan"} of a list of JSON it
prints {"digests": {stage: digest after the last step}, "losses"}, or {"error"}."""
import dataclasses

import models
import torch
from torch import nn

import pipec
import pipec.torch

STEPS, ROWS, MICROBATCHES = 3, 8, 4
WORDS, WIDTH, LENGTH = 32, 16, 6


@dataclasses.dataclass
class States:
    """Of an encoder and a decoder."""
    encoder: torch.Tensor
    words: torch.Tensor
    decoder: torch.Tensor | None = None


def words(step):
    found = torch.randint(1, WORDS, (ROWS, LENGTH + 1), generator=torch.Generator().manual_seed(step))
    return found[:, :-1].contiguous(), found[:, 1:].contiguous()


def pairs(step):
    """Of a language and another one; what follows the latter's words."""
    x, target = words(step)
    return (x.flip(1), x), target


def pictures(step):
    x = torch.randn(ROWS, 3, 8, 8, generator=torch.Generator().manual_seed(step))
    return x, x.roll(1, -1)


def words_loss(output, target):
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


def router_loss(output, target):
    """With the routers' own, as Mixtral has it."""
    return words_loss(output["words"], target) + 0.01 * sum(each.softmax(-1).mean((0, 1)).square().sum() for each in output["routers"])


class Residual(nn.Module):
    """Two streams, of which one is changed in place."""

    def __init__(self):
        super().__init__()
        self.norm, self.feed = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        hidden, residual = x if isinstance(x, tuple) else (x, None)
        residual = hidden if residual is None else residual + hidden.mul_(0.5)
        return nn.functional.dropout(self.feed(self.norm(residual)), 0.1, self.training), residual


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        return self.head(x[0] + x[1])


class Down(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.inner = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)

    def forward(self, x):
        x, skips = x if isinstance(x, tuple) else (x, ())
        return self.inner(x).relu(), (*skips, x)


class Up(nn.Module):
    """Takes the last skip; gives the picture alone where there are no more."""

    def __init__(self, inputs, outputs, skip):
        super().__init__()
        self.up, self.merge = nn.ConvTranspose2d(inputs, outputs, 2, stride=2), nn.Conv2d(outputs + skip, outputs, 1)

    def forward(self, x):
        x, (*skips, last) = x
        x = self.merge(torch.cat([self.up(x), last], 1))
        return (x.relu(), tuple(skips)) if skips else x


class Begin(nn.Module):
    """Words with their places and what counts of them, which travel along."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)

    def forward(self, x):
        return self.embedding(x), x % 5 != 0, torch.arange(x.shape[1]).expand_as(x)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.places, self.attention = nn.Embedding(LENGTH, WIDTH), nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x):
        hidden, mask, places = x
        y = hidden + self.places(places)
        return hidden + self.attention(y, y, y, key_padding_mask=~mask, need_weights=False)[0], mask, places


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        return self.head(x[0])


class Routed(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, 2), nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        x = x if isinstance(x, dict) else {"words": x, "routers": []}
        y = x["words"]
        logits = self.router(y)
        weights = logits.softmax(-1).unbind(-1)
        y = y + sum(expert(y) * weight.unsqueeze(-1) for expert, weight in zip(self.experts, weights))
        return {"words": y, "routers": [*x["routers"], logits]}


class RoutedHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        return {**x, "words": self.head(x["words"])}


class Encode(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.feed = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return States(self.feed(self.embedding(x[0])).tanh(), x[1])


class BeginDecoder(nn.Module):
    """What the decoder begins with depends on no state of the encoder's."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)

    def forward(self, x):
        return States(x.encoder, x.words, self.embedding(x.words))


class Decode(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x):
        return dataclasses.replace(x, decoder=x.decoder + self.attention(x.decoder, x.encoder, x.encoder, need_weights=False)[0])


class DecodeHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        return self.head(x.decoder)


class Twice(nn.Module):
    """Hands on one tensor as two parts, one that nobody uses later, a detached one and None."""

    def __init__(self):
        super().__init__()
        self.feed = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = x[0] + x[1] * x[3] if isinstance(x, tuple) else x
        y = self.feed(x).tanh()
        return y, y, y * y, y.detach() + 1, None


class Keyed(nn.Module):
    """Takes its mask and places as keywords, and one number for all."""
    takes = ("attention_mask", "places", "scale")

    def __init__(self):
        super().__init__()
        self.places, self.attention = nn.Embedding(LENGTH, WIDTH), nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x, *, attention_mask, places=None, scale=1.0, **_):
        y = x if places is None else x + self.places(places[0])
        return x + scale * self.attention(y, y, y, key_padding_mask=~attention_mask, need_weights=False)[0]


class Idle(nn.Module):
    """Has a weight that it does not use."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x


class Changes(nn.Module):
    """Another tree from the second step on, or one that cannot go to another rank."""

    def __init__(self, how):
        super().__init__()
        self.embedding, self.how, self.calls = nn.Embedding(WORDS, WIDTH), how, 0

    def forward(self, x):
        y, again = self.embedding(x), self.calls >= MICROBATCHES
        self.calls += 1
        if self.how == "local":
            @dataclasses.dataclass
            class Local:
                y: torch.Tensor
            return Local(y)
        if self.how == "keys":
            return {(0, 1): y, "x": x}
        if self.how == "leaf":
            return {"y": y, "x": [x, 3]}
        return {"shape": {"y": y[:, 1:] if again else y, "x": x}, "dtype": {"y": y, "x": x.float() if again else x},
                "structure": {"y": y} if again else {"y": y, "x": x}, "needs": {"y": y.detach() if again else y, "x": x},
                "tensor": y if again else {"y": y, "x": x}}[self.how]


class AnyHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        return self.head(x["y"])


def keys(step):
    x, _ = words(step)
    return {"attention_mask": x % 5 != 0, "places": (torch.arange(LENGTH).expand_as(x),), "scale": 0.5, "counts": (x % 3 != 0).float()}


def keyed_loss(output, target, counts):
    return (nn.functional.cross_entropy(output.flatten(0, 1), target.flatten(), reduction="none") * counts.flatten()).mean()


keyed_loss.takes = ("counts",)


# name: (layers, loss, batch).
MODELS = {
    "residual": (lambda: [nn.Embedding(WORDS, WIDTH), Residual(), Residual(), nn.Sequential(Residual(), Sum())], words_loss, words),
    "skips": (lambda: [Down(3, 4), Down(4, 8), Up(8, 4, 4), Up(4, 3, 3)], nn.functional.mse_loss, pictures),
    "masked": (lambda: [Begin(), Masked(), Masked(), nn.Sequential(Masked(), First())], words_loss, words),
    "routed": (lambda: [nn.Embedding(WORDS, WIDTH), Routed(), Routed(), RoutedHead()], router_loss, words),
    "encoder, decoder": (lambda: [Encode(), BeginDecoder(), Decode(), nn.Sequential(Decode(), DecodeHead())], words_loss, pairs),
    "twice": (lambda: [nn.Sequential(nn.Embedding(WORDS, WIDTH), Twice()), Twice(), Twice(), nn.Sequential(Twice(), Sum())], words_loss,
              words),
    "keyed": (lambda: [nn.Embedding(WORDS, WIDTH), Keyed(), Keyed(), nn.Sequential(Keyed(), nn.Linear(WIDTH, WORDS))], keyed_loss, words),
}


def made(name):
    if name == "frozen":  # what the first stage hands on needs no gradient
        layers, loss, batch = made("residual")
        return [layers[0].requires_grad_(False), Idle(), nn.Sequential(*layers[1:3]), layers[3]], loss, batch
    if name.startswith("changes: "):
        how = name.removeprefix("changes: ")
        return [nn.Identity(), Changes(how), AnyHead(), nn.Identity()], words_loss, words
    layers, loss, batch = MODELS[name]
    torch.manual_seed(3)
    return layers(), loss, batch


def cut_of(value, microbatch, count=MICROBATCHES):
    if isinstance(value, list):
        return value[microbatch]
    if isinstance(value, tuple):
        return tuple(cut_of(each, microbatch, count) for each in value)
    return value.chunk(count)[microbatch] if isinstance(value, torch.Tensor) else value


def shorter(value, length):
    if isinstance(value, tuple):
        return tuple(shorter(each, length) for each in value)
    return value[:, :length].contiguous() if isinstance(value, torch.Tensor) else value


def varied(value, step, how, count=MICROBATCHES):
    """A batch, or a keyword, with sequences of other lengths by step, or by microbatch: then a list."""
    if how == "step":
        return shorter(value, LENGTH - step)
    if how == "microbatch" and isinstance(value, (torch.Tensor, tuple)):
        return [shorter(cut_of(value, m, count), 2 + (3 * m + step) % (LENGTH - 1)) for m in range(count)]
    return value


def call(what, values, keywords):
    if isinstance(what, nn.Sequential):
        for each in what:
            values = call(each, values, keywords), *values[1:]
        return values[0]
    return what(*values, **{name: keywords[name] for name in getattr(what, "takes", ())})


def plain(name, cut, how=None, count=MICROBATCHES):
    """({stage: digest}, losses) of one process."""
    layers, loss, batch = made(name)

    def run(stages, step, given, m):
        x, target = (varied(each, step, how, count) for each in given)
        value = cut_of(x, m, count)
        keywords = {name: cut_of(varied(each, step, how, count), m, count) for name, each in keys(step).items()}
        for stage, module in stages.items():
            pipec.torch.reseed(0, step, stage, m)
            value = call(module, (value,), keywords)
        return call(loss, (value, cut_of(target, m, count)), keywords), 1

    stages, losses = models.alone(layers, cut, map(batch, range(STEPS)), count, run)
    return {str(stage): models.digest(module) for stage, module in stages.items()}, losses


def train(case):
    plan = pipec.load(case["plan"])
    rank, replica = plan.place()
    how, count = case.get("varies"), plan.microbatches * plan.degree

    def own(value, step):
        """This replica's."""
        value = varied(value, step, how, count)
        return value[replica * plan.microbatches:(replica + 1) * plan.microbatches] if isinstance(value, list) else value

    layers, loss, batch = made(case["model"])
    modules = pipec.torch.stages(plan, layers, rank)
    updates, losses = models.adamw(modules.values()), []
    shapes = case.get("shapes", ["same" if how is None else "vary"] * plan.ranks)[rank]
    with pipec.torch.Run(plan, modules, loss=loss, progress=False, state={"optimizer": updates}, shapes=shapes) as run:
        for step in range(STEPS):
            if step == case.get("swaps"):
                run.swap(1)
            x, target = (own(each, step) for each in batch(step))
            keywords = {name: own(each, step) for name, each in keys(step).items()} if case["model"] == "keyed" else {}
            if "entries" in case:
                x = x[:case["entries"]]
            for name in case.get("lacks", {}).get(str(rank), ()):
                del keywords[name]
            for name, value in case.get("further", {}).items():
                keywords[name] = [torch.ones(2)] * value if how else torch.ones(value) if isinstance(value, list) else value
            losses.append(run.step(x, target=target, **keywords).item())
            updates.step()
            updates.zero_grad()
    return {"digests": {stage: models.digest(module) for stage, module in modules.items()}, "losses": losses}


def main():
    torch.set_num_threads(1)
    models.answer(train)


if __name__ == "__main__":
    main()
