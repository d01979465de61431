"""What turns a step's gradients into new weights: means, norms and clipping, the plan's optimizers or the program's own."""
import torch

from ..errors import SpecError
from .sums import all_finite, make_infinite, squares
from .wrapped import local


def _settings(optimizers):
    """What programs change between steps, as learning rates."""
    return {key: [{name: value for name, value in group.items() if name != "params"} for group in each.param_groups]
            for key, each in optimizers.items()}


class Optimizers:
    """Those of a rank. make: the Run's optimizer; None: the program steps its own, between two steps."""

    def __init__(self, model, session, losses, make, clip, scaler):
        self._model, self._plan, self._session, self._losses = model, model.plan, session, losses
        self.planned = make is not None  # the optimizer is the plan's
        self.by_layer = {key: make(named) for key, named in model.trained() if named} if make else {}  # by (stage, layer)
        self._clip, self._scaler = clip, scaler
        self._set = {}  # by step, what optimizers were set to when it began
        # Where updates go on beside the next step, the program's own optimizer has to have the sums before.
        self.drains = self._plan.facts["overlaps"] and not self.planned
        self._settled = {}  # (stage, layer): the last step whose gradients are
        self._factor = -1, None  # a step, and what its gradients are multiplied by
        self._aside = None  # in a step, [(parameter, gradient)] that were there before it

    def begin(self):
        """A step begins: sets aside what the program's own optimizer has not used yet."""
        model, step = self._model, self._session.steps_done
        if self._scaler is not None:
            self._scaler.scale(torch.zeros((), device=model.device.device))  # it learns where it is
        if self.planned and self._plan.facts["overlaps"]:
            self._set = {known: found for known, found in self._set.items() if known >= step - 1}
            self._set[step] = _settings(self.by_layer)
        self._aside = [] if self.planned else [(p, p.grad) for p in model.parameters() if p.grad is not None]
        if model.flat:
            model.attach()
            self._gather_aside()
        else:
            self._aside = [(p, gradient.clone() if id(p) in model.shared.held else gradient) for p, gradient in self._aside]
            for parameter, _ in self._aside:
                parameter.grad = None
        if not self.planned:
            model.shared.zero(model.shared.copies)
        model.shared.attach()

    def _gather_aside(self):
        """Gradients of the program's own optimizer that it did not make zero are added behind the step."""
        self._aside = [(p, gradient.clone()) for p, gradient in self._aside]
        if not self.planned:
            for layer in self._model.flat_layers():
                layer.gradients.zero_()

    def end(self, step, microbatches):
        """A step ends: of the program's own optimizer gradients are means then, with what was set aside."""
        if not self.planned:
            self._settle(self._model.layers(self._model.own), step, microbatches)
            for parameter, before in self._aside:
                if self._model.flat or id(parameter) in self._model.shared.held:
                    parameter.grad.add_(before)
                else:
                    parameter.grad = before if parameter.grad is None else before.add_(parameter.grad)
        self._aside = []
        if self._scaler is not None and not all(self._session.all_say(all_finite(self._model.own_gradients()))):
            make_infinite(self._model.parameters())

    def done(self):
        self._aside = None

    def pending(self):
        """{id of a parameter: gradient} of the program's own optimizer that it has not made zero."""
        if self.planned:
            return {}
        aside = ((p, p.grad) for p in self._model.parameters()) if self._aside is None else self._aside
        return {id(p): gradient for p, gradient in aside if gradient is not None}

    def _settle(self, layers, step, microbatches):
        """Sums over the microbatches of all replicas become means, whose norm is clipped: once a step, when nobody else uses
        the gradients any more."""
        count, (of, factor) = self._losses.divisor(step, microbatches), self._factor
        for key in layers:
            gradients = self._model.gradients_of(*key) if self._settled.get(key) != step else []
            self._settled[key] = step
            if gradients and count != 1:
                torch._foreach_div_([*map(local, gradients)], count)
            if gradients and of == step and factor is not None:
                torch._foreach_mul_([*map(local, gradients)], factor)

    # Instructions.

    def update(self, what):
        if not self.by_layer:
            return
        layers = list(self._model.layers([what.stage], what.first_layer, what.layers))
        self._settle(layers, what.step, what.microbatches)
        before = self._set.get(what.step, {}) if what.step != self._session.steps_done else {}
        for key in filter(self.by_layer.__contains__, layers):
            optimizer = self.by_layer[key]
            if key not in before:
                optimizer.step()
            else:  # it comes beside the next step, for which the program has set others already
                now = _settings({key: optimizer})[key]
                for group, settings in zip(optimizer.param_groups, before[key]):
                    group.update(settings)
                optimizer.step()
                for number, (group, settings) in enumerate(zip(optimizer.param_groups, before[key])):
                    own = {name: group[name] for name in settings if group[name] is not settings[name]}  # which it keeps there
                    for later in (now, *(found[key] for step, found in self._set.items() if step > what.step)):
                        later[number].update(own)
                    group.update(now[number])
            if not self._model.flat:
                optimizer.zero_grad()
                self._model.shared.zero(self._model.shared.of(key[0]))
            else:
                self._model.flat[key[0]][key[1]].gradients.zero_()
                self._model.shared.zero(self._model.shared.of(*key))

    def norm(self, what):
        """Of the means. Of replicas each says that of its shares; the others' may be on their way meanwhile."""
        total = squares(self._model.shares(), self._losses.divisor(what.step, what.microbatches))
        self._model.device.tell(what, self._session.result, total)

    def scale(self, what):
        if self._clip is not None:
            self._factor = what.step, self._model.device.factor(what, self._clip)

    def clip_grad_norm_(self, most):
        """As Run's."""
        if self.planned:
            raise SpecError("clip_grad_norm_ is for an optimizer of the program's own: pass clip to the Run")
        model = self._model
        own = squares(model.shares())
        total = 0.0
        for each in self._session.all_say(0.0 if own is None else float(own)):  # in the order of the runtime's own sum
            total += each
        factor = model.device.factor_of(torch.tensor(total, dtype=torch.float64, device=model.device.device), most)
        gradients = [gradient for key in model.layers(model.own) for gradient in model.gradients_of(*key)]
        if gradients and factor is not None:
            torch._foreach_mul_([*map(local, gradients)], factor)
        return torch.tensor(total, dtype=torch.float64).sqrt()
