"""Wrappers that sum gradients, and hooks of AccumulateGrad nodes, with which such wrappers are made."""
import unittest

import torch
from runs import FolderTest, spec
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

import pipec
import pipec.torch
from pipec.torch.split import Stage

WIDTH = 4


class Sharded(FullyShardedDataParallel):
    """By its type alone: PyTorch makes one only where there is an accelerator."""

    def __init__(self, module):
        torch.nn.Module.__init__(self)
        self._fsdp_wrapped_module, self.training_state = module, None


def layers():
    torch.manual_seed(1)
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(2)]


def loss(output, y):
    return (output - y).square().mean()


class WrappedTest(FolderTest):
    @classmethod
    def setUpClass(cls):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        cls.addClassCleanup(torch.distributed.destroy_process_group)

    def train(self, modules, schedule="interleaved-1f1b", more=", stages_per_rank: 2", tail=""):
        path = self.folder / "spec.yaml"
        path.write_text(spec(schedule, 1, more, tail=tail), encoding="utf-8")
        optimizer = torch.optim.AdamW([p for each in modules for p in each.parameters()])
        with pipec.torch.Run(pipec.compile(path), dict(enumerate(modules)), loss=loss, progress=False) as run:
            for step in range(3):
                torch.manual_seed(step)
                run.step(torch.randn(8, WIDTH), target=torch.randn(8, WIDTH))
                optimizer.step()
                optimizer.zero_grad()

    def test_wrappers_that_are_refused(self):
        first, second = layers()
        with self.assertRaisesRegex(pipec.SpecError, "stage 1's module is a Sharded, which sums .*: shard the module inside with .*fully_shard, "
                                                     r"or let the plan have the replicas \(data_parallel in its spec\)"):
            self.train([first, Sharded(second)])
        for wrap, name in ((torch.nn.parallel.DistributedDataParallel, "a DistributedDataParallel"),
                           (lambda each: fully_shard(each, mesh=init_device_mesh("cpu", (1,))), "sharded by fully_shard")):
            first, second = layers()
            with self.assertRaisesRegex(pipec.SpecError, f"stage 1's module is {name}, and with weights: fill .*leave fill away"):
                self.train([first, wrap(second)], "zb-v", ", placement: v", tail="weights: fill\n")

    def test_wrapped_stages_train_to_the_bit(self):
        mesh = init_device_mesh("cpu", (1,))
        for wrap in (lambda each: fully_shard(each, mesh=mesh), torch.nn.parallel.DistributedDataParallel,
                     lambda each: torch.nn.Sequential(torch.nn.parallel.DistributedDataParallel(each))):
            for schedule in (("interleaved-1f1b", ", stages_per_rank: 2", ""), ("interleaved-1f1b", ", stages_per_rank: 2", "recompute: all\n"),
                             ("zb-v", ", placement: v", "")):
                plain, wrapped = layers(), layers()
                self.train(plain, *schedule)
                wrapped = [*map(wrap, wrapped)]
                self.train(wrapped, *schedule)
                for found, right in zip(wrapped, plain):
                    for p, q in zip(found.parameters(), right.parameters()):
                        torch.testing.assert_close(p.full_tensor() if hasattr(p, "full_tensor") else p, q, rtol=0, atol=0)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.last.weight = self.first.weight
        self.norm, self.scale = torch.nn.LayerNorm(WIDTH), torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.last(self.norm(torch.tanh(self.first(x)))) * self.scale


def keeps_prehooks():
    """Whether a node keeps its prehooks when Python has looked at what an operation has saved by hooks. In PyTorch 2.8 not."""
    layer, called = torch.nn.LayerNorm(WIDTH), []
    node = layer.weight.view_as(layer.weight).grad_fn.next_functions[0][0]
    node.register_prehook(lambda *_: called.append(1))
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: [tensor], lambda box: box[0]):
        found = layer(torch.ones(WIDTH))
    found.grad_fn._saved_weight.detach()
    found.sum().backward()
    return bool(called)


class HooksTest(unittest.TestCase):
    def called(self, module, passes):
        """{(microbatch, parameter, kind of hook): calls} of hooks of all nodes, and the gradients."""
        calls, nodes, handles, now = {}, [], [], [0]
        for name, p in module.named_parameters():
            node = p.view_as(p).grad_fn.next_functions[0][0]
            nodes.append(node)
            kinds = [("before", node.register_prehook)] if keeps_prehooks() else []
            for kind, register in (*kinds, ("behind", node.register_hook)):
                def hook(*_, key=(name, kind)):
                    calls[now[0], *key] = calls.get((now[0], *key), 0) + 1
                handles.append(register(hook))
        torch.manual_seed(2)
        for microbatch in range(3):
            now[0] = microbatch
            passes(module, microbatch, torch.randn(2, WIDTH), torch.randn(2, WIDTH))
        for handle in handles:  # and none that is gone
            handle.remove()
        passes(module, 3, torch.ones(2, WIDTH), torch.ones(2, WIDTH))
        return calls, [p.grad for p in module.parameters()]

    def test_hooks_of_nodes_are_called_as_often_as_pytorch_does(self):
        for make in (Tied, lambda: torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Conv1d(2, 2, 1), torch.nn.Tanh())):
            torch.manual_seed(1)
            plain = make()
            split, fused = make(), make()
            for each in (split, fused):
                each.load_state_dict(plain.state_dict())
            stages = {split: Stage(split), fused: Stage(fused, split=False)}

            def in_passes(module, microbatch, x, gradient):
                stage = stages[module]
                stage.forward(microbatch, x)
                if stage.split:
                    stage.backward_input(microbatch, gradient)
                    stage.backward_weight(microbatch)
                else:
                    stage.backward(microbatch, gradient)

            def at_once(module, _, x, gradient):
                module(x.requires_grad_()).backward(gradient)

            right, gradients = self.called(plain, at_once)
            self.assertEqual(set(right.values()), {1})
            for module in (split, fused):
                found, own = self.called(module, in_passes)
                self.assertEqual(found, right)
                for one, other in zip(own, gradients):
                    torch.testing.assert_close(one, other, rtol=0, atol=0)


if __name__ == "__main__":
    unittest.main()
