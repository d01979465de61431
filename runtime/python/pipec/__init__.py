"""pipec: schedules of pipeline-parallel training, compiled, proven and run. `pipec.torch` trains with them."""
from .errors import Ended, Error, RunError, SpecError
from .plan import Plan, Stage, compile, load  # noqa: A004

__version__ = "0.1.0"
__all__ = ["Ended", "Error", "Plan", "RunError", "SpecError", "Stage", "__version__", "compile", "load"]
