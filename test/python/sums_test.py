"""What a step sums over microbatches, replicas and ranks: losses of unequal counts, the norm, whether all is finite."""
import unittest
import warnings

import models
import torch
from runs import ROWS, RunsTest, spec

import pipec
import pipec.torch

STEPS = 4


class SumsTest(RunsTest):
    def case(self, what, text, **more):
        return {"what": what, "plan": self.plan(text), "layers": 2, "steps": STEPS, "rows": ROWS, "seed": 7, **more}

    def replicated(self, what, **more):
        """Two replicas of one rank."""
        layers = "".join(f"- {{forward: 2ms, backward_input: 2ms, backward_weight: 2ms, activation: 1MiB, weight_context: 1MiB, "
                         f"gradients: {8 * sum(p.numel() for p in make().parameters())}B}}\n" for make in models.layers(2))
        text = (f"pipec: 1\npipeline: {{ranks: 1, microbatches: 2, cut: [2]}}\nlayers:\n{layers}tensors: {{boundary: 4096B}}\n"
                "schedule: 1f1b\ncosts: {optimizer: {time: 1ms, global_norm: true}}\n"
                "data_parallel: {degree: 2, link: {latency: 50us, bandwidth: 1GB/s}, collective: all_reduce}\n")
        return {**self.case(what, text), "double": True, **more}

    def plain(self, case, microbatches=4, **options):
        modules = self.modules(case)
        rows = list(models.plain(modules, STEPS, microbatches, ROWS, pipec.torch.reseed, 7, **options))
        return rows, {str(s): [p.detach().flatten().tolist() for p in module.parameters()] for s, module in modules.items()}

    def test_ranks_train_like_one_process(self):
        costs = ", optimizer: {time: 1ms, global_norm: true}"
        fused, split = spec("1f1b", 2, costs=costs), spec("zb-h1", 2, costs=costs)
        cases = [
            (self.case("means of words", fused, sums=True), {"sums": True}),
            (self.case("split", split, sums=True), {"sums": True}),
            (self.case("with the plan's optimizer, clipped", split, sums=True, planned=True, clip=0.05), {"sums": True, "clip": 0.05}),
            (self.case("clipped by the program", fused, sums=True, clips=0.05), {"sums": True, "clip": 0.05}),
            (self.case("clipped by the plan", fused, planned=True, clip=0.05), {"clip": 0.05}),
            (self.case("clipped by the program, split", split, clips=0.05), {"clip": 0.05}),
            (self.case("a scaler, infinite on rank 0", fused, infinite=[0, 1]), {"skips": [1]}),
            (self.case("the loss on the last rank alone", fused, wants="last"), {}),
            (self.replicated("replicas", sums=True), {"sums": True}),
            (self.replicated("replicas, the plan's optimizer, clipped", sums=True, planned=True, clip=0.05), {"sums": True, "clip": 0.05}),
            (self.replicated("replicas, clipped by the program", clips=0.05), {"clip": 0.05}),
        ]
        said = self.run_cases(2, [case for case, _ in cases])
        for number, (case, options) in enumerate(cases):
            with self.subTest(case["what"]):
                self.assertEqual([each[number].get("error") for each in said], [None, None])
                rows, values = self.plain(case, **options)
                for rank, each in enumerate(said):
                    wanted = [] if case.get("wants") == "last" and rank == 0 else [loss for _, loss in rows]
                    self.assertEqual(len(each[number]["losses"]), len(wanted))
                    for found, right in zip(each[number]["losses"], wanted):
                        self.assertAlmostEqual(found, right, 5)
                found = {}
                for each in said:
                    found.update(each[number]["values"] if case.get("double") else each[number]["digests"][-1])
                if not case.get("double"):  # clipping has a norm that one process sums in another order
                    if "clip" not in options:
                        self.assertEqual(found, {str(s): digest for s, digest in rows[-1][0].items()})
                    continue
                for stage, right in values.items():
                    for one, other in zip(found[stage], right):
                        torch.testing.assert_close(torch.tensor(one), torch.tensor(other), rtol=0, atol=1e-6)
        for one, other in ((2, 3), (4, 5)):  # clip and clip_grad_norm_, to the last bit
            self.assertEqual(*([each[number]["digests"][-1] for each in said] for number in (one, other)))

    def trained(self, loss, steps=2, **options):
        """One process; its losses and warnings."""
        torch.manual_seed(1)
        modules = {stage: torch.nn.Linear(4, 4) for stage in range(2)}
        losses = []
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            with pipec.torch.Run(pipec.load(self.plan(spec("interleaved-1f1b", 1, ", stages_per_rank: 2"))), modules, loss=loss,
                                 progress=False, **options) as run:
                for _ in range(steps):
                    losses.append(run.step(torch.ones(8, 4), target=torch.ones(8, 4)).item())
        return losses, [str(each.message) for each in found], modules

    def test_a_loss_that_is_not_finite_is_said_once_with_its_microbatch(self):
        calls = []

        def loss(output, y):
            calls.append(1)
            return output.sum() * (float("nan") if len(calls) in (7, 8, 11) else 1)

        _, said, _ = self.trained(loss, steps=3)
        self.assertEqual([each for each in said if "loss" in each], ["the loss is nan in step 1, microbatch 2"])

    def test_a_microbatch_in_which_nothing_counts_adds_nothing(self):
        losses, _, modules = self.trained(lambda output, y: (output.sum() / 0.0, 0), steps=1)
        self.assertEqual(losses, [0.0])
        for module in modules.values():
            for p in module.parameters():
                self.assertEqual(p.grad.abs().sum(), 0)

    def test_losses_that_cannot_be(self):
        calls = []

        def changes(output, y):
            calls.append(1)
            return (output.sum(), 1) if len(calls) == 2 else output.sum()

        for loss, said in ((lambda output, y: (output.sum(), -1), "the loss gives -1.0: expected a scalar, or .sum, count."),
                           (lambda output, y: (output.sum(), 1, 2), "the loss gives a tuple of 3: expected"),
                           (changes, "the loss of microbatch 1 is .sum, count., that of microbatch 0 is not")):
            with self.assertRaisesRegex(pipec.SpecError, said):
                self.trained(loss)
        with self.assertRaisesRegex(pipec.SpecError, "loss is 'none': expected 'all' or 'last'"):
            with pipec.torch.Run(pipec.load(self.plan(spec("1f1b", 1))), {0: torch.nn.Linear(4, 4)}, loss=lambda output, y: output.sum(),
                                 progress=False) as run:
                run.step(torch.ones(8, 4), target=torch.ones(8, 4), loss="none")


if __name__ == "__main__":
    unittest.main()
