"""A stage whose passes come in parts: layer by layer, each as a stage of its own. Random numbers go on from a layer to the
next, as if the stage were one module."""
import torch

from .random import reseed
from .split import Stage


class _Continued:
    """The generators as the layer before left them in this microbatch, or, at the first one, seeded."""

    def __init__(self, states, key, first, numbers):
        self._states, self._key, self._first, self._numbers = states, key, first, numbers

    def __enter__(self):
        self._before = torch.get_rng_state()
        if self._first:
            reseed(*self._numbers)
        else:
            torch.set_rng_state(self._states[self._key])

    def __exit__(self, *_):
        self._states[self._key] = torch.get_rng_state()
        torch.set_rng_state(self._before)


class _Layer(Stage):
    def __init__(self, module, states, first, **options):
        super().__init__(module, **options)
        self._states, self._is_first = states, first

    def _seeded(self, step, microbatch):
        return _Continued(self._states, microbatch, self._is_first, (self.seed, step, self.number, microbatch))


class LayeredStage:
    """As Stage, of a Sequential; a pass is of `layers` layers from `first` on (0: all). Between parts it keeps what one layer
    hands to the next."""

    def __init__(self, module, *, number, loss, seed, wants_gradient, split):
        states = {}
        last = len(module) - 1
        self._layers = [_Layer(layer, states, n == 0, number=number, loss=loss if n == last else None, seed=seed,
                               wants_gradient=wants_gradient or n > 0, split=split) for n, layer in enumerate(module)]
        self._forwards, self._gradients = {}, {}

    def _range(self, first, layers):
        return range(first, first + layers if layers else len(self._layers))

    def forward(self, microbatch, x, *, step=0, target=None, keep=True, first=0, layers=0):
        """The stage's output, or None where it is not there yet."""
        part = self._range(first, layers)
        if first > 0:
            x = self._forwards.pop(microbatch)
        for n in part:
            x = self._layers[n].forward(microbatch, x, step=step, keep=keep,
                                        target=target if n == len(self._layers) - 1 else None)
        if part.stop == len(self._layers):
            return x
        self._forwards[microbatch] = x
        return None

    def recompute(self, microbatch, first=0, layers=0):
        for n in self._range(first, layers):
            self._layers[n].recompute(microbatch)

    def _back(self, which, microbatch, gradient, first, layers):
        part = self._range(first, layers)
        if part.stop < len(self._layers):
            gradient = self._gradients.pop(microbatch)
        for n in reversed(part):
            gradient = getattr(self._layers[n], which)(microbatch, gradient)
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

    def held(self):
        return sum(layer.held() for layer in self._layers)
