"""Checkpoints of tensors that are sharded over a mesh (DTensor: fully_shard, tensor parallelism), whose pipelines are runs of their own,
side by side. Each layer's file has whole tensors, gathered one at a time, and one pipeline of the mesh writes it, the first. The others
keep what is of their processes alone in folders of their own within the first one's: CHECKPOINT/pipeline-1/step-00000100."""
import pathlib

import torch

from ..errors import SpecError
from . import folder


def whole(tensor):
    """A tensor that all processes of its mesh gather, in one order; any other as it is."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def whole_values(value):
    """As whole(), of the tensors in a state."""
    return {key: whole(each) for key, each in value.items()} if isinstance(value, dict) else whole(value)


def like(tensor, own):
    """A whole tensor as this process has `own`: the part of it, where that is sharded."""
    if not hasattr(own, "full_tensor"):
        return tensor
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, offset = compute_local_shape_and_global_offset(own.shape, own.device_mesh, own.placements)
    part = tensor[tuple(slice(begin, begin + size) for begin, size in zip(offset, shape))]
    return DTensor.from_local(part.to(own.device).clone(), own.device_mesh, own.placements, run_check=False, shape=own.shape,
                              stride=own.stride())


def like_values(state, own):
    """As like(), of an optimizer's state of a parameter."""
    return state and {key: like(each, own) if isinstance(each, torch.Tensor) and each.shape == own.shape else each
                      for key, each in state.items()}


class Pipelines:
    """Of the mesh over which a rank's parameters are sharded: `number` is that of this process's pipeline, `count` how many there are."""

    def __init__(self, model):
        meshes = [p.device_mesh for module in model.modules.values() for p in module.parameters() if hasattr(p, "device_mesh")]
        largest = max(meshes, key=lambda mesh: mesh.size(), default=None)
        self.number, self.count = 0, 1
        if largest is not None:
            self.count = largest.size()
            for size, at in zip(largest.shape, largest.get_coordinate()):
                self.number = self.number * size + at

    def agree(self, said, plan):
        """said: (number, count) of each process of this pipeline."""
        for process, each in enumerate(said):
            if tuple(each) != (self.number, self.count):
                raise SpecError(f"this pipeline is number {self.number} of {self.count} by the mesh over which this rank's parameters are "
                                f"sharded, number {each[0]} of {each[1]} by that of process {process}: where there are checkpoints shard "
                                "parameters of all ranks over one mesh, or train without checkpoint", plan.name)

    def folder(self, path):
        """Of this pipeline's own checkpoints, within the first one's."""
        return pathlib.Path(path) / f"pipeline-{self.number}" if self.number else pathlib.Path(path)

    def of_first(self, path):
        """The first one's folder of a step."""
        return path.parent.parent / path.name if self.number else path

    def mirror(self, path):
        """Before a run begins: this pipeline has the steps that the first one has. A step that is newer was not complete; one that is
        missing is of another mesh, and has nothing of this pipeline."""
        first, own = pathlib.Path(path), self.folder(path)
        kept = {step for step, _ in folder.steps(first)} if first.is_dir() else set()
        own.mkdir(parents=True, exist_ok=True)
        there = dict(folder.steps(own))
        for step, each in there.items():
            if step not in kept:
                folder.remove(each)
        for step in kept - there.keys():
            (own / f"step-{step:08}").mkdir()

    def are_written(self, path):
        """Whether the others have written their parts of the first one's step."""
        return all(folder.is_complete(path.parent / f"pipeline-{number}" / path.name) for number in range(1, self.count))

    def old(self, path, keep):
        """Folders of this pipeline's steps that are not needed any more."""
        if not self.number:
            return [old for _, old in folder.steps(path.parent)[:-keep]]
        first = {step for step, _ in folder.steps(path.parent.parent)}
        own = folder.steps(path.parent)
        return [old for step, old in own[:-keep] if step not in first and step < max(first, default=0)]
