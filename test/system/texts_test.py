"""For every example spec: the passes run one by one in pipe-opt, text in and text out, give the programs that `pipec compile
--emit=programs` emits."""
import glob
import os
import re
import subprocess
import unittest

from support import SMALLER, SOURCE, sets, tool

PASSES = ["build-schedule", "insert-communication", "overlap-communication", "allocate-slots", "check-length",
          "check-memory", "check-deadlock", "open-windows"]


# Made from widths, without a pipeline; their text does not say enough to be read again.
NOT_READ = ["burst.yaml"]


def modules(text):
    """The modules of a text, one a variant."""
    return [each for each in re.split(r"(?m)^(?=module )", text) if each.strip()]


class Texts(unittest.TestCase):
    def test_passes_alone_give_what_compile_emits(self):
        specs = sorted(each for each in glob.glob(os.path.join(SOURCE, "specs", "*.yaml"))
                       if os.path.basename(each) not in NOT_READ)
        self.assertTrue(specs)
        compared = 0
        for spec in specs:
            with self.subTest(spec=os.path.basename(spec)):
                smaller = sets(SMALLER.get(os.path.basename(spec), {}))
                designs, programs = (modules(tool("pipec", "compile", spec, *smaller, f"--emit={kind}").stdout)
                                     for kind in ("pipe", "programs"))
                self.assertEqual(len(designs), len(programs))
                for text, wanted in zip(designs, programs):
                    for each in PASSES:
                        text = tool("pipe-opt", "-", f"--pipe-{each}", input=text).stdout
                    self.assertEqual(text.split(), wanted.split())
                    compared += 1
        self.assertGreater(compared, len(specs) // 2)


if __name__ == "__main__":
    unittest.main()
