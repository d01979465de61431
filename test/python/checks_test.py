"""What a run compares: R's output with F's, the two ends' batches, the ranks' parameters; and calls of step that would train
wrong."""
import re
import unittest
import warnings

import torch
from runs import FolderTest, ROWS, RunsTest, spec

import pipec
import pipec.torch

WIDTH = 4
RECOMPUTED = spec("interleaved-1f1b", 1, ", stages_per_rank: 2", tail="recompute: all\n")


class Carried(torch.nn.Module):
    """A recurrent layer whose state goes from one microbatch to the next, from step `since` on."""

    def __init__(self, in_buffer=False, since=0):
        super().__init__()
        self.cell, self.calls, self.since = torch.nn.RNNCell(WIDTH, WIDTH), 0, since
        if in_buffer:
            self.register_buffer("state", torch.zeros(2, WIDTH))
        else:
            self.state = torch.zeros(2, WIDTH)

    def forward(self, x):
        self.calls += 1
        x = self.cell(x, self.state)
        if self.calls > 8 * self.since:  # F and R of four microbatches
            self.state = x.detach()
        return x


def train(plan, modules, steps=1, swap=None, **options):
    """Gives the losses."""
    losses = []
    with pipec.torch.Run(plan, modules, loss=lambda output, y: (output - y).square().mean(), progress=False, **options) as run:
        for step in range(steps):
            if swap == step:
                run.swap(1)
            torch.manual_seed(step)
            losses.append(run.step(torch.randn(8, WIDTH), target=torch.randn(8, WIDTH)))
    return losses


class AloneTest(FolderTest):
    """Of one process."""

    def plan(self, text):
        path = self.folder / "spec.yaml"
        path.write_text(text, encoding="utf-8")
        return pipec.compile(path)

    def stages(self, **options):
        torch.manual_seed(1)
        return {0: torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH)), 1: torch.nn.Sequential(Carried(**options))}


class CheckTest(AloneTest):
    def test_state_that_recomputing_does_not_find_is_refused(self):
        plan = self.plan(RECOMPUTED)
        said = (r"stage 1: R gives another output than F of microbatch \d in step 0: 0 \(Carried\) keeps a tensor in its attribute "
                r"'state'. Keep .* in buffers")
        for check in ("first", "always"):
            with self.assertRaisesRegex(pipec.Error, said):
                train(plan, self.stages(), check=check)
        train(plan, self.stages(), check="never")

    def test_state_in_a_buffer_is_found(self):
        recomputed, kept = self.stages(in_buffer=True), self.stages(in_buffer=True)
        train(self.plan(RECOMPUTED), recomputed, check="always")
        train(self.plan(RECOMPUTED.replace("recompute: all\n", "")), kept)
        for stage in (0, 1):
            for found, right in zip(recomputed[stage].parameters(), kept[stage].parameters()):
                torch.testing.assert_close(found.grad, right.grad, rtol=0, atol=0)

    def test_a_split_first_stage_and_a_state_without_a_name(self):
        drawn = iter(range(100))

        class Counts(torch.nn.Module):
            def forward(self, x):
                return x * next(drawn)

        modules = {0: torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), Counts()), 1: torch.nn.Linear(WIDTH, WIDTH)}
        with self.assertRaisesRegex(pipec.Error, r"stage 0: R gives another output .* its module \(Sequential\) depends on what"):
            train(self.plan(spec("zb-v", 1, ", placement: v", tail="recompute: all\n")), modules)

    def test_when_it_is_compared(self):
        plan = self.plan(RECOMPUTED + "variants:\n- schedule: interleaved-1f1b\n- schedule: looped-bfs\n")
        train(plan, self.stages(since=3), steps=6)
        for options, step in (({"check": "always"}, 3), ({"swap": 4}, 4)):
            with self.assertRaisesRegex(pipec.Error, f"stage 1: R gives another output than F of microbatch . in step {step}"):
                train(plan, self.stages(since=3), steps=9, **options)
        with self.assertRaisesRegex(pipec.SpecError, "check is 'sometimes': expected 'always', 'first', 'never'"):
            train(plan, self.stages(), check="sometimes")

    def test_a_step_without_gradients_is_refused(self):
        for block in (torch.no_grad, torch.inference_mode):
            with self.assertRaisesRegex(pipec.SpecError, r"step trains, and gradients are off \(torch.no_grad or"):
                with block():
                    train(self.plan(RECOMPUTED), self.stages(in_buffer=True))

    def test_a_module_in_eval_mode_is_warned_of_once(self):
        def warned(modules):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                train(self.plan(RECOMPUTED), modules, steps=3)
            return [str(each.message) for each in found if "eval()" in str(each.message)]

        plain, mixed = self.stages(in_buffer=True), self.stages(in_buffer=True)
        mixed[1] = torch.nn.Sequential(torch.nn.BatchNorm1d(WIDTH).eval(), torch.nn.Linear(WIDTH, WIDTH))
        self.assertEqual(warned(plain) + warned(mixed), [])
        plain[1].eval()
        self.assertRegex("\n".join(warned(plain)), r"\Astage 1 is trained in eval\(\) mode, .*\Z")


class BatchTest(AloneTest):
    def test_a_batch_that_cannot_be_cut(self):
        with self.assertRaisesRegex(pipec.SpecError, r"x has shape \(7, 4\): .*leave a loader's last batch out .* \(drop_last=True\)"):
            with pipec.torch.Run(self.plan(RECOMPUTED), self.stages(in_buffer=True), loss=lambda output, y: output.sum(),
                                 progress=False) as run:
                run.step(torch.zeros(7, WIDTH), target=torch.zeros(7, WIDTH))


class RanksTest(RunsTest):
    """Of two processes."""

    def case(self, what, text=None, steps=2, layers=2, **more):
        return {"what": what, "plan": self.plan(text or spec("1f1b", 2)), "layers": layers, "steps": steps, "rows": ROWS, "seed": 7,
                "check": "first", **more}

    def test_what_would_train_wrong_is_refused(self):
        v, swaps = spec("zb-v", 2, ", placement: v"), spec("1f1b", 2, tail="variants:\n- schedule: 1f1b\n- schedule: zb-h1\n")
        head = r"stage 0 layer 0's weight \(rank 0\) and stage 1 layer 1's 1.weight \(rank 1\) are one parameter: .* \(pipeline.cut\)"
        cases = [
            (self.case("a tied head", tied="modules"), head),
            (self.case("a tied head, modules by hand", tied="by hand"),
             r"stage 0 0.weight \(rank 0\) and stage 1 0.1.weight \(rank 1\) are one parameter"),
            (self.case("one that is frozen", tied="frozen"), None),
            (self.case("batches of two seeds", strays=[1, 0]),
             "x of step 0 differs between rank 0 and rank 1: .* Draw the same batches on all ranks"),
            (self.case("from the second step on", strays=[0, 1]), "x of step 1 differs between rank 0 and rank 1"),
            (self.case("later", strays=[0, 3], steps=5), None),
            (self.case("later, always", strays=[0, 3], steps=5, check="always"), "x of step 3 differs"),
            (self.case("behind a swap", swaps, strays=[0, 3], steps=9, swaps=[[3, 1]]), "x of step [34] differs"),
            (self.case("never", strays=[1, 0], check="never"), None),
            (self.case("each sees its own", sees_its_own=True), None),
            (self.case("numbers of batches", sees_its_own=True, ids=[4, 5]), r"batch_id of step 0 differs .* \(4 and 5\)"),
            (self.case("equal numbers", sees_its_own=True, ids=[4, 4]), None),
            (self.case("both ends on one rank", v, layers=4, strays=[1, 0]), None),
            (self.case("a last batch that is smaller", shrinks=True), r"x has 4 rows, that of the first step had 8: .*\(drop_last=True\)"),
            (self.case("ranks that compare at other times", checks=["first", "never"]),
             "check is 'never', on rank 0 'first': pass the same on all ranks"),
        ]
        said = self.run_cases(2, [case for case, _ in cases])
        for number, (case, message) in enumerate(cases):
            with self.subTest(case["what"]):
                errors = [each[number].get("error") for each in said]
                if message is None:
                    self.assertEqual(errors, [None, None])
                else:
                    self.assertNotIn(None, errors)
                    self.assertTrue(any(re.search(message, error) for error in errors), errors)


if __name__ == "__main__":
    unittest.main()
