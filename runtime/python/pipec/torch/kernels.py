"""Weights' gradients of the commonest operations without autograd: each calls the kernels that autograd's own formula
(tools/autograd/derivatives.yaml in PyTorch) calls, with the operands in its order, so that the bits are the same. What
is kept for them are single tensors; the graph goes when B ends.

A kernel is made by make(node, edges), edges being those of the node that lead to parameters, with the shape that each
gradient is summed to. It is None where the formula does not hold. keep(node) takes what the node has saved;
gradients(gradient, kept) gives new tensors, one an edge."""
import torch

_aten = torch.ops.aten


def _summed(gradient, shape):
    # sum_to_size is what the engine does; it hands the gradient itself back where the shape is right.
    return gradient.clone() if gradient.shape == shape else gradient.sum_to_size(shape)


class _Kernel:
    factors = ()  # what the node has saved that is 1, or the kernel is another's

    def __init__(self, edges):
        self.edges = edges  # number: shape

    def shaped(self):
        """The edges whose gradients are summed to their shapes."""
        return ()

    def keep(self, node):
        return ()


class _Matmul(_Kernel):
    """mm and addmm whose second factor is a weight, transposed as in Linear or as it is."""

    bias, first, second, saved = None, 0, 1, "_saved_self"

    @classmethod
    def make(cls, node, edges):
        if cls.first in edges or node._input_metadata[0].dtype.is_complex:
            return None
        return cls(edges, node)

    def __init__(self, edges, node):
        super().__init__(edges)
        self.transposed = self.second in edges and node._saved_mat2_sym_strides == (1, node._saved_mat2_sym_sizes[0])
        self.straight = False  # whether the gradient of the weight itself is wanted, before it was transposed

    def shaped(self):
        return {self.bias} & self.edges.keys()

    def keep(self, node):
        return (getattr(node, self.saved),) if self.second in self.edges else ()

    def gradients(self, gradient, kept):
        for number, shape in self.edges.items():
            if number == self.bias:
                yield _summed(gradient, shape)
            elif self.transposed:
                found = gradient.t().mm(kept[0])
                yield found if self.straight else found.t()
            else:
                yield kept[0].t().mm(gradient)


class _Addmm(_Matmul):
    bias, first, second, saved = 0, 1, 2, "_saved_mat1"
    factors = ("_saved_alpha", "_saved_beta")

    @classmethod
    def make(cls, node, edges):
        return super().make(node, edges) if node._saved_alpha == 1 and node._saved_beta == 1 else None


class _LayerNorm(_Kernel):
    @classmethod
    def make(cls, node, edges):
        return None if 0 in edges else cls(edges)

    def keep(self, node):
        return (node._saved_input, node._saved_normalized_shape, node._saved_result1, node._saved_result2,
                node._saved_weight, node._saved_bias)

    def gradients(self, gradient, kept):
        found = _aten.native_layer_norm_backward(gradient, *kept, [False, 1 in self.edges, 2 in self.edges])
        return [found[number] for number in self.edges]


class _Convolution(_Kernel):
    @classmethod
    def make(cls, node, edges):
        return None if 0 in edges else cls(edges)

    def keep(self, node):
        return (node._saved_input, node._saved_weight, node._saved_bias_sym_sizes_opt, node._saved_stride,
                node._saved_padding, node._saved_dilation, node._saved_transposed, node._saved_output_padding,
                node._saved_groups)

    def gradients(self, gradient, kept):
        found = _aten.convolution_backward(gradient, *kept, [False, 1 in self.edges, 2 in self.edges])
        return [found[number] for number in self.edges]


class _Add(_Kernel):
    factors = ("_saved_alpha",)

    @classmethod
    def make(cls, node, edges):
        return cls(edges) if node._saved_alpha == 1 else None

    def shaped(self):
        return self.edges.keys()

    def gradients(self, gradient, kept):
        return [_summed(gradient, shape) for shape in self.edges.values()]


class _Mul(_Kernel):
    @classmethod
    def make(cls, node, edges):
        return None if node._input_metadata[0].dtype.is_complex else cls(edges)

    def shaped(self):
        return self.edges.keys()

    def keep(self, node):
        return [node._saved_other if number == 0 else node._saved_self for number in self.edges]

    def gradients(self, gradient, kept):
        for shape, other in zip(self.edges.values(), kept):
            yield (gradient * other).sum_to_size(shape)


KERNELS = {"AddmmBackward0": _Addmm, "MmBackward0": _Matmul, "NativeLayerNormBackward0": _LayerNorm,
           "ConvolutionBackward0": _Convolution, "AddBackward0": _Add, "MulBackward0": _Mul}
