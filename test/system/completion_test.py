"""Completion of the command lines of pipec and piperun in real shells, and their manual pages."""
import os
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

from support import BIN, HANG, USAGE, ToolTest

FUNCTION = """
source <(pipec completion bash)
source <(piperun --completion bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
"_$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


class CompletionTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb", "LC_ALL": "C",
                            "HOME": str(self.folder), "ZDOTDIR": str(self.folder)}

    def complete(self, *words):
        """What bash offers for the last word."""
        done = subprocess.run(["bash", "-c", FUNCTION, "bash", *words], capture_output=True, text=True, cwd=self.folder,
                              env=self.environment, timeout=HANG)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def typed(self, shell, keys, expected):
        """Types at a shell's prompt until what it shows holds what is expected."""
        master, slave = pty.openpty()
        process = subprocess.Popen(shell, stdin=slave, stdout=slave, stderr=slave, env=self.environment, cwd=self.folder,
                                   start_new_session=True)
        os.close(slave)
        shown = ""
        try:
            for key, until in keys:
                os.write(master, key.encode())
                deadline = time.monotonic() + HANG
                while not re.search(until, shown) and time.monotonic() < deadline:
                    if select.select([master], [], [], 1)[0]:
                        shown += os.read(master, 65536).decode(errors="replace")
                self.assertRegex(shown, until)
            self.assertRegex(shown, expected)
        finally:
            process.kill()
            process.wait()
            os.close(master)

    def test_commands(self):
        self.assertEqual(self.complete("pipec", "sho"), ["show"])
        self.assertIn("compile", self.complete("pipec", ""))
        self.assertEqual(self.complete("pipec", "--v"), ["--version"])

    def test_every_command_and_option_of_help(self):
        commands = re.findall(r"^  ([a-z]+)  ", self.pipec("--help").stdout, re.M)
        self.assertEqual(sorted(commands), sorted(each for each in self.complete("pipec", "") if each[0] != "-"))
        for command in commands:
            known = set(self.complete("pipec", command, "-"))
            for option in re.findall(r"^  (-[^ ]+)", self.pipec(command, "--help").stdout, re.M):
                self.assertLessEqual(set(option.split(",")), known, command)

    def test_values(self):
        self.assertEqual(self.complete("pipec", "show", "a.pipe", "--color", ""), ["auto", "always", "never"])
        self.assertEqual(self.complete("pipec", "show", "--color", "=", "al"), ["always"])
        self.assertEqual(self.complete("pipec", "show", "--color", "="), ["auto", "always", "never"])
        self.assertEqual(self.complete("pipec", "schedules", "zb-h"), ["zb-h1", "zb-h2"])
        self.assertEqual(self.complete("pipec", "man", "exp"), ["explain"])
        self.assertEqual(self.complete("pipec", "explain", "--rank", ""), [])

    def test_piperun(self):
        known = set(self.complete("piperun", "-"))
        options = re.findall(r"^  (-[^ {]+)", self.piperun("--help").stdout, re.M)
        self.assertGreater(len(options), 20)
        for option in options:
            self.assertLessEqual(set(option.split(",")), known)
        (self.folder / "mine.pipe").touch()
        self.assertEqual(self.complete("piperun", "mi"), ["mine.pipe"])
        self.assertEqual(self.complete("piperun", "mine.pipe", "--local", "--emulate", ""), ["carry", "naive"])
        self.assertEqual(self.complete("piperun", "mine.pipe", "--device", "=", "c"), ["cuda"])
        for number in ("--steps", "--deadline"):
            self.assertEqual(self.complete("piperun", "mine.pipe", number, ""), [])
        self.assertEqual(self.complete("piperun", "mine.pipe", "--trace", "mi"), ["mine.pipe"])
        # Whatever else stands on the line.
        self.assertEqual(self.piperun("mine.pipe", "--completion", "zsh").stdout, self.piperun("--completion=zsh").stdout)
        self.assertIn("not in {bash,zsh}", self.piperun("--completion", "fish", code=USAGE).stderr)

    def test_files(self):
        (self.folder / "mine.yaml").touch()
        (self.folder / "mine.pipe").touch()
        self.assertEqual(sorted(self.complete("pipec", "report", "mi")), ["mine.pipe", "mine.yaml"])
        self.assertEqual(sorted(self.complete("pipec", "show", "--trace", "mine.")), ["mine.pipe", "mine.yaml"])

    def test_at_bash_s_prompt(self):
        self.typed(["bash", "--norc", "-i"], [("source <(pipec completion bash); echo rea''dy\n", r"ready\r?\n"),
                                              ("pipec schedules looped\t", "looped-bfs")], "pipec schedules looped-bfs")

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_at_zsh_s_prompt(self):
        self.typed(["zsh", "-f", "-i"],
                   [("autoload -Uz compinit; compinit -u -D; source <(pipec completion zsh); echo rea''dy\n", r"ready\r?\n"),
                    ("pipec schedules looped\t", "looped-bfs"), ("\x15pipec exp\t", "pipec explain"),
                    ("\x15pipec show --color=alw\t", "--color=always"),
                    ("\x15source <(piperun --completion zsh)\npiperun --emulate=nai\t", "--emulate=naive")], "looped-bfs")

    def test_manual(self):
        page = self.pipec("man", "show").stdout
        self.assertTrue(page.startswith(".TH PIPEC\\-SHOW 1"))
        for option in ("\\-\\-trace", "\\-\\-emit", ".SH EXAMPLES"):
            self.assertIn(option, page)
        self.assertIn("\\fBexplain\\fR", self.pipec("man").stdout)
        page = self.piperun("--man").stdout
        self.assertTrue(page.startswith(".TH PIPERUN 1"))
        for part in ("\\-\\-checkpoint", ".SH ARGUMENTS", ".SH EXAMPLES", "Exit codes"):
            self.assertIn(part, page)
        self.assertIn("did you mean 'show'?", self.pipec("man", "shw", code=USAGE).stderr)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_manual_is_clean_roff(self):
        pages = [self.pipec("man", *filter(None, [command])).stdout for command in ("", "compile", "show", "verify")]
        for page in [*pages, self.piperun("--man").stdout]:
            done = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, capture_output=True, text=True)
            self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
