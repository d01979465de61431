"""Holds the tree to its layers: each folder includes only what the table below allows (CONTRIBUTING.md shows it for
people), and the programs need only the shared libraries they may.

  layering.py includes SOURCE_DIR             every #include against the table
  layering.py house SOURCE_DIR                names and sizes: no two sources of one name, rooms that say what they are
  layering.py needed READELF PROGRAM LIB…     PROGRAM must need none of LIB…
  layering.py itself                          the check, on includes that are known right and wrong
"""
import os
import re
import subprocess
import sys

RUNTIME = ["runtime/plan", "runtime/simulate", "runtime/trace"]
RUNTIME_REST = ["runtime/device", "runtime/library", "runtime/checkpoint", "runtime/job", "runtime/transport", "runtime/stage",
                "runtime/interpreter", "runtime/adapt", "runtime/backend", "runtime/launch"]
ALL = ["runtime", "dialects", "compiler", "tools", "test"]



def rooms(hall, names, libraries):
    """Rooms of one hall, each of which may include those before it."""
    return {f"{hall}/{name}": ([f"{hall}/{each}" for each in names[:at]], libraries) for at, name in enumerate(names)}


# Folder: what of this repository it may include beside itself, and which libraries beside the standard ones.
TABLE = {
    "runtime/plan": ([], ["flatbuffers", "zlib", "fmt"]),
    "runtime/simulate": (["runtime/plan"], ["fmt", "json"]),
    "runtime/trace": (["runtime/plan"], ["fmt", "json"]),
    **{each: (RUNTIME + RUNTIME_REST, ["fmt", "json", "spdlog", "asio", "sodium", "cuda", "nccl", "torch"])
       for each in RUNTIME_REST},
    "runtime/result": (RUNTIME + RUNTIME_REST, ["fmt", "json", "sodium"]),
    "runtime/embed": (RUNTIME + RUNTIME_REST + ["runtime/result"], ["fmt", "json", "spdlog"]),
    "dialects": ([], ["llvm", "mlir", "fmt"]),
    "compiler/spec": ([], ["llvm", "yaml-cpp", "fmt", "json"]),
    **rooms("compiler/schedule", ["model", "exchange", "cut", "recompute", "evaluate", "bounds", "improve", "construct", "catalogue", "search",
                                  "overlap", "exact"], ["llvm", "z3", "fmt"]),
    "compiler/portions": (["compiler/schedule/model", "compiler/schedule/exchange"], []),
    "compiler/burst": (["compiler/schedule/model", "compiler/schedule/exchange"], []),
    "compiler/jobs": (["runtime/plan", "runtime/simulate"], ["fmt"]),
    "compiler/program": (["dialects", "compiler/schedule", "compiler/jobs", "runtime/plan"], ["llvm", "mlir", "fmt"]),
    "compiler/shards": (["compiler/spec", "compiler/schedule", "compiler/portions", "compiler/program", "runtime/plan"],
                        ["llvm", "mlir", "fmt"]),
    "compiler/transfers": (["runtime/plan", "runtime/simulate"], []),
    "compiler/passes": (["dialects", "compiler/program", "compiler/schedule", "compiler/jobs", "compiler/transfers",
                         "runtime/plan", "runtime/simulate"], ["llvm", "mlir", "fmt"]),
    "compiler/widths": (["compiler/spec", "compiler/burst", "compiler/schedule", "compiler/program", "compiler/passes", "runtime/plan",
                         "runtime/simulate"], ["llvm", "mlir", "fmt"]),
    "compiler/replicas": (["dialects", "compiler/spec", "compiler/schedule", "compiler/program", "compiler/passes",
                           "runtime/plan", "runtime/simulate"], ["llvm", "mlir", "fmt"]),
    "compiler/torch": (["compiler/schedule/model", "compiler/transfers", "runtime/plan", "runtime/simulate"], ["fmt"]),
    "compiler/explain": (["compiler/schedule/model"] + RUNTIME, ["fmt", "json"]),
    "compiler/emit": (["dialects", "compiler/passes", "compiler/schedule"] + RUNTIME, ["llvm", "mlir", "fmt", "json"]),
    "compiler/pictures": (["compiler/emit", "compiler/explain"] + RUNTIME, ["llvm", "fmt", "json", "zlib"]),
    "compiler/driver": (["dialects", "compiler"] + RUNTIME, ["llvm", "mlir", "fmt", "json"]),
    "compiler/compare": (["dialects", "compiler"] + RUNTIME, ["llvm", "mlir", "fmt", "json"]),
    "compiler/replan": (["dialects", "compiler", "runtime/adapt"] + RUNTIME, ["llvm", "mlir", "fmt"]),
    "tools": (ALL, ["llvm", "mlir", "fmt", "json", "spdlog", "sodium", "cli11"]),
    "test": (ALL, ["llvm", "mlir", "fmt", "json", "spdlog", "asio", "sodium", "flatbuffers", "zlib", "gtest", "benchmark",
                   "yaml-cpp", "cuda", "nccl"]),
}

# Exceptions: file (a prefix), what it may include, why.
EXCEPTIONS = [
    ("", "runtime/plan/Limits.h"),  # constants alone: what pipec accepts at most, written once
    ("", "runtime/plan/Kinds.h"),  # the table of kinds: constants and what is looked up in them, written once
    ("", "runtime/plan/Figures.h"),  # the table of times and sizes: the same
    ("", "runtime/plan/LeastTime.h"),  # a type alone: what is proven says so wherever it stands
    ("compiler/spec/", "runtime/plan/Units.h"),  # durations, sizes and bandwidths: one grammar for specs and scenarios
    ("compiler/burst/", "runtime/plan/Samples.h"),  # which rank has which samples: one formula for planners and runtime
    ("compiler/spec/", "compiler/schedule/model/LocalBatch.h"),  # times by samples: one formula for specs and planners
]

# Narrower than folders: what runs a rank names no class of one kind of device. All but the factory of each kind, and
# where processes meet: launch's own sockets are those of the host's meeting, whatever carries the payloads.
KINDS = re.compile(r"runtime/(device|transport|stage)/(host|cuda|nccl|ipc)/|runtime/stage/(HostStage|MakeStage)\.h$")
NAMES_NO_KIND = ("runtime/backend/", "runtime/launch/", "runtime/interpreter/")
MAKES_A_KIND = re.compile(r"runtime/backend/[A-Z]\w+Backend\.cpp$")
MEETING = re.compile(r"runtime/transport/host/(Door|Handshake|Meeting|Socket)\.h$")

LIBRARIES = {
    "flatbuffers": r"flatbuffers/|.*_generated\.h$",
    "zlib": r"zlib\.h$",
    "fmt": r"fmt/",
    "json": r"nlohmann/",
    "spdlog": r"spdlog/",
    "asio": r"asio(\.hpp$|/)",
    "sodium": r"sodium(\.h$|/)",
    "cuda": r"cuda|nvtx",
    "nccl": r"nccl",
    "torch": r"torch/|ATen/|c10/",
    "llvm": r"llvm/|llvm-c/",
    "mlir": r"mlir/|mlir-c/",
    "yaml-cpp": r"yaml-cpp/",
    "z3": r"z3",
    "cli11": r"CLI/",
    "gtest": r"gtest/|gmock/",
    "benchmark": r"benchmark/",
}

# A program that a process of a run starts has no descriptor of it. What opens files with O_CLOEXEC is in runtime/plan/Load.h
# and Write.h. (The compiler starts no program.)
INHERITED = re.compile(r"fstream$")
STARTS_PROGRAMS = ("runtime/", "tools/")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def inside(path, folder):
    return path == folder or path.startswith(folder if folder.endswith((".", "/")) else folder + "/")


def folder_of(path):
    return max((each for each in TABLE if inside(path, each)), key=len, default=None)


def problem(file, quote, included):
    """Why `file` may not include `included`; None where it may."""
    own = folder_of(file)
    if own is None:
        return "stands in no folder of the table"
    folders, libraries = TABLE[own]
    first = included.split("/")[0]
    if file.startswith(NAMES_NO_KIND) and KINDS.match(included) and not (MAKES_A_KIND.match(file) or MEETING.match(included)):
        return "this is of one kind of device; runtime/backend/Backend.h has what launch knows of it"
    if first in ALL and quote == '"':
        allowed = [own, *folders, *(what for who, what in EXCEPTIONS if file.startswith(who))]
        if any(inside(included, each) for each in allowed):
            return None
        return f"{own} may not include {folder_of(included) or included}"
    if file.startswith(STARTS_PROGRAMS) and INHERITED.match(included):
        return "its files are open in the programs that a run starts: plan::readBytes, plan::writeInPlace"
    for library, pattern in LIBRARIES.items():
        if re.match(pattern, included):
            return None if library in libraries else f"{own} may not include {library}"
    if quote == '"':
        return "includes are written from the repository's root"
    if "/" in included and not re.match(r"(sys|linux|netinet|arpa|net)/", included):
        return f"'{included}' belongs to no known library; add it to the table with a reason"
    return None


def includes(root):
    found, files = [], 0
    for top in ALL:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if not name.endswith((".cpp", ".h", ".cu")):
                    continue
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, root)
                files += 1
                with open(path, encoding="utf-8") as text:
                    for number, line in enumerate(text, 1):
                        match = INCLUDE.match(line)
                        why = match and problem(relative, *match.groups())
                        if why:
                            found.append(f"{relative}:{number}: {line.strip()}: {why}")
    print("\n".join(found) or f"{files} files keep to the layers")
    return 1 if found or not files else 0


MOST_SOURCES = 20  # of a folder
MANY_NAMES = {"main.cpp"}
ROOMS = ["compiler", "runtime", "dialects"]  # where each folder with sources says in a README.md what it is
PROMISED = ["Comes in", "Goes out"]


def unsaid(folder, relative):
    """What the README.md of a room leaves unsaid, or says of files that are not there."""
    try:
        with open(os.path.join(folder, "README.md"), encoding="utf-8") as text:
            said = text.read()
    except OSError:
        return [f"{relative}: no README.md"]
    files = re.findall(r"`(\w+\.(?:h|cpp|td|fbs|js))`", said.partition("**Files**")[2])
    return ([f"{relative}/README.md: no **{each}**" for each in PROMISED if f"**{each}**" not in said] +
            [f"{relative}/README.md: no file {each}" for each in files if not os.path.exists(os.path.join(folder, each))])


def house(root):
    """No two sources of one name; of a folder's sources at most MOST_SOURCES; each room says what comes in
    and what goes out."""
    found, by_name = [], {}
    for top in ALL:
        for folder, _, names in os.walk(os.path.join(root, top)):
            sources = [name for name in names if name.endswith(".cpp")]
            relative = os.path.relpath(folder, root)
            for name in sources:
                by_name.setdefault(name, []).append(relative)
            if top in ROOMS and any(name.endswith((".cpp", ".h")) for name in names):
                found += unsaid(folder, relative)
            if len(sources) > MOST_SOURCES:
                found.append(f"{relative}: {len(sources)} sources, at most {MOST_SOURCES}")
    found += [f"{name} stands in {', '.join(sorted(folders))}" for name, folders in sorted(by_name.items())
              if len(folders) > 1 and name not in MANY_NAMES]
    print("\n".join(found) or f"{len(by_name)} sources, each in its room")
    return 1 if found or not by_name else 0


def needed(readelf, program, banned):
    listing = subprocess.run([readelf, "-dW", program], check=True, capture_output=True, text=True).stdout
    libraries = re.findall(r"\(NEEDED\).*\[(.+?)\]", listing)
    bad = [each for each in libraries if each.startswith(tuple(banned))]
    print(f"{os.path.basename(program)} needs {', '.join(libraries)}")
    if bad:
        print(f"it must not need {', '.join(bad)}")
    return 1 if bad or not libraries else 0


def itself():
    right = [
        ("runtime/plan/Load.cpp", '"', "runtime/plan/Plan.h"), ("runtime/plan/Load.cpp", "<", "zlib.h"),
        ("runtime/launch/Local.cpp", '"', "runtime/transport/host/Meeting.h"), ("runtime/launch/Local.cpp", "<", "sys/wait.h"),
        ("runtime/backend/HostBackend.cpp", '"', "runtime/device/host/HostDevice.h"),
        ("runtime/launch/Report.h", '"', "runtime/device/Recorder.h"),
        ("compiler/schedule/model/Problem.cpp", '"', "runtime/plan/Limits.h"),
        ("dialects/pipe/PipeOps.cpp", '"', "runtime/plan/Kinds.h"),
        ("compiler/driver/FromSpec.cpp", '"', "compiler/spec/Spec.h"), ("tools/pipec/pipec.cpp", "<", "CLI/CLI.hpp"),
        ("dialects/pipe/PipeOps.cpp", '"', "dialects/pipe/PipeOps.h.inc"), ("compiler/spec/Reader.cpp", "<", "fstream"),
    ]
    wrong = [
        ("runtime/plan/Load.cpp", '"', "runtime/simulate/Simulate.h"), ("runtime/launch/Local.cpp", '"', "llvm/ADT/ArrayRef.h"),
        ("runtime/launch/Worker.cpp", '"', "runtime/transport/host/HostTransport.h"),
        ("runtime/launch/Report.h", '"', "runtime/device/host/Counters.h"),
        ("runtime/interpreter/Interpreter.cpp", '"', "runtime/stage/HostStage.h"),
        ("runtime/launch/Local.cpp", "<", "yaml-cpp/yaml.h"), ("compiler/schedule/model/Block.cpp", '"', "mlir/IR/Builders.h"),
        ("compiler/schedule/model/Block.cpp", '"', "runtime/plan/Plan.h"), ("compiler/program/Graph.cpp", '"', "compiler/spec/Spec.h"),
        ("dialects/pipe/PipeOps.cpp", '"', "runtime/simulate/Simulate.h"), ("compiler/spec/Tree.cpp", '"', "mlir/IR/Location.h"),
        ("compiler/emit/EmitPlan.cpp", '"', "compiler/spec/Spec.h"), ("runtime/plan/Load.cpp", '"', "Plan.h"),
        ("compiler/schedule/model/Problem.cpp", '"', "compiler/schedule/evaluate/Buffers.h"),
        ("runtime/job/SyntheticJob.cpp", "<", "fstream"), ("runtime/trace/Trace.cpp", "<", "boost/asio.hpp"), ("scripts/x.cpp", "<", "vector"),
    ]
    failed = [f"refused: {each}: {problem(*each)}" for each in right if problem(*each)]
    failed += [f"let pass: {each}" for each in wrong if not problem(*each)]
    print("\n".join(failed) or "right and wrong includes are told apart")
    return 1 if failed else 0


if __name__ == "__main__":
    command, *rest = sys.argv[1:] or [""]
    if command == "includes" and len(rest) == 1:
        sys.exit(includes(*rest))
    if command == "house" and len(rest) == 1:
        sys.exit(house(*rest))
    if command == "needed" and len(rest) > 2:
        sys.exit(needed(rest[0], rest[1], rest[2:]))
    if command == "itself" and not rest:
        sys.exit(itself())
    sys.exit(__doc__)
