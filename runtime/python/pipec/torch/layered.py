"""A stage of several modules, each as a stage of its own: where passes come in parts, layer by layer, and where a part of the
stage has no B. Random numbers go on from one to the next, as if the stage were one module."""
import torch

from .keywords import has_hooks
from .random import reseed, restore, states
from .split import UNREACHED, Stage
from .trees import tensors_of


class _Continued:
    """The generators as the layer before left them in this microbatch, or, at the first one, seeded."""

    def __init__(self, left, key, first, numbers):
        self._left, self._key, self._first, self._numbers = left, key, first, numbers

    def __enter__(self):
        self._before = states()
        if self._first:
            reseed(*self._numbers)
        else:
            restore(self._left[self._key])

    def __exit__(self, *_):
        self._left[self._key] = states()
        restore(self._before)


class _Layer(Stage):
    def __init__(self, module, left, first, **options):
        super().__init__(module, **options)
        self._left, self._is_first = left, first

    def _seeded(self, step, microbatch):
        return _Continued(self._left, microbatch, self._is_first, (self.seed, step, self.number, microbatch))


def first_stage(module, **options):
    """The first stage with a split backward: nobody wants its input's gradient, so all backward of its first layer is W's. B
    goes through the others and frees what they alone need, as that of any stage."""
    if not _is_plain(module) or len(module) < 2 or _share(module[:1], module[1:]):
        return Stage(module, **options)
    return LayeredStage([module[:1], module[1:]], **options)


def _is_plain(module):
    """Whether calling it is no more than calling its layers."""
    return type(module) is torch.nn.Sequential and not has_hooks(module)


def _share(one, other):
    """Whether they have a parameter in common, whose gradients autograd sums before it adds them."""
    return not {id(p) for p in one.parameters()}.isdisjoint(id(p) for p in other.parameters())


class LayeredStage:
    """As Stage, of a Sequential; a pass is of `layers` layers from `first` on (0: all). Between parts it keeps what one layer
    hands to the next."""

    def __init__(self, module, *, number, loss, seed, wants_gradient, split, checks=None, scale=None):
        left = {}
        last = len(module) - 1
        self._layers = [_Layer(layer, left, n == 0, number=number, loss=loss if n == last else None, seed=seed,
                               wants_gradient=wants_gradient or n > 0, split=split, checks=checks,
                               scale=scale) for n, layer in enumerate(module)]
        self._forwards, self._gradients, self._wants_gradient = {}, {}, wants_gradient

    @property
    def count(self):
        """As a stage's."""
        return self._layers[-1].count

    def _range(self, first, layers):
        return range(first, first + layers if layers else len(self._layers))

    def forward(self, microbatch, x, *, step=0, target=None, keep=True, keywords=None, first=0, layers=0):
        """The stage's output, or None where it is not there yet."""
        part = self._range(first, layers)
        if first > 0:
            x = self._forwards.pop(microbatch)
        for n in part:
            if keep:
                self._want(n, microbatch)
            x = self._layers[n].forward(microbatch, x, step=step, keep=keep, keywords=keywords,
                                        target=target if n == len(self._layers) - 1 else None)
            if n > 0 and not keep:
                self._layers[n].drop_input(microbatch)
        if part.stop == len(self._layers):
            return x
        self._forwards[microbatch] = x
        return None

    def evaluate(self, microbatch, x, *, step=0, target=None, with_loss=True, keywords=None, first=0, layers=0):
        """As a stage's; None where the output is not there yet."""
        part = self._range(first, layers)
        if first > 0:
            x = self._forwards.pop(microbatch)
        for n in part:
            x = self._layers[n].evaluate(microbatch, x, step=step, with_loss=with_loss, keywords=keywords,
                                         target=target if n == len(self._layers) - 1 else None)
        if part.stop == len(self._layers):
            return x
        self._forwards[microbatch] = x
        return None

    def recompute(self, microbatch, first=0, layers=0):
        part = self._range(first, layers)
        x = self._forwards.pop(microbatch) if first > 0 else None
        for n in part:
            self._want(n, microbatch)
            x = self._layers[n].recompute(microbatch, x)
        if part.stop < len(self._layers):
            self._forwards[microbatch] = x

    def _want(self, n, microbatch):
        """A layer's input wants a gradient where what gave it is trained."""
        if n > 0 and not self._wants_gradient:
            self._layers[n].wants_gradient = self._layers[n - 1].needs_gradient(microbatch)

    def _back(self, which, microbatch, gradient, first, layers):
        part = self._range(first, layers)
        if part.stop < len(self._layers):
            gradient = self._gradients.pop(microbatch)
        for n in reversed(part):
            gradient = getattr(self._layers[n], which)(microbatch, gradient)
            if gradient is None and n > 0:
                gradient = UNREACHED
        if first > 0:
            self._gradients[microbatch] = gradient
        return gradient

    def backward_input(self, microbatch, gradient=None, first=0, layers=0):
        return self._back("backward_input", microbatch, gradient, first, layers)

    def backward_weight(self, microbatch, first=0, layers=0):
        for n in self._range(first, layers):
            self._layers[n].backward_weight(microbatch)

    def backward(self, microbatch, gradient=None, first=0, layers=0):
        return self._back("backward", microbatch, gradient, first, layers)

    def needs_gradient(self, microbatch):
        """As a stage's."""
        return self._layers[-1].needs_gradient(microbatch)

    def held(self):
        """As a stage's: what several layers hold counts once, and so does what waits between them."""
        storages = {}
        for layer in self._layers:
            storages.update(layer.storages())
        for value in (*self._forwards.values(), *self._gradients.values()):
            for tensor in tensors_of(value):
                storage = tensor.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
        return sum(storages.values())
