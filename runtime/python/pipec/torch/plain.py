"""Plain values as JSON, with their tensors apart: what a checkpoint keeps of states. Nothing that is read runs code."""
import torch

from ..errors import SpecError

_KINDS = "None, bool, int, float, str, bytes, tuple, list, dict"


def pack(value, tensors, where):
    """What JSON can hold of a value. Its tensors go to `tensors`, each under its path. where: the path of the value. Raises
    SpecError for what is neither a tensor nor plain."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return float(value) if isinstance(value, float) else int(value)
    if isinstance(value, torch.Tensor):
        name = where
        while name in tensors:  # keys 1 and "1"
            name += "'"
        tensors[name] = value.detach()
        return {"tensor": name}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, (tuple, list)):
        parts = [pack(each, tensors, f"{where}/{n}") for n, each in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    if isinstance(value, dict):
        return {"dict": [[pack(key, tensors, f"{where}/key"), pack(each, tensors, f"{where}/{key}")] for key, each in value.items()]}
    kind = type(value)
    raise SpecError(f"{where} is a {kind.__module__}.{kind.__qualname__}, and a checkpoint keeps tensors and plain values alone "
                    f"({_KINDS}): let its state_dict give these")


def unpack(packed, tensors):
    """The value again. Tuples, lists and dicts come back as such, whatever subclass they were of."""
    if not isinstance(packed, dict):
        return packed
    (kind, value), = packed.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "dict":
        return {unpack(key, tensors): unpack(each, tensors) for key, each in value}
    parts = [unpack(each, tensors) for each in value]
    return tuple(parts) if kind == "tuple" else parts
