"""A weight that layers of several ranks share, trained through plans that say so: to the last bit as in one process that keeps the
gradients of its two uses apart in a step, and adds them in the order of layers."""
import re
import unittest

import models
import torch
from runs import BOUNDARY, ROWS, RunsTest, cut, spec

import pipec
import pipec.torch

BYTES = models.WORDS * models.WIDTH * 4


def shared(last):
    return f"shared: [{{layers: [0, {last}], gradients: {BYTES}B}}]\n"


class SharedTest(RunsTest):
    def case(self, what, text, layers, tail="", steps=6, **more):
        return {"what": what, "plan": self.plan(text + tail + shared(layers - 1)), "layers": layers, "steps": steps, "rows": ROWS,
                "seed": 7, "tied": "modules", **more}

    def plain(self, case):
        """([(digests, loss)] of one process, by step; {stage: values} at the end)."""
        plan = pipec.load(case["plan"])
        layers = models.layers(case["layers"])
        if case["tied"]:
            layers = models.tied(layers, case["tied"])
        stages = {}
        for rank in range(plan.ranks):
            stages.update(pipec.torch.stages(plan, layers, rank))
        stages = {s: stages[s] for s in sorted(stages)}
        steps = list(models.plain(stages, case["steps"], plan.microbatches, ROWS, pipec.torch.reseed, case["seed"],
                                  case.get("clip") or case.get("clips"), tied=models.apart(stages)))
        return steps, {str(s): [p.detach().flatten() for p in module.parameters()] for s, module in stages.items()}

    def check(self, world, cases):
        said, plain = self.run_cases(world, cases), {}
        for number, case in enumerate(cases):
            with self.subTest(case["what"]):
                for each in said:
                    self.assertNotIn("error", each[number])
                plan = pipec.load(case["plan"])
                key = (tuple(plan.cut), plan.stage_count, case["layers"], case["steps"], case["tied"], case.get("clip"), case.get("clips"))
                if key not in plain:
                    plain[key] = self.plain(case)
                first, (steps, values) = case.get("first", 0), plain[key]
                if case.get("values"):  # PyTorch's norm is of float32, the plan's of doubles
                    for each in said:
                        for stage, found in each[number]["values"].items():
                            for value, expected in zip(found, values[stage], strict=True):
                                if len(value) == 3 * models.WIDTH:  # biases of keys, whose gradients are rounding alone
                                    continue
                                torch.testing.assert_close(torch.tensor(value), expected, rtol=0, atol=1e-5)
                    continue
                for step, (digests, loss) in enumerate(steps[first:]):
                    found = {}
                    for each in said:
                        found.update(each[number]["digests"][step])
                    self.assertEqual(found, {str(s): digest for s, digest in digests.items()}, f"step {first + step}")
                losses = [loss for each in said for loss in each[number]["losses"]]
                for (_, loss), measured in zip(steps[first:], losses):
                    self.assertAlmostEqual(loss, measured, 5)

    def test_two_ranks(self):
        optimizer, norm = ", optimizer: 1ms", ", optimizer: {time: 1ms, global_norm: true}"
        variants = "variants:\n  - schedule: 1f1b\n  - schedule: zb-h1\n  - schedule: {name: kfkb, k: 2}\n"
        two = ", stages_per_rank: 2"
        self.check(2, [
            self.case("1f1b", spec("1f1b", 2), 2),
            self.case("split", spec("zb-h1", 2), 2),
            self.case("interleaved", spec("interleaved-1f1b", 2, two), 4),
            self.case("both on one rank", spec("v-half", 2, ", placement: v"), 4),
            self.case("recomputed", spec("1f1b", 2), 2, "recompute: all\n"),
            self.case("several layers a stage", cut("zb-h1"), 5),
            self.case("swaps", spec("1f1b", 2), 2, variants, swaps=[[1, 1], [3, 2], [4, 0]]),
            self.case("the plan's optimizer", spec("interleaved-1f1b", 2, two, costs=optimizer), 4, planned=True),
            self.case("clipped", spec("zb-h1", 2, costs=norm), 2, planned=True, clip=0.05, values=True),
            self.case("clipped, interleaved", spec("interleaved-1f1b", 2, two, costs=norm), 4, planned=True, clip=0.05,
                      values=True),
            self.case("clipped by the program", spec("1f1b", 2), 2, clips=0.05, values=True),
            self.case("copies that begin apart", spec("1f1b", 2), 2, tied=None),
        ])

    def test_four_ranks(self):
        self.check(4, [self.case(name, spec(name, 4), 4, steps=4) for name in ("1f1b", "zb-h1")])

    def test_a_run_goes_on(self):
        folder = str(self.folder / "states")
        begun = self.case("begun", spec("zb-h1", 2, costs=", optimizer: 1ms"), 2, steps=3, planned=True, checkpoint=folder)
        self.check(2, [begun, {**begun, "what": "resumed", "steps": 6, "resume": True, "first": 3}])

    def replicated(self, policy, norm=False, **more):
        rows = "".join(f"- {{forward: 2ms, backward: 4ms, activation: 1MiB, gradients: {each}B, optimizer: 1ms}}\n"
                       for each in (4 * sum(p.numel() for p in layer().parameters()) for layer in models.layers(4)))
        text = (f"pipec: 1\npipeline: {{ranks: 2, microbatches: 2}}\nlayers:\n{rows}tensors: {{boundary: {BOUNDARY}B}}\nschedule: 1f1b\n"
                f"costs: {{link: {{bandwidth: 1GB/s}}, optimizer: {{time: 1ms, global_norm: {str(norm).lower()}}}}}\n"
                f"data_parallel: {{degree: 2, link: {{latency: 50us, bandwidth: 1GB/s}}, {policy}}}\n")
        return self.case(policy, text, 4, dry=True, values=True, **more)

    def test_replicas(self):
        """The holders' copies on all replicas stay equal to the bit, and near those of one process, which sums in another order."""
        cases = [self.replicated("policy: none"), self.replicated("policy: none", planned=True),
                 self.replicated("policy: wfbp", planned=True), self.replicated("policy: auto", planned=True),
                 self.replicated("collective: decoupled, fusion: none", planned=True),
                 self.replicated("policy: none", norm=True, planned=True, clip=0.05)]
        said = self.run_cases(4, cases)
        for number, case in enumerate(cases):
            with self.subTest(case["what"]):
                for each in said:
                    self.assertNotIn("error", each[number])
                first, last = [[each[number]["values"][stage] for each in said if stage in each[number]["values"]] for stage in "01"]
                for replica in (0, 1):
                    self.assertEqual(first[replica], first[0])
                    self.assertEqual(last[replica], last[0])
                    self.assertEqual(first[replica][0], last[replica][-2])  # the embedding and the head
                stages = {}
                plan = pipec.load(case["plan"])
                layers = models.tied(models.layers(4), "modules")
                for rank in range(plan.ranks):
                    stages.update(pipec.torch.stages(plan, layers, rank))
                tied = models.apart(stages)
                models.dry(stages.values())
                for _ in models.plain(stages, case["steps"], 4, ROWS, pipec.torch.reseed, case["seed"], case.get("clip"), tied=tied):
                    pass
                torch.testing.assert_close(torch.tensor(first[0][0]), tied[0][0].detach().flatten(), rtol=0, atol=1e-5)

    def test_what_is_refused(self):
        text = spec("1f1b", 2)
        other = f"shared: [{{layers: [0, 1], gradients: {BYTES + 4}B}}]\n"
        cases = [
            ({**self.case("not said", text, 2), "plan": self.plan(text)},
             r"are one parameter: .*shared: \[\{layers: \[0, 1\], gradients: 8192B\}\]"),
            ({**self.case("other bytes", text, 2), "plan": self.plan(text + other)}, r"layer \d .* has no parameter of 8196 bytes"),
        ]
        said = self.run_cases(2, [case for case, _ in cases])
        for number, (case, message) in enumerate(cases):
            with self.subTest(case["what"]):
                self.assertTrue(all("error" in each[number] for each in said), said)
                self.assertTrue(any(re.search(message, each[number]["error"]) for each in said), said)


if __name__ == "__main__":
    unittest.main()
