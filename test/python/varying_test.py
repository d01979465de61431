"""Stages that hand on sequences of other lengths in each step, or in each microbatch, train to the bit as in one process; what may
not vary, or has no room, is refused with the way out."""
import json
import unittest

import torch
import trees
from runs import RunsTest
from trees_test import BOUNDARY, SCHEDULES, spec

from pipec.torch.trees import Layout, Tree, TreeSlot, flatten
from pipec.torch.varying import Pattern

MORE = {  # as SCHEDULES
    **SCHEDULES,
    "swapped": ([2, 2], "", "schedule: 1f1b\nvariants: [{schedule: 1f1b}, {schedule: zb-h1}]\n"),
    "4 ranks, 1f1b": ([1, 1, 1, 1], "", "schedule: 1f1b\n"),
    "4 ranks, zb-h1": ([1, 1, 1, 1], "", "schedule: zb-h1\nrecompute: [1, 2]\n"),
    "replicas": ([2, 2], "", "schedule: 1f1b\ndata_parallel: {degree: 2, link: {latency: 50us, bandwidth: 1GB/s}, policy: none}\n"),
}
TRAINED = ([(name, schedule, "microbatch") for schedule in MORE for name in ("masked", "keyed")[:1 if schedule == "replicas" else 2]] +
           [(name, schedule, "microbatch") for schedule in ("1f1b", "interleaved", "split, recomputed")
            for name in ("encoder, decoder", "routed")] +
           [(name, schedule, "step") for schedule in ("1f1b", "zb-h1") for name in ("masked", "residual")])
TIGHT = 992  # of "masked": 64 bytes for 7 sizes, and 928 of the tree

# What is refused: (model, further of the case, bytes of the boundary and its gradient, what is said, with the way out).
REFUSED = [
    ("masked", {"varies": "step"}, (TIGHT - 1,), r"stage 0 hands on a tree of \[0\] \(2, 6, 16\) of torch.float32 \(768 bytes\), \[1\] "
     r"\(2, 6\) .* \[2\] .*, each at a multiple of 64, behind 64 bytes for their sizes, 992 bytes in microbatch 0; the plan has 991: set "
     "tensors.boundary to 992B"),
    ("masked", {"varies": "microbatch"}, (TIGHT, 256), r"stage 0 gets back the gradients of \[0\] \(2, 5, 16\) of torch.float32 \(640 "
     r"bytes\), each at a multiple of 64, 640 bytes in microbatch 1; the plan has 256: set tensors.boundary_gradient to 640B"),
    ("keyed", {"varies": "microbatch"}, (512,), r"stage 0 hands on \(2, 5, 16\) of torch.float32, behind 64 bytes for their sizes, 704 "
     r"bytes in microbatch 1; the plan has 512: set tensors.boundary to 704B"),
    ("masked", {"varies": "microbatch", "entries": 3}, (BOUNDARY,), "x is a list of 3: expected an entry of each of the step's 4 microbatch"),
    ("keyed", {"varies": "microbatch", "further": {"scale": 2}}, (BOUNDARY,), "the keyword scale .*is a list of 2: expected an entry of each"
     "|the keyword scale has 4 rows on rank 0, x has 8"),
    ("keyed", {"shapes": ["vary", "same"]}, (BOUNDARY,), "shapes is 'same', on rank 0 'vary': pass the same on all ranks"),
    ("keyed", {"shapes": ["free", "free"]}, (BOUNDARY,), "shapes is 'free': expected 'same', 'vary'"),
    ("changes: dtype", {"varies": "step"}, (BOUNDARY,), r"part \['x'\] as \(2, 5\) of torch.float32, before it was \(2, 6\) of torch.int64: "
     ".*sizes alone may vary"),
    ("changes: structure", {"varies": "step"}, (BOUNDARY,), r"the tree dict\(\['y'\]: tensor\), before it was the tree dict\(\['y'\]: tensor, "),
    ("changes: needs", {"varies": "step"}, (BOUNDARY,), r"part \['y'\] as one that needs no gradient, before it was one that needs a gradi"),
    ("changes: tensor", {"varies": "step"}, (BOUNDARY,), r"stage 0 hands on \(2, 5, 16\) of torch.float32, before it was the tree dict\("),
    ("masked", {"varies": "step", "shapes": ["same", "same"]}, (BOUNDARY,), r"part \[0\] as \(2, 5, 16\) of torch.float32, before it was "
     r'\(2, 6, 16\) .*shapes="vary"'),
]


def text_of(schedule):
    cut, more, keys = MORE[schedule]
    text = spec("1f1b", BOUNDARY).replace("[2, 2]", str(cut) + more).replace("schedule: 1f1b\n", keys)
    if schedule == "replicas":
        text = text.replace(f"microbatches: {trees.MICROBATCHES}", "microbatches: 1")
        sizes = [4 * sum(p.numel() for p in layer.parameters()) for layer in trees.made("masked")[0]]
        head, layer = text.split("- ")[0], text.split("- ")[1].split(", count")[0]
        rows = "".join(f"- {layer}, weights: {each}B, gradients: {each}B, optimizer_state: {2 * each}B}}\n" for each in sizes)
        text = f"{head}{rows}tensors:{text.split('tensors:')[1]}"
    return text.replace("ranks: 2", f"ranks: {ranks_of(schedule)}")


def ranks_of(schedule):
    return 4 if schedule.startswith("4 ranks") else 2


class PatternTest(unittest.TestCase):
    def test_a_slot_says_its_sizes(self):
        trees_of = []
        for length in (5, 0, 7):
            structure, tensors = flatten((torch.randn(2, length), torch.ones(()), torch.arange(length)))
            trees_of.append(Tree(structure, tensors, (True, True, False)))
        pattern = Pattern(Layout.of(trees_of[0]))
        numbers, memory = pattern.parted(torch.zeros(512, dtype=torch.uint8))
        self.assertEqual((numbers.numel(), memory.numel()), (3, 512 - 64))
        for tree in trees_of:
            layout = pattern.of(tree)
            TreeSlot(layout, memory).copy_(tree)
            self.assertIs(pattern.layout_of(tuple(numbers.copy_(layout.sizes).tolist())), layout)
            self.assertTrue(all(map(torch.equal, TreeSlot(layout, memory).clone().tensors, tree.tensors)))
            self.assertEqual(layout.gradient_bytes, 64 + 4 if tree.tensors[0].numel() else 4)
        self.assertIsNone(pattern.of(tree.tensors[0]))
        self.assertIsNone(pattern.of(Tree(tree.structure, tree.tensors, (True, False, False))))
        self.assertIsNone(pattern.of(Tree(tree.structure, [tree.tensors[0][0], *tree.tensors[1:]], tree.needs)))

    def test_a_tensor(self):
        pattern = Pattern(Layout.of(torch.ones(3, 4)))
        self.assertEqual([pattern.of(torch.ones(rows, 4)).kinds for rows in (3, 0)], [[(torch.float32, (3, 4))], [(torch.float32, (0, 4))]])
        self.assertIsNone(pattern.of(torch.ones(3, 4, 1)))
        self.assertIsNone(pattern.of(torch.ones(3, 4, dtype=torch.int64)))


class VaryingTest(RunsTest):
    program = "trees.py"

    def test_models_train_to_the_bit_or_are_refused(self):
        cases, worlds = [], {}
        plans = {schedule: self.plan(text_of(schedule)) for schedule in MORE}
        for name, schedule, how in TRAINED:
            case = {"model": name, "plan": plans[schedule], "varies": how, **({"swaps": 1} if schedule == "swapped" else {})}
            worlds.setdefault(4 if schedule == "replicas" else ranks_of(schedule), []).append((case, (name, schedule, how)))
        worlds[2] += [({"model": name, "plan": self.plan(spec("1f1b", *sizes)), **further}, text) for name, further, sizes, text in REFUSED]
        plain = {}
        for world, cases in worlds.items():
            said = zip(*self.run_cases(world, [case for case, _ in cases]), strict=True)
            for (case, expected), each in zip(cases, said, strict=True):
                with self.subTest(json.dumps(case)):
                    if isinstance(expected, str):
                        for found in each:
                            self.assertRegex(found.get("error", "no error"), expected)
                        continue
                    name, schedule, how = expected
                    self.assertEqual([found.get("error") for found in each], [None] * world)
                    key = name, tuple(MORE[schedule][0]), how, 2 if schedule == "replicas" else trees.MICROBATCHES
                    if key not in plain:
                        plain[key] = trees.plain(*key)
                    digests, losses = plain[key]
                    for found in each:
                        self.assertEqual(found["digests"], {stage: digests[stage] for stage in found["digests"]})
                        for one, right in zip(found["losses"], losses, strict=True):
                            self.assertAlmostEqual(one, right, 5)
                    self.assertEqual({stage for found in each for stage in found["digests"]}, set(digests))


if __name__ == "__main__":
    unittest.main()
