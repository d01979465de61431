"""The secret by which the processes of a job know each other."""
import datetime
import os

import torch

from ..errors import SpecError

_PATIENCE = datetime.timedelta(minutes=1)


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
