"""A run of the library (pipec_run.h): by it a rank hears what to do, and tells the other ranks what they ask for."""
import ctypes
import json
import os
import time

from torch.autograd import _profiler_enabled as profiled
from torch.profiler import record_function

from .. import _library as lib
from ..errors import Error, raise_for

_KINDS = {lib.F: "F", lib.B: "B", lib.W: "W", lib.BW: "BW", lib.R: "R", lib.OPTIMIZER: "optimizer", lib.NORM: "norm", lib.CLIP: "clip",
          lib.SAVE: "save", lib.LOAD: "load"}


def _named(what):
    """An instruction, as a profiler shows it."""
    name = f"pipec: {_KINDS[what.kind]}"
    if what.stage >= 0:
        name += f" stage {what.stage}"
    return name + (f" microbatch {what.microbatch}" if what.kind in (lib.F, lib.B, lib.W, lib.BW, lib.R) else "")


class Session:
    """The library's side of a rank. `does` says what is done for an instruction, by its kind."""

    def __init__(self, plan, meeting):
        self._plan, self._world_rank, self._meeting = plan, meeting.process, meeting
        self._error, self.instruction = lib.Error(), lib.Instruction()
        self.result = lib.Result(size=ctypes.sizeof(lib.Result))
        self.instruction.size = ctypes.sizeof(lib.Instruction)
        self.handle, self._process = None, None
        self.does = {}
        self.steps_done, self.ended = 0, False
        self._exchanges = 0

    @property
    def is_open(self):
        return self.handle is not None

    @property
    def is_forked(self):
        """Whether this process is a child that the program has forked: the run is the parent's."""
        return os.getpid() != self._process

    def open(self, **settings):
        """Meets the other ranks. settings: further fields of lib.Setup."""
        setup = lib.Setup(size=ctypes.sizeof(lib.Setup), plan=os.fsencode(self._plan.path), **self._meeting.fields(), **settings)
        run = ctypes.c_void_p()
        self._call(lib.LIBRARY.pipec_run_open(ctypes.byref(setup), ctypes.byref(run), ctypes.byref(self._error)))
        self.handle, self._process = run, os.getpid()

    def refuse(self, why):
        """Tells the other ranks, which would wait for this one."""
        if self._plan.world == 1:
            return
        what = lib.Instruction(size=ctypes.sizeof(lib.Instruction))
        try:
            self.open(refused=why.encode())
            while True:
                self._call(lib.LIBRARY.pipec_run_next(self.handle, ctypes.byref(what), ctypes.byref(self._error)))
        except Error:  # once they have heard it
            self.close(why)

    def close(self, why):
        if self.handle is not None:
            lib.LIBRARY.pipec_run_close(self.handle, why.encode() if why else None)
            self.handle = None
            self.does = {}  # of methods, which would keep the run and its modules until Python collects cycles

    def _message(self):
        return self._error.message.decode(errors="replace")

    def _call(self, code):
        if code:
            raise_for(code, self._message())

    # Steps.

    def done(self):
        self._call(lib.LIBRARY.pipec_run_done(self.handle, ctypes.byref(self.result), ctypes.byref(self._error)))

    def until_end_of_step(self):
        """Does what comes, up to the end of a step, which is not yet said to be done, or of the run."""
        run, what, does = self.handle, self.instruction, self.does
        at, result, error = ctypes.byref(what), ctypes.byref(self.result), ctypes.byref(self._error)
        take, say = lib.LIBRARY.pipec_run_next, lib.LIBRARY.pipec_run_done
        while True:
            code = take(run, at, error)
            if code:
                raise_for(code, self._message())
            kind = what.kind
            if kind == lib.NONE:
                continue
            if kind == lib.END_OF_STEP:
                return
            if kind == lib.END:
                self.ended = True
                return
            try:
                if profiled():
                    with record_function(_named(what)):
                        does[kind](what)
                else:
                    does[kind](what)
            except BaseException as failure:
                text = f"{type(failure).__name__}: {failure}"
                self.result.error = " ".join(text.split())[:1000].encode()
                say(run, result, error)
                raise
            code = say(run, result, error)
            if code:
                raise_for(code, self._message())

    def drain(self):
        """Behind the end of a step, up to its end once more, with all of it done."""
        self._call(lib.LIBRARY.pipec_run_drain(self.handle, ctypes.byref(self._error)))
        self.until_end_of_step()

    def evaluate(self, rounds):
        """Behind the end of a step, up to its end once more: the rest of the step, and so many rounds of an evaluation."""
        self._call(lib.LIBRARY.pipec_run_evaluate(self.handle, rounds, ctypes.byref(self._error)))
        self.until_end_of_step()

    def finish(self):
        """Ends the run on all ranks, behind the same step."""
        self._call(lib.LIBRARY.pipec_run_finish(self.handle, ctypes.byref(self._error)))
        self.until_end_of_step()

    def swap(self, variant):
        step = ctypes.c_int64()
        self._call(lib.LIBRARY.pipec_run_swap(self.handle, str(variant).encode(), ctypes.byref(step), ctypes.byref(self._error)))
        return step.value

    def report(self):
        """What `piperun --json` prints."""
        text = ctypes.c_char_p()
        self._call(lib.LIBRARY.pipec_run_report(self.handle, ctypes.byref(text), ctypes.byref(self._error)))
        return json.loads(text.value) if text.value else {}

    def stop(self):
        """Asks for the end of the run on all ranks, behind a step that all do. Whether it could."""
        return self.is_open and lib.LIBRARY.pipec_run_stop(self.handle, ctypes.byref(lib.Error())) == 0

    # What ranks tell each other.

    def put(self, key, text):
        self._call(lib.LIBRARY.pipec_run_put(self.handle, key.encode(), text.encode(), ctypes.byref(self._error)))

    def get(self, key, wait=True):
        text = ctypes.c_char_p()
        while True:
            self._call(lib.LIBRARY.pipec_run_get(self.handle, key.encode(), ctypes.byref(text), ctypes.byref(self._error)))
            if text.value is not None or not wait:
                return None if text.value is None else text.value.decode()

    def put_of_step(self, key, step, value):
        """For ranks that ask for it in the same step, or beside the next: what JSON can hold."""
        self.put(f"{key}/{step % 4}", json.dumps([step, value]))

    def get_of_step(self, key, step):
        while True:
            of, value = json.loads(self.get(f"{key}/{step % 4}"))
            if of == step:
                return value
            time.sleep(1e-4)  # there is that of four steps before

    def all_say(self, value):
        """[of each process: its value], where all say one."""
        if self._plan.world == 1:
            return [value]
        self._exchanges += 1
        self.put_of_step(f"all/{self._world_rank}", self._exchanges, value)
        return [self.get_of_step(f"all/{process}", self._exchanges) for process in range(self._plan.world)]
