#!/usr/bin/env python3
"""The decision maker: five workloads on networks that others load, each with kFkB of k = 1, 2, 3 at the
largest microbatch that memory holds; beside each variant fixed, two tuners and an oracle.

  adapt.py PIPEC [--steps N] [--workload NAME] [--seed S]                      in virtual time
  adapt.py PIPEC --piperun PIPERUN [--scale 16] …                              and with real processes beside it
  adapt.py PIPEC --deferred [--steps N] [--workload NAME] [--seed S]           what deferring W adds, in the same memory

With --scale all is that much shorter: costs, messages, latencies, and how the load changes.

Others use each direction of each link, on and off for times that are exponential; a transfer gets 1/(1 + how many do) of
the link. Fails if it is ever more than 1 % behind the best variant fixed; with real processes also if a run is more than
3 % over the oracle, or more than 2 % from what the simulator says of what was run.

--deferred: 1F1B at its best microbatch size in hindsight, beside what adapts between kFkB, and between kFkB and schedules with
a W of their own (kFkB split, ZB-H1, ZB-H2), all under the workload's limit. The backward's halves take equally long, and all
that a microbatch holds is held until its W, so that deferring one is paid for whole. Fails where, under load, that adds less than
4 points, or where kFkB is less than 5 % ahead, or 15 % on the heavily loaded Ethernet.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

# A microbatch of b samples: F takes f0 + f1 b, BW twice that; it sends msg b bytes and keeps act b.
WORKLOADS = [
    {"name": "gpt_medium_s1024_p8", "p": 8, "f0_ms": 1.0, "f1_ms": 2.0, "msg": 2097000, "act": 358000000, "mem": 28000000000, "B": 384,
     "b": [1, 2, 3, 4, 6, 8]},
    {"name": "gpt_medium_s512_p8", "p": 8, "f0_ms": 2.0, "f1_ms": 1.0, "msg": 1049000, "act": 117000000, "mem": 16000000000, "B": 768,
     "b": [1, 2, 3, 4, 6, 8, 12, 16]},
    {"name": "gpt_1p3b_s1024_p8", "p": 8, "f0_ms": 3.6, "f1_ms": 7.2, "msg": 4190000, "act": 490000000, "mem": 22000000000, "B": 192,
     "b": [1, 2, 3, 4]},
    {"name": "bert_large_s512_p4", "p": 4, "f0_ms": 2.4, "f1_ms": 2.4, "msg": 1050000, "act": 360000000, "mem": 20000000000, "B": 384,
     "b": [1, 2, 3, 4, 6, 8, 12]},
    {"name": "unet_like_p4", "p": 4, "f0_ms": 9.0, "f1_ms": 9.0, "msg": 12600000, "act": 1350000000, "mem": 26000000000, "B": 128,
     "b": [1, 2, 4]},
]
# Seconds on and off; `window`: after so many it begins anew; `only`: one link; `regime`: quiet and loaded by turns.
NETWORKS = [
    {"name": "rdma100_exclusive", "MB": 11250, "us": 20, "flows": 0, "on": 0, "off": 0, "window": 20},
    {"name": "rdma100_light", "MB": 11250, "us": 20, "flows": 2, "on": 0.5, "off": 1.5, "window": 20},
    {"name": "rdma100_heavy", "MB": 11250, "us": 20, "flows": 8, "on": 0.5, "off": 0.5, "window": 20},
    {"name": "eth25_exclusive", "MB": 2812, "us": 60, "flows": 0, "on": 0, "off": 0, "window": 20},
    {"name": "eth25_light", "MB": 2812, "us": 60, "flows": 1, "on": 0.5, "off": 1.5, "window": 20},
    {"name": "eth25_medium", "MB": 2812, "us": 60, "flows": 2, "on": 0.5, "off": 0.5, "window": 20},
    {"name": "eth25_heavy", "MB": 2812, "us": 60, "flows": 4, "on": 0.5, "off": 0.5, "window": 20},
    {"name": "eth25_bursty_ms", "MB": 2812, "us": 60, "flows": 3, "on": 0.02, "off": 0.03, "window": 4},
    {"name": "rdma100_one_slow_link", "MB": 11250, "us": 20, "flows": 15, "on": 5, "off": 0.05, "window": 60, "only": 2},
    {"name": "rdma100_regime60s", "MB": 11250, "us": 20, "flows": 10, "on": 0.5, "off": 0.2, "window": 120, "regime": 60},
]


def variants(load):
    """(k, samples of a microbatch): of each k the largest that memory holds and that divides the batch."""
    found = []
    for k in (1, 2, 3):
        fits = [b for b in load["b"] if k * load["p"] * b * load["act"] <= load["mem"]
                and load["B"] % b == 0]
        if fits and (k, fits[-1]) not in found:
            found.append((k, fits[-1]))
    return found


def row(schedule, b, split=False):
    return f"  - {{schedule: {schedule}, {'backward: split, ' if split else ''}pipeline: {{microbatch_size: {b}}}}}\n"


def spec(load, network, ks):
    return spec_of(load, network, "".join(row(f"{{name: kfkb, k: {k}}}", b) for k, b in ks), ks[0][1])


def spec_of(load, network, rows, b, deferred=False):
    f0, f1 = load["f0_ms"], load["f1_ms"]
    halves = "".join(f"backward_{half}: {{fixed: {f0}ms, per_sample: {f1}ms}}, " for half in ("input", "weight"))
    return (f"pipec: 1\npipeline: {{ranks: {load['p']}, batch: {load['B']}, microbatch_size: {b}}}\n"
            f"costs: {{forward: {{fixed: {f0}ms, per_sample: {f1}ms}}, "
            f"backward: {{fixed: {2 * f0}ms, per_sample: {2 * f1}ms}}, {halves if deferred else ''}"
            f"link: {{latency: {network['us']}us, bandwidth: {network['MB']}MB/s}}}}\n"
            f"tensors: {{boundary: {{per_sample: {load['msg']}B}}, "
            f"{'weight_context' if deferred else 'activation'}: {{per_sample: {load['act']}B}}}}\n"
            f"{'memory: {limit: %dB}' % load['mem'] if deferred else ''}\nschedule: 1f1b\nvariants:\n{rows}")


def users(rng, network):
    """{milliseconds: how many others use the link from then on}"""
    window, changes = network["window"] * 1000, {0: 0}
    for _ in range(network["flows"]):
        at, on = rng.expovariate(1 / network["off"]) * 1000 if network["off"] else 0, False
        while at < window:
            on = not on
            when = int(at * 1000) / 1000 if network["scale"] != 1 else int(at)
            changes[when] = changes.get(when, 0) + (1 if on else -1)
            at += rng.expovariate(1 / network["on" if on else "off"]) * 1000
    counts, now = {}, 0
    for at in sorted(changes):
        now += changes[at]
        counts[at] = now if at >= 1000 * network.get("regime", 0) else 0
    if "regime" in network:
        counts[1000 * network["regime"]] = [count for at, count in sorted(counts.items())
                                            if at >= 1000 * network["regime"]][0]
    return counts


def scenario(network, ranks, rng):
    def rate(count):
        return f"{int(network['MB'] * 1000 // (1 + count))}kB/s"
    own = {"bandwidth": rate(0), "latency": f"{network['us']}us"}
    links = []
    for link in range(ranks - 1):
        for a, b in ((link, link + 1), (link + 1, link)):
            counts = users(rng, network)
            if network["flows"] == 0 or network.get("only", link) != link:
                continue
            links.append({"from": a, "to": b, "bandwidth": rate(counts.pop(0)), "latency": own["latency"],
                          "changes": [{"at": f"{at}ms", "bandwidth": rate(count)} for at, count in sorted(counts.items())],
                          "repeat": f"{network['window']}s"})
    return {"scenario": 1, "default": own, "links": links}


def scaled(load, network, scale):
    """Both that much shorter. Messages and bandwidths also shrink together, so that a machine can carry what really travels."""
    load = {**load, **{key: load[key] / scale for key in ("f0_ms", "f1_ms")}, "msg": int(load["msg"] / scale / scale)}
    network = {**network, "scale": scale, "MB": network["MB"] / scale, **{key: network[key] / scale for key in ("us", "on", "off", "window", "regime")
                                             if key in network and scale != 1}}
    return load, network


def run_really(options, plan, net):
    """What a run of it took, beside what it would have taken in virtual time."""
    done = subprocess.run([options.piperun, plan, "--local", "--network", net, "--steps", str(options.steps), "--adapt",
                           "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    run = json.loads(done.stdout)
    return run, sum(run["step_ms"]), sum(run["simulated_step_ms"])


def report(options, text, net, folder):
    plan = os.path.join(folder, "plan.yaml")
    with open(plan, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run([options.pipec, "report", plan, "--network", net, "--steps", str(options.steps), "--adapt", "--json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["adapt"]


def deferred(options, folder):
    """Whether deferring W adds what it should, on each network."""
    least = {"rdma100_heavy": 0.05, "eth25_light": 0.05, "eth25_medium": 0.05, "eth25_heavy": 0.15, "rdma100_one_slow_link": 0.05}
    done = True
    for load in WORKLOADS:
        if options.workload not in (None, load["name"]):
            continue
        one = [b for b in load["b"] if load["B"] % b == 0 and load["p"] * b * load["act"] <= load["mem"]]
        ks = variants(load)
        fused = "".join(row(f"{{name: kfkb, k: {k}}}", b) for k, b in ks)
        split = "".join(row(f"{{name: kfkb, k: {k}}}", b, True) for k, b in ks) + "".join(
            row(name, b) for name, sizes in (("zb-h1", one[-2:]), ("zb-h2", one)) for b in sizes)
        print(f"{load['name']}:")
        for given in NETWORKS:
            if given["name"] not in least:
                continue
            _, network = scaled(load, given, 1)
            net = os.path.join(folder, "net.json")
            with open(net, "w", encoding="utf-8") as file:
                json.dump(scenario(network, load["p"], random.Random(options.seed)), file)
            best = min(report(options, spec_of(load, network, "".join(row("1f1b", b) for b in one), one[0]), net, folder)["fixed_ms"])
            ahead = [best / report(options, spec_of(load, network, rows, ks[0][1], True), net, folder)["total_ms"] - 1
                     for rows in (fused, fused + split)]
            met = ahead[1] - ahead[0] >= 0.04 and ahead[0] >= least[given["name"]]
            done &= met
            print(f"  {network['name']:24} ahead of 1F1B at its best size: kFkB {100 * ahead[0]:+6.2f} %, with W deferred "
                  f"{100 * ahead[1]:+6.2f} %{'' if met else '   MISSED'}", flush=True)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipec")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--workload")
    parser.add_argument("--deferred", action="store_true")
    parser.add_argument("--piperun")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    worst, regrets, failed = 0, [], False
    with tempfile.TemporaryDirectory() as folder:
        if options.deferred:
            sys.exit(not deferred(options, folder))
        for load in WORKLOADS:
            if options.workload not in (None, load["name"]):
                continue
            ks = variants(load)
            print(f"{load['name']}: (k, samples) {ks}")
            for given in NETWORKS:
                shorter, network = scaled(load, given, options.scale)
                plan, net = os.path.join(folder, "plan.yaml"), os.path.join(folder, "net.json")
                with open(plan, "w", encoding="utf-8") as file:
                    file.write(spec(shorter, network, ks))
                with open(net, "w", encoding="utf-8") as file:
                    json.dump(scenario(network, load["p"], random.Random(options.seed)), file)
                done = subprocess.run([options.pipec, "report", plan, "--network", net, "--steps", str(options.steps),
                                       "--adapt", "--json"], capture_output=True, text=True)
                if done.returncode != 0:
                    sys.exit(done.stderr)
                own = json.loads(done.stdout)["adapt"]
                least = min(own["fixed_ms"])
                behind = own["total_ms"] / least - 1
                worst = max(worst, behind)
                regrets.append(own["regret"])
                tuned = [100 * (own[name] / own["oracle_ms"] - 1) for name in ("tuner_ms", "profile_ms")]
                print(f"  {network['name']:24} regret {100 * own['regret']:5.2f} %, to the best fixed "
                      f"{100 * behind:+6.2f} % (k = {ks[own['fixed_ms'].index(least)][0]}), ahead of k = 1 by "
                      f"{100 * (own['fixed_ms'][0] / own['total_ms'] - 1):6.2f} %, {own['switches']:3} swaps; tuners "
                      f"{tuned[0]:5.2f} and {tuned[1]:5.2f} %")
                if options.piperun:
                    pipe = os.path.join(folder, "plan.pipe")
                    subprocess.run([options.pipec, "compile", plan, "-o", pipe, "--json"], check=True, capture_output=True)
                    run, took, simulated = run_really(options, pipe, net)
                    over, off = took / own["oracle_ms"] - 1, took / simulated - 1
                    behind = max(behind, took / least - 1)
                    worst = max(worst, behind)
                    failed |= over > 0.03 or abs(off) > 0.02 or run["lost_steps"] > 0
                    print(f"  {'  really':24} over the oracle {100 * over:5.2f} %, to the best fixed {100 * (took / least - 1):+6.2f} %, "
                          f"off the simulator {100 * off:+5.2f} %, {run['adapt']['switches']:3} swaps, permit wait "
                          f"{1000 * run['permit_wait_ms']['p50']:.0f} us (most {1000 * run['permit_wait_ms']['max']:.0f}), deciding "
                          f"{run['adapt']['decide_us']['p50'] / 1000:.1f} ms (most {run['adapt']['decide_us']['max'] / 1000:.1f}), "
                          f"{run['adapt']['decide_us']['p50'] / 10 / (took / options.steps):.2f} % of a core", flush=True)
    print(f"mean regret {100 * sum(regrets) / len(regrets):.2f} %, most {100 * max(regrets):.2f} %; at most "
          f"{100 * worst:.2f} % behind the best fixed")
    sys.exit(worst > 0.01 or failed)


if __name__ == "__main__":
    main()
