"""Gradients of boundaries with sizes of their own: in a plan's transfers, their times and slots, in runs, and in what is refused."""
import json
import re
import unittest

from support import INPUT, OK, ToolTest, tool

SPEC = """\
pipec: 1
pipeline: {ranks: 3, microbatches: 6MORE}
costs: {forward: 1ms, backward_input: 1ms, backward_weight: 1ms, link: {latency: 1us, bandwidth: 1GB/s}}
tensors: {boundary: [4MB, 2MB, 9MB], boundary_gradient: GRADIENT, activation: 10MB}
schedule: SCHEDULE
"""
GRADIENTS = "[1MB, 0B, 9MB]"


class BoundaryTest(ToolTest):
    def text(self, schedule="1f1b", gradient=GRADIENTS, more=""):
        return SPEC.replace("SCHEDULE", schedule).replace("GRADIENT", gradient).replace("MORE", more)

    def transfers(self, text):
        """{(what, stage): (time, bytes)} of what is sent, and {(rank, direction, peer): bytes of a slot}."""
        said = self.pipec("disasm", self.compile(text)).stdout
        sent = {(of, int(stage)): (time, size) for of, stage, time, size in
                re.findall(r"send (F|B) stage (\d) .*\((.*), (.*)\)", said)}
        slots = {(rank, direction, peer): size for rank, body in re.findall(r"  rank (\d):(.*?)(?=  rank \d:|\Z)", said, re.DOTALL)
                 for direction, peer, size in re.findall(r"ring (send|recv) \w+ (\d): \d+ x (.*)", body)}
        return sent, slots

    def test_transfers_and_slots_are_of_their_way(self):
        for schedule in ("1f1b", "zb-h1"):
            with self.subTest(schedule):
                sent, slots = self.transfers(self.text(schedule))
                self.assertEqual(sent, {("F", 0): ("4 ms + 1 us", "3.815 MiB"), ("F", 1): ("2 ms + 1 us", "1.907 MiB"),
                                        ("B", 1): ("1 ms + 1 us", "976.562 KiB"), ("B", 2): ("0 ps + 1 us", "0 B")})
                self.assertEqual(slots, {("0", "send", "1"): "3.815 MiB", ("1", "recv", "0"): "3.815 MiB",
                                         ("1", "send", "2"): "1.907 MiB", ("2", "recv", "1"): "1.907 MiB",
                                         ("1", "send", "0"): "976.562 KiB", ("0", "recv", "1"): "976.562 KiB",
                                         ("2", "send", "1"): "0 B", ("1", "recv", "2"): "0 B"})

    def test_steps_are_shorter_and_hold_less(self):
        """Than with gradients as large as boundaries."""
        for schedule in ("1f1b", "zb-h1", "auto"):
            with self.subTest(schedule):
                less, more = (self.report(self.text(schedule, gradient)) for gradient in (GRADIENTS, "[4MB, 2MB, 9MB]"))
                self.assertLess(less["makespan_ms"], more["makespan_ms"])
                self.assertLessEqual(less["lower_bound_ms"], more["lower_bound_ms"])
                self.assertLess(sum(less["peak_bytes"]), sum(more["peak_bytes"]))
                self.assertEqual(self.report(self.text(schedule).replace(f"boundary_gradient: {GRADIENTS}, ", ""))["makespan_ms"],
                                 more["makespan_ms"])

    def test_a_run(self):
        for schedule in ("1f1b", "zb-h1"):
            run = self.run_json(self.compile(self.text(schedule)), "--steps", 2)
            self.assertEqual(run["steps"], 2)

    def test_no_bound_is_above_a_time(self):
        """Of any schedule, where gradients are larger and where they are smaller."""
        for gradient in (GRADIENTS, "[0B, 7MB, 0B]"):
            for backward in ("fused", "split"):
                found = [self.report(self.text(schedule, gradient) + f"backward: {backward}\n") for schedule in
                         (("1f1b", "gpipe", "eager-1f1b", "auto") if backward == "fused" else ("zb-h1", "zb-h2", "auto"))]
                for each in found:
                    for of in ("makespan", "span"):
                        bound = each["lower_bound_ms" if of == "makespan" else "span_lower_bound_ms"]
                        self.assertLessEqual(bound, min(other[f"{of}_ms"] for other in found) + 1e-9)

    def test_the_exact_order_is_below_all(self):
        for gradient in (GRADIENTS, "[0B, 7MB, 0B]"):
            found = json.loads(self.pipec("search", self.spec(self.text("auto", gradient)), "--exact", "--json").stdout)
            self.assertEqual(found["exact"]["time_ms"], found["exact"]["proven_lower_bound_ms"])
            times = [row[f"{found['exact']['objective']}_ms"] for row in found["schedules"] if "error" not in row]
            self.assertLessEqual(found["exact"]["proven_lower_bound_ms"], min(times))

    def test_the_best_cut_ends_where_gradients_are_small(self):
        layer = "- {forward: 2ms, backward: 4ms, boundary: 1MB"
        text = ("pipec: 1\npipeline: {ranks: 2, microbatches: 8, cut: auto}\nschedule: 1f1b\n"
                "costs: {link: {bandwidth: 100MB/s}}\nlayers:\n" + f"{layer}, boundary_gradient: 8MB}}\n" * 2 +
                f"{layer}, boundary_gradient: 0B}}\n{layer}}}\n")
        cut = self.pipec("report", self.spec(text)).stdout
        self.assertIn("[3, 1]", cut)

    def test_what_is_wrong_is_said_with_its_place(self):
        for gradient, message in (("[1MB, 2MB]", "expected 3 values, one for each stage"), ("-1B", "tensors.boundary_gradient"),
                                  ("[1MB, many, 0B]", "tensors.boundary_gradient")):
            with self.subTest(gradient):
                done = tool("pipec", "compile", self.spec(self.text(gradient=gradient)))
                self.assertEqual((done.returncode, done.stdout), (INPUT, ""))
                self.assertRegex(done.stderr, r"spec.yaml:4:\d+: error: ")
                self.assertIn(message, done.stderr)
        done = tool("pipec", "compile", self.spec(self.text().replace("latency: 1us, bandwidth: 1GB/s", "bandwidth: 100B/s")
                                                  .replace(GRADIENTS, "1000TB")))
        self.assertEqual(done.returncode, INPUT)
        self.assertIn("a smaller boundary_gradient or a faster link", done.stderr)
        self.assertEqual(tool("pipec", "compile", self.spec(self.text())).returncode, OK)


if __name__ == "__main__":
    unittest.main()
