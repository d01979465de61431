"""What `pipec explain` promises is what one gets: each change that it names is made, and gains as much as was said."""
import json
import unittest

from support import SPECS, ToolTest

# Four ranks whose links and memory all bind somewhere.
TIGHT = """\
pipec: 1
pipeline: {ranks: 4, microbatches: 12}
costs:
  forward: 4ms
  backward: 8ms
  link: {latency: 500us, bandwidth: 10GB/s}
tensors: {boundary: 32MiB, activation: 64MiB, static: 1GiB}
memory: {limit: 1537MiB}
schedule: {name: eager-1f1b}
"""


class ExplainTest(ToolTest):
    def explain(self, spec, *arguments):
        return json.loads(self.pipec("explain", self.spec(spec), "--json", *arguments).stdout)

    def test_changes_to_a_spec(self):
        gains = 0
        searched = TIGHT.replace("{name: eager-1f1b}", "auto").replace("1537", "1400").replace(
            "backward: 8ms", "backward_input: 4ms\n  backward_weight: 4ms")
        for spec in (TIGHT, searched, SPECS / "slack.yaml", SPECS / "zb-v.yaml"):
            found = self.explain(spec)
            now = found["span_ms"] / found["microbatches"]
            self.assertGreaterEqual(len(found["what_if"]), 2)
            for each in found["what_if"]:
                with self.subTest(spec=spec, change=each["change"]):
                    options = [word for one in each["set"] for word in ("--set", one)]
                    report = json.loads(self.pipec("report", self.spec(spec), "--json", *options).stdout)
                    self.assertEqual(report["span_ms"], each["span_ms"])
                    self.assertEqual(report["microbatches"], each["microbatches"])
                    self.assertEqual(max(report["peak_bytes"]), each["peak_bytes"])
                    self.assertAlmostEqual(1 - report["span_ms"] / report["microbatches"] / now, each["gain"])
                    gains += each["gain"] > 0.001
        self.assertGreaterEqual(gains, 6)

    def test_memory_is_named_as_an_amount(self):
        found = self.explain(TIGHT)
        memory = [each for each in found["what_if"] if each["set"][0].startswith("memory.limit=")]
        self.assertEqual(len(memory), 1)
        self.assertRegex(memory[0]["change"], r"^a memory limit of [\d.]+ GiB, not 1.501 GiB$")
        enough = int(memory[0]["set"][0].removeprefix("memory.limit=").removesuffix("MiB"))
        self.assertLess(memory[0]["peak_bytes"], enough * 2**20 + 1)
        self.assertFalse([each for each in self.explain(TIGHT.replace("1537MiB", f"{enough}MiB"))["what_if"]
                          if each["set"][0].startswith("memory.limit=")])

    def test_links_with_figures_of_their_own(self):
        found = json.loads(self.pipec("explain", SPECS / "slack.yaml", "--json", "--set", "schedule=1f1b").stdout)
        [latency] = [each for each in found["what_if"] if each["change"] == "links without latency"]
        free = json.loads(self.pipec("report", SPECS / "slack.yaml", "--json", "--set", "schedule=1f1b", "--set",
                                     "costs.links=[]", "--set", "costs.link.latency=0us").stdout)
        self.assertEqual(latency["span_ms"], free["span_ms"])
        self.assertGreater(latency["gain"], 0.3)

    def test_a_formula_says_where_it_does_not_hold(self):
        spec = SPECS / "zb-h1.yaml"
        self.assertNotIn("not met", self.pipec("explain", spec).stdout)
        said = self.pipec("explain", spec, "--set", "costs.backward_weight=5ms", "--set", "pipeline.microbatches=1").stdout
        self.assertIn("not met here: F >= W, B >= W, m >= p\n", said)

    def test_a_formula_in_numbers(self):
        for spec, words in (("v-half", "about half of 1F1B's"), ("hanayo", "2·2·4 chunks"),
                            ("interleaved-1f1b", "(2-1)·4 + 2(4-1-r)")):
            self.assertIn(words, self.pipec("explain", SPECS / f"{spec}.yaml").stdout)

    def test_limits_of_a_chain(self):
        """A link's, raised by a scenario and by the spec, the plan's rings being the same without a limit."""
        free = TIGHT.replace("memory: {limit: 1537MiB}\n", "")
        plan = self.compile(free)
        found = json.loads(self.pipec("explain", plan, "--rank", 3, "--at", "1ms", "--json").stdout)
        kinds = set()
        for each in found["limits"]:
            kinds.add(each["limit"])
            link = {"from": each["rank"], "to": each["peer"], "bandwidth": "10GB/s", "latency": "500us"}
            link[each["limit"]] = f"{each['raised']}{'B/s' if each['limit'] == 'bandwidth' else 'ps'}"
            network = self.folder / "network.json"
            network.write_text(json.dumps({"scenario": 1, "links": [link]}))
            steps = json.loads(self.pipec("report", plan, "--network", network, "--steps", 1, "--json").stdout)
            self.assertAlmostEqual(steps["step_ms"][0], each["makespan_ms"])
            self.assertAlmostEqual(found["makespan_ms"] - each["makespan_ms"], each["shorter_ms"])
            flow = "{" + ", ".join(f"{key}: {value}" for key, value in link.items()) + "}"
            report = json.loads(self.pipec("report", self.spec(free), "--json", "--set", f"costs.links=[{flow}]").stdout)
            self.assertAlmostEqual(report["makespan_ms"], each["makespan_ms"])
            self.assertGreater(each["earlier_ms"], 0)
        self.assertEqual(kinds, {"bandwidth", "latency"})

    def test_limits_in_words(self):
        said = self.pipec("explain", self.spec(TIGHT), "--rank", 1, "--at", "20ms").stdout
        self.assertIn("\n  20 GB/s from rank 0 to rank 1, not 10 GB/s: starts 5.033 ms earlier, the step takes 1.678 ms less\n",
                      said)
        self.assertIn("\n  2 buffers on rank 0 for what it sends to rank 1, not 1, 32 MiB more on rank 0: "
                      "starts 6.711 ms earlier, the step takes as long\n", said)
        self.assertIn("\n  a latency of 250 us from rank 0 to rank 1, not 500 us: starts 250 us earlier, "
                      "the step takes 250 us less\n", said)


if __name__ == "__main__":
    unittest.main()
