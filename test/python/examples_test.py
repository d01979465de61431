"""The example programs train, as they stand: one pipeline, and two in a mesh that shard their layers; a checkpoint goes on."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

from runs import HANG, FolderTest

EXAMPLES = pathlib.Path(os.environ.get("PIPEC_SOURCE", pathlib.Path(__file__).resolve().parents[2])) / "specs" / "pytorch"


class ExamplesTest(FolderTest):
    def train(self, example, processes, *arguments):
        """The loss that the program prints."""
        known = {key: value for key, value in os.environ.items() if key != "PIPEC_SECRET"}
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1",
                               f"--nproc-per-node={processes}", EXAMPLES / example / "train.py", *arguments],
                              cwd=self.folder, env=known, capture_output=True, text=True, timeout=HANG, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return float(re.search(r"^loss of the last step: (\S+) nats a byte$", done.stdout, re.M)[1])

    def test_gpt_with_its_profile_and_a_checkpoint(self):
        options = ["--profile", EXAMPLES / "gpt" / "gpt.yaml", "--checkpoint", self.folder / "states"]
        first = self.train("gpt", 2, *options, "--steps", "2")
        self.assertLess(self.train("gpt", 2, *options, "--steps", "4"), first)

    def test_llama_in_a_mesh(self):
        self.assertLess(self.train("llama", 4, "--shards", "2", "--schedule", "zb-h1", "--steps", "3"), 5.6)

    def test_the_programs_are_short(self):
        for example in ("gpt", "llama"):
            text = (EXAMPLES / example / "train.py").read_text(encoding="utf-8")
            self.assertLess(text.count("\n"), 60, example)


if __name__ == "__main__":
    unittest.main()
