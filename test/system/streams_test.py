"""Standard streams that are closed, full, or read by nobody: the exit code says how the work went, whatever becomes of the
messages; results that cannot be printed are a failure; and what a stage library prints gets there."""
import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import unittest

from launch_test import clean
from support import BIN, CHECK, HANG, INPUT, OK, PATIENCE, RUN, SPECS, USAGE, ToolTest, free_port, patient, until

PROBES = pathlib.Path(os.environ["PIPEC_PROBES"])
F_SETPIPE_SZ = 1031  # fcntl's from Python 3.10 on
SHORT = {"costs__forward": "200us", "costs__backward_input": "200us", "costs__backward_weight": "100us"}


@contextlib.contextmanager
def spoiled(how, *numbers):
    """What subprocess.run takes to start a program with these streams closed, full, or a pipe without a reader."""
    if how == "closed":
        yield {"preexec_fn": lambda: [os.close(number) for number in numbers]}
        return
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    stream = full if how == "full" else writer
    try:
        yield {("stdin", "stdout", "stderr")[number]: stream for number in numbers}
    finally:
        os.close(writer)
        os.close(full)


class StreamsTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPECS / "1f1b.yaml", **SHORT)

    def start(self, arguments, **options):
        return subprocess.run([BIN / arguments[0], *patient(arguments[1:])], timeout=HANG, check=False,
                              **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options})

    def failures(self):
        damaged = self.folder / "damaged.pipe"
        damaged.write_bytes(self.plan.read_bytes()[:-1])
        wrong = self.folder / "wrong.yaml"
        wrong.write_text("pipec: 1\nrank: 4\n")
        tight = ["--set", "memory.limit=1MiB"]
        return [(USAGE, ["pipec", "nosuch"]), (USAGE, ["pipec", "report", SPECS / "1f1b.yaml", "--nosuch"]),
                (INPUT, ["pipec", "compile", wrong]), (INPUT, ["pipec", "verify", damaged]),
                (CHECK, ["pipec", "report", SPECS / "1f1b.yaml", *tight]), (INPUT, ["pipe-opt", "nosuch"]),
                (USAGE, ["piperun", self.plan, "--local", "--nosuch"]), (INPUT, ["piperun", "nosuch", "--local"]),
                (INPUT, ["piperun", damaged, "--local", "-v", "--json"]),
                (USAGE, ["piperun", self.plan, "--local", "--checkpoint", "/proc/nowhere"]),
                (RUN, ["piperun", self.plan, "--local", "--rendezvous", "0.000001"]),
                (RUN, ["piperun", "--control", "nosuch", "status"])]

    def test_a_failure_has_its_exit_code_whatever_becomes_of_its_message(self):
        for how in ("closed", "full", "unread"):
            for code, arguments in self.failures():
                if how == "unread" and arguments[0] == "pipe-opt":
                    continue  # as all of LLVM's, it ends with 74
                with self.subTest(how, arguments=arguments), spoiled(how, 2) as options:
                    self.assertEqual(self.start(arguments, **options).returncode, code)

    def test_what_is_done_is_done_whatever_becomes_of_its_messages(self):
        plan = self.folder / "again.pipe"
        for how in ("closed", "full", "unread"):
            with self.subTest(how), spoiled(how, 2) as options:
                done = self.start(["pipec", "compile", SPECS / "1f1b.yaml", "-o", plan, *self.sets()], **options)
                self.assertEqual((done.returncode, plan.read_bytes()), (OK, self.plan.read_bytes()))
                done = self.start(["piperun", self.plan, "--local", "--steps", 2, "-v", "--json"], **options)
                self.assertEqual((done.returncode, json.loads(done.stdout)["steps"]), (OK, 2))

    def sets(self):
        return [part for key, value in SHORT.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]

    def test_no_file_gets_the_number_of_a_closed_stream(self):
        """What is opened later, a plan, a trace or a connection, would get the messages."""
        plan, trace = self.folder / "again.pipe", self.folder / "trace.json"
        for numbers in ((2,), (0, 2), (1, 2), (0, 1, 2)):
            with self.subTest(numbers), spoiled("closed", *numbers) as options:
                done = self.start(["pipec", "compile", SPECS / "1f1b.yaml", "-o", plan, *self.sets()], **options)
                self.assertEqual((done.returncode, plan.read_bytes()), (OK, self.plan.read_bytes()))
                done = self.start(["piperun", self.plan, "--local", "--steps", 2, "-v", "--trace", trace], **options)
                self.assertEqual(done.returncode, OK)  # the training ended well; the table is for standard output
                self.assertTrue(json.loads(trace.read_text())["traceEvents"])

    def test_results_that_cannot_be_printed_are_a_failure(self):
        run = ["piperun", self.plan, "--local", "--steps", 1]
        for how in ("closed", "full"):
            results = [run, [*run, "--json"]] if how == "full" else []
            for arguments in (["pipec", "schedules"], ["pipec", "--help"], ["piperun", "--version"], *results):
                with self.subTest(how, arguments=arguments), spoiled(how, 1) as options:
                    done = self.start(arguments, stderr=subprocess.PIPE, **{"stdout": None, **options})
                    self.assertEqual(done.returncode, RUN)
                    self.assertIn(b"cannot write to standard output", done.stderr)

    def test_a_reader_that_leaves_ends_a_program_as_it_does_others(self):
        for arguments in (["pipec", "schedules"], ["piperun", "--help"]):
            with self.subTest(arguments), spoiled("unread", 1) as options:
                done = self.start(arguments, stderr=subprocess.PIPE, **options)
                self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, b""))

    def test_a_training_that_ended_well_is_no_failure_where_nobody_reads_its_result(self):
        for how in ("closed", "unread"):
            for steps, *arguments in ([1], [1, "--json"], [300, "--json"]):  # of more than a buffer holds
                with self.subTest(how, steps=steps, arguments=arguments), spoiled(how, 1) as options:
                    run = ["piperun", self.plan, "--local", "--steps", steps, *arguments]
                    done = self.start(run, stderr=subprocess.PIPE, **{"stdout": None, **options})
                    self.assertEqual((done.returncode, done.stderr),
                                     (OK, b"piperun: the run has ended well; nobody reads its result on standard output\n"))

    def test_a_failure_keeps_its_exit_code_where_nobody_reads_standard_output(self):
        for how in ("closed", "full", "unread"):
            with self.subTest(how), spoiled(how, 1) as options:
                done = self.start(["piperun", "nosuch", "--local", "--json"], stderr=subprocess.PIPE,
                                  **{"stdout": None, **options})
                self.assertEqual(done.returncode, INPUT)
                self.assertIn(b"piperun: error: cannot write to standard output", done.stderr)

    def test_a_reader_that_stands_still_stops_no_run(self):
        """Each step has a message, and the pipes hold few."""
        states, steps = self.folder / "states", 100
        run = subprocess.Popen([BIN / "piperun", self.plan, "--local", "--steps", str(steps), "--deadline", str(PATIENCE), "-v",
                                "--json", "--checkpoint", states, "--every", "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for last in (run.stderr.close, run.stdout.close, run.wait, run.kill):
            self.addCleanup(last)
        for stream in (run.stdout, run.stderr):
            fcntl.fcntl(stream, F_SETPIPE_SZ, 4096)

        def saved():
            with contextlib.suppress(FileNotFoundError):
                return json.loads((states / "manifest.json").read_text())["step"] == steps

        until(saved, "the last checkpoint")
        out, messages = run.communicate(timeout=HANG)
        self.assertEqual(run.returncode, OK, messages)
        self.assertEqual(json.loads(out)["steps"], steps)
        self.assertIn("checkpoint after 1 steps", messages)
        self.assertRegex(messages, r"piperun: \d+ messages were left out here: nobody read standard error\n")

    def test_a_terminal_that_stands_still_stops_no_run(self):
        """Nobody reads the line that shows how the run goes."""
        reader, terminal = os.openpty()
        self.addCleanup(os.close, reader)
        try:
            done = self.start(["piperun", self.plan, "--local", "--steps", 200, "--checkpoint", self.folder / "states",
                               "--every", 1, "-v", "--json"], stderr=terminal)
        finally:
            os.close(terminal)
        self.assertEqual((done.returncode, json.loads(done.stdout)["steps"]), (OK, 200))

    def test_survivors_of_a_lost_rank_have_the_exit_code_too(self):
        for how in ("closed", "full", "unread"):
            with self.subTest(how), spoiled(how, 2) as options:
                port = free_port()
                ranks = [subprocess.Popen([BIN / "piperun", self.plan, "--steps", "1000000", "--deadline", str(PATIENCE), "-v",
                                           "--no-secret", *(["--control", self.folder / "control"] if rank == 0 else [])],
                                          stdout=subprocess.DEVNULL, **options,
                                          env={**clean(), "RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1",
                                               "LOCAL_RANK": str(rank), "MASTER_PORT": str(port)}) for rank in range(4)]
                for last in (each for rank in ranks for each in (rank.wait, rank.kill)):
                    self.addCleanup(last)
                self.reaches_a_step()
                ranks[2].kill()
                self.assertEqual([rank.wait(timeout=HANG) for rank in ranks], [RUN, RUN, -signal.SIGKILL, RUN])

    def reaches_a_step(self):
        """Waits until the run at the control socket has done a step."""
        def done():
            status = self.start(["piperun", "--control", self.folder / "control", "status", "--json"],
                                stderr=subprocess.DEVNULL)
            return status.returncode == OK and json.loads(status.stdout)["step"] > 0

        until(done, "a step")


class LibraryOutputTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPECS / "1f1b.yaml", backward="fused", **SHORT)
        self.library = PROBES / "probe-prints.so"
        self.lines = sorted(["loaded"] * 4 + [f"stage {stage} step {step}" for stage in range(4) for step in range(3)])

    def printed(self, text):
        return sorted(line for line in text.splitlines() if line in self.lines)

    def test_what_a_stage_library_prints_is_seen(self):
        done = self.piperun(self.plan, "--local", "--steps", 3, f"--stage={self.library}")
        self.assertEqual(self.printed(done.stdout), self.lines)
        self.assertIn("measured ms", done.stdout)

    def test_with_json_it_goes_to_standard_error(self):
        done = self.piperun(self.plan, "--local", "--steps", 3, "--json", f"--stage={self.library}")
        self.assertEqual(json.loads(done.stdout)["steps"], 3)
        self.assertEqual(self.printed(done.stderr), self.lines)

    def test_of_processes_that_others_have_started(self):
        for arguments, stream in ([], 0), (["--json"], 1):
            with self.subTest(arguments):
                port = free_port()
                ranks = [subprocess.Popen([BIN / "piperun", self.plan, "--steps", "3", "--deadline", str(PATIENCE),
                                           "--no-secret", f"--stage={self.library}",
                                           *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                          env={**clean(), "RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1",
                                               "LOCAL_RANK": str(rank), "MASTER_PORT": str(port)}) for rank in range(4)]
                texts = [rank.communicate(timeout=HANG) for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [OK] * 4, texts)
                self.assertEqual(self.printed("".join(text[stream] for text in texts)), self.lines)
                if arguments:
                    self.assertEqual(json.loads(texts[0][0])["steps"], 3)


if __name__ == "__main__":
    unittest.main()
