"""Training through plans, held against a plain loop in one process: to the last bit."""
import ctypes
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

import models
import torch
from runs import BOUNDARY, HANG, ROWS, SOAK, Program, RunsTest, cut, replicated, spec

import pipec
import pipec.torch
from pipec import _library as lib


class TrainTest(RunsTest):
    def check(self, cases, said):
        """Every weight after every step, and the losses, are the plain loop's."""
        plain = {}
        for number, case in enumerate(cases):
            with self.subTest(case["what"]):
                for each in said:
                    self.assertNotIn("error", each[number])
                    self.assertEqual(each[number]["turned"], [])
                # The plain loop depends on nothing of the schedule but where the stages end.
                plan = pipec.load(case["plan"])
                key = (tuple(plan.cut), plan.microbatches, case["layers"], case["steps"], case.get("clip"))
                if key not in plain:
                    plain[key] = list(models.plain(self.modules(case), case["steps"], plan.microbatches, ROWS,
                                                   pipec.torch.reseed, case.get("seed", 0), case.get("clip")))
                for step, (digests, loss) in enumerate(plain[key]):
                    found = {}
                    for each in said:
                        found.update(each[number]["digests"][step])
                    self.assertEqual(found, {str(s): digest for s, digest in digests.items()}, f"step {step}")
                losses = [loss for each in said for loss in each[number]["losses"]]
                for (_, loss), measured in zip(plain[key], losses):
                    self.assertAlmostEqual(loss, measured, 5)

    def case(self, what, text, layers, steps=20, **more):
        return {"what": what, "plan": self.plan(text), "layers": layers, "steps": steps, "rows": ROWS, "seed": 7, **more}

    def test_two_ranks_train_like_one_process(self):
        v = ", placement: v"
        recomputed = "recompute: all\n"
        variants = "variants:\n  - schedule: 1f1b\n  - schedule: zb-h1\n  - schedule: {name: kfkb, k: 2}\n"
        optimizer = ", optimizer: 1ms"
        cases = [
            self.case("1f1b", spec("1f1b", 2), 2, steps=50),
            self.case("gpipe", spec("gpipe", 2), 2),
            self.case("split", spec("zb-h1", 2), 2, steps=50),
            self.case("kFkB", spec("{name: kfkb, k: 2}", 2), 2),
            self.case("v-half", spec("v-half", 2, v), 4, steps=50),
            self.case("v-min", spec("v-min", 2, v), 4),
            self.case("zb-v", spec("zb-v", 2, v), 4),
            self.case("interleaved", spec("interleaved-1f1b", 2, ", stages_per_rank: 2"), 4),
            self.case("recomputed", spec("1f1b", 2, tail=recomputed), 2),
            self.case("recomputed and split", spec("zb-h1", 2, tail=recomputed), 2),
            self.case("mixed", spec("1f1b", 2, costs=", backward: 3500us, link: {latency: 1ms}", tail="backward: mixed\n"), 2),
            self.case("swaps", spec("1f1b", 2, tail=variants), 2, steps=50, swaps=[[5, 1], [17, 2], [30, "zb-h1"], [41, 0]]),
            self.case("split, several layers a stage", cut("zb-h1"), 5),
            self.case("split and recomputed, several layers a stage", cut("zb-h1", recomputed), 5),
            self.case("the plan's optimizer", spec("1f1b", 2, costs=optimizer), 2, planned=True),
        ]
        self.check(cases, self.run_cases(2, cases))

    def test_slurm_starts_it_too(self):
        cases = [self.case("1f1b", spec("1f1b", 2), 2, steps=4)]
        self.check(cases, self.run_cases(2, cases, "Slurm"))

    def test_four_ranks_train_like_one_process(self):
        v = ", placement: v"
        cases = [
            self.case("1f1b", spec("1f1b", 4), 4, steps=50 if SOAK else 8),
            self.case("split", spec("zb-h1", 4), 4, steps=50 if SOAK else 8),
            self.case("v-half", spec("v-half", 4, v), 8, steps=50 if SOAK else 8),
            self.case("recomputed", spec("v-min", 4, v, tail="recompute: all\n"), 8, steps=50 if SOAK else 8),
        ]
        self.check(cases, self.run_cases(4, cases))

    def catalogue(self, ranks):
        """(name, keys of the pipeline, stages) of all schedules that a host runs."""
        told = subprocess.run([pathlib.Path(pipec.__file__).parent / "bin" / "pipec", "schedules", "--json"], capture_output=True,
                              text=True, check=True)
        for entry in json.loads(told.stdout):
            # Where any number of stages a rank goes, two.
            if entry["placement"] != "bidirectional":
                chunks = 1 if entry["name"] == "seq1f1b" else entry["stages_per_rank"] or 2
                yield entry["name"], f", stages_per_rank: {chunks}, placement: {entry['placement']}", chunks * ranks

    def test_all_schedules_of_the_catalogue_train_like_one_process(self):
        """To the last bit; looped-bfs, whose backwards begin with the last microbatch, to rounding."""
        for ranks in (2, 4) if SOAK else (2,):
            # dualpipe-v has two microbatches a rank at least.
            steps, microbatches = 50 if SOAK else 6, 2 * ranks
            cases = [self.case(f"{name}, {ranks} ranks", spec(name, ranks, more, microbatches=microbatches,
                                                              boundary=BOUNDARY * 4 // microbatches), stages, steps=steps)
                     for name, more, stages in self.catalogue(ranks) if name != "looped-bfs"]
            self.assertGreater(len(cases), 15)
            self.check(cases, self.run_cases(ranks, cases))

    def test_those_that_turn_microbatches_round_train_like_one_process(self):
        """Sums in another order are the same but for rounding."""
        wide = 2 * BOUNDARY  # of float64
        for ranks in (2, 4) if SOAK else (2,):
            cases = []
            for name, more, chunks in (("looped-bfs", ", stages_per_rank: 2", 2), ("looped-bfs", "", 1),
                                       ("seq1f1b", ", slices: 2", 1), ("seq1f1b", ", slices: 2, stages_per_rank: 2", 2),
                                       ("gpipe", ", slices: 2", 1)):
                for tail in ("backward: fused\n", "backward: split\n"):
                    cases.append(self.case(f"{name}{more}, {ranks} ranks, {tail.strip()}",
                                           spec(name, ranks, more, tail=tail, boundary=wide), chunks * ranks,
                                           steps=50 if SOAK else 12, double=True))
            said = self.run_cases(ranks, cases)
            plain = {}
            for number, case in enumerate(cases):
                with self.subTest(case["what"]):
                    found = {}
                    for each in said:
                        self.assertNotIn("error", each[number])
                        self.assertTrue(any("for the weights" in turned for turned in each[number]["turned"]))
                        self.assertFalse(any("forward" in turned for turned in each[number]["turned"]))
                        found.update(each[number]["values"])
                    microbatches = pipec.load(case["plan"]).microbatches
                    key = case["layers"], microbatches
                    if key not in plain:
                        modules = self.modules(case)
                        for _ in models.plain(modules, case["steps"], microbatches, ROWS, pipec.torch.reseed, case["seed"]):
                            pass
                        plain[key] = {str(s): [p.detach().flatten() for p in module.parameters()]
                                      for s, module in modules.items()}
                    self.assertEqual(found.keys(), plain[key].keys())
                    for stage, values in plain[key].items():
                        for value, expected in zip(found[stage], values):
                            torch.testing.assert_close(torch.tensor(value, dtype=torch.float64), expected, rtol=0, atol=1e-9)

    def replicated(self, policy, ranks, degree, costs="", **more):
        """A plan of replicas, its layers as the model has them."""
        return {"what": policy, "plan": self.plan(replicated(policy, ranks, degree, 4 // degree, costs)), "layers": 4, "steps": 6,
                "rows": ROWS, "seed": 7, "dry": True, **more}

    def check_values(self, case, said):
        """The weights are near those of one process, which adds up all microbatches in another order."""
        modules = self.modules(case)
        models.dry(modules.values())
        for _ in models.plain(modules, case["steps"], 4, ROWS, pipec.torch.reseed, case["seed"]):
            pass
        for each in said:
            for stage, values in each.items():
                for (name, parameter), found in zip(modules[int(stage)].named_parameters(), values):
                    if name.endswith("in_proj_bias"):  # of keys, whose gradient is rounding alone: AdamW makes steps of it
                        continue
                    torch.testing.assert_close(torch.tensor(found), parameter.detach().flatten(), rtol=0, atol=1e-5)

    def test_replicas_train_alike_however_they_sum(self):
        overlapping = ["policy: {name: dear-queue, bundle: 0B}", "collective: decoupled, shard: optimizer"]
        policies = ["policy: none", "policy: wfbp", "collective: all_reduce", *overlapping]
        ends = {}
        for ranks in (1, 2):
            cases = [self.replicated(policy, ranks, 2, planned=True, values=True) for policy in policies]
            cases.append(self.replicated("policy: none", ranks, 2))  # the program's own optimizer
            cases += [self.replicated(policy, ranks, 2, planned=True, blind=True) for policy in overlapping]
            cases.append(self.replicated(overlapping[0], ranks, 2))
            said = self.run_cases(2 * ranks, cases)
            for number, case in enumerate(cases):
                for process, each in enumerate(said):
                    with self.subTest(f"{ranks} ranks, {case['what']}, process {process}"):
                        self.assertNotIn("error", each[number])
                        if case.get("blind"):  # nobody looks at weights between steps: updates go on beside the next one
                            self.assertGreater(each[number]["late"], 0)
                        elif case["what"] == "policy: none" or not case.get("planned"):
                            self.assertEqual(each[number]["late"], 0)
                        for stage, digest in each[number]["weights"].items():
                            ends.setdefault(stage, digest)
                            self.assertEqual(digest, ends[stage])
            self.check_values(cases[0], [each[0]["values"] for each in said])
        self.assertEqual(len(ends), 4)

    def test_killed_and_resumed_it_ends_as_if_it_never_was(self):
        text = spec("zb-h1", 2)
        for attempt in range(100 if SOAK else 3):
            with self.subTest(attempt):
                folder = str(self.folder / f"states-{attempt}")
                case = self.case("killed", text, 2, steps=24, checkpoint=folder, every=3)
                dies = [random.randrange(2), random.randrange(8, 22)]
                for process in self.begin(2, [{**case, "dies": dies}]):
                    process.wait(timeout=HANG)
                said = self.run_cases(2, [{**case, "resume": True}])
                done = 24 - len(said[0][0]["digests"])
                self.assertIn(done, [3 * (dies[1] // 3), 3 * (dies[1] // 3) - 3])
                plain = list(models.plain(self.modules(case), 24, 4, ROWS, pipec.torch.reseed, 7))
                for each in said:
                    for stage, digest in each[0]["digests"][-1].items():
                        self.assertEqual(digest, plain[-1][0][int(stage)])

    def test_what_is_drawn_and_gathered_between_steps_is_resumed(self):
        """A program's own random numbers, and gradients of steps that its optimizer has not seen yet."""
        kinds = {"steps": 12, "draws": True, "accumulates": 3}
        for whole in (self.case("ranks", spec("zb-h1", 2), 2, **kinds), self.replicated("policy: none", 1, 2, **kinds)):
            stops = {**whole, "checkpoint": str(self.folder / whole["what"]), "every": 2}
            with self.subTest(whole["what"]):
                expected = self.run_cases(2, [whole])
                for process in self.begin(2, [{**stops, "dies": [0, 7]}]):
                    process.wait(timeout=HANG)
                said = self.run_cases(2, [{**stops, "resume": True}])
                # From step 6, or 4 where the process died before all had saved.
                self.assertIn([len(each[0]["digests"]) for each in said], [[6, 6], [8, 8]])
                self.assertEqual([each[0]["weights"] for each in said], [each[0]["weights"] for each in expected])

    def test_rates_are_those_of_the_step(self):
        """Updates that come beside the next step use what the program had set for their own."""
        cases = [self.replicated(policy, 1, 2, steps=7, planned=True, rates=True, blind=True)
                 for policy in ("policy: none", "policy: {name: dear-queue, bundle: 0B}")]
        for each in self.run_cases(2, cases):
            self.assertGreater(each[1]["late"], 0)
            self.assertEqual(each[0]["weights"], each[1]["weights"])

    def test_the_norm_is_that_of_all_however_replicas_sum(self):
        """Gradients are on their way while it is found, and between two steps, where it may wait, ranks still hear each other."""
        norm, queue = ", optimizer: {time: 0ms, global_norm: true}", "policy: {name: dear-queue, bundle: 0B}"
        kinds = [(queue, {"planned": True, "blind": True}), (queue, {"planned": True, "blind": True, "meets": True}), (queue, {}),
                 ("collective: decoupled, shard: optimizer", {"planned": True, "blind": True}), ("policy: wfbp", {"planned": True})]
        for ranks in (1, 2):
            plain = self.replicated("policy: none", ranks, 2, norm, planned=True, clip=0.1)
            cases = [plain, *(self.replicated(policy, ranks, 2, norm, clip=0.1, **more) for policy, more in kinds)]
            said = self.run_cases(2 * ranks, cases)
            for number, case in enumerate(cases):
                for process, each in enumerate(said):
                    with self.subTest(f"{ranks} ranks, {case['what']}, process {process}"):
                        self.assertNotIn("error", each[number])
                        self.assertEqual(each[number]["weights"], each[0]["weights"])
                        self.assertEqual(bool(each[number]["late"]), "blind" in case)

    def test_a_loss_with_weights_is_of_the_last_stage(self):
        class Loss(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.heat = torch.nn.Parameter(torch.ones(()))

            def forward(self, output, target):
                return (self.heat * output - target).square().mean()

        torch.manual_seed(0)
        layer, loss, x, y = torch.nn.Linear(4, 4), Loss(), torch.randn(8, 4), torch.randn(8, 4)
        loss(layer(x), y).backward()
        expected = [layer.weight.grad.clone(), loss.heat.grad.clone()]
        layer.zero_grad()
        loss.zero_grad()
        with pipec.torch.Run(pipec.load(self.plan(spec("1f1b", 1))), {0: layer}, loss=loss, progress=False) as run:
            run.step(x, target=y)
        for found, right in zip((layer.weight.grad, loss.heat.grad), expected):
            torch.testing.assert_close(found, right)
        made = []

        def optimizer(named):
            made.append([name for name, _ in named])
            return models.optimizer(named)

        text = spec("1f1b", 1, ", stages_per_rank: 2", ", optimizer: 1ms", boundary=2 * 4 * 4).replace("1f1b", "interleaved-1f1b")
        with pipec.torch.Run(pipec.load(self.plan(text)), {0: torch.nn.ReLU(), 1: layer}, loss=loss, optimizer=optimizer,
                             progress=False) as run:  # of a stage without weights none is made
            run.step(x, target=y)
            self.assertEqual(made, [["weight", "bias", "loss.heat"]])
            self.assertNotEqual(loss.heat.item(), 1)
            with self.assertRaisesRegex(pipec.SpecError, "x is a str: expected a tensor"):
                run.step("x", target=y)
        with self.assertRaisesRegex(pipec.SpecError, "the run is closed"):
            run.swap(0)

    def test_children_of_the_program_do_not_keep_a_run_open(self):
        began = time.monotonic()
        for world in (1, 2):
            said = self.run_cases(world, [self.case("", spec("1f1b", world), world, steps=3, forks=True, idle=HANG, deadline=HANG)])
            self.assertEqual([each[0].get("error") for each in said], [None] * world)
        self.assertLess(time.monotonic() - began, HANG)

    def test_calls_that_cannot_be(self):
        variants = "variants:\n  - schedule: 1f1b\n  - schedule: gpipe\n"
        plan = pipec.load(self.plan(spec("1f1b", 1, tail=variants, costs=", optimizer: 1ms")))
        layer, x = torch.nn.Linear(4, 4), torch.randn(8, 4)
        options = {"loss": lambda output, y: output.sum(), "progress": False}
        with self.assertRaisesRegex(pipec.SpecError, "modules is a Linear: expected {stage: module}"):
            pipec.torch.Run(plan, layer, **options)
        with self.assertRaisesRegex(pipec.SpecError, "a plan of one process does not ask for"):
            pipec.torch.Run(plan, {0: layer}, optimizer=models.optimizer, clip=1.0, **options)
        with self.assertWarns(UserWarning):
            twice = torch.optim.SGD([layer.weight, *layer.parameters()])
        with self.assertRaisesRegex(pipec.SpecError, "the optimizer own has a weight twice"):
            pipec.torch.Run(plan, {0: layer}, state={"own": twice}, **options)
        with pipec.torch.Run(plan, {0: layer}, **options) as run:
            for variants in ((1, 0, 1), (0, 1, 1, 0)):  # the last one holds
                for variant in variants:
                    run.swap(variant)
                run.step(x, target=x)
                run.step(x, target=x)
            error, none = lib.Error(), lib.Instruction()
            self.assertEqual(lib.LIBRARY.pipec_run_next(run._session.handle, ctypes.byref(none), ctypes.byref(error)), 2)
            self.assertEqual(error.message, b"a struct's size is 0: set it to sizeof")
            self.assertEqual(lib.LIBRARY.pipec_run_done(run._session.handle, ctypes.byref(lib.Result()), ctypes.byref(error)), 2)
        self.assertEqual(run.report()["swaps"], 2)

    def test_an_error_without_a_text_is_one(self):
        def failing(_):
            result = lib.Result(size=ctypes.sizeof(lib.Result), error=b"")
            lib.LIBRARY.pipec_run_done(run._session.handle, ctypes.byref(result), ctypes.byref(lib.Error()))

        plan = pipec.load(self.plan(spec("1f1b", 1)))
        with pipec.torch.Run(plan, {0: torch.nn.Linear(4, 4)}, loss=lambda output, y: output.sum(), progress=False) as run:
            run._session.does[lib.F] = failing
            with self.assertRaisesRegex(pipec.RunError, "rank 0: F stage 0 microbatch 0: it failed"):
                run.step(torch.zeros(8, 4), target=torch.zeros(8, 4))

    def test_a_failed_step_that_the_program_forgives_ends_the_run(self):
        layer, x = torch.nn.Linear(4, 4), torch.randn(8, 4)
        with pipec.torch.Run(pipec.load(self.plan(spec("1f1b", 1))), {0: layer}, loss=lambda output, y: output, progress=False) as run:
            with self.assertRaisesRegex(pipec.Error, "its loss is a tensor of shape"):
                run.step(x, target=x)

    def test_backward_is_not_under_autocast(self):
        def trained(schedule):
            torch.manual_seed(0)
            modules = {s: torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), Wide()) for s in range(2)}
            text = spec("1f1b", 1, ", stages_per_rank: 2", boundary=2 * 8 * 4).replace("1f1b", schedule)
            with pipec.torch.Run(pipec.load(self.plan(text)), modules, loss=lambda output, y: (output - y).square().mean(),
                                 progress=False) as run:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    run.step(x, target=y)
            return [p.grad for module in modules.values() for p in module.parameters()]

        class Wide(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(8, 8)

            def forward(self, x):
                with torch.autocast("cpu", enabled=False):
                    return self.inner(x.float())

        x, y = torch.randn(8, 8), torch.randn(8, 8)
        for found, right in zip(trained("zb-v"), trained("interleaved-1f1b")):
            torch.testing.assert_close(found, right, rtol=0, atol=0)

    def test_a_run_without_a_step_ends(self):
        """What is resumed behind its last step has nothing left to do."""
        text, folder = spec("zb-h1", 2), str(self.folder / "states")
        cases = [self.case("none", text, 2, steps=0), self.case("two", text, 2, steps=2, checkpoint=folder),
                 self.case("resumed", text, 2, steps=2, checkpoint=folder, resume=True)]
        said = self.run_cases(2, cases)
        for each in said:
            self.assertEqual([found.get("error") for found in each], [None] * 3)
            self.assertEqual([len(found["digests"]) for found in each], [0, 2, 0])
            self.assertEqual([found["report"]["steps"] for found in each], [0, 2, 2])
            self.assertEqual(each[2]["weights"], each[1]["weights"])

    def test_wrong_programs(self):
        right, small = spec("1f1b", 2), spec("1f1b", 2, boundary=128)
        folder = str(self.folder / "states")
        jobs = right + "jobs:\n  slow_down: 100%\n  work:\n  - {name: back, samples: 1, atoms: 10, atom: 10us}\n"
        cases = [
            ("the boundary", self.case("", small, 2), "SpecError",
             r"stage 0 hands on \(2, 8, 32\) of torch.float32, 2048 bytes a microbatch; the plan has 128: "
             r"set tensors.boundary to 2048B"),
            ("the layers", self.case("", right, 3), "SpecError", r"the model has 3 layers, the plan 2 \(it has 2 stages"),
            ("the microbatches", self.case("", right, 2) | {"rows": 6}, "SpecError",
             r"x has shape \(6, 8\): its first dimension is not divided by the 4 microbatches"),
            ("no norm", self.case("", right, 2, clip=1.0), "SpecError", "clip needs the norm of all gradients"),
            ("jobs", self.case("", jobs, 2), "SpecError", "background jobs, which a host cannot run yet"),
            ("another shape", self.case("", right, 2, reshapes=True), "SpecError",
             r"stage 0 hands on \(4, 4, 32\) of torch.float32, before it was \(2, 8, 32\)"),
            ("a shared weight", self.case("", spec("zb-v", 2, ", placement: v"), 4, shares=True), "SpecError",
             r"stage \d and stage \d share the parameter .*: tie weights within one stage"),
            ("replicas that differ", self.replicated("policy: none", 1, 2, apart=True), "SpecError",
             "replica 1 of rank 0 begins with other weights than replica 0, in stage 0 layer 0"),
            ("other layers", self.case("", cut("zb-h1"), 5, replaces="layer"), "SpecError",
             "stage 0 has other layers than when the run began"),
            ("other weights", self.replicated("policy: none", 1, 2, replaces="weights"), "SpecError",
             "stage 0 layer 0's weight is another than when the run began"),
            ("weights elsewhere", self.replicated("policy: none", 1, 2, replaces="data"), "SpecError",
             "stage 0 layer 0's weight is another than when the run began, or lies elsewhere"),
            ("a variant", self.case("", right, 2, swaps=[[1, 5]]), "SpecError", 'there is no variant "5"'),
            ("a state", self.case("", right, 2, steps=2, checkpoint=folder), None, None),
            ("the state of another", self.case("", right, 2, steps=4, checkpoint=folder, resume=True, wide=True), "SpecError",
             r"layer \d: the checkpoint is of another model: it lacks \d\."),
        ]
        said = self.run_cases(2, [case for _, case, _, _ in cases])
        for number, (what, _, kind, message) in enumerate(cases):
            with self.subTest(what):
                errors = [each[number].get("error") for each in said]
                if kind is None:
                    self.assertEqual(errors, [None, None])
                    continue
                kinds = [each[number].get("kind") for each in said]
                self.assertIn(kind, kinds)
                self.assertTrue(any(error and re.search(message, error) for error in errors), errors)
                self.assertNotIn(None, errors)
        processes = self.begin(2, [self.case("a state that is there", right, 2, steps=2, checkpoint=folder)])
        for process, says in zip(processes, ("checkpoint: ", "rank 1: the controller ended the run: rank 0: checkpoint: ")):
            process.wait(timeout=HANG)
            self.assertRegex(self.said_by(process)[0], f"{says}.* has a checkpoint: go on from it with resume")

    def test_what_one_rank_refuses_all_hear_at_once(self):
        """Long before the five minutes in which all should have met are over."""
        plan = spec("1f1b", 2)
        said = self.run_cases(2, [self.case("", plan, 2, has_more=rank) for rank in (0, 1)] + [self.case("", plan, 2, steps=1)])
        for number, refuses in enumerate((0, 1)):
            own, other = said[refuses][number], said[1 - refuses][number]
            wrong = rf"rank {refuses} has the stages \[{refuses}\]: modules lack \[\] and have \[9\] too much"
            self.assertRegex(own["error"], wrong)
            self.assertEqual(own["kind"], "SpecError")
            self.assertRegex(other["error"], rf"the controller ended the run: rank {refuses}: SpecError: .*{wrong}")
            self.assertEqual(other["kind"], "RunError")
        self.assertEqual([each[2].get("error") for each in said], [None, None])

    def test_what_the_runtime_can_from_python(self):
        control, trace = str(self.folder / "control"), self.folder / "trace.json"
        variants = "variants:\n  - schedule: 1f1b\n  - schedule: zb-h1\n"
        case = self.case("", spec("1f1b", 2, tail=variants), 2, steps=10**6, control=control, trace=str(trace), adapt="observe",
                         progress=True)
        processes = self.begin(2, [case])
        end = time.monotonic() + HANG
        while "step" not in self.said_by(processes[0])[1] and time.monotonic() < end:
            time.sleep(0.05)
        programs = pathlib.Path(pipec.__file__).parent / "bin"
        swapped = subprocess.run([programs / "piperun", "--control", control, "swap", "1", "--deadline", "300"], capture_output=True, text=True, check=True)
        self.assertIn("variant 1 (zb-h1)", swapped.stdout)
        subprocess.run([programs / "piperun", "--control", control, "stop", "--deadline", "300"], capture_output=True, text=True, check=True)
        said = [each[0] for each in self.end(processes)]
        self.assertEqual(said[0]["report"], said[1]["report"])
        report = said[0]["report"]
        self.assertEqual((report["ended"], report["adapt"]["mode"], report["swaps"]), ("stop", "observe", 1))
        self.assertEqual({len(each["digests"]) for each in said}, {report["steps"]})
        self.assertGreater(report["tokens_per_s"], 0)
        self.assertTrue(all(report["peak_bytes"]))
        self.assertRegex(self.said_by(processes[0])[1],
                         r"pipec: step \d+, loss \d+\.\d+, \d+ tokens/s, .* ms \(30.0 predicted, bubble \d+ %\), peak .* MiB")
        events = json.loads((self.folder / "trace.1.json").read_text())["traceEvents"]
        self.assertEqual({event["args"]["epoch"] for event in events if event["ph"] == "X"}, {0, 1})

    def test_an_exception_keeps_its_place_and_is_told_to_the_others(self):
        plan = self.plan(spec("1f1b", 2))
        processes = self.begin(2, [{"what": "", "plan": plan, "layers": 2, "steps": 9, "rows": ROWS, "raises": [1, 3]}])
        for process in processes:
            process.wait(timeout=HANG)
        (first, _), (_, second) = map(self.said_by, processes)
        told = json.loads(first)
        self.assertEqual(told["kind"], "RunError")
        self.assertIn("rank 1: F stage 1 microbatch 0: ZeroDivisionError: division by zero", told["error"])
        self.assertRegex(second, r"(?s)Traceback.*in forward\n.*1 / 0.*ZeroDivisionError: division by zero")

    def test_an_interrupt_ends_all(self):
        processes = self.begin(2, [self.case("", spec("1f1b", 2), 2, steps=10**6, progress=True)])
        end = time.monotonic() + HANG
        while "step" not in self.said_by(processes[0])[1] and time.monotonic() < end:
            time.sleep(0.05)
        processes[1].send_signal(signal.SIGINT)
        codes = [process.wait(timeout=HANG) for process in processes]
        self.assertNotEqual(codes[1], 0)
        self.assertIn("KeyboardInterrupt", self.said_by(processes[1])[1])
        # Between two instructions or in one.
        self.assertRegex(json.loads(self.said_by(processes[0])[0])["error"], "rank 1: .*KeyboardInterrupt")

    def test_a_hundred_runs_leave_nothing_behind(self):
        runs = 1000 if SOAK else 100
        case = self.case("", spec("1f1b", 1), 1, steps=1)
        said = self.run_cases(1, [{**case, "counts": True} for _ in range(runs)])[0]
        before, after = said[runs // 10]["counts"], said[-1]["counts"]
        self.assertEqual((before["threads"], before["descriptors"]), (after["threads"], after["descriptors"]))
        self.assertLess(after["kilobytes"], before["kilobytes"] + 2048)

    def test_an_older_pytorch_is_refused(self):
        # pipec.torch is imported anew, in processes that have PyTorch already.
        program = self.folder / "imports.py"
        program.write_text("import sys, torch\ntorch.__version__ = sys.argv[1]\nfor name in [*sys.modules]:\n"
                           "    if name.partition('.')[0] == 'pipec':\n        del sys.modules[name]\nimport pipec.torch\n", encoding="utf-8")
        for version, code in (("2.7.1+cpu", 1), ("1.13.1", 1), ("2.8.0a0+git1", 0), ("2.10.0", 0)):
            with open(self.folder / version, "w+", encoding="utf-8") as said:
                process = Program([sys.executable, program, version], env={}, stdout=said, stderr=said)
                self.assertEqual(process.wait(HANG), code, version)
                said.seek(0)
                expected = f"pipec.errors.SpecError: PyTorch is {version}, pipec.torch needs 2.8 or newer"
                self.assertEqual(said.read().splitlines()[-1:], [expected] if code else [])

    def test_plans(self):
        with self.assertRaises(pipec.SpecError) as wrong:
            self.plan("pipec: 1\nfoo: 2\n")
        self.assertTrue(wrong.exception.file.endswith(".yaml"))
        self.assertEqual((wrong.exception.line, wrong.exception.column), (1, 1))
        with self.assertRaisesRegex(pipec.SpecError, "nothing.pipe: cannot read: No such file"):
            pipec.load("nothing.pipe")
        (self.folder / "cut.pipe").write_bytes(b"pipe")
        with self.assertRaisesRegex(pipec.SpecError, "cut.pipe"):
            pipec.load(self.folder / "cut.pipe")
        plan = pipec.load(self.plan(spec("zb-v", 2, ", placement: v")))
        self.assertEqual((plan.ranks, plan.degree, plan.stage_count, plan.microbatches), (2, 1, 4, 4))
        self.assertEqual([[each.stage for each in plan.stages(rank)] for rank in range(2)], [[0, 3], [1, 2]])
        self.assertEqual([plan.place(rank) for rank in range(2)], [(0, 0), (1, 0)])
        self.assertEqual(plan.report()["stages"], 4)
        self.assertIn("<iframe", plan._repr_html_())
        self.assertIn("zb-v", plan._repr_html_())


if __name__ == "__main__":
    unittest.main()
