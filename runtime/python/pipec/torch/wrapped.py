"""Wrappers that sum a module's gradients over processes: DistributedDataParallel and fully_shard. Left alone they do so in each
backward; a stage has a backward for each microbatch, and with split backwards two. So they sum once a step, behind the stage's last
backward."""
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

from ..errors import SpecError


def _fsdp(name):
    """A type of PyTorch's FSDP; without its module nothing can be of that type."""
    return getattr(sys.modules.get("torch.distributed.fsdp"), name, ())


def check(modules, plan):
    """Refuses {stage: module} with a wrapper that would train wrong."""
    sharded = _fsdp("FSDPModule")
    for stage, module in modules.items():
        for name, each in module.named_modules():
            where = f"stage {stage}'s {name}" if name else f"stage {stage}'s module"
            if isinstance(each, _fsdp("FullyShardedDataParallel")):
                raise SpecError(f"{where} is a {type(each).__name__}, which sums gradients in its own backward, and a stage has a "
                                "backward for each microbatch: shard the module inside with torch.distributed.fsdp.fully_shard, or let "
                                "the plan have the replicas (data_parallel in its spec)", plan.name)
            if not isinstance(each, (DistributedDataParallel, sharded)):
                continue
            kind = "sharded by fully_shard" if isinstance(each, sharded) else "a DistributedDataParallel"
            if plan.degree > 1:
                raise SpecError(f"{where} is {kind}, and the plan has replicas, which sum gradients too: leave one of the two away",
                                plan.name)
            if plan.facts["fills"]:
                raise SpecError(f"{where} is {kind}, and with weights: fill each process chooses for itself when it computes the "
                                "gradients of weights: the processes that sum them need one order, so leave fill away", plan.name)


class Sums:
    """The wrappers of a rank's stages, {stage: module}."""

    def __init__(self, modules):
        found = {stage: list(_outermost(module)) for stage, module in modules.items()}
        self._of = {stage: wrappers for stage, wrappers in found.items() if wrappers}
        self._left = {}

    def begin(self, microbatches):
        """A step begins."""
        self._left = dict.fromkeys(self._of, microbatches)
        for wrappers in self._of.values():
            for each in wrappers:
                _hold(each)

    def behind_backward(self, stage):
        """Gradients of the stage's weights have another microbatch in them."""
        if stage not in self._left:
            return
        self._left[stage] -= 1
        if self._left[stage] == 0:
            for each in reversed(self._of[stage]):
                _sum(each)


def _outermost(module):
    if isinstance(module, (DistributedDataParallel, _fsdp("FSDPModule"))):
        yield module
        return
    for child in module.children():
        yield from _outermost(child)


def _hold(wrapper):
    if isinstance(wrapper, DistributedDataParallel):
        wrapper.require_backward_grad_sync = False  # as no_sync does it
        return
    wrapper.set_requires_gradient_sync(False)
    wrapper.set_reshard_after_backward(False)  # W may come much later
    if hasattr(wrapper, "set_manual_backward_finalization"):
        wrapper.set_manual_backward_finalization(True)
    else:
        wrapper.set_is_last_backward(False)


def _sum(wrapper):
    if isinstance(wrapper, DistributedDataParallel):
        # The sums begin when gradients are added to: nothing is added now.
        wrapper.require_backward_grad_sync = True
        wrapper.reducer.prepare_for_backward([])
        parameters = [p for p in wrapper.parameters() if p.requires_grad]
        torch.autograd.backward(parameters, [torch.zeros_like(p) for p in parameters])
        return
    wrapper.set_requires_gradient_sync(True)
    wrapper.set_reshard_after_backward(True)
    if hasattr(wrapper, "finalize_backward"):
        wrapper.finalize_backward()
        wrapper.set_manual_backward_finalization(False)
        return
    # What torch.distributed.pipelining does where a module has no finalize_backward.
    wrapper.set_is_last_backward(True)
    state = wrapper._get_fsdp_state()
    for each in state._state_ctx.all_states:
        if each._fsdp_param_group:
            each._fsdp_param_group.post_backward()
    state._root_post_backward_final_callback()


def whole(value):
    """A number of a sharded tensor's, of all shards."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def local(tensor):
    """What this process has of a tensor that may be sharded."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
