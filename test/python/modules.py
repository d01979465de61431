"""Modules of every kind, for tests that compute each in several ways."""
import random

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint


class Function(torch.autograd.Function):
    """x @ w, which counts how often either gradient is computed."""

    counts = [0, 0]

    @staticmethod
    def forward(ctx, x, scale, w):
        ctx.save_for_backward(x, w)
        ctx.scale = scale
        return x @ w * scale

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        found = [None, None]
        for at, compute in enumerate((lambda: gradient @ w.t() * ctx.scale, lambda: x.flatten(0, -2).t()
                                      @ gradient.flatten(0, -2) * ctx.scale)):
            if ctx.needs_input_grad[2 * at]:
                Function.counts[at] += 1
                found[at] = compute()
        return found[0], None, found[1]


class Two(torch.autograd.Function):
    """A function of two outputs, of which the second may be unused."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w, x + w

    @staticmethod
    def backward(ctx, first, second):
        x, w = ctx.saved_tensors
        return first * w + second, (first * x + second).sum((0, 1))


class Plus(torch.autograd.Function):
    """x + a + b: one tensor is the gradient of all three."""

    @staticmethod
    def forward(ctx, x, a, b):
        return x + a + b

    @staticmethod
    def backward(ctx, gradient):
        return gradient, gradient, gradient


class Varying(torch.autograd.Function):
    """x @ w, which saves more tensors for some inputs than for others, and has no gradient of x for others again."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.more, ctx.less = bool(x[0, 0] > 0), bool(x[0, 1] > 0)
        ctx.save_for_backward(*((x + 1, x + 2, x, w) if ctx.more else (x, w)))
        return x @ w

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors[-2:]
        return None if ctx.less else gradient @ w.t(), x.t() @ gradient


class Lambda(nn.Module):
    """A module of parameters, or modules, by name and a function of itself and x."""

    def __init__(self, function, buffers=(), **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, nn.Parameter(part) if isinstance(part, torch.Tensor) else part)
        for name, buffer in dict(buffers).items():
            self.register_buffer(name, buffer)

    def forward(self, x):
        return self.function(self, x)


def vector(*shape):
    return torch.randn(*(shape or (8,)))


def linears(count=2):
    return nn.Sequential(*(part for _ in range(count) for part in (nn.Linear(8, 8), nn.GELU())))


def recurrent(kind):
    return Lambda(lambda self, x: self.cell(x)[0], cell=kind(8, 8, num_layers=2, batch_first=True))


def attention(**options):
    return Lambda(lambda self, x: self.inner(x, x, x, **options)[0],
                  inner=nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True))


def encoder():
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, activation="gelu")


def checkpointed(reentrant):
    return Lambda(lambda self, x: checkpoint(self.inner, x, use_reentrant=reentrant) + x,
                  inner=nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.LayerNorm(8), nn.Linear(8, 8)))


def autocast(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return self.inner(self.inner(x)).float()


def branching(self, x):
    """Another graph for about every second microbatch."""
    return self.second(functional.relu(self.first(x))) if x.sum() > 0 else self.first(x) * self.scale


def hooked(self, x):
    x = self.first(x)
    x.register_hook(lambda gradient: gradient * 0.5)
    return self.second(x.tanh())


def slices(self, x):
    x = x * 2
    x[:, 1] = self.row
    x[:, :2].mul_(self.scale)
    return x


def full_hooks():
    module = linears()
    module[2].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))
    return module


def parameter_hooks():
    module = linears()
    module[0].weight.register_hook(lambda gradient: gradient * 3)

    def halve(parameter):
        parameter.grad.mul_(0.5)

    module[2].bias.register_post_accumulate_grad_hook(halve)
    return module


def freeze(module, *names):
    for name, parameter in module.named_parameters():
        if not names or name in names:
            parameter.requires_grad_(False)
    return module


def early_transposes(self, x):
    first, second, third = self.weight.t(), self.weight.t(), self.weight.t()
    return (((x.flatten(0, 1) @ third).tanh() @ second).tanh() @ first).tanh()


def tied_head():
    return Lambda(lambda self, x: functional.linear(self.inner(self.table(x)), self.table.weight),
                  table=nn.Embedding(11, 8), inner=encoder())


def of(function, **parts):
    return lambda: Lambda(function, **{name: part() if callable(part) and not isinstance(part, nn.Module) else part
                                       for name, part in parts.items()})


def square():
    return nn.Linear(8, 8)


def matrix():
    return vector(8, 8)


def three_times(self, x):
    return self.inner(self.inner(self.inner(x).tanh()).tanh())


def normed_three_times(self, x):
    weight = self.inner.weight
    return functional.linear(functional.linear(functional.linear(x, weight).tanh(), weight).tanh(), weight)


def scaled_three_times(self, x):
    for _ in range(3):
        x = (x * self.scale + self.bias).tanh()
    return x


def functions(self, x):
    return Function.apply(Function.apply(x, 2.0, self.first).tanh(), 0.5, self.second)


def function_three_times(self, x):
    for scale in (2.0, 3.0, 0.5):
        x = Function.apply(x, scale, self.weight).tanh()
    return x


def two_outputs(self, x):
    first, second = Two.apply(Two.apply(x, self.weight)[0].tanh(), self.weight)
    return first + second.tanh()


def weight_and_bias(self, x):
    x = functional.linear(x, self.weight, self.weight[0]) * self.weight[1]
    return functional.linear(x, self.weight) + self.weight[2]


def bare_and_transposed(self, x):
    x = (x.flatten(0, 1) @ self.weight + self.weight.sum()).tanh()
    return x @ self.weight.t() * self.weight.mean()


def factors(self, x):
    return torch.add(torch.addmm(self.row, x, self.weight, beta=0.5, alpha=3), self.row, alpha=2)


def twice_in_one(self, x):
    return torch.addcmul(torch.addcmul(x, self.row, self.row).tanh(), self.row, self.row)


def varying(self, x):
    return Varying.apply(self.norm(Varying.apply(x.tanh(), self.weight)), self.weight)


def on_the_left(self, x):
    return self.weight @ x[0] + self.weight @ x[1].tanh()


def residuals(self, x):
    return x + self.first(x) + self.second(x + self.first(x))


def experts(self, x):
    chosen = self.gate(x[:, 0]).argmax(-1)
    return torch.stack([self.experts[int(at)](row) for at, row in zip(chosen, x)])


SEQUENCES = {
    "linear": square,
    "linear without bias": lambda: nn.Linear(8, 8, bias=False),
    "perceptron": linears,
    "double precision": lambda: linears().double(),
    "half precision": lambda: linears().bfloat16(),
    "layer norm": lambda: nn.Sequential(nn.LayerNorm(8), square(), nn.LayerNorm(8, elementwise_affine=False)),
    "layer norm without bias": lambda: nn.LayerNorm((5, 8), bias=False),
    "rms norm": lambda: nn.Sequential(nn.RMSNorm(8), square()),
    "lstm": lambda: recurrent(nn.LSTM),
    "lstm in double precision": lambda: recurrent(nn.LSTM).double(),
    "gru": lambda: recurrent(nn.GRU),
    "attention": lambda: attention(need_weights=False),
    "attention with weights": lambda: attention(),
    "encoder": lambda: nn.Sequential(encoder(), encoder()),
    "encoder in evaluation": lambda: encoder().eval(),
    "weight norm": lambda: nn.Sequential(weight_norm(square()), nn.GELU(), square()),
    "weight norm, used three times": of(normed_three_times, inner=lambda: weight_norm(square())),
    "spectral norm": lambda: spectral_norm(square()),
    "linear used three times": of(three_times, inner=square),
    "transposed before use": of(early_transposes, weight=matrix),
    "scale and bias used three times": of(scaled_three_times, scale=vector, bias=vector),
    "weight that is also a bias": of(weight_and_bias, weight=matrix),
    "parameter used bare and transposed": of(bare_and_transposed, weight=matrix),
    "position embedding": of(lambda self, x: x + self.table[:, :5], table=lambda: vector(1, 7, 8)),
    "einsum": of(lambda self, x: torch.einsum("btd,hde->bhte", x, self.weight), weight=lambda: vector(2, 8, 4)),
    "weight on the left": of(on_the_left, weight=lambda: vector(4, 5)),
    "bilinear": of(lambda self, x: self.inner(x, x.tanh()), inner=lambda: nn.Bilinear(8, 8, 4)),
    "chosen elements": of(lambda self, x: torch.where(x > 0, x * self.table[2], self.table[3]), table=matrix),
    "custom functions": of(functions, first=matrix, second=matrix),
    "custom function used three times": of(function_three_times, weight=matrix),
    "custom function of two outputs": of(two_outputs, weight=vector),
    "reentrant checkpoint": lambda: checkpointed(True),
    "checkpoint": lambda: checkpointed(False),
    "autocast": of(autocast, inner=square),
    "dropout": lambda: nn.Sequential(square(), nn.Dropout(0.5), square(), nn.Dropout(0.5, inplace=True)),
    "changes its input": lambda: nn.Sequential(nn.Dropout(0.5, inplace=True), square(), nn.ReLU(inplace=True)),
    "assigns slices": of(slices, row=vector, scale=vector),
    "output is the input": nn.Identity,
    "output is a view of the input": of(lambda self, x: x[:, 1:].transpose(1, 2)),
    "output is a view": lambda: nn.Sequential(square(), nn.Flatten(), nn.Unflatten(1, (4, 10))),
    "output is a parameter": of(lambda self, x: self.weight, weight=vector),
    "output is constant": of(lambda self, x: x.detach() + 1),
    "unused input": of(lambda self, x: self.inner(torch.ones(2, 8)), inner=square),
    "unused parameter": of(lambda self, x: self.used(x), used=square, unused=square),
    "no parameter": lambda: nn.Sequential(nn.GELU(), nn.Dropout(0.1)),
    "frozen": lambda: freeze(linears()),
    "partly frozen": lambda: freeze(nn.Sequential(nn.LayerNorm(8), linears(), nn.Conv1d(5, 5, 1)),
                                    "0.weight", "1.0.bias", "1.2.weight", "2.bias"),
    "graph that changes": of(branching, first=square, second=lambda: nn.BatchNorm1d(5), scale=vector),
    "hook of a tensor": of(hooked, first=square, second=square),
    "hooks of modules": full_hooks,
    "hooks of parameters": parameter_hooks,
    "residuals": of(residuals, first=square, second=lambda: nn.LayerNorm(8)),
    "experts": of(experts, gate=lambda: nn.Linear(8, 3), experts=lambda: nn.ModuleList(linears(1) for _ in range(3))),
    "compiled": lambda: torch.compile(linears(), backend="aot_eager"),
}

ROWS = {
    "linear of rows": lambda: nn.Linear(8, 3),
    "prelu used three times": of(three_times, inner=lambda: nn.PReLU(8)),
    "factors": of(factors, row=vector, weight=matrix),
    "mixed types": of(lambda self, x: (x * self.first * self.row + self.row) @ self.weight.float() - self.row,
                      first=vector, row=lambda: vector().bfloat16(), weight=lambda: matrix().bfloat16()),
    "twice in one operation": of(twice_in_one, row=vector),
    "parameter of the input's shape": of(lambda self, x: x + self.table, table=lambda: vector(4, 8)),
    "parameter in columns": of(lambda self, x: x + self.table, table=lambda: vector(8, 4).t()),
    "gradient of several parameters": of(lambda self, x: Plus.apply(Plus.apply(x, self.a, self.b), self.c, self.b),
                                         a=lambda: vector(4, 8), b=lambda: vector(4, 8), c=lambda: vector(4, 8)),
    "no gradient of the input": of(lambda self, x: Varying.apply(x.abs(), self.weight), weight=matrix),
    "saves more or less": of(varying, norm=lambda: nn.BatchNorm1d(8), weight=matrix),
    "hook of a cut node's tensor": of(hooked, first=square, second=square),
}

IMAGES = {
    "convolution": lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                                         nn.Flatten(), nn.Linear(36, 5)),
    "convolution, channels last": lambda: nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last),
    "convolution used three times": of(three_times, inner=lambda: nn.Conv2d(3, 3, 3, padding=1)),
    "grouped convolution": lambda: nn.Conv2d(3, 6, 3, groups=3, dilation=2, padding=2),
    "transposed convolution": lambda: nn.ConvTranspose2d(3, 4, 3, stride=2),
    "batch norm": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
                                        nn.Conv2d(4, 2, 1, bias=False)),
    "batch norm in evaluation": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval(),
    "instance norm": lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
    "group norm": lambda: nn.Sequential(nn.GroupNorm(3, 3), nn.Conv2d(3, 3, 1)),
}

OF_TOKENS = {
    "embedding": lambda: nn.Sequential(nn.Embedding(11, 8), square()),
    "embedding, sparse": lambda: nn.Embedding(11, 8, sparse=True),
    "embedding tied to the head": tied_head,
}

TOKENS = "tokens"
CASES = {name: (make, shape) for shape, kinds in (((2, 5, 8), SEQUENCES), ((4, 8), ROWS), ((2, 3, 6, 6), IMAGES),
                                                 (TOKENS, OF_TOKENS)) for name, make in kinds.items()}
CASES["linear of one vector"] = (lambda: nn.Linear(8, 3), (8,))


def inputs(shape, dtype=torch.float32, microbatches=4):
    if shape == TOKENS:
        return [torch.randint(0, 11, (2, 5)) for _ in range(microbatches)]
    return [torch.randn(*shape, dtype=dtype) for _ in range(microbatches)]


def dtype_of(module):
    return next((each.dtype for each in module.parameters()), torch.float32)


class Drawn(nn.Module):
    """A random program on values of shape (4, 8), which uses parameters any number of times, in any operation."""

    KINDS = ("linear", "linear", "matmul", "left", "scale", "shift", "subtract", "norm", "normed", "add", "multiply",
             "tanh", "prelu", "function", "two", "cat", "where", "slice", "cast", "early", "bias of weights",
             "weights alone", "dropout")

    def __init__(self, seed):
        super().__init__()
        self.draw = random.Random(seed)
        self.weights = nn.ParameterList(vector(8, 8) / 3 for _ in range(2))
        self.vectors = nn.ParameterList(vector() for _ in range(2))
        self.norm = nn.LayerNorm(8)
        self.normed = weight_norm(nn.Linear(8, 8))
        self.steps = [(self.draw.choice(self.KINDS), self.draw.random(), self.draw.random(), self.draw.randrange(2),
                       self.draw.randrange(2)) for _ in range(self.draw.randrange(2, 12))]

    def forward(self, x):
        values, transposed = [x], [weight.t() for weight in self.weights]
        for kind, first, second, n, k in self.steps:
            # The latest value mostly, so that much of what is computed counts.
            value, other = (values[int(len(values) * each ** 0.3)] for each in (first, second))
            weight, row = self.weights[n], self.vectors[k]
            values.append({
                "linear": lambda: functional.linear(value, weight, row),
                "matmul": lambda: value @ weight,
                "left": lambda: weight[:4, :4] @ value,
                "scale": lambda: value * row,
                "shift": lambda: row + value,
                "subtract": lambda: value - row,
                "norm": lambda: self.norm(value),
                "normed": lambda: self.normed(value),
                "add": lambda: value + other,
                "multiply": lambda: value * torch.sigmoid(other),
                "tanh": lambda: value.tanh(),
                "prelu": lambda: functional.prelu(value, row),
                "function": lambda: Function.apply(value, 0.5, weight),
                "two": lambda: sum(each[0] for each in Two.apply(value[None], row)),
                "cat": lambda: torch.cat([value[:, :4], other[:, 4:]], 1) @ weight.t(),
                "where": lambda: torch.where(value > 0, value, row),
                "slice": lambda: self.assign(value, row),
                "cast": lambda: functional.linear(value.bfloat16(), weight.bfloat16(), row.bfloat16()).float(),
                "early": lambda: value @ transposed[n],
                "bias of weights": lambda: functional.linear(value, weight, weight[k]),
                "weights alone": lambda: value + (weight @ row) * weight.mean(),
                "dropout": lambda: functional.dropout(value, 0.3),
            }[kind]().tanh())
        return values[-1]

    @staticmethod
    def assign(value, row):
        value = value * 1.5
        value[:, 2:4] = row[2:4]
        value[1].mul_(row)
        return value
