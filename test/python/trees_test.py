"""Stages that hand on trees of tensors train to the bit as in one process, under all kinds of backwards and placements."""
import unittest

import trees
from runs import RunsTest

SCHEDULES = {  # name: (cut, keys of the pipeline, keys of the spec)
    "1f1b": ([2, 2], "", "schedule: 1f1b\n"),
    "zb-h1": ([2, 2], "", "schedule: zb-h1\n"),
    "recomputed": ([2, 2], "", "schedule: 1f1b\nrecompute: all\n"),
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


def spec(schedule, boundary=BOUNDARY):
    cut, more, keys = SCHEDULES[schedule]
    for name, value in (("MICROBATCHES", trees.MICROBATCHES), ("CUT", cut), ("MORE", more), ("BOUNDARY", boundary)):
        keys, text = keys, (text if name != "MICROBATCHES" else SPEC).replace(name, str(value))
    return text + keys


class TreesTest(RunsTest):
    program = "trees.py"

    def test_training(self):
        cases = [{"model": name, "schedule": schedule, "plan": plan} for schedule in SCHEDULES
                 for plan in [self.plan(spec(schedule))] for name in trees.MODELS]
        said = self.run_cases(2, cases)
        plain = {}
        for number, case in enumerate(cases):
            with self.subTest(f"{case['model']}, {case['schedule']}"):
                self.assertEqual([each[number].get("error") for each in said], [None, None])
                key = case["model"], tuple(SCHEDULES[case["schedule"]][0])
                if key not in plain:
                    plain[key] = trees.plain(*key)
                digests, losses = plain[key]
                self.assertEqual({**said[0][number]["digests"], **said[1][number]["digests"]}, digests)
                for each in said:
                    for found, right in zip(each[number]["losses"], losses, strict=True):
                        self.assertAlmostEqual(found, right, 5)


if __name__ == "__main__":
    unittest.main()
