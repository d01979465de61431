"""Training with PyTorch through a plan: `layers` cuts a model, `plan` makes a plan of it, `stages` a rank's modules, `Run` trains them."""
import re

import torch as _torch

from ..errors import SpecError

_NEEDS = (2, 8)

_version = tuple(int(part) for part in re.findall(r"\d+", _torch.__version__)[:2])
if _version < _NEEDS:
    raise SpecError(f"PyTorch is {_torch.__version__}, pipec.torch needs {'.'.join(map(str, _NEEDS))} or newer")

from .device import prepare  # noqa: E402
from .folder import whole  # noqa: E402
from .layers import layers, stages  # noqa: E402
from .planned import plan  # noqa: E402
from .random import reseed  # noqa: E402
from .run import Run  # noqa: E402

prepare()

__all__ = ["Run", "layers", "plan", "reseed", "stages", "whole"]
