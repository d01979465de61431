"""Drawn specs: whatever keys and costs stand together, pipec makes a plan or says what is wrong with the spec. No rule of plans
is broken by what it makes, and a memory limit that it names as the least is that. What trains under drawn plans is
in test/python/combinations_test.py."""
import os
import random
import re
import unittest

from support import CHECK, INPUT, OK, SOAK, ToolTest, tool

SEED = int(os.environ.get("PIPEC_SEED") or (random.randrange(1 << 30) if SOAK else 7))
DRAWN = 2000 if SOAK else 120
# By placement: stages a rank, and schedules.
PLACEMENTS = {
    "loop": (1, ["1f1b", "gpipe", "eager-1f1b", "{name: kfkb, k: 2}", "zb-h1", "zb-h2", "slack", "seq1f1b", "auto"]),
    "loop, stages_per_rank: 2": (2, ["interleaved-1f1b", "looped-bfs", "interleaved-zb", "gis", "gis-h", "auto"]),
    "v": (2, ["zb-v", "v-min", "v-half", "v-zb", "1f1b-v", "hanayo", "dualpipe-v", "auto"]),
    "bidirectional": (1, ["dualpipe", "chimera"]),
}
POLICIES = ["policy: none", "policy: wfbp", "policy: mg-wfbp", "policy: {name: ddp, bundle: 64KiB}", "policy: horovod",
            "policy: dear-queue", "policy: {name: dear-queue, bundle: 0B}", "policy: auto", "collective: decoupled",
            "collective: decoupled, fusion: 100kB", "collective: all_reduce, fusion: none",
            "collective: decoupled, shard: optimizer", "collective: auto, fusion: auto, shard: optimizer, port: shared"]


def layer(draw):
    parts = [draw.randint(0, 4), draw.randint(0, 4)]
    times = {"forward": draw.randint(1, 4), "backward_input": parts[0], "backward_weight": parts[1],
             "backward": draw.randint(0, sum(parts))}
    sizes = {"activation": draw.randint(0, 3), "weight_context": draw.randint(0, 3), "backward_context": draw.choice([0, 0, 1])}
    model = {"weights": draw.choice([0, 1, 64]), "gradients": draw.choice([0, 1, 64, 500]),
             "optimizer_state": draw.choice([0, 8, 1000])}
    keys = [f"{key}: {value}{unit}" for of, unit in ((times, "ms"), (sizes, "MiB"), (model, "kB")) for key, value in of.items()]
    return f"- {{{', '.join(keys)}, optimizer: {draw.choice([0, 100, 300])}us}}\n"


def spec(draw):
    ranks, placement = draw.choice([1, 2, 3, 4, 6]), draw.choices(list(PLACEMENTS), [4, 4, 4, 1])[0]
    a_rank, schedules = PLACEMENTS[placement]
    stages, microbatches = ranks * a_rank, draw.choice([1, 2, 4, 6]) * draw.choice([1, ranks])
    cut = [draw.randint(1, 3) for _ in range(stages)]
    keys = [f"pipeline: {{ranks: {ranks}, microbatches: {microbatches}, cut: {draw.choice([cut, cut, cut, 'auto'])}, "
            f"placement: {placement}{draw.choice([''] * 12 + [', slices: 2'])}}}",
            f"tensors: {{boundary: {draw.choice([0, 1, 100])}kB}}", f"schedule: {draw.choice(schedules)}"]
    link = f"link: {{latency: {draw.choice([0, 10, 1000, 7000])}us, bandwidth: {draw.choice(['1GB/s', '10MB/s'])}}}"
    costs = [link] + draw.choice([[], ["optimizer: {time: 5ms, global_norm: true}"], ["optimizer: 3ms"]])
    keys.append(f"costs: {{{', '.join(costs + draw.choice([[]] * 12 + [['overlapped: 5ms']]))}}}")
    keys.append(draw.choice(["", "", "", "backward: fused", "backward: split", "backward: mixed"]))
    keys.append(draw.choice(["", "", "recompute: all", f"recompute: [{draw.randrange(stages)}]"]))
    if draw.random() < 0.3:
        keys.append(f"memory: {{limit: {draw.choice([5, 10, 20, 40])}MiB}}")
        keys[-2] = draw.choice([keys[-2], "recompute: auto"])
    keys.append(draw.choice([""] * 9 + ["weights: fill"]))
    keys.append(draw.choice([""] * 4 + ["communicator: shared", "communicator: per_pair"]))
    if draw.random() < 0.5 and placement != "bidirectional":
        between = f"link: {{latency: {draw.choice([0, 50, 900])}us, bandwidth: {draw.choice(['1GB/s', '10MB/s'])}}}"
        keys.append(f"data_parallel: {{degree: {draw.choice([2, 3, 8])}, {between}, {draw.choice(POLICIES)}}}")
    if draw.random() < 0.15:
        keys.append("jobs: {slow_down: 5%, work: [{name: a, samples: 8, atoms: 16, atom: 200us, overhead: 100us}]}")
    return "pipec: 1\n" + "\n".join(filter(None, keys)) + f"\nlayers:\n{''.join(layer(draw) for _ in range(sum(cut)))}"


class DrawnTest(ToolTest):
    def outcome(self, path, *settings, may=(OK, INPUT, CHECK)):
        """Of a compile its exit code and what it says."""
        done = tool("pipec", "compile", path, "-o", self.folder / "drawn.pipe", *settings)
        self.assertIn(done.returncode, may, done.stderr)
        self.assertNotRegex(done.stderr, r"error: P\d")
        return done.returncode, done.stderr

    def test_each_has_a_plan_or_a_place(self):
        draw, path, planned = random.Random(SEED), self.folder / "drawn.yaml", 0
        for number in range(DRAWN):
            text = spec(draw)
            path.write_text(text, encoding="utf-8")
            with self.subTest(f"seed {SEED}, {number}: {text}"):
                code, said = self.outcome(path)
                planned += code == OK
                if code != OK:
                    self.assertRegex(said, r"(?m)^\S+drawn\.yaml:\d+:\d+: error: ")
                least = re.search(r"the least limit that would do is [^(]*\((\d+)B\)", said)
                # With `weights: fill` the limit decides which W wait, with replicas which layers are sharded: under another
                # limit the plan is another one, and may hold more.
                if code == CHECK and least and not re.search("weights: fill|data_parallel", text):
                    self.outcome(path, "--set", f"memory.limit={least[1]}B", may=[OK])
                    self.outcome(path, "--set", f"memory.limit={int(least[1]) - 1}B", may=[CHECK])
        self.assertGreater(planned, DRAWN / 2)


if __name__ == "__main__":
    unittest.main()
