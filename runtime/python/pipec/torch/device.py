"""What differs between a run on the host and one on a GPU: where slots lie, in which order work runs, how numbers go to and
from the runtime. Not run on a GPU yet.

On a GPU all that Python computes runs on the program's current stream, in the order of issue, between two events: it waits
for the instruction's stream, which waits for it. So the program's own work before, between and after steps is in order with
it, and PyTorch's allocator sees one stream."""
import ctypes
import math
import os

import torch

from ..errors import SpecError
from ..plan import local_rank


def prepare():
    """Sets, unless the program has, how many streams of this process a GPU takes work from at once: the 32 that the runtime
    needs so that a stream that waits holds up no other. The driver reads it when CUDA starts; what started without has 8."""
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "8" if torch.cuda.is_initialized() else "32")


def device_of(modules, world_rank):
    """The device on which all tensors of {stage: module} are; the host where there are none."""
    found = None
    for stage, module in modules.items():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            here = (tensor.device, f"stage {stage}'s {name}")
            found = found or here
            if here[0] != found[0]:
                raise SpecError(f"{found[1]} is on {found[0]}, {here[1]} on {here[0]}: move all modules of a rank to one device")
    kind = found[0].type if found else "cpu"
    if kind == "cpu":
        return Host()
    if kind == "cuda":
        return Gpu(found[0].index, world_rank)
    way = "give them memory (to_empty) and weights" if kind == "meta" else "move the modules there"
    raise SpecError(f"{found[1]} is on {found[0]}: a run is on the CPU or on CUDA; {way}")


class Host:
    name = b"host"
    device = torch.device("cpu")
    is_behind = False  # whether what is asked for runs later

    def slot(self, address, size):
        """The bytes at an address of the runtime's."""
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        return torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8)

    def in_order(self, work):
        """A function of an instruction, as it is to be called."""
        return work

    def tell(self, what, result, total):
        """NORM's number, a tensor of one double; None: 0."""
        result.number = 0.0 if total is None else float(total)

    def factor(self, what, most):
        """CLIP's, with which gradients are multiplied so that their norm is `most` at most; None: they stay."""
        return self.factor_of(what.number, most)

    @staticmethod
    def factor_of(total, most):
        factor = most / (math.sqrt(total) + 1e-6)
        return factor if factor < 1 else None

    def random_state(self):
        """Of the device's own generator."""
        return None

    def set_random_state(self, state):
        pass


class _Memory:
    """Device memory that is not PyTorch's, as PyTorch takes it."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (address, False),
                                         "strides": None}


class Gpu:
    name = b"cuda"
    is_behind = True

    def __init__(self, index, world_rank):
        own = local_rank(world_rank) % (torch.cuda.device_count() or 1)
        if index != own:
            raise SpecError(f"the modules are on cuda:{index}, this process's GPU is cuda:{own} (LOCAL_RANK, modulo the GPUs that "
                            f"are visible): move them there")
        self.device = torch.device("cuda", index)
        self._streams = {}

    def slot(self, address, size):
        if not size:
            return torch.empty(0, dtype=torch.uint8, device=self.device)
        return torch.as_tensor(_Memory(address, size), device=self.device)

    def in_order(self, work):
        def ordered(what):
            if not what.stream:  # a state is saved or loaded: all has run
                return work(what)
            stream = self._streams.get(what.stream)
            if stream is None:
                stream = self._streams[what.stream] = torch.cuda.ExternalStream(what.stream, device=self.device)
            own = torch.cuda.current_stream(self.device)
            own.wait_stream(stream)
            try:
                work(what)
            finally:
                stream.wait_stream(own)
        return ordered

    def tell(self, what, result, total):
        slot = self.slot(what.output, 8).view(torch.float64)
        slot.zero_() if total is None else slot.copy_(total.reshape(1))

    def factor(self, what, most):
        return self.factor_of(self.slot(what.input, 8).view(torch.float64)[0], most)

    @staticmethod
    def factor_of(total, most):
        """Nothing waits for the number: where gradients stay it is 1."""
        return (most / (total.sqrt() + 1e-6)).clamp(max=1.0)

    def random_state(self):
        return torch.cuda.get_rng_state(self.device)

    def set_random_state(self, state):
        torch.cuda.set_rng_state(state, self.device)
