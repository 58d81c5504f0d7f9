"""Checks of Expected, Tilted, TiltedSlopes and Decoupled answers, a family's own and the lifts'."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bounds
from lgmdsl.bounds.quadrature import (
    ExpectedByQuadrature,
    SlopesByQuadrature,
    TiltedByQuadrature,
)
from lgmdsl.contract.questions import (
    Augmented,
    AugmentedAnswer,
    Decoupled,
    Expected,
    ExpectedSlopes,
    Tilted,
    TiltedSlopes,
)
from lgmdsl.contract.site import Property, Site

Nodes = tuple[Array, Array, Array]
NODES = 20001
_SDS = (0.15, 0.8, 2.5)
_SMOOTH, _KINKED = 1e-8, 3e-4  # brute force itself is that rough at a cusp


def question_failures(site: Site, seed: int = 0) -> Iterator[str]:
    """Expected, Tilted, TiltedSlopes, own and lifted, against brute force at random
    means and three sds; Decoupled against Expected."""
    rng = np.random.default_rng(seed)
    mean = rng.uniform(-3.0, 3.0, len(site))
    rough = (Property.KINKED | Property.CORNERED) & site.spec.properties
    tolerance = _KINKED if rough else _SMOOTH
    expecting: list[tuple[str, Expected]] = []
    tilting: list[tuple[str, Tilted]] = []
    if isinstance(site, Expected):
        expecting.append(("expected()", site))
    if isinstance(site, Tilted):
        tilting.append(("tilted()", site))
    sloping: list[tuple[str, TiltedSlopes]] = []
    if isinstance(site, TiltedSlopes):
        sloping.append(("tilted_slopes()", site))
    if not SlopesByQuadrature().applies_to(type(site)):
        sloping.append(("the quadrature lift's tilted_slopes()", SlopesByQuadrature().lift(site)))
        tilting.append(("the quadrature lift's tilted()", TiltedByQuadrature().lift(site)))
    if not ExpectedByQuadrature().applies_to(type(site)):
        expecting.append(("the quadrature lift's expected()", ExpectedByQuadrature().lift(site)))
    lifts: dict[str, Callable[[Site], object]] = {
        f"the lift of `{b.spec.name}`": b.lift
        for b in bounds()
        if b.spec.gives is Expected and not b.applies_to(type(site))
    }
    if isinstance(site, ExpectedSlopes):
        lifts["itself"] = lambda s: s
    for sd in _SDS:
        variance = np.full(len(site), sd * sd)
        for name, lift in lifts.items():
            for problem in _expected_slopes(site, lift, mean, variance):
                yield f"{name}, sd {sd:g}: {problem}"
        known = brute(site, mean, variance)
        for name, answers in expecting:
            for problem in _expected(answers, mean, variance, known, tolerance):
                yield f"{name}, sd {sd:g}: {problem}"
        for name, tilts in tilting:
            for power in (1.0, 0.5):
                for problem in _tilted(tilts, mean, variance, power, known, tolerance):
                    yield f"{name}, sd {sd:g}, power {power:g}: {problem}"
        for name, slopes in sloping:
            for problem in _slopes(site, slopes, mean, variance):
                yield f"{name}, sd {sd:g}: {problem}"
    if isinstance(site, Decoupled):
        if isinstance(site, Expected):
            for problem in _decoupled(site, site, len(site), rng):
                yield f"conjugate(): {problem}"
        else:
            yield "it answers Decoupled, but not Expected, whose maximum that is"


def brute(site: Site, mean: Array, variance: Array) -> Nodes:
    """Nodes s (n, N), standard scores (n, 1) and l at the nodes: 20001 points over +-13 sd."""
    t = np.linspace(-13.0, 13.0, NODES)[:, None]
    s = mean + np.sqrt(variance) * t
    many = site.take(np.tile(np.arange(len(site)), NODES))
    return s, t, many.log_density(s.ravel()).reshape(s.shape)


def _close(answer: Array, wanted: Array, tolerance: float) -> bool:
    return bool(np.all(np.abs(answer - wanted) <= tolerance * np.maximum(1.0, np.abs(wanted))))


def _expected(
    answers: Expected, mean: Array, variance: Array, nodes: Nodes, tolerance: float
) -> Iterator[str]:
    a = answers.expected(mean, variance, second=True)
    _, t, l = nodes
    sd = np.sqrt(variance)
    w = np.exp(-0.5 * t * t)
    w = w / w.sum()
    # Second derivatives are divided by sd^3 and sd^4, and so are the brute sum's own errors.
    wanted = {
        "value": (a.value, (w * l).sum(0), 1.0),
        "d_mean": (a.d_mean, (w * l * t).sum(0) / sd, 1.0),
        "d_variance": (a.d_variance, (w * l * (t * t - 1)).sum(0) / (2 * variance), 1e1),
        "d_mean_variance": (
            a.d_mean_variance, (w * l * (t**3 - 3 * t)).sum(0) / (2 * sd**3), 1e2,
        ),
        "d_variance2": (
            a.d_variance2, (w * l * (t**4 - 6 * t * t + 3)).sum(0) / (4 * sd**4), 1e3,
        ),
    }  # fmt: skip
    for name, (answer, known, loose) in wanted.items():
        if answer is None:
            yield f"{name} is missing though second=True"
        elif not _close(answer, known, tolerance * loose):
            yield f"{name} is off by {np.max(np.abs(answer - known)):.2g}"
    if answers.expected(mean, variance).d_variance2 is not None:
        yield "d_variance2 is given though second=False"


def _tilted(
    answers: Tilted, mean: Array, variance: Array, power: float, nodes: Nodes, tolerance: float
) -> Iterator[str]:
    a = answers.tilted(mean, variance, power)
    s, t, l = nodes
    level = power * l - 0.5 * t * t
    top = level.max(axis=0)
    w = np.exp(level - top)
    mass = w.sum(0)
    step = 26.0 / (NODES - 1)
    mean_t = (w * (s - mean)).sum(0) / mass
    known = {
        "log_mass": (a.log_mass, np.log(mass * step / np.sqrt(2 * np.pi)) + top),
        "mean": (a.mean, mean + mean_t),
        "variance": (a.variance, (w * (s - mean - mean_t) ** 2).sum(0) / mass),
    }
    for name, (answer, wanted) in known.items():
        if not _close(answer, wanted, tolerance):
            yield f"{name} is off by {np.max(np.abs(answer - wanted)):.2g}"


def _slopes(site: Site, answers: TiltedSlopes, mean: Array, variance: Array) -> Iterator[str]:
    """Against five-point differences of the log mass in each parameter."""
    power, step = 0.7, 2e-4
    given_slopes = answers.tilted_slopes(mean, variance, power)
    wanted = site.parameter_slopes(mean)
    if set(given_slopes) != set(wanted):
        yield f"slopes of {sorted(given_slopes)}, but the site has those of {sorted(wanted)}"
        return
    for name, slope in given_slopes.items():
        parameter = site.parameter(name)
        h = step * np.maximum(np.abs(parameter), 0.1)

        def log_mass(k: int, name: str = name, parameter: Array = parameter, h: Array = h) -> Array:
            changed = site.with_parameter(name, parameter + k * h)
            lifted = changed if isinstance(changed, Tilted) else TiltedByQuadrature().lift(changed)
            return lifted.tilted(mean, variance, power).log_mass

        known = (log_mass(-2) - 8.0 * log_mass(-1) + 8.0 * log_mass(1) - log_mass(2)) / (12.0 * h)
        if not _close(power * slope, known, 1e-6):
            yield f"{name} is off by {np.max(np.abs(power * slope - known)):.2g}"


def _expected_slopes(
    site: Site, lift: Callable[[Site], object], mean: Array, variance: Array
) -> Iterator[str]:
    """Against five-point differences, in each parameter, of what `expected` gives."""
    answers = lift(site)
    if not isinstance(answers, ExpectedSlopes):
        yield "no expected_slopes, so that no hyper in a parameter can be learnt"
        return
    given_slopes = answers.expected_slopes(mean, variance)
    if set(given_slopes) != set(site.parameter_slopes(mean)):
        yield f"slopes of {sorted(given_slopes)}, but not those of the site"
        return
    for name, slope in given_slopes.items():
        parameter = site.parameter(name)
        h = 1e-3 * np.maximum(np.abs(parameter), 0.1)

        def value(k: int, name: str = name, parameter: Array = parameter, h: Array = h) -> Array:
            changed = cast(Expected, lift(site.with_parameter(name, parameter + k * h)))
            return changed.expected(mean, variance).value

        known = (value(-2) - 8.0 * value(-1) + 8.0 * value(1) - value(2)) / (12.0 * h)
        if not _close(slope, known, 1e-6):
            yield f"expected slope of {name} is off by {np.max(np.abs(slope - known)):.2g}"


def _decoupled(site: Decoupled, same: Expected, n: int, rng: np.random.Generator) -> Iterator[str]:
    """Stationary, of the stated value, and above random points: a maximum, as f is concave."""
    means, wide = rng.uniform(-3.0, 3.0, (2, n)), np.full(n, 6.0)
    # Between two slopes: within the limits, whatever they are.
    low, high = (same.expected(m, wide).d_mean for m in means)
    slope = 0.5 * (low + high)
    pull, penalty, centre = rng.uniform(0.1, 2.0, (3, n))
    best = site.conjugate(slope, pull, penalty, centre)

    def phi(h: Array, sigma: Array) -> Array:
        rest = pull * sigma - slope * h - 0.5 * penalty * (sigma - centre) ** 2
        return np.asarray(same.expected(h, sigma * sigma).value + rest)

    a = same.expected(best.h, best.sigma**2)
    rising = 2.0 * best.sigma * a.d_variance + pull - penalty * (best.sigma - centre)
    if np.any(best.sigma < 0.0):
        yield "a sigma is negative"
    if not _close(best.value, phi(best.h, best.sigma), _SMOOTH):
        yield "the value is not that at (h, sigma)"
    if not _close(a.d_mean, slope, _SMOOTH):
        yield "f_m at (h, sigma) is not the slope"
    if not _close(np.where(best.sigma > 0.0, rising, np.maximum(rising, 0.0)), 0.0 * pull, _SMOOTH):
        yield "the maximum is not stationary in sigma"
    for _ in range(20):
        h = best.h + rng.standard_normal(n) * (0.1 + best.sigma)
        if np.any(phi(h, best.sigma * rng.uniform(0.3, 3.0, n)) > best.value + 1e-9):
            yield "another point is higher"
            return


# ---- augmented checks --------------------------------------------------------------------------
# Checks of Augmented answers: the bound that each of them is, and what an expansion does to it.


MEANS = (-6.3, -0.7, 0.3, 2.6)
SDS = (0.3, 1.7)
RHOS = (0.4, 1.0, 1.9)
GRID = np.linspace(-9.0, 9.0, 37)
_STEP = 1e-3
_ROUNDED = 1e-9


def augmented_failures(site: Site, answers: Augmented) -> Iterator[str]:
    """What is wrong with the answers for some sites (the sites themselves), one sentence each.

    For all auxiliaries, stretched or not, the expectation of log p(t, aux | s) and the entropy are
    together below log t(s) at every s (Jensen); at v = 0 the best ones reach it at s = m.
    """
    n = len(site)
    for far in (-1e4, 1e4):
        answer = answers.weights(np.full(n, far), np.ones(n))
        for name in ("precision", "shift", "correction"):
            if not np.isfinite(getattr(answer, name)).all():
                yield f"{name} of weights() is not finite at a mean of {far:g}"
    for centre in MEANS:
        m = np.full(n, centre)
        touching = bound(answers, m, np.zeros(n))
        if not np.allclose(touching, site.log_density(m), rtol=1e-9, atol=1e-9):
            yield f"f({centre:g}, 0) is not log t there"
        for sd in SDS:
            where = f"weights() at mean {centre:g}, sd {sd:g}: "
            v = np.full(n, sd * sd)
            yield from (where + fault for fault in _answer(site, answers, m, v))
            yield from (where + fault for fault in _augmented_slopes(site, answers, m, v))


def bound(answers: Augmented, mean: Array, variance: Array) -> Array:
    """f(m, v), (N,)."""
    a = answers.weights(mean, variance)
    return np.asarray(a.correction - 0.5 * a.precision * (mean * mean + variance) + a.shift * mean)


def stretched(a: AugmentedAnswer, rho: float) -> AugmentedAnswer:
    """The answer with its auxiliaries stretched by rho."""
    if a.stretch is None:
        return a
    t = a.stretch
    correction = a.correction + t.count * np.log(rho)
    correction = correction - (rho - 1.0) * t.slope - 0.5 * (rho * rho - 1.0) * t.square
    return AugmentedAnswer(a.precision, a.shift + (rho - 1.0) * t.pull, np.asarray(correction))


def _answer(site: Site, answers: Augmented, mean: Array, variance: Array) -> Iterator[str]:
    a = answers.weights(mean, variance)
    if np.any(a.precision < 0.0):
        yield "a precision is negative"
    for rho in RHOS if a.stretch is not None else (1.0,):
        b = stretched(a, rho)
        for s in GRID:
            level = b.correction + s * b.shift - 0.5 * s * s * b.precision
            l = site.log_density(np.full_like(mean, s))
            if np.any(level > l + _ROUNDED * np.maximum(1.0, np.abs(l))):
                yield f"stretched by {rho:g} it is above log t at s = {s:g}"
                break
    d_variance = _difference(lambda h: bound(answers, mean, variance + h))
    d_mean = _difference(lambda h: bound(answers, mean + h, variance))
    if not np.allclose(a.precision, -2.0 * d_variance, rtol=1e-6, atol=1e-7):
        yield "precision is not -2 df/dv"
    if not np.allclose(a.shift, d_mean + a.precision * mean, rtol=1e-6, atol=1e-7):
        yield "shift is not df/dm + precision m"


def _augmented_slopes(
    site: Site, answers: Augmented, mean: Array, variance: Array
) -> Iterator[str]:
    weight_slopes = answers.weight_slopes(mean, variance)
    if set(weight_slopes) != set(site.parameter_slopes(mean)):
        yield f"slopes of {sorted(weight_slopes)}, but not those of the site"
        return
    for name, slope in weight_slopes.items():
        parameter = site.parameter(name)
        scale = np.maximum(np.abs(parameter), 0.1)

        def value(
            h: float, name: str = name, parameter: Array = parameter, scale: Array = scale
        ) -> Array:
            changed = cast(Augmented, site.with_parameter(name, parameter + h * scale))
            return bound(changed, mean, variance)

        if not np.allclose(slope * scale, _difference(value), rtol=1e-6, atol=1e-6):
            yield f"its slope in {name} differs from differences"


def _difference(f: Callable[[float], Array]) -> Array:
    """Five-point derivative at 0."""
    low2, low, high, high2 = (f(k * _STEP) for k in (-2.0, -1.0, 1.0, 2.0))
    return np.asarray((low2 - 8.0 * low + 8.0 * high - high2) / (12.0 * _STEP))
