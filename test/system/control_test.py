"""A run's control socket against clients that mean ill or know no better: each costs the run little and ends nothing; what
the run starts inherits nothing of it, and ends with it."""
import concurrent.futures
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import unittest

from peer import KINDS, Client, framed, header
from support import BIN, HANG, OK, RUN, SOAK, SPECS, ControlledTest, alive, free_port, patient, tool, until

COSTS = {"costs__forward": "500us", "costs__backward_input": "500us", "costs__backward_weight": "300us",
         "costs__link": "{latency: 20us, bandwidth: 10GB/s}"}
CLOSED = "what it was sent ends the connection: "


def children_of(parent):
    """Their pids."""
    found = []
    for each in pathlib.Path("/proc").iterdir():
        try:
            if each.name.isdigit() and int((each / "stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[1]) == parent:
                found.append(int(each.name))
        except OSError:
            pass  # it has ended
    return found


def command_of(pid):
    """Its command line; none: it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def passed_on(pid):
    """The descriptors that a program would inherit which this process starts, but for standard input and output."""
    found = {}
    for each in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            flags = int(re.search(r"flags:\s*(\d+)", each.read_text(encoding="ascii"))[1], 8)
            if int(each.name) > 2 and not flags & os.O_CLOEXEC:
                found[int(each.name)] = os.readlink(f"/proc/{pid}/fd/{each.name}")
        except OSError:
            pass  # it has been closed
    return found


def memory_of(pid):
    """In bytes, the most that it ever had."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"))[1]) * 1024


class ClientsTest(ControlledTest):
    def run_of(self, *arguments, **options):
        """A run with the control socket, and its pids."""
        plan = self.compile(SPECS / "1f1b.yaml", **COSTS)
        return self.launch(plan, "--json", "--steps", 1000000, "--control", self.control, *arguments, **options)

    def client(self):
        made = Client(self.control)
        self.addCleanup(made.socket.close)
        return made

    def test_what_cannot_be_meant_is_answered_and_ends_nothing(self):
        launcher, _ = self.run_of()
        deep = b"\x81" * 60_000 + b"\x80"
        for content, says in (
                (framed("status", body=deep), "a message that has more than 8 objects and arrays in each other: status"),
                (framed("status", {"a": [[[[[[[[]]]]]]]]}), "a message that has more than 8 objects and arrays in each other: status"),
                (framed("status", body=b"\x9b" + b"\xff" * 8), "a message that cannot be read, 9 bytes of no object: status"),
                (framed("status", body=b"\xbf"), "a message that cannot be read, 1 bytes of no object: status"),
                (framed("swap", body=b"\x80"), "a message that cannot be read, 1 bytes of no object: swap"),
                (framed("text", body=b"\x81" * 999_999 + b"\x80"), "a message that it may not send here: text"),
                (header("report", 3 << 29), "a message that it may not send here: report"),
                (header("status", 1 << 20), "a message that is too long, 1048576 bytes of at most 65536: status"),
                (header(len(KINDS), 0), f"a message of unknown kind {len(KINDS)}"),
                (framed("swap"), "a message that lacks \"variant\": swap"),
                (framed("status", {"why": 1}), "a message that has fields that it should not have: status"),
                (framed("swap", {"variant": [1]}), "a message that has another type or range of \"variant\": swap")):
            with self.subTest(says):
                heard = self.client().ask(content)
                kind, fields = heard[-1]
                self.assertEqual((kind, fields["message"][:len(CLOSED + says)]), ("refused", CLOSED + says))
                self.assertNotIn("json", fields["message"])
        # A connection is for several requests, one after the other.
        client = self.client()
        for _ in range(3):
            client.say(framed("status"))
            self.assertEqual(client.hear()[0], "done")
        self.end(launcher)

    def test_idle_clients_take_no_descriptor_from_a_checkpoint(self):
        states = self.folder / "states"
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
        launcher, _ = self.run_of("--checkpoint", states, "--every", 5, preexec_fn=limit)
        clients = [self.client() for _ in range(1000 if SOAK else 200)]
        step = self.status()["step"]
        self.assertLess(len(os.listdir(f"/proc/{launcher.pid}/fd")), 80 - 10)
        until(lambda: self.status()["checkpoint"] > step, "a checkpoint among idle clients")
        # The oldest have gone.
        self.assertIsNone(clients[0].hear())
        self.end(launcher)

    def test_busy_clients_are_answered_and_hold_nothing_up(self):
        count, threads = (1000, 40) if SOAK else (80, 20)
        launcher, _ = self.run_of()
        before = self.status()["step"]

        def one(number):
            client = self.client()
            for _ in range(5):
                client.say(framed("status"))
            # Some leave without an answer.
            heard = 5 if number % 4 == 0 else sum((client.hear() or [None])[0] == "done" for _ in range(5))
            client.socket.close()
            return heard

        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            self.assertEqual(list(pool.map(one, range(count))), [5] * count)
        until(lambda: self.status()["step"] > before + 3, "steps beside busy clients")
        self.end(launcher)

    def test_a_client_that_never_reads_costs_little(self):
        launcher, _ = self.run_of()
        self.status()
        before = memory_of(launcher.pid)
        clients = [self.client() for _ in range(8)]
        until(lambda: not any([each.say(framed("status") * 64) for each in clients]), "the end of clients that never read")
        clients += [self.client() for _ in range(8)]
        for each in clients[8:]:
            each.say(header("report", 3 << 29) + bytes(1 << 20))
        self.status()
        self.assertLess(memory_of(launcher.pid) - before, len(clients) << 20)
        self.end(launcher)

    def test_clients_that_never_read_a_plan_hold_it_once(self):
        # One forward, one backward in an order that has no loops: a plan of several MiB.
        draw, row, forwards, backwards, count = random.Random(1), [], 0, 0, 20_000
        while backwards < count:
            if forwards < count and (forwards == backwards or draw.random() < 0.5):
                row.append(f"1F{forwards}")
                forwards += 1
            else:
                row.append(f"1B{backwards}")
                backwards += 1
        order = self.folder / "order.csv"
        order.write_text(",".join(f"0{kind}{n}" for kind in "FB" for n in range(count)) + "\n" + ",".join(row) + "\n", encoding="ascii")
        plan = self.compile(f"pipec: 1\npipeline: {{ranks: 2, microbatches: {count}}}\ncosts: {{forward: 1us, backward: 1us, link: "
                            f"{{latency: 1us, bandwidth: 10GB/s}}}}\nschedule: {{name: order, file: {order}}}\n")
        size = plan.stat().st_size
        self.assertGreater(size, 3 << 20)
        launcher, _ = self.launch(plan, "--json", "--steps", 1000000, "--control", self.control)
        read = self.client()

        def plan_of():
            read.say(framed("plan"))
            while (answer := read.hear())[0] == "alive":
                pass
            self.assertEqual((answer[0], answer[1]["answer"]["plans"][0]["plan"]), ("done", plan.read_bytes()))

        plan_of()
        before = memory_of(launcher.pid)
        clients = [self.client() for _ in range(60)]
        for each in clients:
            each.say(framed("plan"))
        plan_of()  # whoever reads has it all the same
        self.assertLess(memory_of(launcher.pid) - before, (len(clients) << 20) + 4 * size)
        self.end(launcher)

    def test_a_run_that_is_stopped_is_said_to_be(self):
        launcher, _ = self.run_of()
        os.kill(launcher.pid, signal.SIGSTOP)
        done = tool("piperun", "--control", self.control, "status")
        self.assertEqual(done.returncode, RUN, done.stderr)
        self.assertIn(f"the run at {self.control} did not answer within 5 s", done.stderr)
        os.kill(launcher.pid, signal.SIGCONT)
        self.end(launcher)


class ChildrenTest(ControlledTest):
    def replans(self, **options):
        """A run that plans anew, and the pid of what plans."""
        launcher, _ = self.launch(self.compile(SPECS / "replan.yaml"), "--steps", 1000000, "--control", self.control, "--replan",
                                  SPECS / "replan.yaml", **options)
        return launcher, until(lambda: [each for each in children_of(launcher.pid)
                                        if b"\0replan\0" in command_of(each)], "pipec replan")[0]

    def test_what_plans_ends_with_a_run_that_is_killed(self):
        launcher, child = self.replans()
        self.addCleanup(lambda: alive(child) and os.kill(child, signal.SIGKILL))
        launcher.kill()
        launcher.wait()
        until(lambda: not alive(child), "the end of pipec replan")
        plan = self.compile(SPECS / "replan.yaml")
        self.piperun(plan, "--local", "--steps", 1, "--control", self.control)

    def test_a_program_that_a_run_starts_inherits_no_descriptor(self):
        shutil.copy2(BIN / "piperun", self.folder / "piperun")
        found = self.folder / "found"
        pipec = self.folder / "pipec"  # piperun takes the one beside it
        pipec.write_text(f"#!/bin/sh\n[ \"$3\" = --check ] && exit 0\nls -l /proc/self/fd > {found}.part\nmv {found}.part {found}\n",
                         encoding="utf-8")
        pipec.chmod(0o755)
        plan = self.compile(SPECS / "replan.yaml")
        run = subprocess.Popen([self.folder / "piperun", *patient([plan, "--local", "-q", "--steps", 1000000, "--control", self.control,
                                                                   "--replan", SPECS / "replan.yaml"])], stdout=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        until(lambda: found.exists() or run.poll() is not None, "what the program has")
        more = [line for line in found.read_text(encoding="utf-8").splitlines()
                if (link := re.search(r"(\d+) -> (.*)", line)) and int(link[1]) > 2 and not link[2].startswith("/proc/")]
        self.assertEqual(more, [])
        self.ask(self.control, "stop")
        self.assertEqual(run.wait(timeout=HANG), OK)

    def test_no_process_of_a_run_would_pass_a_descriptor_on(self):
        plan = self.compile(SPECS / "1f1b.yaml", **COSTS)
        launcher, pids = self.launch(plan, "--steps", 1000000, "--control", self.control, "--trace", self.folder / "trace.json",
                                     "--checkpoint", self.folder / "states")
        self.status()
        self.assertEqual({pid: passed_on(pid) for pid in (launcher.pid, *pids.values())}, {pid: {} for pid in (launcher.pid, *pids.values())})
        self.ask(self.control, "stop")
        self.assertEqual(launcher.wait(timeout=HANG), OK)

    def test_no_process_of_a_joined_run_would_either(self):
        plan, port = self.compile(SPECS / "1f1b.yaml", **COSTS), free_port()
        ranks = []
        for rank in range(4):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                           "PIPEC_SECRET": "known"}
            more = ["--control", self.control] if rank == 0 else []
            ranks.append(subprocess.Popen([BIN / "piperun", plan, "--steps", "1000000", "--deadline", "300", "-q", *more], env=environment))
            for last in (ranks[-1].wait, ranks[-1].kill):
                self.addCleanup(last)
        until(lambda: self.control.exists() and tool("piperun", "--control", self.control, "status").returncode == OK and
              self.status()["step"] > 0, "the first step")
        self.assertEqual({each.pid: passed_on(each.pid) for each in ranks}, {each.pid: {} for each in ranks})
        self.ask(self.control, "stop")
        self.assertEqual([each.wait(timeout=HANG) for each in ranks], [OK] * 4)


if __name__ == "__main__":
    unittest.main()
