"""piperun without the compiler: the plan kept of the first format runs, and what is wrong is refused."""
import json
import shutil
import unittest

from support import GOLDEN, INPUT, USAGE, ToolTest


class GoldenTest(ToolTest):
    def test_the_kept_plan_runs(self):
        run = self.run_json(GOLDEN, "--steps", 3)
        self.assertEqual(len(run["step_ms"]), 3)

    def test_its_trace_is_written(self):
        self.run_json(GOLDEN, "--steps", 1, "--trace", self.folder / "trace.json")
        self.assertTrue(json.loads((self.folder / "trace.json").read_text())["traceEvents"])

    def test_a_damaged_copy_is_refused(self):
        copy = self.folder / "copy.pipe"
        shutil.copy(GOLDEN, copy)
        with open(copy, "r+b") as file:
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))
        self.assertIn("copy.pipe: error: ", self.piperun(copy, "--local", code=INPUT).stderr)

    def test_wrong_usage_is_refused(self):
        self.piperun(GOLDEN, "--bogus", code=USAGE)


if __name__ == "__main__":
    unittest.main()
