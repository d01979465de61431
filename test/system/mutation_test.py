"""Plans from strangers: files with a change behind their header, whose checksum was made right again. Each is refused with a
message, or is read, shown and run. PIPEC_SOAK=1 tries 20,000 of them."""
import json
import random
import resource
import struct
import unittest
import zlib

from support import CHECK, INPUT, OK, RUN, SOAK, USAGE, ToolTest, tool

HEADER = 16  # bytes; the checksum of what follows is the last four
NUMBERS = (0, 1, 2, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 40, (1 << 60) + 1, (1 << 63) - 1)
# Not UTF-8; escapes of a terminal, of one byte and of two; an end of text; a line that looks like pipec's own.
TEXTS = (b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\x1b[31m", b"\xc2\x9b2J", b"\x00", b"\n", b"\x7f", b"\r  every rule holds")
COSTS = "costs: {forward: 1ms, backward: 2ms, link: {latency: 20us, bandwidth: 10GB/s}}\n"
LAYERS = "layers: [{count: 4, forward: 1ms, backward: 2ms, gradients: 4kB, weights: 4kB, optimizer_state: 8kB, boundary: 1kB}]\n"
SPLITS = ("layers: [{count: 2, forward: 100us, backward: 200us, boundary: 1kB, splits: [{name: heads, units: 4, forward: 1ms, "
          "backward: 2ms, sum: 1kB, gradients: 4kB}]}]\n")
# Of each kind of content: what the spec has beside a small pipeline, and the names that its plan has then.
PLANS = (
    (COSTS + "schedule: 1f1b\nprovider: {hidden: 64, deep: {list: [1, 2.5, text], flag: true}}\n",
     (b"1f1b", b"hidden\0", b"deep\0", b"text\0")),
    (COSTS + "schedule: kfkb\nvariants: {k: [1, 2]}\n", (b"kfkb", b"k=2")),
    (COSTS + "schedule: 1f1b\njobs: {slow_down: 50%, work: [{name: vgg, samples: 1, atoms: 4, atom: 50us}]}\n", (b"1f1b", b"vgg")),
    (LAYERS + "schedule: 1f1b\ndata_parallel: {degree: 2, policy: ddp, link: {latency: 10us, bandwidth: 10GB/s}}\n", (b"1f1b",)),
    (SPLITS + "schedule: 1f1b\ntensor_parallel: {shards: 2, link: {latency: 10us, bandwidth: 10GB/s}}\n",
     (b"1f1b", b"heads", b'{"name"')))
MEMORY = 8 << 30  # bytes of addresses that a tool gets


def with_checksum(data):
    """The bytes of a plan with the checksum that they should have."""
    return data[:HEADER - 4] + struct.pack("<I", zlib.crc32(data[HEADER:])) + data[HEADER:]


def mutated(data, names, draw):
    """A plan with one to three changes: bits, numbers, pieces of it moved, names."""
    data = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(HEADER, len(data))
        kind = draw.randrange(5)
        if kind == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            size = draw.choice((1, 2, 4, 8))
            at -= at % size
            data[at:at + size] = (draw.choice(NUMBERS) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        elif kind == 2:
            size = draw.randint(1, 64)
            source = draw.randrange(HEADER, len(data))
            piece = data[source:source + size]
            data[at:at + len(piece)] = piece
        elif kind == 3:
            del data[at:at + 4 * draw.randint(1, 8)]
        else:
            name, text = draw.choice(names), draw.choice(TEXTS)
            at = max(data.find(name), HEADER)
            data[at:at + len(text)] = text
    return with_checksum(bytes(data))


class MutationTest(ToolTest):
    def plans(self):
        """Plans that are right, and the names in them."""
        made = []
        for text, names in PLANS:
            data = self.compile("pipec: 1\npipeline: {ranks: 2, microbatches: 4}\n" + text).read_bytes()
            for name in names:
                self.assertIn(name, data)
            made.append((data, names))
        return made

    def ends(self, codes, name, *arguments):
        """A tool's exit code, which is one of these: it neither crashes nor hangs, and says why it refuses."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        done = tool(name, *arguments, preexec_fn=limit, text=False)
        what = f"{name} {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr[-2000:]}"
        self.assertIn(done.returncode, codes, what)
        for out in (done.stdout, done.stderr):
            self.assertNotRegex(out.decode("utf-8"), "[\x00-\x09\x0b-\x1f\x7f-\x9f]", what)
        if done.returncode != OK:
            self.assertTrue(done.stderr or b'"error"' in done.stdout, what)
        return done

    def check(self, data, draw):
        plan = self.folder / "mutated.pipe"
        plan.write_bytes(data)
        verdict = self.ends((OK, INPUT, CHECK), "pipec", "verify", plan).returncode
        accepted = verdict == OK
        others = [("pipec", "report", "--json"), ("pipec", "report"), ("pipec", "disasm"), ("pipec", "show"),
                  ("piperun", "--local", "--steps", "1", "--emulate", "naive", "--no-jobs", "--deadline", "60")]
        for name, *words in others if accepted else [draw.choice(others)]:
            refused = (INPUT, CHECK)
            if verdict == CHECK and words[0] in ("disasm", "show"):  # it can be read, and looked at
                refused += (OK,)
            if name == "pipec":
                done = self.ends((OK,) if accepted else refused, name, words[0], plan, *words[1:])
                if "--json" in words:
                    json.loads(done.stdout)
            else:
                self.ends((OK, RUN) if accepted else refused, name, plan, *words)
        return accepted

    def test_mutated_plans(self):
        plans, accepted, count = self.plans(), 0, 20_000 if SOAK else 200
        for n in range(count):
            draw = random.Random(n)
            with self.subTest(n):
                accepted += self.check(mutated(*draw.choice(plans), draw), draw)
        print(f"{accepted} of {count} mutated plans were accepted and run")

    def refused(self, data, rule):
        """By every tool that reads plans, by this rule."""
        plan = self.folder / "refused.pipe"
        plan.write_bytes(with_checksum(data))
        for name, *words in (("pipec", "verify", plan), ("pipec", "report", plan, "--json"), ("pipec", "disasm", plan),
                             ("pipec", "show", plan), ("piperun", plan, "--local", "--steps", "1")):
            done = self.ends((INPUT,), name, *words)
            self.assertIn(rule, (done.stderr + done.stdout).decode())

    def test_names(self):
        """Names are UTF-8 without control characters."""
        for data, names in self.plans():
            for name in names:
                if b"\0" in name:
                    continue  # of the provider
                for text in TEXTS if SOAK else TEXTS[2:4]:
                    with self.subTest(f"{name} {text}"):
                        text = text[:len(name)]
                        at = data.find(name)
                        self.refused(data[:at] + text + data[at + len(text):], "P55: " if name == b"vgg" else "P59: ")

    def test_a_key_without_an_end(self):
        """The keys of what is handed to a stage library end inside it."""
        data = self.compile("pipec: 1\npipeline: {ranks: 2, microbatches: 4}\n" + COSTS
                            + "schedule: 1f1b\nprovider: {hidden: 5}\n").read_bytes()
        self.assertIn(b"hidden\0", data)
        self.refused(data.replace(b"hidden\0", b"hidden!"), "P20: ")


if __name__ == "__main__":
    unittest.main()
