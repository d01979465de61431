"""What is wrong is said with its place, ends with its own exit code, and leaves nothing half-written."""
import json
import unittest

from support import BIN, CHECK, INPUT, RUN, SPECS, USAGE, ToolTest

SPEC = """\
pipec: 1
pipeline:
  ranks: 4
  microbatches: 8
costs:
  forward: 1ms
  backward: 2ms
tensors:
  activation: 1GiB
memory: {limit: 16GiB}
schedule: 1f1b
"""


class ErrorsTest(ToolTest):
    def refused(self, text, code, place, *words):
        """Compiling the text ends with the code, names the place and the words, and writes nothing."""
        spec = self.spec(text)
        for emit in ("plan", "perfetto"):
            done = self.pipec("compile", spec, "-o", self.folder / "out", "--emit", emit, code=code)
            self.assertEqual(done.stdout, "")
            self.assertIn(f"{spec}:{place}: error: ", done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
        self.assertEqual([each.name for each in self.folder.iterdir()], [spec.name])
        done = self.pipec("report", spec, "--json", code=code)
        failure = json.loads(done.stdout)
        self.assertEqual({"error", "code", "file", "line", "column"}, failure.keys())
        self.assertEqual(f"{failure['file']}:{failure['line']}:{failure['column']}", f"{spec}:{place}")
        self.assertEqual(failure["code"], code)

    def test_memory_over_the_limit(self):
        # Rank 0 holds four activations of 1 GiB.
        self.refused(SPEC.replace("16GiB", "3GiB"), CHECK, "10:17", "4 GiB", "3 GiB", "rank 0")

    def test_unknown_key_with_the_nearest_one(self):
        self.refused(SPEC.replace("tensors:", "  optimiser: 1ms\ntensors:"), INPUT, "8:3", "optimiser", "'optimizer'")

    def test_number_without_a_unit(self):
        self.refused(SPEC.replace("forward: 1ms", "forward: 1"), INPUT, "6:12")

    def test_key_given_twice(self):
        self.refused(SPEC + "schedule: gpipe\n", INPUT, "12:1", "schedule")

    def test_unknown_schedule_with_the_nearest_one(self):
        self.refused(SPEC.replace("1f1b", "1f1c"), INPUT, "11:11", "1f1b")

    def test_not_yaml(self):
        self.refused("pipec: [1\n", INPUT, "2:1")

    def test_an_older_plan_stays_when_compiling_fails(self):
        plan = self.compile(SPEC)
        before = plan.read_bytes()
        self.pipec("compile", self.spec(SPEC.replace("16GiB", "3GiB")), "-o", plan, code=CHECK)
        self.assertEqual(plan.read_bytes(), before)

    def test_a_folder_that_is_not_there(self):
        done = self.pipec("compile", SPECS / "1f1b.yaml", "-o", self.folder / "none" / "x.pipe", code=INPUT)
        self.assertIn("x.pipe", done.stderr)

    def test_a_file_that_is_not_there(self):
        for arguments in (["pipec", "compile"], ["pipec", "report"], ["pipec", "show"], ["pipec", "verify"],
                          ["pipec", "disasm"], ["piperun", "--local"]):
            with self.subTest(arguments):
                done = self.run_tool(*arguments, self.folder / "none.yaml", code=INPUT)
                self.assertIn("none.yaml", done.stderr)

    def test_wrong_usage(self):
        plan = self.compile(SPEC)
        for arguments in (["pipec"], ["pipec", "compile"], ["pipec", "compile", plan, "--bogus"], ["pipec", "bogus"],
                          ["pipec", "compile", plan, "--emit=bogus"], ["piperun"], ["piperun", plan, "--steps", "0"],
                          ["piperun", plan, "--local", "--bogus"], ["piperun", plan, "--local", "--emulate=bogus"]):
            with self.subTest(arguments):
                done = self.run_tool(*arguments, code=USAGE)
                self.assertEqual(done.stdout, "")
                self.assertNotEqual(done.stderr, "")

    def test_help_and_version(self):
        for tool in ("pipec", "piperun"):
            self.assertIn("Exit codes", self.run_tool(tool, "--help").stdout)
            self.assertRegex(self.run_tool(tool, "--version").stdout, rf"^{tool} \d+\.\d+\.\d+\n$")

    def test_damaged_plans(self):
        good = self.compile(SPEC).read_bytes()
        middle = len(good) // 2
        damaged = {
            "empty": b"",
            "header alone": good[:8],
            "truncated": good[:middle],
            "longer": good + b"\0",
            "another major version": good[:8] + b"\xff\xff" + good[10:],
            "one bit": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:],
            "a spec": SPEC.encode(),
        }
        for name, data in damaged.items():
            path = self.folder / "damaged.pipe"
            path.write_bytes(data)
            for arguments in (["pipec", "verify"], ["pipec", "disasm"], ["piperun", "--local"]):
                with self.subTest(name, arguments=arguments):
                    done = self.run_tool(*arguments, path, code=INPUT)
                    self.assertIn("damaged.pipe", done.stderr)
            with self.subTest(name, arguments="--json"):
                failure = json.loads(self.piperun("--local", "--json", path, code=INPUT).stdout)
                self.assertEqual((failure["code"], failure["file"]), (INPUT, str(path)))

    def test_no_device_no_run(self):
        plan = self.compile(SPEC)
        done = self.piperun(plan, "--local", "--device=cuda", code=RUN)
        self.assertIn("--device=host", done.stderr)

    def test_pipe_opt_refuses_what_is_no_ir(self):
        self.assertTrue((BIN / "pipe-opt").exists())
        done = self.run_tool("pipe-opt", self.spec("pipe.bogus\n"), code=1)
        self.assertIn("spec.yaml:1:1: error: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
