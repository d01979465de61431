"""Checkpoints of layers: into another cut, other ranks and replicas, and the whole model; what is wrong with one; killed saves."""
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import time
import types
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parent))

import models  # noqa: E402
import torch  # noqa: E402
from runs import BOUNDARY, HANG, ROWS, SOAK, FolderTest, RunsTest  # noqa: E402
from runs import spec as run_spec  # noqa: E402
from safetensors import safe_open  # noqa: E402

import pipec  # noqa: E402
import pipec.torch  # noqa: E402
from pipec.torch.checkpoints import Checkpoints  # noqa: E402
from pipec.torch.folder import Reader, steps  # noqa: E402
from pipec.torch.losses import RunLosses  # noqa: E402
from pipec.torch.model import LocalModel  # noqa: E402
from pipec.torch.optimizers import Optimizers  # noqa: E402
from pipec.torch.plain import pack, unpack  # noqa: E402

LAYERS = 8


def layers_of(count=LAYERS):
    """Of as many gradient bytes each, as the spec says."""
    return [lambda: torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)) for _ in range(count)]


GRADIENTS = 4 * (4 * 4 + 4 + 4 + 4)  # bytes of a layer's


def spec(schedule, ranks, cut, more="", layer="", data="", pipeline=""):
    costs = "forward: 2ms, backward_input: 2ms, backward_weight: 2ms, activation: 1MiB, weight_context: 512KiB"
    return (f"pipec: 1\npipeline: {{ranks: {ranks}, microbatches: 4, cut: {cut}{pipeline}}}\n"
            f"layers:\n- {{{costs}, count: {sum(cut)}{layer}}}\ntensors: {{boundary: {BOUNDARY}B}}\n"
            f"costs: {{optimizer: 1ms}}\nschedule: {schedule}\n{data}{more}")


def newest(folder):
    """The step of the last checkpoint; 0: there is none."""
    found = steps(folder)
    return found[-1][0] if found else 0


def replicas(policy):
    return f"data_parallel: {{degree: 2, link: {{bandwidth: 10GiB/s, latency: 10us}}{policy}}}\n"


class Alone:
    """In place of the session."""
    steps_done = 0


class Ranks:
    """All processes of a plan in one, with what Checkpoints needs of a Run. own: the program's optimizer, in `state`."""

    def __init__(self, plan, own=False, layers=None, modules=None, seed=0, **options):
        self.plan, self.models, self.checkpoints, self.optimizers, self.own = plan, [], [], [], []
        for process in range(plan.world):
            rank, _ = plan.place(process)
            made = modules(rank) if modules else pipec.torch.stages(plan, layers or layers_of(sum(plan.cut)), rank, seed)
            model = LocalModel(plan, process, made, None)
            model.find_shared()
            model.prepare()
            optimizers = Optimizers(model, Alone(), RunLosses(model, Alone()), None if own else self.optimizer, None, None)
            state = {}
            if own:
                state["optimizer"] = self.own_optimizer(model.parameters())
            self.own.append(state)
            self.models.append(model)
            self.optimizers.append(optimizers)
            self.checkpoints.append(Checkpoints(model, optimizers, state={**state, **options.get("state", {})}, keeps=True,
                                                keep=options.get("keep", 1), save=options.get("save", "between"),
                                                names=options.get("names"), scaler=None, idle=1))

    @staticmethod
    def optimizer(named):
        return torch.optim.AdamW([p for _, p in named], lr=0.1)

    @staticmethod
    def own_optimizer(parameters):
        """In two groups."""
        return torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1]},
                                  {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}], lr=0.1)

    def train(self):
        """Two steps with gradients that are a function of the layer and the element alone, and other buffers."""
        for model, own, optimizers in zip(self.models, self.own, self.optimizers):
            model.attach()
            for stage, module in model.modules.items():
                first = sum(self.plan.cut[:stage])
                for number, layer in enumerate(module):
                    generator = torch.Generator().manual_seed(first + number)
                    for p in layer.parameters():
                        value = torch.rand(p.shape, generator=generator)
                        p.grad = value if p.grad is None else p.grad.copy_(value)
                    layer[1].running_mean.fill_(first + number + model.replica / 2)
            for each in (*own.values(), *optimizers.by_layer.values()):
                each.step()
                each.step()
        if self.plan.degree > 1:  # what the runtime gathers
            self.gather()

    def gather(self):
        for model in self.models:
            for other in self.models:
                if other.rank == model.rank:
                    for stage, layers in model.flat.items():
                        sharded = {each.stage: each.sharded for each in self.plan.stages(model.rank)}[stage]
                        for number, layer in enumerate(layers):
                            if sharded[number]:
                                part = layer.share(other.replica, self.plan.degree)
                                layer.weights[part] = other.flat[stage][number].weights[part]

    def save(self, folder, step=2):
        for each in self.checkpoints:
            each.note_random()
        path = folder / f"step-{step:08}"
        for each in reversed(self.checkpoints):
            each.save(types.SimpleNamespace(step=step, path=os.fsencode(path)))
        for each in reversed(self.checkpoints):
            each.end()
        return path

    def load(self, path):
        for each in self.checkpoints:
            each.load(types.SimpleNamespace(step=int(path.name[-8:]), path=os.fsencode(path)))
        return self

    def values(self):
        """{(layer, name): tensor} of weights and buffers, and {(layer, name, key): tensor} of the optimizers' states, of first
        replicas."""
        weights, states = {}, {}
        for model, own, optimizers in zip(self.models, self.own, self.optimizers):
            for stage, module in model.modules.items() if model.replica == 0 else ():
                for number, layer in enumerate(module):
                    key = sum(self.plan.cut[:stage]) + number
                    weights.update({(key, name): value for name, value in layer.state_dict().items()})
                    for name, p in layer.named_parameters():
                        for each in (*own.values(), *optimizers.by_layer.values()):
                            states.update({(key, name, what): value for what, value in each.state.get(p, {}).items()})
        return weights, states


class LayersTest(FolderTest):
    def plan(self, text):
        source = self.folder / "spec.yaml"
        source.write_text(text, encoding="utf-8")
        return pipec.compile(source)

    def same(self, one, other):
        self.assertEqual(one.keys(), other.keys())
        for key, value in one.items():
            self.assertTrue(torch.equal(value, other[key]), key)

    def plans(self):
        gradients = f", gradients: {GRADIENTS}B"
        yield "4 ranks", self.plan(spec("1f1b", 4, [2] * 4))
        yield "2 ranks, v-half", self.plan(spec("v-half", 2, [3, 1, 2, 2], pipeline=", placement: v"))
        yield "1 rank", self.plan(spec("1f1b", 1, [8]))
        yield "2 replicas", self.plan(spec("1f1b", 2, [3, 5], layer=gradients, data=replicas("")))
        yield "2 replicas, shares", self.plan(spec("1f1b", 2, [3, 5], layer=gradients, data=replicas(", shard: optimizer")))

    def test_any_cut_loads_into_any_other(self):
        plans = dict(self.plans())
        for own in (False, True):
            fits = {what: plan for what, plan in plans.items() if not (own and plan.facts["shards_updates"])}
            expected = None  # whatever the cut: what one rank has then
            for what, plan in fits.items():
                saved = Ranks(plan, own)
                saved.train()
                path = saved.save(self.folder / f"{what}-{own}")
                weights, states = Ranks(plans["1 rank"], own, seed=1).load(path).values()
                expected = expected or (weights, states)
                self.assertEqual(len(states), LAYERS * 4 * 3)
                self.same(expected[0], weights)
                self.same(expected[1], states)
                self.same(weights, saved.values()[0])
                whole = {f"{layer}.{name}": value for (layer, name), value in weights.items()}
                self.same(whole, pipec.torch.whole(path.parent))
                torch.nn.Sequential(*(make() for make in layers_of())).load_state_dict(pipec.torch.whole(path))
                for other, into in fits.items() if what in ("4 ranks", "2 replicas, shares") else ():
                    with self.subTest(f"{what} into {other}, {'the program' if own else 'the plan'}'s optimizer"):
                        again = Ranks(into, own, seed=1).load(path).save(self.folder / f"{what}-{other}-{own}", step=3)
                        weights, states = Ranks(plans["1 rank"], own, seed=1).load(again).values()
                        self.same(expected[0], weights)
                        self.same(expected[1], states)

    def test_a_replicas_buffers_are_its_own(self):
        plan = dict(self.plans())["2 replicas"]
        saved = Ranks(plan)
        saved.train()
        loaded = Ranks(plan, seed=1).load(saved.save(self.folder / "states"))
        for one, other in zip(saved.models, loaded.models):
            for stage, module in one.modules.items():
                self.same(module.state_dict(), other.modules[stage].state_dict())

    def test_the_newest_stay(self):
        plan = self.plan(spec("1f1b", 2, [1, 1]))
        ranks = Ranks(plan, keep=2)
        for step in (1, 3, 12, 100):
            ranks.save(self.folder / "states", step)
        self.assertEqual(sorted(each.name for each in (self.folder / "states").iterdir()), ["step-00000012", "step-00000100"])
        with self.assertRaisesRegex(pipec.SpecError, "keep is 0: expected how many checkpoints stay"):
            Ranks(plan, keep=0)
        with self.assertRaisesRegex(pipec.SpecError, "save is 'never': expected 'between' two steps, or 'beside'"):
            Ranks(plan, save="never")

    def test_what_is_written_beside_is_of_its_step(self):
        plan = self.plan(spec("1f1b", 2, [1, 1]))
        ranks = Ranks(plan, save="beside")
        ranks.train()
        expected = {key: value.clone() for key, value in ranks.values()[0].items()}
        path = self.folder / "states" / "step-00000002"
        for each in ranks.checkpoints:
            each.note_random()
            each.save(types.SimpleNamespace(step=2, path=os.fsencode(path)))
        ranks.train()
        for each in reversed(ranks.checkpoints):
            each.end()
        self.same({f"{layer}.{name}": value for (layer, name), value in expected.items()}, pipec.torch.whole(path))

    def test_names_of_the_whole_model(self):
        plan = self.plan(spec("1f1b", 2, [1, 1]))
        path = Ranks(plan, names=lambda layer, name: f"model.blocks.{layer}.{name}").save(self.folder / "states")
        index = json.loads((path / "model.safetensors.index.json").read_text(encoding="utf-8"))
        self.assertEqual(index["weight_map"]["model.blocks.1.0.weight"], "layer-00001.safetensors")
        self.assertEqual(index["weight_map"].keys(), pipec.torch.whole(path).keys())
        with self.assertRaisesRegex(pipec.SpecError, "names calls two tensors weight, of layer 0"):
            Ranks(plan, names=lambda layer, name: name.split(".")[-1])
        with self.assertRaisesRegex(pipec.SpecError, "names calls two tensors 0.weight, in layer-00000.safetensors and in"):
            Ranks(plan, names=lambda layer, name: name).save(self.folder / "others")

    def test_stages_of_the_programs_own(self):
        """They are whole units: for the same cut."""
        def modules(rank):
            return {rank: torch.nn.ModuleDict({"inner": torch.nn.Linear(4, 4)})}

        path = Ranks(self.plan(spec("1f1b", 2, [2, 2])), modules=modules).save(self.folder / "states")
        Ranks(self.plan(spec("zb-h1", 2, [2, 2])), modules=modules).load(path)
        self.assertEqual(pipec.torch.whole(path).keys(), {"0.inner.weight", "0.inner.bias", "2.inner.weight", "2.inner.bias"})
        with self.assertRaisesRegex(pipec.SpecError, "rank 0 has layers 0 to 2 in one module, and there the checkpoint has layers 0 to 1 "
                                    "in one module and layers 2 to 3 in one module: a stage that is no Sequential"):
            Ranks(self.plan(spec("1f1b", 2, [3, 1])), modules=modules).load(path)

    def test_another_model_is_refused(self):
        plan = self.plan(spec("1f1b", 2, [1, 1]))
        path = Ranks(plan).save(self.folder / "states")
        cases = [
            ("1f1b", [1, 2], {}, r"is of a model of 2 layers, the plan .* has 3: resume with a plan of as many layers"),
            ("1f1b", [1, 1], {"layers": [lambda: torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(4))] * 2},
             r"layer 0: the checkpoint is of another model: 0.0.bias is \(4,\) of torch.float32 there, \(8,\) of torch.float32 in the "
             r"run; 0.0.weight is \(4, 4\) of torch.float32 there, \(8, 4\) of torch.float32 in the run"),
            ("1f1b", [1, 1], {"layers": [lambda: torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.PReLU())] * 2},
             "layer 0: .*: the run lacks 0.1.bias, 0.1.num_batches_tracked, 0.1.running_mean, 0.1.running_var; 0.1.weight is "),
            ("1f1b", [1, 1], {"own": True}, r"the checkpoint has \[\] in its state, the run \['optimizer'\]"),
        ]
        for schedule, cut, options, message in cases:
            with self.subTest(message), self.assertRaisesRegex(pipec.SpecError, message):
                Ranks(self.plan(spec(schedule, 2, cut)), **options).load(path)
        ranks = Ranks(plan)
        for each in ranks.optimizers:
            each.by_layer = {key: torch.optim.SGD(of.param_groups[0]["params"], lr=1) for key, of in each.by_layer.items()}
        with self.assertRaisesRegex(pipec.SpecError, "the optimizer of stage 0 is a SGD, in the checkpoint a AdamW"):
            ranks.load(path)

    def test_half_a_checkpoint_is_refused(self):
        plan = self.plan(spec("1f1b", 1, [2]))
        whole = Ranks(plan).save(self.folder / "states")

        def truncate(path):
            os.truncate(path, path.stat().st_size - 4)

        def change(path):
            data = path.read_bytes()
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

        for name, spoil, message in [
                ("manifest.json", pathlib.Path.unlink, "manifest.json: a checkpoint has a manifest, and this one cannot be read: No such file"),
                ("manifest.json", truncate, "manifest.json: is damaged. Resume from another step's folder"),
                ("layer-00001.safetensors", pathlib.Path.unlink, "layer-00001.safetensors: the manifest names this file, which cannot be"),
                ("layer-00001.safetensors", truncate, r"layer-00001.safetensors: is not what was saved: it has \d+ bytes, the manifest "),
                ("layer-00000.optimizer.safetensors", change, "is not what was saved: it has .* bytes of another content"),
                ("state/process-00000.safetensors", pathlib.Path.unlink, "process-00000.safetensors: the manifest names this file")]:
            with self.subTest(message):
                path = self.folder / "spoiled" / whole.name
                shutil.copytree(whole, path)
                spoil(path / name)
                with self.assertRaisesRegex(pipec.SpecError, message):
                    Ranks(plan).load(path)
                if name.startswith(("manifest", "layer-00001")):
                    with self.assertRaisesRegex(pipec.SpecError, message):
                        pipec.torch.whole(path.parent)
                shutil.rmtree(path)
        with self.assertRaisesRegex(pipec.SpecError, "there is no checkpoint: expected a folder with step-"):
            pipec.torch.whole(self.folder / "none")

    def test_plain_values_come_back(self):
        value = {"a": (1, 2.5, None, True), 7: [b"\x00\xff", {"7": torch.arange(3)}], "7": {}, "inf": float("inf"), "x/y": "text",
                 "t": [torch.ones(2), torch.zeros((), dtype=torch.int64)]}
        tensors = {}
        found = unpack(json.loads(json.dumps(pack(value, tensors, "state"))), tensors)
        self.assertEqual(str(found), str(value))

    @unittest.skipUnless(SOAK, "transformers takes long to import")
    def test_transformers_reads_it(self):
        import transformers
        config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=16, tie_word_embeddings=False)
        torch.manual_seed(1)
        model = transformers.GPT2LMHeadModel(config)
        inner = model.transformer
        layers = [torch.nn.ModuleDict({"wte": inner.wte, "wpe": inner.wpe}), *inner.h,
                  torch.nn.ModuleDict({"ln_f": inner.ln_f, "lm_head": model.lm_head})]

        def names(layer, name):
            if 0 < layer < 3:
                return f"transformer.h.{layer - 1}.{name}"
            return name if name.startswith("lm_head") else f"transformer.{name}"

        path = Ranks(self.plan(spec("1f1b", 2, [3, 1])), own=True, layers=layers, names=names).save(self.folder / "states")
        config.save_pretrained(path)
        self.same(model.state_dict(), transformers.GPT2LMHeadModel.from_pretrained(path).state_dict())
        self.same(model.state_dict(), pipec.torch.whole(path))

    def test_what_is_not_plain_is_refused(self):
        class Position:
            def state_dict(self):
                return {"place": {"at": Position()}}

        ranks = Ranks(self.plan(spec("1f1b", 1, [2])), state={"loader": Position()})
        with self.assertRaisesRegex(pipec.SpecError, r"state/state/loader/place/at is a .*Position, and a checkpoint keeps tensors and plain "
                                    "values alone .*: let its state_dict give these"):
            ranks.save(self.folder / "states")


class RunTest(RunsTest):
    """Of runs in processes."""

    def case(self, text, steps, **more):
        return {"plan": self.plan(text), "layers": 4, "steps": steps, "rows": ROWS, "seed": 7, "checkpoint": str(self.folder / "states"),
                **more}

    def ends_as_plain(self, said, case):
        """All stages are as one process without a stop has them."""
        modules = self.modules(case)
        *_, (right, _) = models.plain(modules, case["steps"], 4, ROWS, pipec.torch.reseed, 7)
        found = {int(stage): digest for each in said for stage, digest in each[-1]["digests"][-1].items()}
        self.assertEqual(found, right)

    def test_four_ranks_go_on_as_two(self):
        first = self.case(run_spec("1f1b", 4), 2)
        self.assertEqual([each[0].get("error") for each in self.run_cases(4, [first])], [None] * 4)
        second = self.case(run_spec("v-half", 2, ", placement: v"), 4, resume=True)
        said = self.run_cases(2, [second])
        self.assertEqual([each[0].get("error") for each in said], [None] * 2)
        self.assertEqual([len(each[0]["digests"]) for each in said], [2, 2])
        self.ends_as_plain(said, second)

    def test_killed_in_a_save_the_folder_is_whole(self):
        draw, text, folder = random.Random(4), run_spec("1f1b", 2), self.folder / "states"
        case = self.case(text, 10**6, layers=2, every=1, keep=2, save="beside", resume=True)
        last = 0
        for _ in range(100 if SOAK else 3):
            processes = self.begin(2, [case])
            end = time.monotonic() + HANG
            while (not folder.exists() or newest(folder) <= last) and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(draw.random() / 10)
            for process in processes:
                process.kill()
            for process in processes:
                process.wait(timeout=HANG)
            for step, path in steps(folder):
                reader = Reader(path)
                self.assertEqual(reader.step, step)
                for name in reader.facts["files"]:
                    reader.read(name)
            self.assertIn(len(steps(folder)), (2, 3) if last else (1, 2, 3))  # one more, where it was to be removed
            last = newest(folder)
        case = {**case, "steps": last + 2}
        self.ends_as_plain(self.run_cases(2, [case]), case)
        self.assertEqual(sorted(each.name for each in folder.iterdir()), [f"step-{last + n:08}" for n in (1, 2)])

    def test_an_interrupt_leaves_a_checkpoint(self):
        case = self.case(run_spec("zb-h1", 2), 10**6, layers=2, progress=True)
        processes = self.begin(2, [case])
        end = time.monotonic() + HANG
        while "step" not in self.said_by(processes[0])[1] and time.monotonic() < end:
            time.sleep(0.05)
        processes[1].send_signal(signal.SIGINT)
        codes = [process.wait(timeout=HANG) for process in processes]
        self.assertEqual(codes[0], 0, self.said_by(processes[0]))  # which goes on behind its block
        self.assertNotEqual(codes[1], 0)
        self.assertIn("KeyboardInterrupt", self.said_by(processes[1])[1])
        done = len(json.loads(self.said_by(processes[0])[0])["digests"])
        self.assertEqual(newest(self.folder / "states"), done)
        case = {**case, "steps": done + 1, "resume": True}
        self.ends_as_plain(self.run_cases(2, [case]), case)

    def test_an_older_checkpoint_is_refused(self):
        folder = self.folder / "states"
        folder.mkdir()
        (folder / "manifest.json").write_text('{"pipec_checkpoint": 1, "step": 2, "stages": [[0]], "files": []}')
        options = {"loss": lambda output, y: output.sum(), "progress": False, "checkpoint": folder}
        plan = pipec.load(self.plan(run_spec("1f1b", 1)))
        with self.assertRaisesRegex(pipec.SpecError, "has a checkpoint with a state of each process, as earlier versions wrote it: go on "
                                    "from it with the version that wrote it, or begin anew without it with overwrite"):
            pipec.torch.Run(plan, {0: torch.nn.Linear(4, 4)}, resume=True, **options)
        with pipec.torch.Run(plan, {0: torch.nn.Linear(4, 4)}, overwrite=True, **options) as run:
            run.step(torch.zeros(8, 4), target=torch.zeros(8, 4))
        self.assertEqual([each.name for each in folder.iterdir()], ["step-00000001"])


if __name__ == "__main__":
    unittest.main()
