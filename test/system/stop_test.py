"""What ends a search early, --time and Ctrl-C, and what a command that takes long says on a terminal."""
import json
import os
import pty
import re
import signal
import subprocess
import threading
import unittest

from support import BIN, INPUT, OK, SPECS, USAGE, ToolTest, tool, until

INTERRUPTED = 128 + signal.SIGINT
# Of which all of the search takes many times as long as its first order.
LONG = ("pipec: 1\npipeline: {ranks: 8, stages_per_rank: 2, microbatches: 1024}\n"
        "costs: {forward: [1ms, 3ms, 2ms, 1ms, 5ms, 2ms, 1ms, 4ms, 1ms, 2ms, 3ms, 1ms, 1ms, 2ms, 4ms, 2ms], backward_input: 2ms, "
        "backward_weight: 1ms, link: {latency: 2ms, bandwidth: 1GB/s}}\n"
        "tensors: {boundary: 2MiB, activation: 100MiB, weight_context: 30MiB}\nmemory: {limit: 3GiB}\nschedule: auto\n")


class Terminal:
    """A tool whose standard error is a terminal, and what that shows."""

    def __init__(self, test, *arguments, **environment):
        ours, theirs = pty.openpty()
        self.shown = b""
        self.process = subprocess.Popen([BIN / "pipec", *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs,
                                        text=True, env={**os.environ, **environment})
        os.close(theirs)
        reader = threading.Thread(target=self.read, args=(ours,))
        reader.start()
        for last in (lambda: os.close(ours), reader.join, self.process.stdout.close, self.process.wait, self.process.kill):
            test.addCleanup(last)

    def read(self, file):
        try:
            while piece := os.read(file, 4096):
                self.shown += piece
        except OSError:  # the other end is closed
            pass

    def shows(self, pattern):
        """Waits until it has shown this."""
        def found():
            if self.process.poll() is not None and not re.search(pattern, self.shown):
                raise AssertionError(f"ended with {self.process.returncode} without {pattern}: {self.shown[-1000:]}")
            return re.search(pattern, self.shown)
        until(found, f"{pattern} on the terminal")

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def ends(self):
        """Its exit code and what it printed."""
        out = self.process.communicate()[0]
        return self.process.returncode, out


class StopTest(ToolTest):
    def in_time(self, command, spec, *arguments, time=50):
        """The answer of a search that was stopped when it had something: the first, of more and more milliseconds."""
        while True:
            done = tool("pipec", command, spec, *arguments, "--time", f"{time}ms")
            if done.returncode == OK:
                return done
            self.assertEqual(done.returncode, INPUT, done.stderr)
            time = time * 3 // 2 + 1

    def test_a_search_that_has_found_nothing_yet_is_an_error(self):
        spec = self.spec(LONG.replace("1024", "16384"))
        for command in ("compile", "report"):
            done = self.pipec(command, spec, "--time", "1ms", code=INPUT)
            self.assertIn(f"{spec}:6:11: error: the search was stopped before it found an order: give it more time, or "
                          "name a schedule of the catalogue", done.stderr)
        self.assertEqual([each.name for each in self.folder.iterdir()], [spec.name])
        failure = json.loads(self.pipec("report", spec, "--time", "1ms", "--json", code=INPUT).stdout)
        self.assertEqual((failure["code"], failure["line"], failure["column"]), (INPUT, 6, 11))
        done = self.pipec("search", spec, "--time", "1ms", code=INPUT)
        self.assertIn("error: stopped by --time before anything was found: give it more time", done.stderr)

    def test_a_stopped_search_has_the_best_so_far_and_says_so(self):
        spec = self.spec(LONG)
        report = json.loads(self.in_time("report", spec, "--json").stdout)
        self.assertEqual(report["stopped"], "--time")
        self.assertLessEqual(report["span_lower_bound_ms"], report["span_ms"])
        plan = self.folder / "plan.pipe"
        self.assertIn("; the search was stopped by --time: more time may find a better one\n",
                      self.in_time("compile", spec, "-o", plan).stderr)
        self.pipec("verify", plan)
        found = json.loads(self.in_time("search", spec, "--json").stdout)
        self.assertEqual(found["stopped"], "--time")
        self.assertTrue(found["schedules"])
        self.assertIn("\nstopped by --time: more time may find more, and better\n", self.in_time("search", spec).stdout)

    def test_an_exchange_is_searched_for_in_time_too(self):
        report = json.loads(self.in_time("report", SPECS / "data-parallel.yaml", "--json", time=1).stdout)
        self.assertEqual(report["stopped"], "--time")
        self.assertLessEqual(report["span_lower_bound_ms"], report["span_ms"])

    def test_many_stages_on_a_rank_are_no_hang(self):
        """What is looked at before a search does not take the third power of them."""
        done = self.pipec("report", SPECS / "auto.yaml", "--set", "pipeline.stages_per_rank=4096", "--set", "memory.limit=100TiB",
                          "--time", "1ms", code=INPUT)
        self.assertIn("error: the search was stopped before it found an order", done.stderr)

    def test_time_enough_changes_nothing(self):
        spec = SPECS / "auto.yaml"
        for plan, arguments in (("whole", ()), ("timed", ("--time", "1000s"))):
            self.pipec("compile", spec, "-o", self.folder / plan, *arguments)
        self.assertEqual((self.folder / "whole").read_bytes(), (self.folder / "timed").read_bytes())
        self.assertNotIn("stopped", json.loads(self.pipec("report", spec, "--time", "1000s", "--json").stdout))

    def test_times_that_are_none(self):
        for command in ("compile", "report", "search"):
            for time, message in (("0s", "--time: expected 1ms or more, found 0s"), ("5", "--time: ")):
                self.assertIn(message, self.pipec(command, SPECS / "auto.yaml", "--time", time, code=USAGE).stderr)
        self.assertIn("--time is for the search of a spec; this is a plan",
                      self.pipec("report", self.compile(SPECS / "1f1b.yaml"), "--time", "1s", code=USAGE).stderr)

    def test_an_interrupted_search_shows_what_it_has(self):
        search = Terminal(self, "search", self.spec(LONG.replace("schedule: auto", "schedule: v-min")))
        search.shows(rb"trying (?!auto)")
        search.interrupt()
        code, out = search.ends()
        self.assertEqual(code, INTERRUPTED)
        self.assertRegex(out, r"(?m)^auto +\d")
        self.assertIn("\nstopped by SIGINT: more time may find more, and better\n", out)

    def test_an_interrupted_sweep_and_proof_show_what_they_have(self):
        sweep = Terminal(self, "search", self.spec(LONG.replace("1024", "64")), "--sweep", "memory")
        sweep.shows(rb"under .*under ")
        sweep.interrupt()
        code, out = sweep.ends()
        self.assertEqual(code, INTERRUPTED)
        self.assertIn("\nstopped by SIGINT: ", out)
        self.assertRegex(out, r"(?m)^ +[\d.]+ [MG]iB +[\d.]+ m?s ")
        if "built without" in tool("pipec", "search", SPECS / "1f1b.yaml", "--exact", "--time", "1ms").stderr:
            self.skipTest("no solver")
        proof = Terminal(self, "search", SPECS / "auto.yaml", "--exact", "--time", "1000s")
        proof.shows(b"asking for")
        proof.interrupt()
        code, out = proof.ends()
        self.assertEqual(code, INTERRUPTED)
        self.assertRegex(out, r"(?m)^exact: span .* proven, a gap of .* is left$")

    def test_the_second_interrupt_ends_at_once(self):
        search = Terminal(self, "search", self.spec(LONG.replace("1024", "16384").replace("auto", "v-min")))
        search.shows(b"trying auto")
        def gone():
            search.interrupt()
            return search.process.poll() is not None
        until(gone, "the end of a search that is interrupted again and again")
        self.assertEqual(search.ends(), (INTERRUPTED, ""))

    def test_an_interrupted_compile_leaves_nothing(self):
        spec = self.spec(LONG.replace("1024", "16384").replace("schedule: auto", "schedule: v-min"))
        compiling = Terminal(self, "compile", spec, PIPEC_PROGRESS="0ms")
        compiling.shows(b"v-min: making and checking the programs, ")
        compiling.interrupt()
        self.assertEqual(compiling.ends()[0], -signal.SIGINT)
        self.assertEqual([each.name for each in self.folder.iterdir()], [spec.name])

    def test_progress_is_for_terminals(self):
        spec = self.spec(LONG.replace("1024", "256").replace("schedule: auto", "schedule: v-min"))
        report = Terminal(self, "report", spec, PIPEC_PROGRESS="0ms")
        code, out = report.ends()
        self.assertEqual(code, OK)
        self.assertIn("v-min: 8 ranks", out)
        until(lambda: report.shown.endswith(b"\r\x1b[K"), "the end of the line")
        self.assertRegex(report.shown, rb"\r\x1b\[Kv-min: making [a-z ]*, \d+ s\r")
        short = Terminal(self, "report", SPECS / "1f1b.yaml", PIPEC_PROGRESS="1000s")
        self.assertEqual(short.ends()[0], OK)
        self.assertNotIn(b" s\r", short.shown)
        done = self.pipec("report", spec, env={**os.environ, "PIPEC_PROGRESS": "0ms"})
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
