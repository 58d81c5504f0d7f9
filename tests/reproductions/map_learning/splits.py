"""Mean squared errors of factor analysis with missing entries, a split at a time: Khan 2012, figure
2.1.

    python -m tests.reproductions.map_learning.splits [--splits 20]

puts the splits that `splits.csv` lacks into it, each when it has ended: 30 fits a split.

MM: loadings and factors maximised over together; VM: factors integrated out, loadings maximised
over (EM); SS: both sampled. 200 cases of 10 variables and 5 factors, noise variance 0.1 and offsets
0 known; half of the cases for training; 10 % or 50 % of all entries missing.
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array, BoolArray
from tests.reproductions.record import table

FOLDER = Path(__file__).parent
WAYS = ("MM", "VM", "SS")
CASES, ITEMS, FACTORS, VARIANCE = 200, 10, 5, 0.1
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
MISSING = (0.1, 0.5)
SWEEPS, BURNT = 2000, 500  # of the sampler
LONGEST, STILL = 5000, 1e-8  # rounds of MM, and the relative gain at which they end
HEAD = """lgm 1
index p
index i
index k = 5
data y[p, i] : real?
"""
LOADINGS = "hyper W[i, k] : real ~ normal(sd = r)\n"
FACTOR = "latent z[p, k] ~ normal(sd = 1)\n"
TAIL = """let eta[p, i] = W @ z
observe y ~ normal(mean = eta, sd = 0.31622776601683794)
"""
LEARNED = lgm.loads(HEAD + "data r : positive\n" + LOADINGS + FACTOR + TAIL)
GIVEN_LOADINGS = lgm.loads(HEAD + "data W[i, k] : real\n" + FACTOR + TAIL)
GIVEN_FACTORS = lgm.loads(
    HEAD
    + "data r : positive\ndata z[p, k] : real\nlatent W[i, k] ~ normal(sd = r)\n"
    + TAIL.replace("W @ z", "z @ W")
)


class Cases(NamedTuple):
    """`y` with NaN where missing, `truth` everywhere; training and test."""

    y: Array
    truth: Array

    @property
    def gone(self) -> BoolArray:
        return np.isnan(self.y)


def cases(number: int, missing: float) -> tuple[Cases, Cases]:
    """One data set for all splits, as in the thesis; entries that are missing belong to a split."""
    rng = np.random.default_rng(2012)
    loads, z = rng.normal(size=(ITEMS, FACTORS)), rng.normal(size=(CASES, FACTORS))
    truth = z @ loads.T + np.sqrt(VARIANCE) * rng.normal(size=(CASES, ITEMS))
    rng = np.random.default_rng([number, round(100 * missing)])
    y = np.where(rng.random(truth.shape) < missing, np.nan, truth)
    order = rng.permutation(CASES)
    train, test = order[: CASES // 2], order[CASES // 2 :]
    return Cases(y[train], truth[train]), Cases(y[test], truth[test])


@cache
def by_em(number: int, missing: float, strength: float) -> Array:
    """Loadings, (items, factors), by exact EM from the training cases of a split."""
    y = cases(number, missing)[0].y
    fit = lgm.fit(LEARNED, {"y": y, "r": strength**-0.5}, hyper="em")
    assert fit.converged
    return np.asarray(fit.theta["W"])


def coefficients(y: Array, has: BoolArray, given: Array, own: float) -> tuple[Array, Array]:
    """Means, (n, k), and precisions, (n, k, k), of coefficients of `given` (m, k) in rows of y
    (n, m), of which `has` are there, prior precision `own`: what a fit gives of GIVEN_LOADINGS, or
    of GIVEN_FACTORS with rows and columns exchanged."""
    weight, known = has / VARIANCE, np.nan_to_num(y)
    square = (given[:, :, None] * given[:, None, :]).reshape(len(given), -1)
    precision = (weight @ square).reshape(len(y), FACTORS, FACTORS) + own * np.eye(FACTORS)
    right = np.asarray((weight * known) @ given)
    return np.asarray(np.linalg.solve(precision, right[..., None])[..., 0]), np.asarray(precision)


def by_both(y: Array, strength: float) -> Array:
    """Loadings where the joint density of loadings and factors is highest: the mode of one given
    the other in turn (of Gaussian models, so the means). After each round both are the factors of
    their product that the two priors like best, which saves the slow exchange of scale."""
    loads, has = np.random.default_rng(0).normal(size=(ITEMS, FACTORS)), ~np.isnan(y)
    last = -np.inf
    for _ in range(LONGEST):
        z, _ = coefficients(y, has, loads, 1.0)
        loads, _ = coefficients(y.T, has.T, z, strength)
        left, size, right = np.linalg.svd(z @ loads.T, full_matrices=False)
        root = np.sqrt(size[:FACTORS])
        z = left[:, :FACTORS] * root * strength**0.25
        loads = right[:FACTORS].T * root * strength**-0.25
        off = np.nansum((y - z @ loads.T) ** 2) / VARIANCE
        now = -0.5 * (off + np.sum(z**2) + strength * np.sum(loads**2))
        if now - last < STILL * abs(now):
            break
        last = now
    return np.asarray(loads)


def filled(y: Array, loads: Array) -> Array:
    """Posterior means of w'z of all entries, given the loadings."""
    fit = lgm.fit(GIVEN_LOADINGS, {"y": y, "W": loads}, hyper="fixed")
    return np.asarray(fit.mean("eta").values)


def sampled(train: Array, test: Array, loads: Array, strength: float) -> tuple[Array, Array]:
    """Means of w'z in training and test under the posterior of everything given `train`: a Gibbs
    sampler (both conditionals are Gaussian), the yardstick; test factors by their exact means.
    From random loadings it takes 16,000 sweeps to arrive where it begins from those of EM."""
    rng = np.random.default_rng(1)
    seen, shown = (~np.isnan(y) for y in (train, test))
    fitted, predicted = np.zeros_like(train), np.zeros_like(test)

    def drawn(mean: Array, precision: Array) -> Array:
        noise = np.asarray(rng.standard_normal(mean.shape))[..., None]
        root = np.linalg.cholesky(precision).transpose(0, 2, 1)
        return np.asarray(mean + np.linalg.solve(root, noise)[..., 0])

    for sweep in range(SWEEPS):
        z = drawn(*coefficients(train, seen, loads, 1.0))
        loads = drawn(*coefficients(train.T, seen.T, z, strength))
        if sweep >= BURNT:
            fitted += z @ loads.T
            predicted += coefficients(test, shown, loads, 1.0)[0] @ loads.T
    return fitted / (SWEEPS - BURNT), predicted / (SWEEPS - BURNT)


def squared(part: Cases, guess: Array, where: BoolArray) -> float:
    return float(np.mean((part.truth - guess)[where] ** 2))


@dataclass(frozen=True)
class Errors:
    """Mean squared errors of one run: missing entries of test cases, and missing and observed ones
    of training cases. `seconds`: CPU, of SS without the EM whose loadings it starts from."""

    split: int
    missing: float
    way: str
    strength: float
    test: float
    filled: float
    observed: float
    seconds: float


def errors(number: int, missing: float, way: str, strength: float) -> Errors:
    train, test = cases(number, missing)
    start = by_em(number, missing, strength) if way == "SS" else None
    began = time.process_time()
    if start is not None:
        guesses = sampled(train.y, test.y, start, strength)
    else:
        vm = way == "VM"
        loads = by_em(number, missing, strength) if vm else by_both(train.y, strength)
        guesses = filled(train.y, loads), filled(test.y, loads)
    return Errors(
        number,
        missing,
        way,
        strength,
        squared(test, guesses[1], test.gone),
        squared(train, guesses[0], train.gone),
        squared(train, guesses[0], ~train.gone),
        time.process_time() - began,
    )


def of_split(number: int) -> list[Errors]:
    return [
        errors(number, missing, way, strength)
        for missing in MISSING
        for way in WAYS
        for strength in STRENGTHS
    ]


def stored() -> list[Errors]:
    """Those of `splits.csv`."""
    path = FOLDER / "splits.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return [
            Errors(int(k), float(missing), way, *map(float, rest))
            for k, missing, way, *rest in list(csv.reader(lines))[1:]
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    header = [f.name for f in fields(Errors)]
    for number in range(parser.parse_args().splits):
        known = stored()
        if number not in {e.split for e in known}:
            table(FOLDER, header, [*map(astuple, [*known, *of_split(number)])], name="splits")


if __name__ == "__main__":
    main()
