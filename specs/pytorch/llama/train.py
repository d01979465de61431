"""Trains a Llama of transformers, as it is, on the text of this repository's own documents, one process a rank:

  torchrun --nproc-per-node 2 train.py
  torchrun --nproc-per-node 4 train.py --schedule zb-h1 --shards 2    two pipelines, over which fully_shard shards each layer
"""
import argparse
import pathlib
import sys

import torch
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import pipec.torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import text  # noqa: E402

MICROBATCHES, CONTEXT, BYTES = 4, 128, 256
BATCH = 4 * MICROBATCHES, CONTEXT


def loss(output, following):
    return torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), following.flatten())


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--schedule", default="1f1b")
parser.add_argument("--shards", type=int, default=1, help="pipelines that share their layers' weights and gradients")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--checkpoint", help="a folder, from which a later run goes on")
given = parser.parse_args()

torch.distributed.init_process_group("gloo")
torch.manual_seed(0)  # all processes begin with the same weights
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    vocab_size=BYTES, hidden_size=128, intermediate_size=344, num_hidden_layers=6, num_attention_heads=4, max_position_embeddings=CONTEXT))
mesh = init_device_mesh("cpu", (given.shards, torch.distributed.get_world_size() // given.shards), mesh_dim_names=("dp", "pp"))
words, part, pipeline = text.documents(), mesh["dp"].get_local_rank(), mesh["pp"]
layers = pipec.torch.layers(model)
plan = pipec.torch.plan(layers, example=text.batch(words, 0, *BATCH)[0], ranks=pipeline.size(), microbatches=MICROBATCHES,
                        schedule=given.schedule)
modules = pipec.torch.stages(plan, layers, pipeline.get_local_rank())
for layer in [each for module in modules.values() for each in module] if given.shards > 1 else []:
    fully_shard(layer, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(torch.nn.ModuleList(modules.values()).parameters(), lr=1e-3)
with pipec.torch.Run(plan, modules, loss=loss, group=pipeline.get_group(), state={"optimizer": optimizer}, resume=True,
                     checkpoint=given.checkpoint) as run:
    mean = float("nan")
    while run.steps_done < given.steps:
        x, following = text.batch(words, run.steps_done * given.shards + part, *BATCH)
        mean = run.step(x, target=following)
        run.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
if torch.distributed.get_rank() == 0:
    print(f"loss of the last step: {mean:.3f} nats a byte", flush=True)
torch.distributed.destroy_process_group()
