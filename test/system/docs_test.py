"""The documents: what tools write is current, and every command line in CONTRIBUTING.md and in the README.md of any folder
does what stands there.

Commands are the lines of ```sh blocks, those after "$ " in ```console blocks, whose output is compared, and code in running
text and tables that begins with one of our programs. They run in order in a folder that looks as the repository does after
tools/quickstart. Three kinds do not run here, each held to what can be:
  patterns (`pipec compile SPEC`): command and options must be in --help;
  what installs, builds or tests the whole (tools/test, cmake, ninja, …), which CI itself does: scripts, presets, targets and
  test names must exist;
  what takes long or other programs (SLOW, ELSEWHERE): run with PIPEC_SOAK=1 (tools/soak), or by the test named there.
"""
import json
import re
import shlex
import subprocess
import unittest

import documents
from support import BIN, HANG, PATIENCE, SOAK, SOURCE, ToolTest

PROGRAMS = (r"(?:(?:[A-Z_]+=\S+ )?python3|pipec|piperun|pipe-opt|tools/\w+|\.ci/run|cmake|ninja|ctest|torchrun|mpirun|"
            r"build/\S+/bin/\S+)")
BUILDS = ("tools/quickstart", "tools/test", "tools/setup", "tools/soak", ".ci/run", "cmake", "ninja", "ctest")
SLOW = ("pipeline.ranks=1024", "recompute.yaml --sweep memory")
# What needs programs or rights that are not there everywhere → the test that runs the like.
ELSEWHERE = {"torchrun": "torch_test.py", "mpirun": "launch_test.py", "build/release/bin/bench-": "CMakeLists.txt"}
PLACEHOLDER = re.compile(r"(?<![\w./{-])(?:[A-Z][A-Z_]+|[A-Z])(?![\w}])|…")
READMES = sorted(str(each.relative_to(SOURCE)) for each in SOURCE.rglob("README.md")
                 if not str(each.relative_to(SOURCE)).startswith(("build", ".")))
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)


def shell_lines(block):
    """Commands of a block, continued lines joined, comments away."""
    for line in block.replace("\\\n", " ").splitlines():
        line = re.sub(r"\s+# .*$", "", line).strip()
        if line and not line.startswith("#"):
            yield line


def consoles(block):
    """(command, its output) of each "$ " line."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output.rstrip()


def inline(text):
    """Code in running text and tables that begins as one of our commands does."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for code in re.findall(r"`([^`]+)`", text):
        code = code.replace("\\|", "|").replace("\n", " ")
        if re.match(PROGRAMS + r"\s+\S", code):
            yield code


def commands(text):
    """(command, output or None) of a document, as they stand in it: the blocks first, on whose files text relies. A
    block of shell is one script, but where its lines build, which are looked at one by one."""
    for kind, block in re.findall(r"^```(sh|console)\n(.*?)^```", text, re.M | re.S):
        if kind == "console":
            yield from consoles(block)
            continue
        lines = list(shell_lines(block))
        if any(line.startswith(BUILDS) for line in lines):
            yield from ((line, None) for line in lines)
        else:
            yield "set -e\n" + "\n".join(lines), None
    for code in inline(text):
        for each in code.split("; "):
            yield each, None


def is_pattern(command):
    """Words in capitals are to be filled in; a command without what it is to work on is a mention."""
    return bool(re.fullmatch(r"(pipec|piperun) \w+( --[\w=-]+)*", command)) or bool(PLACEHOLDER.search(re.sub(r"'[^']*'", "", command)))


def masked(text, numbers):
    text = documents.VARYING.sub("#", text)
    return re.sub(r"[ -]+", " ", NUMBER.sub("#", text)) if numbers else text


class DocsTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.environment = documents.repository(self.folder)
        # piperun with more patience, where a command leaves its deadline open: the machine may be busy.
        patient = self.folder / "patient"
        patient.mkdir()
        (patient / "piperun").write_text('#!/bin/sh\ncase " $* " in *" --deadline "*) ;; *" --local "*) set -- "$@" --deadline '
                                         f'{PATIENCE} ;; esac\nexec {shlex.quote(str(BIN / "piperun"))} "$@"\n')
        (patient / "piperun").chmod(0o755)
        self.environment["PATH"] = f"{patient}:{self.environment['PATH']}"
        self.helps = {}

    def shell(self, command):
        return subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, timeout=HANG)

    def help_of(self, *program):
        if program not in self.helps:
            self.helps[program] = self.shell(shlex.join([*program, "--help"])).stdout
        return self.helps[program]

    def check_options(self, words, help_text, command):
        for word in words:
            option = re.match(r"(--?[a-z][\w-]*)", word)
            if option and option[1] not in ("-R", "-LE", "-V", "-j"):
                self.assertRegex(help_text, rf"{re.escape(option[1])}\b", f"{command}: no option {option[1]}")

    def check_pattern(self, command):
        """The command and its options are known."""
        words = re.sub(r"[\[\]|]|^set -e\n", " ", command).split()
        program, *rest = words
        if program == "pipec":
            self.assertIn(f"  {rest[0]} ", self.help_of("pipec") + " ", command)
            self.check_options(rest[1:], self.help_of("pipec", rest[0]), command)
        elif program in ("piperun", "pipe-opt") or program.startswith("tools/"):
            until = rest.index("--") if "--" in rest else len(rest)
            self.check_options(rest[:until], self.help_of(program), command)

    def check_build(self, command):
        """What it names is there: the script and its options, the preset, the target, the tests."""
        words = shlex.split(command)
        build = BIN.parent
        targets = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True).stdout
        program = words[0]
        if program.startswith(("tools/", ".ci/")):
            self.assertTrue((SOURCE / program).exists(), command)
            until = words.index("--") if "--" in words else len(words)
            self.check_options(words[1:until], self.help_of(str(SOURCE / program)), command)
        presets = json.loads((SOURCE / "CMakePresets.json").read_text())["configurePresets"]
        for option, value in zip(words, words[1:]):
            if option == "--preset":
                self.assertIn(value, [each["name"] for each in presets], command)
            if option == "--target" or (program == "ninja" and value.startswith(("bench", "update", "check"))):
                self.assertRegex(targets, rf"(?m)(^|/){re.escape(value)}(:|$)", f"{command}: no target {value}")
            if option == "-R":
                listed = subprocess.run(["ctest", "--test-dir", build, "-N", "-R", value], capture_output=True, text=True)
                self.assertNotIn("Total Tests: 0", listed.stdout, f"{command}: no test {value}")

    def run_command(self, command, output):
        done = documents.once(command, lambda each: self.shell("set -o pipefail; " + each))
        if "--exact" in command and "built without" in done.stderr:
            return  # the solver is optional
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        if output:
            real = (done.stderr + done.stdout if command.startswith("pipec compile") else done.stdout).rstrip()
            measured = command.startswith("piperun")
            self.assertEqual(masked(output, measured), masked(real, measured), command)

    def check_script(self, command):
        """A measurement that takes minutes: it is there, and reads these options."""
        script, *options = shlex.split(command.split("python3 ", 1)[1])
        text = (SOURCE / script).read_text()
        for option in options:
            if option.startswith("-"):
                self.assertIn(f'"{option}"', text, command)

    def check_netlab(self, command):
        """Its network is built for nothing, where this machine can; the program's options are known."""
        own, _, of_program = command.partition(" -- ")
        done = self.shell(f"{own} -- true")
        self.assertIn(done.returncode, (0, 77), f"{command}\n{done.stderr}")
        self.check_pattern(of_program)

    def check(self, command, output):
        if re.match(r"(?:\w+=\S+ )?python3 test/bench/", command):
            return self.check_script(command)
        if is_pattern(command):
            return self.check_pattern(command)
        if command.startswith("tools/netlab "):
            return self.check_netlab(command)
        if "\ntorchrun " in command:  # what stands around it needs what it writes
            for line in shell_lines(command.removeprefix("set -e\n")):
                if line.startswith("torchrun "):
                    self.check(line, "")
                elif not line.startswith("cd "):
                    self.check_pattern(line)
            return None
        parts = [part.strip() for part in command.split("&&")]
        if all(part.startswith(BUILDS) for part in parts):
            for part in parts:
                self.check_build(part)
            return None
        for start, where in ELSEWHERE.items():
            if any(part.startswith(start) for part in parts):
                folder = "bench" if where == "CMakeLists.txt" else "system"
                words = start.removeprefix("build/release/bin/").removeprefix("tools/")
                self.assertIn(words.rstrip("-"), (SOURCE / "test" / folder / where).read_text(), command)
                for part in parts:
                    if part.startswith(BUILDS):
                        self.check_build(part)
                return None
        if any(mark in command for mark in SLOW) and not SOAK:
            return self.check_pattern(command)
        return self.run_command(command, output)

    def check_document(self, name, least):
        found = list(commands((SOURCE / name).read_text()))
        self.assertGreaterEqual(len(found), least, "the document's commands are not found")
        done = set()
        for command, output in found:
            with self.subTest(document=name, command=command):
                if command not in done:
                    self.check(command, output)
            done.add(command)

    def test_readme(self):
        self.check_document("README.md", 10)

    def test_guide(self):
        self.check_document("specs/guide/README.md", 8)

    def test_figures(self):
        self.check_document("test/bench/README.md", 20)

    def test_pages(self):
        """Of all other folders."""
        others = [each for each in READMES if each not in ("README.md", "specs/README.md", "specs/guide/README.md", "test/bench/README.md")]
        self.assertGreater(len(others), 20)
        for name in others:
            self.check_document(name, 0)

    def test_quickstart_builds_all_programs(self):
        script = (SOURCE / "tools/quickstart").read_text()
        targets = re.search(r"cmake --build --preset release --target ([\w -]+)", script)[1].split()
        self.assertEqual(sorted(targets), ["pipe-opt", "pipec", "piperun"])

    def test_contributing(self):
        self.check_document("CONTRIBUTING.md", 5)

    def test_help(self):
        """The examples of --help."""
        names = re.findall(r"^  ([a-z]+)  ", self.help_of("pipec"), re.M)
        self.assertGreater(len(names), 8)
        for program in [("pipec",), *(("pipec", name) for name in names)]:
            examples = self.help_of(*program).partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
            self.assertGreaterEqual(len(examples), 1, program)
            for command in examples:
                with self.subTest(command=command.strip()):
                    self.run_command(command.strip(), None)

    def test_gallery(self):
        self.check_document("specs/README.md", 20)

    def test_written_documents_are_current(self):
        self.assertEqual(documents.stale(documents.documents()), [],
                         "write them anew: cmake --build BUILD --target update-gallery")

    def test_quoted_code_is_the_file_s(self):
        """A block of code is word for word in the file that was named last before it."""
        text = (SOURCE / "CONTRIBUTING.md").read_text()
        quotes = list(re.finditer(r"^```(?:cpp|tablegen|mlir)\n(.*?)^```", text, re.M | re.S))
        self.assertGreater(len(quotes), 4)
        for quote in quotes:
            named = re.findall(r"`([\w./-]+\.(?:cpp|h|td|mlir))`", text[:quote.start()])
            path = next(SOURCE / each for each in reversed(named) if "/" in each)
            self.assertIn(quote[1].strip(), path.read_text(), f"CONTRIBUTING.md quotes {path.name}")

    def test_links_lead_somewhere(self):
        for document in (*READMES, "CONTRIBUTING.md", "specs/REFERENCE.md", "runtime/plan/rules/RULES.md"):
            text = re.sub(r"^```.*?^```", "", (SOURCE / document).read_text(), flags=re.M | re.S)
            anchors = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in
                       re.findall(r"^#+ (.*)$", text, re.M)}
            for target in re.findall(r"\]\(([^)]+)\)", text):
                if target.startswith("#"):
                    self.assertIn(target[1:], anchors, document)
                elif not target.startswith("http"):
                    self.assertTrue(((SOURCE / document).parent / target.split("#")[0]).exists(), f"{document}: {target}")


if __name__ == "__main__":
    unittest.main()
