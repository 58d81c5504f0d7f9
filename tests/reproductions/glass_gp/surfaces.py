"""Evidence and prediction error of multi-class Gaussian processes on glass, over log s and log σ.

    python -m tests.reproductions.glass_gp.surfaces NAME... [--split 0] [--largest 5]
        [--largest-sd 5] [--every 0.5] [--steps 25] [--workers 16]
    python -m tests.reproductions.glass_gp.surfaces NAME... --peaks 9 [--workers 16]

puts the grid of each method NAME (a key of METHODS, or `hmc`), from -1 up to `largest` (log σ: to
`largest-sd`) in steps of `every`, into `points.csv`, but for points that it holds and that had
converged. hmc takes every 0.5 in log σ, for it passes there. With `--peaks 9`: of splits 1 to 9 the
way on the grid from the best point of split 0 to their own.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.contract.status import Status
from tests.reproductions.glass_gp.annealed import Chains, annealed
from tests.reproductions.record import table

FOLDER = Path(__file__).parent
DATA = FOLDER.parents[2].parent / "shared" / "data" / "glass.npz"
FITTED = 171  # of 214: 80 %
LOWEST, HIGHEST, STEP = -1.0, 5.0, 0.5  # of log s and log σ
TOL = 1e-5  # of the log evidence, relative: far below what a contour shows
STEPS = 25  # of a fit: what is left after so many does not show either
CHAINS = Chains(particles=16, steps=200, length=1.5, moves=40)

GP = """lgm 1
index obs
index element
index class
index cut = head(class)
data x[obs, element] : real
data y[obs] : class
latent f[obs, {of}] ~ gp(at = x, kernel = se(sd = {sd!r}, length = {length!r})) * iid
observe y ~ categorical({link} = f)
"""


@dataclass(frozen=True)
class Method:
    """A likelihood and how it is bounded; `of`: the index of its latents."""

    link: str
    of: str
    bound: str | None
    solver: str = "natural-gradient"


METHODS = {
    "logit-bohning": Method("softmax", "class", "bohning"),
    "logit-log": Method("softmax", "class", "log"),
    "logit-tilted": Method("softmax", "class", "tilted"),
    "logit-quadrature": Method("softmax", "class", "quadrature"),
    "probit-laplace": Method("probit", "class", None, "laplace"),
    "probit-quadrature": Method("probit", "class", "quadrature"),
    "stick-pw": Method("stick", "cut", "piecewise-quadratic-20"),
}


@dataclass(frozen=True)
class Split:
    """Inputs scaled to [-1, 1], classes as labels; to fit, and to predict."""

    x: Array
    y: AnyArray
    new_x: Array
    new_y: AnyArray


@dataclass(frozen=True)
class Point:
    """`error`: bits a case; `wrong`: share of the test cases; `evidence_se`: nats, of hmc."""

    method: str
    split: int
    log_s: float
    log_sd: float
    evidence: float
    evidence_se: float | None
    error: float
    wrong: float
    status: str
    seconds: float


def split(seed: int) -> Split:
    """A random 80 % of the rows. The thesis has eight features, the file nine: the eight oxides."""
    with np.load(DATA) as held:
        x, y = held["X"][:, 1:], held["y"].astype(np.int64)
    x = 2.0 * (x - x.min(axis=0)) / np.ptp(x, axis=0) - 1.0
    order = np.random.default_rng(seed).permutation(len(y))
    fitted, rest = np.sort(order[:FITTED]), np.sort(order[FITTED:])
    return Split(x[fitted], y[fitted], x[rest], y[rest])


def text(method: Method, log_s: float, log_sd: float) -> str:
    """The kernel σ² exp(-|x - x'|² / 2s)."""
    return GP.format(
        of=method.of, link=method.link, sd=float(np.exp(log_sd)), length=float(np.exp(0.5 * log_s))
    )


def fitted(name: str, seed: int, log_s: float, log_sd: float, limit: int = STEPS) -> Point:
    """One fit and its predictions."""
    method, given = METHODS[name], split(seed)
    began = time.process_time()
    fit = lgm.fit(
        lgm.loads(text(method, log_s, log_sd)),
        {"x": given.x, "y": given.y},
        method.solver,
        bound=method.bound,
        tol=TOL,
        max_steps=limit,
    )
    seconds = time.process_time() - began
    found = fit.predict({"x": given.new_x}).response("y")["probability"]
    error, wrong = scores(found.values, found["class"].values.astype(np.int64), given.new_y)
    return Point(
        name, seed, log_s, log_sd, fit.log_evidence, None, error, wrong, str(fit.status), seconds
    )


def climbed(start: Point, seed: int) -> list[Point]:
    """The points on the way from `start` to where no neighbour on the grid has more evidence."""
    found: dict[tuple[float, float], Point] = {}

    def at(log_s: float, log_sd: float) -> Point:
        if (log_s, log_sd) not in found:
            found[log_s, log_sd] = fitted(start.method, seed, log_s, log_sd)
        return found[log_s, log_sd]

    best, now = None, at(start.log_s, start.log_sd)
    while now is not best:
        best = now
        for one, two in (
            (0, STEP),
            (0, -STEP),
            (STEP, 0),
            (-STEP, 0),
            (STEP, STEP),
            (-STEP, -STEP),
            (STEP, -STEP),
            (-STEP, STEP),
        ):
            place = best.log_s + one, best.log_sd + two
            if min(place) >= LOWEST and max(place) <= HIGHEST:
                now = max(now, at(*place), key=lambda p: p.evidence)
    return list(found.values())


def sampled(seed: int, log_s: float, log_sds: Sequence[float]) -> list[Point]:
    """The same at ascending σ by annealed importance sampling with HMC, without lgmdsl."""
    given = split(seed)
    classes = np.unique(given.y)
    began = time.process_time()
    found = annealed(
        given.x,
        np.searchsorted(classes, given.y),
        given.new_x,
        float(np.exp(0.5 * log_s)),
        np.exp(log_sds).tolist(),
        CHAINS,
    )
    seconds = (time.process_time() - began) / len(found)
    return [
        Point(
            "hmc",
            seed,
            log_s,
            log_sd,
            f.evidence,
            f.se,
            *scores(f.probability, classes, given.new_y),
            f"{f.accepted:.2f} accepted",
            seconds,
        )
        for log_sd, f in zip(log_sds, found, strict=True)
    ]


def scores(probability: Array, classes: AnyArray, y: AnyArray) -> tuple[float, float]:
    """Mean of -log2 p(y) in bits, and the share that the most probable class misses."""
    at = np.searchsorted(classes, y)
    own = probability[np.arange(len(y)), at]
    return float(-np.log2(own).mean()), float((probability.argmax(axis=1) != at).mean())


Task = tuple[str, float, tuple[float, ...]]


def one(seed: int, limit: int, task: Task) -> list[Point]:
    """The points of one s at some σ."""
    name, log_s, log_sds = task
    if name == "hmc":
        return sampled(seed, log_s, log_sds)
    return [fitted(name, seed, log_s, log_sd, limit) for log_sd in log_sds]


def tasks(names: Iterable[str], largest: float, largest_sd: float, every: float) -> list[Task]:
    """All of one s by hmc first, which is longest; then single points, large σ and s first."""
    grid, sds = steps(largest, every), steps(largest_sd, every)
    found: list[Task] = []
    for name in names:
        if name == "hmc":
            found += [(name, s, steps(largest_sd, STEP)) for s in grid]
        else:
            found += [(name, s, (sd,)) for s in grid for sd in sds]
    return sorted(found, key=lambda t: (-len(t[2]), -t[1] - t[2][0]))


def steps(largest: float, every: float) -> tuple[float, ...]:
    return tuple(np.arange(LOWEST, largest + 1e-9, every).tolist())


def held(folder: Path = FOLDER) -> list[Point]:
    """The points of `points.csv`."""
    path = folder / "points.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return [
            Point(m, int(k), float(s), float(sd), float(e), float(se) if se else None, float(b),
                  float(w), status, float(t))
            for m, k, s, sd, e, se, b, w, status, t in list(csv.reader(lines))[1:]
        ]  # fmt: skip


def keep(points: Sequence[Point], folder: Path = FOLDER) -> None:
    """Put points in `points.csv` in place of earlier ones of the same method, split and place."""
    whole = {astuple(p)[:4]: p for p in (*held(folder), *points)}
    header = [f.name for f in fields(Point)]
    table(folder, header, sorted(map(astuple, whole.values())), name="points", digits=7)


def missing(asked: Iterable[Task], seed: int) -> list[Task]:
    """The tasks that have points which are not in `points.csv`, or which did not converge."""
    done = {
        astuple(p)[:4] for p in held() if p.method == "hmc" or p.status == str(Status.converged)
    }
    return [t for t in asked if not done.issuperset((t[0], seed, t[1], sd) for sd in t[2])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=[*METHODS, "hmc"])
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--largest", type=float, default=HIGHEST)
    parser.add_argument("--largest-sd", type=float, default=HIGHEST)
    parser.add_argument("--every", type=float, default=STEP)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--peaks", type=int, default=0)
    parser.add_argument("--workers", type=int, default=16)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers) as pool:
        if given.peaks:
            tops = [
                max((p for p in held() if (p.method, p.split) == (n, 0)), key=lambda p: p.evidence)
                for n in given.names
            ]
            pairs = [(top, k) for top in tops for k in range(1, given.peaks + 1)]
            found = pool.map(climbed, *zip(*pairs, strict=True))
        else:
            grid = tasks(given.names, given.largest, given.largest_sd, given.every)
            wanted = missing(grid, given.split)
            found = pool.map(partial(one, given.split, given.steps), wanted)
        keep([point for points in found for point in points])


if __name__ == "__main__":
    main()
