"""W: from what B kept to the parameters' gradients."""
import torch
from torch.autograd.graph import GradientEdge


def accumulate(leaf, gradient, hooks):
    """Adds a new tensor to a parameter's gradient, as its AccumulateGrad node does, which has `hooks`."""
    if hooks or leaf._backward_hooks or leaf._post_accumulate_grad_hooks:
        torch.autograd.backward(leaf, gradient)
    elif leaf.grad is not None:
        leaf.grad.add_(gradient)
    elif leaf.stride() == gradient.stride():
        leaf.grad = gradient
    else:
        torch.autograd.backward(leaf, gradient)


def _version(value):
    return value._version if isinstance(value, torch.Tensor) else None


class Kept:
    """What W of one microbatch needs: gradients at cut nodes, kernels' tensors, nodes where the engine begins."""

    def __init__(self, plan, nodes):
        self.plan, self.gradients = plan, None  # gradients: of the cut nodes' outputs, once B has run
        self.tensors = [[each.detach() if isinstance(each, torch.Tensor) else each
                         for each in cut.kernel.keep(nodes[cut.number])] if cut.kernel else None for cut in plan.cuts]
        self.versions = [tensors and [*map(_version, tensors)] for tensors in self.tensors]
        self.nodes = {number: nodes[number] for number in plan.begin}
        self.owner = None  # of the graph, where the nodes do not keep it

    def all_tensors(self):
        """Those outside the graph."""
        return (self.gradients or []) + [each for tensors in self.tensors if tensors for each in tensors]

    @torch.no_grad()
    def compute_weights(self):
        """W. Gradients are added to the parameters'; what was kept is gone afterwards."""
        plan, sums = self.plan, {}
        gradients, self.gradients = self.gradients[::-1], None  # each goes as soon as it has been used
        plan.narrow(self.nodes, "W")
        for at, cut in enumerate(plan.cuts):
            arrived = [gradients.pop() for _ in cut.outputs]
            if all(each is None for each in arrived):
                continue
            if cut.kernel is not None:
                if [*map(_version, self.tensors[at])] != self.versions[at]:
                    raise RuntimeError("a tensor that W needs has been changed in place since B")
                found = cut.kernel.gradients(arrived[0], self.tensors[at])
            else:
                found = self._from_node(cut, arrived)
            self.tensors[at] = None
            for target, gradient in zip(cut.targets, found):
                if gradient is None:
                    continue
                leaf, hooks = plan.single.get(target[0], (None, None))
                if leaf is None:
                    sums[target] = sums[target] + gradient if target in sums else gradient
                elif cut.kernel is not None:
                    accumulate(leaf, gradient, hooks)
                else:  # may be no new tensor
                    torch.autograd.backward(leaf, gradient)
        if sums:
            torch.autograd.backward([self._edge(target) for target in sums], list(sums.values()))
        self.nodes = self.owner = None

    def _edge(self, target):
        return GradientEdge(self.nodes[target[0]], target[1])

    def _from_node(self, cut, arrived):
        """Gradients of a cut node's targets; none where the engine has added them to the parameters'."""
        node = self.nodes[cut.number]
        if cut.alone:
            return self._from_node_alone(node, cut, arrived)
        given = [(GradientEdge(node, output), gradient) for output, gradient in zip(cut.outputs, arrived)
                 if gradient is not None]
        if cut.leaves is None:
            edges, gradients = zip(*given)
            targets = [self._edge(target) for target in cut.targets]
            return torch.autograd.grad(edges, targets, gradients, allow_unused=True)
        torch.autograd.backward(*zip(*given), inputs=cut.leaves)
        return ()

    def _from_node_alone(self, node, cut, arrived):
        """Where the engine would go on along the path to the same parameters. Called by itself the node computes its
        input's gradient again, unless it is a custom function that looks at needs_input_grad."""
        arguments = [None] * len(node._input_metadata)
        for output, gradient in zip(cut.outputs, arrived):
            arguments[output] = gradient
        if cut.needs is None:
            found = node(*arguments)
            found = [found[at] for at, _, _ in cut.edges]
        else:
            arguments = [torch.zeros(data.shape, dtype=data.dtype, device=data.device) if gradient is None else gradient
                         for gradient, data in zip(arguments, node._input_metadata)]
            found = node.apply(*arguments)
            found = found if isinstance(found, tuple) else (found,)
            found = [gradient for gradient, need in zip(found, cut.needs["W"]) if need]
        for target, gradient in zip(cut.targets, found):
            data = self.nodes[target[0]]._input_metadata[target[1]]
            yield None if gradient is None else gradient.sum_to_size(torch.Size(data.shape)).to(data.dtype)
