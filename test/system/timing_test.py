"""Measured against predicted, in steps of real runs: tools/soak alone runs this."""
import unittest

from support import SPECS, ToolTest
from timing import Sleepers, judge

EXCUSED = 0.01  # of all steps, at most


def worst_deviation(run):
    """Of all steps, the largest deviation from the same step in virtual time."""
    pairs = zip(run["step_ms"], run["simulated_step_ms"], strict=True)
    return max(abs(measured / simulated - 1) for measured, simulated in pairs)


def worst_awake(run, stalls, limit):
    """The same of the steps in which the machine did not stand still: a step over the limit is left out, and said, if
    during it or the next one (in which other ranks end theirs) some process that only slept woke late by half of what
    the step is off or more. Where that is more than a few, all count."""
    awake, excused = [], []
    end = run["started_at_ns"] / 1e9
    for measured, simulated in zip(run["step_ms"], run["simulated_step_ms"], strict=True):
        begin, end = end, end + simulated / 1e3
        off = abs(measured - simulated) / 1e3
        late = max((until - due for due, until in stalls if due < 2 * end - begin and until > begin), default=0)
        (excused if off > limit * simulated / 1e3 and late >= off / 2 else awake).append((off / (simulated / 1e3), late))
    if not excused:
        return max(awake)[0]
    print(f"{len(excused)} of {len(run['step_ms'])} steps were off by up to {100 * max(excused)[0]:.3f} % while the machine "
          f"stood still for up to {1e3 * max(late for _, late in excused):.1f} ms")
    return max(awake if len(excused) <= max(1, EXCUSED * len(run["step_ms"])) else awake + excused)[0]


class TimingTest(ToolTest):
    def measure(self, what, limit, plan, measure, *arguments):
        judge(self, what, measure(self.run_json(plan, *arguments)), limit)

    def plan_of(self, ranks, operation):
        """1F1B; every pass takes `operation`, the fused backward two of them."""
        return self.compile(SPECS / "1f1b.yaml", pipeline__ranks=ranks, pipeline__microbatches=2 * ranks,
                            costs__forward=operation, costs__backward_input=operation,
                            costs__backward_weight=operation, costs__link="{latency: 200us, bandwidth: 10GB/s}")

    def test_carried_steps_take_the_simulated_time(self):
        for ranks in (4, 8):
            with self.subTest(ranks=ranks):
                plan, limit = self.plan_of(ranks, "2ms"), 0.02
                with Sleepers() as sleepers:
                    run = self.run_json(plan, "--steps", 500)
                judge(self, f"carry, {ranks} ranks, 2 ms", worst_awake(run, sleepers.stalls, limit), limit)

    def test_a_late_step_is_excused_by_a_machine_that_stood_still_alone(self):
        run = {"started_at_ns": 10e9, "step_ms": [100, 103, 97, 100] * 50, "simulated_step_ms": [100] * 200}
        one = {**run, "step_ms": [100, 103, 98.5] + [100] * 197}
        self.assertAlmostEqual(worst_awake(one, [], 0.02), 0.03)
        self.assertAlmostEqual(worst_awake(one, [(10.15, 10.153)], 0.02), 0.015)
        self.assertAlmostEqual(worst_awake(one, [(10.15, 10.151), (10.45, 10.46)], 0.02), 0.03)  # too short; too late
        self.assertAlmostEqual(worst_awake(run, [(10, 30)], 0.02), 0.03)  # too many

    def test_deferred_weights_take_the_simulated_time(self):
        # Many near ties of a W and the pass that should go before it: each that goes wrong costs a whole operation.
        plan = self.compile(SPECS / "1f1b.yaml", pipeline__ranks=8, pipeline__microbatches=24, backward="split",
                            weights="fill", costs__forward="10ms", costs__backward_input="10ms",
                            costs__backward_weight="10ms", costs__link="{latency: 0us}")
        self.measure("carry, 8 ranks, weights: fill, 10 ms", 0.05, plan, worst_deviation, "--steps", 50)

    def test_steps_with_an_all_reduce_take_the_simulated_time(self):
        plan = self.compile(SPECS / "1f1b.yaml", costs__forward="5ms", costs__backward_input="5ms",
                            costs__backward_weight="5ms", costs__optimizer="{time: 2ms, global_norm: true}",
                            costs__link="{latency: 200us, bandwidth: 10GB/s}")
        self.measure("carry, 4 ranks, global norm", 0.02, plan, worst_deviation, "--steps", 500)

    def test_naive_steps_take_little_more(self):
        self.measure("naive, 4 ranks, 20 ms", 0.03, self.plan_of(4, "20ms"), worst_deviation, "--emulate", "naive",
                     "--steps", 50)

    def test_waiting_costs_no_processor(self):
        # Operations are waits, so that a rank does nothing but wait, and start, which is spread over some five seconds.
        self.measure("processor of the busiest rank, 50 ms", 0.01, self.plan_of(4, "50ms"),
                     lambda run: max(run["idle_cpu"]), "--steps", 50)


if __name__ == "__main__":
    unittest.main()
