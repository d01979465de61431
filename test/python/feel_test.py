"""What a program finds in the package beside training: a version, types, log lines, instructions in a profile."""
import contextlib
import inspect
import io
import logging
import pathlib
import re
import unittest

import torch
from runs import FolderTest, spec

import pipec
import pipec.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def linear():
    return {0: torch.nn.Linear(4, 4)}


class FeelTest(FolderTest):
    def run_steps(self, steps, modules, **options):
        path = self.folder / "spec.yaml"
        path.write_text(spec("zb-h1", 1), encoding="utf-8")
        with pipec.torch.Run(pipec.compile(path), modules, loss=lambda output, y: (output - y).square().mean(), **options) as run:
            for _ in range(steps):
                run.step(torch.ones(8, 4), target=torch.ones(8, 4))

    def test_one_version_everywhere(self):
        for name, pattern in (("CMakeLists.txt", r"project\(pipec VERSION (\S+) "), ("pyproject.toml", r'^version = "(.*)"')):
            found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.M)
            self.assertEqual(found[1], pipec.__version__, name)

    def test_the_package_has_types(self):
        self.assertTrue((pathlib.Path(pipec.__file__).parent / "py.typed").exists())
        for function in (pipec.compile, pipec.load, pipec.torch.layers, pipec.torch.plan, pipec.torch.stages):
            for name, parameter in inspect.signature(function).parameters.items():
                self.assertIsNot(parameter.annotation, parameter.empty, f"{function.__name__}: {name}")
            self.assertTrue(inspect.getdoc(function), function.__name__)

    def test_a_profile_shows_instructions_by_name(self):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            self.run_steps(1, linear(), progress=False)
        names = {event.key for event in profile.key_averages()}
        for name in ("F", "B", "W"):
            self.assertIn(f"pipec: {name} stage 0 microbatch 3", names)

    def test_progress_goes_to_the_logger(self):
        logger = logging.getLogger("pipec")
        with self.assertLogs(logger, logging.INFO) as logs:
            self.run_steps(3, linear())
        self.assertRegex(logs.output[0], r"^INFO:pipec:step 2, loss \d+\.\d+, \d+ tokens/s, .* ms \(.* predicted, bubble 0 %\)")
        said = io.StringIO()
        self.addCleanup(logger.handlers.clear)
        with contextlib.redirect_stderr(said):
            logging.getLogger().handlers.clear()
            self.run_steps(3, linear())
        self.assertRegex(said.getvalue(), r"(?m)^pipec: step 2, loss ")


if __name__ == "__main__":
    unittest.main()
