"""Buffers that F changes (batch norm's statistics, spectral norm's vectors), for R: it finds in them what F found, and
leaves them as later Fs have made them."""
import torch

_SMALL = 1 << 16  # bytes: these are copied before each F, since PyTorch does not say when batch norm changes its own


class Buffers:
    """Those of some modules; what is no module is left out."""

    def __init__(self, *modules):
        self.modules = [module for module in modules if isinstance(module, torch.nn.Module)]
        self.changing = None  # large ones that an F has changed; None before the first

    def __iter__(self):
        for module in self.modules:
            for owner in module.modules():
                for name, buffer in owner._buffers.items():
                    if buffer is not None:
                        yield owner, name, buffer

    def look(self):
        """Before F: what learn() asks for, and copies by owner and name."""
        seen = [(owner, name, buffer, buffer._version) for owner, name, buffer in self]
        made, copies = {}, {}  # one that several modules share has one copy
        for owner, name, buffer, _ in seen:
            if self.changing is None or buffer.nbytes <= _SMALL or (owner, name) in self.changing:
                if id(buffer) not in made:
                    made[id(buffer)] = buffer.detach().clone()
                copies[owner, name] = made[id(buffer)]
        return seen, copies

    def learn(self, seen, copies):
        """After F: drops copies that nobody needs; gives the name of a buffer that changed without a copy, or None."""
        first, missed = self.changing is None, None
        if first:
            self.changing = set()
        for owner, name, buffer, version in seen:
            if owner._buffers.get(name) is not buffer or buffer._version != version:
                self.changing.add((owner, name))
                if (owner, name) not in copies:
                    missed = name
            elif first and buffer.nbytes > _SMALL:
                del copies[owner, name]
        return missed

    @staticmethod
    def swap(buffers):
        """Puts these in, gives those that were there."""
        found = {(owner, name): owner._buffers[name] for owner, name in buffers}
        for (owner, name), buffer in buffers.items():
            owner._buffers[name] = buffer
        return found
