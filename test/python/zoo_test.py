"""Models of many kinds train to the bit as in one process, under fused and split backwards and recomputed, or are refused with the
way out. Small ones of our own; with PIPEC_SOAK=1 those of transformers too, where that is installed."""
import importlib.util
import re
import unittest

import torch
import zoo
from runs import SOAK, RunsTest

SCHEDULES = {"fused": "schedule: 1f1b\n", "split": "schedule: zb-h1\n", "recomputed": "schedule: 1f1b\nrecompute: all\n"}
SPEC = """\
pipec: 1
pipeline: {ranks: 2, microbatches: MICROBATCHES, cut: [2, 2]}
layers:
- {forward: 2ms, backward_input: 2ms, backward_weight: 2ms, activation: 1MiB, weight_context: 512KiB, count: 4}
tensors: {boundary: BOUNDARYB}
"""
# What is refused: (model, schedule, or None for all): the message, with its way out.
REFUSED = {
    ("gpt, tied", None): r"stage 0 layer 0's weight \(rank 0\) and stage 1 layer 3's weight \(rank 1\) are one parameter: .*pipeline.cut",
    ("transformers' gpt-2, tied", None): r"stage 0 layer 0's words.weight \(rank 0\) and stage 1 layer 3's 1.weight \(rank 1\) are one",
    ("transformers' t5", None): r"stage 0 layer 0's weight \(rank 0\) and stage 1 layer \d's .*weight \(rank 1\) are one parameter",
    ("lstm, carried", "recomputed"): r"R gives another output than F .* [01] \(Carries\) keeps a tensor in its attribute 'state'. .*buffers",
}


class ZooTest(RunsTest):
    program, forks = "zoo.py", False  # a process group has threads

    def check(self, names):
        cases = []
        for name in names:
            boundary = self.boundary(name)
            for schedule, keys in SCHEDULES.items():
                text = SPEC.replace("MICROBATCHES", str(zoo.MICROBATCHES)).replace("BOUNDARY", str(boundary)) + keys
                cases.append({"model": name, "schedule": schedule, "plan": self.plan(text)})
        said = self.run_cases(2, cases)
        plain = {}
        for number, case in enumerate(cases):
            name, schedule = case["model"], case["schedule"]
            with self.subTest(f"{name}, {schedule}"):
                errors = [each[number].get("error") for each in said]
                if refused := REFUSED.get((name, None)) or REFUSED.get((name, schedule)):
                    self.assertTrue(all(errors) and any(re.search(refused, error) for error in errors), errors)
                    continue
                self.assertEqual(errors, [None, None])
                if name not in plain:
                    plain[name] = zoo.plain(name, [2, 2])
                digests, losses = plain[name]
                self.assertEqual({**said[0][number]["digests"], **said[1][number]["digests"]}, digests)
                for each in said:
                    for found, right in zip(each[number]["losses"], losses, strict=True):
                        self.assertAlmostEqual(found, right, 5)

    def boundary(self, name):
        """Bytes of what the first stage hands on of a microbatch."""
        layers, _, batch = zoo.made(name)
        value = batch(0)[0][:zoo.ROWS // zoo.MICROBATCHES]
        with torch.no_grad():
            for layer in layers[:2]:
                value = layer(value)
        return value.nbytes

    @classmethod
    def setUpClass(cls):
        zoo.alone()
        cls.addClassCleanup(torch.distributed.destroy_process_group)

    def test_small_models(self):
        self.check(list(zoo.MODELS))

    @unittest.skipUnless(SOAK and importlib.util.find_spec("transformers"), "PIPEC_SOAK=1, and transformers")
    def test_models_of_transformers(self):
        import transformed

        self.check(transformed.MODELS)


if __name__ == "__main__":
    unittest.main()
