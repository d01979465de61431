"""Training with pipec.torch on one GPU (or, to try this program, on the CPU): two processes that share it, held against a plain
loop in one, to the last bit. Prints at the end how many modules' states differ; for tools/gpu-check.

usage: gpu.py [--device cuda|cpu] [--steps N]"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # the same sums in every process

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "system"))

import models  # noqa: E402
import torch  # noqa: E402
from ports import free_port  # noqa: E402

import pipec  # noqa: E402
import pipec.torch  # noqa: E402

ROWS, MICROBATCHES, LAYERS, SEED, CLIP = 8, 4, 4, 7, 1e3
BOUNDARY = ROWS // MICROBATCHES * models.LENGTH * models.WIDTH * 4
SPEC = f"""\
pipec: 1
pipeline: {{ranks: 2, microbatches: {MICROBATCHES}MORE}}
layers: [{{count: {LAYERS}, forward: 2ms, backward_input: 2ms, backward_weight: 2ms}}]
tensors: {{boundary: {BOUNDARY}B}}
COSTSschedule: SCHEDULE
"""
NORM = "costs: {optimizer: {time: 1ms, global_norm: true}}\n"
CASES = [("1f1b", "", ""), ("zb-h1", "", NORM), ("v-half", ", placement: v", NORM)]  # without: the program's own optimizer


def exact():
    """Kernels whose sums have one order."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    for choose in (torch.backends.cuda.enable_flash_sdp, torch.backends.cuda.enable_mem_efficient_sdp,
                   torch.backends.cuda.enable_cudnn_sdp):
        choose(False)


def on(device, modules):
    return {stage: module.to(device) for stage, module in modules.items()}


def rank(device, path, steps):
    """A process: trains, and says how its modules are after each step."""
    plan = pipec.load(path)
    mine, _ = plan.place()
    modules = on(device, pipec.torch.stages(plan, models.layers(LAYERS), mine))
    planned = plan.facts["global_norm"]
    own = None if planned else models.optimizer([("", p) for m in modules.values() for p in m.parameters()])
    said = []
    with pipec.torch.Run(plan, modules, loss=models.loss, seed=SEED, optimizer=models.optimizer if planned else None,
                         clip=CLIP if planned else None, progress=False) as run:
        for step in range(steps):
            x, target = (each.to(device) for each in models.batch(step, ROWS))
            run.step(x, target=target)
            if own:
                own.step()
                own.zero_grad()
            run.sync()
            said.append({stage: models.digest(module) for stage, module in modules.items()})
    print(json.dumps(said))


def plain(device, plan, steps):
    made = {}
    for each in range(plan.ranks):
        made.update(pipec.torch.stages(plan, models.layers(LAYERS), each))
    batch = models.batch
    models.batch = lambda step, rows: tuple(each.to(device) for each in batch(step, rows))
    try:
        return [digests for digests, _ in models.plain(on(device, dict(sorted(made.items()))), steps, MICROBATCHES, ROWS,
                                                       pipec.torch.reseed, SEED)]
    finally:
        models.batch = batch


def compare(device, path, steps):
    """How many states differ, of how many."""
    plan, port = pipec.load(path), str(free_port())
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]  # one, which they share
    ranks = [subprocess.Popen([sys.executable, __file__, "--device", device, "--steps", str(steps), "--rank", path],
                              env={**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "RANK": str(n),
                                   "LOCAL_RANK": str(n), "CUDA_VISIBLE_DEVICES": gpu, "PIPEC_SECRET": f"of port {port}"},
                              stdout=subprocess.PIPE, text=True) for n in range(2)]
    said = [process.communicate()[0] for process in ranks]
    if any(process.returncode for process in ranks):
        sys.exit(f"{plan.name}: a process ended with {[process.returncode for process in ranks]}")
    differ = total = 0
    for step, expected in enumerate(plain(device, plan, steps)):
        found = {}
        for each in said:
            found.update(json.loads(each)[step])
        differ += sum(found[str(stage)] != digest for stage, digest in expected.items())
        total += len(expected)
    return differ, total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rank", metavar="PLAN")
    given = parser.parse_args()
    exact()
    if given.rank:
        return rank(given.device, given.rank, given.steps)
    torch.zeros(1, device=given.device)  # starts CUDA, whose generator reseed then seeds
    sums = [0, 0]
    with tempfile.TemporaryDirectory(prefix="pipec-gpu-") as folder:
        for number, (schedule, more, costs) in enumerate(CASES):
            source, path = (pathlib.Path(folder) / f"{number}.{kind}" for kind in ("yaml", "pipe"))
            source.write_text(SPEC.replace("SCHEDULE", schedule).replace("MORE", more).replace("COSTS", costs))
            pipec.compile(source).save(path)
            differ, total = compare(given.device, str(path), given.steps)
            print(f"{schedule}: {differ} of {total}", flush=True)
            sums = [sums[0] + differ, sums[1] + total]
    print(f"{sums[0]} of {sums[1]}")
    return sums[0] > 0


if __name__ == "__main__":
    sys.exit(main())
