"""Pipelines side by side in a mesh of 2 x 2 processes, whose stages are sharded, replicated or split among tensors by PyTorch's own means."""
import re
import shutil
import unittest

import meshes
import torch
from runs import SOAK, RunsTest
from torch import nn

import pipec
import pipec.torch

SCHEDULES = {
    "1f1b": ", cut: [2, 2]}\nschedule: 1f1b\n",
    "zb-h1": ", cut: [2, 2]}\nschedule: zb-h1\n",
    "recomputed": ", cut: [2, 2]}\nschedule: 1f1b\nrecompute: all\n",
    "zb-v": ", cut: [1, 1, 1, 1], placement: v}\nschedule: zb-v\n",
}
HOW = {"none": ["zb-v"], "fully_shard": ["1f1b", "zb-v"], "ddp": ["recomputed", "zb-h1"], "tp": ["zb-h1"]}  # in CI


def spec(schedule):
    return (f"pipec: 1\npipeline: {{ranks: 2, microbatches: {meshes.MICROBATCHES}{SCHEDULES[schedule]}layers:\n"
            "- {forward: 2ms, backward_input: 2ms, backward_weight: 2ms, activation: 1MiB, weight_context: 512KiB, count: 4}\n"
            f"tensors: {{boundary: {meshes.ROWS // meshes.MICROBATCHES * meshes.WIDTH * 4}B}}\n")


class MeshesTest(RunsTest):
    program, forks = "meshes.py", False  # a process group has threads

    def test_each_pipeline_of_a_mesh_trains_with_what_its_stages_are_wrapped_in(self):
        cases = [{"how": how, "schedule": schedule, "plan": self.plan(spec(schedule))}
                 for how, schedules in (HOW if not SOAK else dict.fromkeys(HOW, SCHEDULES)).items() for schedule in schedules]
        said = self.run_cases(4, cases)
        right = {parts: meshes.plain(parts) for parts in (1, 2)}
        for number, case in enumerate(cases):
            how = case["how"]
            with self.subTest(f"{how}, {case['schedule']}"):
                self.assertEqual([each[number].get("error") for each in said], [None] * 4)
                if how in ("fully_shard", "ddp"):  # once a step, each of the two that a rank has
                    self.assertEqual([each[number]["sums"] for each in said], [2] * 4)
                for dp in range(2) if how != "none" else (0,):
                    found = {name: torch.tensor(value) for rank in (dp, 2 + dp) for name, value in said[rank][number]["weights"].items()}
                    wanted = right[1 if how in ("tp", "none") else 2]
                    self.assertEqual(found.keys(), wanted.keys())
                    for name, value in wanted.items():
                        # Shards of a matrix sum in another order; AdamW of PyTorch 2.8 rounds otherwise where tensors are sharded.
                        rounds = how == "tp" or how == "fully_shard" and torch.__version__.startswith("2.8.")
                        torch.testing.assert_close(found[name], value.detach(), rtol=0, atol=1e-6 if rounds else 0)

    def test_checkpoints_of_sharded_layers(self):
        """Whole tensors, which load into the whole model and into any mesh, with the optimizer's state, to the bit."""
        states = self.folder / "states"
        case = {"how": "fully_shard", "plan": self.plan(spec("1f1b")), "states": str(states), "steps": meshes.STEPS - 1}
        said = self.run_cases(4, [case])
        self.assertEqual([each[0].get("error") for each in said], [None] * 4)
        found = pipec.torch.whole(states)
        for (each,) in said:
            for name, value in each["weights"].items():
                self.assertEqual(found[name].tolist(), value)
        model = nn.Sequential(*meshes.layers())
        model.load_state_dict(found)
        # One pipeline has written layers, each has its processes' states.
        self.assertEqual(sorted(path.name for path in states.glob("step-*/layer-*")), sorted(
            f"layer-{n:05}{kind}.safetensors" for n in range(4) for kind in ("", ".optimizer")))
        self.assertEqual([path.name for path in states.glob("pipeline-1/step-*/*.safetensors")], [])
        self.assertEqual(len([*states.glob("pipeline-1/step-*/state/process-*")]), 2)
        for name in ("other", "newer"):
            shutil.copytree(states, self.folder / name)
        shutil.rmtree(self.folder / "other" / "pipeline-1")  # of a mesh without it
        newer = self.folder / "newer" / "pipeline-1"
        shutil.copytree(next(newer.glob("step-*")), newer / "step-00000009")  # of which the first pipeline has none
        cases = [{"how": "fully_shard", "plan": self.plan(spec("zb-v")), "states": str(self.folder / "newer")},
                 {"how": "tp", "plan": self.plan(spec("zb-h1")), "states": str(self.folder / "other")},
                 {"how": "fully_shard", "plan": case["plan"], "states": str(states)}]
        said = self.run_cases(4, cases)
        right = meshes.plain(2)
        for number, case in enumerate(cases):
            self.assertEqual([each[number].get("error") for each in said], [None] * 4)
            self.assertEqual([len(each[number]["losses"]) for each in said], [1] * 4)
            if case["how"] == "tp":  # trains on other rows
                continue
            for dp in range(2):
                found = {name: torch.tensor(value) for rank in (dp, 2 + dp) for name, value in said[rank][number]["weights"].items()}
                self.assertEqual(found.keys(), right.keys())
                for name, value in right.items():
                    torch.testing.assert_close(found[name], value.detach(), rtol=0, atol=1e-6 if torch.__version__.startswith("2.8.") else 0)

    def test_a_group_of_another_size(self):
        said = self.run_cases(4, [{"how": "size", "plan": self.plan(spec("1f1b"))}])
        for each in said:
            self.assertTrue(re.search("the plan is for 2 processes, the group has 4: let the mesh have", each[0]["error"]), each)


if __name__ == "__main__":
    unittest.main()
