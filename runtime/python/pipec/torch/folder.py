"""The folder of one checkpoint: safetensors files, an index of the model's, and a manifest that names all with their hashes.
Ranks write to a folder whose name ends with .partial; the one that renames it makes the checkpoint."""
import errno
import hashlib
import json
import os
import pathlib
import re
import shutil
import stat

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ..errors import SpecError
from .plain import pack, unpack

_FORMAT = 3  # of a manifest; 1 and 2 are piperun's
_NAME = re.compile(r"(state/)?[a-z][a-z0-9.-]*")
_STEP = re.compile(r"step-(\d+)")
_MANIFEST, _INDEX = "manifest.json", "model.safetensors.index.json"


def _sync(path):
    """Makes a file's content, or a folder's names, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _hash(path):
    found = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while part := file.read(1 << 22):
            found.update(part)
    return found.hexdigest()


def _regular(path):
    """The path of a file that is one: neither a link, nor what would hold up who opens it."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(errno.EINVAL, "is no regular file")
    return path


def _write_text(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    _sync(path)


def _partial(path):
    return path.with_name(path.name + ".partial")


def remove(path):
    """Removes a checkpoint. Killed meanwhile it leaves nothing that looks whole."""
    if path.exists():
        path.rename(_partial(path))
    shutil.rmtree(_partial(path), ignore_errors=True)


def steps(folder):
    """[(step, path)] of the checkpoints in a run's folder, ascending."""
    found = [(_STEP.fullmatch(each.name), each) for each in pathlib.Path(folder).iterdir() if each.is_dir()]
    return sorted((int(match[1]), each) for match, each in found if match)


def is_complete(path):
    """Whether a step's folder has all that it is to have."""
    return (pathlib.Path(path) / _MANIFEST).exists()


class Content:
    """What a file is to have: tensors by name, and a plain value, which may have tensors too."""

    def __init__(self, tensors, value=None, where=""):
        self.tensors = dict(tensors)
        packed = pack(value, self.tensors, where)
        self._about = {"format": "pt", **({} if value is None else {"pipec": json.dumps(packed)})}

    def copy(self, memory):
        """From now on of `memory`, {name: tensor}, which it fills and may have from a checkpoint before: new memory is slow."""
        for name, tensor in self.tensors.items():
            own = memory.get(name)
            if own is None or (own.shape, own.dtype) != (tensor.shape, tensor.dtype):
                own = memory[name] = torch.empty(tensor.shape, dtype=tensor.dtype)
            self.tensors[name] = own.copy_(tensor.detach())

    def write(self, path):
        """Gives {"bytes", "hash"} of the file."""
        seen, tensors = set(), {}
        for name, tensor in self.tensors.items():
            tensor = tensor.detach().cpu().contiguous()
            if tensor.untyped_storage().data_ptr() in seen:  # a file has no memory in common
                tensor = tensor.clone()
            seen.add(tensor.untyped_storage().data_ptr())
            tensors[name] = tensor
        path.unlink(missing_ok=True)  # it may be a link
        save_file(tensors, path, self._about)
        _sync(path)
        return {"bytes": path.stat().st_size, "hash": _hash(path)}


class Writer:
    """Of a rank's part of a checkpoint. path: as the checkpoint will be called. units: what the part has of layers, for the
    manifest."""

    def __init__(self, path, process, units, contents):
        self.path, self._process, self._units, self._contents = pathlib.Path(path), process, units, contents

    def copy(self, memory):
        """Into memory of their own, {file: {name: tensor}}."""
        for name, content in self._contents.items():
            content.copy(memory.setdefault(name, {}))

    def write(self):
        folder = _partial(self.path)
        (folder / "state").mkdir(parents=True, exist_ok=True)
        files = {name: content.write(folder / name) for name, content in self._contents.items()}
        self._contents = {}
        part, text = folder / f"part-{self._process}.json", json.dumps({"units": self._units, "files": files})
        begun = part.with_suffix(".begun")
        begun.write_text(text, encoding="utf-8")
        begun.rename(part)  # whoever sees the name sees all of the text


def is_written(path, world):
    """Whether all processes have written their part."""
    folder = _partial(pathlib.Path(path))
    there = set(os.listdir(folder)) if folder.exists() else set()
    return all(f"part-{process}.json" in there for process in range(world))


def complete(path, world, facts):
    """Makes a checkpoint of the parts. facts: what else the manifest says."""
    path = pathlib.Path(path)
    folder, units, files = _partial(path), {}, {}
    parts = [folder / f"part-{process}.json" for process in range(world)]
    for process, each in enumerate(parts):
        part = json.loads(each.read_text(encoding="utf-8"))
        files.update(part["files"])
        for unit in part["units"]:
            known = units.setdefault(unit["name"], unit)
            if known is not unit:  # replicas
                known["optimizer"] = sorted({*known["optimizer"], *unit["optimizer"]})
                known["buffers"].update(unit["buffers"])
                for key in ("weights", "gradients", "names"):
                    known[key] = known[key] or unit[key]
        for name, file in part["files"].items():
            if not (folder / name).exists() or (folder / name).stat().st_size != file["bytes"]:
                raise SpecError(f"{folder / name}: rank {process} has written this file, and rank 0 does not see it so: let "
                                "checkpoint be a folder that all ranks have in common")
    ordered = sorted(units.values(), key=lambda unit: unit["first"])
    weight_map = {}
    for unit in ordered:
        for name in (unit["names"] or ()) if unit["layers"] else ():  # none: another pipeline of the mesh has them
            if (other := weight_map.setdefault(name, unit["weights"])) != unit["weights"] and not unit["of_model"]:
                raise SpecError(f"names calls two tensors {name}, in {other} and in {unit['weights']}: let each have a name of its own")
    sizes = sum(files[name]["bytes"] for name in set(weight_map.values()))
    _write_text(folder / _INDEX, {"metadata": {"total_size": sizes}, "weight_map": weight_map})
    _write_text(folder / _MANIFEST, {"pipec_checkpoint": _FORMAT, **facts, "world": world, "units": ordered, "files": files})
    for each in parts:
        each.unlink()
    for each in (folder / "state", folder):
        _sync(each)
    folder.rename(path)
    _sync(path.parent)


class Reader:
    """A checkpoint that is there. Raises SpecError where it is not whole."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        manifest = self.path / _MANIFEST
        try:
            self.facts = json.loads(_regular(manifest).read_text(encoding="utf-8"))
            if self.facts["pipec_checkpoint"] != _FORMAT:
                raise SpecError(f"{manifest}: is of format {self.facts['pipec_checkpoint']}, expected {_FORMAT}: read it with the "
                                "version that wrote it")
            self.units = {unit["name"]: unit for unit in self.facts["units"]}
            self._files = {name: (file["bytes"], file["hash"]) for name, file in self.facts["files"].items() if _NAME.fullmatch(name)}
            self.step, self.layers, self.world = (int(self.facts[key]) for key in ("step", "layers", "world"))
        except OSError as error:
            raise SpecError(f"{manifest}: a checkpoint has a manifest, and this one cannot be read: {error.strerror}. Resume from "
                            "another step's folder (remove this one), or begin anew with overwrite") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SpecError(f"{manifest}: is damaged. Resume from another step's folder (remove this one), or begin anew with "
                            "overwrite") from None

    def read(self, name):
        """(tensors by name, the plain value) of a file that the manifest names."""
        path = self.path / name
        try:
            size, hashed = self._files[name]
            found = _regular(path).stat().st_size
            if found != size or _hash(path) != hashed:
                raise SpecError(f"{path}: is not what was saved: it has {found} bytes{'' if found != size else ' of another content'}, "
                                f"the manifest says {size}. Resume from another step's folder (remove this one)")
            with safe_open(path, framework="pt") as file:
                tensors, about = {each: file.get_tensor(each) for each in file.keys()}, file.metadata() or {}
            value = unpack(json.loads(about["pipec"]), tensors) if "pipec" in about else None
        except OSError as error:
            raise SpecError(f"{path}: the manifest names this file, which cannot be read: {error.strerror}. Resume from another step's "
                            "folder (remove this one)") from None
        except (KeyError, ValueError, SafetensorError) as error:
            raise SpecError(f"{path}: is not of a checkpoint of pipec.torch: {type(error).__name__}: {error}") from None
        return tensors, value


def whole(folder):
    """The weights and buffers of the whole model, {name: tensor}, as in a state_dict.

    Args:
        folder: a run's folder of checkpoints, of which the last one is read, or the folder of one step.

    Raises SpecError where there is no whole checkpoint.

    Example:
        model.load_state_dict(pipec.torch.whole("states"))"""
    folder = pathlib.Path(folder)
    if not (folder / _INDEX).exists():
        found = steps(folder) if folder.is_dir() else []
        if not found:
            raise SpecError(f"{folder}: there is no checkpoint: expected a folder with step-… in it, or such a folder itself")
        folder = found[-1][1]
    reader, found = Reader(folder), {}
    for unit in reader.units.values():
        if unit["layers"]:
            tensors, _ = reader.read(unit["weights"])
            found.update({name: tensors[name] for name in unit["names"]})
    return found
