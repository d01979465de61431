"""late.py TRACE LATER RANK MICROBATCH MS: the trace with that forward as much longer, and all that starts later as late."""
import json
import sys

trace, later, rank, microbatch, ms = sys.argv[1:]
whole = json.load(open(trace))
events = [event for event in whole["traceEvents"] if event["ph"] == "X"]
late = next(event for event in events if event["pid"] == int(rank) and event["args"]["kind"] == "F" and
            event["args"]["microbatch"] == int(microbatch))
end = late["ts"] + late["dur"]
for event in events:
    # What ran on other ranks before it was waited for stays as it was.
    if event is not late and event["ts"] >= end:
        event["ts"] += 1000 * int(ms)
late["dur"] += 1000 * int(ms)
json.dump({"traceEvents": events}, open(later, "w"))
