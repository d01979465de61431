"""Specs from strangers: the examples, and small ones that have every key, with changes to their text and to their tree. Each
compiles, or is refused with a message that names a place. PIPEC_SOAK=1 tries 5,000 of them."""
import json
import os
import random
import re
import resource
import unittest

from support import CHECK, INPUT, OK, SOAK, SOURCE, SPECS, ToolTest, tool

MEMORY = 1 << 30  # bytes of addresses that a tool gets
SECONDS = 20 if SOAK else 120  # of a processor: without a soak, a hang
PLACE = re.compile(r"^.+:\d+:\d+: error: ", re.M)
OURS = re.compile(r"internal|terminate called|[Aa]ssert|what\(\)|std::|yaml-cpp|LLVM ERROR|bad_alloc|bad conversion|out of memory")
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")

COSTS = "costs: {forward: 1ms, backward_input: 1.2ms, backward_weight: 0.8ms, link: {latency: 20us, bandwidth: 10GB/s}"
LINK = "link: {latency: 10us, bandwidth: 10GB/s}"
# What the examples do not have.
MORE = (
    "pipec: 1\npipeline: {ranks: 2, batch: 8, microbatch_size: 2, placement: [[0, 3], [1, 2]]}\n" + COSTS + ", recompute: 1ms, "
    "optimizer: {time: 1ms, global_norm: true}, links: [{from: 0, to: 1, latency: 1ms}]}\ntensors: {boundary: 1kB, boundary_gradient: 512B, "
    "activation: 1MB, weight_context: 1kB, backward_context: 1kB, recompute_input: 1kB, static: 1MB, workspace: {fixed: 1MB, per_sample: 1kB}}\n"
    "memory: {limit: [40MB, 50MB]}\nrecompute: [1]\nrings: any\ncommunicator: per_pair\nweights: ordered\n"
    "schedule: {name: block, interval: 12, forward: [0, 1, 2, 3], backward_input: [7, 6, 5, 4], backward_weight: [11, 10, 9, 8]}\n"
    "provider: {hidden: 64, deep: {list: [1, 2.5, text], flag: true}}\n",
    "pipec: 1\npipeline: {ranks: 2, microbatches: 4}\n" + COSTS + ", backward: 2ms}\nschedule: {name: order, file: order.csv}\n",
    "pipec: 1\npipeline: {ranks: 2, microbatches: 4, slices: 2}\n" + COSTS + ", backward: 2ms}\nschedule: seq1f1b\nbackward: fused\n",
    "pipec: 1\npipeline: {ranks: 2, microbatches: 4, cut: [3, 1]}\nlayers: [{name: dense, count: 4, forward: 1ms, backward: 2ms, boundary: "
    "1kB, gradients: [4kB, 1kB], weights: 4kB, optimizer_state: 8kB, optimizer: 1us, activation: 1MB, recompute: 1ms, recompute_input: 1kB}]\n"
    "schedule: {name: kfkb, k: 2}\ndata_parallel: {degree: 2, policy: {name: ddp, bundle: 1kB, first: 1kB}, " + LINK + ", port: shared}\n",
    "pipec: 1\npipeline: {ranks: 2, microbatches: 4}\nlayers: [{count: 4, forward: 1ms, backward: 2ms, boundary: 1kB, gradients: 4kB}]\n"
    "schedule: 1f1b\ndata_parallel: {degree: 2, policy: {name: bytescheduler, piece: 1kB, credit: 4kB}, round: 1us, costs: {all_reduce: "
    "{start: 1us, bandwidth: 1GB/s}, reduce_scatter: {start: 1us}, all_gather: {start: 1us}}}\n",
    "pipec: 1\npipeline: {ranks: 2, microbatches: 4}\nlayers: [{count: 4, forward: 1ms, backward: 2ms, boundary: 1kB, gradients: 4kB}]\n"
    "schedule: 1f1b\ndata_parallel: {degree: 2, collective: decoupled, fusion: 8kB, shard: optimizer, " + LINK + "}\n",
    "pipec: 1\npipeline: {ranks: 2, microbatches: 4}\nlayers: [{count: 4, forward: 1ms, backward: 2ms, boundary: 1kB, gradients: 4kB}]\n"
    "schedule: 1f1b\ndata_parallel: {degree: 2, policy: {name: horovod, bundle: 8kB, cycle: 1ms}, " + LINK + "}\n",
    "pipec: 1\npipeline: {ranks: 2, microbatches: 4}\n" + COSTS + "}\nschedule: kfkb\nvariants: {k: [1, 2]}\n",
    "pipec: 1\npipeline: {ranks: 2, microbatches: 4}\n" + COSTS + "}\nschedule: 1f1b\nvariants: [{schedule: gpipe}, {schedule: auto, "
    "memory: {limit: 1GB}}]\n",
    "pipec: 1\npipeline: {ranks: 2, microbatches: 4}\n" + COSTS + "}\nschedule: 1f1b\njobs: {slow_down: 50%, collectives: fill, work: "
    "[{name: vgg, samples: 1, atoms: 4, atom: 50us, overhead: 1us, memory: 1MB, ranks: [1], piece: 100us, provider: {a: 1}}]}\n",
    "pipec: 1\npipeline: {ranks: 4, batch: 8}\nlayers: [{count: 3, forward: {samples: {1: 1ms, 8: 5ms}}, backward: {samples: {1: 2ms, 8: "
    "9ms}}, boundary: {per_sample: 1kB}, gradients: 1MB}]\ncosts: {" + LINK + ", collective: ring}\n"
    "schedule: {name: burst, foreground: 80%, sync: overlap, choices: powers}\n",
    "pipec: 1\npipeline: {ranks: 4, batch: 8}\nlayers: [{count: 3, forward: {samples: {1: 1ms, 8: 5ms}}, backward: {samples: {1: 2ms, 8: "
    "9ms}}, boundary: {per_sample: 1kB}, gradients: 1MB}]\nschedule: {name: burst, widths: [4, 2, 1]}\n",
    "pipec: 1\npipeline: {ranks: 4, batch: 8}\nlayers: [{count: 3, forward: {samples: {1: 1ms, 8: 5ms}}, backward: {samples: {1: 2ms, 8: "
    "9ms}}, boundary: {per_sample: 1kB}, gradients: 1MB}]\nschedule: {name: burst, amplification: 1.5}\n",
) + tuple(
    "pipec: 1\npipeline: {ranks: 2, microbatches: 4}\nlayers: [{count: 2, forward: 100us, backward: 200us, boundary: 1kB, splits: [{name: heads, "
    "units: 4, forward: 1ms, backward: 2ms, sum: 1kB, gradients: 4kB}]}]\nschedule: 1f1b\ntensor_parallel: {shards: 2, sequence: true, " + LINK +
    ", balance: " + balance + ", slow: [{rank: 0, shard: 1, factor: 2}]}\n"
    for balance in ("{name: auto, most: 0.5}", "{name: resize, gamma: 0.5, reference: least, impute: zero, priority: change}",
                    "{name: semi, part: 0.5}"))
# Of values: what is no number of any kind, or is one that nothing takes.
VALUES = ("0", "-1", "1", "2", "3", "1048577", "2147483648", "9223372036854775808", "1e400", "-1e400", "1e-400", "nan", ".inf", "0x10", "0o7",
          "1_000", "+5", "٣", "0ms", "-1ms", "1ps", "0.0000001ps", "1e30ms", "99999999s", "1GiB", "1e400GiB", "1kB/s", "0B/s", "unlimited",
          "10%", "-1%", "1e9%", "true", "no", "~", "null", "''", '"\\u0000"', '"\\x1b[31m"', "[]", "{}", "[[]]", "[1, 2]", "[0, 0, 0, 0]", "{a: b}",
          "auto", "none", "all", "1f1b", "zb-v", "dualpipe", "burst", "order", "block", "v", "bidirectional", "fused", "split", "mixed",
          "!!int x", "!!binary x", "!!python/object:os.system x", "&a [*a]", "*a", "*missing", "<<", "|\n  text", ">-\n  text", "'open", '"open',
          "[1", "{1", "@", "`", "%", "- 1", "? 1", "name: 1", "x" * 300, "9" * 400, "/dev/zero", "fifo", ".", "missing.csv", "order.csv", "/",
          "../" * 2000, "‮", "\u200b", "ÿ" * 100)
TEXTS = (b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\x00", b"\x1b[2J", b"\xc2\x9b2J", b"\x7f", b"\t", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xfe\xff",
         b"---\n", b"...\n", b"# ", b": ", b"- ", b"[", b"]", b"{", b"}", b"&a ", b"*a", b"!x ", b"'", b'"', b"|", b"%YAML 9.9\n", b"\xe2\x80\xa8")
BOMB = b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 9))
DEEP = ("[" * 20_000, "{a: " * 20_000, "- " * 20_000, "? " * 20_000, "[" * 5_000 + "]" * 5_000)
ORDER = "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n"

VALUE = re.compile(r"(?<=[:,\[] )[^\s,\[\]{}#]+|(?<=\[)[^\s,\[\]{}#]+")
KEY = re.compile(r"[a-z_]+(?=:)")


def at_random(pattern, text, draw, change):
    """The text with one match of a pattern changed."""
    found = list(pattern.finditer(text))
    if not found:
        return text
    one = draw.choice(found)
    return text[:one.start()] + change(one[0]) + text[one.end():]


def scaled(value, draw):
    """A number another one, in its unit."""
    return re.sub(r"^[\d.]+", lambda m: draw.choice(("0", "-" + m[0], m[0] + m[0], "1e400", m[0] + "e9", "0." + "0" * 30 + "1",
                                                     "." + m[0], m[0] + ".", m[0] + " ")), value)


def mutated(text, draw):
    """The bytes of a spec with one to three changes."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        lines, kind = text.split("\n"), draw.randrange(11)
        line = draw.randrange(len(lines))
        if kind <= 2:  # another value
            text = at_random(VALUE, text, draw, lambda value: draw.choice(VALUES))
        elif kind == 3:  # the same with another number
            text = at_random(VALUE, text, draw, lambda value: scaled(value, draw))
        elif kind == 4:  # another key, or a key misspelled
            keys = KEY.findall(text) + ["<<", "x", "variants", "y" * 300]
            text = at_random(KEY, text, draw, lambda key: draw.choice((key[:-1], key + "_", draw.choice(keys))))
        elif kind == 5:  # a key or an item gone
            text = at_random(re.compile(r"[a-z_]+: [^\s,\[\]{}#]+,?|[^\s,\[\]{}#]+,"), text, draw, lambda item: "")
        elif kind == 6:  # one twice
            text = at_random(re.compile(r"[a-z_]+: [^\s,\[\]{}#]+|(?<=[\[,] )\w+"), text, draw, lambda item: f"{item}, {item}")
        elif kind == 7:  # lines
            lines[line:line + 1] = draw.choice(([], [lines[line]] * 2, [lines[line] + lines[line]], [" " + lines[line]],
                                                ["\t" + lines[line]], [draw.choice(lines), lines[line]]))
            text = "\n".join(lines)
        elif kind == 8:  # a value that is one of another kind
            text = at_random(VALUE, text, draw, lambda value: draw.choice(("[{0}]", "{{x: {0}}}", "&a {0}", "[{0}, {0}]", "'{0}'", "!x {0}",
                                                                           "[{0}, *a]", "[&a {0}, *a]")).format(value))
        elif kind == 9 and draw.random() < 0.2:  # depth, bombs
            text = draw.choice((text + BOMB.decode(), text + "x: " + draw.choice(DEEP), draw.choice(DEEP), text * 50,
                                at_random(VALUE, text, draw, lambda value: draw.choice(DEEP))))
    data = text.encode("utf-8", "surrogatepass")
    if draw.random() < 0.2:  # bytes
        at, piece = draw.randrange(len(data) + 1), draw.choice(TEXTS)
        data = data[:at] + piece + data[at + draw.choice((0, 0, len(piece))):]
    return data[:draw.randrange(len(data) + 1)] if draw.random() < 0.02 else data


class SpecMutationTest(ToolTest):
    def corpus(self):
        return [each.read_text() for each in sorted(SPECS.glob("*.yaml"))] + list(MORE)

    def limit(self):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    def files(self):
        return sorted(each.name for each in self.folder.iterdir())

    def ends(self, spec, *arguments):
        """A command's exit code: 0, or 1 or 3 with a message that names a place."""
        done = tool("pipec", *arguments, preexec_fn=self.limit, text=False)
        what = f"{' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr[-2000:]}"
        self.assertIn(done.returncode, (OK, INPUT, CHECK), what)
        out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
        for text in (out, err):
            self.assertNotRegex(text, CONTROL, what)
        self.assertNotRegex(err, OURS, what)
        if "--json" in arguments:
            answer = json.loads(out)
            if done.returncode != OK and "schedules" not in answer:
                self.assertEqual(answer["code"], done.returncode, what)
                self.assertGreater(answer["line"], 0, what)
        elif done.returncode != OK and arguments[0] != "search":
            self.assertRegex(err, PLACE, what)
        return done.returncode

    def check(self, data, draw):
        spec, plan = self.folder / "spec.yaml", self.folder / "plan.pipe"
        spec.write_bytes(data)
        before = self.files()
        code = self.ends(spec, "compile", spec, "-o", plan, "--time", "1s")
        self.assertEqual(self.files(), sorted(before + ["plan.pipe"] * (code == OK)))
        plan.unlink(missing_ok=True)
        others = (("report", spec, "--time", "1s"), ("report", spec, "--json", "--time", "1s"),
                  ("search", spec, "--time", "1s"), ("search", spec, "--json", "--time", "1s"))
        other = self.ends(spec, *draw.choice(others))
        self.assertEqual(self.files(), before)
        return code, other

    def test_mutated_specs(self):
        corpus, codes, count = self.corpus(), {}, 5_000 if SOAK else 150
        (self.folder / "order.csv").write_text(ORDER)
        os.mkfifo(self.folder / "fifo")
        for n in range(count):
            draw = random.Random(n)
            with self.subTest(n):
                for code in self.check(mutated(draw.choice(corpus), draw), draw):
                    codes[code] = codes.get(code, 0) + 1
        print(f"{count} mutated specs: exit codes {dict(sorted(codes.items()))}")

    def test_files_that_are_none(self):
        os.mkfifo(self.folder / "fifo")  # into which nobody writes
        for name, message in (("fifo", "is a FIFO; expected a file"), (".", "is a directory; expected a file"),
                              ("/dev/zero", "is a device; expected a file"), ("none", "cannot read: No such file")):
            with self.subTest(name):
                spec = self.spec(MORE[1].replace("order.csv", name))
                self.assertRegex(self.pipec("compile", spec, code=INPUT).stderr, rf"^{spec}:4:31: error: .*{message}")

    def test_what_is_mutated_is_right(self):
        (self.folder / "order.csv").write_text(ORDER)
        for text in MORE:
            with self.subTest(text):
                self.compile(text)

    def test_every_key_is_in_the_corpus(self):
        known = set()

        def walk(node):
            for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
                walk(each)
            if isinstance(node, dict) and isinstance(node.get("properties"), dict):
                known.update(node["properties"])
        walk(json.loads((SOURCE / "specs" / "pipec.schema.json").read_text()))
        self.assertEqual(known - set(KEY.findall("\n".join(self.corpus()))), set())


if __name__ == "__main__":
    unittest.main()
