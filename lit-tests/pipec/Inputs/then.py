"""then.py FIRST SECOND BOTH: a trace of the step of one, then that of the other."""
import json
import sys

first, second = ([event for event in json.load(open(path))["traceEvents"] if event["ph"] == "X"] for path in sys.argv[1:3])
end = max(event["ts"] + event["dur"] for event in first)
for event in second:
    event["ts"] += end
    event["args"]["step"] = 1
json.dump({"traceEvents": first + second}, open(sys.argv[3], "w"))
