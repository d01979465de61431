"""No bound is above the time of a plan that it speaks of. Specs are drawn with whatever changes what passes take: shards with
slow ones, replicas, jobs, slices, copies of the stages, stages that are recomputed, mixed backwards, fill, memory limits. Every
command that prints a bound is held against all schedules of the catalogue, compiled for the same spec."""
import json
import os
import random
import unittest

from support import CHECK, INPUT, OK, SOAK, ToolTest, tool

SEED = int(os.environ.get("PIPEC_SEED") or (random.randrange(1 << 30) if SOAK else 42))
DRAWN = int(os.environ.get("PIPEC_DRAWN") or (10000 if SOAK else 300))
# What a schedule's stages are on: schedules of one line have orders on the same placement.
LOOPS = {1: ["1f1b", "gpipe", "eager-1f1b", "kfkb", "zb-h1", "zb-h2", "slack"],
         2: ["interleaved-1f1b", "interleaved-zb", "gis", "gis-h"]}
THERE_AND_BACK = ["zb-v", "v-min", "v-half", "v-zb", "1f1b-v", "hanayo", "dualpipe-v"]


def times(draw, most):
    parts = [draw.randint(0, most), draw.randint(0, most)]
    return (f"forward: {draw.randint(1, most)}us, backward_input: {parts[0]}us, backward_weight: {parts[1]}us, "
            f"backward: {draw.randint(0, sum(parts))}us")


def layer(draw, sharded, number):
    sizes = [f"{key}: {draw.choice([0, 1, 4])}MiB" for key in ("activation", "weight_context")]
    model = [f"{key}: {draw.choice([0, 1, 4])}MB" for key in ("weights", "gradients", "optimizer_state")]
    splits = ""
    for name in ("heads", "columns")[:draw.choice([0, 1, 1, 2]) if sharded else 0]:
        splits += (f"{{name: {name}, units: {draw.choice([2, 5, 8, 16])}, {times(draw, 400)}, sum: {draw.choice([0, 1])}MiB, "
                   f"activation: {draw.choice([0, 4])}MiB, weight_context: {draw.choice([0, 2])}MiB, "
                   f"weights: {draw.choice([0, 4])}MB, gradients: {draw.choice([0, 4])}MB, optimizer_state: 8MB}}, ")
    return (f"- {{{times(draw, 120)}, {', '.join(sizes + model)}, optimizer: {draw.choice([0, 25])}us, "
            f"boundary: {draw.choice([0, 1])}MiB{('', ', boundary_gradient: 0B', ', boundary_gradient: 3MiB')[number % 3]}{', splits: [' + splits.rstrip(', ') + ']' if splits else ''}}}\n")


def shards(draw, ranks):
    count = draw.choice([2, 2, 3])
    slow = ", ".join(f"{{rank: {rank}, shard: {draw.randrange(count)}, factor: {draw.choice([1.5, 2, 4])}}}"
                     for rank in range(ranks) if draw.random() < 0.5)
    balance = draw.choice(["auto", "auto", "even", "migrate", "resize", "semi"])
    return (f"tensor_parallel: {{shards: {count}, link: {{latency: {draw.choice([0, 5])}us, bandwidth: 100GB/s}}, "
            f"balance: {balance}{f', slow: [{slow}]' if slow else ''}{draw.choice(['', '', ', sequence: true'])}}}")


def spec(draw, kind):
    """For a command of this kind. Where much is left open (how gradients are exchanged, which stages are recomputed, the cut), a
    plan takes seconds, with two stages a rank ten of them, and a table of schedules twenty times as long: CI leaves one thing
    open at a time, the cut only with one stage a rank, and draws the longest tables with one stage a rank."""
    ranks, sharded = draw.choice([1, 2, 2, 2, 3, 4] if SOAK else [1, 2, 2, 2, 2, 3]), draw.random() < 0.5 and kind != "data-parallel"
    placement, a_rank = draw.choices([("loop", 1), ("loop", 2), ("v", 2), ("", 2), ("bidirectional", 1)],
                                     [4, 2, 2, 2, 0 if sharded else 1] if SOAK or kind != "memory" else [1, 0, 0, 0, 0])[0]
    stages, microbatches = ranks * a_rank, draw.choice([1, 2, 3, 4])
    cut = [draw.randint(1, 2 if SOAK or not sharded else 1) for _ in range(stages)]
    chosen = "auto" if SOAK or (kind in ("search", "report") and a_rank == 1) else cut
    keys = [f"pipeline: {{ranks: {ranks}, microbatches: {microbatches}, stages_per_rank: {a_rank}, "
            f"cut: {draw.choice([cut, cut, cut, cut if kind == 'exact' else chosen])}{f', placement: {placement}' if placement else ''}"
            f"{draw.choice([''] * 12 + ['' if sharded else ', slices: 2'])}}}",
            f"schedule: {draw.choice(['auto', 'auto', 'gpipe' if a_rank == 1 and placement == 'loop' else 'auto'])}",
            f"costs: {{link: {{latency: {draw.choice([0, 10, 200])}us, bandwidth: {draw.choice(['20GB/s', '1GB/s'])}}}"
            f"{draw.choice(['', '', ', optimizer: {time: 20us, global_norm: true}'])}}}"]
    keys.append(draw.choice(["", "", "backward: fused", "backward: split", "backward: mixed"]))
    keys.append(draw.choice(["", "", "recompute: all", f"recompute: [{draw.randrange(stages)}]"]))
    if draw.random() < 0.3:
        keys.append(f"memory: {{limit: {draw.choice([30, 60, 100, 200])}MiB}}")
        if kind != "exact" and (SOAK or (a_rank == 1 and "cut: auto" not in keys[0])):
            keys[-2] = draw.choice([keys[-2], "recompute: auto"])
    keys.append(draw.choice([""] * 9 + ["" if sharded else "weights: fill"]))
    keys.append(draw.choice([""] * 4 + ["communicator: shared", "communicator: per_pair"]))
    if sharded:
        keys.append(shards(draw, ranks))
    elif kind == "data-parallel" or (draw.random() < 0.4 and placement != "bidirectional"):
        exchanges = kind in ("report", "data-parallel") and "recompute: auto" not in keys
        left = ["policy: auto", "shard: optimizer"] if SOAK or exchanges else []
        policy = draw.choice(["policy: wfbp", "policy: dear-queue", "policy: {name: ddp, bundle: 1MiB}"] + left)
        keys.append(f"data_parallel: {{degree: {draw.choice([2, 4])}, link: {{latency: {draw.choice([0, 50])}us, "
                    f"bandwidth: 10GB/s}}, {policy}}}")
    if draw.random() < 0.1 and not sharded:
        keys.append("jobs: {slow_down: 5%, work: [{name: a, samples: 8, atoms: 16, atom: 20us, overhead: 10us}]}")
    return "pipec: 1\n" + "\n".join(filter(None, keys)) + f"\nlayers:\n{''.join(layer(draw, sharded, number) for number in range(sum(cut)))}"


def comparable(row):
    """What two rows share whose plans are of the same work on the same placement."""
    name, stages = row["name"], row.get("stages_per_rank", 1)
    placement = "back" if name in THERE_AND_BACK else next((n for n, names in LOOPS.items() if name in names), name)
    return placement, row["backward"], stages, tuple(row.get("cut", ())), row.get("memory_limit_bytes")


class BoundsTest(ToolTest):
    own = False  # whether a bound speaks of its own plan alone

    def printed(self, command, path, *options):
        """What a command prints as JSON; None where it refuses the spec. None says that a bound is false."""
        done = tool("pipec", command, path, "--json", *options)
        self.assertIn(done.returncode, [OK, INPUT, CHECK], done.stderr)
        self.assertNotIn("internal", done.stdout + done.stderr)
        shown = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
        return None if "error" in shown else shown

    def holds(self, row, takes=None):
        takes = takes or row
        # Milliseconds are printed to the picosecond.
        self.assertLessEqual(row["lower_bound_ms"], takes["makespan_ms"], (row, takes))
        self.assertLessEqual(row["span_lower_bound_ms"], takes["span_ms"], (row, takes))

    def table(self, rows):
        """The bounds of a table against all its times; where units are left out by a rule, against each plan's own alone."""
        planned = [row for row in rows if "error" not in row]
        for row in planned:
            self.holds(row)
            for other in planned:
                if comparable(row) == comparable(other) and not self.own:
                    self.holds(row, other)
        return planned

    def report(self, path):
        for variant in (self.printed("report", path) or {"variants": []})["variants"]:
            self.holds(variant)
            for gap in ("gap_at_own_memory", "span_gap_at_own_memory"):
                self.assertGreaterEqual(variant.get(gap, 0), 0)
            for balance in variant.get("balances", []):
                self.assertGreaterEqual(balance.get("gap", 0), 0, balance)

    def search(self, path, *options):
        found = self.printed("search", path, *options) or {}
        rows = self.table(found.get("schedules", []))
        for policy in found.get("policies", []):
            if "error" not in policy:
                self.assertLessEqual(policy["span_lower_bound_ms"], policy["span_ms"], policy)
        return found, rows

    def exact(self, path):
        """What is proven holds for all placements, so for every row with whole microbatches in their order."""
        found, rows = self.search(path, "--exact", "--time", "200ms")
        own = next((row for row in rows if row["name"] == "exact"), None)
        for row in rows if own and not self.own else []:
            if row["backward"] == own["backward"] and row["name"] not in ("looped-bfs", "seq1f1b"):
                self.assertLessEqual(found["exact"]["proven_lower_bound_ms"], row[f"{found['exact']['objective']}_ms"], row)
        return rows

    def test_drawn_specs_have_no_false_bound(self):
        draw, path, planned = random.Random(SEED), self.folder / "drawn.yaml", 0
        for number in range(DRAWN):
            kind = draw.choices(["search", "report", "exact", "memory", "data-parallel"], [10, 4, 3, 1, 1])[0]
            text = spec(draw, kind)
            path.write_text(text, encoding="utf-8")
            self.own = "balance: resize" in text or "balance: semi" in text
            with self.subTest(f"seed {SEED}, {number}: {text}"):
                if kind == "report":
                    self.report(path)
                elif kind == "exact":
                    planned += bool(self.exact(path))
                else:
                    planned += bool(self.search(path, *([] if kind == "search" else ["--sweep", kind]))[1])
        self.assertGreater(planned, DRAWN / 4)

    def test_updates_of_every_policy_wait_for_the_norm(self):
        """DeAR's run at the head of the next step: they wait for the norm of the step before, and for the sums of shared weights."""
        path = self.folder / "norm.yaml"
        for shared in ("", "shared: [{layers: [0, 2], gradients: 1MB}]\n"):
            path.write_text("pipec: 1\npipeline: {ranks: 3, microbatches: 1}\nschedule: 1f1b\n" + shared +
                            "costs: {link: {latency: 200us}, optimizer: {time: 20us, global_norm: true}}\n"
                            "data_parallel: {degree: 4, link: {latency: 50us, bandwidth: 10GB/s}, policy: auto}\n"
                            "layers: [{count: 3, forward: 50us, backward: 90us, gradients: 1MB}]\n")
            rows = self.printed("search", path, "--sweep", "data-parallel")["policies"]
            self.assertIn("dear", [row["policy"] for row in rows])
            for row in rows:
                self.assertGreater(row["span_ms"], 2 * (3 * 4 - 1) * 0.2, f"{row['policy']}: the norm's {3 * 4 - 1} hops, there and back")

    def test_an_order_that_a_schedule_beats_is_not_optimal(self):
        """Unequal shards: a plan may take less than its order's times, and only what none beats is proven."""
        splits = ("{name: heads, units: 16, forward: 300us, backward_input: 300us, backward_weight: 240us, backward: 510us, "
                  "sum: 1MiB, activation: 4MiB, weight_context: 2MiB, weights: 4MB, gradients: 4MB, optimizer_state: 8MB}")
        for ranks, microbatches, layers, mixed in ((4, 8, 16, "backward: mixed\n"), (2, 1, 2, "")):
            path = self.folder / "slow.yaml"
            path.write_text(
                f"pipec: 1\npipeline: {{ranks: {ranks}, microbatches: {microbatches}}}\n{mixed}schedule: auto\nlayers:\n"
                f"- {{name: block, count: {layers}, forward: 50us, backward_input: 50us, backward_weight: 40us, backward: 85us, "
                "activation: 4MiB, weight_context: 2MiB, weights: 4MB, gradients: 4MB, optimizer_state: 8MB, optimizer: 25us, "
                f"boundary: 1MiB, splits: [{splits}]}}\ncosts: {{link: {{latency: 10us, bandwidth: 20GB/s}}}}\n"
                "tensor_parallel: {shards: 2, link: {latency: 5us, bandwidth: 100GB/s}, "
                "slow: [{rank: 0, shard: 1, factor: 2}]}\n", encoding="utf-8")
            found = self.printed("search", path, "--exact", "--time", "2s")
            rows = self.table(found["schedules"])
            best = min(row["span_ms"] for row in rows)
            self.assertLessEqual(found["exact"]["proven_lower_bound_ms"], best)
            if found["exact"]["optimal"]:
                self.assertEqual(found["exact"]["proven_lower_bound_ms"], best)
            else:
                self.assertIn("no order is proven to be the best", found["exact"]["verdict"])


if __name__ == "__main__":
    unittest.main()
