"""pipec.profile: what it measures, the spec that it writes, and that training holds what the plan of that spec says."""
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from runs import HANG, HERE, FolderTest, Program, free_port

import pipec
import pipec.profile
import pipec.running

PERCEPTRON = """\
import torch
from torch.nn import Linear, Sequential, Tanh

def layers():
    return [Linear(8, 16), lambda: Sequential(Tanh(), Linear(16, 4))]

def example(n):
    return torch.rand(n, 8)

def target(n):
    return torch.rand(n, 4)

def loss(output, target):
    return ((output - target) ** 2).mean()
"""

PAIRS = """\
import torch

class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(16, 16)

    def forward(self, x):
        return self.inner(x[0]).tanh() * x[1], x[1]

def layers():
    return [Pair, Pair, Pair]

def example(n):
    return torch.rand(n, 16), torch.rand(n, 16) > 0.5

def target(n):
    return torch.rand(n, 16)

def loss(output, target):
    return ((output[0] - target) ** 2).mean()
"""

TIED = """\
import torch
from torch.nn import Embedding, Linear

def layers():
    words, head = Embedding(8, 4), Linear(4, 8, bias=False)
    head.weight = words.weight
    return [words, Linear(4, 4), head]

def example(n):
    return torch.arange(n) % 8

target = example

def loss(output, target):
    return torch.nn.functional.cross_entropy(output, target)
"""

TRANSFORMER = f"""\
import sys
import torch
sys.path.insert(0, {str(HERE)!r})
import models
from models import loss

def layers():
    return models.layers(8)

def example(n):
    return torch.randint(models.WORDS, (n, models.LENGTH))

target = example
"""


class ProfileTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.spec = self.folder / "model.yaml"

    def file(self, text, name="model.py"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def launch(self, world, start):
        """start(rank, its environment) starts each of `world` processes; they end with 0."""
        places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world),
                  "PIPEC_SECRET": "of the test", "OMP_NUM_THREADS": "1"}
        processes = [start(rank, {**places, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(world)]
        for process in processes:
            for last in (process.wait, process.kill):
                self.addCleanup(last)
        self.assertEqual([process.wait(timeout=HANG) for process in processes], [0] * world)

    def held(self, world, model, plans):
        """[of each rank: [what holds.py says of each plan]]."""
        files = [open(self.folder / f"held-{rank}", "w") for rank in range(world)]
        command = [sys.executable, HERE / "holds.py", model, 2, *plans]
        self.launch(world, lambda rank, environment: Program(command, env=environment, stdout=files[rank]))
        for file in files:
            file.close()
        return [[json.loads(line) for line in pathlib.Path(file.name).read_text(encoding="utf-8").splitlines()] for file in files]

    def profile(self, *arguments, code=0):
        """Its standard output and error."""
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            try:
                found = pipec.profile.main([*map(str, arguments)])
            except SystemExit as end:  # argparse's
                found = end.code
        self.assertEqual(found, code, error.getvalue())
        return out.getvalue(), error.getvalue()

    def test_layers_that_hand_on_trees(self):
        """A hidden state and a mask, of 3 samples: the mask begins at a multiple of 64 bytes."""
        out, _ = self.profile(self.file(PAIRS), "--microbatch", 3, "--repeat", 2, "--json", "-o", self.spec)
        self.assertEqual([layer["boundary"] for layer in json.loads(out)["layers"]], [192 + 48, 192 + 48, 4])
        plan = pipec.compile(self.spec)
        self.assertEqual([[each.output_bytes for each in plan.stages(rank)] for rank in range(2)], [[192 + 48], [0]])
        self.assertEqual([layer.get("boundary_gradient") for layer in json.loads(out)["layers"]], [192, 192, None])
        self.assertEqual(plan.stages(0)[0].output_gradient_bytes, 192)

    def test_weights_that_layers_share(self):
        out, _ = self.profile(self.file(TIED), "--microbatch", 3, "--repeat", 2, "--json", "-o", self.spec)
        self.assertEqual(json.loads(out)["shared"], [{"layers": [0, 2], "gradients": "128B"}])
        self.assertEqual(pipec.compile(self.spec).report()["shared"], [{"layers": [0, 2], "stages": [0, 1], "gradient_bytes": 128}])

    def test_a_perceptron_by_hand(self):
        out, _ = self.profile(self.file(PERCEPTRON), "--microbatch", 3, "--repeat", 2, "--json", "-o", self.spec)
        found = json.loads(out)
        sizes = [{name: value for name, value in layer.items() if not name.endswith("_ms")}
                 for layer in found["layers"]]
        hidden, output = 3 * 16 * 4, 3 * 4 * 4
        first, second = 4 * (8 * 16 + 16), 4 * (16 * 4 + 4)
        self.assertEqual(sizes, [
            # Its input is the batch's. It is all W, for which the gradient waits.
            {"name": "Linear", "count": 1, "activation": 0, "weight_context": 0, "backward_context": hidden,
             "boundary": hidden, "weights": first, "gradients": first, "optimizer_state": 2 * first},
            # F keeps tanh's result, which is the matrix's input too, and the loss its difference; B has the gradient of
            # the output in place of the latter.
            {"name": "Sequential", "count": 1, "activation": 0, "weight_context": hidden + output,
             "backward_context": 0, "boundary": 4, "weights": second, "gradients": second,
             "optimizer_state": 2 * second}])
        for layer in found["layers"]:
            self.assertTrue(all(layer[f"{name}_ms"] > 0 for name in ("forward", "backward", "optimizer")))
        plan = pipec.compile(self.spec)
        self.assertEqual((plan.ranks, plan.cut, plan.microbatches, plan.report()["schedule"]), (2, [1, 1], 4, "1f1b"))
        self.assertEqual([[each.output_bytes for each in plan.stages(rank)] for rank in range(2)], [[hidden], [0]])
        # A layer's weights, gradients and state are always there; a transfer each way is in flight.
        self.assertEqual(plan.report()["peak_bytes"][1] - plan.report()["peak_activation_bytes"][1] - 4 * second,
                         3 * hidden)

    def test_a_model_without_a_loss(self):
        """The gradient that its last layer begins from is nobody's."""
        head = "from __future__ import annotations\nimport dataclasses\n\n@dataclasses.dataclass\nclass Sizes:\n    wide: int = 1000\n\n"
        text = PERCEPTRON.split("def target")[0].replace("Linear(16, 4)", "Linear(16, Sizes().wide)")
        out, _ = self.profile(self.file(head + text), "--microbatch", 3, "--repeat", 2, "--json", "-o", self.spec)
        last = json.loads(out)["layers"][-1]
        self.assertEqual((last["activation"], last["weight_context"]), (0, 3 * 16 * 4))  # tanh's result
        pipec.compile(self.spec)

    def test_layers_built_alike_are_one(self):
        self.profile(self.file(TRANSFORMER), "--repeat", 2, "--ranks", 4, "-o", self.spec)
        text = self.spec.read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"name: (\w+)|count: (\d+)", text),
                         [("Embedding", ""), ("Block", ""), ("", "6"), ("Head", "")])
        self.assertEqual(pipec.compile(self.spec).ranks, 4)

    def test_times_and_sizes_by_sample(self):
        self.profile(self.file(PERCEPTRON), "--microbatch", 2, 4, 8, "--repeat", 2, "-o", self.spec)
        self.assertIn("boundary: {fixed: 0B, per_sample: 64B}", self.spec.read_text(encoding="utf-8"))
        for samples, boundary in ((2, 128), (4, 256)):
            plan = pipec.compile(self.spec, set={"pipeline.microbatch_size": samples})
            self.assertEqual(plan.stages(0)[0].output_bytes, boundary)

    def test_ranks_measure_their_links(self):
        command = [sys.executable, "-m", "pipec.profile", self.file(TRANSFORMER), "--repeat", "2", "-o", self.spec]
        self.launch(3, lambda rank, environment: subprocess.Popen(command, env={**os.environ, **environment},
                                                                  stdout=subprocess.DEVNULL))
        text = self.spec.read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"from: (\d), to: (\d), latency: [\d.]+us, bandwidth: [\d.]+GB/s", text),
                         [("0", "1"), ("1", "0"), ("1", "2"), ("2", "1")])
        self.assertEqual(pipec.compile(self.spec).ranks, 3)

    def test_links_take_what_ranks_wait_for(self):
        for apart in (0, 0.25):  # clocks
            events = {("F", 0, 5, 0): (0, 2, -1), ("F", 1, 5, 0): (3 + apart, 4 + apart, 1 + apart),
                      ("F", 0, 5, 1): (2, 5, 2), ("BW", 1, 5, 0): (4 + apart, 10 + apart, 4 + apart),
                      ("BW", 0, 5, 0): (12, 13, 5), ("BW", 1, 5, 1): (11 + apart, 14 + apart, 10 + apart)}
            self.assertEqual(pipec.running.transfer(events, 0), (1 + 2) / 2)
        # Not seen, as the rank computed meanwhile.
        self.assertEqual(pipec.running.transfer({("F", 0, 5, 1): (2, 5, 2), ("F", 1, 5, 1): (7, 8, 6)}, 0), 0)

    def test_instructions_are_set_beside_their_layers(self):
        plan = type("Plan", (), {"cut": [1, 2]})
        rows = [{"forward": 1, "backward": 2}, {"forward": 3, "backward": 6}, {"forward": 4, "backward": 8}]
        events = {("F", 0, 3, 0): (0, 2, 0), ("F", 0, 3, 1): (2, 4, 2), ("F", 0, 4, 0): (4, 7, 4), ("F", 1, 3, 0): (2, 12, 0),
                  ("F", 0, 4, 1): (7, 16, 7),  # held up by something else
                  ("BW", 1, 3, 0): (12, 26, 12), ("norm", -1, 3, None): (26, 27, 26)}
        planned, found = ({name: 0 for name in pipec.running.TIMES.values()} for _ in range(2))
        pipec.running.add(plan, rows, events, planned, found)
        self.assertEqual((planned["forward"], found["forward"]), (1 + 3 + 4, (2 + 2 + 3) / 3 + 10))
        self.assertEqual((planned["backward"], found["backward"]), (6 + 8, 14))
        self.assertEqual((planned["backward_weight"], found["optimizer"]), (0, 0))

    def test_wrong_models(self):
        cases = [
            ("no file", None, r"model.py: there is no such file"),
            ("no layers", "def example(n): pass\n", r"model.py: it has no function layers\(\)"),
            ("no example", "def layers(): pass\n", r"model.py: it has no function example\(\)"),
            ("no target", PERCEPTRON.replace("target(n)", "other(n)"), r"model.py: it has loss\(\) and no"),
            ("no Python", "def layers(:\n", r"model.py:1:1: SyntaxError"),
            ("raises", PERCEPTRON.replace("return [Linear", "return [Lineal"), r"model.py:5:1: NameError: name 'Lin"),
            ("raises in a layer", PERCEPTRON.replace("rand(n, 8)", "rand(n, 9)"), r"model.py: RuntimeError: .*mat1"),
            ("another thing", PERCEPTRON.replace("return [Linear", "return [0]  # "), r"layer 0 is a int: expected"),
            ("no module", PERCEPTRON.replace("[Linear(8, 16)", "[lambda: 0"), r"layer 0 is a int: expected"),
            ("no tensor", PERCEPTRON.replace("torch.rand(n, 8)", "[n]"), r"model.py: example\(1\) gives a list"),
            ("few layers", PERCEPTRON.replace("[Linear(8, 16), lambda:", "[Linear(8, 16)]  #"), r"2 ranks are more"),
        ]
        for what, text, message in cases:
            with self.subTest(what):
                path = self.folder / "model.py"
                path.unlink(missing_ok=True)
                out, error = self.profile(path if text is None else self.file(text), "--repeat", 1, code=1)
                self.assertEqual(out, "")
                self.assertRegex(error.splitlines()[-1], f"^profile: .*{message}")
                self.assertNotIn("Traceback", error)

    def test_wrong_usage(self):
        path = self.file(PERCEPTRON)
        self.profile(code=2)
        self.profile(path, "--microbatch", 0, code=2)
        self.profile(path, "--other", code=2)
        self.profile(path, "--repeat", 1, "-o", self.folder / "none" / "spec.yaml", code=1)
        self.assertIn("examples:", self.profile("--help")[0])

    def test_training_holds_what_the_plan_says(self):
        for model in (self.file(TRANSFORMER), HERE.parents[1] / "specs" / "pytorch" / "gpt" / "model.py"):
            self.profile(model, "--microbatch", 2, "--repeat", 1, "-o", self.spec)
            cases = [{"schedule": "1f1b"}, {"schedule": "{name: kfkb, k: 2}"},
                     {"schedule": "1f1b", "recompute": "all"}, {"schedule": "zb-h1"}, {"schedule": "v-half"},
                     {"schedule": "v-min"}, {"schedule": "zb-h1", "recompute": "all"},
                     # Two of the second rank's inputs wait.
                     {"schedule": "{name: kfkb, k: 2}", "recompute": "all"}]
            plans = []
            for number, changes in enumerate(cases):
                # Eight layers, cut equally. Where measured times cut them a rank may have one block alone. The plan counts the
                # gradient that B makes while B still holds everything; the judge looks between instructions, when that is
                # over, and of a single block's bytes the gradient is more than 2 %.
                stages = 4 if changes["schedule"].startswith("v") else 2
                plans.append(self.folder / f"{number}.pipe")
                pipec.compile(self.spec, set={**changes, "pipeline.cut": [8 // stages] * stages}).save(plans[-1])
            said = self.held(2, model, plans)
            for number, changes in enumerate(cases):
                for rank in range(2):
                    with self.subTest(model=model, rank=rank, **changes):
                        peak, predicted = said[rank][number]["peak"], said[rank][number]["predicted"]
                        self.assertLessEqual(peak, 1.02 * predicted)
                        self.assertGreaterEqual(peak, 0.98 * predicted)

    def test_v_half_holds_as_much_less_as_the_certificates_say(self):
        """Four ranks, sixteen microbatches: the fullest rank's activations beside those of 1F1B."""
        model = self.file(TRANSFORMER.replace("layers(8)", "layers(18)"))
        self.profile(model, "--microbatch", 2, "--repeat", 1, "--ranks", 4, "-o", self.spec)
        plans, certified = [], []
        cuts = {"1f1b": [5, 4, 4, 5], "v-half": [3, 2, 2, 2, 2, 2, 2, 3]}  # four blocks a rank
        for number, (schedule, cut) in enumerate(cuts.items()):
            plan = pipec.compile(self.spec, set={"schedule": schedule, "pipeline.microbatches": 16, "pipeline.cut": cut})
            self.assertEqual((plan.ranks, plan.microbatches), (4, 16))
            plans.append(self.folder / f"{number}.pipe")
            plan.save(plans[-1])
            certified.append(max(plan.report()["peak_activation_bytes"]))
        peaks = [max(each["peak"] for each in found) for found in zip(*self.held(4, model, plans))]
        self.assertAlmostEqual(peaks[1] / peaks[0] / (certified[1] / certified[0]), 1, delta=0.02)
        self.assertLess(peaks[1] / peaks[0], 0.8)  # six chunks of half a stage in place of four stages


if __name__ == "__main__":
    unittest.main()
