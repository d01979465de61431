"""A process of a training that counts what it holds: for each plan of the command line it prints
{"peak": bytes, "predicted": bytes}, the largest sum between any two instructions.

It shares no code with the package: every storage that an operation makes counts from then on for as long as it is
alive, whoever holds it; of weights and their gradients none does."""
import importlib.util
import json
import os
import sys

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import pipec
import pipec.torch
from pipec import _library

STEPS = 4
LEARNS = 2  # steps in which a stage learns what it need not keep


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Judge(TorchDispatchMode):
    def __init__(self, modules):
        super().__init__()
        self.parameters = [each for module in modules.values() for each in module.parameters()]
        self.made, self.peak, self.next = {}, 0, _library.LIBRARY.pipec_run_next

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        before = {each.untyped_storage()._cdata for each in tensors((args, kwargs))}
        for each in tensors(result):
            storage = each.untyped_storage()
            if storage._cdata not in before:
                self.made[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        return result

    def between(self, *arguments):
        """In place of the library's call for the next instruction."""
        self.made = {key: each for key, each in self.made.items() if not each[0].expired()}
        gradients = {each.grad.untyped_storage()._cdata for each in self.parameters if each.grad is not None}
        self.peak = max(self.peak, sum(size for key, (_, size) in self.made.items() if key not in gradients))
        return self.next(*arguments)


def train(path, model, samples):
    plan = pipec.load(path)
    rank, _ = plan.place(int(os.environ["RANK"]))
    modules = pipec.torch.stages(plan, model.layers(), rank)
    peak = 0
    with pipec.torch.Run(plan, modules, loss=model.loss, progress=False,
                         optimizer=lambda named: torch.optim.AdamW([each for _, each in named])) as run:
        for step in range(STEPS):
            x, target = (make(samples * plan.microbatches) for make in (model.example, model.target))
            judge = Judge(modules)  # what a step has left behind, the optimizer's state, is none of the next
            _library.LIBRARY.pipec_run_next = judge.between
            with judge:
                run.step(x if 0 in modules else None, target=target if plan.stage_count - 1 in modules else None)
            _library.LIBRARY.pipec_run_next = judge.next
            peak = max(peak, judge.peak) if step >= LEARNS else 0
    return {"peak": peak, "predicted": plan.facts["variants"][0]["peak_activation_bytes"][rank]}


def main():
    torch.set_num_threads(1)
    path, samples, *plans = sys.argv[1:]
    found = importlib.util.spec_from_file_location("model", path)
    model = importlib.util.module_from_spec(found)
    found.loader.exec_module(model)
    for plan in plans:
        print(json.dumps(train(plan, model, int(samples))), flush=True)


if __name__ == "__main__":
    main()
