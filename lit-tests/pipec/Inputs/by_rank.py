"""by_rank.py TRACE STEM: the trace as launched processes write it, a file a rank: STEM.0.json, STEM.1.json, …"""
import json
import sys

trace, stem = sys.argv[1:]
events = json.load(open(trace))["traceEvents"]
for rank in sorted({event["pid"] for event in events if event["ph"] == "X"}):
    with open(f"{stem}.{rank}.json", "w") as file:
        json.dump({"traceEvents": [event for event in events if event["pid"] == rank]}, file)
