"""Every wait has an owner and a reason: what takes long goes on, for as long as its kind of work may last; who stands still or
is gone ends the run, and is named.

A machine may be too busy for the short times of these tests: then they take longer ones."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest
import unittest.mock

from launch_test import clean
from support import BIN, HANG, OK, RUN, SOAK, SPECS, ControlledTest, ToolTest, free_port, until

SLOW = pathlib.Path(os.environ["PIPEC_PROBES"]) / "probe-slow.so"
SHORT = {"costs__forward": "200us", "costs__backward_input": "200us", "costs__backward_weight": "100us", "backward": "fused"}
DEADLINE = 8 if SOAK else 1  # seconds that a pass may take
LONG = 30 if SOAK else 2.5  # seconds that what is slow takes
SCALES = (1, 4, 16)  # of both
NEVER = 10 * HANG
RANKS = 4

# Three layers, of which the spec believes the last one to take ten times as long as the others: plans made anew move some.
LAYERS = """
pipec: 1
pipeline: {ranks: 2, microbatches: 4, cut: auto}
layers:
  - {count: 5, forward: 200us, backward: 200us, boundary: 4KiB}
  - {forward: 2ms, backward: 2ms, boundary: 4KiB}
costs: {optimizer: 100us, link: {latency: 60us}}
schedule: 1f1b
"""


def slow(call, rank, seconds):
    """The environment in which a rank takes its time over one kind of call."""
    return {**clean(), "PIPEC_SLOW": f"{call}:{rank}:{int(1000 * seconds)}"}


class WaitsTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPECS / "1f1b.yaml", pipeline__ranks=RANKS, **SHORT)
        self.attempts = 0

    def states(self):
        self.attempts += 1
        return self.folder / f"states-{self.attempts}"

    def scaled(self, judge):
        """judge(scale) holds, on a busy machine with longer times."""
        for scale in SCALES:
            try:
                return judge(scale)
            except AssertionError:
                if scale == SCALES[-1]:
                    raise

    def local(self, *arguments, code=OK, environment=None):
        return self.piperun(self.plan, "--local", f"--stage={SLOW}", "--rendezvous", HANG, *arguments, code=code, env=environment)

    def begin(self, deadline, *arguments, environment=None):
        """The ranks, started by hand."""
        port = free_port()
        processes = []
        for rank in range(RANKS):
            variables = {**(environment or clean()), "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PIPEC_SECRET": "a secret of the test"}
            process = subprocess.Popen([BIN / "piperun", self.plan, f"--stage={SLOW}", "--deadline", str(deadline),
                                        "--rendezvous", str(HANG), *map(str, arguments)], env=variables, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for last in (process.stderr.close, process.stdout.close, process.wait, process.kill):
                self.addCleanup(last)
            processes.append(process)
        return processes

    def meet(self, deadline, *arguments):
        """The ranks, once they have met and done some steps."""
        control = self.folder / f"control-{free_port()}"
        processes = self.begin(deadline, "-v", "--steps", 1000000, "--control", control, *arguments)
        self.say_met(processes[0].stderr)
        self.runs(control)
        return processes

    def say_met(self, stream):
        for line in stream:
            if "ranks have met" in line:
                return
        self.fail("the ranks have not met")

    def runs(self, control):
        """Waits until the run at the socket has done some steps."""
        until(lambda: json.loads(self.piperun("--control", control, "status", "--json", "--deadline", HANG).stdout)["step"] > 3,
              "some steps")

    def ends(self, processes, codes):
        messages = [process.communicate(timeout=HANG)[1] for process in processes]
        self.assertEqual([process.returncode for process in processes], codes, "\n".join(messages))
        return messages


class SlowTest(WaitsTest):
    """What takes longer than a pass may is none."""

    def saves(self, *arguments):
        def judge(scale):
            done = self.local("--steps", 6, "--deadline", scale * DEADLINE, "--checkpoint", self.states(), *arguments,
                              environment=slow("save", 1, scale * LONG))
            self.assertRegex(done.stderr, r"rank 1 .*saves its state \(\d+ s so far\)")
        self.scaled(judge)

    def test_saving_at_the_end(self):
        self.saves()

    def test_saving_amid_the_run(self):
        self.saves("--every", 3)

    def test_saving_by_processes_that_others_have_started(self):
        def judge(scale):
            states = self.states()
            processes = self.begin(scale * DEADLINE, "--steps", 6, "--checkpoint", states,
                                   environment=slow("save", 1, scale * LONG))
            messages = self.ends(processes, [OK] * RANKS)
            self.assertRegex("".join(messages), r"rank 1 .*saves its state \(\d+ s so far\)")
            self.assertEqual(json.loads((states / "manifest.json").read_text())["step"], 6)
        self.scaled(judge)

    def test_loading(self):
        def judge(scale):
            states = self.states()
            self.local("--steps", 2, "--checkpoint", states, "--deadline", HANG)
            done = self.local("--steps", 4, "--checkpoint", states, "--resume", "--deadline", scale * DEADLINE, "--json",
                              environment=slow("load", 1, scale * LONG))
            self.assertEqual(json.loads(done.stdout)["steps"], 4)
            self.assertRegex(done.stderr, r"rank 1 .*loads its state \(\d+ s so far\)")
        self.scaled(judge)

    def test_loading_after_a_restart_uses_up_no_other(self):
        def judge(scale):
            control, states = self.folder / f"control-{scale}", self.states()
            launcher, pids = self.launch(self.plan, f"--stage={SLOW}", "--steps", 1000000, "--json", "--checkpoint", states,
                                         "--every", 20, "--restart", 1, "--deadline", scale * DEADLINE, "--rendezvous", HANG,
                                         "--control", control, env=slow("load", 1, scale * LONG))
            until((states / "manifest.json").exists, "a checkpoint")
            os.kill(pids[2], signal.SIGKILL)
            self.say_met(launcher.stderr)
            self.runs(control)
            self.piperun("--control", control, "stop", "--deadline", HANG)
            out, messages = launcher.communicate(timeout=HANG)
            self.assertEqual(launcher.returncode, OK, messages)
            self.assertEqual(json.loads(out)["restarts"], 1)
        self.scaled(judge)

    def test_making_stages(self):
        def judge(scale):
            done = self.local("--steps", 2, "--deadline", scale * DEADLINE, environment=slow("create", 1, scale * LONG))
            self.assertRegex(done.stderr, r"rank 1 .*makes its stages? \(\d+ s so far\)")
        self.scaled(judge)

    def test_longer_than_idle_ends_the_run(self):
        def judge(scale):
            done = self.local("--steps", 2, "--deadline", scale * DEADLINE, "--idle", 2 * scale * DEADLINE, "--checkpoint",
                              self.states(), code=RUN, environment=slow("save", 1, HANG))
            self.assertRegex(done.stderr, r"rank 1 .*saves its state \(")
        self.scaled(judge)

    def test_a_pass_that_never_ends(self):
        def judge(scale):
            done = self.local("--steps", 2, "--deadline", scale * DEADLINE, code=RUN, environment=slow("forward", 2, NEVER))
            self.assertRegex(done.stderr, r"rank 2 .*computes F stage 2 microbatch 0 \(")
        self.scaled(judge)


class RecutTest(ControlledTest, WaitsTest):
    def test_saving_where_layers_move(self):
        plan = self.compile(LAYERS)

        def judge(scale):
            self.control = self.folder / f"control-{scale}"
            launcher, _, _ = self.start(plan, f"--stage={SLOW}", "--adapt", "--steps", 1000000, "--checkpoint", self.states(),
                                        "--deadline", scale * DEADLINE, "--rendezvous", HANG)
            self.addCleanup(launcher.kill)
            until(lambda: len(self.status()["adapt"]["estimates"]["stages"]) == 2, "what every stage takes")
            cut = self.status()["cut"]
            anew = ["replan", self.spec(LAYERS), "--control", self.control, "--once", "--json", "--cut", "--gain", "0%"]
            until(lambda: self.pipec(*anew) and self.status()["cut"] != cut, "another cut")
            run, messages = self.end(launcher)
            self.assertEqual(len(run["adapt"]["recuts"]), 1)
            self.assertRegex(messages, r"rank 0 .*saves its state \(\d+ s so far\)")

        def slowly(scale):
            with unittest.mock.patch.dict(os.environ, slow("save", 0, scale * LONG / 3)):  # a layer
                judge(scale)
        self.scaled(slowly)


class StandingTest(WaitsTest):
    """Who stands still, or is gone, is named: by each other process, and nobody else is."""

    def check_cause(self, messages, cause):
        for message in messages:
            self.assertRegex(message, cause)
            named = set(re.findall(r"rank \d(?= at \S+ (?:does not answer|is gone))", message))
            self.assertEqual(len(named), 1, message)

    def stands(self, who, cause):
        def judge(scale):
            processes = self.meet(scale * DEADLINE)
            processes[who].send_signal(signal.SIGSTOP)
            others = [process for process in processes if process is not processes[who]]
            messages = self.ends(others, [RUN] * (RANKS - 1))
            processes[who].kill()
            self.check_cause(messages, cause)
        self.scaled(judge)

    def test_rank_0(self):
        self.stands(0, r"rank 0 at 127\.0\.0\.1 does not answer")

    def test_another_rank(self):
        self.stands(2, r"rank 2 at 127\.0\.0\.1 does not answer")

    def test_rank_0_is_killed(self):
        processes = self.meet(NEVER)
        processes[0].kill()
        self.check_cause(self.ends(processes[1:], [RUN] * (RANKS - 1)), r"rank 0 at 127\.0\.0\.1 is gone")

    def test_all_for_longer_than_the_deadline(self):
        """As where a machine or a container is suspended."""
        def judge(scale):
            control = self.folder / f"control-{scale}"
            launcher, pids = self.launch(self.plan, f"--stage={SLOW}", "--steps", 1000000, "--deadline", scale * DEADLINE,
                                         "--rendezvous", HANG, "--control", control)
            self.runs(control)
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for pid in (launcher.pid, *pids.values()):
                    os.kill(pid, number)
                if number == signal.SIGSTOP:
                    time.sleep(2.5 * scale * DEADLINE)
            self.runs(control)
            self.piperun("--control", control, "stop", "--deadline", HANG)
            _, messages = launcher.communicate(timeout=HANG)
            self.assertEqual(launcher.returncode, OK, messages)
        self.scaled(judge)

    def test_the_launcher(self):
        def judge(scale):
            launcher, pids = self.launch(self.plan, f"--stage={SLOW}", "--steps", 1000000, "--deadline", scale * DEADLINE,
                                         "--rendezvous", HANG)
            launcher.send_signal(signal.SIGSTOP)
            self.nobody_is_left(pids.values())
            launcher.send_signal(signal.SIGCONT)
            _, messages = launcher.communicate(timeout=HANG)
            self.assertEqual(launcher.returncode, RUN, messages)
            self.assertRegex(messages, rf"rank \d.*piperun \(pid {launcher.pid}\) does not answer")
        self.scaled(judge)


if __name__ == "__main__":
    unittest.main()
