"""The documents that the tools write themselves: specs/README.md, the gallery, with its pictures, from the catalogue of
schedules; specs/REFERENCE.md from the JSON Schema; what pipec prints in README.md, specs/guide/README.md and tools/README.md.

  documents.py --write    writes them (cmake --build build/dev --target update-gallery)
  documents.py --check    names those that are not current

PIPEC_BIN and PIPEC_SOURCE as in support.py.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import pages
from support import BIN, SOURCE, SPECS, tool

WORK = "specs/gallery.yaml"
PICTURES = "specs/pictures"
# What a schedule is shown with where the plain case would hide what it is for.
SHOWN_WITH = {"kfkb": "{name: kfkb, k: 2}"}
CHUNKS = {"hanayo": [4]}  # two waves
ALSO = {"seq1f1b": ["--set", "pipeline.slices=4"]}
SLOW = "costs.link.latency=1ms"


def pipec(*arguments):
    """Standard output; the whole repository is the working directory, as in the commands that the documents show."""
    done = tool("pipec", *arguments, cwd=SOURCE)
    if done.returncode != 0:
        raise RuntimeError(f"pipec {shlex.join(arguments)}: {done.stderr}")
    return done.stdout


def compiles(settings):
    return tool("pipec", "compile", WORK, *settings, "--emit=pipe", cwd=SOURCE).returncode == 0


def settings_of(entry):
    """What to lay over the gallery's work to have this schedule: two chunks a rank, or four, where it leaves that open."""
    settings = ["--set", f"schedule={SHOWN_WITH.get(entry['name'], entry['name'])}", *ALSO.get(entry["name"], [])]
    choices = [[]] if entry["stages_per_rank"] else [["--set", f"pipeline.stages_per_rank={n}"] for n in CHUNKS.get(entry["name"], (2, 4, 1))]
    for more in choices:
        if compiles(settings + more):
            return settings + more
    raise RuntimeError(f"schedule '{entry['name']}' does not compile on {WORK} with {settings}")


def milliseconds(value):
    return f"{value:.6g} ms"


def row(entry, settings):
    """The table's line: figures of the work, and its makespan on slow links."""
    figures = json.loads(pipec("report", WORK, *settings, "--json"))
    slow = json.loads(pipec("report", WORK, *settings, "--set", SLOW, "--json"))
    layers, ranks = 16, figures["ranks"]
    microbatch = layers // ranks * 128 * 2**20  # bytes that a rank holds of one microbatch
    held = max(figures["peak_activation_bytes"]) / microbatch
    name = entry["name"]
    return (f"| [{name}](#{name}) | {figures['stages'] // ranks} | {milliseconds(figures['makespan_ms'])} | "
            f"{100 * figures['bubble_rate']:.1f} % | {100 * figures['span_bubble_rate']:.1f} % | {held:.4g} | "
            f"{milliseconds(slow['makespan_ms'])} |")


def section(entry, settings):
    name = entry["name"]
    also = f" Also called {', '.join(f'`{alias}`' for alias in entry['aliases'])}." if entry["aliases"] else ""
    example = f"{name}.yaml" if (SPECS / f"{name}.yaml").exists() else None
    lines = [f"### {name}", "", f"![{name} on four ranks](pictures/{name}.svg)", "",
             "| | |", "|---|---|", f"| bubble | {cell(entry['bubble'])} |", f"| memory | {cell(entry['memory'])} |",
             f"| backward | {entry['backward']} |", f"| placement | {entry['placement']} |"]
    lines += [f"| `{key}` | {cell(meaning)} |" for key, meaning in entry["parameters"].items()]
    lines += [f"| source | {cell(linked(entry['source']))} |", ""]
    if not example:
        raise RuntimeError(f"schedule '{name}' has no example: specs/{name}.yaml")
    lines += [f"Example: [{example}]({example}).{also}", "", "```sh", f"pipec show {WORK} {quoted(settings)}",
              f"pipec report specs/{example}", "```", ""]
    return lines


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def linked(source):
    return re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", source)


def quoted(settings):
    return " ".join(each if re.fullmatch(r"[\w./=-]+", each) else f"'{each}'" for each in settings)


INTRODUCTION = """\
# Schedules

<!-- Written by test/system/documents.py from the catalogue (pipec schedules); do not edit. -->

What `schedule:` in a spec may name, beside `auto`, `block` and `order`, whose parameters are in
[REFERENCE.md](REFERENCE.md#schedule). All pictures show the same work, [gallery.yaml](gallery.yaml): sixteen layers on four
ranks, eight microbatches, F, B and W equally long, links that cost nothing. A row is a rank, time runs to the right, the
number in a box is its microbatch; lighter boxes are later chunks of a rank, or, where a schedule goes both ways, the other
direction, whose microbatches are counted on from the first's; the dashed line, where there is one, is the lower bound: no
schedule of this placement and memory is shorter.

**Formulas**: p ranks, m microbatches, v chunks a rank; F, B, W the times of a forward, of a backward for the input and for
the weights, of a whole stage or, where it says so, of one chunk; c the time of a transfer. *Bubble* is what the makespan
has beyond a rank's own work. `pipec explain SPEC` puts your numbers in.

| schedule | chunks | makespan | bubble | from step to step | microbatches held | makespan with links of 1 ms |
|---|---|---|---|---|---|---|
"""

AFTER_TABLE = """
*From step to step*: the bubble rate when steps follow each other and no rank waits for another at a step's end.
*Microbatches held*: activations and weight contexts of the fullest rank at its peak, in those of one microbatch.
Which one is best depends on costs, memory and links: `pipec search SPEC` tells for yours, and `schedule: auto` takes it.

"""

LARGE = """\
## Large

A step of any size stays a figure: where boxes would be under a pixel, the height of a colour is its share of the time.
This is 1F1B on 64 ranks with 1,024 microbatches, 131,072 operations in {size} KB:

![1F1B on 64 ranks with 1,024 microbatches](pictures/large.svg)

```sh
pipec show {work} {settings} --emit=svg -o large.svg
```

## Pages

`--emit=html` makes one page that needs nothing else: zoom and pan, point at a box for what it waited for, see what each rank
holds against its limit, and the critical path.

{pages}## More examples

| spec | what it shows |
|---|---|
"""

LARGE_SETTINGS = pages.LARGE


def first_words(path):
    """What the comment at a spec's head says, to its first full stop or colon."""
    text = " ".join(line[1:].strip() for line in path.read_text().splitlines()
                    if line.startswith("#") and "yaml-language-server" not in line)
    return re.split(r"(?<=[a-z\d)])[.:;] ", text + " ")[0].rstrip(". ")


def figure(*arguments):
    return pipec("show", *arguments, "--emit=svg")


def page_lines(name, page):
    return (f"{page.words}:\n\n![{page.words}](pictures/{name}.png)\n\n```sh\n"
            f"pipec show {quoted(page.arguments)} --emit=html -o {name.removeprefix('page-')}.html\n```\n\n")


def gallery():
    documents = {}
    catalogue = sorted(json.loads(pipec("schedules", "--json")), key=lambda entry: entry["name"])
    rows, sections = [], []
    for entry in catalogue:
        settings = settings_of(entry)
        documents[f"{PICTURES}/{entry['name']}.svg"] = figure(WORK, *settings)
        rows.append(row(entry, settings))
        sections += section(entry, settings)
    with tempfile.TemporaryDirectory() as folder:
        plan = f"{folder}/zb-v.pipe"
        pipec("compile", WORK, "--set", "schedule=zb-v", "-o", plan)
        documents[f"{PICTURES}/overview.svg"] = figure(WORK, plan)
    large = figure(WORK, *LARGE_SETTINGS)
    documents[f"{PICTURES}/large.svg"] = large
    names = {entry["name"] for entry in catalogue} | {"gallery"}
    others = [f"| [{path.name}]({path.name}) | {cell(first_words(path))} |"
              for path in sorted(SPECS.glob("*.yaml")) if path.stem not in names]
    documents["specs/README.md"] = (
        INTRODUCTION + "\n".join(rows) + "\n" + AFTER_TABLE + "\n".join(sections) + "\n" +
        LARGE.format(size=len(large) // 1000, work=WORK, settings=quoted(LARGE_SETTINGS), pages="".join(page_lines(name, each) for name, each in pages.PAGES.items())) + "\n".join(others) +
        "\n\n[REFERENCE.md](REFERENCE.md) has every key of a spec. [networks](networks) has scenarios for `--network`, "
        "[stages](stages) a stage\nlibrary, [pytorch](pytorch) programs for PyTorch.\n")
    return documents


REFERENCE = """\
# Keys of a spec

<!-- Written by test/system/documents.py from pipec.schema.json; do not edit. -->

A spec is YAML. An editor with a YAML language server completes it where the first line is
`# yaml-language-server: $schema=pipec.schema.json`. A key that is not known is an error, and so is one given twice.
`--set key.path=value` lays a value over the spec. A dot is a level; `[]` is each item of a list. Keys in **bold** must
be given. [README.md](README.md) shows the schedules.

"""


# Maps that are a value, by their keys.
BY_SAMPLES = {frozenset(["fixed", "per_sample"]): "by sample", frozenset(["samples"]): "a table by samples"}


def kind_of(schema):
    """A value's forms in words."""
    if "allOf" in schema:
        return kind_of(schema["allOf"][0])
    if "$ref" in schema:
        return "a " + schema["$ref"].rsplit("/", 1)[1] if "variant" not in schema["$ref"] else "any of the keys here"
    if "anyOf" in schema:
        forms = list(dict.fromkeys(kind_of(each) for each in schema["anyOf"]))
        if len(forms) > 1 and forms[-1] == f"a list of {' or '.join(forms[:-1])}":
            forms[-1] = "a list of such"
        return " or ".join(forms)
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    kind = schema.get("type", "any value")
    if kind == "integer":
        least, most = schema.get("minimum"), schema.get("maximum")
        return f"`{least}`" if least == most else f"{least:,} to {most:,}"
    if kind == "array":
        return f"a list of {kind_of(schema['items'])}" if "items" in schema else "a list"
    if kind == "object":
        return BY_SAMPLES.get(frozenset(schema.get("properties", {})), "a map")
    return {"boolean": "`true` or `false`", "string": "text"}.get(kind, kind)


def maps_of(schema):
    """(mark, map) of each form of a value that is a map of keys, or a list of them."""
    for form in schema.get("anyOf", schema.get("allOf", [schema])):
        if form.get("type") == "array" and form.get("items", {}).get("type") == "object":
            yield "[]", form["items"]
        elif form.get("type") == "object" and form.get("properties") and kind_of(form) == "a map":
            yield "", form


def rows_of(schema, path):
    for name, value in schema.get("properties", {}).items():
        key = f"{path}{name}"
        shown = f"**`{key}`**" if name in schema.get("required", []) else f"`{key}`"
        yield f"| {shown} | {cell(kind_of(value))} | {cell(value.get('description', ''))} |"
        for mark, each in maps_of(value):
            yield from rows_of(each, f"{key}{mark}.")


def reference():
    schema = json.loads((SPECS / "pipec.schema.json").read_text())
    text = REFERENCE + "## Values\n\n| a … | is | written as |\n|---|---|---|\n"
    examples = {"duration": "`10ms`, `250us`, `1.5s`", "size": "`1.5GiB`, `24MB`, `0B`",
                "bandwidth": "`12.5GB/s`, `unlimited`", "percentage": "`1%`, `0.25%`"}
    for name, example in examples.items():
        text += f"| {name} | {schema['definitions'][name]['description']} | {example} |\n"
    text += ("| by sample | a part for each microbatch and one for each of its samples | "
             "`{fixed: 1ms, per_sample: 2ms}` |\n"
             "| table by samples | what so many samples of a microbatch take; linear between two entries, the first one "
             "below it, in proportion to the last one above | `{samples: {1: 43us, 2: 74us}}` |\n")
    tops, alone = [], []
    for name, value in schema["properties"].items():
        lines = list(rows_of({"properties": {name: value}, "required": schema.get("required", [])}, ""))
        (tops if len(lines) > 1 else alone).append((name, lines))
    head = "| key | value | what it says |\n|---|---|---|\n"
    text += f"\n## Single keys\n\n{head}" + "\n".join(line for _, lines in alone for line in lines) + "\n"
    for name, lines in tops:
        text += f"\n## {name}\n\n{head}" + "\n".join(lines) + "\n"
    return {"specs/REFERENCE.md": text}


# What differs from run to run in what pipec prints.
VARYING = re.compile(r"(?<=compiled in )[\d.]+(?= ms)|(?<= in )[\d.]+(?= s: optimal)")


SEARCH = re.compile(r"pipec search specs/[\w.-]+( --[\w-]+( [\w-]+)?)*")
FOUND = {}  # what a search has printed: it takes seconds, changes nothing, and stands in several documents


def once(command, run):
    """run(command), of a search of an example but once."""
    if not SEARCH.fullmatch(command):
        return run(command)
    if command not in FOUND:
        FOUND[command] = run(command)
    return FOUND[command]


def repository(folder):
    """Makes a folder look as the repository does after tools/quickstart; the environment to run in it."""
    shutil.copytree(SOURCE / "specs", folder / "specs", ignore=shutil.ignore_patterns("*.pipe"))
    (folder / "build/release").mkdir(parents=True)
    (folder / "build/release/bin").symlink_to(BIN)
    for entry in SOURCE.iterdir():
        if entry.name not in ("specs", "build") and not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80"}


def console(document):
    """A document whose consoles show what pipec says now; what piperun measures is left as it stands."""
    text = (SOURCE / document).read_text()
    with tempfile.TemporaryDirectory() as name:
        environment = repository(pathlib.Path(name))

        def block(match):
            parts = re.split(r"^\$ ", match[1], flags=re.M)
            for i, part in enumerate(parts[1:], 1):
                command, _, output = part.partition("\n")
                if not command.startswith("pipec"):
                    continue
                done = once(command, lambda each: subprocess.run(["bash", "-c", f"set -o pipefail; {each}"], cwd=name,
                                                                 env=environment, capture_output=True, text=True))
                said = (done.stderr + done.stdout if command.startswith("pipec compile") else done.stdout).rstrip()
                if done.returncode == 0 and VARYING.sub("#", said) != VARYING.sub("#", output.rstrip()):
                    parts[i] = f"{command}\n{said}\n" + ("\n" if i + 1 < len(parts) else "")
            return f"```console\n{'$ '.join(parts)}```"

        return {document: re.sub(r"^```console\n(.*?)^```", block, text, flags=re.M | re.S)}


def documents():
    """path → text of all."""
    return {**gallery(), **reference(), **console("README.md"), **console("specs/guide/README.md"), **console("tools/README.md")}


def stale(wanted):
    """Those that are missing or differ, and pictures that nothing shows."""
    found = [path for path, text in wanted.items()
             if not (SOURCE / path).exists() or (SOURCE / path).read_text() != text]
    kept = {"run.svg"}  # measured once, on a machine
    found += [f"{PICTURES}/{path.name}" for path in sorted((SOURCE / PICTURES).glob("*.svg"))
              if f"{PICTURES}/{path.name}" not in wanted and path.name not in kept]
    return found


def main():
    wanted = documents()
    if sys.argv[1:] == ["--check"]:
        found = stale(wanted)
        for path in found:
            print(f"{path} is not current: cmake --build BUILD --target update-gallery")
        return bool(found)
    if sys.argv[1:] != ["--write"]:
        print(__doc__)
        return 2
    for path in stale(wanted):
        target = SOURCE / path
        if path not in wanted:
            target.unlink()
            continue
        target.parent.mkdir(exist_ok=True)
        target.write_text(wanted[path])
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
