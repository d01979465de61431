"""Exported orders in real PyTorch: the example of specs/pytorch trains under torchrun, and gradients are those of a single
process. PIPEC_TORCH_PYTHON names an interpreter whose torch has pipelining (default: python3); where there is none, the
test is skipped, which PIPEC_TORCH_REQUIRED=1 (tools/soak) makes a failure."""
import os
import re
import shutil
import subprocess
import sys
import unittest

import support
import torch_format

EXAMPLE = support.SPECS / "pytorch"
PYTHON = os.environ.get("PIPEC_TORCH_PYTHON") or shutil.which("python3")
REQUIRED = os.environ.get("PIPEC_TORCH_REQUIRED", "") not in ("", "0")
FIND = "import torch, torch.distributed.pipelining as p; print(torch.__version__)"
CASES = [  # schedule, ranks, microbatches, what else of the pipeline, communicator
    ("1f1b", 2, 4, "", "shared"),
    ("interleaved-1f1b", 2, 4, ", stages_per_rank: 2", "per_edge"),
    ("zb-v", 2, 4, "", "shared"),
    ("gpipe", 2, 2, "", "per_pair"),
    ("looped-bfs", 2, 4, ", stages_per_rank: 2", "shared"),
    ("interleaved-zb", 2, 4, ", stages_per_rank: 2", "per_pair"),
    ("kfkb", 4, 8, "", "per_edge"),
    ("zb-v", 4, 8, "", "per_edge"),
    ("interleaved-zb", 4, 8, ", stages_per_rank: 2", "shared"),
    ("1f1b", 3, 7, "", "per_edge"),
    ("dualpipe-v", 2, 4, "", "shared"),
    ("dualpipe-v", 4, 10, "", "per_edge"),
]


def release():
    done = subprocess.run([PYTHON, "-c", FIND], capture_output=True, text=True, timeout=support.HANG) if PYTHON else None
    return done.stdout.strip() if done and done.returncode == 0 else None


RELEASE = release()


class Torch(support.ToolTest):
    def setUp(self):
        super().setUp()
        if RELEASE is None:
            why = f"{PYTHON} has no torch.distributed.pipelining, so no exported order was run (set PIPEC_TORCH_PYTHON)"
            if REQUIRED:
                self.fail(why)
            self.skipTest("SKIPPED: " + why)

    def train(self, order, ranks, *arguments):
        command = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, EXAMPLE / "train.py",
                   order, *arguments]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=support.HANG,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, f"torch {RELEASE}, {order}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def assert_same_gradients(self, text):
        found = re.search(r"largest relative difference .*: (\S+)", text)
        self.assertTrue(found, text)
        self.assertLess(float(found[1]), 1e-12)

    def test_the_example_trains(self):
        order = self.folder / "zb-v.csv"
        self.pipec("compile", EXAMPLE / "zb-v.yaml", "--emit=torch-csv", f"--torch={RELEASE}", "-o", order)
        text = self.train(order, 4, "--steps", 20, "--check")
        self.assert_same_gradients(text)
        losses = [float(loss) for loss in re.findall(r"loss (\S+)", text)]
        self.assertEqual(len(losses), 20)
        self.assertLess(losses[-1], losses[0])

    def test_actions_are_measured(self):
        """tools/gpu-check puts pipec's beside them, on a GPU."""
        order = self.folder / "order.csv"
        self.pipec("compile", self.spec("pipec: 1\npipeline: {ranks: 1, stages_per_rank: 4, microbatches: 3}\n"
                                        "costs: {forward: 1ns, backward: 1ns}\nschedule: interleaved-1f1b\n"),
                   "--emit=torch-csv-compute", "-o", order)
        done = subprocess.run([PYTHON, support.SOURCE / "test/bench/torch_actions.py", order, "--device", "cpu", "--steps", "3"],
                              capture_output=True, text=True, timeout=support.HANG)
        self.assertEqual(done.returncode, 0, f"torch {RELEASE}\n{done.stderr}")
        self.assertGreater(float(done.stdout.splitlines()[-1]), 0)  # microseconds; 2.8 has Gloo say something before

    def test_gradients(self):
        for case, (schedule, ranks, microbatches, more, communicator) in enumerate(CASES if support.SOAK else CASES[:3]):
            spec = self.folder / "spec.yaml"
            text = torch_format.SPEC.format(ranks=ranks, microbatches=microbatches, more=more, schedule=schedule,
                                                     communicator=communicator)
            # Of the schedules only this one has pairs, which PyTorch runs one after the other.
            spec.write_text(text.replace("link:", "overlapped: 25ms, link:", 1) if schedule == "dualpipe-v" else text)
            for emit in ("torch-csv", "torch-csv-compute") if support.SOAK or case == 0 else ("torch-csv",):
                with self.subTest(torch=RELEASE, schedule=schedule, ranks=ranks, emit=emit):
                    order = self.folder / "order.csv"
                    self.pipec("compile", spec, f"--emit={emit}", f"--torch={RELEASE}", "-o", order)
                    self.assert_same_gradients(self.train(order, ranks, "--steps", 2, "--check"))


if __name__ == "__main__":
    print(f"torch {RELEASE} of {PYTHON}", file=sys.stderr)
    unittest.main()
