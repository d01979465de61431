"""Measured against predicted, in steps of real runs."""
import unittest

from support import SOAK, SPECS, ToolTest
from timing import Busy


def worst_deviation(run):
    """Of all steps, the largest deviation from the same step in virtual time."""
    pairs = zip(run["step_ms"], run["simulated_step_ms"], strict=True)
    return max(abs(measured / simulated - 1) for measured, simulated in pairs)


class TimingTest(ToolTest):
    def best(self, what, limit, plan, measure, *arguments):
        busy = Busy(self, what, limit)
        for _ in busy.tries():
            busy.add(measure(self.run_json(plan, *arguments)))

    def plan_of(self, ranks, operation):
        """1F1B; every pass takes `operation`, the fused backward two of them."""
        return self.compile(SPECS / "1f1b.yaml", pipeline__ranks=ranks, pipeline__microbatches=2 * ranks,
                            costs__forward=operation, costs__backward_input=operation,
                            costs__backward_weight=operation, costs__link="{latency: 200us, bandwidth: 10GB/s}")

    def test_carried_steps_take_the_simulated_time(self):
        for ranks in (4, 8):
            with self.subTest(ranks=ranks):
                self.best(f"carry, {ranks} ranks, 2 ms", 0.02, self.plan_of(ranks, "2ms"), worst_deviation,
                          "--steps", 500 if SOAK else 10)

    def test_deferred_weights_take_the_simulated_time(self):
        # Many near ties of a W and the pass that should go before it: each that goes wrong costs a whole operation.
        plan = self.compile(SPECS / "1f1b.yaml", pipeline__ranks=8, pipeline__microbatches=24, backward="split",
                            weights="fill", costs__forward="10ms", costs__backward_input="10ms",
                            costs__backward_weight="10ms", costs__link="{latency: 0us}")
        self.best("carry, 8 ranks, weights: fill, 10 ms", 0.05, plan, worst_deviation, "--steps", 50 if SOAK else 4)

    def test_steps_with_an_all_reduce_take_the_simulated_time(self):
        plan = self.compile(SPECS / "1f1b.yaml", costs__forward="5ms", costs__backward_input="5ms",
                            costs__backward_weight="5ms", costs__optimizer="{time: 2ms, global_norm: true}",
                            costs__link="{latency: 200us, bandwidth: 10GB/s}")
        self.best("carry, 4 ranks, global norm", 0.02, plan, worst_deviation, "--steps", 500 if SOAK else 10)

    def test_naive_steps_take_little_more(self):
        self.best("naive, 4 ranks, 20 ms", 0.03, self.plan_of(4, "20ms"), worst_deviation, "--emulate", "naive",
                  "--steps", 50 if SOAK else 4)

    def test_waiting_costs_no_processor(self):
        # Operations are waits, so that a rank does nothing but wait, and start, which is spread over some five seconds.
        self.best("processor of the busiest rank, 50 ms", 0.01, self.plan_of(4, "50ms"),
                  lambda run: max(run["idle_cpu"]), "--steps", 50 if SOAK else 3)


if __name__ == "__main__":
    unittest.main()
