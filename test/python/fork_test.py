"""Children that the program forks: neither what they do with their copies of a run and a plan nor their end harms the parent's."""
import atexit
import os
import pathlib
import shutil
import signal
import tempfile
import time
import unittest

import torch

import pipec
import pipec.torch
from runs import spec


def ended(child):
    """The exit code of a forked child; one that hangs is killed."""
    end = time.monotonic() + 600
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(found[1])


class ForkTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pipec-test-"))  # which no child removes
        self.addCleanup(shutil.rmtree, self.folder)
        path = self.folder / "spec.yaml"
        path.write_text(spec("1f1b", 1, costs=", optimizer: 1ms"), encoding="utf-8")
        self.plan = pipec.compile(path)

    def forked(self, act):
        """What a child that does this exits with: like a program that ends, finalizers included."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                act()
                code = 0
            finally:
                atexit._run_exitfuncs()  # of weakref.finalize too
                os._exit(code)
        return ended(child)

    def test_a_plan_outlives_the_child(self):
        self.assertEqual(self.forked(lambda: None), 0)

        def drop():
            self.plan = None
        self.assertEqual(self.forked(drop), 0)
        self.assertTrue(self.plan.path.exists())
        self.assertEqual(self.plan.report()["stages"], 1)
        folder = self.plan.path.parent
        self.plan = None
        self.assertFalse(folder.exists())

    def test_a_run_goes_on(self):
        x, states = torch.randn(8, 4), self.folder / "states"
        options = {"loss": lambda output, y: output.sum(), "progress": False,
                   "optimizer": lambda named: torch.optim.SGD([p for _, p in named], lr=0.1)}
        with pipec.torch.Run(self.plan, {0: torch.nn.Linear(4, 4)}, checkpoint=states, **options) as run:
            run.step(x, target=x)

            def leave():
                with run:
                    pass

            def fail():
                try:
                    with run:
                        raise KeyError("of the child")
                except KeyError:
                    pass

            def step():
                with self.assertRaisesRegex(pipec.Error, r"the run is of process \d+, this is its child"):
                    run.step(x, target=x)
            for act in (run.close, leave, fail, step, lambda: None):
                self.assertEqual(self.forked(act), 0)
                self.assertTrue((states / "lock").exists())
            run.step(x, target=x)
        self.assertEqual(run.steps_done, 2)


if __name__ == "__main__":
    unittest.main()
