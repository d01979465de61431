"""Both reports name the same rings: all of 1F1B's on four ranks, with the sizes that bind in no timing."""
import json
import sys

spec, plan = (json.load(open(path)) for path in sys.argv[1:])
rings = spec["rings_that_bind"]
assert rings == plan["rings_that_bind"] == plan["variants"][0]["rings_that_bind"], (rings, plan["rings_that_bind"])
assert len(rings) == 12 and list(rings[0]) == ["rank", "peer", "direction", "size", "free_size"], rings
for ring in rings:
    assert ring["size"] == 1 and ring["free_size"] == 4 - min(ring["rank"], ring["peer"]), ring
    assert ring["direction"] in ("send", "recv"), ring
