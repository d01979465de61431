"""What can go wrong."""


class Error(Exception):
    """Of pipec's."""


class SpecError(Error):
    """A spec, plan or argument that cannot be: `file`, `line` and `column` say where, None where that is no file."""

    def __init__(self, message, file=None, line=None, column=None):
        place = "" if file is None else f"{file}:{line}:{column}: " if line else f"{file}: "
        super().__init__(place + message)
        self.message, self.file, self.line, self.column = message, file, line, column


class RunError(Error):
    """The run has failed on some rank: the message names rank and instruction."""


class Ended(Error):
    """The run was asked to end (`piperun --control … stop`) and has. The `with` block of a Run takes it."""


def raise_for(code, message):
    """Of an exit code of piperun's: 1 to 3, the input, the usage, a plan that cannot run so; 4: the run."""
    raise RunError(message) if code == 4 else SpecError(message)
