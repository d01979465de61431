"""A model becomes layers and a plan in the program: as it is, with its weights' names, to the bit; what cannot be is refused with the
way out."""
import contextlib
import functools
import importlib.util
import io
import json
import pathlib
import tempfile
import unittest

import torch
import whole
from runs import SOAK, FolderTest, RunsTest
from torch import nn

import pipec
import pipec.profile
import pipec.torch

V = {"stages_per_rank": 2, "placement": "v"}
SCHEDULES = {  # name: keys of the spec; of which CI has the first two
    "1f1b": {"schedule": "1f1b"},
    "zb-h1": {"schedule": "zb-h1"},
    "recomputed": {"schedule": "1f1b", "recompute": "all"},
    "recomputed within a limit": {"schedule": "1f1b", "recompute": "auto"},
    "interleaved": {"schedule": "interleaved-1f1b", "pipeline": {"stages_per_rank": 2}},
    "v-half": {"schedule": "v-half", "pipeline": V},
    "zb-v": {"schedule": "zb-v", "pipeline": V},
}


NAMES = ["words", "reads.0", "reads.1", "reads.2", "writes.0", "writes.1", "writes.2", "head"]  # of the writer's layers


def example(name):
    """(model, x, keywords) of a microbatch."""
    model, _, batch, keywords = whole.made(name)
    return model, whole.part(batch(0)[0], 0), {key: whole.part(value, 0) for key, value in keywords(0).items()}


def played(layers, x, keywords):
    for layer in layers:
        x = layer(x, **{name: keywords[name] for name in layer.keywords})
    return x


class Bare(nn.Module):
    """Blocks between which something is done."""

    def __init__(self, between=lambda self, x: x, block=lambda: nn.Linear(4, 4)):
        super().__init__()
        self.blocks, self.between = nn.ModuleList(block() for _ in range(3)), between

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = self.between(self, block(x))
        return x if mask is None else x * mask


class LayersTest(unittest.TestCase):
    def test_layers_do_what_the_model_does(self):
        """Outputs and gradients, in both modes, to the bit; with the model's own modules and names."""
        for name in whole.MODELS:
            with self.subTest(name):
                model, x, keywords = example(name)
                layers = pipec.torch.layers(model, example=x, **keywords)
                self.assertGreaterEqual(len(layers), 5)
                state = {key: each for layer in layers for key, each in layer.state_dict().items()}
                whole_state = model.state_dict()
                self.assertEqual(state.keys(), whole_state.keys() - {"shared.weight"})  # by another name too
                self.assertTrue(all(each.data_ptr() == whole_state[key].data_ptr() for key, each in state.items()))
                for training in (True, False):
                    model.train(training)
                    for layer in layers:
                        layer.train(training)
                    found = []
                    for forward in (lambda: model(x, **keywords), lambda: played(layers, x, keywords)):
                        model.zero_grad()
                        output = forward()
                        tensors = [each for each in torch.utils._pytree.tree_leaves(output) if isinstance(each, torch.Tensor)
                                   and each.requires_grad]
                        sum(each.float().square().sum() for each in tensors).backward()
                        found.append((output, [p.grad for p in model.parameters() if p.grad is not None]))
                    (one, first), (other, second) = found
                    self.assertIs(type(one), type(other))
                    self.assertTrue(all(torch.equal(a, b) for a, b in zip(first, second, strict=True)))
                    shown = [[each for each in torch.utils._pytree.tree_leaves(output) if isinstance(each, torch.Tensor)]
                             for output in (one, other)]
                    self.assertGreaterEqual(len(shown[0]), len(shown[1]))  # a model keeps what it would go on from, too

    def test_a_mask_is_made_where_it_is_used(self):
        model, x, keywords = example("writer")
        layers = pipec.torch.layers(model, example=x, **keywords)
        self.assertEqual([layer.name for layer in layers], NAMES)
        self.assertEqual([sorted(layer.keywords) for layer in layers],
                         [["weigh"], ["mask"], ["mask"], ["mask", "written"], ["mask"], ["mask"], ["mask"], []])
        seen = []
        for layer in layers[1:7]:
            block = next(call.what for _, call in layer._calls if call.is_module)
            layer.get_submodule(block).register_forward_pre_hook(lambda _, args, named: seen.append(named.get("mask", args[-1])), with_kwargs=True)
        played(layers, x, keywords)
        self.assertTrue(all(each is seen[0] for each in seen))  # one for all layers
        played(layers, x, {**keywords, "mask": 1 - keywords["mask"]})
        self.assertFalse(torch.equal(seen[0], seen[6]))

    def test_modules_and_sequentials_need_no_example(self):
        blocks = [nn.Linear(4, 4), nn.Tanh()]
        self.assertEqual(pipec.torch.layers(blocks), blocks)
        self.assertEqual(list(pipec.torch.layers(nn.Sequential(*blocks))), blocks)

    def refused(self, model, message, x=None, **keywords):
        with self.assertRaisesRegex(pipec.SpecError, message):
            pipec.torch.layers(model, example=torch.ones(2, 4) if x is None else x, **keywords)

    def test_what_cannot_be_recorded(self):
        mask = torch.ones(2, 1)
        way_out = ".*; pass pipec.torch.layers a list of modules instead"
        self.refused(Bare(lambda self, x: x if x.sum() > 0 else -x), "it reads numbers of a tensor .*" + way_out)
        self.refused(Bare(lambda self, x: x * self.blocks[0].weight.mean().item()), "it reads numbers of a tensor" + way_out)
        self.refused(Bare(lambda self, x: x if torch.rand(()) < 0.5 else -x), "it reads numbers of a tensor" + way_out)
        self.refused(Bare(block=lambda: Gives(lambda x: object())), "blocks.0 gives no tensor" + way_out)
        self.refused(Bare(lambda self, x: x["y"], block=lambda: Gives(lambda x: {"y": x, "z": object()})),
                     "blocks.0 gives a object, in which tensors cannot be seen" + way_out)
        self.refused(Hides(), "a tensor of \\(2, 4\\), and where this comes from cannot be seen" + way_out)
        self.refused(Views(), "mul_ changes in place what earlier layers have given, of which there are two views" + way_out)
        self.refused(Bare(lambda self, x: x * mask.mul_(2)), "mul_ changes the keyword mask in place" + way_out, mask=mask)
        counts = Bare(lambda self, x: self.count.add_(1) * x)
        counts.register_buffer("count", torch.zeros(()))
        self.refused(counts, "add_ changes the model's count in place, of which ranks have copies" + way_out)
        self.refused(nn.Linear(4, 4), "a Linear has no ModuleList, Sequential or ModuleDict of blocks in it, where it could be cut"
                     ": pass .* a list of modules")
        self.refused(Bare(lambda self, x: torch.ones(2, 4)), "nothing goes from layer 0 of the Bare to the next one: pass .* a list of modules")
        self.refused(Unused(), "it calls none of blocks.0, blocks.1, blocks.2" + way_out)
        self.refused(Bare(), "a Bare fails on the example, RuntimeError: .*", x=torch.ones(2, 5))
        self.refused("model", "model is a str: expected a torch.nn.Module")

    def test_a_dict_of_blocks(self):
        """As torchtitan's models have it; a dict of other parts is none."""
        model = Bare()
        model.blocks = nn.ModuleDict({str(number): nn.Linear(4, 4) for number in range(3)})
        model.forward = lambda x: model.blocks["2"](model.blocks["1"](model.blocks["0"](x)))
        layers = pipec.torch.layers(model, example=torch.ones(2, 4))
        self.assertEqual([[*layer.state_dict()] for layer in layers], [[f"blocks.{number}.weight", f"blocks.{number}.bias"] for number in range(3)])
        model.blocks["1"] = nn.Tanh()
        self.refused(model, "a Bare has no ModuleList, Sequential or ModuleDict of blocks in it")

    def test_recording_leaves_no_trace(self):
        model = Bare(lambda self, x: self.norm(nn.functional.dropout(x, 0.5)))
        model.norm = nn.BatchNorm1d(4)
        before, state = {name: each.clone() for name, each in model.state_dict().items()}, torch.get_rng_state()
        pipec.torch.layers(model, example=torch.randn(2, 4))
        torch.set_rng_state(state)
        wanted = torch.rand(3)
        torch.set_rng_state(state)
        pipec.torch.layers(model, example=torch.ones(2, 4))
        self.assertTrue(torch.equal(torch.rand(3), wanted))
        self.assertTrue(all(torch.equal(each, before[name]) for name, each in model.state_dict().items()))
        self.assertTrue(model.training)

    def test_another_batch_is_refused(self):
        layers = pipec.torch.layers(Bare(), example=torch.ones(2, 4), mask=torch.ones(2, 1))
        with self.assertRaisesRegex(pipec.SpecError, r"the input of a microbatch is \(3, 4\) of torch.float32, and was \(2, 4\) of torch.float32 "
                                                     "when the Bare was recorded: .*example="):
            layers[0](torch.ones(3, 4))
        with self.assertRaisesRegex(pipec.SpecError, r"the keyword mask of a microbatch is \(2, 4\) .* when the Bare was recorded"):
            played(layers, torch.ones(2, 4), {"mask": torch.ones(2, 4)})
        model, x, keywords = example("writer")
        layers = pipec.torch.layers(model, example=x, **keywords)
        with self.assertRaisesRegex(pipec.SpecError, "weigh is 0.7, and was 0.5 when the Writer was recorded"):
            played(layers, x, {**keywords, "weigh": 0.7})

    def test_another_mode_is_refused_where_it_matters(self):
        layers = pipec.torch.layers(Bare(lambda self, x: x + 1 if self.training else x), example=torch.ones(2, 4))
        with self.assertRaisesRegex(pipec.SpecError, "the Bare was recorded in training mode, and calls other functions in evaluation mode"):
            layers[0].eval()(torch.ones(2, 4))


class Gives(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what, self.weight = what, nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.what(x * self.weight)


class Hides(Bare):
    """A block keeps a tensor that no module gives."""

    def __init__(self):
        super().__init__()
        self.kept = []
        self.blocks[0].forward = lambda x: self.kept.append(x * 2) or x

    def forward(self, x):
        self.kept.clear()
        return super().forward(x) + self.kept[0]


class Views(Bare):
    def forward(self, x):
        x = self.blocks[0](x)
        first = x[:1]
        y = self.blocks[1](x)
        x.mul_(2)
        return self.blocks[2](x + y) + first


class Unused(Bare):
    def forward(self, x):
        return x + 1


class PlanTest(FolderTest):
    def test_a_plan_is_made_in_the_program(self):
        model, loss, batch, keywords = whole.made("writer")
        x, target = batch(0)
        layers = pipec.torch.layers(model)
        with self.assertRaisesRegex(pipec.SpecError, "a Writer is cut as its forward goes, .*example="):
            pipec.torch.plan(layers, ranks=2, microbatches=4)
        grads = [p.grad for p in model.parameters()]
        plan = pipec.torch.plan(layers, example=x, ranks=2, microbatches=4, schedule="zb-h1", keywords=keywords(0), target=target, loss=loss,
                                memory={"limit": "1GiB"})
        self.assertEqual((plan.ranks, plan.microbatches, sum(plan.cut)), (2, 4, len(layers)))
        self.assertEqual(grads, [p.grad for p in model.parameters()])
        spec = json.loads(plan.spec)
        self.assertEqual((spec["schedule"], spec["memory"]), ("zb-h1", {"limit": "1GiB"}))
        rows = [row for row in spec["layers"] for _ in range(row["count"])]
        self.assertEqual([row["name"] for row in rows], [layer.name for layer in layers])
        hidden = whole.ROWS // 4 * whole.LENGTH * whole.WIDTH * 4
        self.assertEqual(rows[0]["boundary"], f"{hidden}B")
        for layer, row in zip(layers, rows):
            self.assertEqual(row["gradients"], f"{sum(p.nbytes for p in layer.parameters())}B")
            self.assertGreater(float(row["forward"].removesuffix("us")), 0)
        self.assertEqual(pipec.compile(spec).hash, plan.hash)

    def test_frozen_layers_in_front(self):
        """No gradient comes back to them."""
        layers = [nn.Embedding(4, 16).requires_grad_(False), nn.Linear(16, 16).requires_grad_(False), nn.Linear(16, 16), nn.Linear(16, 4)]
        plan = pipec.torch.plan(layers, example=torch.ones(8, 2, dtype=torch.int64), ranks=2, microbatches=2)
        self.assertEqual([row["boundary_gradient"] for row in json.loads(plan.spec)["layers"][:2]], ["0B", "0B"])

    def test_many_alike_are_run_once(self):
        layers = [nn.Linear(8, 16), *(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(20)), nn.Linear(16, 4)]
        plan = pipec.torch.plan(layers, example=torch.ones(8, 8), ranks=2, microbatches=2)
        rows = json.loads(plan.spec)["layers"]
        self.assertEqual(sum(row["count"] for row in rows), 22)
        self.assertLessEqual(len(rows), 5)  # what a layer holds depends on its neighbours

    def test_a_profile_takes_the_place_of_what_is_reckoned(self):
        layer = {"forward": "2ms", "backward_input": "2ms", "backward_weight": "1ms", "boundary": "1MiB"}
        with self.subTest("a dict"):
            plan = pipec.compile({"pipec": 1, "pipeline": {"ranks": 2, "microbatches": 4, "cut": "auto"}, "layers": [{**layer, "count": 4}],
                                  "schedule": "1f1b"})
            self.assertEqual((plan.cut, json.loads(plan.spec)["pipec"]), ([2, 2], 1))
        path = self.folder / "profile.yaml"
        path.write_text(json.dumps({"pipec": 1, "pipeline": {"ranks": 4, "microbatches": 4}, "layers": [{**layer, "count": 4}],
                                    "schedule": "1f1b"}), encoding="utf-8")
        plan = pipec.torch.plan([nn.Linear(4, 4)] * 4, ranks=2, microbatches=6, schedule="gpipe", profile=path)
        self.assertEqual((plan.ranks, plan.microbatches, plan.cut, plan.variants), (2, 6, [2, 2], ["gpipe"]))

    def test_a_profile_of_a_model_as_it_is(self):
        """With keywords, and under autocast."""
        model = self.folder / "model.py"
        model.write_text("import torch, whole\ndef model():\n    return whole.Writer()\n"
                         "def example(n):\n    return torch.randint(whole.WORDS, (n, whole.LENGTH))\n"
                         "def keywords(n):\n    return {'written': example(n), 'mask': torch.ones(n, whole.LENGTH)}\n"
                         "target, loss = example, whole.written_loss\n", encoding="utf-8")

        def profiled(*options):
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(pipec.profile.main([str(model), "--repeat", "1", "--json", *map(str, options)]), 0)
            return json.loads(out.getvalue())["layers"]

        plain = profiled("--microbatch", 2, 3, "-o", self.folder / "model.yaml")
        self.assertEqual([layer["name"] for layer in plain], NAMES)
        cast = profiled("--microbatch", 2, "--autocast", "bf16")
        self.assertLess(sum(layer["boundary"] for layer in cast), sum(layer["boundary"][1] for layer in plain) * 2)
        self.assertEqual(sum(pipec.compile(self.folder / "model.yaml").cut), len(NAMES))

    def test_what_is_wrong_in_a_dict(self):
        spec = {"pipec": 1, "pipeline": {"ranks": 0, "microbatches": 4}, "costs": {"forward": "1ms"}, "schedule": "1f1b"}
        with self.assertRaisesRegex(pipec.SpecError, "^the spec: .*ranks.*: \"ranks\": 0"):
            pipec.compile(spec)
        with self.assertRaisesRegex(pipec.SpecError, "a spec has texts, numbers, lists and dicts in it: .*Tensor"):
            pipec.compile({"pipec": torch.ones(2)})
        with self.assertRaisesRegex(pipec.SpecError, r"example has shape \(9, 4\): its first dimension is not divided by 2 microbatches"):
            pipec.torch.plan([nn.Linear(4, 4)] * 2, example=torch.ones(9, 4), ranks=2, microbatches=2)
        with self.assertRaisesRegex(pipec.SpecError, "pass example=, the input of a step, or profile="):
            pipec.torch.plan([nn.Linear(4, 4)] * 2, ranks=2, microbatches=2)


class TrainTest(RunsTest):
    program, forks = "whole.py", False  # PyTorch starts threads where plans are made

    def plan_of(self, spec, schedule, folder):
        """A plan of a model's spec, and where it is."""
        keys = SCHEDULES[schedule]
        spec = {**spec, **keys, "pipeline": {**spec["pipeline"], **keys.get("pipeline", {})}}
        if keys.get("recompute") == "auto":
            most, least = (max(pipec.compile({**spec, "recompute": stages}).report()["peak_bytes"]) for stages in ("none", "all"))
            spec["memory"] = {"limit": f"{(most + least) // 2}B"}
        plan, path = pipec.compile(spec), folder / "plan.pipe"
        plan.save(path)
        return plan, str(path)

    def check(self, ranks, names, schedules):
        cases, places = [], []
        for name in names:
            model, loss, batch, keywords = whole.made(name)
            plan = pipec.torch.plan(pipec.torch.layers(model), example=batch(0)[0], ranks=ranks, microbatches=whole.MICROBATCHES,
                                    keywords=keywords(0), target=batch(0)[1], loss=loss)
            for schedule in schedules:
                folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
                made, path = self.plan_of(json.loads(plan.spec), schedule, folder)
                cases.append({"model": name, "schedule": schedule, "plan": path, "states": str(folder / "states")})
                rank_of = {each.stage: rank for rank in range(ranks) for each in made.stages(rank)}
                places.append((tuple(made.cut), tuple(rank_of[stage] for stage in sorted(rank_of))))
        said = self.run_cases(ranks, cases)
        plain = functools.cache(whole.plain)
        for number, (case, place) in enumerate(zip(cases, places)):
            name = case["model"]
            with self.subTest(f"{name}, {case['schedule']}, {ranks} ranks"):
                self.assertEqual([each[number].get("error") for each in said], [None] * ranks)
                weights, losses = plain(name, *place)
                found = {key: digest for each in said for key, digest in each[number]["weights"].items()}
                self.assertEqual([key for key, digest in found.items() if digest != weights[key]], [])
                self.assertEqual(weights.keys() - found.keys() - {"shared.weight"}, set())
                state = whole.digests(pipec.torch.whole(case["states"]))
                self.assertEqual(state, {key: found[key] for key in state})
                self.assertEqual(found.keys() - state.keys(), set())
                for each in said:
                    for one, other in zip(each[number]["losses"], losses, strict=True):
                        self.assertAlmostEqual(one, other, 5)

    def test_models_train_to_the_bit(self):
        """In CI each under one of two kinds of backwards."""
        names = sorted(whole.MODELS)
        if SOAK:
            self.check(2, names, SCHEDULES)
        else:
            self.check(2, names[::2], ["1f1b"])
            self.check(2, names[1::2], ["zb-h1"])

    @unittest.skipUnless(SOAK, "PIPEC_SOAK=1")
    def test_on_four_ranks(self):
        self.check(4, sorted(whole.MODELS), SCHEDULES)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers")
    def test_models_of_transformers_are_there(self):
        self.assertIn("gpt-2", whole.MODELS)


if __name__ == "__main__":
    unittest.main()
