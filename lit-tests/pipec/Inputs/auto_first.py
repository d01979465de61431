"""auto_first.py SEARCH.json KEY: the rows of a search are in the order of KEY, and none is better than auto's."""
import json
import sys

rows = [row for row in json.load(open(sys.argv[1]))["schedules"] if "error" not in row]
times = [row[sys.argv[2]] for row in rows]
auto = next(row[sys.argv[2]] for row in rows if row["name"] == "auto")
sys.exit(0 if times == sorted(times) and auto == times[0] else f"{[(row['name'], row[sys.argv[2]]) for row in rows]}")
