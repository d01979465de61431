"""Evaluations between steps, held against one process's, and training with them, held against training without."""
import unittest

import models
import torch
from runs import ROWS, RunsTest, cut, replicated, spec

import pipec
import pipec.torch

V = ", placement: v"


def evaluation(at, rows=ROWS, **more):
    """Before step `at`."""
    return {"at": at, "rows": rows, **more}


# As many microbatches as a step has, fewer, more, and as many as the caller says; two in one gap.
EVALUATIONS = [evaluation(0), evaluation(1, mode="train"), evaluation(2, 2), evaluation(2, 10, mode="train"),
               evaluation(3, 12, microbatches=12), evaluation(3, 6, outputs=True), evaluation(4)]


class EvaluateTest(RunsTest):
    def case(self, text, layers, steps=4, **more):
        return {"plan": self.plan(text), "layers": layers, "steps": steps, "rows": ROWS, "seed": 7, "evaluations": EVALUATIONS, **more}

    def expected(self, case, each, kept={}):
        """The loss of one process's loop without gradients, or the digests of its outputs."""
        microbatches = pipec.load(case["plan"]).microbatches
        modules = self.modules(case)
        if case.get("dry"):
            models.dry(modules.values())
        for _ in models.plain(modules, each["at"], 4, ROWS, pipec.torch.reseed, case["seed"]):
            pass
        per = ROWS // pipec.load(case["plan"]).degree // microbatches
        count = each.get("microbatches") or each["rows"] // per
        x, target = models.batch(9000, each["rows"])
        losses, outputs = [], []
        with torch.no_grad():
            for m, (value, following) in enumerate(zip(x.chunk(count), target.chunk(count))):
                for stage, module in modules.items():
                    module.train(each.get("mode") == "train")
                    pipec.torch.reseed(case["seed"], -1 - each["at"], stage, m)
                    value = module(value)
                losses.append(models.loss(value, following))
                outputs.append(models.digest_of(value))
        return outputs if each.get("outputs") else torch.stack(losses).mean().item()

    def check(self, cases, world):
        """All ranks say the loss of one process, to the last bit; weights are those of a run that does not evaluate."""
        without = [{**case, "evaluations": []} for case in cases]
        said = self.run_cases(world, cases + without)
        for number, case in enumerate(cases):
            with self.subTest(case["plan"]):
                for each in said:
                    self.assertNotIn("error", each[number])
                    self.assertEqual(each[number]["digests"], each[number + len(cases)]["digests"])
                    self.assertEqual(each[number]["losses"], each[number + len(cases)]["losses"])
                    self.assertEqual([found["held"] for found in each[number]["evaluated"]], [0] * len(case["evaluations"]))
                for n, each in enumerate(case["evaluations"]):
                    found = [rank[number]["evaluated"][n]["found"] for rank in said]
                    expected = self.expected(case, each)
                    if each.get("outputs"):
                        self.assertEqual([value for value in found if value is not None], [expected])
                    else:
                        self.assertEqual(found, [expected] * world)
                self.assertEqual(len(said[0][number]["report"]["evaluations"]), len(case["evaluations"]))

    def test_two_ranks(self):
        variants = "variants:\n  - schedule: 1f1b\n  - schedule: zb-h1\n  - schedule: {name: kfkb, k: 2}\n"
        self.check([self.case(spec("1f1b", 2), 2), self.case(spec("zb-h1", 2), 2),
                    self.case(spec("interleaved-1f1b", 2, ", stages_per_rank: 2"), 4), self.case(spec("v-half", 2, V), 4),
                    self.case(cut("zb-h1", "recompute: all\n"), 5),
                    self.case(spec("1f1b", 2, tail=variants), 2, swaps=[[1, 1], [3, 2]]),
                    self.case(spec("1f1b", 2, costs=", optimizer: 1ms"), 2, planned=True)], 2)

    def test_four_ranks(self):
        self.check([self.case(spec("1f1b", 4), 4, steps=4), self.case(spec("v-half", 4, V), 8, steps=4)], 4)

    def test_a_resumed_run_goes_on_the_same(self):
        case = self.case(spec("zb-h1", 2), 2)
        states = str(self.folder / "states")
        said = self.run_cases(2, [
            {**case, "steps": 2, "checkpoint": states, "every": 1, "evaluations": [evaluation(1), evaluation(2)]},
            {**case, "checkpoint": states, "resume": True, "evaluations": [evaluation(2), evaluation(3, 10)]},
            {**case, "evaluations": []}])
        for first, second, whole in said:
            self.assertEqual(first["digests"] + second["digests"], whole["digests"])
            self.assertEqual(first["evaluated"][1], second["evaluated"][0])

    def replicas(self, policy, ranks, **more):
        return {"plan": self.plan(replicated(policy, ranks, 2, 2)), "layers": 4, "steps": 3, "rows": ROWS, "seed": 7, "dry": True,
                "blind": True, "values": True, "evaluations": [evaluation(1), evaluation(2, 16, mode="train"), evaluation(3)], **more}

    def test_replicas_evaluate_their_rows(self):
        for ranks in (1, 2):
            cases = [self.replicas("policy: none", ranks), self.replicas("policy: {name: dear-queue, bundle: 0B}", ranks, planned=True)]
            said = self.run_cases(2 * ranks, cases + [{**case, "evaluations": []} for case in cases])
            for number, case in enumerate(cases):
                for each in said:
                    self.assertNotIn("error", each[number])
                    self.assertEqual(each[number]["values"], each[number + 2]["values"])
                for n, each in enumerate(case["evaluations"]):
                    found = {rank[number]["evaluated"][n]["found"] for rank in said}
                    self.assertEqual(len(found), 1)
                    self.assertAlmostEqual(found.pop(), self.expected(case, each), 4)

    def test_what_cannot_be_is_refused(self):
        cases = [self.case(spec("1f1b", 2), 2, evaluations=[evaluation(1, 7)]),
                 self.case(spec("1f1b", 2), 2, evaluations=[evaluation(1, 8, microbatches=3)]),
                 self.case(spec("1f1b", 2), 2, evaluations=[evaluation(1, 8, keywords=["mask"])]),
                 self.case(spec("1f1b", 2), 2, evaluations=[evaluation(1, 8, microbatches=2)])]
        for case, says in zip(cases, (r"x has 7 rows, which microbatches of 2 rows, as those of steps, do not divide: pad the batch",
                                      r"x has 8 rows, which 3 microbatches do not divide: pad the batch",
                                      r"no stage takes the keyword mask",
                                      r"stage 0 hands on \(4, 8, 32\) of torch.float32, 4096 bytes a microbatch; the plan has 2048")):
            said = self.run_cases(2, [case])
            self.assertRegex(said[0][0]["error"], says)
            self.assertIn("error", said[1][0])


if __name__ == "__main__":
    unittest.main()
