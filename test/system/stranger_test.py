"""Strangers on a job's ports, as others on the machine see them: while its processes meet, under --local and under a
launcher, a crowd comes to what is open, and the run goes on as if nobody had come; once they have met, no port is open."""
import errno
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import time
import unittest

from support import BIN, HANG, OK, PATIENCE, RUN, SOAK, ToolTest, free_port, until
from timing import judge

SPEC = """
pipec: 1
pipeline: {ranks: 4, microbatches: 8}
costs: {forward: 5ms, backward: 10ms, optimizer: 1ms, link: {latency: 50us, bandwidth: 1GB/s}}
tensors: {boundary: 64KiB}
schedule: 1f1b
"""
PROTOCOL = 9
CROWD = 10_000 if SOAK else 1_000


def listening(pids):
    """The ports on which these processes listen."""
    inodes = set()
    for pid in pids:
        try:
            links = [os.readlink(each) for each in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        inodes |= {link[8:-1] for link in links if link.startswith("socket:[")}
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def hello(protocol=PROTOCOL, rank=1, side=1, random=b""):
    """What a process says first, of a job without an id: all but a key and a nonce."""
    return b"PIPERUN\n" + struct.pack("<IIII", protocol, 1, rank, side) + hashlib.blake2b(digest_size=16).digest() + random


class Crowd:
    """Connections that say something useless, or nothing, and stay."""

    SAY = [b"", b"GET / HTTP/1.1\r\n\r\n", b"PIPERUN\n", os.urandom(500), b"PIPERUN\n" + bytes(128)]

    def __init__(self, test):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
        if limit[1] < CROWD + 100:
            test.skipTest(f"no more than {limit[1]} files may be open here")
        self.sockets = []
        test.addCleanup(lambda: [each.close() for each in self.sockets])

    def come_to(self, ports):
        ports = sorted(ports)
        for i in range(CROWD):
            stranger = socket.socket()
            stranger.settimeout(HANG)
            try:
                stranger.connect(("127.0.0.1", ports[i % len(ports)]))
                stranger.sendall(self.SAY[i // len(ports) % len(self.SAY)])
            except OSError as error:  # shown out at once
                if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ECONNREFUSED):
                    raise
            if i % 7 == 0:
                stranger.close()  # a scan
            else:
                self.sockets.append(stranger)


class StrangerTest(ToolTest):
    def start(self, plan, *arguments):
        """A run, and the file of what it says."""
        said = self.folder / "said.txt"
        with open(said, "w", encoding="utf-8") as file:
            launcher = subprocess.Popen([BIN / "piperun", plan, "--local", "-v", *arguments], stdout=subprocess.PIPE,
                                        stderr=file, text=True)
        for close in (launcher.stdout.close, launcher.wait, launcher.kill):
            self.addCleanup(close)
        return launcher, said

    @staticmethod
    def pids(said):
        return [int(pid) for pid in re.findall(r"rank \d+ has pid (\d+)", said.read_text(encoding="utf-8"))]

    def held(self, plan, *arguments):
        """A run whose last rank stands still before it has met the others: the launcher, what it says, all pids."""
        for seconds in (1, 1, 1, 1, 1, 10, 10, 10, 10, 10):  # it may have been caught between its port and the others
            launcher, said = self.start(plan, "--json", "--deadline", str(PATIENCE), *arguments)
            pids = until(lambda: launcher.poll() is not None or len(found := self.pids(said)) == 4 and found, "four ranks")
            os.kill(pids[3], signal.SIGSTOP)
            end = time.monotonic() + seconds
            while "have met" not in said.read_text(encoding="utf-8") and time.monotonic() < end:
                if len(listening(pids)) >= 3:
                    time.sleep(0.2)  # long enough for those to go on whom the last rank had met already
                    if len(listening(pids)) >= 3:
                        return launcher, said, [launcher.pid, *pids]
            launcher.kill()
        self.skipTest("never caught a run before its ranks had met")

    def test_a_crowd_at_the_meeting_changes_nothing(self):
        launcher, said, pids = self.held(self.compile(SPEC), "--steps", "20")
        crowd = Crowd(self)
        crowd.come_to(listening(pids))
        begin = time.monotonic()
        os.kill(pids[-1], signal.SIGCONT)
        # One after the other those who say nothing would take two seconds each, far more than the deadline.
        out, _ = launcher.communicate(timeout=HANG)
        took = time.monotonic() - begin
        self.assertEqual(launcher.returncode, OK, said.read_text(encoding="utf-8"))
        run = json.loads(out)
        late = took - sum(run["step_ms"]) / 1000  # meeting, start and end
        judge(self, f"{CROWD} strangers: {late:.2f} s beside the steps, of 10 s", late / 10, 1)
        self.judge_steps(run, f"steps among {CROWD} strangers")

    def judge_steps(self, run, what):
        pairs = list(zip(run["step_ms"], run["simulated_step_ms"], strict=True))
        self.assertEqual(len(pairs), run["steps"])
        judge(self, what, max(abs(measured / simulated - 1) for measured, simulated in pairs), 0.05)

    def test_no_port_is_open_once_all_have_met(self):
        launcher, said = self.start(self.compile(SPEC), "--steps", "100000", "--deadline", str(PATIENCE))
        until(lambda: "have met" in said.read_text(encoding="utf-8") or launcher.poll() is not None, "the meeting")
        pids = self.pids(said)
        self.assertEqual(len(pids), 4)
        self.assertEqual(listening([launcher.pid, *pids]), set())

    def test_crowds_and_impostors_at_the_rendezvous_change_nothing(self):
        """A crowd comes before the others, an impostor with them, another crowd in mid-run, when no port is open."""
        plan, port = self.compile(SPEC), free_port()
        said = self.folder / "rank0.txt"
        with open(said, "w", encoding="utf-8") as file:
            host = self.rank(0, port, plan, "--json", "-v", stdout=subprocess.PIPE, stderr=file)
        until(lambda: port + 1 in listening([host.pid]) or host.poll() is not None, "rank 0's port")
        crowd = Crowd(self)
        crowd.come_to([port + 1])
        impostor = self.rank(1, port, plan, secret="guessed", stderr=subprocess.PIPE)
        messages = impostor.communicate(timeout=HANG)[1]
        self.assertEqual(impostor.returncode, RUN, messages)
        self.assertIn("the secret differs", messages)
        self.says(said, "the secret differs")
        others = [self.rank(rank, port, plan) for rank in (1, 2, 3)]
        until(lambda: "have met" in said.read_text(encoding="utf-8") or host.poll() is not None, "the meeting")
        self.assertEqual(listening([host.pid, *(each.pid for each in others)]), set())
        crowd.come_to([port + 1])  # in vain
        out = host.communicate(timeout=HANG)[0]
        self.assertEqual(host.returncode, OK, said.read_text(encoding="utf-8"))
        self.assertEqual([each.wait(timeout=HANG) for each in others], [OK] * 3)
        self.judge_steps(json.loads(out), f"steps among twice {CROWD} strangers")

    @staticmethod
    def says(said, expected):
        """A process writes it, to this file, sooner or later."""
        until(lambda: re.search(expected, said.read_text(encoding="utf-8")), expected)

    def test_a_stranger_hears_nothing_that_is_made_of_the_secret(self):
        port, said = free_port(), self.folder / "rank0.txt"
        with open(said, "w", encoding="utf-8") as file:
            host = self.rank(0, port, self.compile(SPEC), stderr=file)
        until(lambda: port + 1 in listening([host.pid]) or host.poll() is not None, "rank 0's port")

        def say(*parts):
            with socket.create_connection(("127.0.0.1", port + 1), timeout=HANG) as stranger:
                stranger.sendall(b"".join(parts))
                stranger.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: stranger.recv(4096), b""))

        key = bytes([9]) + bytes(31)  # of Curve25519's base point: a sound one
        self.assertEqual(say(), b"")
        self.assertEqual(say(b"PIPERUN\n"), b"")
        self.assertEqual(say(os.urandom(104)), b"")
        names = hello(rank=0, side=2, random=b"")
        answer = say(hello(random=key + os.urandom(32)))
        self.assertEqual((len(answer), answer[:len(names)]), (104, names))
        answer = say(hello(random=key + os.urandom(32)), os.urandom(32))  # a guess
        self.assertEqual(answer[104:], struct.pack("<I", 2) + bytes(32))
        self.says(said, r"the secret differs: rank 1 at 127\.0\.0\.1 and rank 0")
        answer = say(hello(protocol=PROTOCOL + 1, random=bytes(64)))
        self.assertEqual((len(answer), answer[:len(names)]), (104, names))
        self.says(said, rf"the protocol version differs: rank 1 at 127\.0\.0\.1 has {PROTOCOL + 1}, rank 0 at 127\.0\.0\.1:"
                        f"{port + 1} has {PROTOCOL}")
        self.assertIsNone(host.poll())

    def test_another_version_on_rank_0s_port_ends_the_caller_at_once(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(HANG)
            port = server.getsockname()[1]
            caller = self.rank(1, port - 1, self.compile(SPEC), stderr=subprocess.PIPE)
            with server.accept()[0] as called:
                called.recv(104, socket.MSG_WAITALL)
                called.sendall(hello(protocol=PROTOCOL + 1, rank=0, side=2, random=bytes(64)))
            messages = caller.communicate(timeout=HANG)[1]
        self.assertEqual(caller.returncode, RUN, messages)
        self.assertIn(f"the protocol version differs: rank 1 at 127.0.0.1 has {PROTOCOL}, rank 0 at 127.0.0.1:{port} has {PROTOCOL + 1}",
                      messages)

    def rank(self, rank, port, plan, *arguments, secret="known", **options):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(port), "PIPEC_SECRET": secret}
        process = subprocess.Popen([BIN / "piperun", plan, "--steps", "20", "--deadline", str(PATIENCE), "--rendezvous",
                                    str(HANG), *arguments],
                                   env=environment, text=True, **options)
        for close in [process.wait, process.kill]:
            self.addCleanup(close)
        for stream in (process.stdout, process.stderr):
            if stream:
                self.addCleanup(stream.close)
        return process


if __name__ == "__main__":
    unittest.main()
