"""What takes longer than a pass may, but is none, ends no training: saving, and what a program does between two steps. And a
program may give up a run that waits."""
import signal
import time
import unittest

from runs import HANG, ROWS, RunsTest, spec

SCALES = (1, 4, 16)  # of all times: a busy machine needs longer ones
DEADLINE, LONG = 1, 2.5  # seconds


class WaitsTest(RunsTest):
    def case(self, **more):
        return {"plan": self.plan(spec("1f1b", 2)), "layers": 2, "steps": 3, "rows": ROWS, "seed": 7, **more}

    def goes_on(self, says, **slow):
        """What is slow, {what: where}, takes longer than the deadline, and who waits for it says so."""
        for scale in SCALES:
            processes = self.begin(2, [self.case(deadline=scale * DEADLINE, checkpoint=str(self.folder / f"states-{scale}"),
                                                 **{what: [*where, scale * LONG] for what, where in slow.items()})])
            errors = [said[0].get("error") for said in self.end(processes)]
            if errors == [None, None]:
                return self.assertRegex(self.said_by(processes[0])[1], says)
        self.fail(errors)

    def test_a_rank_that_saves_for_longer_than_the_deadline(self):
        self.goes_on(r"rank 1 .*saves its state \(", saves=[1])

    def test_a_rank_that_evaluates_between_two_steps_for_longer_than_the_deadline(self):
        self.goes_on(r"rank 1 .*is between two steps \(", evaluates=[1, 1])

    def test_a_run_whose_host_is_not_known_ends_with_its_program(self):
        places = self.places("torchrun", 2)
        self.places = lambda launcher, world: [{**place, "MASTER_ADDR": "no.such.invalid"} for place in places]
        processes = self.begin(2, [self.case()])
        for process in processes:
            end = time.monotonic() + HANG
            while "waiting for the host of rank 0" not in self.said_by(process)[1] and time.monotonic() < end:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            self.assertNotEqual(process.wait(timeout=HANG), 0)
            self.assertRegex(self.said_by(process)[1],
                             r"waiting for the host of rank 0, no\.such\.invalid, to be known: (.*\n)*KeyboardInterrupt")


if __name__ == "__main__":
    unittest.main()
