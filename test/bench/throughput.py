"""What the schedules of Controllable Memory gain over 1F1B in throughput, at the costs that their papers measured
(2401.10241, table 9: time and transfer of a whole rank in ms), and what they hold: simulated, and with --run also as
piperun takes it on this machine, on 4 and 8 ranks, the median step of each. A measurement, run by hand.

  PIPEC_BIN=build/release/bin python3 test/bench/throughput.py [--run]
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

BIN = pathlib.Path(os.environ.get("PIPEC_BIN", "build/release/bin"))
# name, ranks, microbatches, F, B, W, transfer; on 4 ranks the 1.5B model's, which is the smallest
SETTINGS = [("1.5B", 4, (8, 12, 32), 18.522, 18.086, 9.337, 0.601), ("1.5B", 8, (8, 24, 64), 18.522, 18.086, 9.337, 0.601),
            ("6.2B", 8, (8, 24, 64), 29.718, 29.444, 19.927, 0.527), ("14.6B", 16, (16, 48, 128), 11.347, 11.248, 8.132, 0.377),
            ("28.3B", 32, (32, 96, 256), 10.419, 10.207, 7.715, 0.408)]
NAMES = ("1f1b", "zb-h1", "1f1b-v", "v-min", "v-half", "zb-v", "v-zb")
CHUNKS = {"1f1b": 1, "zb-h1": 1}


def spec(name, ranks, microbatches, f, b, w, transfer):
    chunks = CHUNKS.get(name, 2)
    ns = lambda ms: f"{round(ms * 1e6 / chunks)}ns"
    return f"""pipec: 1
pipeline: {{ranks: {ranks}, microbatches: {microbatches}}}
costs: {{forward: {ns(f)}, backward_input: {ns(b)}, backward_weight: {ns(w)}, link: {{latency: {round(transfer * 1e6)}ns}}}}
tensors: {{boundary: 1KiB, activation: {512 // chunks}KiB, weight_context: {512 // chunks}KiB}}
schedule: {name}
"""


def pipec(*arguments):
    return subprocess.run([BIN / "pipec", *arguments], check=True, capture_output=True, text=True).stdout


def measured(path, folder):
    plan = folder / "plan.pipe"
    pipec("compile", str(path), "-o", str(plan))
    run = subprocess.run([BIN / "piperun", str(plan), "--local", "--steps", "7", "--json"], check=True,
                         stdout=subprocess.PIPE, text=True)
    return statistics.median(json.loads(run.stdout)["step_ms"])


def main():
    runs = "--run" in sys.argv[1:]
    print("throughput over 1F1B's in %, and peak of activations over 1F1B's" + ("; measured in brackets" if runs else ""))
    print(f"{'model':<6}{'ranks':>6}{'m':>5}{'1F1B ms':>10}  " + "".join(f"{name:>24}" for name in NAMES[1:]))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / "spec.yaml"
        for model, ranks, counts, *costs in SETTINGS:
            for m in counts:
                cells, first = [], None
                for each in NAMES:
                    path.write_text(spec(each, ranks, m, *costs))
                    report = json.loads(pipec("report", str(path), "--json"))
                    time, peak = report["span_ms"], max(report["peak_activation_bytes"])
                    real = measured(path, folder) if runs and ranks <= 8 else None
                    first = first or (time, peak, real)
                    text = f"{100 * (first[0] / time - 1):+.1f}"
                    if real:
                        text += f" [{100 * (first[2] / real - 1):+.1f}]"
                    cells.append(f"{text} {peak / first[1]:.2f}")
                print(f"{model:<6}{ranks:>6}{m:>5}{first[0]:>10.1f}  " + "".join(f"{cell:>24}" for cell in cells[1:]))


main()
