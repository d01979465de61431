"""Ranks on machines of their own, as far as one machine can show: each in a network namespace with its own addresses
(tools/netlab), started with torchrun's variables."""
import json
import os
import subprocess
import sys
import unittest

from support import BIN, HANG, OK, PATIENCE, RUN, SOURCE, ToolTest

SPEC = """
pipec: 1
pipeline: {ranks: 2, microbatches: 4}
costs: {forward: 1ms, backward: 2ms}
tensors: {boundary: 1MiB}
schedule: 1f1b
"""
STEPS = 5
PAYLOAD = STEPS * 4 * 2**20  # each way

# A second network between the two, which rank 0 sets up for both. Rank 1 may call before it is there.
SECOND_NETWORK = """
if [ $RANK = 0 ]; then
  ip link add eth1 type veth peer name eth1 netns rank1
  ip addr add 10.78.0.1/24 dev eth1
  ip link set eth1 up
  ip -n rank1 addr add 10.78.0.2/24 dev eth1
  ip -n rank1 link set eth1 up
fi
"""
HOSTS = """
printf '%s\\n' "$@" > hosts.$RANK
mount --bind hosts.$RANK /etc/hosts
"""
# The names of a cluster that come late: once a rank has said that it waits for one.
LATE_HOSTS = """
: > hosts.$RANK
mount --bind hosts.$RANK /etc/hosts
(until grep -qs 'waiting for the host of rank 0, first' said.$RANK; do sleep 0.1; done; printf '%s\\n' "$@" > hosts.$RANK) &
exec 2> said.$RANK
"""


class MachinesTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPEC)

    def run_in_lab(self, *script, code=OK, arguments=(), patience=PATIENCE):
        """Both ranks' messages; what each says of its run is in run.RANK, its interfaces' counters in bytes.RANK."""
        scenario = self.folder / "network.json"
        scenario.write_text('{"scenario": 1}', encoding="utf-8")
        run = (f"{BIN / 'piperun'} {self.plan} --network real --steps {STEPS} --json --deadline {PATIENCE} --rendezvous {patience} > run.$RANK\n"
               "cat /proc/net/dev > bytes.$RANK\n")
        done = subprocess.run([sys.executable, "-B", SOURCE / "tools" / "netlab", scenario, "--ranks", "2", "--", "sh", "-ec",
                               "".join(script) + run, "sh", *arguments], cwd=self.folder, capture_output=True, text=True,
                              timeout=HANG, env={**os.environ, "PIPEC_SECRET": "a secret of the test"})
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def received(self, rank):
        """Bytes by interface."""
        lines = (self.folder / f"bytes.{rank}").read_text(encoding="ascii").splitlines()[2:]
        return {name.strip(): int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}

    def check_second_network(self):
        self.assertEqual(len(json.loads((self.folder / "run.0").read_text())["step_ms"]), STEPS)
        for rank in range(2):
            received = self.received(rank)
            self.assertGreater(received["eth1"], PAYLOAD)
            self.assertLess(received["eth0"], 2**16)  # what the kernel says by itself
            self.assertEqual(received["lo"] > PAYLOAD, False)

    def test_data_take_the_network_of_the_master_address(self):
        self.run_in_lab(SECOND_NETWORK, "export MASTER_ADDR=10.78.0.1\n")
        self.check_second_network()

    def test_a_name_that_means_loopback_at_home_too(self):
        # As Debian writes it into /etc/hosts: its own name is 127.0.1.1; here it has an address for others besides.
        self.run_in_lab(SECOND_NETWORK, HOSTS, "export MASTER_ADDR=first\n",
                        arguments=("127.0.1.1 first", "10.78.0.1 first"))
        self.check_second_network()

    def test_a_name_that_becomes_known_late_is_found(self):
        self.run_in_lab(LATE_HOSTS, "export MASTER_ADDR=first\n", arguments=("10.77.0.1 first",))
        self.assertEqual(len(json.loads((self.folder / "run.0").read_text())["step_ms"]), STEPS)
        for rank in range(2):
            self.assertRegex((self.folder / f"said.{rank}").read_text(),
                             r"rank \d: \d+ s: waiting for the host of rank 0, first, to be known: ")

    def test_an_address_that_others_cannot_reach_is_refused(self):
        messages = self.run_in_lab("[ $RANK = 0 ] || exit 0\n", HOSTS, "export MASTER_ADDR=first\n", code=RUN,
                                   arguments=("127.0.1.1 first",))
        self.assertIn("rank 0: no other machine can reach first (127.0.1.1): set MASTER_ADDR", messages)

    def test_an_address_of_another_machine_is_refused(self):
        messages = self.run_in_lab("[ $RANK = 0 ] || exit 0\n", "export MASTER_ADDR=10.77.0.2\n", code=RUN)
        self.assertIn("rank 0: 10.77.0.2 is no address of this machine: set MASTER_ADDR", messages)

    def test_who_has_no_way_to_the_address_says_so(self):
        # Rank 0 listens on a network that it has for itself.
        messages = self.run_in_lab("[ $RANK = 1 ] || ip addr add 10.79.0.1/24 dev eth0\n", "export MASTER_ADDR=10.79.0.1\n",
                                   code=RUN, patience=5)
        self.assertRegex(messages, r"rank 1: did not reach rank 0 at 10\.79\.0\.1, ports 29501 to 29516, within 5 s: "
                                   "Network is unreachable")
        self.assertIn("rank 1 did not come to the meeting within 5 s", messages)


if __name__ == "__main__":
    unittest.main()
