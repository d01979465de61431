"""Wrappers that sum a module's gradients over processes. Each has hooks that expect one backward of all, once a step."""
import sys

import torch

from ..errors import SpecError

_REPLICAS = "let the plan have the replicas (data_parallel in its spec)"


def _fsdp(name):
    """A type of PyTorch's FSDP; without its module nothing can be of that type."""
    return getattr(sys.modules.get("torch.distributed.fsdp"), name, ())


def check(modules, plan):
    """Refuses {stage: module} with a wrapper that would train wrong."""
    sharded = _fsdp("FSDPModule")
    for stage, module in modules.items():
        for name, each in module.named_modules():
            where = f"stage {stage}'s {name}" if name else f"stage {stage}'s module"
            if isinstance(each, (torch.nn.parallel.DistributedDataParallel, _fsdp("FullyShardedDataParallel"))):
                raise SpecError(f"{where} is a {type(each).__name__}, which sums gradients in its own backward, and a stage has a "
                                f"backward for each microbatch: pass the module inside and {_REPLICAS}, or, where backwards are "
                                "fused, shard it with torch.distributed.fsdp.fully_shard", plan.name)
            if isinstance(each, sharded) and plan.facts["split"]:
                raise SpecError(f"{where} is sharded by fully_shard, which frees the weights behind the backward of the input (B), "
                                "and the plan computes the weights' gradients (W) later: compile it with backward: fused and a "
                                f"schedule that allows that (1f1b), or {_REPLICAS}", plan.name)
            if isinstance(each, sharded) and plan.degree > 1:
                raise SpecError(f"{where} is sharded by fully_shard, and the plan has replicas, which sum gradients too: leave one "
                                "of the two away", plan.name)


def whole(value):
    """A number of a sharded tensor's, of all shards."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def local(tensor):
    """What this process has of a tensor that may be sharded."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
