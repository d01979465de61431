"""The keys of `pipec report --json` (design, section 7), and what must hold between them."""
import json
import sys

report = json.load(open(sys.argv[1]))
figures = """schedule ranks stages microbatches makespan_ms span_ms bubble_rate span_bubble_rate lower_bound_ms
span_lower_bound_ms bound span_bound gap span_gap peak_activation_bytes peak_bytes instructions""".split()
for each in [report] + report["variants"]:
    missing = [key for key in figures if key not in each]
    assert not missing, missing
    assert len(each["peak_bytes"]) == len(each["peak_activation_bytes"]) == len(each["instructions"]) == each["ranks"]
    assert each["lower_bound_ms"] <= each["makespan_ms"]
    assert each["span_lower_bound_ms"] <= each["span_ms"] <= each["makespan_ms"]
    assert abs(each["gap"] - (each["makespan_ms"] / each["lower_bound_ms"] - 1)) < 1e-12
    assert all(a <= b for a, b in zip(each["peak_activation_bytes"], each["peak_bytes"]))
assert report["plan_bytes"] > 0
compiled = sys.argv[2] == "compiled"
assert (report["compile_ms"] is not None) == compiled, report["compile_ms"]

# 1F1B of 4 equal stages: (p - 1 + m) (F + B + W), 4 - r microbatches on rank r.
assert report["makespan_ms"] == (3 + 8) * 6
assert report["bubble_rate"] == 1 - 8 / 11
assert report["peak_activation_bytes"] == [(4 - r) * 320 * 2**20 for r in range(4)]
