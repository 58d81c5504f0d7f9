"""Small models, data, and pools in which workers are ended on purpose."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.workers.pool import Pool
from lgmdsl.workers.task import Payload

GAUSSIAN = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
latent b[feat] ~ normal(mean = 1, sd = 1.5)
latent a ~ normal(sd = 0.5)
let eta[obs] = a + X @ b
observe y ~ normal(mean = eta, sd = 0.7)
"""
COUNTS = """lgm 1
index obs
index g
data y[obs] : count
data who[obs] : g
hyper s : positive ~ gamma(shape = 2, rate = 2)
latent b0 ~ normal(sd = 5)
latent u[g] ~ normal(sd = s)
let eta[obs] = b0 + u[who]
observe y ~ poisson(log_rate = eta)
"""
# Priors with a mode at 0 for each sd, so that searches for maxima begin at several places.
CROSSED = """lgm 1
index obs
index g
index h
index k
data y[obs] : real
data a[obs] : g
data b[obs] : h
data c[obs] : k
hyper s : positive ~ gamma(shape = 0.2, rate = 1)
hyper r : positive ~ gamma(shape = 0.2, rate = 1)
hyper t : positive ~ gamma(shape = 0.2, rate = 1)
latent b0 ~ normal(sd = 10)
latent u[g] ~ normal(sd = s)
latent v[h] ~ normal(sd = r)
latent w[k] ~ normal(sd = t)
observe y ~ normal(mean = b0 + u[a] + v[b] + w[c], sd = 1)
"""
BINARY = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent b[feat] ~ normal(sd = 1)
observe y ~ bernoulli(logit = X @ b)
"""
RUNS = 12
LONG = 120.0  # seconds that a busy machine may take


def counts() -> dict[str, Any]:
    """Forty counts of eight groups."""
    rng = np.random.default_rng(0)
    who = np.arange(40) % 8
    return {"y": rng.poisson(np.exp(0.5 + rng.normal(size=8))[who]), "who": who}


def calibrated(**more: Any) -> lgm.Calibration:
    """A dozen runs of half a second altogether."""
    sizes = {"obs": 6, "feat": 2}
    given: dict[str, Any] = {"sizes": sizes, "runs": RUNS, "method": "laplace", "jobs": 1, **more}
    return lgm.calibrate(lgm.loads(GAUSSIAN), **given)


def integrated(**more: Any) -> lgm.Fit:
    """A fit that integrates over one hyperparameter."""
    return lgm.fit(lgm.loads(COUNTS), counts(), "laplace", "integrate", **more)


def searched(**more: Any) -> lgm.Fit:
    """The highest of several maxima over three hyperparameters."""
    rng = np.random.default_rng(1)
    who = [rng.integers(0, 5, 60) for _ in range(3)]
    parts = [sd * rng.normal(size=5)[w] for sd, w in zip((0.3, 0.1, 0.3), who, strict=True)]
    y = 1.0 + sum(parts) + rng.normal(size=60)
    data = {"y": y, **dict(zip("abc", who, strict=True))}
    return lgm.fit(lgm.loads(CROSSED), data, "laplace", "map", **more)


def designed(**more: Any) -> lgm.Design:
    """Seven of 9,000 candidates, in three blocks."""
    rng = np.random.default_rng(2)
    b, rows, pool = rng.normal(size=3), rng.normal(size=(40, 3)), rng.normal(size=(9000, 3))
    y, labels = (
        (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x @ b))).astype(float) for x in (rows, pool)
    )
    given: dict[str, Any] = {
        "score": "information",
        "steps": 7,
        "block": 3,
        "oracle": {"y": labels},
    }
    return lgm.design(lgm.loads(BINARY), {"X": rows, "y": y}, {"X": pool}, **{**given, **more})


def audited(fit: lgm.Fit, ways: tuple[bool, ...] = (False, True), **more: Any) -> list[str]:
    """Everything that audits of a fit say, by weights and by exact draws."""
    made = (fit.audit(300, 3, sampler=exact, **more) for exact in ways)
    return [str({n: np.asarray(v).tolist() for n, v in flattened(a.as_json())}) for a in made]


def flattened(fields: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{before}{name}.")
        else:
            yield before + name, value


@cache
def others_alone() -> tuple[lgm.Fit, lgm.Design, list[str]]:
    return searched(), designed(), audited(alone()[1])


@cache
def alone() -> tuple[lgm.Calibration, lgm.Fit, tuple[np.ndarray, ...]]:
    fit = integrated()
    return calibrated(), fit, left_out(fit, 1)


def left_out(fit: lgm.Fit, jobs: object) -> tuple[np.ndarray, ...]:
    one = fit.loo(groups="g", exact="all", jobs=jobs)
    return (*one.log_density, *one.errors)


def same_fit(one: lgm.Fit, other: lgm.Fit) -> bool:
    """Every bit that was learned, and what is asked of it."""
    points = (one.points, other.points)
    draws = [f.sample(50, seed=3)["u"].values for f in (one, other)]
    return (
        one == other
        and one.learning == other.learning
        and one.log_evidence == other.log_evidence
        and len(points[0]) == len(points[1])
        and all(
            np.array_equal(a.theta["s"], b.theta["s"]) and a.share == b.share
            for a, b in zip(*points, strict=True)
        )
        and np.array_equal(draws[0], draws[1])
        and np.array_equal(one.mean("u"), other.mean("u"))
    )


class Killing(Pool):
    """Ends `count` of its processes as soon as the task `wanted` takes, by its payload or its
    number, is on its way; `times` it does so."""

    def __init__(
        self, size: int, wanted: Callable[[Payload, int], bool], times: int = 1, count: int = 1
    ) -> None:
        super().__init__(size)
        self.wanted, self.times, self.count, self.seen = wanted, times, count, 0
        self.kills = 0

    def submit(self, fn: Callable[..., Any], *args: Any, home: int | None = None) -> Any:
        future = super().submit(fn, *args, home=home)
        self.seen += 1
        if self.kills < self.times and self.wanted(pickle.loads(args[1]), self.seen):
            self.kills += 1
            living = [process.pid for process in self.processes if process.is_alive()]
            for pid in living[-self.count :]:  # a lane that broke keeps its process until renewed
                assert pid is not None
                with suppress(ProcessLookupError):  # it may have ended since
                    os.kill(pid, signal.SIGKILL)
        return future


class Kept:
    """A pool that several calls share: the calls do not close it."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pool, name)

    def close(self) -> None:
        """Not yet."""


def end_this_process() -> None:
    """As the kernel does to a process for which there is no memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def hog(megabytes: int) -> None:
    """Take memory, ten megabytes at a time, as a fit may."""
    taken = []
    for _ in range(megabytes // 10):
        taken.append(np.ones(10 * 2**17))
        time.sleep(0.01)
