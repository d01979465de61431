"""The times of 1F1B and GPipe computed from their definitions alone: each rank's order, and each pass as early as its
rank and its input allow. Shares nothing with pipec; times are integers (microseconds in these tests)."""
from fractions import Fraction


def order(schedule, rank, ranks, microbatches):
    """[(kind, microbatch)] of a rank."""
    warm_up = microbatches if schedule == "gpipe" else min(ranks - 1 - rank, microbatches)
    forwards = [("F", i) for i in range(microbatches)]
    backwards = [("B", i) for i in range(microbatches)]
    steady = [pair for both in zip(forwards[warm_up:], backwards) for pair in both]
    return forwards[:warm_up] + steady + backwards[microbatches - warm_up:]


def step(orders, forward, backward, latency, optimizer=0, start=None):
    """The first starts and the last ends of one step, whose ranks are free at `start`; links carry any number at once."""
    ranks = len(orders)
    free = list(start or [0] * ranks)
    first = [None] * ranks
    end, at = {}, [0] * ranks
    moved = True
    while moved:
        moved = False
        for rank, own in enumerate(orders):
            while at[rank] < len(own):
                kind, microbatch = own[at[rank]]
                source = rank - 1 if kind == "F" else rank + 1
                ready = 0
                if 0 <= source < ranks:
                    if (kind, source, microbatch) not in end:
                        break
                    ready = end[kind, source, microbatch] + latency
                begin = max(free[rank], ready)
                first[rank] = begin if first[rank] is None else first[rank]
                free[rank] = end[kind, rank, microbatch] = begin + (forward if kind == "F" else backward)
                at[rank] += 1
                moved = True
    assert at == [len(own) for own in orders], "the orders wait for each other"
    return first, [each + optimizer for each in free]


def makespan(schedule, ranks, microbatches, **costs):
    orders = [order(schedule, rank, ranks, microbatches) for rank in range(ranks)]
    first, last = step(orders, **costs)
    return max(last) - min(first)


def span(schedule, ranks, microbatches, **costs):
    """The advance of a step when each rank goes on at once: over as many steps as there are ranks, after settling."""
    orders = [order(schedule, rank, ranks, microbatches) for rank in range(ranks)]
    ends = [0] * ranks
    history = []
    for _ in range(6 * ranks):
        ends = step(orders, start=ends, **costs)[1]
        history.append(max(ends))
    return Fraction(history[-1] - history[-1 - ranks], ranks)
