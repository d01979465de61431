"""tools/netlab: its links have the scenario's bandwidth, never more, change it when the scenario says so, and go silent
when cut; nothing of it is left, however it ends. What bandwidth there is, tools/soak judges. Skips, with the reason, where
the machine does not allow namespaces."""
import json
import os
import re
import signal
import subprocess
import sys
import unittest

from support import HANG, SOURCE, ToolTest
from timing import judge

NETLAB = SOURCE / "tools" / "netlab"
SKIP = 77

# Rank 0 sends, rank 1 prints what came in each half second of three, what in all, and until when: when nothing more comes.
FLOW = """
import os, select, socket, sys, time
if os.environ["RANK"] == "1":
    listener = socket.create_server(("0.0.0.0", 7000))
    peer, _ = listener.accept()
    begin, got, whole = time.monotonic(), [0] * 6, 0
    while select.select([peer], [], [], 5)[0] and (part := len(peer.recv(1 << 18))):
        whole, at = whole + part, time.monotonic() - begin
        if at < 3:
            got[int(2 * at)] += part
    print(*got, whole, at)
else:
    while True:
        try:
            peer = socket.create_connection(("10.77.0.2", 7000))
            break
        except ConnectionRefusedError:
            pass
    print("connected", file=sys.stderr, flush=True)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    peer.setblocking(False)
    while select.select([], [peer], [], 5)[1]:  # until nothing leaves any more
        peer.send(bytes(1 << 16))
"""


class NetlabTest(ToolTest):
    def scenario(self, **parts):
        path = self.folder / "network.json"
        path.write_text(json.dumps({"scenario": 1, **parts}), encoding="utf-8")
        return path

    def netlab(self, *arguments, code=0):
        done = subprocess.run([sys.executable, "-B", NETLAB, *map(str, arguments)], capture_output=True, text=True,
                              timeout=HANG)
        if done.returncode == SKIP:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_links_have_the_scenarios_bandwidth(self):
        path = self.scenario(default={"bandwidth": "100MB/s"}, links=[{"from": 1, "to": 0, "bandwidth": "20MB/s"}])
        done = self.netlab(path, "--ranks", 2, "--measure", 0.5)
        judge(self, "bandwidth in the lab", float(re.search(r"worst of 2 links: (.*) %", done.stdout)[1]) / 100, 0.05)

    def test_links_change_and_go_silent_when_the_scenario_says_so(self):
        path = self.scenario(links=[{"from": 0, "to": 1, "bandwidth": "40MB/s",
                                     "changes": [{"at": "1s", "bandwidth": "8MB/s"}]}],
                             faults=[{"cut": [0, 1], "at": "2s"}])
        # That it ends: the cut link is silent.
        done = self.netlab(path, "--ranks", 2, "--start-at", "connected", "--", sys.executable, "-c", FLOW)
        *got, whole, last = map(float, done.stdout.split())
        got = [each / 0.5e6 for each in got]
        print("MB/s in each half second:", *(f"{each:.1f}" for each in got))
        self.assertGreater(whole, 1e6)
        self.assertLess(whole, 40e6 * last + 8e6)  # and what came before rank 1 looked
        # The first holds the start, the third what was queued at the change.
        judge(self, "changes in the lab", max(abs(got[1] / 40 - 1), abs(got[3] / 8 - 1), got[5] / 8), 0.25)

    def test_a_command_that_fails_and_a_wrong_scenario(self):
        self.netlab(self.scenario(), "--ranks", 2, "--", "sh", "-c", "exit $((3 * RANK))", code=3)
        self.assertIn("no link from 0 to 5", self.netlab(self.scenario(links=[{"from": 0, "to": 5}]), "--measure", 1,
                                                         code=1).stderr)
        self.assertIn("usage", self.netlab(self.scenario(), code=2).stderr)

    def test_nothing_is_left(self):
        mark = f"{os.getpid()}.5"
        lab = subprocess.Popen([sys.executable, "-B", NETLAB, self.scenario(), "--ranks", "2", "--", "sh", "-c",
                                f"echo up; exec sleep 1000{mark}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        self.addCleanup(lab.stderr.close)
        self.addCleanup(lab.stdout.close)
        if not lab.stdout.readline():
            lab.wait()
            self.skipTest(lab.stderr.read().strip())
        lab.send_signal(signal.SIGKILL)
        lab.wait()
        lab.stdout.read()  # ends once all have gone who hold it


if __name__ == "__main__":
    unittest.main()
