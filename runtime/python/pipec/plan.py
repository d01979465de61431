"""Plans: compiled, loaded, shown."""
from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import html
import json
import os
import pathlib
import shutil
import subprocess
import sysconfig
import tempfile
import weakref

from . import _library
from .errors import SpecError, raise_for


def _pipec(*arguments, **options):
    """Runs the pipec beside the package or among Python's programs, else PATH's."""
    folders = (_library.HERE / "bin", pathlib.Path(sysconfig.get_path("scripts")))
    program = next((each / "pipec" for each in folders if (each / "pipec").exists()), None) or shutil.which("pipec")
    if program is None:
        raise SpecError("there is no pipec beside the package and none in PATH: install the package, or build the compiler")
    return subprocess.run([program, *map(os.fspath, arguments)], capture_output=True, text=True, check=False, **options)


# Of torchrun, Open MPI, Slurm: this process's number among all, and on its machine.
_WORLD_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")


def _from_launcher(variables, otherwise):
    return next((int(os.environ[name]) for name in variables if name in os.environ), otherwise)


def local_rank(world_rank):
    """This process's number on its machine, as its launcher says; without one `world_rank`."""
    return _from_launcher(_LOCAL_RANK, world_rank)


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of a rank. Bytes are of one microbatch's activation: from, and to, another rank; 0: none; and of the gradient that
    goes back for the former, and comes back for the latter."""
    stage: int
    first_layer: int
    layers: int  # 0: the spec has none
    input_bytes: int
    output_bytes: int
    input_gradient_bytes: int
    output_gradient_bytes: int
    gradients: tuple  # bytes of each layer that replicas sum; empty: there are none
    sharded: tuple  # of each of these, whether every replica updates its share of it


def _remove(folder, process):
    """Removes a plan's folder, in the process that made it: a child that was forked only has a copy of the plan."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


class Plan:
    """A compiled plan. In a notebook it shows itself.

    spec: the text that it was compiled from; None: it was loaded. is_timed: whether its times are said to be those of some device."""

    def __init__(self, data, name, spec=None):
        self.spec, self.is_timed = spec, True
        folder = tempfile.mkdtemp(prefix="pipec-")
        weakref.finalize(self, _remove, folder, os.getpid())
        self.path = pathlib.Path(folder) / "plan.pipe"
        self.path.write_bytes(data)
        self.name, self.hash = name, hashlib.sha256(data).hexdigest()
        error, text = _library.Error(), ctypes.c_char_p()
        code = _library.LIBRARY.pipec_run_facts(os.fsencode(self.path), ctypes.byref(text), ctypes.byref(error))
        if code:
            message = error.message.decode(errors="replace").removeprefix(f"{self.path}: ")
            raise SpecError(message, name, 1, 1)
        self.facts = json.loads(text.value)
        self.ranks, self.degree = self.facts["ranks"], self.facts["degree"]
        self.stage_count, self.microbatches = self.facts["stage_count"], self.facts["microbatches"]
        self.cut = self.facts["cut"]
        self.variants = [each["name"] for each in self.facts["variants"]]

    @property
    def world(self) -> int:
        """How many processes run it."""
        return self.ranks * self.degree * self.facts["shards"]

    def world_rank(self) -> int:
        """This process's number among all of the run, as its launcher says."""
        rank = _from_launcher(_WORLD_RANK, 0 if self.world == 1 else None)
        if rank is not None:
            return rank
        raise SpecError(f"the plan is for {self.world} processes: start them with torchrun, Slurm or Open MPI", self.name)

    def place(self, world_rank: int | None = None) -> tuple[int, int]:
        """(rank, replica) of a process; None: of this one."""
        if world_rank is None:
            world_rank = self.world_rank()
        if not 0 <= world_rank < self.world:
            raise SpecError(f"the plan is for {self.world} processes, there is no process {world_rank}", self.name)
        return divmod(world_rank, self.degree)

    def stages(self, rank: int) -> list[Stage]:
        """The stages of a rank, ascending."""
        return [Stage(**{**each, "gradients": tuple(each["gradients"]), "sharded": tuple(each["sharded"])})
                for each in self.facts["stages"][rank]]

    def report(self) -> dict:
        """What `pipec report --json` prints, as a dict."""
        done = _pipec("report", self.path, "--json")
        if done.returncode:
            raise SpecError(done.stderr.strip() or done.stdout.strip(), self.name)
        return json.loads(done.stdout)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the plan's file, as piperun takes it."""
        shutil.copyfile(self.path, path)

    def _repr_html_(self):
        done = _pipec("show", self.path, "--emit=html")
        if done.returncode:
            return None
        return f'<iframe srcdoc="{html.escape(done.stdout)}" style="width: 100%; height: 640px; border: 0"></iframe>'

    def __repr__(self):
        return f"<pipec.Plan {self.name}: {', '.join(self.variants)}; {self.ranks} ranks, {self.stage_count} stages>"


def load(path: str | os.PathLike) -> Plan:
    """A plan from its file. Raises SpecError."""
    try:
        return Plan(pathlib.Path(path).read_bytes(), os.fspath(path))
    except OSError as error:
        raise SpecError(f"cannot read: {error.strerror}", os.fspath(path)) from None


def _laid(changes):
    return [f"--set={key}={value if isinstance(value, str) else json.dumps(value, default=str)}" for key, value in (changes or {}).items()]


def compile(spec: str | os.PathLike | dict, set: dict | None = None) -> Plan:  # noqa: A001, A002: as the command and its option are called
    """Compiles a spec, `set` laid over it ({"pipeline.microbatches": 32}). spec: a file's path, or a dict with the spec's keys. Raises
    SpecError, which says of a dict what stands where it is wrong.

    Example:
        plan = pipec.compile({"pipec": 1, "pipeline": {"ranks": 4, "microbatches": 8}, "schedule": "zb-h1",
                              "costs": {"forward": "2ms", "backward_input": "2ms", "backward_weight": "2ms"}})"""
    with tempfile.TemporaryDirectory(prefix="pipec-") as folder:
        path, name = spec, spec
        if isinstance(spec, dict):
            path, name = pathlib.Path(folder) / "spec.yaml", "the spec"
            try:
                path.write_text(json.dumps(spec, indent=2), encoding="utf-8")  # which is YAML too
            except (TypeError, ValueError) as error:
                raise SpecError(f"a spec has texts, numbers, lists and dicts in it: {error}") from None
        plan = pathlib.Path(folder) / "plan.pipe"
        done = _pipec("compile", path, "-o", plan, "--json", *_laid(set))
        if done.returncode == 0:
            return Plan(plan.read_bytes(), os.fspath(name), pathlib.Path(path).read_text(encoding="utf-8"))
        try:
            wrong = json.loads(done.stdout)
        except ValueError:
            raise_for(done.returncode, done.stderr.strip())
        if isinstance(spec, dict) and wrong["line"] and wrong["file"] == os.fspath(path):
            line = path.read_text(encoding="utf-8").splitlines()[wrong["line"] - 1].strip()
            raise SpecError(f"{wrong['error']}: {line}", name)
        raise SpecError(wrong["error"], wrong["file"], wrong["line"], wrong["column"])
