"""A strict reader of PyTorch's order files, written from what its releases read and run, apart from pipec's: it raises
Wrong where PyTorch would refuse the file, hang or compute something else."""
import collections
import re

PASSES = "FBIW"
TRANSFERS = {"SEND_F", "RECV_F", "SEND_B", "RECV_B"}
VOCABULARY = {  # of compute_comms, beside passes and transfers
    "2.8": {"UNSHARD", "RESHARD"},
    "2.10": {"UNSHARD", "RESHARD", "REDUCE_GRAD"},
    "2.15": {"UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD", "WAIT_SEND_F", "WAIT_SEND_B"},
}
CELL = re.compile(r"(0|[1-9]\d*)(WAIT_REDUCE_GRAD|WAIT_SEND_F|WAIT_SEND_B|REDUCE_GRAD|UNSHARD|RESHARD|SEND_F|RECV_F|SEND_B"
                  r"|RECV_B|F|I|B|W)(0|[1-9]\d*)?")
PAIR = re.compile(r"\(([^();]+);([^();]+)\)OVERLAP_F_B")  # a forward and a backward; from release 2.9 on
# What the tests export.
SPEC = """
pipec: 1
pipeline: {{ranks: {ranks}, microbatches: {microbatches}{more}}}
costs: {{forward: 10ms, backward_input: 11ms, backward_weight: 8ms, link: {{latency: 30us, bandwidth: 12.5GB/s}}}}
tensors: {{boundary: 16MiB, activation: 64MiB, weight_context: 16MiB}}
schedule: {schedule}
communicator: {communicator}
"""
Cell = collections.namedtuple("Cell", "stage kind microbatch")


class Wrong(Exception):
    pass


def need(condition, *what):
    if not condition:
        raise Wrong(" ".join(map(str, what)))


def read(text, release=None):
    """Rows of cells. `release` names the spelling of a compute_comms file; without one the file is compute_only."""
    need(text.isascii() and text.endswith("\n"), "not plain text that ends with a line")
    known = set(PASSES) | (TRANSFERS | VOCABULARY[release] if release else set())
    rows = []
    for line in text.replace("\r\n", "\n")[:-1].split("\n"):
        rows.append([])
        cells = []
        for cell in line.split(","):
            pair = PAIR.fullmatch(cell)
            if pair:
                need(release != "2.8", cell, "is not of release", release)
                need(re.fullmatch(r"\d+F\d+", pair[1]) and re.fullmatch(r"\d+[BI]\d+", pair[2]), cell, "is no pair")
                cells += pair.groups()
            else:
                cells.append(cell)
        for cell in cells:
            found = CELL.fullmatch(cell)
            need(found, "no action:", repr(cell))
            stage, kind, microbatch = found.groups()
            need(kind in known, cell, "is not of release", release)
            of_stage = kind in {"UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"}
            need((microbatch is None) == of_stage, cell, "has or lacks a microbatch")
            rows[-1].append(Cell(int(stage), kind, None if of_stage else int(microbatch)))
    return rows


def check(rows, release=None):
    """The order itself. Returns ranks, stages and microbatches."""
    rank_of = {}
    for rank, row in enumerate(rows):
        for cell in row:
            need(rank_of.setdefault(cell.stage, rank) == rank, "stage", cell.stage, "on two ranks")
    stages = len(rank_of)
    need(set(rank_of) == set(range(stages)), "stages", sorted(rank_of))
    need(set(rank_of.values()) == set(range(len(rows))), "a rank without a stage")
    microbatches = sum(cell[:2] == (0, "F") for cell in rows[rank_of[0]])
    where = {}
    for row in rows:
        for place, cell in enumerate(row):
            need(cell not in where, cell, "twice")
            where[cell] = place
    every = [(s, j) for s in range(stages) for j in range(microbatches)]

    def before(first, second):
        need(first in where and second in where, first, "or", second, "is missing")
        need(where[first] < where[second], second, "before", first)

    wanted = set()
    for s, j in every:
        forward = Cell(s, "F", j)
        whole = Cell(s, "B", j) in where
        backward = Cell(s, "B" if whole else "I", j)
        before(forward, backward)
        wanted |= {forward, backward}
        if not whole:
            before(backward, Cell(s, "W", j))
            wanted.add(Cell(s, "W", j))
    backward_of = {(s, j): Cell(s, "B" if Cell(s, "B", j) in where else "I", j) for s, j in every}
    last = [where[Cell(stages - 1, "F", j)] for j in range(microbatches)]
    need(last == sorted(last), "losses out of order")
    for s, j in every:
        if s + 1 == stages:
            continue
        forward, backward = (Cell(s, "F", j), Cell(s + 1, "F", j)), (backward_of[s + 1, j], backward_of[s, j])
        if rank_of[s] == rank_of[s + 1]:
            before(*forward)
            before(*backward)
        elif release:
            for (made, taken), kind in ((forward, "F"), (backward, "B")):
                send, recv = Cell(made.stage, "SEND_" + kind, j), Cell(taken.stage, "RECV_" + kind, j)
                before(made, send)
                before(recv, taken)
                wanted |= {send, recv}
                if release == "2.15":
                    wait = Cell(made.stage, "WAIT_SEND_" + kind, j)
                    before(send, wait)
                    wanted.add(wait)
    if release:
        check_pairs(rows, rank_of)
        for row in rows:
            check_stages(row, release)
        wanted |= {cell for cell in where if cell.microbatch is None}
    need(set(where) == wanted, "cells that belong to nothing:", sorted(set(where) - wanted, key=str)[:3])
    return len(rows), stages, microbatches


def check_pairs(rows, rank_of):
    """On each directed pair of ranks the k-th send is the k-th receive."""
    pairs = collections.defaultdict(lambda: ([], []))
    for rank, row in enumerate(rows):
        for stage, kind, microbatch in row:
            if kind in TRANSFERS:
                step = 1 if kind in ("SEND_F", "RECV_B") else -1
                other = rank_of[stage + step]
                need(other != rank, "a transfer within rank", rank)
                if kind.startswith("SEND"):
                    pairs[rank, other][0].append((stage + step, kind[-1], microbatch))
                else:
                    pairs[other, rank][1].append((stage, kind[-1], microbatch))
    for pair, (sent, received) in pairs.items():
        need(sent == received, "transfers of ranks", pair, "do not match")


def check_stages(row, release):
    """FSDP's cells of a row, and the scaling of gradients."""
    gathered, reducing, reduced = {}, None, set()
    passes = collections.Counter(cell.stage for cell in row if cell.kind in PASSES)
    for stage, kind, _ in row:
        if kind == "UNSHARD":
            need(not gathered.get(stage), stage, "unsharded twice")
            gathered[stage] = True
        elif kind == "RESHARD":
            need(gathered.get(stage), stage, "resharded twice")
            gathered[stage] = False
        elif kind in PASSES:
            need(gathered.get(stage), stage, "runs sharded")
            need(stage not in reduced, stage, "runs after its reduction")
            passes[stage] -= 1
        elif kind == "REDUCE_GRAD":
            need(reducing is None and stage not in reduced and passes[stage] == 0, stage, "reduced wrongly")
            reduced.add(stage)
            reducing = stage if release == "2.15" else None
        elif kind == "WAIT_REDUCE_GRAD":
            need(reducing == stage, stage, "waited for, under way is", reducing)
            reducing = None
    need(reducing is None, "a reduction is left open")
    need(reduced == (set() if release == "2.8" else set(passes)), "stages reduced:", reduced)
