"""What a checkpoint keeps of a rank."""
import pickle
import random
import warnings

import torch

from ..errors import SpecError


def _other_than_tensors(path):
    """Why a checkpoint can be read only where its program allows more than tensors and plain values; None: it has no more."""
    found = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    return found and (f"the checkpoint has {', '.join(sorted(found))} in it, and only tensors and plain values are read: where the "
                      f"program has put that into `state`, let it call torch.serialization.add_safe_globals([{', '.join(sorted(found))}])"
                      " before it resumes")


class Checkpoints:
    """Those of a run. state: what else they keep, {name: what has a state_dict}. keeps: whether there are any."""

    def __init__(self, model, optimizers, state, keeps):
        self._model, self._optimizers, self._state, self._keeps = model, optimizers, state, keeps
        self._random, self._saved = None, False

    def note_random(self):
        """Keeps the random state for a checkpoint, which is written at the next step's beginning: by then the program has drawn
        that step's batch."""
        if self._keeps:
            self._random = torch.get_rng_state(), random.getstate(), self._model.device.random_state()

    def save(self, what):
        loss = self._model.loss
        state = {"steps": what.step, "stages": {s: module.state_dict() for s, module in self._model.modules.items()},
                 "optimizers": {s: each.state_dict() for s, each in self._optimizers.by_layer.items()},
                 "state": {name: each.state_dict() for name, each in self._state.items()},
                 "loss": None if loss is None else loss.state_dict(), "gradients": self._optimizers.pending(),
                 "random": self._random}
        path = what.path.decode()
        torch.save(state, path)
        if self._state and not self._saved and (found := _other_than_tensors(path)):
            warnings.warn(found, stacklevel=2)
        self._saved = True

    def load(self, what):
        path, model = what.path.decode(), self._model
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise SpecError(_other_than_tensors(path) or f"the checkpoint is not of a pipec.torch.Run: {error}") from None
        try:
            if set(state["stages"]) != set(model.modules):
                raise SpecError(f"the checkpoint has the stages {sorted(state['stages'])}, rank {model.rank} {sorted(model.modules)}")
            for s, module in model.modules.items():
                try:
                    module.load_state_dict(state["stages"][s])
                except RuntimeError as error:
                    raise SpecError(f"stage {s}: the checkpoint is of another model: {error}") from None
            for kept, own in ((state["optimizers"], self._optimizers.by_layer), (state["state"], self._state)):
                if set(kept) != set(own):
                    raise SpecError(f"the checkpoint has {sorted(kept)}, the run {sorted(own)}: pass what it was saved with")
                for name, each in own.items():
                    each.load_state_dict(kept[name])
            if model.loss is not None and state.get("loss") is not None:
                model.loss.load_state_dict(state["loss"])
            for s in model.own:
                for name, p in model.named_parameters(s):
                    if (gradient := state.get("gradients", {}).get((s, name))) is not None:
                        gradient = gradient.to(p.device)
                        if p.grad is None:
                            p.grad = gradient
                        else:  # where replicas sum
                            p.grad.copy_(gradient)
            generator, python, *own = state["random"]
            torch.set_rng_state(generator)
            random.setstate(python)
            if own and own[0] is not None:
                model.device.set_random_state(own[0])
        except (KeyError, TypeError) as error:
            raise SpecError(f"the checkpoint is not of a pipec.torch.Run: {error}") from None
