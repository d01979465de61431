"""Ctrl-C of a run with checkpoints: the run ends in order, with a last checkpoint."""
import signal
import threading
import time

_SAME = 1.0  # seconds within which a second signal is the first one again: of a terminal, and of a launcher that passes it on


class Interrupts:
    """Asks for the run's end on the first SIGINT; the next one is Python's KeyboardInterrupt. Only where the program has left
    SIGINT to Python, and on its main thread."""

    def __init__(self, stop):
        self.came = None  # when, or None
        self._stop, self._before = stop, None
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._hear)

    def _hear(self, number, frame):
        if self.came is not None and time.monotonic() - self.came < _SAME:
            return
        first, self.came = self.came is None, time.monotonic()
        if not first or not self._stop():
            self.end()
            signal.default_int_handler(number, frame)

    def end(self):
        """Signals are the program's again."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before, self._stop = None, None
