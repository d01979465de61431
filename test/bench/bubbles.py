#!/usr/bin/env python3
"""What background jobs get of the bubbles of every schedule: F 10 ms, B 20 ms (split: B and W 10 ms each), atoms of 50 us, 20 us of
overhead a piece, at most 1 % slower, 8 ranks and 16 microbatches; and 1F1B with other microbatches and a latency.

  python3 test/bench/bubbles.py build/release/bin/pipec [--ranks 8] [--microbatches 16]

A row a schedule: bubble rate of the span, length of a piece, resumes one behind the other, the bound on the slow-down, how much of the
idle time is useful, and the useful time of all devices without and with jobs.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

SPEC = """
pipec: 1
pipeline: {{ranks: {ranks}, microbatches: {microbatches}}}
costs: {{forward: 10ms, {backward}{more}}}
schedule: {schedule}
jobs: {{work: [{{name: background, samples: 8, atoms: 340, atom: 50us, overhead: 20us}}]}}
"""


def report(pipec, folder, schedule, ranks, microbatches, more=""):
    """The report of a plan, or why there is none."""
    text = ""
    for backward in ("backward: 20ms", "backward_input: 10ms, backward_weight: 10ms"):
        (folder / "spec.yaml").write_text(SPEC.format(ranks=ranks, microbatches=microbatches, backward=backward, schedule=schedule, more=more))
        done = subprocess.run([pipec, "report", folder / "spec.yaml", "--json"], capture_output=True, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)
        text = json.loads(done.stdout).get("error", "") if done.stdout.startswith("{") else done.stderr
    return text


def row(name, found):
    if isinstance(found, str):
        return f"| {name} | {found.strip().splitlines()[0] if found.strip() else 'no plan'} |"
    job = found["jobs"][0]
    return (f"| {name} | {100 * found['span_bubble_rate']:.1f} % | {1000 * job['piece_ms']:.0f} us | {job['resumes']:g} | "
            f"{100 * found['slow_down_bound']:.2f} %{'' if found['delay_proven'] else ', simulated'} | {100 * job['useful']:.1f} % | "
            f"{100 * found['useful_alone']:.1f} % | {100 * found['useful']:.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipec")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--microbatches", type=int, default=16)
    options = parser.parse_args()
    listed = subprocess.run([options.pipec, "schedules", "--json"], capture_output=True, text=True, check=True)
    names = [each["name"] for each in json.loads(listed.stdout)] + ["auto"]
    print("| schedule | bubble | piece | resumes | bound | of the idle time | useful alone | useful |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in names:
            print(row(name, report(options.pipec, folder, name, options.ranks, options.microbatches)), flush=True)
        for microbatches, more in ((8, ""), (10, ""), (32, ""), (16, ", link: {latency: 100us}")):
            print(row(f"1f1b, {microbatches} microbatches{more and ', 0.1 ms of latency'}",
                      report(options.pipec, folder, "1f1b", options.ranks, microbatches, more)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
