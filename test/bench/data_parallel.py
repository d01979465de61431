"""What a step of DeAR's five models takes under each policy of exchanging gradients (pipec search --sweep data-parallel):
64 replicas of one rank, 10 Gb Ethernet and 100 Gb InfiniBand as MG-WFBP's code measured them. Times are simulated.

  python3 test/bench/data_parallel.py build/release/bin/pipec [--model resnet50] [--network eth10_code] [--judge]

--judge: exit code 1 where a figure misses what test/bench/README.md says of it.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

DATA = json.loads((pathlib.Path(__file__).parent / "dear_models.json").read_text())
REPLICAS = 64
BANDWIDTH = 480.48e9  # bytes/s of the device's memory
LAUNCH_US = 7


def update_us(elements):
    """SGD with momentum: two launches a tensor, three times its bytes."""
    return sum(2 * LAUNCH_US + 3 * 4 * each / BANDWIDTH * 1e6 for each in elements)


def spec_of(model, network):
    """The model as a spec of one rank, a microbatch a step."""
    wire = DATA["networks"][network]
    lines = ["pipec: 1", "pipeline: {ranks: 1, microbatches: 1}", "schedule: gpipe", "layers:"]
    for name, forward, backward, tensors in DATA["models"][model]["layers"]:
        sizes = ", ".join(f"{4 * each}B" for each in tensors) or "0B"
        lines.append(f"- {{name: \"{name}\", forward: {forward:.2f}us, backward: {backward:.2f}us, "
                     f"optimizer: {update_us(tensors):.3f}us, gradients: [{sizes}]}}")
    lines.append(f"data_parallel: {{degree: {REPLICAS}, round: {wire['round_us']}us, costs: {{all_reduce: "
                 f"{{start: {wire['start_us']}us, bandwidth: {wire['bytes_per_s']}B/s}}}}}}")
    return "\n".join(lines) + "\n"


def sweep(pipec, model, network, *arguments):
    """Policy → its row, and the seconds that it took."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(spec_of(model, network))
        file.flush()
        begin = time.monotonic()
        done = subprocess.run([pipec, "search", file.name, "--sweep", "data-parallel", "--json", *arguments],
                              capture_output=True, text=True, check=True)
        return {row["policy"]: row for row in json.loads(done.stdout)["policies"]}, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipec")
    parser.add_argument("--model", choices=DATA["models"])
    parser.add_argument("--network", choices=DATA["networks"])
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    order = ["none", "wfbp", "mg-wfbp", "ddp", "horovod", "bytescheduler", "dear", "dear-queue", "auto"]
    print("network     model        " + "".join(f"{each:>14}" for each in order) + "         bound    gap  seconds")
    for network in [options.network] if options.network else DATA["networks"]:
        for model in [options.model] if options.model else DATA["models"]:
            rows, seconds = sweep(options.pipec, model, network)
            best = rows["auto"]
            print(f"{network:11} {model:12} " + "".join(f"{rows[each]['span_ms']:14.2f}" for each in order) +
                  f"{best['span_lower_bound_ms']:14.2f} {100 * (best['span_ms'] / best['span_lower_bound_ms'] - 1):5.2f}%"
                  f" {seconds:7.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
