"""Reads a trace and holds it against what 1F1B on two ranks with two microbatches must do."""
import json
import sys

trace = json.load(open(sys.argv[1]))
events = trace["traceEvents"] if isinstance(trace, dict) else trace
done = [event for event in events if event.get("ph") == "X"]
count = {}
for event in done:
    args = event["args"]
    assert {"step", "stage", "kind", "microbatch", "epoch"} <= args.keys(), event
    assert args["step"] == 0 and event["dur"] >= 0 and event["ts"] >= 0, event
    count[event["pid"], args["kind"]] = count.get((event["pid"], args["kind"]), 0) + 1
    if args["kind"] in ("send", "recv"):
        assert args["of"] in ("F", "B"), event
expected = {(rank, kind): 2 for rank in (0, 1) for kind in ("F", "BW", "send", "recv")}
expected.update({(rank, "optimizer"): 1 for rank in (0, 1)})
assert count == expected, count

# One thread a queue, and on the compute queue nothing overlaps.
for rank in (0, 1):
    compute = sorted(
        (event["ts"], event["ts"] + event["dur"])
        for event in done
        if event["pid"] == rank and event["args"]["kind"] in ("F", "BW", "optimizer")
    )
    assert all(a[1] <= b[0] + 1e-6 for a, b in zip(compute, compute[1:])), compute

# Times are microseconds: the makespan of the figures (10 + 10 + 19 ms a microbatch on rank 1, and what surrounds it).
end = max(event["ts"] + event["dur"] for event in done)
assert abs(end / 1000 - float(sys.argv[2])) < 1e-6, (end, sys.argv[2])

flows = [event for event in events if event.get("ph") in ("s", "f")]
assert len([event for event in flows if event["ph"] == "s"]) == 4, flows
assert any(event.get("ph") == "C" for event in events), "no counter of live bytes"
