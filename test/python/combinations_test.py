"""Plans and programs that are drawn: whatever of pipec's is combined, training is that of one process."""
import os
import random
import unittest

import models
import torch
from runs import SOAK, RunsTest

import pipec
import pipec.torch

SEED = int(os.environ.get("PIPEC_SEED") or (random.randrange(1 << 30) if SOAK else 25))
DRAWN = 400 if SOAK else 24
STEPS = 5
WORLDS = ((1, 1), (2, 1), (1, 2), (4, 1), (2, 2), (1, 4))  # ranks and replicas
# By chunks a rank ("v": two, placed there and back): schedules, and whether their backward may be chosen: fused, split or mixed.
SCHEDULES = {
    1: [("1f1b", True), ("gpipe", True), ("eager-1f1b", True), ("{name: kfkb, k: 2}", True), ("zb-h1", False), ("zb-h2", False),
        ("slack", True), ("seq1f1b", True), ("auto", True)],
    2: [("interleaved-1f1b", True), ("looped-bfs", True), ("interleaved-zb", False), ("gis", False), ("gis-h", False)],
    "v": [("zb-v", False), ("v-min", False), ("v-half", False), ("v-zb", False), ("1f1b-v", False), ("hanayo", True),
          ("dualpipe-v", False)],
}
POLICIES = ["policy: none", "policy: wfbp", "policy: mg-wfbp", "policy: {name: ddp, bundle: 64KiB}", "policy: horovod",
            "policy: dear-queue", "policy: {name: dear-queue, bundle: 0B}", "policy: auto", "collective: decoupled",
            "collective: decoupled, shard: optimizer", "collective: decoupled, fusion: 100KB, shard: optimizer",
            "collective: all_reduce, fusion: none", "collective: auto, fusion: auto, shard: optimizer, port: shared"]


class CombinationsTest(RunsTest):
    def drawn(self, draw, ranks, degree):
        """A case, or None where pipec refuses the spec."""
        chunks = draw.choice(list(SCHEDULES))
        name, fuses = draw.choice(SCHEDULES[chunks])
        stages = ranks * (2 if chunks == "v" else chunks)
        layers = [draw.randint(1, 2) for _ in range(stages)] if degree > 1 or draw.random() < 0.5 else [1] * stages
        if sum(layers) == 1:
            layers = [2]
        microbatches = draw.choice([1, 2, 4, 6]) * draw.choice([1, ranks])
        rows = microbatches * degree * draw.randint(1, 2)
        planned = draw.random() < 0.6
        clip = draw.choice([None, 0.05, 100.0]) if ranks * degree > 1 else None
        made = [layer() for layer in models.layers(sum(layers))]
        costs = []
        for layer in made:
            size = 8 * sum(p.numel() for p in layer.parameters())
            costs.append(f"- {{forward: {draw.randint(1, 3)}ms, backward_input: {draw.randint(1, 3)}ms, backward_weight: "
                         f"{draw.randint(1, 3)}ms, backward: {draw.randint(2, 5)}ms, activation: 2MiB, weight_context: 1MiB, "
                         f"weights: {size}B, gradients: {size}B, optimizer_state: {2 * size}B}}\n")
        pipeline = f"ranks: {ranks}, microbatches: {microbatches}, cut: {layers}"
        pipeline += ", placement: v" if chunks == "v" else f", stages_per_rank: {chunks}"
        backward = draw.choice(["fused", "split", "mixed", ""]) if fuses else ""
        norm = str(clip is not None or draw.random() < 0.3).lower()
        tail = f"backward: {backward}\n" if backward else ""
        tail += draw.choice(["", "", "recompute: all\n", f"recompute: [{draw.randrange(stages)}]\n"])
        if degree > 1:
            policy = draw.choice(POLICIES)
            tail += f"data_parallel: {{degree: {degree}, link: {{latency: 50us, bandwidth: 1GB/s}}, {policy}}}\n"
        width = 8 * models.LENGTH * models.WIDTH * rows // microbatches // degree
        text = (f"pipec: 1\npipeline: {{{pipeline}}}\nlayers:\n{''.join(costs)}tensors: {{boundary: {width}B}}\nschedule: {name}\n"
                f"costs: {{optimizer: {{time: 1ms, global_norm: {norm}}}, "
                f"link: {{latency: {draw.choice([0, 100, 1000])}us, bandwidth: 1GB/s}}}}\n{tail}")
        try:
            path = self.plan(text)
            facts = pipec.load(path).facts
        except pipec.SpecError:
            return None
        if facts["refused"]:
            return None
        return {"what": text, "plan": path, "layers": sum(layers), "steps": STEPS, "rows": rows, "seed": draw.randrange(99),
                "double": True, "planned": planned or facts["shards_updates"], "blind": draw.random() < 0.7,
                "meets": draw.random() < 0.2, **({"clip": clip} if clip else {})}

    def check(self, case, said, known):
        plan = pipec.load(case["plan"])
        microbatches = plan.microbatches * plan.degree
        key = tuple(plan.cut), microbatches, case["rows"], case["seed"], case.get("clip")
        if key not in known:
            modules = self.modules(case)
            for _ in models.plain(modules, STEPS, microbatches, case["rows"], pipec.torch.reseed, case["seed"], case.get("clip")):
                pass
            known[key] = {str(s): [p.detach().flatten() for p in module.parameters()] for s, module in modules.items()}
        found = {}
        for each in said:
            self.assertNotIn("error", each)
            for stage, values in each["values"].items():
                found.setdefault(stage, values)
                self.assertEqual(values, found[stage], "replicas differ")
        self.assertEqual(found.keys(), known[key].keys())
        for stage, values in known[key].items():
            for value, expected in zip(found[stage], values):
                torch.testing.assert_close(torch.tensor(value, dtype=torch.float64), expected, rtol=0, atol=1e-9)

    def test_all_train_like_one_process(self):
        draw, cases, refused, known = random.Random(SEED), {}, 0, {}
        while sum(map(len, cases.values())) < DRAWN:
            ranks, degree = draw.choice(WORLDS)
            case = self.drawn(draw, ranks, degree)
            refused += case is None
            if case:
                cases.setdefault(ranks * degree, []).append(case)
        self.assertLess(refused, DRAWN)
        for world, ofWorld in cases.items():
            said = self.run_cases(world, ofWorld)
            for number, case in enumerate(ofWorld):
                with self.subTest(f"seed {SEED}, {number}: {case}"):
                    self.check(case, [each[number] for each in said], known)


if __name__ == "__main__":
    unittest.main()
