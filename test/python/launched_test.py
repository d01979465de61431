"""README.md's training loop as it stands, started by torchrun, without a secret that anyone has set."""
import os
import pathlib
import re
import subprocess
import sys
import unittest
import unittest.mock

from runs import HANG, RunsTest

import pipec
from pipec.torch import meeting

ROOT = pathlib.Path(os.environ.get("PIPEC_SOURCE", pathlib.Path(__file__).resolve().parents[2]))


class LaunchedTest(RunsTest):
    def begin_program(self, text, *arguments):
        """Starts Python with a program. Gives what it said, both ways, and its exit code."""
        (self.folder / "program.py").write_text(text, encoding="utf-8")
        known = {key: value for key, value in os.environ.items() if key != "PIPEC_SECRET"}
        known["PYTHONPATH"] = f"{known.get('PYTHONPATH', '')}:{pathlib.Path(__file__).parent}"
        done = subprocess.run([sys.executable, *arguments, self.folder / "program.py"], cwd=self.folder, env=known,
                              capture_output=True, text=True, timeout=HANG, check=False)
        return done.stdout + done.stderr, done.returncode

    def test_the_loop_of_the_readme_runs_under_torchrun(self):
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
        loop = next(block for block in blocks if "run.step(" in block)
        text = loop.replace("< 300", "< 3") + 'print(f"{run.report()[\'steps\']} steps on rank {run.rank}")\n'
        said, code = self.begin_program(text, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1",
                                       "--nproc-per-node=2")
        self.assertEqual(code, 0, said)
        self.assertEqual(sorted(re.findall(r"3 steps on rank \d", said)), ["3 steps on rank 0", "3 steps on rank 1"])

    def test_without_a_secret_the_ways_to_one_are_named(self):
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("PIPEC_SECRET", None)
            with self.assertRaisesRegex(pipec.SpecError, "need a secret .*torch.distributed.init_process_group .*PIPEC_SECRET"):
                meeting.secret(None, 2)
            self.assertEqual((meeting.secret("given", 2), meeting.secret(None, 1)), ("given", None))


if __name__ == "__main__":
    unittest.main()
