#!/usr/bin/env python3
"""What a cluster gets done where layers have widths of their own: DeepPool's models and clusters, compiled.

    test/bench/burst.py PIPEC [--sizes 16x8,...] [--foreground 100,75] [--sync end|overlap] [--collectives quiet|fill]

For each model (deeppool_workloads.json: A100_tf32, blocks of layers, scaled at each batch to the measured totals) and
each size, batch x ranks, it compiles data parallelism, static splits, the paper's planner and exact plans, each with the
same model at batch 8 as the background job of every rank (pieces of 0.1 ms, 5 us of overhead, 5 % allowed), and prints
cluster throughput at the foreground's speed, both over data parallelism alone, as `pipec search` has them. `limit`: the
exact plan that is no slower than half the ranks. Everything is computed, no clock is read.
"""
import argparse, json, os, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = ["vgg16", "wide_resnet101_2", "inception_v3"]
ELEMENT = 4  # bytes


def at(figures, batch):
    """As a layer's times between entries: linear, in proportion above the last."""
    known = sorted(figures)
    above = [each for each in known if each >= batch]
    if not above:
        return figures[known[-1]] * batch / known[-1]
    if above[0] == known[0]:
        return figures[known[0]]
    below = max(each for each in known if each < batch)
    part = (batch - below) / (above[0] - below)
    return figures[below] + part * (figures[above[0]] - figures[below])


def blocks_of(model):
    blocks = [{"forward": {}, "backward": {}, "parameters": 0, "elements": 1} for _ in range(model["num_blocks"])]
    for layer in model["layers"]:
        block = blocks[layer["block"]]
        for batch, times in layer["times_us"]["A100_tf32"].items():
            for name, time in zip(("forward", "backward"), times):
                block[name][int(batch)] = block[name].get(int(batch), 0) + time
        block["parameters"] += layer["params"]
        block["elements"] = 1  # of the last layer's output
        for dimension in layer["out_shape"]:
            block["elements"] *= dimension
    return blocks


def spec_of(workloads, name, batch, ranks, sync, collectives):
    totals = {int(key): 1000 * value for key, value in workloads["measured_totals_ms"][name].items()}  # us
    blocks = blocks_of(workloads["models"][name])
    ratios = {each: at(totals, each) / sum(b["forward"][each] + b["backward"][each] for b in blocks)
              for each in blocks[0]["forward"]}
    lines = ["pipec: 1", f"pipeline: {{ranks: {ranks}, batch: {batch}}}",
             "costs: {collective: tree, link: {latency: 40us, bandwidth: 266GB/s}}",
             f"schedule: {{name: burst, sync: {sync}}}", "layers:"]
    for block in blocks:
        times = [f"{way}: {{samples: {{" + ", ".join(
            f"{each}: {round(block[way][each] * ratio * 1e6)}ps" for each, ratio in ratios.items()) + "}}"
            for way in ("forward", "backward")]
        lines.append(f"- {{{', '.join(times)}, gradients: {block['parameters'] * ELEMENT}B, "
                     f"boundary: {{per_sample: {block['elements'] * ELEMENT}B}}}}")
    atom = round(at(totals, 8) / 340 * 1e6)  # ps
    lines += [f"jobs: {{slow_down: 5%, collectives: {collectives}, work: [{{name: background, samples: 8, atoms: 340, "
              f"atom: {atom}ps, overhead: 5us, piece: {max(1, round(1e8 / atom)) * atom}ps}}]}}"]
    return "\n".join(lines) + "\n"


def search(pipec, text, over):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "burst.yaml")
        with open(path, "w") as file:
            file.write(text)
        run = subprocess.run([pipec, "search", "--json", path] + over, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return json.loads(run.stdout)["schedules"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipec")
    parser.add_argument("--sizes", default="16x8")
    parser.add_argument("--foreground", default="100,75")
    parser.add_argument("--sync", default="end")
    parser.add_argument("--collectives", default="quiet")
    options = parser.parse_args()
    with open(os.path.join(HERE, "deeppool_workloads.json")) as file:
        workloads = json.load(file)
    for size in options.sizes.split(","):
        batch, ranks = map(int, size.split("x"))
        for name in MODELS:
            text = spec_of(workloads, name, batch, ranks, options.sync, options.collectives)
            print(f"{name}, batch {batch}, {ranks} ranks")
            rows = search(options.pipec, text, [])
            half = next((row for row in rows if row["name"] == f"static {ranks // 2} of {ranks}"), None)
            speeds = [f"{float(each):g}%" for each in options.foreground.split(",")]
            if half:
                speeds.insert(0, f"{99.9999 * half['foreground']:.4f}%")
            for speed in speeds:
                rows.append(search(options.pipec, text, ["--set", f"schedule.foreground={speed}"])[-1])
            for row in rows:
                if "error" in row:
                    print(f"  {row['name']:24} {row['error']}")
                    continue
                print(f"  {row['name']:24} {row['span_ms']:8.3f} ms  {row['cluster']:5.2f} at {row['foreground']:4.2f}  "
                      f"useful {100 * row['useful']:5.1f} %  device {row['device_time_ms']:8.3f} ms  bound {row['bound'] or 0:.2f}")


main()
