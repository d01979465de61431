"""A lost or stuck rank ends the whole run, with exit code 4, says which rank, and leaves no process. A lost one does so at
once: nobody waits for the deadline, which is far away."""
import json
import os
import random
import resource
import signal
import time
import unittest

from support import HANG, OK, RUN, SOAK, SPECS, ToolTest

DEADLINE = 4  # seconds a wait may last where somebody is stuck
NEVER = 10 * HANG


class FailureTest(ToolTest):
    def start(self, ranks, *arguments, deadline=NEVER):
        """A run of many short steps: the launcher, once all ranks have met, and the ranks' pids."""
        plan = self.compile(SPECS / "1f1b.yaml", pipeline__ranks=ranks, costs__forward="1ms", costs__backward_input="1ms",
                            costs__backward_weight="1ms", costs__link="{latency: 100us, bandwidth: 10GB/s}")
        launcher, pids = self.launch(plan, "--steps", 1000000, "--deadline", deadline, *arguments)
        self.assertEqual(sorted(pids), list(range(ranks)))
        return launcher, pids

    def ends(self, launcher, pids):
        """Waits for the end, whose messages it returns; no process is left."""
        _, messages = launcher.communicate(timeout=HANG)
        self.assertEqual(launcher.returncode, RUN, messages)
        self.nobody_is_left(pids.values())
        return messages

    def test_a_killed_rank_ends_all(self):
        for ranks, victim in [(4, 0), (4, 1), (4, 3), (8, 5)] * (10 if SOAK else 1):
            with self.subTest(ranks=ranks, victim=victim):
                launcher, pids = self.start(ranks)
                os.kill(pids[victim], signal.SIGKILL)
                messages = self.ends(launcher, pids)
                self.assertRegex(messages, rf"error: .*rank {victim}\b.*\b(9|Killed)\b")

    def test_a_stuck_rank_ends_all(self):
        launcher, pids = self.start(4, "--rendezvous", HANG, deadline=DEADLINE)
        begin = time.monotonic()
        os.kill(pids[2], signal.SIGSTOP)
        messages = self.ends(launcher, pids)  # noticed by the deadline, then ended by force
        self.assertGreater(time.monotonic() - begin, 0.9 * DEADLINE)
        self.assertRegex(messages, r"rank 2\b")

    def test_a_killed_launcher_leaves_nobody(self):
        launcher, pids = self.start(4)
        launcher.kill()
        launcher.wait()
        self.nobody_is_left(pids.values())

    def test_a_signal_to_the_launcher_ends_the_run_in_order(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                trace = self.folder / "trace.json"
                launcher, pids = self.start(4, "--json", "--trace", trace)
                launcher.send_signal(number)
                out, messages = launcher.communicate(timeout=HANG)
                self.assertEqual(launcher.returncode, OK, messages)
                run = json.loads(out)
                self.assertLess(run["steps"], 1000000)
                self.assertEqual((run["ended"], run["steps_asked"]), (number.name, 1000000))
                last = {}
                for event in json.loads(trace.read_text())["traceEvents"]:
                    if event["ph"] == "X":
                        last[event["pid"]] = max(last.get(event["pid"], 0), event["args"]["step"])
                self.assertEqual(last, dict.fromkeys(range(4), run["steps"] - 1))
                self.nobody_is_left(pids.values())

    def test_a_second_signal_ends_all_at_once(self):
        launcher, pids = self.start(4)
        os.kill(pids[1], signal.SIGSTOP)  # so the run cannot end in order
        launcher.send_signal(signal.SIGTERM)
        for line in launcher.stderr:
            if "the run ends after the steps that are permitted" in line:
                break
        launcher.send_signal(signal.SIGTERM)
        self.assertRegex(self.ends(launcher, pids), "error: ended by signal 15")

    def test_ten_kills_at_random_moments_of_each_process_in_turn(self):
        control = self.folder / "control"
        for n in range(100 if SOAK else 10):
            victim, moment = n % 4, random.randrange(60)
            with self.subTest(n, victim=victim, moment=moment):
                launcher, pids = self.start(4, "--control", control)
                while json.loads(self.piperun("--control", control, "status", "--json").stdout)["step"] < moment:
                    pass
                os.kill(pids[victim], signal.SIGKILL)
                messages = self.ends(launcher, pids)
                self.assertRegex(messages, rf"error: rank {victim} \(pid {pids[victim]}\) was killed by signal 9")
                self.assertFalse(control.exists())

    def test_full_disk_while_saving(self):
        plan = self.compile(SPECS / "1f1b.yaml")
        folder = self.folder / "states"
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
        done = self.piperun(plan, "--local", "--steps", 4, "--checkpoint", folder, "--every", 2, code=RUN, preexec_fn=limit)
        self.assertRegex(done.stderr, r"rank \d: the state after 2 steps could not be saved")
        self.assertEqual(os.listdir(folder), [], "half-written files are left")

    def test_no_space_for_the_trace(self):
        trace = self.folder / "trace.json"
        plan = self.compile(SPECS / "1f1b.yaml", costs__forward="100us", costs__backward_input="100us",
                            costs__backward_weight="100us")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        done = self.piperun(plan, "--local", "--steps", 20, "--trace", trace, "--json", code=RUN, preexec_fn=limit)
        self.assertIn(f"{trace}: ", done.stderr)
        self.assertEqual(json.loads(done.stdout)["code"], RUN)
        self.assertEqual([each.name for each in self.folder.iterdir() if each.name.startswith("trace")], [])


if __name__ == "__main__":
    unittest.main()
