"""What is wrong is said with its place, ends with its own exit code, and leaves nothing half-written."""
import json
import resource
import subprocess
import unittest

from support import BIN, CHECK, HANG, INPUT, RUN, SPECS, USAGE, ToolTest
from timing import judge

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

    def test_a_search_where_nothing_fits(self):
        tight = ("search", SPECS / "1f1b-split.yaml", "--set", "memory.limit=100MiB")
        self.assertIn("324 MiB (339738624B) is the least that does", self.pipec(*tight, code=CHECK).stdout)
        self.assertTrue(all("error" in each for each in
                            json.loads(self.pipec(*tight, "--json", code=CHECK).stdout)["schedules"]))

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

    def test_bad_specs(self):
        """What a user can type or a file can hold, each with its place; soon, and in little memory."""
        mebi = 1 << 20

        def placed(placement):
            return SPEC.replace("ranks: 4", f"ranks: 4\n  placement: {placement}").replace("1f1b", "gpipe")

        bomb = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(20))
        cases = {
            "negative cost": (SPEC.replace("forward: 1ms", "forward: -1ms"), "6:12", "-1ms"),
            "wrong unit": (SPEC.replace("forward: 1ms", "forward: 1MB"), "6:12", "1MB"),
            "list of the wrong length": (SPEC.replace("forward: 1ms", "forward: [1ms, 2ms]"), "6:12", "4"),
            "stage on two ranks": (placed("[[0], [1], [1], [2]]"), "4:26", "stage 1"),
            "missing stage": (placed("[[0], [1], [2], [4]]"), "4:14", "stage 3"),
            "rank without a stage": (placed("[[0], [1], [2], []]"), "4:30", "empty"),
            "contradiction of the placement": (SPEC.replace("ranks: 4", "ranks: 4\n  placement: v"), "4:14", "1f1b"),
            "contradiction of the chunks": (SPEC.replace("ranks: 4", "ranks: 4\n  stages_per_rank: 2"), "4:20", "1f1b"),
            "empty": ("", "1:1", "empty"),
            "only comments": ("# nothing\n", "1:1"),
            "not a map": ("- 1\n", "1:1", "a list"),
            "two documents": (SPEC + "---\n" + SPEC, "12:1", "second document"),
            "binary": (bytes(range(256)) * 400, "1:1", "UTF-8"),
            "a NUL": (SPEC.replace("1ms", "1\0ms"), "6:13", "0x00"),
            "UTF-16": (SPEC.encode("utf-16"), "1:1", "UTF-8"),
            "100 MB": (b"# " + b"x" * (100 * mebi), "1:1", "16 MiB"),
            "all lines": (b"\n" * (15 * mebi) + b"x", "2097152:1", "lines"),
            "YAML bomb": (bomb, None, "values"),
            "an alias of itself": (SPEC + "variants: &v [*v]\n", "12:15", "alias"),
            "deep lists": ("x: " + "[" * 1_000_000, None, "64 levels"),
            "deep maps": ("x: " + "{a: " * 500_000, None, "64 levels"),
            "deep blocks": ("".join(" " * i + "a:\n" for i in range(2_000)), None, "64 levels"),
            "deep keys": ("? " * 500_000, None, "64 levels"),
            "a long number": (SPEC.replace("1ms", "9" * 1_000_000 + "ms"), "6:12", "10^18"),
            "not a number": (SPEC.replace("1ms", "nanms"), "6:12", "nanms"),
            "a tag": (SPEC.replace("1ms", "!!str 1ms"), "6:12", "tags"),
            "too many ranks": (SPEC.replace("ranks: 4", "ranks: 65537"), "3:10", "65536"),
            "no ranks": (SPEC.replace("ranks: 4", "ranks: 0"), "3:10", "65536"),
            "too many instructions": (SPEC.replace("ranks: 4", "ranks: 65536").replace("microbatches: 8",
                                                                                       "microbatches: 1048576"),
                                      "4:17", "instructions"),
            "more than any memory": (SPEC.replace("ranks: 4", "ranks: 2000").replace("microbatches: 8",
                                                                                     "microbatches: 500000"),
                                     "4:17", "GiB of memory"),
            "a long step": (SPEC.replace("  forward", "  link: {latency: 900000s}\n  forward"), "6:3", "longer than"),
            "no such order": (SPEC.replace("1f1b", "{name: order, file: none.csv}"), "11:31", "none.csv"),
            "an endless order": (SPEC.replace("1f1b", "{name: order, file: /dev/zero}"), "11:31", "is a device"),
        }
        longest = 0
        for name, (text, place, *words) in cases.items():
            with self.subTest(name):
                spec = self.folder / "bad.yaml"
                spec.write_bytes(text if isinstance(text, bytes) else text.encode())
                used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                done = self.pipec("compile", spec, "-o", self.folder / "out", code=INPUT)
                used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used
                self.assertRegex(done.stderr, rf"{spec}:{place or '[0-9]+:[0-9]+'}: error: ")
                for word in words:
                    self.assertIn(word, done.stderr)
                self.assertFalse((self.folder / "out").exists())
                longest = max(longest, used)
                self.assertLess(len(done.stderr), 10_000)
        judge(self, f"the longest took {longest:.2f} s of a processor, of 5 s", longest / 5, 1)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 1 << 20)  # KiB, the largest child

    def test_bad_orders(self):
        order = SPEC.replace("ranks: 4", "ranks: 2").replace("microbatches: 8", "microbatches: 1").replace(
            "1f1b", "{name: order, file: x.csv}")
        cases = {
            "B before F": ("0F0,0B0\n1B0,1F0\n", "2:1", "1B0 comes before its forward 1F0"),
            "a stage on two ranks": ("0F0,1F0,1B0,0B0\n1F0,1B0\n", "2:1", "stage 1 is on rank 0"),
            "a missing stage": ("0F0,0B0\n2F0,2B0\n", "2:1", "stage 1"),
            "a missing backward": ("0F0,0B0\n1F0\n", "2:1", "1F0 has no backward"),
            "twice the same": ("0F0,0F0,0B0\n1F0,1B0\n", "1:5", "0F0"),
            "no action": ("0F0,junk\n1F0,1B0\n", "1:5", "junk"),
            "empty": ("", "1:1", "empty"),
            "binary": (bytes(range(256)), "1:1", "expected an action"),
            "a byte order mark": ("\ufeff0F0,0B0\n1F0,1B0\n", "1:1", "byte order mark"),
            "an open quote": ('0F0,0B0\n1F0,1B0,"\n', "2:9", "expected a closing quote"),
            "a huge number": ("0F99999999999999999999,0B0\n1F0,1B0\n", "1:1", "expected an action"),
            "one line of commas": ("," * 10_000_000, "1:1", "no action"),
        }
        spec = self.spec(order)
        for name, (text, place, *words) in cases.items():
            with self.subTest(name):
                csv = self.folder / "x.csv"
                csv.write_bytes(text if isinstance(text, bytes) else text.encode())
                done = self.pipec("compile", spec, "-o", self.folder / "out", code=INPUT)
                self.assertIn(f"{csv}:{place}: error: ", done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_traces_of_strangers(self):
        """Little more memory than its text has; and not too long a one."""
        plan = self.compile(SPECS / "1f1b.yaml")
        trace = self.folder / "trace.json"
        event = '{"ph":"X","pid":0,"ts":1,"dur":2,"args":{"step":0,"stage":0,"kind":"F","microbatch":0}}'
        many = 5_000_000
        for text in (f'{{"x":[{"{},[]," * many}0],"traceEvents":[{event}]}}',
                     f'{{"traceEvents":[{"[]," * many}{event}]}}',
                     f'{{"traceEvents":[{{"x":[{"{}," * many}0]}},{event}]}}',
                     f'{{"x":{"[" * many}{"]" * many},"traceEvents":[{event}]}}'):
            trace.write_text(text)
            done = self.pipec("show", plan, "--trace", trace, code=INPUT,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20)))
            self.assertNotIn("out of memory", done.stderr)
        with open(trace, "wb") as file:
            file.truncate((1 << 30) + 1)
        self.assertIn("longer than 1073741824 bytes, which is the most; a run of fewer steps has a shorter trace",
                      self.pipec("show", plan, "--trace", trace, code=INPUT).stderr)

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

    def test_a_scenario_names_its_place_also_at_its_very_beginning(self):
        spec, network = self.spec(SPEC), self.folder / "net.json"
        network.write_text("{}")
        for tool, *arguments in (["pipec", "report", spec], ["piperun", self.compile(SPEC), "--local"]):
            done = self.run_tool(tool, *arguments, "--network", network, code=INPUT)
            self.assertIn(f"{network}:1:1: error: key 'scenario' is missing", done.stderr)

    def test_a_plan_that_is_not_there(self):
        for tool in (("piperun", "none.pipe", "--local"), ("pipec", "verify", "none.pipe")):
            done = self.run_tool(*tool, code=INPUT)
            self.assertRegex(done.stderr, r"^none\.pipe(:1:1)?: error: ")

    def test_what_cannot_be_written_is_said_before_the_work(self):
        for output in (self.folder / "none" / "x.csv", self.folder):
            done = self.pipec("search", SPECS / "auto.yaml", "--exact", "--time", "100000s", "-o", output, code=INPUT)
            self.assertIn(f"{output}: error: cannot write: ", done.stderr)

    def test_an_order_that_is_read_is_not_overwritten(self):
        order = self.folder / "order.csv"
        self.pipec("compile", self.spec(SPEC), "--emit=torch-csv-compute", "-o", order)
        before = order.read_bytes()
        spec = self.spec(SPEC.replace("schedule: 1f1b", "schedule: {name: order, file: order.csv}"))
        for emit in ("plan", "svg", "torch-csv"):
            done = self.pipec("compile", spec, "--emit", emit, "-o", order, code=USAGE)
            self.assertIn("would overwrite", done.stderr)
            self.assertEqual(order.read_bytes(), before)

    def test_output_that_is_full(self):
        for arguments in (["pipec", "schedules"], ["pipec", "schedules", "--json"], ["pipec", "--help"],
                          ["pipec", "--version"], ["piperun", "--help"], ["piperun", "--man"],
                          ["piperun", "--completion", "bash"]):
            with self.subTest(arguments), open("/dev/full", "w", encoding="utf-8") as full:
                done = self.run_tool(*arguments, code=RUN, capture_output=False, stdout=full, stderr=subprocess.PIPE)
                self.assertIn("cannot write to standard output", done.stderr)

    def test_names_that_are_no_utf_8(self):
        for arguments in (["report", b"no\xff.yaml"], ["report", SPECS / "1f1b.yaml", "--set", b"sche\xff=1"]):
            done = subprocess.run([BIN / "pipec", *arguments, "--json"], capture_output=True, timeout=HANG, check=False)
            self.assertEqual((done.returncode, json.loads(done.stdout)["code"]), (INPUT, INPUT))

    def test_a_search_that_finds_nothing(self):
        for json_too in ([], ["--json"]):
            self.pipec("search", SPECS / "1f1b-split.yaml", "--set", "memory.limit=100MiB", *json_too, code=CHECK)

    def test_a_search_is_of_one_spec(self):
        done = self.pipec("search", SPECS / "kfkb-variants.yaml", code=INPUT)
        self.assertIn("leave 'variants' out", done.stderr)

    def test_more_bytes_than_are_counted(self):
        done = self.pipec("report", self.spec(SPEC.replace("activation: 1GiB", "activation: 1048576TiB").replace(
            "memory: {limit: 16GiB}\n", "")), code=CHECK)
        self.assertIn("rank 0 needs more than 1048576 TiB, which is the most", done.stderr)

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
        self.assertRegex(done.stderr, "rank [0-3]: --device=cuda: (libcuda.so.1 12.3 or newer is needed|there is no CUDA device)")

    def test_pipe_opt_refuses_what_is_no_ir(self):
        self.assertTrue((BIN / "pipe-opt").exists())
        done = self.run_tool("pipe-opt", self.spec("pipe.bogus\n"), code=1)
        self.assertIn("spec.yaml:1:1: error: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
