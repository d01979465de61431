"""Trains the GPT of model.py on the text of this repository's own documents, one process a rank:

  torchrun --nproc-per-node 2 train.py --profile gpt.yaml             one pipeline of two ranks
  torchrun --nproc-per-node 4 train.py --schedule zb-h1 --shards 2    two pipelines, over which fully_shard shards each layer
"""
import argparse
import pathlib
import sys
import time

import model
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import pipec.torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import text  # noqa: E402

MICROBATCHES = 4
BATCH = 4 * MICROBATCHES, model.CONTEXT

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--profile", help="a spec that pipec.profile has measured")
parser.add_argument("--schedule", default="1f1b")
parser.add_argument("--shards", type=int, default=1, help="pipelines that share their layers' weights and gradients")
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--minutes", type=float, default=5)
parser.add_argument("--checkpoint", help="a folder, from which a later run goes on")
given = parser.parse_args()

torch.distributed.init_process_group("gloo")
mesh = init_device_mesh("cpu", (given.shards, torch.distributed.get_world_size() // given.shards), mesh_dim_names=("dp", "pp"))
words, part, pipeline = text.documents(), mesh["dp"].get_local_rank(), mesh["pp"]
plan = pipec.torch.plan(model.layers(), example=text.batch(words, 0, *BATCH)[0], ranks=pipeline.size(),
                        microbatches=MICROBATCHES, schedule=given.schedule, profile=given.profile)
modules = pipec.torch.stages(plan, model.layers(), pipeline.get_local_rank())
for layer in [each for module in modules.values() for each in module] if given.shards > 1 else []:
    fully_shard(layer, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(torch.nn.ModuleList(modules.values()).parameters(), betas=(0.9, 0.99))
with pipec.torch.Run(plan, modules, loss=model.loss, group=pipeline.get_group(), state={"optimizer": optimizer}, resume=True,
                     checkpoint=given.checkpoint) as run:
    end, loss, over = time.monotonic() + 60 * given.minutes, float("nan"), [False]
    while run.steps_done < given.steps and not over[0]:
        x, following = text.batch(words, run.steps_done * given.shards + part, *BATCH)
        loss = run.step(x, target=following)
        run.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        over = [time.monotonic() > end]  # by the first process's clock
        torch.distributed.broadcast_object_list(over, src=0)
if torch.distributed.get_rank() == 0:
    print(f"loss of the last step: {loss:.3f} nats a byte", flush=True)
torch.distributed.destroy_process_group()
