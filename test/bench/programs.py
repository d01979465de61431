"""The programs that benchmarks call: what one prints; where one fails, the benchmark ends and says why."""
import json
import pathlib
import subprocess
import sys


class Programs:
    def __init__(self, binaries):
        self.binaries = pathlib.Path(binaries)

    def printed(self, name, *arguments):
        done = subprocess.run([self.binaries / name, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name} {' '.join(map(str, arguments))}\n{done.stderr}")
        return done.stdout

    def told(self, name, *arguments):
        """Of a program that prints JSON."""
        return json.loads(self.printed(name, *arguments, "--json"))
