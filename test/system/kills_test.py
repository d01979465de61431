"""Processes of a run that are killed at any moment: while it plans anew, adapts, swaps, saves and begins again. The run ends, says
who was killed and leaves nobody behind; its newest checkpoint goes on to the state that a run has which nobody killed.
PIPEC_SOAK=1: 100 kills; PIPEC_SEED, PIPEC_KILLS."""
import collections
import json
import os
import pathlib
import random
import signal
import time
import unittest

from support import BIN, HANG, OK, RUN, SOAK, ControlledTest, tool, until
from timing import judge

SEED = int(os.environ.get("PIPEC_SEED") or (random.randrange(1 << 30) if SOAK else 16))  # 16: kills each of them
KILLS = int(os.environ.get("PIPEC_KILLS") or (100 if SOAK else 12))
LIBRARY = BIN / "mlp.so"
RANKS = 3
SPEC = """\
pipec: 1
pipeline: {ranks: 3, microbatches: 4, cut: [1, 1, 1]}
layers: [{count: 3, forward: 200us, backward: 400us, boundary: 512B}]
costs: {optimizer: 100us, link: {latency: 60us}}
schedule: 1f1b
variants: [{schedule: 1f1b}, {schedule: gpipe}]
provider: {hidden: 16, samples: 8, seed: 1, rate: 0.01}
"""
# What a run does meanwhile, and how often it saves, in steps.
KINDS = {"replan": 7, "adapt": 5, "swap": 5, "save": 1, "restart": 3}


def session_of(leader):
    """{pid: its command line} of the processes of a session that have not ended."""
    found = {}
    for each in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (each / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[:4]
            if int(session) == leader and state not in "ZX":
                found[int(each.name)] = (each / "cmdline").read_bytes()
        except OSError:
            pass  # it has ended
    return found


class KillsTest(ControlledTest):
    def setUp(self):
        super().setUp()
        self.source = self.folder / "spec.yaml"
        self.source.write_text(SPEC, encoding="ascii")
        self.plan = self.compile(self.source)

    def trained(self, states, *arguments):
        """{file: hash} of the state that a run ends with."""
        run = self.run_json(self.plan, f"--stage={LIBRARY}", "--checkpoint", states, *arguments)
        manifest = json.loads((states / "manifest.json").read_text())
        return run, {each["name"]: each["hash"] for each in manifest["files"]}

    def check_checkpoint(self, states):
        """The newest one goes on to the state of a run that nobody killed. False: it was killed before all had saved."""
        if not (states / "manifest.json").exists():
            return False
        step = json.loads((states / "manifest.json").read_text())["step"]
        run, resumed = self.trained(states, "--resume", "--steps", step + 2)
        self.assertEqual(run["first_step"], step)
        whole = self.folder / f"{states.name}-whole"
        self.assertEqual(resumed, self.trained(whole, "--steps", step + 2)[1])
        return True

    def check_kill(self, draw, kind, states):
        options = {"replan": ["--replan", self.source], "adapt": ["--adapt=profile"], "restart": ["--restart", 1]}.get(kind, [])
        launcher, pids = self.launch(self.plan, f"--stage={LIBRARY}", "--steps", 1000000, "--checkpoint", states, "--every",
                                     KINDS[kind], "--control", self.control, *options, start_new_session=True)
        who = draw.choice(["rank", "rank", "rank", "run", "planner"] if kind == "replan" else ["rank", "rank", "rank", "run"])
        rank, after = draw.randrange(RANKS), draw.uniform(0, 1.5 if SOAK else 0.4)
        if kind == "swap":
            for n in range(draw.randint(1, 4)):
                self.ask(self.control, "swap", 1 - n % 2)
        time.sleep(after)
        if who == "planner":
            planner = until(lambda: [pid for pid, command in session_of(launcher.pid).items() if b"\0replan\0" in command], "a planner")[0]
            os.kill(planner, signal.SIGKILL)
            step = self.status()["step"]
            until(lambda: self.status()["step"] > step, "a step without a planner")
            self.ask(self.control, "stop")
        begin, seen = time.monotonic(), ""
        if who == "rank":
            os.kill(pids[rank], signal.SIGKILL)
            if kind == "restart":
                seen = self.stopped_after_a_restart(launcher)
        elif who == "run":
            launcher.kill()
        messages = seen + launcher.communicate(timeout=HANG)[1]
        until(lambda: not session_of(launcher.pid), f"the end of all processes of the run: {messages}")
        judge(self, f"how long a run lives whose {who} was killed ({kind}), of 10 s", (time.monotonic() - begin) / 10, 1)
        codes = {"rank": OK if kind == "restart" else RUN, "run": -signal.SIGKILL, "planner": OK}
        self.assertEqual(launcher.returncode, codes[who], messages)
        if who == "rank":
            self.assertIn(f"rank {rank} (pid {pids[rank]}) was killed by signal 9", messages)
            self.assertEqual("restart 1 of 1 from step" in messages, kind == "restart", messages)
        return who, self.check_checkpoint(states)

    def stopped_after_a_restart(self, launcher):
        """Stops a run once it has begun again. Its messages until then."""
        seen = ""
        for line in launcher.stderr:
            seen += line
            if "restart 1 of 1 from step" in line:
                until(lambda: launcher.poll() is not None or tool("piperun", "--control", self.control, "stop").returncode == OK,
                      "a run that has begun again")
                break
        return seen

    def test_whoever_is_killed_the_run_ends_and_its_checkpoint_goes_on(self):
        draw, killed, went_on = random.Random(SEED), collections.Counter(), 0
        for number in range(KILLS):
            kind = list(KINDS)[number % len(KINDS)]
            with self.subTest(f"seed {SEED}, {number}: {kind}"):
                who, goes_on = self.check_kill(draw, kind, self.folder / f"states-{number}")
                killed[f"{who} of {kind}"] += 1
                went_on += goes_on
        print(f"seed {SEED}, killed: {dict(killed)}; {went_on} checkpoints went on")
        self.assertGreater(went_on, KILLS // 3)


if __name__ == "__main__":
    unittest.main()
