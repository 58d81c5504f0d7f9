"""Checks of the tilted moments of a vector family, its own and the lifts', against brute force."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bounds
from lgmdsl.contract.questions import Tilted
from lgmdsl.contract.site import Property, Site

# Nodes on each axis over REACH sds of the answer, by the number of predictors; errors allowed, of
# log mass, and of means and covariances in sds.
NODES, REACH = {1: 401, 2: 81, 3: 41}, 9.0
ERROR, IN_SDS = 1e-6, 5e-6
SITES = 3  # a brute sum takes tens of thousands of densities


def vector_tilted_failures(site: Site, predictors: int, rng: np.random.Generator) -> Iterator[str]:
    """What is wrong with the mass and moments of N(m, V) t^power, one sentence each: at narrow V
    and, where the family is log-concave, at wide ones, of which NaN (no rule settled) may come."""
    lifts = [b.lift for b in bounds() if b.spec.gives is Tilted and not b.applies_to(type(site))]
    some = site.take(np.arange(min(len(site), SITES)))
    answers = [cast(Tilted, lift(some)) for lift in lifts]
    # A product rule passes over the ridges of wide densities that are not log-concave.
    concave = Property.LOG_CONCAVE in site.spec.properties
    for sd in (0.3, 1.2) if concave else (0.2,):
        root = rng.normal(size=(len(some), predictors, predictors))
        inner = root @ root.transpose(0, 2, 1) / predictors + 0.1 * np.eye(predictors)
        mean, variance = rng.normal(size=(len(some), predictors)), sd * sd * inner
        for answer in answers:
            for power in (1.0, 0.5):
                a = answer.tilted(mean, variance, power)
                for i in np.flatnonzero(np.isfinite(a.log_mass)):
                    one, about = some.take(np.array([i])), (a.mean[i], a.variance[i])
                    mass, centre, spread = brute(one, mean[i], variance[i], power, about)
                    size = np.sqrt(np.diag(spread))
                    gaps = {
                        "log mass": abs(a.log_mass[i] - mass) / ERROR,
                        "mean": np.abs((a.mean[i] - centre) / size).max() / IN_SDS,
                        "covariance": np.abs((a.variance[i] - spread) / np.outer(size, size)).max()
                        / IN_SDS,
                    }
                    for name, gap in gaps.items():
                        if not gap <= 1.0:
                            yield f"tilted {name} of row {i} at sd {sd:g}, power {power:g} is off"
                if sd < 1.0 and not np.isfinite(a.log_mass).all():
                    yield f"no tilted moments at sd {sd:g}, power {power:g}"


def brute(
    site: Site, mean: Array, variance: Array, power: float, about: tuple[Array, Array]
) -> tuple[float, Array, Array]:
    """log mass, mean and covariance of one site, by a product rule over a box about `about`."""
    k, root = len(mean), np.linalg.cholesky(about[1])
    line = np.linspace(-REACH, REACH, NODES[k])
    x = np.stack(np.meshgrid(*[line] * k, indexing="ij"), axis=-1).reshape(-1, k)
    s = about[0] + x @ root.T
    with np.errstate(all="ignore"):
        l = site.take(np.zeros(len(s), dtype=np.intp)).log_density(s)
    away = np.linalg.solve(np.linalg.cholesky(variance), (s - mean).T)
    log = power * l - 0.5 * (away * away).sum(axis=0)
    weight = np.exp(log - log.max())
    total = weight.sum()
    centre = weight @ x / total
    spread = (x * weight[:, None]).T @ x / total - np.outer(centre, centre)
    size = 0.5 * (np.linalg.slogdet(about[1])[1] - np.linalg.slogdet(variance)[1])
    mass = log.max() + np.log(total) + k * np.log((line[1] - line[0]) / np.sqrt(2.0 * np.pi))
    return float(mass + size), about[0] + root @ centre, root @ spread @ root.T
