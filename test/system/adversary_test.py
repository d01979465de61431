"""Whoever means ill, or has bad luck, with a run: nothing hangs, no process stays, the exit code says what it was."""
import os
import pathlib
import random
import resource
import signal
import socket
import struct
import subprocess
import time
import unittest

from support import BIN, HANG, INPUT, OK, RUN, SOAK, SPECS, USAGE, ToolTest, patient, tool, until

COSTS = {"costs__forward": "500us", "costs__backward_input": "500us", "costs__backward_weight": "300us",
         "costs__link": "{latency: 20us, bandwidth: 10GB/s}"}


def running(word):
    """Processes that have `word` in their command line."""
    found = []
    for each in pathlib.Path("/proc").iterdir():
        try:
            if each.name.isdigit() and word.encode() in (each / "cmdline").read_bytes():
                found.append(each.name)
        except OSError:
            pass  # it has ended
    return found


class AdversaryTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPECS / "1f1b.yaml", **COSTS)
        self.control = self.folder / "control"

    def nobody_of_it_is_left(self):
        until(lambda: not running(str(self.plan)), "the end of all of a run's processes")

    def ask(self, *words, code=OK):
        return self.piperun("--control", self.control, *words, code=code)

    def test_numbers_that_cannot_be_meant(self):
        for wrong in (["--steps", "99999999999999999999"], ["--steps", "1e9"], ["--steps", "0"], ["--deadline", "nan"],
                      ["--deadline", "inf"], ["--deadline", "1e308"], ["--deadline", "-1"], ["--rendezvous", "nan"],
                      ["--rendezvous", "-5"], ["--swap-every", "-9223372036854775809"],
                      ["--checkpoint", self.folder / "states", "--every", "0"]):
            with self.subTest(wrong):
                done = self.piperun(self.plan, "--local", *wrong, code=USAGE)
                self.assertIn(wrong[-2], done.stderr)
                self.assertEqual(done.stdout, "")
        self.assertFalse((self.folder / "states").exists())

    def test_nonsense_on_the_control_socket(self):
        launcher, _ = self.launch(self.plan, "--steps", 100000, "--control", self.control)

        def say(content):
            with socket.socket(socket.AF_UNIX) as caller:
                caller.connect(str(self.control))
                try:
                    caller.sendall(content)
                except OSError:
                    pass  # shown out
        for _ in range(50):
            say(random.randbytes(random.randrange(1, 5000)))
        for size in (0, 1, 5, 0x7fffffff, 0xffffffff, 1 << 62):
            say(struct.pack("<Q", size) + b'{"type":"status"}')
        idle = [socket.socket(socket.AF_UNIX) for _ in range(200)]
        for each in idle:
            self.addCleanup(each.close)
            each.connect(str(self.control))
        self.ask("status")
        # What is read to the end never ends here; it must hold up neither the run nor its end.
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        for path in (fifo, "/dev/zero", self.folder):
            self.assertIn("is no file", self.ask("load", path, code=INPUT).stderr)
        done = self.piperun(self.plan, "--local", "--steps", 1, "--control", self.control, code=USAGE)
        self.assertIn("a run listens at", done.stderr)
        self.ask("stop")
        self.assertEqual(launcher.wait(timeout=HANG), OK)
        self.nobody_of_it_is_left()

    def test_a_signal_at_any_moment_of_the_start(self):
        for n in range(100 if SOAK else 12):
            number = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)[n % 3]
            process = subprocess.Popen([BIN / "piperun", *patient([self.plan, "--local", "--steps", 100000, "--control",
                                                                   self.control])], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            moment = time.monotonic() + random.random() * 0.1
            while time.monotonic() < moment:
                os.sched_yield()
            process.send_signal(number)
            _, messages = process.communicate(timeout=HANG)
            self.assertIn(process.returncode, (OK, -number), f"{number} {messages}")
            self.nobody_of_it_is_left()
            if process.returncode == OK:
                self.assertFalse(self.control.exists())
            self.control.unlink(missing_ok=True)

    def test_no_space_for_a_state(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        done = self.piperun(self.plan, "--local", "--steps", 20, "--every", 5, "--checkpoint", self.folder / "states",
                            code=RUN, preexec_fn=limit)
        self.assertRegex(done.stderr, r"the state after 5 steps could not be saved: .*step-5-rank-\d")
        self.assertFalse((self.folder / "states" / "manifest.json").exists())
        self.nobody_of_it_is_left()

    @unittest.skipIf(os.geteuid() != 0, "SKIPPED: only root can run a tool as somebody else")
    def test_somebody_without_the_right(self):
        os.chmod(self.folder, 0o755)
        own = self.folder / "own"
        own.mkdir(mode=0o700)
        read_only = self.folder / "states"
        read_only.mkdir(mode=0o755)
        binary = self.folder / "piperun"  # the build folder may be closed to others
        binary.write_bytes((BIN / "piperun").read_bytes())
        binary.chmod(0o755)
        for arguments, code, says in [
                (["--checkpoint", read_only], USAGE, "is no folder that can be written to"),
                (["--checkpoint", own], USAGE, "is no folder that can be written to"),
                (["--trace", read_only / "trace.json"], RUN, "cannot write: Permission denied"),
                (["--control", read_only / "control"], USAGE, "cannot listen")]:
            with self.subTest(arguments):
                done = subprocess.run([binary, self.plan, "--local", "--steps", "2", *arguments], user=65534,
                                      extra_groups=[], text=True, capture_output=True, timeout=HANG, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(says, done.stderr)
        self.plan.chmod(0o600)
        done = subprocess.run([binary, self.plan, "--local"], user=65534, extra_groups=[], text=True,
                              capture_output=True, timeout=HANG, check=False)
        self.assertEqual(done.returncode, INPUT, done.stderr)
        self.assertIn("Permission denied", done.stderr)
        launcher, _ = self.launch(self.plan, "--steps", 100000, "--control", self.control)  # mode 0600
        done = subprocess.run([binary, "--control", self.control, "stop"], user=65534, extra_groups=[], text=True,
                              capture_output=True, timeout=HANG, check=False)
        self.assertEqual(done.returncode, RUN, done.stderr)
        self.assertIn("Permission denied", done.stderr)
        self.ask("stop")
        self.assertEqual(launcher.wait(timeout=HANG), OK)

    def test_a_killed_run_leaves_its_socket_to_the_next(self):
        launcher, _ = self.launch(self.plan, "--steps", 100000, "--control", self.control)
        launcher.kill()
        launcher.wait()
        self.nobody_of_it_is_left()
        self.assertTrue(self.control.exists())
        done = tool("piperun", "--control", self.control, "status")
        self.assertEqual(done.returncode, RUN, done.stderr)
        self.piperun(self.plan, "--local", "--steps", 1, "--control", self.control)
        self.assertFalse(self.control.exists())


if __name__ == "__main__":
    unittest.main()
