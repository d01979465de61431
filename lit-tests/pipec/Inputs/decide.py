"""decide.py TRACE DECIDED 'MS|STEP|FROM|TO|POLICY|WHY' …: the trace with these decisions, MS after its first start."""
import json
import sys

trace, decided, *decisions = sys.argv[1:]
events = json.load(open(trace))["traceEvents"]
begin = min(event["ts"] for event in events if event["ph"] == "X")
for each in decisions:
    ms, step, *texts = each.split("|")
    events.append({"ph": "i", "s": "g", "name": f"{texts[0]} -> {texts[1]}", "cat": "decision", "pid": 0, "tid": 0,
                   "ts": begin + 1000 * float(ms), "args": {"step": int(step), **dict(zip(("from", "to", "policy", "why"), texts))}})
with open(decided, "w") as file:
    file.write('{"traceEvents": [\n' + ",\n".join(map(json.dumps, events)) + "\n]}\n")
