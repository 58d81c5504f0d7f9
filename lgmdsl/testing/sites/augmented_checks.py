"""Checks of Augmented answers: the bound that each of them is, and what an expansion does to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Augmented, AugmentedAnswer
from lgmdsl.contract.site import Site

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
            yield from (where + fault for fault in _slopes(site, answers, m, v))


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


def _slopes(site: Site, answers: Augmented, mean: Array, variance: Array) -> Iterator[str]:
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
