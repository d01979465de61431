"""What a compile needs of memory is known before it begins: more than there is is refused, with the estimate."""
import json
import os
import re
import resource
import subprocess
import unittest

from support import BIN, INPUT, SPECS, ToolTest

MANY = ("--set", "pipeline.microbatches=1048576", "--set", "memory.limit=100TiB")
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


def within(size):
    """For preexec_fn: so many bytes of addresses."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))


class MemoryTest(ToolTest):
    def refused(self, *arguments, memory, **options):
        """The message of a command that this memory is too little for."""
        return self.pipec(*arguments, code=INPUT, preexec_fn=within(memory), **options)

    def test_more_than_there_is_is_refused_before_anything_is_made(self):
        for name in ("v-min", "1f1b", "auto", "chimera"):
            with self.subTest(name):
                spec = SPECS / f"{name}.yaml"
                done = self.refused("compile", spec, *MANY, "-o", self.folder / "plan.pipe", memory=2 << 30)
                # --set has no lines: the place is in what was set.
                self.assertRegex(done.stderr, r"^--set pipeline\.microbatches=1048576:1:1: error: compiling \d+ stages and \d+ "
                                 r"microbatches takes about [\d.]+ GiB of memory, found [\d.]+ \w+ of this process "
                                 r"\(ulimit -v\): expected fewer microbatches or stages, or more memory\n$")
        self.assertEqual(list(self.folder.iterdir()), [])
        large = self.spec((SPECS / "v-min.yaml").read_text().replace("microbatches: 24", "microbatches: 1048576"))
        done = self.refused("report", large, "--json", memory=2 << 30)
        failure = json.loads(done.stdout)
        self.assertEqual((failure["file"], failure["line"], failure["column"]), (str(large), 8, 17))
        # No schedule of a search has a plan here. The building block alone needs no programs.
        done = self.pipec("search", SPECS / "zb-h1.yaml", *MANY, "--exact", code=INPUT, preexec_fn=within(2 << 30))
        self.assertIn("of memory, found", done.stderr)
        self.assertIn("pipe.pipeline", self.pipec("compile", large, "--emit=pipe", preexec_fn=within(2 << 30)).stdout)

    def test_the_estimate_is_near_the_peak(self):
        for name, microbatches in (("1f1b", 16384), ("zb-h1", 8192), ("v-min", 4096), ("dualpipe", 16384), ("auto", 8192)):
            with self.subTest(name):
                command = ["compile", SPECS / f"{name}.yaml", "-o", self.folder / "plan.pipe",
                           "--set", f"pipeline.microbatches={microbatches}", "--set", "memory.limit=100TiB"]
                said = re.search(r"takes about ([\d.]+) (\w+) of memory", self.refused(*command, memory=112 << 20).stderr)
                estimate = float(said[1]) * UNITS[said[2]]
                process = subprocess.Popen([BIN / "pipec", *map(str, command)], stderr=subprocess.DEVNULL)
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                self.assertEqual(process.returncode, 0)
                peak = usage.ru_maxrss * 1024
                self.assertLess(peak, 2 * estimate)
                self.assertGreater(peak, estimate / 2)


if __name__ == "__main__":
    unittest.main()
