"""Random numbers of a microbatch: the same whenever and wherever it is computed, so that R draws what F drew."""
import random
import sys

import torch

_MASK = (1 << 64) - 1


def _mix(value):
    """splitmix64's next number (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def hashed(seed, step, stage, microbatch):
    """64 bits of four integers."""
    value = 0
    for each in (seed, step, stage, microbatch):
        value = _mix(value ^ (each & _MASK))
    return value


def _generators():
    # Not torch.manual_seed: it takes 75 us, and starts devices that nobody uses.
    if torch.cuda.is_initialized():
        return (torch.default_generator, *torch.cuda.default_generators)
    return (torch.default_generator,)


def states():
    """Of the generators that are in use."""
    return [(generator, generator.get_state()) for generator in _generators()]


def restore(kept):
    for generator, state in kept:
        generator.set_state(state)


class Again:
    """with again: Python's and NumPy's own generators, which reseed leaves alone, draw what they drew from here on; afterwards
    they go on as if they had not."""

    __slots__ = ("_states",)

    def __init__(self):
        self._states = self._found()

    @staticmethod
    def _found():
        numpy = getattr(sys.modules.get("numpy"), "random", None)
        return random.getstate(), numpy and numpy.get_state()

    @staticmethod
    def _put(states):
        random.setstate(states[0])
        if states[1]:
            sys.modules["numpy"].random.set_state(states[1])

    def __enter__(self):
        states, self._states = self._states, self._found()
        self._put(states)

    def __exit__(self, *_):
        self._put(self._states)


def reseed(seed, step, stage, microbatch):
    """Seeds the generators of the CPU and, where CUDA is in use, of its devices, as a Stage does before F and R. A
    plain loop that calls it before each stage's forward draws the same numbers."""
    value = hashed(seed, step, stage, microbatch)
    for generator in _generators():
        generator.manual_seed(value)


class Seeded:
    """with Seeded(seed, step, stage, microbatch): as reseed; afterwards the program's own random state is back."""

    __slots__ = ("numbers", "before")

    def __init__(self, *numbers):
        self.numbers = numbers

    def __enter__(self):
        self.before = states()
        reseed(*self.numbers)

    def __exit__(self, *_):
        restore(self.before)
