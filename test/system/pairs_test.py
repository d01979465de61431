"""Pairs of features: each schedule of the catalogue with each key that changes what is compiled. A pair compiles to a plan that
holds, or is refused with the place of what is not supported. PIPEC_SOAK=1 tries all pairs, and 2,000 schedules with two drawn
keys; elsewhere 250 drawn pairs are tried."""
import json
import random
import resource
import unittest

from support import INPUT, OK, SOAK, ToolTest, tool

LINK = {"latency": "10us", "bandwidth": "20GB/s"}
HEADS = {"name": "heads", "units": 16, "forward": "400us", "backward_input": "400us", "backward_weight": "200us",
         "backward": "600us", "sum": "1MiB", "activation": "4MiB", "weights": "4MB", "gradients": "4MB", "optimizer_state": "8MB"}
LAYER = {"count": 16, "forward": "100us", "backward_input": "100us", "backward_weight": "80us", "backward": "170us",
         "activation": "4MiB", "weight_context": "2MiB", "weights": "4MB", "gradients": "4MB", "optimizer_state": "8MB",
         "optimizer": "50us", "boundary": "1MiB"}
BASE = {"pipec": 1, "pipeline": {"ranks": 4, "microbatches": 8}, "layers": [LAYER], "costs": {"link": LINK}}
BY_STAGE = {"layers": None, "costs": {"forward": "1ms", "backward_input": "1ms", "backward_weight": "1ms", "link": LINK},
            "tensors": {"boundary": "1MiB", "activation": "4MiB", "weight_context": "2MiB", "gradients": "4MB", "static": "8MB"}}
REPLICAS = {"degree": 2, "link": LINK, "policy": "ddp"}  # of the quickest policy to compile
SHARDS = {"shards": 2, "link": LINK}
JOB = {"name": "vgg", "samples": 8, "atoms": 340, "atom": "20us"}
SPLIT = {"layers": [{**LAYER, "splits": [HEADS]}]}

# By name, what is laid over BASE; None takes a key away.
FEATURES = {
    "nothing else": {},
    "costs by stage": BY_STAGE,
    "slices": {"pipeline": {"slices": 2}},
    "placement loop": {"pipeline": {"placement": "loop"}},
    "placement v": {"pipeline": {"placement": "v"}},
    "placement bidirectional": {"pipeline": {"placement": "bidirectional"}},
    "placement of lists": {"pipeline": {"placement": [[0, 7], [1, 6], [2, 5], [3, 4]]}},
    "stages_per_rank": {"pipeline": {"stages_per_rank": 2}},
    "cut auto": {"pipeline": {"cut": "auto"}},
    "cut": {"pipeline": {"cut": [3, 5, 5, 3]}},
    "batch": {"pipeline": {"microbatches": None, "batch": 16, "microbatch_size": 2}},
    "fused backward": {"backward": "fused"},
    "split backward": {"backward": "split"},
    "mixed backward": {"backward": "mixed"},
    "weights fill": {"weights": "fill"},
    "shared communicator": {"communicator": "shared"},
    "rings": {"rings": "any"},
    "recompute all": {"recompute": "all"},
    "recompute none": {"recompute": []},
    "recompute some": {"recompute": [0, 2]},
    "recompute auto": {"recompute": "auto", "memory": {"limit": "1GiB"}},
    "memory": {"memory": {"limit": "1GiB"}},
    "memory by rank": {"memory": {"limit": ["1GiB", "1GiB", "2GiB", "2GiB"]}},
    "optimizer with a norm": {"costs": {"optimizer": {"time": "100us", "global_norm": True}, "collective": "tree"}},
    "links": {"costs": {"links": [{"from": 0, "to": 1, "latency": "1ms"}]}},
    "overlapped": {"costs": {"overlapped": "900us"}},
    "replicas": {"data_parallel": REPLICAS},
    "replicas, any policy": {"data_parallel": {**REPLICAS, "policy": "auto"}},
    "replicas of stages": {**BY_STAGE, "data_parallel": REPLICAS},
    "replicas that share ports": {"data_parallel": {**REPLICAS, "port": "shared"}},
    "replicas, decoupled": {"data_parallel": {**REPLICAS, "policy": "dear-queue"}},
    "replicas of splits": {**SPLIT, "data_parallel": REPLICAS},
    "splits": SPLIT,
    "shards": {**SPLIT, "tensor_parallel": SHARDS},
    "shards, one slow": {**SPLIT, "tensor_parallel": {**SHARDS, "slow": [{"rank": 1, "shard": 0, "factor": 2}]}},
    "jobs": {"jobs": {"slow_down": "5%", "work": [JOB]}},
    "jobs with replicas": {"jobs": {"slow_down": "5%", "work": [JOB]}, "data_parallel": REPLICAS},
    "variants": {"variants": [{}, {"schedule": "gpipe"}]},
    "provider": {"provider": {"hidden": 64}},
}

SLOW = ("replicas, any policy",)
CRASHED = [("chimera", "replicas, any policy"), ("dualpipe", "replicas, any policy")]  # each once
MEMORY = 8 << 30  # bytes of addresses that the compiler gets


def laid_over(base, over):
    if not isinstance(over, dict) or not isinstance(base, dict):
        return over
    both = {**base, **{key: laid_over(base.get(key), value) for key, value in over.items()}}
    return {key: value for key, value in both.items() if value is not None}


class PairsTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.schedules = [each["name"] for each in json.loads(self.pipec("schedules", "--json").stdout)]

    def check(self, schedule, *features):
        """Whether the schedule compiles with them."""
        spec = BASE
        for feature in features:
            spec = laid_over(spec, FEATURES[feature])
        # JSON is YAML; a key a line, so that places are of lines.
        path, plan = self.spec(json.dumps({**spec, "schedule": schedule}, indent=0) + "\n"), self.folder / "pair.pipe"
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        done = tool("pipec", "compile", path, "-o", plan, preexec_fn=limit)
        self.assertIn(done.returncode, (OK, INPUT), done.stderr)
        if done.returncode == OK:
            self.pipec("verify", plan)
        else:
            self.assertRegex(done.stderr, rf"(?m)^{path}:\d+:\d+: error: \S")
        return done.returncode == OK

    def each_compiles_or_is_refused(self, combinations):
        compiled = 0
        for each in combinations:
            with self.subTest(", ".join(each)):
                compiled += self.check(*each)
        print(f"{compiled} of {len(combinations)} compile, the others are refused")
        self.assertGreater(compiled, len(combinations) // 4)

    def test_a_schedule_and_a_key(self):
        pairs = [(schedule, feature) for schedule in self.schedules for feature in FEATURES]
        if not SOAK:
            pairs = CRASHED + random.Random(42).sample([pair for pair in pairs if pair[1] not in SLOW], 250)
        self.each_compiles_or_is_refused(pairs)

    @unittest.skipUnless(SOAK, "takes minutes: tools/soak")
    def test_a_schedule_and_two_keys(self):
        draw = random.Random(43)
        self.each_compiles_or_is_refused([(draw.choice(self.schedules), *draw.sample(sorted(FEATURES), 2)) for _ in range(2000)])


if __name__ == "__main__":
    unittest.main()
