"""Stages that hand on trees of tensors, and take keywords, train to the bit as in one process, under all kinds of backwards and
placements; what cannot be is refused with the way out."""
import collections
import json
import unittest

import torch
import trees
from runs import RunsTest
from torch import nn

import pipec
from pipec.torch import keywords
from pipec.torch.split import Stage
from pipec.torch.trees import GradientSlot, Layout, Tree, TreeSlot, flatten, unflatten

SCHEDULES = {  # name: (cut, keys of the pipeline, keys of the spec)
    "1f1b": ([2, 2], "", "schedule: 1f1b\n"),
    "zb-h1": ([2, 2], "", "schedule: zb-h1\n"),
    "recomputed": ([2, 2], "", "schedule: 1f1b\nrecompute: all\n"),
    "split, recomputed": ([1, 1, 1, 1], ", placement: v", "schedule: zb-v\nrecompute: all\n"),
    "interleaved": ([1, 1, 1, 1], ", stages_per_rank: 2", "schedule: interleaved-1f1b\n"),
    "zb-v": ([1, 1, 1, 1], ", placement: v", "schedule: zb-v\n"),
    "v-half": ([1, 1, 1, 1], ", placement: v", "schedule: v-half\n"),
}
SPEC = """\
pipec: 1
pipeline: {ranks: 2, microbatches: MICROBATCHES, cut: CUTMORE}
layers:
- {forward: 2ms, backward_input: 2ms, backward_weight: 2ms, activation: 1MiB, weight_context: 512KiB, count: 4}
tensors: {boundary: BOUNDARYB}
"""
BOUNDARY = 4096  # more than any tree here has
GRADIENTS = {"masked": 768, "frozen": 0}  # bytes of those that travel


def spec(schedule, boundary=BOUNDARY, gradient=None):
    cut, more, keys = SCHEDULES[schedule]
    if gradient is not None:
        boundary = f"{boundary}B, boundary_gradient: {gradient}"
    for name, value in (("MICROBATCHES", trees.MICROBATCHES), ("CUT", cut), ("MORE", more), ("BOUNDARY", boundary)):
        keys, text = keys, (text if name != "MICROBATCHES" else SPEC).replace(name, str(value))
    return text + keys


class Parts(nn.Module):
    """Of (a, b, whole numbers): a alone goes through weights, b is handed on and used, one sum is not used later."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        a, b, number = x
        return {"a": self.other(self.one(a).tanh() + b), "b": b, "sum": (a + b).sum(), "number": number}


Pair = collections.namedtuple("Pair", "first second")


class LayoutTest(unittest.TestCase):
    """What one rank tells the next."""

    def test_all_kinds_of_nodes_go_as_a_text(self):
        a, b = torch.ones(2, 3), torch.arange(5)
        for value in ((a, b), [a], {"a": a, 1: b}, (a, [None, {"b": (b,)}], a), Pair(a, None), trees.States(a, b),
                      collections.OrderedDict(b=b, a=a), Pair({"x": trees.States(a, b, a)}, [b]), torch.max(a, 1)):
            with self.subTest(type(value)):
                structure, tensors = flatten(value)
                layout = Layout.of(Tree(structure, tensors, tuple(each.is_floating_point() for each in tensors)))
                heard = Layout.heard(json.loads(json.dumps(layout.told())))
                self.assertIsNone(layout.difference(heard))
                self.assertEqual((heard.bytes, heard.begins), (layout.bytes, layout.begins))
                made = unflatten(heard.structure, tensors)
                self.assertIs(type(made), type(value))
                self.assertEqual(flatten(made)[0], structure)
                self.assertTrue(all(one is other for one, other in zip(flatten(made)[1], tensors, strict=True)))

    def test_parts_begin_at_multiples_of_64_bytes(self):
        structure, tensors = flatten((torch.ones(17), torch.ones((), dtype=torch.bool), torch.ones(0), torch.ones(3, dtype=torch.int64)))
        layout = Layout.of(Tree(structure, tensors, (True, False, True, False)))
        self.assertEqual((layout.begins, layout.bytes), ([0, 128, 192, 192], 192 + 24))
        slot, tree = TreeSlot(layout, torch.zeros(216, dtype=torch.uint8)), Tree(structure, tensors, layout.needs)
        slot.copy_(tree)
        self.assertTrue(all(map(torch.equal, slot.clone().tensors, tensors)))
        self.assertEqual(layout.gradient_bytes, 128)
        slot = GradientSlot(layout, torch.ones(128, dtype=torch.uint8))
        slot.copy_([torch.full((17,), 2.0), None])
        self.assertEqual([each.tolist() for each in slot.clone()], [[2.0] * 17, []])


class StageTest(unittest.TestCase):
    """One stage, whose input and output are trees."""

    def setUp(self):
        torch.manual_seed(0)
        self.module = Parts()
        self.tensors = [torch.randn(4, 8), torch.randn(4, 8), torch.arange(4)]
        self.gradients = [torch.randn(4, 8), torch.randn(4, 8), None]
        a, b = (each.clone().requires_grad_() for each in self.tensors[:2])
        found = self.module((a, b, self.tensors[2]))
        torch.autograd.backward([found["a"], found["b"]], self.gradients[:2])
        self.expected = [a.grad, b.grad]
        self.weights = [p.grad for p in self.module.parameters()]
        self.module.zero_grad()

    def stage(self, **options):
        stage = Stage(self.module, number=1, **options)
        stage.forward(0, self.x())
        return stage

    def x(self):
        structure, tensors = flatten(tuple(self.tensors))
        return Tree(structure, tensors, (True, True, False))

    def same(self, found, expected):
        for one, other in zip(found, expected, strict=True):
            self.assertTrue(torch.equal(one, other))

    def test_B_leaves_the_weights_to_W(self):
        for microbatch in range(2):  # one that learns, one that has learned
            stage = self.stage() if microbatch == 0 else stage
            if microbatch:
                stage.forward(0, self.x())
            self.same(stage.backward_input(0, [*self.gradients]), self.expected)
            self.assertTrue(all(p.grad is None for p in self.module.parameters()))
            if microbatch:
                self.assertEqual(stage.held(), 4 * 4 * 8 * 4)  # what the two linears took, and the gradients of what they gave
            stage.backward_weight(0)
            self.same([p.grad for p in self.module.parameters()], self.weights)
            self.assertEqual(stage.held(), 0)
            self.module.zero_grad()

    def test_in_one(self):
        stage = self.stage(split=False)
        self.same(stage.backward(0, [*self.gradients]), self.expected)
        self.same([p.grad for p in self.module.parameters()], self.weights)

    def test_computed_again(self):
        stage = Stage(self.module, number=1)
        stage.forward(0, self.x(), keep=False)
        stage.recompute(0)
        self.same(stage.backward(0, [*self.gradients]), self.expected)
        self.same([p.grad for p in self.module.parameters()], self.weights)

    def test_what_is_passed_on_is_not_copied(self):
        stage, x = Stage(self.module, number=1), self.x()
        output = stage.forward(0, x)
        self.assertEqual([each.data_ptr() for each in output.tensors[1::2]], [each.data_ptr() for each in x.tensors[1:]])
        self.assertEqual(output.needs, (True, True, True, False))
        self.assertEqual(stage.backward(0, [None, self.gradients[1], None])[1].data_ptr(), self.gradients[1].data_ptr())
        self.assertTrue(all(p.grad is None for p in self.module.parameters()))

    def test_no_gradient_comes(self):
        for back in ("backward", "backward_input"):
            stage = self.stage()
            self.assertIsNone(getattr(stage, back)(0, [None, None, None]))

    def test_other_gradients_are_refused(self):
        with self.assertRaisesRegex(Exception, "stage 1: backward got 2 gradients: 3 of its output's tensors need one"):
            self.stage().backward(0, self.gradients[:2])
        with self.assertRaisesRegex(Exception, r"stage 1: backward got a tensor of shape \(8,\): its output's gradient has shape \(4, 8\)"):
            self.stage().backward(0, [torch.ones(8), None, None])


class Named(nn.Module):
    def forward(self, x, mask, *, scale=1, **further):
        return x * mask * scale + len(further)


class KeywordsTest(unittest.TestCase):
    """Which a module takes, and how it gets them."""

    def test_a_sequential_takes_those_that_its_layers_name(self):
        chain = nn.Sequential(nn.Identity(), nn.Sequential(Named(), nn.Identity()), Named())
        self.assertEqual(keywords.taken(chain), {"mask": True, "scale": False})
        self.assertEqual(keywords.call(chain, torch.ones(()), {"mask": 3, "scale": 2, "other": 1}).item(), 36)
        chain.register_forward_hook(lambda *_: None)
        with self.assertRaisesRegex(pipec.SpecError, "a Sequential with hooks cannot hand keywords on .*: register the hooks at a layer"):
            keywords.call(chain, torch.ones(()), {"mask": 3})
        self.assertEqual(keywords.call(nn.Sequential(nn.Identity()), 5, {"mask": 3}), 5)

    def test_a_loss_takes_those_behind_output_and_target(self):
        self.assertEqual(keywords.taken_by_loss(trees.keyed_loss), {"counts": True})
        self.assertEqual(keywords.taken_by_loss(nn.MSELoss()), {})
        self.assertEqual(keywords.taken_by_loss(lambda output, target, **_: output), {})

    def test_each_step_has_the_same(self):
        keys = keywords.Keywords(0, {0: Named()}, None, "batches have one size")
        self.assertTrue(keys.check({"mask": torch.ones(4)}, 4))
        self.assertFalse(keys.check({"mask": torch.ones(4)}, 4))
        with self.assertRaisesRegex(pipec.SpecError, r"step got keywords of mask \(2 rows\), in the first step .* mask \(4 rows\): .*size"):
            keys.check({"mask": torch.ones(2)}, 2)
        with self.assertRaisesRegex(pipec.SpecError, r"step got keywords of none, in the first step it was mask \(4 rows\)"):
            keys.check({}, 4)


# What is refused: (model, further of the case, bytes of the plan's boundary, what is said, with the way out).
FIRST = r"\(2, 6, 16\) of torch.float32"
REFUSED = [
    ("keyed", {"further": {"mask": 1}}, BOUNDARY, "no stage takes the keyword mask, nor does the loss .*attention_mask, .*counts"),
    ("keyed", {"lacks": {"1": ["attention_mask"]}}, BOUNDARY, "rank 1 lacks the keyword attention_mask, which stage 1 takes"),
    ("keyed", {"lacks": {"1": ["counts"]}}, BOUNDARY, "rank 1 lacks the keyword counts, which the loss takes"),
    ("keyed", {"lacks": {"0": ["places"]}}, BOUNDARY, "rank 0 lacks the keyword places, which its stages take and rank 1 was given"),
    ("keyed", {"further": {"scale": [4, 1, 1]}}, BOUNDARY, "the keyword scale has 4 rows on rank 0, x has 8: .*expand"),
    ("keyed", {"further": {"scale": [6]}}, BOUNDARY, r"scale has shape \(6,\): its first dimension is not divided by the 4"),
    ("masked", {}, 927, rf"stage 0 hands on a tree of \[0\] {FIRST} \(768 bytes\), \[1\] \(2, 6\) of torch.bool \(12 bytes\), \[2\] "
     r"\(2, 6\) of torch.int64 \(96 bytes\), each at a multiple of 64, 928 bytes .* 927: set tensors.boundary to 928B"),
    ("masked", {}, (928, 767), rf"stage 0 gets back the gradients of \[0\] {FIRST} \(768 bytes\), each at a multiple of 64, 768 bytes a "
     "microbatch; the plan has 767: set tensors.boundary_gradient to 768B"),
    ("keyed", {}, (768, 767), rf"stage 0 gets back the gradient of {FIRST}, 768 bytes .* 767: set tensors.boundary_gradient to 768B"),
    ("keyed", {}, (768, 0), rf"stage 0 gets back the gradient of {FIRST}, 768 bytes .* 0: set tensors.boundary_gradient to 768B"),
    ("changes: shape", {}, BOUNDARY, rf"part \['y'\] as \(2, 5, 16\) of torch.float32, before it was {FIRST}: .*pad .*shapes=\"vary\""),
    ("changes: dtype", {}, BOUNDARY, r"part \['x'\] as \(2, 6\) of torch.float32, before it was \(2, 6\) of torch.int64"),
    ("changes: structure", {}, BOUNDARY, r"the tree dict\(\['y'\]: tensor\), before it was the tree dict\(\['y'\]: tensor, \['x'\]: "),
    ("changes: needs", {}, BOUNDARY, r"part \['y'\] as one that needs no gradient, before it was one that needs a gradient"),
    ("changes: tensor", {}, BOUNDARY, rf"stage 0 hands on {FIRST}, before it was the tree dict\("),
    ("changes: local", {}, BOUNDARY, "stage 0 hands on: a tree has a .*Local of __main__ in it, .*at the top of a module"),
    ("changes: keys", {}, BOUNDARY, r"a dict with \[\(0, 1\), 'x'\] cannot go to another rank: let keys be texts or integers"),
    ("changes: leaf", {}, BOUNDARY, r"stage 0: its module gives an int as part \['x'\]\[1\]: expected a tensor"),
]


class TreesTest(RunsTest):
    program = "trees.py"

    def test_models_train_to_the_bit_or_are_refused(self):
        """In the same two processes."""
        trained = [(name, schedule, plan) for schedule in SCHEDULES
                   for plan in [self.plan(spec(schedule))] for name in trees.MODELS]
        trained += [(name, schedule, self.plan(spec(schedule, gradient=gradient)))
                    for name, gradient in GRADIENTS.items() for schedule in ("1f1b", "zb-h1")]
        cases = [{"model": name, "plan": plan} for name, _, plan in trained]
        cases += [{"model": name, "plan": self.plan(spec("1f1b", *(bytes_ if isinstance(bytes_, tuple) else (bytes_,)))), **further}
                  for name, further, bytes_, _ in REFUSED]
        said = list(zip(*self.run_cases(2, cases), strict=True))
        plain = {}
        for (name, schedule, _), both in zip(trained, said):
            with self.subTest(f"{name}, {schedule}"):
                self.assertEqual([each.get("error") for each in both], [None, None])
                key = name, tuple(SCHEDULES[schedule][0])
                if key not in plain:
                    plain[key] = trees.plain(*key)
                digests, losses = plain[key]
                self.assertEqual({**both[0]["digests"], **both[1]["digests"]}, digests)
                for each in both:
                    for found, right in zip(each["losses"], losses, strict=True):
                        self.assertAlmostEqual(found, right, 5)
        for (name, _, _, text), both in zip(REFUSED, said[len(trained):], strict=True):
            with self.subTest(f"{name}: {text}"):
                for each in both:
                    self.assertRegex(each.get("error", "no error"), text)


if __name__ == "__main__":
    unittest.main()
