"""A rank that holds the job's secret and says what cannot be: that ends its connection and so the run, with a message that
names the rank and the lie; nothing else breaks, hangs or stays."""
import os
import random
import re
import subprocess
import unittest

from peer import KINDS, Rank, cbor, frame, framed, header, sodium
from support import BIN, HANG, PATIENCE, RUN, SOAK, ToolTest, free_port

SPEC = """
pipec: 1
pipeline: {ranks: 2, microbatches: 2}
costs: {forward: 1ms, backward: 2ms, optimizer: 1ms, link: {latency: 50us, bandwidth: 1GB/s}}
tensors: {boundary: 4KiB}
schedule: 1f1b
"""
STEPS = 1000
CLOSED = "what it was sent ends the connection: "
FILE = {"name": "step-4-rank-1.state", "bytes": 3, "hash": "abc"}
SAVED = {"step": 4, "states": [[1, FILE]], "layers": False, "recuts": False}
REPORT = {"steps": [], "own": [], "evaluations": [], "lateness": [0, 0], "permit_waits": [0, 0], "job": [-1, 0, 0, 0, 0], "job_ended": "", "events": []}
# What a rank may say, whole and of the right types.
RIGHT = {"listening": {"address": "127.0.0.1", "port": 1}, "offer": {"offer": None}, "ready": {}, "progress": {"step": 1}, "saved": SAVED,
         "prepared": {"program": 1, "code": 0, "message": ""}, "measured": {"round": 1, "samples": [], "steps": []},
         "paced": {"solo": 1, "filled": 1}, "waits": {}, "report": REPORT, "failed": {"message": ""}, "put": {"key": "a", "text": "b"},
         "finishes": {"step": 1}, "clock": {}, "swap": {"variant": "0"}, "stop": {"why": "stop"},
         "asks": {"origin": 1, "number": 1, "of": 0},
         "does": {"origin": 0, "number": 1, "process": 1, "what": "saves its state", "lasts": 1, "limit": 2, "whom": [0]}}

# To the controller: bytes, and what it says of them.
MESSAGES = [
    (framed("permit", {"until": 9}), "a message that it may not send here: permit"),
    (header(len(KINDS), 0), f"a message of unknown kind {len(KINDS)}"),
    (header("put", 2 << 20), "a message that is too long, 2097152 bytes of at most 1048576: put"),
    (framed("report", body=b"\x81" * 100_000 + b"\x80"), "a message that has more than 8 objects and arrays in each other: report"),
    (framed("measured", body=b"\xbf"), "a message that cannot be read, 1 bytes of no object: measured"),
    (framed("progress", {"step": "far"}), 'a message that has another type or range of "step": progress'),
    (framed("progress", {"step": STEPS + 1}), "progress to a step that the run does not have"),
    (framed("put", RIGHT["put"]), "a text, which only a host says"),
    (framed("saved", SAVED), "a state that nobody has asked for"),
    (framed("report", {**REPORT, "events": [0] * 20}), "a report that cannot be"),
]
# To the other rank: a frame, and what it says of it.
FRAMES = [
    ([frame(77)], "it sent a frame of unknown kind 77"),
    ([frame(4, tag=(0, 0, 1 << 40, 0, 0, 0))], "it is no neighbour in the ring of the all_reduce"),
    ([frame(3, 5000)], "it sent a frame of unknown kind 3"),  # a reason of more than 4 KiB
    ([frame(10, 70000)], "it sent a frame of unknown kind 10"),  # a message of more than 64 KiB
    ([frame(1, tag=(9, 9, 9, 9, 9, 9))] * 2, "it posted two receives at once|9"),
]


def more_lies(count):
    """Of each kind a field that lacks, one too many, one of another type, and kinds that go another way."""
    lies = []
    for kind, fields in RIGHT.items():
        lies.append((framed(kind, {**fields, "more": 1}), f"a message that has fields that it should not have: {kind}"))
        for name in fields:
            less = {each: value for each, value in fields.items() if each != name}
            if (kind, name) not in (("progress", "needs"), ("stop", "why")):
                lies.append((framed(kind, less), f'a message that lacks "{name}": {kind}'))
            if (kind, name) != ("offer", "offer"):
                lies.append((framed(kind, {**fields, name: 1.5}), f'a message that has another type or range of "{name}": {kind}'))
    lies += [(framed(kind, body=cbor({})), f"a message that it may not send here: {kind}") for kind in KINDS if kind not in RIGHT]
    random.Random(1).shuffle(lies)
    return lies[:count]


@unittest.skipIf(sodium() is None, "SKIPPED: no libsodium for Python")
class LiarTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPEC)

    def lied_to(self, lie):
        """What rank 0 says of a rank that says what lie(rank) does, once both have started."""
        port = free_port()
        environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                       "PIPEC_SECRET": "known"}
        host = subprocess.Popen([BIN / "piperun", self.plan, "--steps", str(STEPS), "--deadline", str(PATIENCE), "--rendezvous",
                                 str(HANG)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            rank = Rank(port + 1, self.plan, STEPS, "known")
            rank.meet()
            lie(rank)
            messages = host.communicate(timeout=HANG)[1]
            rank.close()
        finally:
            host.kill()
            host.communicate()
        self.assertEqual(host.returncode, RUN, messages)
        self.assertNotIn("json", messages)
        return messages

    def test_what_a_rank_cannot_say_to_the_controller(self):
        for content, says in MESSAGES + more_lies(60 if SOAK else 0):
            with self.subTest(says):
                heard = []

                def lie(rank):
                    rank.say(content)
                    heard.append(rank.hear("end")["message"])
                messages = self.lied_to(lie)
                self.assertIn(f"lost rank 1: it sent {says}", messages)
                self.assertEqual(heard, [CLOSED + says])

    def test_what_a_rank_cannot_say_to_another(self):
        for content, says in FRAMES:
            with self.subTest(says):
                messages = self.lied_to(lambda rank: [rank.peer.seal(each) for each in content])
                self.assertTrue(re.search(f"rank 1.*({says})", messages), messages)


if __name__ == "__main__":
    unittest.main()
