#!/usr/bin/env python3
"""How long generating and lowering a schedule takes in PyTorch, and how long pipec takes for compiling, proving and exporting
it, one after the other on this machine: CPU seconds of each, and their ratio.

  test/bench/torch_lowering.py build/release/bin/pipec PYTHON... [--size 64x256]

Each PYTHON is an interpreter whose PyTorch has pipelining; PyTorch's time is that of its constructor (from 2.10 on) or of its
constructor and _load_actions, without imports; pipec's is that of the whole process, least of five."""
import argparse
import os
import pathlib
import resource
import subprocess
import tempfile

SCHEDULES = {"ZBVZeroBubble": "zb-v", "InterleavedZeroBubble": "interleaved-zb"}

# Runs in PyTorch's own interpreter: ranks, microbatches, class. Stages do nothing; the schedule asks them who they are.
LOWERING = """
import sys, time, torch
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.stage import _PipelineStageBase
ranks, microbatches, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
class Stage(_PipelineStageBase):
    def __init__(self, index):
        self.stage_index, self.num_stages = index, 2 * ranks
        self.group_size, self.group_rank, self.group = ranks, 0, None
        self.is_first, self.is_last = index == 0, index == 2 * ranks - 1
        self.submod, self.has_backward, self.device = None, True, torch.device("cpu")
        self.stage_index_to_group_rank = {}
    is_first = is_last = None
    def _prepare_forward_infra(self, *_, **__): pass
    def _prepare_backward_infra(self, *_, **__): pass
    def _create_grad_recv_info(self, *_, **__): pass
    def _get_recv_ops(self, *_, **__): return []
mine = [Stage(0), Stage(2 * ranks - 1 if name == "ZBVZeroBubble" else ranks)]
begin = time.process_time()
made = getattr(schedules, "Schedule" + name)(mine, microbatches, loss_fn=lambda *_: 0)
if not getattr(made, "pipeline_order_with_comms", None):
    runtime = schedules._PipelineScheduleRuntime(mine, microbatches, loss_fn=lambda *_: 0)
    runtime._load_actions(made.pipeline_order, format="compute_only")
print(torch.__version__, time.process_time() - begin)
"""

SPEC = """pipec: 1
pipeline: {{ranks: {ranks}, stages_per_rank: 2, microbatches: {microbatches}}}
costs: {{forward: 1ms, backward_input: 1ms, backward_weight: 1ms, link: {{latency: 20us, bandwidth: 100GB/s}}}}
tensors: {{boundary: 5MB}}
schedule: {schedule}
"""


def pipec_seconds(pipec, ranks, microbatches, schedule):
    with tempfile.TemporaryDirectory() as folder:
        spec = pathlib.Path(folder, "s.yaml")
        spec.write_text(SPEC.format(ranks=ranks, microbatches=microbatches, schedule=schedule))
        times = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [pipec, "compile", spec, "--emit=torch-csv", "-o", pathlib.Path(folder, "s.csv")],
                check=True,
                stderr=subprocess.DEVNULL,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)


def torch_seconds(python, ranks, microbatches, name):
    done = subprocess.run(
        [python, "-c", LOWERING, str(ranks), str(microbatches), name],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    version, seconds = done.stdout.split()[-2:]
    return version, float(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipec")
    parser.add_argument("python", nargs="+")
    parser.add_argument("--size", default="64x256", help="ranks x microbatches")
    options = parser.parse_args()
    ranks, microbatches = map(int, options.size.split("x"))
    for name, schedule in SCHEDULES.items():
        own = pipec_seconds(options.pipec, ranks, microbatches, schedule)
        for python in options.python:
            version, seconds = torch_seconds(python, ranks, microbatches, name)
            print(
                f"{name} {options.size}: PyTorch {version} {seconds:.2f} s, pipec {own:.3f} s, {seconds / own:.1f} times",
                flush=True,
            )


if __name__ == "__main__":
    main()
