"""Small models of many kinds, and a process that trains them: for each {"model", "plan"} of a list of JSON it prints
{"digests": {stage: digest after the last step}, "losses"}, or {"error"}."""

import models
import torch
from torch import nn

import pipec
import pipec.torch

STEPS, ROWS, MICROBATCHES = 3, 8, 4
WORDS, WIDTH, LENGTH, PIXELS = 32, 16, 6, 8


def words(step):
    generator = torch.Generator().manual_seed(step)
    found = torch.randint(1, WORDS, (ROWS, LENGTH + 1), generator=generator)
    return found[:, :-1].contiguous(), found[:, 1:].contiguous()


def padded(step):
    """Rows of several lengths, behind which is padding, 0, that no loss counts."""
    lengths = torch.randint(1, LENGTH + 1, (ROWS, 1), generator=torch.Generator().manual_seed(100 + step))
    x, target = words(step)
    inside = torch.arange(LENGTH) < lengths
    return x * inside, target * inside


def pictures(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(ROWS, 3, PIXELS, PIXELS, generator=generator), torch.randint(0, 4, (ROWS,), generator=generator)


def images(step):
    x, _ = pictures(step)
    return x, x.roll(1, -1)


def words_loss(output, target):
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


def padded_loss(output, target):
    total = nn.functional.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=0, reduction="sum")
    return total, (target != 0).sum()


class Attends(nn.Module):
    """A transformer's block. causal; glu: as in Llama; experts: the number of a mixture's, with an auxiliary loss of its own."""

    def __init__(self, causal=True, glu=False, experts=0):
        super().__init__()
        self.before, self.behind = (nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)) if glu else (nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH))
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True, dropout=0.1)
        self.causal = causal
        self.feed = Mixture(experts) if experts else Gated() if glu else nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        y = self.before(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.feed(self.behind(x))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class WithLoss(torch.autograd.Function):
    """Hands x on, and lets backward begin from an auxiliary loss too, as Megatron does it."""

    @staticmethod
    def forward(ctx, x, loss):
        ctx.save_for_backward(loss)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        loss, = ctx.saved_tensors
        return gradient, torch.full_like(loss, 0.01)


class Mixture(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, count), nn.ModuleList(Gated() for _ in range(count))

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        best, chosen = weights.max(-1)
        found = sum(expert(x) * (chosen == n).unsqueeze(-1) for n, expert in enumerate(self.experts)) * best.unsqueeze(-1)
        return WithLoss.apply(found, weights.mean((0, 1)).square().sum())


class Carries(nn.Module):
    """An LSTM whose state goes on from one microbatch to the next."""

    def __init__(self, carried):
        super().__init__()
        self.lstm, self.carried, self.state = nn.LSTM(WIDTH, WIDTH, batch_first=True), carried, None

    def forward(self, x):
        found, state = self.lstm(x, self.state)
        if self.carried:
            self.state = tuple(each.detach() for each in state)
        return found


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
                                   nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels))

    def forward(self, x):
        return torch.relu(x + self.inner(x))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.deep = nn.Conv2d(4, 8, 3, stride=2, padding=1), Residual(8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, x):
        return torch.cat([x, self.up(self.deep(self.down(x).relu()))], 1)


class Lora(nn.Module):
    """A frozen layer beside what is learned."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.down, self.up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)

    def forward(self, x):
        return torch.tanh(self.base(x) + self.up(self.down(x)))


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.cut, self.first = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(1, 5, WIDTH))

    def forward(self, x):
        x = self.cut(x).flatten(2).transpose(1, 2)
        return torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places


class First(nn.Module):
    def forward(self, x):
        return x[:, 0]


def gpt(tied=False, **options):
    layers = [nn.Embedding(WORDS, WIDTH), Attends(**options), Attends(**options), nn.Linear(WIDTH, WORDS, bias=False)]
    if tied:
        layers[3].weight = layers[0].weight
    return layers


def ddp():
    layers = gpt()
    return [*layers[:3], nn.parallel.DistributedDataParallel(layers[3])]


def sharded():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    layers = [nn.Embedding(WORDS, WIDTH), *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(2)), nn.Linear(WIDTH, WORDS)]
    return [fully_shard(each, mesh=init_device_mesh("cpu", (1,))) for each in layers]


def resnet():
    return [nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()), Residual(4), Residual(4),
            nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4))]


def unet():
    return [nn.Conv2d(3, 4, 3, padding=1), UNet(), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 3, 1)]


def vit():
    return [Patches(), Attends(causal=False), Attends(causal=False), nn.Sequential(First(), nn.Linear(WIDTH, 4))]


def lstm(carried):
    return [nn.Embedding(WORDS, WIDTH), Carries(carried), Carries(carried), nn.Linear(WIDTH, WORDS)]


def lora():
    return [nn.Embedding(WORDS, WIDTH).requires_grad_(False), Lora(), Lora(), nn.Linear(WIDTH, WORDS)]


# name: (layers, loss, batch).
MODELS = {
    "gpt": (gpt, words_loss, words),
    "gpt, tied": (lambda: gpt(tied=True), words_loss, words),
    "llama": (lambda: gpt(glu=True), words_loss, words),
    "qwen, padded": (lambda: gpt(glu=True), padded_loss, padded),
    "bert, padded": (lambda: gpt(causal=False), padded_loss, padded),
    "mixture": (lambda: gpt(glu=True, experts=3), words_loss, words),
    "vit": (vit, nn.functional.cross_entropy, pictures),
    "resnet": (resnet, nn.functional.cross_entropy, pictures),
    "unet": (unet, nn.functional.mse_loss, images),
    "lora": (lora, words_loss, words),
    "lstm": (lambda: lstm(False), words_loss, words),
    "lstm, carried": (lambda: lstm(True), words_loss, words),
    "ddp": (ddp, words_loss, words),
    "fully_shard": (sharded, words_loss, words),
}


def made(name):
    """A model's layers, the same in every process, its loss, and what makes batches."""
    if name not in MODELS:
        import transformed

        MODELS.update(transformed.MODELS)
    layers, loss, batch = MODELS[name]
    torch.manual_seed(3)
    return layers(), loss, batch


def alone():
    """A process group of this process."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


def plain(name, cut):
    """({stage: digest}, losses) of one process."""
    layers, loss, batch = made(name)

    def run(stages, step, given, m):
        value, following = (each.chunk(MICROBATCHES)[m] for each in given)
        for stage, module in stages.items():
            pipec.torch.reseed(0, step, stage, m)
            value = module(value)
        of = loss(value, following)
        return of if isinstance(of, tuple) else (of, 1)

    stages, losses = models.alone(layers, cut, map(batch, range(STEPS)), MICROBATCHES, run)
    return {str(stage): models.digest(whole(module)) for stage, module in stages.items()}, losses


class whole:  # noqa: N801
    """A module whose state is there whole, where it is sharded."""

    def __init__(self, module):
        self.module = module

    def state_dict(self):
        return {name: each.full_tensor() if hasattr(each, "full_tensor") else each for name, each in self.module.state_dict().items()}


def train(case):
    plan = pipec.load(case["plan"])
    rank, _ = plan.place()
    layers, loss, batch = made(case["model"])
    modules = pipec.torch.stages(plan, layers, rank)
    own, losses = models.adamw(modules.values()), []
    with pipec.torch.Run(plan, modules, loss=loss, progress=False, state={"optimizer": own}) as run:
        for step in range(STEPS):
            x, target = batch(step)
            losses.append(run.step(x, target=target).item())
            own.step()
            own.zero_grad()
    return {"digests": {stage: models.digest(whole(module)) for stage, module in modules.items()}, "losses": losses}


def main():
    torch.set_num_threads(1)
    alone()
    models.answer(train)


if __name__ == "__main__":
    main()
