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
ANY = ("fused", "split", "mixed")
# By chunks a rank ("v": two, placed there and back): schedules, and what their backward may be.
SCHEDULES = {
    1: [("1f1b", ANY), ("gpipe", ANY), ("eager-1f1b", ANY), ("{name: kfkb, k: 2}", ANY), ("zb-h1", ["split"]), ("zb-h2", ["split"]),
        ("slack", ANY), ("seq1f1b", ANY), ("auto", ANY)],
    2: [("interleaved-1f1b", ANY), ("looped-bfs", ANY), ("interleaved-zb", ["split"]), ("gis", ["split"]), ("gis-h", ["split"])],
    "v": [("zb-v", ["split"]), ("v-min", ["split"]), ("v-half", ["split"]), ("v-zb", ["split"]), ("1f1b-v", ["fused"]),
          ("hanayo", ANY), ("dualpipe-v", ["split"])],
}
SLICED = ("gpipe", "seq1f1b")  # schedules with an order for slices
# How replicas sum; one of a family may be a variant of another.
POLICIES = [
    ["policy: none", "policy: wfbp", "policy: mg-wfbp", "policy: {name: ddp, bundle: 64KiB}", "policy: horovod",
     "policy: dear-queue", "policy: {name: dear-queue, bundle: 0B}", "policy: auto"],
    ["collective: decoupled", "collective: decoupled, fusion: 100kB", "collective: all_reduce, fusion: none"],
    ["collective: decoupled, shard: optimizer", "collective: decoupled, fusion: 100kB, shard: optimizer"],
    ["collective: auto, fusion: auto, shard: optimizer, port: shared"],
]


# What no plan can be made of.
REFUSED = (r"schedule '[\w-]+' takes at least \d+ microbatches|schedule 'kfkb' takes k from 1 to the number of microbatches"
           "|replicas of slices are not supported yet")


class Drawn:
    """A spec and the program that trains under it."""

    def __init__(self, draw, ranks, degree):
        self.draw, self.ranks, self.degree = draw, ranks, degree
        self.chunks = draw.choice(list(SCHEDULES))
        self.stages = ranks * (2 if self.chunks == "v" else self.chunks)
        self.cut = [draw.randint(1, 2) for _ in range(self.stages)] if degree > 1 or draw.random() < 0.5 else [1] * self.stages
        if sum(self.cut) == 1:
            self.cut = [2]
        self.layers = sum(self.cut)
        self.frozen = [n for n in range(self.layers - 1) if draw.random() < 0.3] if draw.random() < 0.3 else []
        self.microbatches = draw.choice([1, 2, 4, 6]) * draw.choice([1, ranks])
        self.sliced = self.chunks == 1 and draw.random() < 0.1
        self.samples = 2 if self.sliced else draw.randint(1, 2)  # of a microbatch
        self.by_sample = not self.sliced and draw.random() < 0.3  # all that is of a microbatch
        self.rows = self.microbatches * self.samples * degree
        self.clip = draw.choice([None, 0.05, 100.0]) if ranks * degree > 1 else None
        self.policies = draw.choice(POLICIES)

    def of_microbatch(self, value, unit):
        return f"{{fixed: 0{unit}, per_sample: {value}{unit}}}" if self.by_sample else f"{value}{unit}"

    def layer(self, made):
        sizes = [8 * sum(p.numel() for p in made.parameters() if p.requires_grad or all_of_them) for all_of_them in (True, False)]
        times = {"forward": 3, "backward_input": 3, "backward_weight": 3, "backward": 2}
        parts = [f"{name}: {self.of_microbatch(self.draw.randint(1, most), 'ms')}" for name, most in times.items()]
        parts += [f"{name}: {self.of_microbatch(1, 'MiB')}" for name in ("activation", "weight_context")]
        parts += [f"weights: {sizes[0]}B", f"gradients: {sizes[1]}B", f"optimizer_state: {2 * sizes[1]}B"]
        return f"- {{{', '.join(parts)}}}\n"

    def shape(self):
        """The pipeline's keys but for ranks, placement and layers, which all variants share."""
        if self.by_sample:
            return f"batch: {self.rows // self.degree}, microbatch_size: {self.samples}"
        return f"microbatches: {self.microbatches}"

    def order(self):
        """Keys that say how a step goes, which a variant may say anew."""
        draw = self.draw
        name, backward = draw.choice([each for each in SCHEDULES[self.chunks] if not self.sliced or each[0] in SLICED])
        keys = {"schedule": name, "backward": draw.choice(backward),
                "recompute": draw.choice(["none", "none", "all", f"[{draw.randrange(self.stages)}]"])}
        if self.degree > 1:
            link = "link: {latency: 50us, bandwidth: 1GB/s}"
            keys["data_parallel"] = f"{{degree: {self.degree}, {link}, {draw.choice(self.policies)}}}"
        return keys

    def spec(self):
        draw = self.draw
        layers = "".join(self.layer(make()) for make in models.layers(self.layers, self.frozen))
        chunks = "placement: v" if self.chunks == "v" else f"stages_per_rank: {self.chunks}"
        slices = ", slices: 2" if self.sliced else ""
        width = 8 * models.LENGTH * models.WIDTH * (1 if self.by_sample else self.samples)
        norm = str(self.clip is not None or draw.random() < 0.3).lower()
        costs = (f"optimizer: {{time: 1ms, global_norm: {norm}}}, "
                 f"link: {{latency: {draw.choice([0, 100, 1000])}us, bandwidth: 1GB/s}}")
        text = (f"pipec: 1\npipeline: {{ranks: {self.ranks}, {self.shape()}, cut: {self.cut}, {chunks}{slices}}}\n"
                f"layers:\n{layers}tensors: {{boundary: {self.of_microbatch(width, 'B')}}}\ncosts: {{{costs}}}\n")
        text += "".join(f"{key}: {value}\n" for key, value in self.order().items())
        variants = []
        for _ in range(draw.choice([0, 0, 1, 2])):
            keys = self.order()
            if self.by_sample and draw.random() < 0.5:
                size = draw.choice([each for each in range(1, 5) if self.rows // self.degree % each == 0])
                keys["pipeline"] = f"{{microbatch_size: {size}}}"
            variants.append(f"- {{{', '.join(f'{key}: {value}' for key, value in keys.items())}}}\n")
        return text + ("variants:\n- {}\n" + "".join(variants) if variants else ""), 1 + len(variants)

    def program(self, variants, shards):
        draw = self.draw
        case = {"layers": self.layers, "frozen": self.frozen, "steps": STEPS, "rows": self.rows, "seed": draw.randrange(99),
                "double": True, "planned": shards or draw.random() < 0.6, "blind": draw.random() < 0.7,
                "meets": draw.random() < 0.2, "rates": draw.random() < 0.3}
        if self.clip:
            case["clip"] = self.clip
        if not case["planned"]:
            case["accumulates"] = draw.choice([1, 1, 2])
        if variants > 1:
            case["swaps"] = [[step, draw.randrange(variants), *draw.choice([[], [draw.randrange(self.ranks * self.degree)]])]
                             for step in range(STEPS) if draw.random() < 0.5]
            case["adapt"] = draw.choice([None, None, "observe", "on"])
        return case


class CombinationsTest(RunsTest):
    def drawn(self, draw, ranks, degree):
        """Cases, one after the other in the same processes, the last of which has trained all; None: pipec refuses the spec."""
        drawn = Drawn(draw, ranks, degree)
        text, variants = drawn.spec()
        try:
            plan = self.plan(text)
        except pipec.SpecError as error:
            self.assertRegex(str(error), REFUSED, text)
            return None
        facts = pipec.load(plan).facts
        self.assertIsNone(facts["refused"], text)
        case = {"what": text, "plan": plan, **drawn.program(variants, facts["shards_updates"])}
        if draw.random() < 0.7:
            return [case]
        case["checkpoint"] = str(self.folder / f"states-{self.plans}")
        return [{**case, "steps": draw.randrange(1, STEPS), "every": draw.randrange(3)}, {**case, "resume": True}]

    def check(self, cases, said, known):
        """said: of each process what it said of each case."""
        case, found = cases[-1], {}
        for each in said:
            for one in each:
                self.assertNotIn("error", one)
            for stage, values in each[-1]["values"].items():
                found.setdefault(stage, values)
                self.assertEqual(values, found[stage], "replicas differ")
        plan = pipec.load(case["plan"])
        microbatches = [[count for one in each for count in one["microbatches"]] for each in said]
        self.assertEqual(microbatches, microbatches[:1] * len(said))
        microbatches = [count * plan.degree for count in microbatches[0]]
        self.assertEqual(len(microbatches), case["steps"])
        options = {name: case[name] for name in ("rows", "seed", "clip", "rates", "accumulates") if name in case}
        key = repr((plan.cut, case["frozen"], microbatches, options))
        if key not in known:
            modules = self.modules(case)
            losses = [loss for _, loss in models.plain(modules, case["steps"], microbatches, reseed=pipec.torch.reseed, **options)]
            known[key] = {str(s): [p.detach().flatten() for p in module.parameters()] for s, module in modules.items()}, losses
        expected, losses = known[key]
        self.assertEqual(found.keys(), expected.keys())
        for stage, values in expected.items():
            for value, right in zip(found[stage], values):
                torch.testing.assert_close(torch.tensor(value, dtype=torch.float64), right, rtol=0, atol=1e-9)
        measured = [sum((one["losses"] for one in each), []) for each in said]
        for step, loss in enumerate(losses):
            for each in measured:
                self.assertAlmostEqual(each[step], loss, 9)

    def test_all_train_like_one_process(self):
        draw, cases, refused, known = random.Random(SEED), {}, 0, {}
        while sum(map(len, cases.values())) < DRAWN:
            ranks, degree = draw.choice(WORLDS)
            case = self.drawn(draw, ranks, degree)
            refused += case is None
            if case:
                cases.setdefault(ranks * degree, []).append(case)
        self.assertLess(refused, DRAWN)
        for world, of_world in cases.items():
            said = self.run_cases(world, sum(of_world, []))
            for number, of_one in enumerate(of_world):
                begin = sum(map(len, of_world[:number]))
                with self.subTest(f"seed {SEED}, {number}: {of_one}"):
                    self.check(of_one, [each[begin:begin + len(of_one)] for each in said], known)


if __name__ == "__main__":
    unittest.main()
