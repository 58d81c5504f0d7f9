"""A clock for fits of shards on more workers than there are here: what a question costs, by events.

    python -m tests.benchmarks.shards_clock

The caller sends tasks one after the other (DISPATCH each, none while all workers are busy) and
takes their answers (p^2 numbers of p shared latents, over BANDWIDTH); a worker that does not hold a
shard reads it (READ a row), then answers (ANSWER a row), which takes SPREAD longer or less; a
question ends with its last answer. A worker ends with the rate FAILURES a second: its task is done
again, and what it held is read again by others. What a row takes does not grow with p here.

Shards go to whichever worker is free (`any`, as to executors of others) or each to one worker,
whose turn it waits for (`own`, as with `--jobs` and Dask). The search in the first shards is left
out.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

DISPATCH = 0.6e-3  # seconds of the caller for a task, there and back
LATENCY = 0.5e-3  # seconds, of a network
BANDWIDTH = 1e8  # bytes a second into the caller
READ, ANSWER = 0.75e-6, 0.065e-6  # seconds a row
OWN = 0.02  # seconds of the caller between questions
FAILURES = 1.0 / (30 * 86400.0)  # a worker a month
SPREAD = 0.1  # sd of the log of a task's seconds
ROWS = 4_000_000  # of a shard
BYTES_A_ROW = 40.0  # that a worker holds
QUESTIONS = 22  # of a maximum over one hyperparameter, after those to the first shards


@dataclass(frozen=True)
class Machine:
    """`workers`, with `memory` bytes each for shards; `own`: whether each shard has its worker."""

    workers: int
    memory: float = 16e9
    own: bool = False


@dataclass(frozen=True)
class Spent:
    """Seconds of a fit: from end to end, of the caller's sending and receiving, of all workers'
    reading and answering; how many of them ended."""

    wall: float
    sending: float
    receiving: float
    reading: float
    answering: float
    failed: int


def simulated(
    rows: float,
    machine: Machine,
    p: int = 10,
    questions: int = QUESTIONS,
    shards: int = 0,
    seed: int = 0,
) -> Spent:
    """A fit on a machine. Random: which workers end, and when."""
    rng = np.random.default_rng(seed)
    count = shards or max(1, round(rows / ROWS))
    each, answer_bytes = rows / count, 8.0 * (p * p + 2 * p) + 300.0
    most = max(1, int(machine.memory / (each * BYTES_A_ROW)))
    held = [OrderedDict[int, None]() for _ in range(machine.workers)]
    clock = sending = reading = answering = 0.0
    failed = 0
    for _ in range(questions):
        free = [(clock, w) for w in range(machine.workers)]
        heapq.heapify(free)
        ready = dict.fromkeys(range(machine.workers), clock)
        caller, ends = clock, clock
        waiting = list(range(count))[::-1]
        while waiting:
            shard = waiting.pop()
            if machine.own:
                worker = shard % machine.workers
                at = ready[worker]
            else:
                at, worker = heapq.heappop(free)
            caller = max(caller + DISPATCH, at if not machine.own else 0.0)
            sending += DISPATCH
            start = max(at, caller) + LATENCY
            read = 0.0 if shard in held[worker] else READ * each
            slow = float(np.exp(SPREAD * rng.standard_normal()))
            read, work = read * slow, ANSWER * each * slow
            if rng.random() < FAILURES * (read + work):
                failed += 1
                held[worker].clear()
                waiting.append(shard)
                done = start + rng.random() * (read + work)
            else:
                reading, answering = reading + read, answering + work
                held[worker][shard] = None
                held[worker].move_to_end(shard)
                if len(held[worker]) > most:
                    held[worker].popitem(last=False)
                done = start + read + work + LATENCY + answer_bytes / BANDWIDTH
            ends = max(ends, done)
            ready[worker] = done
            heapq.heappush(free, (done, worker))
        clock = max(ends, clock + count * (DISPATCH + answer_bytes / BANDWIDTH)) + OWN
    receiving = questions * count * answer_bytes / BANDWIDTH
    return Spent(clock, sending, receiving, reading, answering, failed)


def table(rows: float, workers: tuple[int, ...], p: int) -> None:
    """One line for each number of workers and way of sharing."""
    one = simulated(rows, Machine(1, memory=1e18), p).wall
    for count in workers:
        for own in (False, True):
            s = simulated(rows, Machine(count, own=own), p)
            parts = {
                "sending": s.sending,
                "receiving": s.receiving,
                "reading": s.reading / count,
                "answering": s.answering / count,
            }
            first = max(parts, key=lambda name: parts[name])
            print(
                f"| {rows:.0e} | {p} | {count} | {'own' if own else 'any'} | {s.wall:,.0f} s | "
                f"{one / s.wall:.1f} | {first} {parts[first] / s.wall:.0%} | {s.failed} |"
            )


def main() -> None:
    """Tables of 10^8 to 10^10 rows, and of many shared latents."""
    print("| rows | p | workers | shards go to | time | speed-up | most of it | ended |")
    print("|---|---|---|---|---|---|---|---|")
    table(1e8, (1, 2, 8, 25), 10)
    table(1e10, (10, 100, 1000), 10)
    table(1e10, (1000,), 300)


if __name__ == "__main__":
    main()
