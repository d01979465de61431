"""Every diagnostic of the compiler has a test: of each message in compiler/ and dialects/, what stands between its
values must occur in a test, where a CHECK line may stop short of it.

  diagnostics.py SOURCE_DIR     lists the messages that no test shows; fails if there are any
"""
import os
import re
import sys

FOLDERS = ["compiler/spec", "compiler/schedule", "compiler/program", "compiler/transfers", "compiler/passes",
           "compiler/driver", "compiler/replan", "compiler/torch", "dialects"]
TESTS = ["lit-tests", "test"]
# What a message is said with; the statement ends at a semicolon.
SAID = re.compile(r"\b(?:emitError|emitOpError|attachNote|error|errors\.add|lookup\.errors\.add|refuse|fail|Refusal)\s*"
                  r"(?:\(|\{)|\breturn fmt::format\(|\breturn \"")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
WORDS = 3  # shorter pieces say nothing of their own

# What no input can bring about as long as the rest is right, and why.
UNREACHABLE = {
    "compiler/driver/CrossCheck.cpp": "the evaluator against the simulator",
    "compiler/driver/Compile.cpp": "what only a fault of ours brings about",
}


def statement(text, start):
    """To the semicolon that ends it, strings skipped."""
    at = start
    while at < len(text) and text[at] != ";":
        if text[at] == '"':
            at = LITERAL.match(text, at).end() - 1 if LITERAL.match(text, at) else at
        at += 1
    return text[start:at]


def pieces(source):
    """(line, piece) of each message of a file: literals joined where they stand side by side, cut at values."""
    source = re.sub(r"//[^\n]*", lambda m: " " * len(m.group()), source)
    seen = set()
    for said in SAID.finditer(source):
        body = statement(source, said.start())
        joined = re.sub(r'"\s*\n?\s*"', "", body)  # literals side by side are one
        for literal in LITERAL.finditer(joined):
            for piece in re.split(r"\{[^}]*\}|\\n", literal.group(1)):
                piece = piece.replace('\\"', '"').strip(" ,;:'\"()")
                if len(piece.split()) >= WORDS and piece not in seen:
                    seen.add(piece)
                    yield source.count("\n", 0, said.start()) + 1, piece


def squeezed(text):
    """Strings of several lines as one; white space and quotes as C++, Python and CHECK lines write them, all alike."""
    text = re.sub(r'"\s*\n\s*"', "", text)
    return re.sub(r"\s+", " ", text.replace('\\"', '"'))


def all_of(root, folders, endings):
    for folder in folders:
        for path, _, files in os.walk(os.path.join(root, folder)):
            for file in sorted(files):
                if file.endswith(endings):
                    yield os.path.join(path, file)


def main(root):
    tests = squeezed("\n".join(open(path, encoding="utf-8", errors="replace").read() for path in
                               all_of(root, TESTS, (".cpp", ".h", ".py", ".mlir", ".yaml", ".test"))))
    missing = []
    for path in all_of(root, FOLDERS, (".cpp", ".h")):
        if os.path.relpath(path, root) in UNREACHABLE:
            continue
        for line, piece in pieces(open(path, encoding="utf-8").read()):
            shortest = " ".join(piece.split()[:WORDS])
            if piece not in tests and shortest not in tests and piece not in UNREACHABLE:
                missing.append(f"{os.path.relpath(path, root)}:{line}: no test shows '{piece}'")
    print("\n".join(missing) if missing else "every message has a test")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
