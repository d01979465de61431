"""Layers of a recorded model train on sequences of other lengths in each step, or in each microbatch, to the bit as one process does;
what they cannot is refused with the way out."""
import functools
import importlib.util
import unittest

import lengths
import torch
import whole
from runs import SOAK, RunsTest
from torch import nn

import pipec
import pipec.torch

SCHEDULES = ["1f1b", "zb-h1"]
MODELS = [name for name in ("gpt-2", "llama", "bert", *("qwen", "lora") * SOAK) if name in whole.MODELS]


class Between(nn.Module):
    """Blocks, between which `does` is done with the length of the input."""

    def __init__(self, does):
        super().__init__()
        self.blocks, self.does = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), does

    def forward(self, x, mask=None):
        length = x.shape[1]
        for block in self.blocks:
            x = self.does(block(x), length)
        return x if mask is None else x * mask


class RecordedTest(unittest.TestCase):
    def layers(self, does, *lengths, **keywords):
        return pipec.torch.layers(Between(does), example=[torch.ones(2, length, 4) for length in lengths], shapes="vary", **keywords)

    def played(self, layers, x, **keywords):
        for layer in layers:
            x = layer(x, **{name: keywords[name] for name in layer.keywords})
        return x

    def test_numbers_that_are_sizes(self):
        def does(x, length):
            rows = torch.arange(length).view(1, length, 1)
            return (x + rows)[:, :length].reshape(torch.Size([2, length * 1, 4]))
        model = Between(does)
        layers = pipec.torch.layers(model, example=[torch.ones(2, length, 4) for length in (3, 9)], shapes="vary")
        for length in (3, 5, 9, 4):
            x = torch.randn(2, length, 4)
            self.assertTrue(torch.equal(self.played(layers, x), model(x)))

    def test_what_is_no_size_is_refused(self):
        for does, message in (
                (lambda x, length: x * length ** 0.5, r"the function .*mul.* is given .*1\.7.* and .*, and sizes of tensors alone may differ; pass "),
                (lambda x, length: x + torch.arange(3 * length).sum(), r"layer 0 of the Between \(blocks.0\) cannot be played back for sizes that "
                 "vary: the function arange is given the number 9 or 15.*; pass pipec.torch.layers a list of modules instead"),
                (lambda x, length: x + 1 if length > 4 else x, r"on the examples, .*\(2, 3, 4\).* and .*\(2, 5, 4\).*, it makes another number"
                 " of calls, .*a list of modules")):
            with self.assertRaisesRegex(pipec.SpecError, message):
                self.layers(does, 3, 5)

    def test_microbatches_that_are_no_examples(self):
        layers = self.layers(lambda x, _: x + 1, 3, 5, mask=[torch.ones(2, length, 1) for length in (3, 5)])
        with self.assertRaisesRegex(pipec.SpecError, r"the input of a microbatch is \(2, 6, 4\) of torch.float32, and was \(2, 3 or 5, 4\) of "
                                                     r"torch.float32 when the Between was recorded; 6 is not between the examples' 3 and 5: .*"
                                                     r'example=\[…, …\], shapes="vary"'):
            layers[0](torch.ones(2, 6, 4))
        with self.assertRaisesRegex(pipec.SpecError, r"part 0 of what layer 1 \(blocks.1\) takes of a microbatch is \(3, 4, 4\)"):
            layers[1](torch.ones(3, 4, 4))
        with self.assertRaisesRegex(pipec.SpecError, r"the keyword mask of a microbatch is \(2, 4, 1\) .*; 4 was in all examples the same size "
                                                     r"\(3 or 5\) as what is 5 in this microbatch"):
            self.played(layers, torch.ones(2, 5, 4), mask=torch.ones(2, 4, 1))
        for given, message in ((torch.ones(2, 3, 4), "example is a Tensor: .*expected a list of microbatches"),
                               ([torch.ones(2, 3, 4)] * 2, "all microbatches in example are of one size: ")):
            with self.assertRaisesRegex(pipec.SpecError, message):
                pipec.torch.layers(Between(lambda x, _: x), example=given, shapes="vary")
        with self.assertRaisesRegex(pipec.SpecError, "shapes is 'free': expected 'same', 'vary'"):
            pipec.torch.layers(Between(lambda x, _: x), example=torch.ones(2, 3, 4), shapes="free")


@unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers")
class LengthsTest(RunsTest):
    program, forks = "lengths.py", False  # PyTorch starts threads where plans are made

    def planned(self, name, schedule):
        model, loss, batch, keywords = whole.made(name)
        x, target, given = lengths.examples(batch, keywords)
        plan = pipec.torch.plan(pipec.torch.layers(model), example=x, ranks=2, microbatches=lengths.MICROBATCHES, schedule=schedule,
                                keywords=given, target=target, loss=loss, shapes="vary")
        path = self.folder / f"{name}-{schedule}.pipe"
        plan.save(path)
        return str(path)

    def test_models_train_to_the_bit(self):
        cases = [{"model": name, "schedule": schedule, "plan": self.planned(name, schedule), "varies": how}
                 for name in MODELS for schedule, how in zip(SCHEDULES, ("microbatch", "step"))]
        refused = {**cases[0], "shapes": "same"}
        said = self.run_cases(2, [*cases, refused])
        plain = functools.cache(lengths.plain)
        for number, case in enumerate(cases):
            with self.subTest(f"{case['model']}, {case['schedule']}, {case['varies']}"):
                self.assertEqual([each[number].get("error") for each in said], [None] * 2)
                weights, losses = plain(case["model"])[case["varies"]]
                found = {key: digest for each in said for key, digest in each[number]["weights"].items()}
                self.assertEqual([key for key, digest in found.items() if digest != weights[key]], [])
                self.assertEqual(found.keys(), weights.keys())
                for each in said:
                    for one, other in zip(each[number]["losses"], losses, strict=True):
                        self.assertAlmostEqual(one, other, 5)
        for each in said:
            self.assertRegex(each[-1]["error"], r"the input of a microbatch is \(2, .\) .* and was \(2, 6\) .*record it with microbatches as the "
                             r'run\'s are .*where their sizes vary, with the shortest and the longest one \(example=\[…, …\], shapes="vary"\)')


if __name__ == "__main__":
    unittest.main()
