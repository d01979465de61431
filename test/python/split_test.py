"""F, B, W, BW and R of modules of every kind, bit for bit beside a plain loop; what B and W compute and hold.

  PYTHONPATH=build/dev/python python3 test/python/split_test.py

PIPEC_TORCH_PROGRAMS: how many random programs (default: 150)."""
import os
import pathlib
import random
import sys
import traceback
import unittest

try:
    import torch
except ImportError:
    sys.exit("skipped: there is no PyTorch for this Python")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import peer  # noqa: E402
from modules import (  # noqa: E402
    CASES, Drawn, Function, Lambda, checkpointed, dtype_of, encoder, inputs, linears, tied_head, vector)
from pipec.torch.layered import LayeredStage, first_stage  # noqa: E402
from pipec.torch.random import _mix, hashed, reseed  # noqa: E402
from pipec.torch.split import UNREACHED, Stage, StageError  # noqa: E402

MICROBATCHES = 4
SEED, NUMBER = 7, 3
# An instruction is kind and microbatch, G an F that R computes again. Gradients are added in the microbatches' order.
ORDERS = {
    "at once": "F0 B0 W0 F1 B1 W1 F2 B2 W2 F3 B3 W3",
    "late": "F0 F1 F2 B0 F3 B1 B2 W0 B3 W1 W2 W3",
    "fused": "F0 F1 BW0 F2 BW1 F3 BW2 BW3",
    "mixed": "F0 F1 B0 F2 W0 BW1 B2 F3 W2 BW3",
    "recomputed": "G0 G1 R0 B0 G2 R1 W0 BW1 G3 R2 B2 R3 B3 W2 W3",
}


class Plain:
    """The plain loop, step by step: outputs, inputs' gradients; parameters' gradients stay in the module."""

    def __init__(self, module, loss=None):
        self.module, self.loss = module, loss

    def step(self, step, xs, gradients, targets):
        outputs, found = [], []
        for microbatch, x in enumerate(xs):
            leaf = x.clone().requires_grad_(x.is_floating_point())
            reseed(SEED, step, NUMBER, microbatch)
            output = self.module(leaf.clone())
            if self.loss is not None:
                output = self.loss(output, targets[microbatch])
            outputs.append(output.detach().clone())
            if output.requires_grad:
                output.backward(None if self.loss else gradients(microbatch, output))
            found.append(leaf.grad)
        return outputs, found


class Split(Plain):
    """The same through a Stage, in one of the orders."""

    def __init__(self, module, order, loss=None, **options):
        self.stage = Stage(module, number=NUMBER, seed=SEED, loss=loss, **options)
        self.order, self.loss, self.module = order, loss, module

    def step(self, step, xs, gradients, targets):
        outputs, found = [None] * len(xs), [None] * len(xs)
        for instruction in self.order.split():
            kind, microbatch = instruction.rstrip("0123456789"), int(instruction.lstrip("FBWRG"))
            if kind in ("F", "G"):
                outputs[microbatch] = self.stage.forward(
                    microbatch, xs[microbatch].clone(), step=step, keep=kind == "F",
                    target=targets[microbatch] if targets else None).clone()
            elif kind == "R":
                self.stage.recompute(microbatch)
            elif kind == "W":
                self.stage.backward_weight(microbatch)
            else:
                gradient = None if self.loss else gradients(microbatch, outputs[microbatch])
                backward = self.stage.backward if kind == "BW" else self.stage.backward_input
                found[microbatch] = backward(microbatch, gradient)
        return outputs, found


class Bits(unittest.TestCase):
    def same(self, found, expected, what):
        if expected is None or found is None:
            self.assertIs(found, expected, what)
            return
        for name in ("shape", "dtype", "layout"):
            self.assertEqual(getattr(found, name), getattr(expected, name), f"{name} of {what}")
        if found.is_sparse:
            found, expected = found.to_dense(), expected.to_dense()
        self.assertTrue(torch.equal(found, expected), f"{what}: {found}, expected {expected}")

    def compare(self, name, make, xs, loss=None, targets=None, orders=ORDERS, steps=2):
        """Steps, whose gradients are added up, in every order."""

        def made():
            torch.manual_seed(len(name))
            return make()

        kept = {}

        def gradients(microbatch, output):
            if microbatch not in kept:
                generator = torch.Generator().manual_seed(microbatch)
                kept[microbatch] = torch.randn(output.shape, generator=generator).to(output.dtype)
            return kept[microbatch].clone().reshape(output.shape)

        plain = Plain(made(), loss)
        expected = [plain.step(step, xs, gradients, targets) for step in range(steps)]
        for order, instructions in orders.items():
            with self.subTest(module=name, order=order):
                split = Split(made(), instructions, loss)
                for step in range(steps):
                    state = torch.get_rng_state()
                    outputs, found = split.step(step, xs, gradients, targets)
                    self.assertTrue(torch.equal(torch.get_rng_state(), state), "the program's random numbers")
                    for microbatch in range(len(xs)):
                        self.same(outputs[microbatch], expected[step][0][microbatch], f"output {microbatch}")
                        self.same(found[microbatch], expected[step][1][microbatch], f"input gradient {microbatch}")
                for (path, mine), (_, other) in zip(split.module.named_parameters(), plain.module.named_parameters()):
                    self.same(mine.grad, other.grad, path)
                    if mine.grad is not None and not mine.grad.is_sparse:
                        self.assertEqual(mine.grad.stride(), other.grad.stride(), path)
                for (path, mine), (_, other) in zip(split.module.named_buffers(), plain.module.named_buffers()):
                    self.same(mine, other, path)
                self.assertEqual(split.stage.held(), 0)


class Modules(Bits):
    def test_every_kind(self):
        self.assertGreaterEqual(len(CASES), 20)
        for name, (make, shape) in CASES.items():
            torch.manual_seed(1)
            self.compare(name, make, inputs(shape, dtype_of(make())))


class Programs(Bits):
    def test_drawn(self):
        for seed in range(int(os.environ.get("PIPEC_TORCH_PROGRAMS", "150"))):
            torch.manual_seed(seed)
            self.compare(f"program {seed}", lambda: Drawn(seed), inputs((4, 8)),
                         orders={name: ORDERS[name] for name in ("late", "mixed", "recomputed")})


class Loss(nn.Module):
    """With a parameter and a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.heat = nn.Parameter(torch.ones(()))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, output, target):
        self.calls += 1
        return functional.cross_entropy(output.flatten(0, 1) * self.heat, target.flatten()) / MICROBATCHES


class Ends(Bits):
    """The last stage, the first stage, and what options change."""

    def test_losses(self):
        targets = [torch.randint(0, 8, (2, 5)) for _ in range(MICROBATCHES)]
        self.compare("encoder", encoder, inputs((2, 5, 8)),
                     lambda output, target: functional.cross_entropy(output.flatten(0, 1), target.flatten()), targets)
        self.compare("encoder", encoder, inputs((2, 5, 8)), lambda output, target: output.mean(), [None] * MICROBATCHES)
        tokens = [torch.randint(0, 11, (2, 5)) for _ in range(MICROBATCHES)]
        self.compare("tied", tied_head, inputs("tokens"), lambda output, target: functional.cross_entropy(
            output.flatten(0, 1), target.flatten()), tokens)

    def test_loss_with_parameters(self):
        targets = [torch.randint(0, 8, (2, 5)) for _ in range(MICROBATCHES)]
        losses = []
        for order in (None, *ORDERS.values()):
            torch.manual_seed(0)
            module, loss, xs = encoder(), Loss(), inputs((2, 5, 8))
            loop = Plain(module, loss) if order is None else Split(module, order, loss)
            outputs, _ = loop.step(0, xs, None, targets)
            losses.append((outputs, loss.heat.grad, loss.calls, [each.grad for each in module.parameters()]))
        for outputs, heat, calls, gradients in losses[1:]:
            for mine, other in zip([*outputs, heat, *gradients], [*losses[0][0], losses[0][1], *losses[0][3]]):
                self.same(mine, other, "with the loss's parameters")
            self.assertEqual(calls, losses[0][2])

    def test_first_stage(self):
        """An input whose gradient nobody wants: all is W's; F of it runs no hooks."""
        torch.manual_seed(0)
        x, gradient, module = vector(4, 8), vector(4, 8), linears()
        module(x).backward(gradient)
        expected = [each.grad.clone() for each in module.parameters()]
        for how in ("split", "fused"):
            module.zero_grad()
            stage = Stage(module, wants_gradient=False, split=how == "split")
            stage.forward(0, x)
            if how == "split":
                self.assertIsNone(stage.backward_input(0, gradient))
                self.assertTrue(all(each.grad is None for each in module.parameters()))
                stage.backward_weight(0)
            else:
                self.assertIsNone(stage.backward(0, gradient))
            for mine, other in zip(module.parameters(), expected):
                self.same(mine.grad, other, how)

    def test_any_order_of_w(self):
        """Of two microbatches the sum has one value."""
        orders = {"reversed": "F0 F1 B0 B1 W1 W0", "crossed": "F1 F0 B0 B1 W1 W0"}
        for name in ("encoder", "batch norm", "prelu used three times", "gru", "embedding"):
            make, shape = CASES[name]
            allowed = orders if name != "batch norm" else {"reversed": orders["reversed"]}
            self.compare(name, make, inputs(shape)[:2], orders=allowed, steps=1)

    def test_graphs_alike(self):
        """What the nodes of a graph do not tell, from one microbatch to the next: factors, shapes, hooks."""
        def half(x):
            return 1.0 if x.sum() > 0 else 0.5

        def rows(x):
            return 4 if x.sum() > 0 else 3

        def hooked(self, x):
            hidden = self.inner(x)
            if half(x) < 1:
                hidden.register_hook(lambda gradient: gradient * 0.5)
            return self.outer(hidden)

        def held_down(self, x):
            hidden = self.inner(x * half(x))
            hidden.register_hook(lambda gradient: gradient / 3 if gradient[0, 0] > 0 else gradient)
            return self.outer(hidden)

        makes = {
            "alpha": lambda: Lambda(lambda self, x: torch.add(x, self.inner.bias, alpha=half(x)), inner=nn.Linear(8, 8)),
            "addmm": lambda: Lambda(lambda self, x: torch.addmm(self.inner.bias, x, self.inner.weight, alpha=half(x), beta=2 * half(x) - 1),
                                    inner=nn.Linear(8, 8)),
            "rows added": lambda: Lambda(lambda self, x: x[:rows(x)] + self.inner.weight[:rows(x)], inner=nn.Linear(8, 4)),
            "one row added": lambda: Lambda(lambda self, x: x[:rows(x)] * self.inner.weight[:(1 if rows(x) == 4 else 3)],
                                            inner=nn.Linear(8, 4)),
            "a hook now and then": lambda: Lambda(hooked, inner=nn.Linear(8, 8), outer=nn.Linear(8, 8)),
            "a hook that acts now and then": lambda: Lambda(held_down, inner=nn.Linear(8, 8), outer=nn.Linear(8, 8)),
        }
        torch.manual_seed(0)
        xs = [sign * vector(4, 8).abs() for sign in (1, -1, 1, -1)]
        for name, make in makes.items():
            self.compare(name, make, xs)

    def test_no_gradient_comes_back(self):
        for call in ("backward", "backward_input"):
            module = nn.Sequential(nn.Linear(8, 8), Lambda(lambda self, x: self.inner(x.detach()), inner=nn.Linear(8, 8)))
            stage = LayeredStage(module, number=1, loss=None, seed=0, wants_gradient=True, split=call != "backward")
            stage.forward(0, vector(4, 8))
            self.assertIsNone(getattr(stage, call)(0, vector(4, 8)))
            if call != "backward":
                stage.backward_weight(0)
            self.assertIsNone(module[0].weight.grad)
            self.assertIsNotNone(module[1].inner.weight.grad)
            self.assertEqual(stage.held(), 0)
            stage = Stage(nn.Linear(8, 8), number=1)
            stage.forward(0, vector(4, 8))
            self.assertIsNone(getattr(stage, call)(0, UNREACHED))

    def test_first_stages_that_are_one_module(self):
        class Residual(nn.Sequential):
            def forward(self, x):
                return x + super().forward(x)

        hooked = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        hooked.register_forward_hook(lambda module, x, output: output * 2)
        for module in (Residual(nn.Linear(8, 8), nn.Linear(8, 8)), hooked):
            x = vector(4, 8)
            stage = first_stage(module, number=0, loss=None, seed=0, wants_gradient=False, split=True)
            self.same(stage.forward(0, x), module(x).detach(), "output")

    def test_many_graphs(self):
        """More than a stage remembers, each again and again."""
        module = Lambda(lambda self, x: self.inner(x)[0], inner=nn.GRU(8, 8).double())
        stage, plain = Stage(module), Lambda(lambda self, x: self.inner(x)[0], inner=nn.GRU(8, 8).double())
        plain.load_state_dict(module.state_dict())
        for length in [*range(1, 80), *range(1, 5)]:
            x = torch.randn(length, 1, 8, dtype=torch.float64)
            leaf = x.clone().requires_grad_()
            plain(leaf).sum().backward()
            stage.forward(0, x)
            found = stage.backward_input(0, torch.ones(length, 1, 8, dtype=torch.float64))
            self.same(found, leaf.grad, f"length {length}")
            stage.backward_weight(0)
        for mine, other in zip(module.parameters(), plain.parameters()):
            self.same(mine.grad, other.grad, "sum of all")


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.names.append(function.overloadpacket.__name__)
        return function(*arguments, **(options or {}))

    def count(self, *names):
        return sum(name in names for name in self.names)


class Work(unittest.TestCase):
    """What B and W compute, from the first microbatch on."""

    def operations(self, stage, microbatch, x):
        found = []
        output = stage.forward(microbatch, x)
        for call in (lambda: stage.backward_input(microbatch, torch.ones_like(output)),
                     lambda: stage.backward_weight(microbatch)):
            with Operations() as operations:
                call()
            found.append(operations)
        return found

    def test_linear(self):
        stage = Stage(nn.Sequential(linears(3), nn.LayerNorm(8)))
        for microbatch in range(3):
            b, w = self.operations(stage, microbatch, vector(4, 8))
            self.assertEqual((b.count("mm", "addmm"), w.count("mm", "addmm")), (3, 3))
            self.assertEqual((b.count("gelu_backward"), w.count("gelu_backward")), (3, 0))
            self.assertEqual(b.count("sum"), 0, "B sums no bias's gradient")

    def test_nodes_of_autograd(self):
        stage = Stage(peer.Batch(4))
        for microbatch in range(3):
            b, w = self.operations(stage, microbatch, vector(2, 4, 5, 5))
            for operations in (b, w):
                self.assertEqual(operations.count("convolution_backward"), 3)
                self.assertEqual(operations.count("native_batch_norm_backward", "batch_norm_backward"), 3)
            self.assertEqual((b.count("threshold_backward"), w.count("threshold_backward")), (3, 0))

    def test_custom_functions(self):
        """They are told by needs_input_grad which gradients are wanted."""
        for name, uses in (("custom functions", 2), ("custom function used three times", 3)):
            stage = Stage(CASES[name][0]())
            for microbatch in range(3):
                output = stage.forward(microbatch, vector(2, 5, 8))
                Function.counts[:] = 0, 0
                stage.backward_input(microbatch, torch.ones_like(output))
                self.assertEqual(Function.counts, [uses, 0], "B")
                stage.backward_weight(microbatch)
                self.assertEqual(Function.counts, [uses, uses], "W")

    def test_what_cannot_be_split(self):
        """One recomputation of what torch.utils.checkpoint leaves out: B does W's work as well."""
        for reentrant in (True, False):
            module = checkpointed(reentrant)
            stage = Stage(module)
            for microbatch in range(3):
                b, w = self.operations(stage, microbatch, vector(2, 5, 8))
                self.assertLessEqual(b.count("addmm"), 2)
                self.assertEqual(w.names, [])


class Memory(unittest.TestCase):
    """Bytes between B and W, counted by who knows nothing of the stage."""

    def test_beside_pytorch(self):
        theirs, ours = (peer.held(kind, nn.Sequential(*(peer.Block(64, 4) for _ in range(3))), (2, 32, 64))
                        for kind in (peer.Theirs, Stage))
        self.assertLessEqual(ours[1], 0.8 * theirs[1], "after B")
        self.assertLessEqual(ours[0], theirs[0], "after F")
        self.assertEqual(ours[2], 0, "after W")

    def test_boxes(self):
        """Nodes that are kept for W do not hold what B alone reads, from the first microbatch on."""
        shape = (4, 8, 16, 16)
        theirs, ours = (peer.held(kind, peer.Batch(8), shape) for kind in (peer.Theirs, Stage))
        self.assertLess(ours[1], theirs[1])
        self.assertEqual(ours[2], 0)
        stage, tensor = Stage(peer.Batch(8)), vector(*shape)
        for microbatch in range(3):
            for at, call in enumerate((stage.forward, stage.backward_input)):
                call(microbatch, vector(*shape))
                # Three each of inputs, convolutions' and ReLU's outputs; B frees ReLU's, and makes six gradients.
                self.assertAlmostEqual(stage.held() / tensor.nbytes, (9, 12)[at], delta=0.1)
            stage.backward_weight(microbatch)
            self.assertEqual(stage.held(), 0)

    def test_held(self):
        """The stage's own count is the stranger's."""
        for name in ("encoder", "perceptron", "batch norm", "weight norm"):
            make, shape = CASES[name]
            module = make()
            stage = Stage(module)
            for microbatch in range(2):
                stage.forward(microbatch, vector(*shape))
                gradient = torch.randn_like(module(vector(*shape)))
                stage.backward_input(microbatch, gradient)
                stage.backward_weight(microbatch)
            before = [gradient, *module.parameters(), *module.buffers(), *(each.grad for each in module.parameters())]
            with peer.Storages(before) as storages:
                stage.forward(2, vector(*shape))
                self.assertEqual(storages.bytes(), stage.held(), name)
                stage.backward_input(2, gradient.clone())
                self.assertEqual(storages.bytes(), stage.held(), name)
                stage.backward_weight(2)
                self.assertEqual(storages.bytes(), 0, name)

    def test_recomputed(self):
        """Of an F that R computes again the input is kept, nothing else."""
        module, x = nn.Sequential(linears(4)), vector(64, 8)
        stage = Stage(module)
        with peer.Storages([x, *module.parameters()]) as storages:
            stage.forward(0, x, keep=False)
            self.assertEqual(storages.bytes(), 0)
        self.assertEqual(stage.held(), x.nbytes)

    def test_dropped_without_backward(self):
        """An F whose backward never comes leaves nothing behind, whatever has saved its own output."""
        torch.manual_seed(0)
        kinds = {"tanh": nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Tanh()), "softmax": nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1)),
                 "attention": Lambda(lambda self, x: functional.scaled_dot_product_attention(x, x, self.inner(x)),
                                     inner=nn.Linear(8, 8)),
                 "custom function": CASES["custom functions"][0](), "batch norm": nn.Sequential(
                     nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8), nn.Sigmoid())}

        def fail(self, x):
            raise ArithmeticError

        for name, module in kinds.items():
            for how in ("forgotten", "after B", "raises", "a loss"):
                with self.subTest(module=name, how=how):
                    x, gradient = vector(2, 4, 5, 8), vector(2, 4, 5, 8)
                    stage = Stage(nn.Sequential(module, Lambda(fail)) if how == "raises" else module,
                                  loss=(lambda output, _: output.tanh().sum()) if how == "a loss" else None)
                    with peer.Storages([x, gradient, *module.parameters()]) as storages:
                        if how == "raises":
                            self.assertRaises(ArithmeticError, stage.forward, 0, x)
                        else:
                            stage.forward(0, x)
                        if how == "after B":
                            stage.backward_input(0, gradient)
                        del stage
                        self.assertEqual(storages.bytes(), 0)

    def test_held_of_layers(self):
        """What two layers of a stage have both saved counts once, and so does what one has made for the next."""
        torch.manual_seed(0)
        module, options = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh()), {
            "number": 0, "loss": None, "seed": 0}
        first = first_stage(module, wants_gradient=False, split=True, **options)
        for stage in (first, LayeredStage(module, wants_gradient=True, split=True, **options)):
            with peer.Storages([*module.parameters()]) as storages:
                for microbatch in range(2):  # the first B teaches
                    output = stage.forward(microbatch, x := vector(4, 8))
                    del x
                    held = stage.held()
                    self.assertEqual(held, storages.bytes())
                    gradient = vector(*output.shape)
                    del output
                    stage.backward_input(microbatch, gradient)
                    del gradient
                    self.assertEqual(stage.held(), storages.bytes())
                    stage.backward_weight(microbatch)
                    self.assertEqual(stage.held(), 0)
                    module.zero_grad()
            self.assertGreater(held, 0)

    def test_held_between_parts(self):
        """What one part hands to the next is held until that runs."""
        module = nn.Sequential(nn.ReLU(), nn.ReLU())
        stage = LayeredStage(module, number=0, loss=None, seed=0, wants_gradient=True, split=True)
        with peer.Storages([]) as storages:
            stage.forward(0, vector(4, 8), layers=1)
            self.assertEqual(stage.held(), storages.bytes())
            stage.forward(0, None, first=1, layers=1)
            stage.backward_input(0, vector(4, 8), first=1, layers=1)
            self.assertEqual(stage.held(), storages.bytes())

    def test_gradients_hold_no_graph(self):
        for name in ("encoder", "batch norm", "prelu used three times", "custom function used three times"):
            make, shape = CASES[name]
            module = make()
            stage = Stage(module)
            output = stage.forward(0, vector(*shape))
            self.assertFalse(output.requires_grad)
            self.assertFalse(stage.backward_input(0, torch.ones_like(output)).requires_grad)
            stage.backward_weight(0)
            self.assertFalse(any(each.grad.requires_grad for each in module.parameters()))


class Recomputed(Bits):
    def test_buffers(self):
        """R finds in buffers what F found, and leaves what later Fs made of them: small, large, and replaced ones."""

        def step(self, x):
            with torch.no_grad():
                self.small += x.sum()
                self.large += x.mean()
                self.replaced = self.replaced + x.sum()
            return x * self.weight * self.small * self.large[0] * self.replaced[0] * self.constant[0]

        def make():
            return Lambda(step, weight=torch.ones(8), buffers={
                "small": torch.zeros(1), "large": torch.zeros(1 << 15), "replaced": torch.zeros(1 << 15),
                "constant": torch.ones(1 << 15)})

        self.compare("changed buffers", make, inputs((4, 8)), orders={"recomputed": ORDERS["recomputed"]})

    def test_random_numbers_of_python_and_numpy_are_drawn_again(self):
        """And those that come after are not disturbed."""
        def check(name, seed, draw):
            def make():
                seed(1)
                return Lambda(lambda self, x: self.inner(x) * draw(), inner=nn.Linear(8, 8))

            self.compare(name, make, inputs((4, 8)), orders={"recomputed": ORDERS["recomputed"]})

        check("Python's random", random.seed, random.random)
        try:
            import numpy
        except ImportError:
            return  # PyTorch does without it
        check("NumPy's random", numpy.random.seed, lambda: float(numpy.random.rand()))

    def test_not_the_same_again(self):
        """What only a later microbatch shows cannot be made good."""

        def changes_input(self, x):
            return x.mul_(2) * self.weight if x.sum() > 0 else x * self.weight

        def changes_buffer(self, x):
            if x.sum() > 0:
                self.large += 1
            return x * self.weight

        for function in (changes_input, changes_buffer):
            stage = Stage(Lambda(function, weight=vector(), buffers={"large": torch.zeros(1 << 15)}), number=5)
            stage.forward(0, -torch.ones(4, 8), keep=False)
            with self.assertRaisesRegex(StageError, "stage 5: its module changes .*, which it did not do in the first"):
                stage.forward(1, torch.ones(4, 8), keep=False)

    def test_backward_inside(self):
        """A module that runs a backward of its own needs its tensors."""

        def energy(self, x):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                return torch.autograd.grad((self.inner(x) ** 2).sum(), x, create_graph=True)[0]

        stage = Stage(Lambda(energy, inner=nn.Linear(8, 8)))
        stage.forward(0, vector(4, 8))
        with self.assertRaisesRegex(RuntimeError, "no backward in it"):
            stage.forward(1, vector(4, 8), keep=False)


class Errors(unittest.TestCase):
    def refused(self, text, call, *arguments, **options):
        with self.assertRaises(StageError) as caught:
            call(*arguments, **options)
        self.assertIn(text, str(caught.exception))

    def test_outputs(self):
        x = vector(4, 8)
        for output, text in ((lambda self, x: {"a": (x, 1)}, "stage 2: its module gives an int as part ['a'][1]: expected a tensor, or"),
                             (lambda self, x: None, "stage 2: its module gives None without a tensor in it: expected a tensor, or"),
                             (lambda self, x: "x", "stage 2: its module gives a str: expected a tensor, or a tree")):
            stage = Stage(Lambda(output), number=2)
            self.refused(text, stage.forward, 0, x)
        stage = Stage(nn.Linear(8, 8), number=2, loss=lambda output, target: output)
        self.refused("stage 2: its loss is a tensor of shape (4, 8), not a scalar", stage.forward, 0, x)
        stage = Stage(nn.Linear(8, 8), number=2, loss=lambda output, target: 1.0)
        self.refused("stage 2: its loss is a float, not a scalar", stage.forward, 0, x)

    def test_gradients(self):
        for name in ("backward", "backward_input"):
            stage = Stage(nn.Linear(8, 8), number=2)
            stage.forward(0, vector(4, 8))
            self.refused("stage 2: backward got None: its output's gradient has shape (4, 8)", getattr(stage, name), 0)
            stage.forward(1, vector(4, 8))
            self.refused("got a tensor of shape (8, 4)", getattr(stage, name), 1, vector(8, 4))

    def test_calls_out_of_order(self):
        stage = Stage(nn.Linear(8, 8), number=2)
        gradient = vector(4, 8)
        self.refused("stage 2: B of microbatch 0, which is not forwarded: F", stage.backward_input, 0, gradient)
        self.refused("R of microbatch 0, which is not forwarded: F with keep=False comes before", stage.recompute, 0)
        stage.forward(0, vector(4, 8))
        self.refused("stage 2: microbatch 0 is forwarded again", stage.forward, 0, vector(4, 8))
        self.refused("W of microbatch 0, which is forwarded: B comes before", stage.backward_weight, 0)
        self.refused("R of microbatch 0, which is forwarded", stage.recompute, 0)
        stage.backward_input(0, gradient)
        self.refused("B of microbatch 0, which is backwarded", stage.backward_input, 0, gradient)
        self.refused("BW of microbatch 0, which is backwarded", stage.backward, 0, gradient)
        stage.backward_weight(0)
        self.refused("W of microbatch 0, which is not forwarded", stage.backward_weight, 0)
        stage.forward(0, vector(4, 8), keep=False)
        self.refused("B of microbatch 0, which is forgotten: F with keep=True, or R, comes before",
                     stage.backward_input, 0, gradient)

    def test_errors_of_modules(self):
        """They come out as they are, with their own lines, and the stage goes on."""

        def fails(self, x):
            if x.sum() > 0:
                raise ValueError("no")
            return x * self.weight

        stage = Stage(Lambda(fails, weight=vector()))
        state = torch.get_rng_state()
        for keep in (True, False):
            try:
                stage.forward(0, torch.ones(4, 8), keep=keep)
                self.fail("nothing was raised")
            except ValueError as error:
                self.assertEqual(traceback.extract_tb(error.__traceback__)[-1].name, "fails")
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        stage.forward(0, -torch.ones(4, 8))
        stage.backward(0, torch.ones(4, 8))

    def test_saved_tensors_changed_in_place(self):
        """PyTorch's own check, and that of the boxes."""
        for make in (linears, lambda: nn.Sequential(linears(), nn.BatchNorm1d(8))):
            module = make()
            stage = Stage(module)
            for microbatch in range(3):
                stage.forward(microbatch, vector(4, 8))
                if microbatch == 2:
                    with torch.no_grad():
                        next(each for each in module.modules() if isinstance(each, nn.Linear)).weight.mul_(2)
                    self.assertRaisesRegex(RuntimeError, "in.?place", stage.backward_input, microbatch, vector(4, 8))
                else:
                    stage.backward_input(microbatch, vector(4, 8))
                    stage.backward_weight(microbatch)


    def test_kept_tensors_changed_in_place(self):
        module = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8))
        stage = Stage(module)
        stage.forward(0, vector(4, 8))
        stage.backward_input(0, vector(4, 8))
        with torch.no_grad():
            module[0].weight.mul_(2)
        self.assertRaisesRegex(RuntimeError, "changed in place since B", stage.backward_weight, 0)


class Random(unittest.TestCase):
    def test_hash(self):
        # The first numbers of splitmix64 from 0.
        self.assertEqual(hashed(0, 0, 0, 0) >> 64, 0)
        found = {hashed(*numbers) for numbers in [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1),
                                                  (1, 1, 0, 0), (-1, 0, 0, 0), (2**63, 1, 1, 1)]}
        self.assertEqual(len(found), 8)
        self.assertEqual(_mix(0), 0xE220A8397B1DCDAF)

    def test_reseed(self):
        numbers = []
        for _ in range(2):
            reseed(1, 2, 3, 4)
            numbers.append(torch.rand(4))
        self.assertTrue(torch.equal(*numbers))
        reseed(1, 2, 3, 5)
        self.assertFalse(torch.equal(numbers[0], torch.rand(4)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
