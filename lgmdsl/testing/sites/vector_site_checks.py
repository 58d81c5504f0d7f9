"""Conformance of a vector family: derivatives, normalisation, draws, and the bounds that apply."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bounds, series
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.questions import Expected, ExpectedAnswer, Pointwise, Tilted
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.testing.sites.sampling_checks import is_zero

FAR = (0.0, 40.0, 700.0, 1e4)
DRAWS = 4000
STEP, TOLERANCE = 1e-3, 2e-7
SDS = (0.2, 1.0, 3.0)
SMALL_SDS = (0.1, 0.5)  # where log densities may grow like exponentials
# Brute force: a trapezoidal rule of so many nodes on each axis, and the error it may have itself.
NODES, ROUGH = 41, 1e-7


def vector_failures(site: Site, predictors: int, seed: int = 0) -> Iterator[str]:
    """What is wrong with a vector family of K = `predictors`, one sentence each. Brute force over
    all predictors at once limits the checks of bounds to K up to 3."""
    rng = np.random.default_rng(seed)
    yield from _rows(site, predictors, rng)
    if isinstance(site, Pointwise):
        yield from _finite(site, predictors, rng)
        yield from _derivatives(site, predictors, rng)
    yield from _draws(site, predictors, rng)
    if predictors <= 3:
        yield from vector_tilted_failures(site, predictors, np.random.default_rng([seed, 1]))
    able = [b for b in every_bound() if not b.applies_to(type(site))]
    sds = SMALL_SDS if site.spec.predictors else SDS
    for sd in sds if predictors <= 3 else ():
        mean, root = rng.normal(size=(2, len(site), predictors, predictors))
        variance = sd**2 * (root @ root.transpose(0, 2, 1) / predictors + 0.1 * np.eye(predictors))
        truth = expectation(site, mean[:, 0], variance)
        for bound in able:
            for problem in _bound(site, bound, mean[:, 0], variance, truth):
                yield f"`{bound.spec.name}` at sd {sd:g}: {problem}"


def every_bound() -> tuple[Bound, ...]:
    """The bounds that give Expected, a series by its example."""
    known = (*bounds(), *(s.example for s in series()))
    return tuple(b for b in known if b.spec.gives is Expected)


def difference(f: Callable[[Array], Array], s: Array, axis: int) -> Array:
    """Five-point derivative of f in one of the predictors of every site."""
    step = np.zeros(s.shape[1])
    step[axis] = STEP
    low2, low, high, high2 = (f(s + k * step) for k in (-2, -1, 1, 2))
    return np.asarray((low2 - 8.0 * low + 8.0 * high - high2) / (12.0 * STEP))


def _rows(site: Site, k: int, rng: np.random.Generator) -> Iterator[str]:
    names = [f.name for f in dataclasses.fields(site)]
    wanted = [*(() if site.spec.potential else ("y",)), *site.spec.parameters]
    if names != wanted:
        yield f"fields are {names}, but the spec says {wanted}"
    s, back = rng.normal(size=(len(site), k)), np.arange(len(site))[::-1]
    if not np.allclose(site.take(back).log_density(s[back]), site.log_density(s)[back], rtol=1e-14):
        yield "take() of some rows gives other values than those rows"
    for name in site.spec.wide:
        if np.ndim(getattr(site, name)) != 2:
            yield f"`{name}` has no axis of classes"


def _finite(site: Pointwise, k: int, rng: np.random.Generator) -> Iterator[str]:
    n = len(cast(Site, site))
    for size in FAR:
        a = site.pointwise(rng.choice([-size, 0.0, size], (n, k)))
        shapes = {"value": (n,), "slope": (n, k), "curvature": (n, k, k), "third": (n, k)}
        for name, shape in shapes.items():
            array = getattr(a, name)
            if array.shape != shape:
                yield f"{name} has shape {array.shape}, not {shape}"
            elif not np.isfinite(array).all():
                yield f"{name} is not finite at {size:g}"
        concave = Property.LOG_CONCAVE in cast(Site, site).spec.properties
        if concave and np.linalg.eigvalsh(a.curvature).max() > 1e-12:
            yield f"declared LOG_CONCAVE, but a curvature is positive at {size:g}"


def _derivatives(site: Pointwise, k: int, rng: np.random.Generator) -> Iterator[str]:
    n = len(cast(Site, site))
    root = rng.normal(size=(n, k, k))
    variance = root @ root.transpose(0, 2, 1)
    for size in (0.5, 3.0):
        s = size * rng.normal(size=(n, k))
        a = site.pointwise(s, variance)
        if not np.allclose(a.value, cast(Site, site).log_density(s), rtol=1e-12, atol=1e-12):
            yield "pointwise(s).value differs from log_density"
        for i in range(k):
            known = {
                "slope": (a.slope[:, i], difference(cast(Site, site).log_density, s, i)),
                "curvature": (
                    a.curvature[:, i],
                    difference(lambda t: site.pointwise(t).slope, s, i),
                ),
                "third": (
                    a.third[:, i],
                    difference(
                        lambda t: np.einsum("nij,nij->n", site.pointwise(t).curvature, variance),
                        s,
                        i,
                    ),
                ),
            }
            for name, (answer, wanted) in known.items():
                if np.any(np.abs(answer - wanted) > TOLERANCE * (1.0 + np.abs(wanted))):
                    yield f"{name} of predictor {i} differs from differences"


def outcomes(site: Site, classes: int) -> Array | None:
    """Every y of the first site: positions of classes, or counts that add up to its n."""
    if "index" in site.spec.observed:
        return np.arange(float(classes))
    if "y" not in site.spec.wide or not hasattr(site, "trials"):
        return None
    n = int(site.trials[0])
    every = [c for c in product(range(n + 1), repeat=classes) if sum(c) == n]
    return np.array(every, dtype=np.float64)


def _drawn_numbers(site: Site, k: int, rng: np.random.Generator) -> Iterator[str]:
    """Faults in draws of sites whose predictors are arguments, by their moments and their law."""
    for i in range(min(len(site), 4)):
        many, s = site.take(np.full(DRAWS, i)), np.tile(rng.normal(size=k), (DRAWS, 1))
        y = many.sample(s, rng)
        drawn: dict[str, Any] = {"y": y}
        low, high = dataclasses.replace(many, **drawn).distribution(s)
        placed = np.sort(low + (high - low) * rng.random(DRAWS))
        gap = np.abs(placed - (np.arange(DRAWS) + 0.5) / DRAWS).max()
        if gap > 1.95 / np.sqrt(DRAWS):  # Kolmogorov's, once in a thousand
            yield f"draws do not follow the distribution function (site {i}): {gap:.2g}"
        mean, variance = many.conditional_mean(s)[0], many.conditional_variance(s)[0]
        if np.isfinite(variance) and abs(y.mean() - mean) > 5.0 * np.sqrt(variance / DRAWS):
            yield f"draws have mean {y.mean():.4g}, not {mean:.4g} (site {i})"


def _draws(site: Site, k: int, rng: np.random.Generator) -> Iterator[str]:
    if site.spec.potential:
        return
    if site.spec.predictors:
        yield from _drawn_numbers(site, k, rng)
        return
    for i in range(min(len(site), 4)):
        s = rng.normal(size=k)
        many = site.take(np.full(DRAWS, i))
        predictors = np.tile(s, (DRAWS, 1))
        mean = many.conditional_mean(predictors)
        every = outcomes(many, mean.shape[1])
        if every is not None:
            listed: dict[str, Any] = {"y": every}
            some = dataclasses.replace(many.take(np.zeros(len(every), np.int64)), **listed)
            with np.errstate(divide="ignore"):
                total = np.exp(some.log_density(predictors[: len(every)])).sum()
            if abs(total - 1.0) > 1e-9:
                yield f"the density of y sums to {total:.9g} (site {i})"
        y = many.sample(predictors, rng)
        drawn: dict[str, Any] = {"y": y}
        counted = y if y.ndim == 2 else (y[:, None] == np.arange(mean.shape[1])) * 1.0
        gap = counted - mean
        for c in range(mean.shape[1]):
            yield from is_zero(gap[:, c], f"draws of class {c} less conditional_mean (site {i})")
            square = gap[:, c] ** 2 - many.conditional_variance(predictors)[:, c]
            yield from is_zero(square, f"squares of draws of class {c} (site {i})")
        if isinstance(many, Pointwise):
            a = cast(Pointwise, dataclasses.replace(many, **drawn)).pointwise(predictors)
            for c in range(k):
                score = a.slope[:, c]
                yield from is_zero(score, f"E[slope] over draws, predictor {c} (site {i})")
                yield from is_zero(
                    score * a.slope[:, 0] + a.curvature[:, c, 0], f"E[ll' + l''] over draws, {c}"
                )


def expectation(site: Site, mean: Array, variance: Array) -> Array:
    """E[l], (N,), by brute force over all K predictors."""
    n, k = mean.shape
    t = np.linspace(-8.5, 8.5, NODES)
    w = np.exp(-0.5 * t * t)
    w /= w.sum()
    grid = np.stack(np.meshgrid(*[t] * k, indexing="ij"), axis=-1).reshape(-1, k)
    weight = np.prod(np.stack(np.meshgrid(*[w] * k, indexing="ij"), axis=-1), axis=-1).ravel()
    heavy = weight > 1e-18
    grid, weight = grid[heavy], weight[heavy]
    values, turn = np.linalg.eigh(variance)
    root = turn * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    out = np.empty(n)
    for i in range(n):
        many = site.take(np.full(len(grid), i))
        out[i] = weight @ many.log_density(mean[i] + grid @ root[i].T)
    return out


def _bound(site: Site, bound: Bound, mean: Array, variance: Array, truth: Array) -> Iterator[str]:
    """The promise, and the derivatives, of what a bound gives of the sites."""
    lift, size = cast(Expected, bound.lift(site)), 1.0 + np.abs(truth)
    a = lift.expected(mean, variance)
    over, promise = a.value - truth, bound.spec.guarantee
    if promise is Guarantee.LOWER and np.any(over > ROUGH * size):
        yield f"above the expectation by {over.max():.2g}"
    off = np.nan_to_num(np.abs(over) / size)  # NaN: a rule may say that it is too short
    if promise is Guarantee.NUMERICAL and np.any(off > bound.spec.error):
        yield f"off by {np.abs(over).max():.2g}"
    rough = bound.spec.error if promise is Guarantee.NUMERICAL else 0.0
    yield from slope_failures(lift, a, mean, variance, rough)


def slope_failures(
    lift: Expected, answer: ExpectedAnswer, mean: Array, variance: Array, error: float = 0.0
) -> Iterator[str]:
    """Derivatives of an answer in the means and the covariances, against differences. A rule whose
    values have an `error` may take 2 d_variance for its curvature, which has that error too."""
    k = mean.shape[1]
    for i in range(k):
        by_mean = difference(lambda m: lift.expected(m, variance).value, mean, i)
        bend = difference(lambda m: lift.expected(m, variance).d_mean, mean, i)
        pairs = {
            "d_mean": (answer.d_mean[:, i], by_mean),
            "curvature": (answer.curvature[:, i], bend),
        }
        for j in range(i + 1):
            move = np.zeros((k, k))
            move[i, j] = move[j, i] = 1.0 if i == j else 0.5
            h = 1e-4 * np.sqrt(variance[:, i, i] * variance[:, j, j])
            step = h[:, None, None] * move
            ahead, behind = (lift.expected(mean, variance + t * step).value for t in (1.0, -1.0))
            pairs[f"d_variance[{i}, {j}]"] = (
                answer.d_variance[:, i, j],
                (ahead - behind) / (2.0 * h),
            )
        for name, (derivative, wanted) in pairs.items():
            loose = error if name == "curvature" and answer.d_mean2 is None else 0.0
            if np.any(np.abs(derivative - wanted) > max(1e-5, loose) * (1.0 + np.abs(wanted))):
                yield f"{name} of predictor {i} differs from differences"


# ---- vector tilted checks ----------------------------------------------------------------------
# Checks of the tilted moments of a vector family, its own and the lifts', against brute force.


# Nodes on each axis over REACH sds of the answer, by the number of predictors; errors allowed, of
# log mass, and of means and covariances in sds.
TILTED_NODES, REACH = {1: 401, 2: 81, 3: 41}, 9.0
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
    line = np.linspace(-REACH, REACH, TILTED_NODES[k])
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
