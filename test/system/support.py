"""What the whole-program tests share: finding the tools, running them, specs made in a folder of their own.

The tools come from PIPEC_BIN, the repository from PIPEC_SOURCE (CTest sets both). PIPEC_SOAK=1 (tools/soak) asks for
longer runs and takes times strictly. Without it no test may depend on how fast, even or idle the machine is: what must
happen is waited for (until), an end is missed only after minutes (HANG), and no run's own deadline comes near (PATIENCE).
"""
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from ports import free_port  # noqa: F401: for the tests

BIN = pathlib.Path(os.environ["PIPEC_BIN"])
SOURCE = pathlib.Path(os.environ["PIPEC_SOURCE"])
SPECS = SOURCE / "specs"
GOLDEN = SOURCE / "test" / "golden" / "format-1.0.plan"
SOAK = os.environ.get("PIPEC_SOAK", "") not in ("", "0")

HANG = 1800 if SOAK else 600  # seconds after which a program hangs
PATIENCE = 300  # the --deadline of a run whose deadline is not what is tested

OK, INPUT, USAGE, CHECK, RUN = range(5)  # exit codes (design, section 7)

# Settings that make the work of an example smaller whose search takes ten seconds. system.docs compiles them as they stand.
SMALLER = {} if SOAK else {"recompute.yaml": {"pipeline__microbatches": 6},
                           "data-parallel.yaml": {"pipeline__ranks": 2, "layers[0]__count": 8}}


def tool(name, *arguments, **options):
    """Runs a tool to its end; a hang is a failure of its own."""
    options = {"timeout": HANG, "capture_output": True, "text": True, **options}
    return subprocess.run([BIN / name, *map(str, arguments)], **options)


def patient(arguments):
    """The arguments of piperun, with a deadline that no busy machine reaches where none is given."""
    arguments = [*map(str, arguments)]
    return arguments + ["--deadline", str(PATIENCE)] if "--local" in arguments and "--deadline" not in arguments else arguments


def until(holds, what):
    """What holds() returns once that is true. It is asked less and less often, ten times a second in the end: to ask a run
    takes a process."""
    end, pause = time.monotonic() + HANG, 0.005
    while not (found := holds()):
        if time.monotonic() > end:
            raise AssertionError(f"in {HANG} s it did not come about: {what}")
        time.sleep(pause)
        pause = min(1.3 * pause, 0.1)
    return found


def alive(pid):
    """Also where its first thread alone has ended: others still have its files."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
        return state != "Z" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


class ToolTest(unittest.TestCase):
    """A test with a folder of its own, which is its tools' working directory's sibling, never the repository."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pipec-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tool(self, name, *arguments, code=OK, **options):
        done = tool(name, *arguments, **options)
        command = " ".join(map(str, [name, *arguments]))
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout}\n{done.stderr}")
        return done

    def check_jobs(self, jobs, clocked=True):
        """Checks that no job has failed. Where the clock measures its atoms a job may rest: on a busy machine they take longer
        than a piece may."""
        for job in jobs:
            if not clocked:
                self.assertIsNone(job["failed"])
            elif job["failed"] is not None:
                self.assertRegex(job["failed"], r"^job \w+ rests: an atom takes", job)

    def pipec(self, *arguments, **options):
        return self.run_tool("pipec", *arguments, **options)

    def piperun(self, *arguments, **options):
        return self.run_tool("piperun", *patient(arguments), **options)

    def compile(self, spec, **settings):
        """The plan of a spec (a path, or a text to write into one); settings are --set's, __ standing for a dot."""
        plan = self.folder / "plan.pipe"
        self.pipec("compile", self.spec(spec), "-o", plan, *sets(settings))
        return plan

    def report(self, spec, **settings):
        return json.loads(self.pipec("report", self.spec(spec), "--json", *sets(settings)).stdout)

    def run_json(self, plan, *arguments, **options):
        return json.loads(self.piperun(plan, "--local", "--json", *arguments, **options).stdout)

    def launch(self, plan, *arguments, **options):
        """piperun PLAN --local, once all have met, and their pids by rank, or by (rank, replica or shard) where there are some;
        what is left of it ends with the test."""
        launcher = subprocess.Popen([BIN / "piperun", *patient([plan, "--local", "-v", *arguments])],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        for last in (launcher.stderr.close, launcher.stdout.close, launcher.wait, launcher.kill):
            self.addCleanup(last)
        pids = {}
        for line in launcher.stderr:
            if match := re.search(r"rank (\d+)(?: (?:replica|shard) (\d+))? has pid (\d+)", line):
                rank = int(match[1])
                pids[(rank, int(match[2])) if match[2] else rank] = int(match[3])
            if "ranks have met" in line:
                return launcher, pids
        self.fail(f"the run ended with {launcher.wait()}")

    def names_who_stands_still(self, plan, who, message):
        """Stops a process of a run, by its key in the pids, until the run says so and has ended."""
        for deadline in (2, 20, 200):  # where a busy machine makes another one late for it, longer
            launcher, pids = self.launch(plan, "--steps", 1000000, "--deadline", deadline)
            os.kill(pids[who], signal.SIGSTOP)
            messages = launcher.communicate(timeout=HANG)[1]
            self.assertEqual(launcher.returncode, RUN)
            self.nobody_is_left(pids.values())
            if message in messages:
                return
        self.fail(messages)

    def nobody_is_left(self, pids):
        until(lambda: not any(map(alive, pids)), f"the end of one of the processes {pids}")

    def complete_events(self, trace, step):
        """What ran in a step, without its times: {(process, kind, stage, microbatch, of): how often}."""
        found = {}
        for event in trace["traceEvents"]:
            if event["ph"] != "X":
                continue
            arguments = event["args"]
            self.assertLessEqual({"step", "stage", "kind", "microbatch", "epoch"}, arguments.keys())
            self.assertLessEqual({"ts", "dur", "pid", "tid", "name"}, event.keys())
            if arguments["step"] == step:
                key = (event["pid"], event["name"], arguments["kind"], arguments["stage"], arguments["microbatch"],
                       arguments.get("of"))
                found[key] = found.get(key, 0) + 1
        return found

    def check_attempts(self, traces, restarted, steps):
        """Every instruction stands once in the traces: before step `restarted` the first attempt's, then the second's,
        which came later."""
        seen, ends, starts = collections.Counter(), 0, []
        for trace in traces:
            for event in json.loads(trace.read_text())["traceEvents"]:
                if event["ph"] == "X":
                    a = event["args"]
                    seen[(a["step"], a["stage"], a["kind"] + a.get("of", ""), a["microbatch"])] += 1
                    self.assertEqual(a.get("attempt", 0), int(a["step"] >= restarted))
                    if "attempt" in a:
                        starts.append(event["ts"])
                    else:
                        ends = max(ends, event["ts"] + event["dur"])
        self.assertEqual({key for key, times in seen.items() if times != 1}, set())
        self.assertEqual({step for step, *_ in seen}, set(range(steps)))
        self.assertGreater(min(starts), ends)

    def spec(self, spec):
        if isinstance(spec, pathlib.Path):
            return spec
        path = self.folder / "spec.yaml"
        path.write_text(spec, encoding="utf-8")
        return path


class ControlledTest(ToolTest):
    """Runs with a control socket."""

    def setUp(self):
        super().setUp()
        self.control = self.folder / "control"

    def start(self, plan, *arguments):
        """A run, once all ranks have met, its socket, and its pids by rank."""
        launcher, pids = self.launch(plan, "--json", "--control", self.control, *arguments)
        return launcher, self.control, pids

    def ask(self, control, *words, code=OK):
        done = tool("piperun", "--control", control, *words, "--deadline", PATIENCE)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def status(self, control=None):
        return json.loads(self.ask(control or self.control, "status", "--json").stdout)

    def end(self, launcher, control=None):
        """Its JSON and its messages."""
        self.ask(control or self.control, "stop")
        out, messages = launcher.communicate(timeout=HANG)
        self.assertEqual(launcher.returncode, OK, messages)
        return json.loads(out), messages


def sets(settings):
    return [part for key, value in settings.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]
