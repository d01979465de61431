"""The same small GPT under the same schedule in pipec.torch and in PyTorch's own pipelining, two ranks by Gloo and by pipec's
sockets, by turns: tokens a second; and the processor's time for an instruction of a stage that computes nothing.
Measurements, run by hand; they want two quiet cores. Gloo stalls over a loopback of 64 KiB packets: set its MTU to 1500 before
(ip link set lo mtu 1500).

  PYTHONPATH=build/release/python build/torch/bin/python test/bench/training_peer.py [--rounds 5] [--steps 30] [--only zb-v] [--judge]

--judge: exit code 1 where pipec trains fewer tokens a second than PyTorch, or an instruction takes more than 15 us.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
WORDS, LENGTH, MICROBATCHES, ROWS = 256, 64, 8, 16
LIMIT_US = 15
SCHEDULES = {"1f1b": ("1f1b", "", 2), "interleaved": ("interleaved-1f1b", ", stages_per_rank: 2", 4), "zb-v": ("zb-v", ", placement: v", 4)}


def layers(width, count):
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.behind = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.mix, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.wide = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

        def forward(self, x):
            heads = [each.unflatten(-1, (4, -1)).transpose(1, 2) for each in self.mix(self.before(x)).chunk(3, -1)]
            mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(-2))
            return x + self.wide(self.behind(x))

    torch.manual_seed(0)
    return [torch.nn.Embedding(WORDS, width), *[Block() for _ in range(count - 2)],
            torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, WORDS))]


def worker(setup):
    import torch
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    if setup["width"]:
        made = layers(setup["width"], 8)
        x = torch.randint(0, WORDS, (ROWS, LENGTH))
        target = torch.randint(0, WORDS, (ROWS, LENGTH))

        def loss(output, of):
            return torch.nn.functional.cross_entropy(output.flatten(0, 1), of.flatten())
    else:
        class Least(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(()))

            def forward(self, x):
                return x * self.weight

        made = [Least() for _ in range(setup["stages"])]
        x = target = torch.zeros(ROWS, 1)

        def loss(output, _):
            return output.sum()
    each = len(made) // setup["stages"]
    stages = [torch.nn.Sequential(*made[s * each:(s + 1) * each]) for s in range(setup["stages"])]
    run = with_torch if setup["system"] == "torch" else with_pipec
    times, used, instructions = run(setup, rank, stages, loss, x, target)
    print(json.dumps({"times": times, "used": used, "instructions": instructions}), flush=True)


def steps_of(setup, step, optimizer):
    times, used = [], []
    for _ in range(setup["steps"]):
        begin, before = time.perf_counter(), time.thread_time()
        step()
        used.append(time.thread_time() - before)
        if optimizer:
            optimizer.step()
            optimizer.zero_grad()
        times.append(time.perf_counter() - begin)
    return times[3:], used[3:]


class Empty:
    """In place of a stage: computes nothing."""
    count = None

    def __init__(self, value, output):
        self._value, self._output = value, output

    def forward(self, microbatch, x, **_):
        return self._output

    def backward_input(self, microbatch, gradient):
        return self._value

    backward = backward_input

    def held(self):
        return 0

    def backward_weight(self, microbatch):
        pass


class Clock:
    """The processor's time from each instruction of the library's to the next."""

    def __init__(self):
        from pipec import _library
        self._next, self._at = _library.LIBRARY.pipec_run_next, []
        _library.LIBRARY.pipec_run_next = self

    def __call__(self, *arguments):
        code = self._next(*arguments)
        self._at.append(time.thread_time())
        return code

    def median(self):
        return statistics.median(after - before for before, after in zip(self._at, self._at[1:]))


def with_pipec(setup, rank, stages, loss, x, target):
    import torch
    import pipec
    import pipec.torch
    plan = pipec.load(setup["plan"])
    own = {each.stage: stages[each.stage] for each in plan.stages(rank)}
    parameters = [p for module in own.values() for p in module.parameters()]
    optimizer = torch.optim.AdamW(parameters) if setup["width"] else None
    with pipec.torch.Run(plan, own, loss=loss, progress=False) as run:
        if setup["system"] == "empty":
            value = torch.zeros(ROWS // MICROBATCHES, 1)
            run._steps._stages = {s: Empty(value, torch.zeros(()) if s == setup["stages"] - 1 else value) for s in own}
        clock = Clock()
        times, used = steps_of(setup, lambda: run.step(x, target=target), optimizer)
        if setup["system"] == "empty":
            return times, [clock.median()], 1
    return times, used, (3 if plan.facts["split"] else 2) * MICROBATCHES * len(own)


def with_torch(setup, rank, stages, loss, x, target):
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, schedules
    dist.init_process_group("gloo")
    last = len(stages) - 1
    numbers = {"1f1b": [rank], "interleaved": [rank, rank + 2], "zb-v": [rank, last - rank]}[setup["schedule"]]
    kinds = {"1f1b": schedules.Schedule1F1B, "interleaved": schedules.ScheduleInterleaved1F1B, "zb-v": schedules.ScheduleZBVZeroBubble}
    made = [PipelineStage(stages[s], s, len(stages), torch.device("cpu")) for s in numbers]
    schedule = kinds[setup["schedule"]](made[0] if setup["schedule"] == "1f1b" else made, MICROBATCHES, loss_fn=loss)
    given = (x,) if 0 in numbers else ()
    options = {"target": target, "losses": []} if last in numbers else {}
    parameters = [p for s in numbers for p in stages[s].parameters()]
    optimizer = torch.optim.AdamW(parameters) if setup["width"] else None
    times, used = steps_of(setup, lambda: schedule.step(*given, **options), optimizer)
    dist.destroy_process_group()
    return times, used, (3 if setup["schedule"] == "zb-v" else 2) * MICROBATCHES * len(numbers)


def launch(setup, port):
    processes = []
    for rank in range(2):
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": str(rank),
                       "LOCAL_RANK": str(rank), "PIPEC_SECRET": "of the benchmark", "OMP_NUM_THREADS": "1"}
        processes.append(subprocess.Popen([sys.executable, HERE, "--worker", json.dumps(setup)], env=environment,
                                          stdout=subprocess.PIPE, text=True))
    said = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"a worker ended with an error: {setup}")
    said = [json.loads(each.splitlines()[-1]) for each in said]
    step = statistics.median(map(max, zip(*(each["times"] for each in said))))
    return step, max(statistics.median(each["used"]) / each["instructions"] for each in said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--only", choices=SCHEDULES, help="one schedule (default: all)")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(json.loads(arguments.worker))

    import pipec
    good, port = True, 21000
    with tempfile.TemporaryDirectory() as folder:
        for name, (schedule, more, stages) in SCHEDULES.items():
            if arguments.only not in (None, name):
                continue
            for width in (arguments.width, 0):
                boundary = ROWS // MICROBATCHES * (LENGTH * width * 4 if width else 4)
                spec, plan = pathlib.Path(folder) / "spec.yaml", pathlib.Path(folder) / f"{name}-{width}.pipe"
                spec.write_text(f"pipec: 1\npipeline: {{ranks: 2, microbatches: {MICROBATCHES}{more}}}\n"
                                f"costs: {{forward: 2ms, backward_input: 2ms, backward_weight: 2ms}}\n"
                                f"tensors: {{boundary: {boundary}B}}\nschedule: {schedule}\n", encoding="utf-8")
                pipec.compile(spec).save(plan)
                found = {"pipec": [], "torch": []} if width else {"empty": [], "pipec": [], "torch": []}
                for _ in range(arguments.rounds):
                    for system in found:
                        port += 20
                        found[system].append(launch({"system": system, "schedule": name, "plan": str(plan), "stages": stages,
                                                     "width": width, "steps": arguments.steps}, port))
                steps = {system: statistics.median(step for step, _ in rounds) for system, rounds in found.items()}
                used = {system: statistics.median(each for _, each in rounds) * 1e6 for system, rounds in found.items()}
                if width:
                    rate = {system: ROWS * LENGTH / step for system, step in steps.items()}
                    good &= rate["pipec"] >= rate["torch"]
                    print(f"{name:12} {rate['pipec']:8.0f} tokens/s, PyTorch {rate['torch']:8.0f}, ratio "
                          f"{rate['pipec'] / rate['torch']:.3f}", flush=True)
                else:
                    good &= used["empty"] <= LIMIT_US
                    print(f"{name:12} {used['empty']:8.1f} us an instruction of an empty stage; of one that multiplies by a "
                          f"number {used['pipec']:.1f}, PyTorch {used['torch']:.1f}", flush=True)
    return int(arguments.judge and not good)


if __name__ == "__main__":
    sys.exit(main())
