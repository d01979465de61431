"""What rank 0 prints while it trains."""
import collections
import logging
import time

_LOGGER = logging.getLogger("pipec")
_PAUSE = 1.0  # seconds from one line to the next, at least


class Progress:
    """Rank 0's line: what is measured beside what was predicted."""

    def __init__(self, plan, rank):
        variant = plan.facts["variants"][0]
        self._predicted, self._bubble = variant["step_ms"] if plan.is_timed else None, variant["bubble_rate"]
        self._peak, self._printed = variant["peak_activation_bytes"][rank], 0.0
        self._times = collections.deque(maxlen=20)
        if not _LOGGER.hasHandlers():  # a program that has set up logging gets lines as it wants them
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("pipec: %(message)s"))
            _LOGGER.addHandler(handler)
            _LOGGER.setLevel(logging.INFO)

    def step(self, steps, took, tokens, peak, loss):
        self._times.append(took)
        now = time.monotonic()
        if now - self._printed < _PAUSE or steps < 2:
            return
        self._printed = now
        middle = sorted(self._times)[len(self._times) // 2]
        parts = [f"step {steps}"]
        if loss is not None:
            parts.append(f"loss {loss.item():.4f}")
        if tokens:
            parts.append(f"{tokens / middle:.0f} tokens/s")
        predicted = "" if self._predicted is None else f"{self._predicted:.1f} predicted, "
        parts.append(f"{middle * 1e3:.1f} ms ({predicted}bubble {self._bubble * 100:.0f} %)")
        if peak:
            parts.append(f"peak {peak / 2**20:.1f} MiB ({self._peak / 2**20:.1f} predicted)")
        _LOGGER.info(", ".join(parts))
