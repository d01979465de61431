"""Where to cut autograd's graph between B and W.

The *path* is what lies between a stage's output and its input. B runs along it. A *cut node* is a node of the path with
an edge that leads to parameters alone, into a *branch*. B keeps the gradient that arrives at each cut node; W begins
there and never enters the path again. W takes one of three ways from a cut node:
- a kernel (kernels.py), which needs neither node nor graph;
- the engine from the cut node to the parameters behind it, where no other cut node leads to these;
- otherwise the cut node alone. What comes into a branch from several cut nodes is summed in the engine's order (latest
  operation first), before the branch's own nodes run.
Where none of them has autograd's bits, or B and W would both compute what torch.utils.checkpoint left out, the graph is
*fused*: B computes all."""
from collections import Counter

import torch
from torch.autograd.graph import GradientEdge

from .boxes import empty_boxes, has_foreign_boxes
from .hooks import NodeHooks
from .kernels import KERNELS

_LEAF = "torch::autograd::AccumulateGrad"


def walk(roots, entry):
    """The nodes behind some edges, as far as the input's entry, and what tells this graph from others: where it begins, names,
    edges, parameters, and the order of the operations, those that left no trace in it included."""
    first = entry._sequence_nr()
    numbers = {}
    rows = [tuple((numbers.setdefault(root.node, len(numbers)), root.output_nr) for root in roots)]
    nodes = list(numbers)
    for node in nodes:
        if node is entry:
            rows.append(None)
            continue
        edges = node.next_functions
        if not edges:
            name = node.name()
            rows.append(node if name == _LEAF else name)  # a parameter has one such node as long as we hold it
            continue
        row = [node.name(), node._sequence_nr() - first]
        for child, output in edges:
            if child is None:
                row.append(None)
                continue
            number = numbers.get(child)
            if number is None:
                number = numbers[child] = len(nodes)
                nodes.append(child)
            row.append((number, output))
        rows.append(tuple(row))
    return nodes, tuple(rows)


def behind(nodes):
    """These nodes and all behind them."""
    found, stack = set(nodes), list(nodes)
    while stack:
        for child, _ in stack.pop().next_functions:
            if child is not None and child not in found:
                found.add(child)
                stack.append(child)
    return found


class _Cut:
    """A cut node: its number, the outputs at which gradients arrive, its edges into branches, and W's way from it."""

    def __init__(self, number, outputs, edges):
        self.number, self.outputs, self.edges = number, outputs, edges
        self.kernel = None
        self.targets = [(child, output) for _, child, output in edges]
        self.operations = [number] * len(edges)  # from which the targets' gradients come
        self.leaves = None  # where no other cut node leads to the parameters behind it
        self.alone = False  # whether it must be called without the engine
        self.needs = None  # of a custom function: needs_input_grad by instruction


class Plan:
    """What one graph has taught: kept and used by every microbatch whose walk finds the same."""

    def __init__(self, nodes, rows, foreign):
        self.rows = rows[1:]
        self.edges = [row[2:] if isinstance(row, tuple) else () for row in self.rows]
        self.parents = [[] for _ in nodes]
        for number, edges in enumerate(self.edges):
            for edge in filter(None, edges):
                self.parents[edge[0]].append((number, edge[1]))
        self.path = self._before(row is None for row in self.rows)
        self.weights = self._before(not isinstance(row, (str, tuple, type(None))) for row in self.rows)
        self.settled = False
        self.folded = set()  # transpositions that a kernel does by itself
        self.factors, self.shapes, self.facts = [], [], ()  # what kernels were chosen by that no walk tells
        # A part of the output on which no input acts would be a branch without a cut node.
        self.fused = foreign or any(map(self._cannot_split, nodes)) or any(
            number in self.weights and number not in self.path for number, _ in rows[0])
        self.cuts = self._find_cuts(nodes, rows[0])

    def _before(self, marks):
        """Numbers of the marked nodes and of all that lead to them."""
        found = {number for number, mark in enumerate(marks) if mark}
        stack = list(found)
        while stack:
            for parent, _ in self.parents[stack.pop()]:
                if parent not in found:
                    found.add(parent)
                    stack.append(parent)
        return found

    def _behind(self, numbers):
        found = set(numbers)
        stack = list(found)
        while stack:
            for edge in filter(None, self.edges[stack.pop()]):
                if edge[0] not in found:
                    found.add(edge[0])
                    stack.append(edge[0])
        return found

    @staticmethod
    def _cannot_split(node):
        """Operations that are one for autograd, weights and all, and those computed again for each backward."""
        name = node.name()
        return name == "CheckpointFunctionBackward" or name.startswith("CompiledFunction") or has_foreign_boxes(node)

    def _sequence(self, number):
        return self.rows[number][1]

    def _leaf(self, number):
        row = self.rows[number]
        return None if isinstance(row, (str, tuple, type(None))) else row.variable

    def _find_cuts(self, nodes, roots):
        cuts = []
        for number in self.path:
            branches = [(at, *edge) for at, edge in enumerate(self.edges[number])
                        if edge is not None and edge[0] not in self.path and edge[0] in self.weights]
            if branches:
                outputs = {at for _, at in self.parents[number]} | {at for root, at in roots if root == number}
                cuts.append(_Cut(number, sorted(outputs), branches))
        cuts.sort(key=lambda cut: -self._sequence(cut.number))
        for cut in cuts:
            cut.needs = self._needs(nodes[cut.number], {at for at, _, _ in cut.edges})
        return cuts

    @staticmethod
    def _needs(node, branches):
        """needs_input_grad of a custom function by instruction. It is of all arguments, edges are of tensors alone."""
        if not hasattr(node, "needs_input_grad"):
            return None
        edges = iter([at for at, edge in enumerate(node.next_functions) if edge[0] is not None])
        in_branch = [next(edges) in branches if need else None for need in node.needs_input_grad]
        return {"B": tuple(each is False for each in in_branch), "W": tuple(each is True for each in in_branch),
                "BW": node.needs_input_grad}

    def settle(self, nodes, hooked):
        """Chooses W's way from each cut node, after the first B. hooked: numbers of those whose gradient the hook of a
        tensor changes, which the engine alone calls."""
        behind = [self._behind(child for child, _ in cut.targets) for cut in self.cuts]
        owners = Counter(number for each in behind for number in each)
        for at, cut in enumerate(self.cuts):
            older = self._sequence(self.cuts[at + 1].number) if at + 1 < len(self.cuts) else -1
            if cut.number not in hooked:
                self._choose_kernel(nodes, cut, older)
            if cut.kernel is None:
                if all(owners[number] == 1 for number in behind[at]):
                    cut.leaves = [leaf for number in behind[at] if (leaf := self._leaf(number)) is not None]
                else:
                    further = {edge[0] for edge in filter(None, self.edges[cut.number]) if edge[0] in self.path}
                    # The engine would also add up at once what comes by two edges of the node.
                    cut.alone = (not self._behind(further).isdisjoint(child for child, _ in cut.targets)
                                 or len(set(cut.targets)) < len(cut.targets))
        self.factors = [(cut.number, name) for cut in self.cuts if cut.kernel for name in cut.kernel.factors]
        self.shapes = [(child, output) for cut in self.cuts if cut.kernel for at, child, output in cut.edges
                       if at in cut.kernel.shaped() and self._leaf(child) is None]
        self.facts = self.look(nodes)
        self.fused |= any(cut.alone and cut.number in hooked for cut in self.cuts)
        self._find_sums(behind)
        self.with_graph = any(cut.kernel is None for cut in self.cuts)
        # Nodes that W needs: cut nodes without a kernel, and where gradients go from cut nodes.
        self.begin = {cut.number for cut in self.cuts if cut.kernel is None} | {
            child for cut in self.cuts if cut.leaves is None for child, _ in cut.targets
            if cut.kernel is None or child not in self.single}
        self.settled = True

    def look(self, nodes):
        """What must be as in `facts` where this plan is to hold."""
        return (*[getattr(nodes[number], name) for number, name in self.factors],
                *[tuple(nodes[child]._input_metadata[output].shape) for child, output in self.shapes])

    def _choose_kernel(self, nodes, cut, older):
        node = nodes[cut.number]
        kernel = KERNELS.get(node.name())
        if kernel is None or cut.outputs != [0]:
            return
        kind = node._input_metadata[0].dtype
        shapes = {}
        for at, child, output in cut.edges:
            leaf = self._leaf(child)
            target = nodes[child]._input_metadata[output] if leaf is None else leaf
            if target.dtype != kind or type(leaf) not in (type(None), torch.Tensor, torch.nn.Parameter):
                return
            shapes[at] = torch.Size(target.shape)
        cut.kernel = kernel.make(node, shapes)
        if cut.kernel is not None and getattr(cut.kernel, "transposed", False):
            # Linear's transposed weight, unless another operation's turn would come before the transposition's.
            for n, (at, child, _) in enumerate(cut.edges):
                if (at == cut.kernel.second and nodes[child].name() == "TBackward0" and len(self.parents[child]) == 1
                        and self._sequence(child) > older):
                    cut.kernel.straight = True
                    cut.targets[n], cut.operations[n] = self.edges[child][0], child
                    self.folded.add(child)

    def _find_sums(self, behind):
        """Parameters that a single gradient reaches, with the hooks of their nodes, and whether sums have autograd's order: in W, what comes from cut
        nodes is summed before what comes from nodes inside branches."""
        direct, inside = {}, set()
        for cut, each in zip(self.cuts, behind):
            if cut.leaves is None:
                inside |= each
                for (child, _), operation in zip(cut.targets, cut.operations):
                    direct.setdefault(child, []).append(self._sequence(operation))
        self.single = {}
        for child, sequences in direct.items():
            later = [self._sequence(parent) for parent, _ in self.parents[child] if parent in inside - self.folded]
            if len(sequences) == 1 and not later and (leaf := self._leaf(child)) is not None:
                self.single[child] = leaf, NodeHooks(self.rows[child])
            if later and len(sequences) + len(later) > 2 and max(later) > min(sequences):
                self.fused = True

    def all_leaves(self):
        return [leaf for number in self.weights if (leaf := self._leaf(number)) is not None]

    def watch(self, nodes):
        """Prehooks on the cut nodes, which see gradients behind the hooks of tensors; captures are before these."""
        seen = {}

        def watcher(number):
            return lambda gradients: seen.__setitem__(number, gradients)

        return seen, [nodes[cut.number].register_prehook(watcher(cut.number)) for cut in self.cuts]

    def hooked(self, seen, arrived):
        arrived = iter(arrived)
        captured = {cut.number: [next(arrived) for _ in cut.outputs] for cut in self.cuts}
        return {cut.number for cut in self.cuts if cut.number in seen
                and any(seen[cut.number][output] is not gradient
                        for output, gradient in zip(cut.outputs, captured[cut.number]))}

    def empty_boxes(self, nodes):
        """When B has ended: what nodes of the path have saved that W does not need."""
        for number in self.path - self.begin:
            empty_boxes(nodes[number])

    def captures(self, nodes):
        """Edges whose gradients B keeps, cut by cut."""
        return [GradientEdge(nodes[cut.number], output) for cut in self.cuts for output in cut.outputs]

    def narrow(self, nodes, instruction):
        """Tells custom functions at cut nodes which gradients B, W or BW wants."""
        for cut in self.cuts:
            if cut.needs is not None:  # these have no kernel
                nodes[cut.number].needs_input_grad = cut.needs[instruction]
