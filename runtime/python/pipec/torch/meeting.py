"""How the processes of a run find each other, and the secret by which they know each other."""
import datetime
import os
import pathlib
import socket

import torch

from ..errors import SpecError
from ..plan import local_rank

_PATIENCE = datetime.timedelta(minutes=1)


class Meeting:
    """Of a run's processes: all that a launcher has started, or those of a process group. secret: as given to the Run."""

    def __init__(self, plan, secret=None, group=None):
        self._plan, self._secret, self._group, self._fields = plan, secret, group, None
        self.process = plan.world_rank() if group is None else self._in_group()

    def _in_group(self):
        """This process's number in the group."""
        dist = torch.distributed
        if not dist.is_available() or not dist.is_initialized():
            raise SpecError("a group is of torch.distributed's processes: call torch.distributed.init_process_group before the Run")
        number, count = dist.get_rank(self._group), dist.get_world_size(self._group)
        if number < 0:
            raise SpecError("this process is not in the group: pass the group of the pipeline that this process is in, for example "
                            'mesh["pp"].get_group()')
        if count != self._plan.world:
            raise SpecError(f"the plan is for {self._plan.world} processes, the group has {count}: let the mesh have as many for the "
                            "pipeline, or compile the plan for as many", self._plan.name)
        return number

    def fields(self):
        """{name: value} of lib.Setup. All processes of the run call it."""
        if self._fields is None:
            fields = {} if self._group is None or self._plan.world == 1 else self._of_group()
            known = fields.pop("secret", None) or secret(self._secret, self._plan.world)
            self._fields = {**fields, "secret": None if known is None else os.fsencode(known)}
        return self._fields

    def _of_group(self):
        """What the group's first process says for all."""
        dist = torch.distributed
        machines = [None] * self._plan.world
        dist.all_gather_object(machines, (socket.gethostname(), _boot()), group=self._group)
        spread = len(set(machines)) > 1
        box = [None]
        if self.process == 0:
            box = [[_address() if spread else "127.0.0.1", _free_port(), os.urandom(16).hex(), self._secret or os.urandom(32).hex()]]
        dist.broadcast_object_list(box, src=dist.get_global_rank(self._group, 0), group=self._group)
        host, port, job, key = box[0]
        return {"host": host.encode(), "port": port, "process": self.process, "processes": self._plan.world,
                "local": local_rank(dist.get_rank()), "spread": int(spread), "job": f"group {job}".encode(), "secret": key}


def _boot():
    """Tells one machine from another of the same name."""
    try:
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return ""


def _address():
    """Of this machine, as the machine of MASTER_ADDR sees it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # nothing is sent
        try:
            probe.connect((os.environ["MASTER_ADDR"], int(os.environ.get("MASTER_PORT", 1))))
            return probe.getsockname()[0]
        except (KeyError, OSError):
            return socket.gethostname()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def secret(given, world):
    """As given or, None, PIPEC_SECRET's; without one a random one, by way of the program's process group or of torchrun's store.
    None: the library finds it in PIPEC_SECRET, or needs none."""
    if given is not None or os.environ.get("PIPEC_SECRET") or world == 1:
        return given
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        box = [os.urandom(32).hex() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(box, src=0)
        return box[0]
    cause = None
    if dist.is_available() and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        try:
            store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=_PATIENCE)
            return store.compare_set("pipec/secret", "", os.urandom(32).hex()).decode()  # the first rank's, for all
        except (KeyError, RuntimeError, ValueError) as error:
            cause = error
    raise SpecError("the processes of the run need a secret in common, by which they know each other: call "
                    "torch.distributed.init_process_group before the Run, which then shares one, or set PIPEC_SECRET to the same long "
                    "random text for all of them") from cause
