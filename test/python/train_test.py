"""Training through plans, held against a plain loop in one process: to the last bit."""
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import models
import torch

import pipec
import pipec.torch

SOAK = os.environ.get("PIPEC_SOAK", "") not in ("", "0")
HERE = pathlib.Path(__file__).resolve().parent
HANG = 1800 if SOAK else 900
ROWS = 8  # of a batch, in four microbatches
BOUNDARY = ROWS // 4 * models.LENGTH * models.WIDTH * 4

SPEC = """\
pipec: 1
pipeline: {ranks: RANKS, microbatches: 4MORE}
costs: {forward: 2ms, backward_input: 2ms, backward_weight: 2msCOSTS}
tensors: {boundary: BOUNDARYB, activation: 1MiB, weight_context: 512KiB}
schedule: SCHEDULE
"""


def spec(schedule, ranks, more="", costs="", tail="", boundary=BOUNDARY):
    text = SPEC.replace("SCHEDULE", schedule).replace("RANKS", str(ranks)).replace("MORE", more).replace("COSTS", costs)
    return text.replace("BOUNDARY", str(boundary)) + tail


def free_port():
    while True:
        port = random.randrange(15000, 29000)
        with socket.socket() as one, socket.socket() as above:
            try:
                one.bind(("127.0.0.1", port))
                above.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                pass


class TrainTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pipec-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.plans, self.files = 0, {}

    def plan(self, text, **settings):
        """The path of a spec's plan."""
        self.plans += 1
        source, path = self.folder / f"spec-{self.plans}.yaml", self.folder / f"plan-{self.plans}.pipe"
        source.write_text(text, encoding="utf-8")
        pipec.compile(source, set=settings).save(path)
        return str(path)

    def begin(self, world, cases):
        port, processes = free_port(), []
        for rank in range(world):
            environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world),
                           "RANK": str(rank), "LOCAL_RANK": str(rank), "PIPEC_SECRET": "of the test", "OMP_NUM_THREADS": "1"}
            files = [open(self.folder / f"said-{len(self.files)}-{rank}{name}", "w+") for name in (".out", ".err")]
            process = subprocess.Popen([sys.executable, HERE / "trains.py"], env=environment, stdin=subprocess.PIPE,
                                       stdout=files[0], stderr=files[1], text=True)
            process.stdin.write(json.dumps(cases))
            process.stdin.close()
            processes.append(process)
            self.files[process] = files
            for last in (*(file.close for file in files), process.wait, process.kill):
                self.addCleanup(last)
        return processes

    def said_by(self, process):
        """What stands on its standard output and error so far: in files, as pipes fill up."""
        return [pathlib.Path(file.name).read_text(encoding="utf-8") for file in self.files[process]]

    def end(self, processes, code=0):
        """[of each rank: [what it said of each case]]."""
        said = []
        for rank, process in enumerate(processes):
            process.wait(timeout=HANG)
            out, error = self.said_by(process)
            self.assertEqual(process.returncode, code, f"rank {rank}: {out}\n{error}")
            said.append([json.loads(line) for line in out.splitlines()])
        return said

    def run_cases(self, world, cases):
        return self.end(self.begin(world, cases))

    def modules(self, case):
        plan = pipec.load(case["plan"])
        dtype = torch.float64 if case.get("double") else torch.float32
        made = {}
        for rank in range(plan.ranks):
            made.update(pipec.torch.stages(plan, models.layers(case["layers"]), rank))
        return {s: made[s].to(dtype) for s in sorted(made)}

    def check(self, cases, said):
        """Every weight after every step, and the losses, are the plain loop's."""
        plain = {}
        for number, case in enumerate(cases):
            with self.subTest(case["what"]):
                for each in said:
                    self.assertNotIn("error", each[number])
                # The plain loop depends on nothing of the schedule but where the stages end.
                key = (tuple(pipec.load(case["plan"]).cut), case["layers"], case["steps"], case.get("clip"))
                if key not in plain:
                    plain[key] = list(models.plain(self.modules(case), case["steps"], 4, ROWS, pipec.torch.reseed,
                                                   case.get("seed", 0), case.get("clip")))
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
            self.case("the plan's optimizer", spec("1f1b", 2, costs=optimizer), 2, planned=True),
        ]
        self.check(cases, self.run_cases(2, cases))

    def test_four_ranks_train_like_one_process(self):
        v = ", placement: v"
        cases = [
            self.case("1f1b", spec("1f1b", 4), 4, steps=50 if SOAK else 8),
            self.case("split", spec("zb-h1", 4), 4, steps=50 if SOAK else 8),
            self.case("v-half", spec("v-half", 4, v), 8, steps=50 if SOAK else 8),
            self.case("recomputed", spec("v-min", 4, v, tail="recompute: all\n"), 8, steps=50 if SOAK else 8),
        ]
        self.check(cases, self.run_cases(4, cases))


if __name__ == "__main__":
    unittest.main()
