"""Checkpoints of a run: what a rank writes of its layers, and how another one, in whatever cut, takes it."""
import functools
import pathlib
import random
import threading
import time

import torch

from ..errors import RunError, SpecError
from . import folder, optimizer_state
from .folder import Content
from .sharded import Pipelines, like, whole
from .units import layers_of, title, units_of

_PLANNED = ""  # the name of the plan's optimizer; others have those in the Run's `state`
_PAUSE = 0.01  # seconds from one look for others' parts to the next
_PATIENCE = 600.0  # seconds from one part of a checkpoint to the next, unless the run says otherwise


class Checkpoints:
    """Those of a run. state, keep, save, names: as the Run's. keeps: whether there are any. idle: seconds that ranks wait for
    each other's parts."""

    def __init__(self, model, optimizers, *, state, keeps, keep, save, names, scaler, idle):
        if not isinstance(keep, int) or keep < 1:
            raise SpecError(f"keep is {keep!r}: expected how many checkpoints stay, 1 or more")
        if save not in ("between", "beside"):
            raise SpecError(f"save is {save!r}: expected 'between' two steps, or 'beside' the next one")
        self._model, self._optimizers, self._scaler = model, optimizers, scaler
        self._state, self._keeps, self._keep, self._beside = state, keeps, keep, save == "beside"
        self._units = units_of(model, names) if keeps else []
        self._random, self._loaded, self._patience = None, None, idle or _PATIENCE
        self.pipelines = Pipelines(model)  # beside this one
        self._writing, self._memory = None, {}  # what is not complete; the copies that are written beside steps

    def begin(self, path):
        """The folder of this run, for the Run's `checkpoint`."""
        if self.pipelines.count > 1 and self._model.world_rank == 0:
            self.pipelines.mirror(path)
        return self.pipelines.folder(path)

    def meet(self, session):
        """Once the ranks have met."""
        said = session.all_say([self.pipelines.number, self.pipelines.count])
        if self._keeps:
            self.pipelines.agree(said, self._model.plan)

    def note_random(self):
        """Keeps the random state for a checkpoint, which is written at the next step's beginning: by then the program has drawn
        that step's batch."""
        if self._keeps:
            self._random = torch.get_rng_state(), random.getstate(), self._model.device.random_state()

    def _own_optimizers(self):
        """{name: optimizer} of those in `state` that are kept layer by layer."""
        return {name: each for name, each in self._state.items() if optimizer_state.is_layered(each, self._units)}

    # Writing.

    def save(self, what):
        """The instruction SAVE."""
        if what.step != self._loaded:  # else nothing has been trained since
            self.save_to(pathlib.Path(what.path.decode()), what.step)

    def save_to(self, path, step):
        """To the folder of a step."""
        self.end()
        writer = folder.Writer(path, self._model.world_rank, *self._collect())
        complete = functools.partial(self._complete, path, step) if self._model.world_rank == 0 else None
        if self._beside:
            writer.copy(self._memory)
        self._writing = _Writing(writer, complete, self._beside)

    def poll(self):
        """Between two steps: what was not written beside steps is complete one step behind it, as all ranks have written by
        then. Raises what has gone wrong."""
        if self._writing is not None and (not self._beside or self._writing.is_done):
            self.end()

    def end(self):
        """Waits until the last checkpoint is complete."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None

    def abandon(self):
        """The run has ended, or failed: what is not complete stays so, but is in nobody's way then."""
        if self._writing is not None:
            self._writing.leave()
            self._writing = None

    def _complete(self, path, step, left):
        """On rank 0: makes a checkpoint once all ranks have written. left: an event, once nobody wants it any more."""
        world, end = self._model.plan.world, time.monotonic() + self._patience
        while not folder.is_written(path, world):
            self._wait(path, left, end, "other ranks")
            if left.is_set():
                return
        while not self.pipelines.number and not self.pipelines.are_written(path):
            self._wait(path, left, end, "other pipelines of the mesh")
            if left.is_set():
                return
        folder.complete(path, world, {"step": step, "layers": layers_of(self._model.plan)})
        for old in self.pipelines.old(path, self._keep):
            folder.remove(old)

    @staticmethod
    def _wait(path, left, end, who):
        if not left.wait(_PAUSE) and time.monotonic() > end:
            raise RunError(f"{path}: {who} have not written their parts: let checkpoint be a folder that all have in common")

    def _collect(self):
        """(units for the manifest, {file: Content}) of this rank."""
        model, units, contents = self._model, [], {}
        states = [unit.state() for unit in self._units]  # fully_shard has its shards in place then
        optimizers, pending = self._own_optimizers(), self._optimizers.pending()
        for unit, (weights, others) in zip(self._units, states):
            weights = {name: whole(value) for name, value in weights.items()}  # the mesh's others gather too
            said = {"name": unit.name, "first": unit.first, "layers": unit.layers, "weights": None, "names": None,
                    "of_model": unit.of_model, "optimizer": [], "gradients": None, "buffers": {}}
            self._collect_optimizers(unit, optimizers, said, contents)
            gradients = {name: whole(pending[id(p)]) for name, p in unit.parameters().items() if id(p) in pending}
            if model.replica == 0 and not self.pipelines.number:
                said["weights"], said["names"] = f"{unit.name}.safetensors", list(weights)
                contents[said["weights"]] = Content(weights, others or None, "other")
                if gradients:
                    said["gradients"] = f"state/{unit.name}.gradients.safetensors"
                    contents[said["gradients"]] = Content(gradients)
            elif buffers := {name: value for name, value in weights.items() if name not in unit.parameters()}:
                copy = model.replica or self.pipelines.number
                said["buffers"][str(copy)] = name = f"state/{unit.name}.buffers-{copy}.safetensors"
                contents[name] = Content(buffers)
            units.append(said)
        contents[f"state/process-{model.world_rank:05}.safetensors"] = Content({}, self._of_process(optimizers), "state")
        return units, contents

    def _collect_optimizers(self, unit, own, said, contents):
        """What a unit's optimizers keep: of replicas the first one's, or each one's share."""
        model, names = self._model, {}
        for name, p in unit.parameters().items():
            names.setdefault(id(p), []).append(name)
        flat = self._share_of(unit)
        if flat is not None:
            part = flat.share(model.replica, model.plan.degree)
            optimizer, = self._planned_of(unit)
            share, = optimizer.param_groups[0]["params"]
            found = {_PLANNED: {**optimizer_state.of_parameters(optimizer, {id(share): ["share"]}),
                                "share": [part.start, part.stop, [[names[id(each)][0], tuple(each.shape)] for _, each in flat.named]]}}
            file = f"{unit.name}.optimizer-{model.replica}-of-{model.plan.degree}.safetensors"
        elif model.replica == 0:
            optimizers = [(_PLANNED, each) for each in self._planned_of(unit)] + [*own.items()]
            found = {name: optimizer_state.of_parameters(each, names) for name, each in optimizers}
            file = f"{unit.name}.optimizer.safetensors"
        else:
            return
        if self.pipelines.number:
            return
        said["optimizer"].append(file)
        contents[file] = Content({}, {name: each for name, each in found.items() if each["parameters"]}, "optimizer")

    def _planned_of(self, unit):
        """[the plan's optimizer of a unit's parameters]; empty: there is none."""
        key = (unit.stage, unit.number) if self._model.flat and unit.layers else (unit.stage, 0)
        found = self._optimizers.by_layer.get(key)
        return [] if found is None else [found]

    def _share_of(self, unit):
        """The flat layer of which replicas update shares, or None."""
        if not self._model.flat or not self._planned_of(unit) or not unit.layers:
            return None
        stage = next(each for each in self._model.plan.stages(self._model.rank) if each.stage == unit.stage)
        return self._model.flat[unit.stage][unit.number] if stage.sharded[unit.number] else None

    def _of_process(self, layered):
        return {"random": self._random, "names": sorted(self._state), "scaler": self._scaler and self._scaler.state_dict(),
                "state": {name: each.state_dict() for name, each in self._state.items() if name not in layered}}

    # Reading.

    def load(self, what):
        """The instruction LOAD."""
        path, model = pathlib.Path(what.path.decode()), self._model
        reader = folder.Reader(self.pipelines.of_first(path))
        own = folder.Reader(path) if self.pipelines.number and folder.is_complete(path) else reader
        if reader.layers != layers_of(model.plan):
            raise SpecError(f"{reader.path}: is of a model of {reader.layers} layers, the plan {model.plan.name} has "
                            f"{layers_of(model.plan)}: resume with a plan of as many layers")
        _, state = own.read(f"state/process-{model.world_rank % own.world:05}.safetensors")
        self._check_state(state)
        states = {}  # by id of a parameter: {optimizer: {"kind", "state", "settings"}}
        for unit in self._units:
            self._load_unit(reader, own, unit, states)
        self._load_optimizers(states)
        for name, each in self._state.items():
            if name in state["state"]:
                each.load_state_dict(state["state"][name])
        if self._scaler is not None and state["scaler"] is not None:
            self._scaler.load_state_dict(state["scaler"])
        generator, python, of_device = state["random"]
        torch.set_rng_state(generator)
        random.setstate(python)
        if of_device is not None:
            model.device.set_random_state(of_device)
        self._loaded = what.step

    def _check_state(self, state):
        if sorted(self._state) != state["names"]:
            raise SpecError(f"the checkpoint has {state['names']} in its state, the run {sorted(self._state)}: pass what it was saved with")
        other = [name for name in self._own_optimizers() if name in state["state"]]
        other += [name for name in self._state.keys() - state["state"].keys() if name not in self._own_optimizers()]
        if other:
            raise SpecError(f"{other[0]} of the run's state is an optimizer of the model's parameters alone in either the run or the "
                            "checkpoint: pass what it was saved with")

    def _load_unit(self, reader, own, unit, states):
        """own: the reader of this pipeline's own part."""
        said = reader.units.get(unit.name)
        if said is None:
            there = [each for each in reader.units.values()
                     if each["first"] < unit.first + max(1, unit.layers) and unit.first < each["first"] + max(1, each["layers"])
                     and bool(each["layers"]) == bool(unit.layers)]
            found = " and ".join(title(each["first"], each["layers"]) for each in there) or "nothing"
            raise SpecError(f"rank {self._model.rank} has {unit.title}, and there the checkpoint has {found}: a stage that is no Sequential "
                            "of the plan's layers (pipec.torch.stages makes it) loads in the cut alone in which it was saved")
        tensors, others = reader.read(said["weights"])
        tensors = {name: value for name, value in tensors.items() if name in said["names"]}
        if buffers := own.units.get(unit.name, said)["buffers"].get(str(self._model.replica or self.pipelines.number)):
            tensors.update(own.read(buffers)[0])
        unit.load(tensors, others or {})
        parameters = unit.parameters()
        for optimizer, found in self._optimizers_of(reader, unit, said).items():
            for name, each in found.items():
                if name in parameters:
                    states.setdefault(id(parameters[name]), {})[optimizer] = each
        gradients = reader.read(said["gradients"])[0] if said["gradients"] else {}
        for name, gradient in gradients.items():
            p = parameters[name]
            if p.grad is None:
                p.grad = like(gradient.to(p.device), p)
            else:  # where replicas sum
                p.grad.copy_(gradient)

    def _optimizers_of(self, reader, unit, said):
        """{optimizer: {parameter's name: {"kind", "state", "settings"}}} of a unit in the checkpoint."""
        files = [reader.read(name)[1] for name in said["optimizer"]]
        found = {}
        for name in files[0] if files else ():
            parts = [file[name] for file in files]
            kind, groups = parts[0]["kind"], parts[0]["groups"]
            if "share" in parts[0]:
                parts.sort(key=lambda part: part["share"][:2])
                flat = [(part["parameters"]["share"]["state"], part["share"][1] - part["share"][0]) for part in parts]
                states = optimizer_state.join(unit.title, flat, parts[0]["share"][2])
                rows = {each: {"state": state, "group": parts[0]["parameters"]["share"]["group"]} for each, state in states.items()}
            else:
                rows = parts[0]["parameters"]
            found[name] = {each: {"kind": kind, "state": row["state"], "settings": groups[row["group"]]} for each, row in rows.items()}
        return found

    def _load_optimizers(self, states):
        """states: by id of a parameter."""
        own = self._own_optimizers()
        there = {name for each in states.values() for name in each}
        here = own.keys() | ({_PLANNED} if self._optimizers.by_layer else set())
        if there and there != here:
            shown = [", ".join(name or "the plan's" for name in sorted(names)) or "none" for names in (there, here)]
            raise SpecError(f"the checkpoint has the optimizers: {shown[0]}; the run: {shown[1]}: pass what it was saved with")
        for name, optimizer in own.items():
            optimizer_state.take(f"the optimizer {name}", optimizer, lambda p, name=name: states.get(id(p), {}).get(name))
        for key, optimizer in self._optimizers.by_layer.items():
            unit = next((each for each in self._units if (each.stage, each.number) == key and each.layers), None)
            flat = unit and self._share_of(unit)
            found = self._found_share(unit, flat, states) if flat else lambda p: states.get(id(p), {}).get(_PLANNED)
            optimizer_state.take(f"the optimizer of stage {key[0]}", optimizer, found)

    def _found_share(self, unit, flat, states):
        parts = {name: states.get(id(p), {}).get(_PLANNED) for name, p in flat.named}
        if not all(parts.values()):
            return lambda p: None
        part = flat.share(self._model.replica, self._model.plan.degree)
        first = next(iter(parts.values()))
        state = optimizer_state.share(unit.title, {name: each["state"] for name, each in parts.items()}, flat.named, part)
        return lambda p: {**first, "state": state}


class _Writing:
    """Of this rank's part, in a thread. complete(left), or None: what comes behind it. beside: the program goes on at once; else
    once the part is written."""

    def __init__(self, writer, complete, beside):
        self._error, self._written, self._left = None, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(writer, complete), daemon=True)
        self._thread.start()
        if not beside:
            self._written.wait()
            if complete is None or self._error is not None:
                self.join()

    def _run(self, writer, complete):
        try:
            writer.write()
            self._written.set()
            if complete is not None:
                complete(self._left)
        except BaseException as error:  # noqa: BLE001: it is raised where the program waits
            self._error = error
        self._written.set()

    @property
    def is_done(self):
        return not self._thread.is_alive()

    def leave(self):
        self._left.set()
        self._thread.join()

    def join(self):
        """Raises what went wrong."""
        self._thread.join()
        if self._error is not None:
            raise self._error
