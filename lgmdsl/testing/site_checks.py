"""Conformance of a site family: every declaration of its class is a promise, checked here.

    check_site(MySite(y=..., scale=...))        # raises AssertionError that lists what fails

Give a few sites (say 3 to 20) with varied observations and parameters. Kinked families may have
their kink anywhere: points where one-sided differences disagree are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import Augmented, Pointwise, SuperGaussian, Widths
from lgmdsl.contract.site import Property, Site
from lgmdsl.testing.sites.question_checks import augmented_failures, question_failures
from lgmdsl.testing.sites.sampling_checks import sampling_failures
from lgmdsl.testing.sites.vector_site_checks import vector_failures

FAR = (-1e4, -700.0, -40.0, 40.0, 700.0, 1e4)
NEAR = (-6.3, -3.1, -1.7, -0.6, 0.23, 0.9, 2.2, 4.1, 7.4)
_STEP = 1e-3
_TOLERANCE = 2e-7


def check_site(site: Site, seed: int = 0, predictors: int = 0) -> None:
    """Run every check that applies. Raises AssertionError with one line for each failure.

    A vector site takes `predictors`; left out, one for each class of its fields (`spec.wide`).
    """
    failures = list(site_failures(site, seed, predictors))
    if failures:
        raise AssertionError(f"{site.spec.name}:\n" + "\n".join(f"- {f}" for f in failures))


def site_failures(site: Site, seed: int = 0, predictors: int = 0) -> Iterator[str]:
    """What is wrong with a family, one sentence each."""
    if site.spec.vector:
        yield from vector_failures(site, predictors or _classes(site), seed)
        return
    yield from _fields(site)
    yield from _finite(site)
    yield from _derivatives(site)
    yield from _parameters(site)
    yield from _shape(site)
    if isinstance(site, SuperGaussian) or Property.SUPER_GAUSSIAN in site.spec.properties:
        yield from _super_gaussian(site)
    if isinstance(site, Augmented):
        yield from augmented_failures(site, site)
    yield from sampling_failures(site, seed)
    yield from question_failures(site, seed)


def _classes(site: Site) -> int:
    return max((int(getattr(site, name).shape[1]) for name in site.spec.wide), default=2)


def everywhere(site: Site, points: tuple[float, ...]) -> Iterator[tuple[float, Array]]:
    """Each point as s for all sites."""
    for x in points:
        yield x, np.full(len(site), x)


def _fields(site: Site) -> Iterator[str]:
    names = [f.name for f in dataclasses.fields(site)]
    wanted = [*site.spec.parameters]
    if not site.spec.potential:
        wanted.insert(0, "y")
    if names != wanted:
        yield f"fields are {names}, but the spec says {wanted}"
    rows = np.arange(len(site))[::-1]
    s = np.linspace(-2.0, 2.0, len(site))
    if not np.array_equal(site.take(rows).log_density(s[rows]), site.log_density(s)[rows]):
        yield "take() of some rows gives other values than those rows"
    mask = np.arange(len(site)) % 2 == 0
    if len(site.take(mask)) != int(mask.sum()):
        yield "take() of a mask has the wrong length"


def _finite(site: Site) -> Iterator[str]:
    for x, s in everywhere(site, FAR + NEAR + (0.0,)):
        values = {"log_density": site.log_density(s)}
        if isinstance(site, Pointwise):
            a = site.pointwise(s)
            values |= {"slope": a.slope, "curvature": a.curvature, "third": a.third}
            if not np.allclose(a.value, values["log_density"], rtol=1e-12, atol=1e-12):
                yield f"pointwise(s).value differs from log_density at s = {x:g}"
        possible = np.isneginf(values["log_density"]) & (Property.LIMITED in site.spec.properties)
        for name, value in values.items():
            if value.shape != s.shape:
                yield f"{name} has shape {value.shape} at s of shape {s.shape}"
            elif not np.all(np.isfinite(value) | (possible & (name == "log_density"))):
                yield f"{name} is not finite at s = {x:g}"


def difference(
    f: Callable[[Array], Array], s: Array, h: Array | float = _STEP
) -> tuple[Array, BoolArray]:
    """Five-point derivative of f at s, and where it can be trusted (no kink within 2h)."""
    low2, low, middle, high, high2 = (f(s + k * h) for k in (-2, -1, 0, 1, 2))
    slope = (low2 - 8.0 * low + 8.0 * high - high2) / (12.0 * h)
    backward = (3.0 * middle - 4.0 * low + low2) / (2.0 * h)
    forward = (-3.0 * middle + 4.0 * high - high2) / (2.0 * h)
    smooth = np.abs(backward - forward) <= 1e-2 * (1.0 + np.abs(slope))
    return slope, smooth


def _compare(
    name: str, answer: Array, slope: Array, smooth: BoolArray, noise: Array
) -> Iterator[str]:
    allowed = _TOLERANCE * (1.0 + np.abs(slope)) + 1e-15 / _STEP * np.abs(noise)
    wrong = smooth & (np.abs(answer - slope) > allowed)
    if np.any(wrong):
        first = int(np.flatnonzero(wrong)[0])
        yield f"{name} is {answer[first]:.9g}, differences give {slope[first]:.9g} (site {first})"


def _derivatives(site: Site) -> Iterator[str]:
    if not isinstance(site, Pointwise):
        return
    point: Pointwise = site
    chain: tuple[tuple[str, Callable[[Array], Array], Callable[[Array], Array]], ...] = (
        ("slope", site.log_density, lambda s: point.pointwise(s).slope),
        ("curvature", lambda s: point.pointwise(s).slope, lambda s: point.pointwise(s).curvature),
        ("third", lambda s: point.pointwise(s).curvature, lambda s: point.pointwise(s).third),
    )
    rough = Property.KINKED | Property.LIMITED | Property.CORNERED
    kinked = bool(rough & site.spec.properties)
    for x, s in everywhere(site, NEAR):
        for name, lower, upper in chain:
            slope, smooth = difference(lower, s)
            trusted = smooth if kinked else np.ones_like(smooth)
            yield from _compare(f"{name} at s = {x:g}", upper(s), slope, trusted, lower(s))
    s = np.linspace(-2.0, 2.0, len(site))
    v = np.linspace(0.5, 3.0, len(site))
    if not np.allclose(point.pointwise(s, v).third, point.pointwise(s).third * v, rtol=1e-12):
        yield "third is not contracted with the variance"


def _parameters(site: Site) -> Iterator[str]:
    for x, s in everywhere(site, NEAR):
        for name, slope in site.parameter_slopes(s).items():
            value = site.parameter(name)

            def log_density_at(
                t: Array, name: str = name, value: Array = value, s: Array = s
            ) -> Array:
                return site.with_parameter(name, value * t).log_density(s)

            # In relative steps, so that a positive parameter stays positive.
            measured, smooth = difference(log_density_at, np.ones(len(site)))
            yield from _compare(
                f"slope in {name} at s = {x:g}",
                slope * value,
                measured,
                smooth,
                site.log_density(s),
            )
        if isinstance(site, Pointwise) and not site.spec.vector:
            yield from _curves(site, x, s)


def _curves(site: Site, x: float, s: Array) -> Iterator[str]:
    """parameter_curves: values are the slopes, and each part differentiates the one before."""
    curves, slopes = site.parameter_curves(s), site.parameter_slopes(s)
    if curves.keys() != slopes.keys():
        yield f"curves in {sorted(curves)}, but slopes in {sorted(slopes)}"
        return
    kinked = bool((Property.KINKED | Property.CORNERED) & site.spec.properties)
    for name, curve in curves.items():
        if not np.allclose(curve.value, slopes[name], rtol=1e-10, atol=1e-10):
            yield f"the curve in {name} at s = {x:g} has another value than the slope"

        def value(t: Array, name: str = name) -> Array:
            return site.parameter_slopes(t)[name]

        def slope(t: Array, name: str = name) -> Array:
            return site.parameter_curves(t)[name].slope

        pairs = (("slope", value, curve.slope), ("curvature", slope, curve.curvature))
        for part, below, answer in pairs:
            measured, smooth = difference(below, s)
            trusted = smooth if kinked else np.ones_like(smooth)
            yield from _compare(
                f"{part} of the curve in {name} at s = {x:g}", answer, measured, trusted, below(s)
            )


def _shape(site: Site) -> Iterator[str]:
    declared = site.spec.properties
    grid = np.concatenate([np.linspace(-9.0, 9.0, 37), [-300.0, -30.0, 30.0, 300.0]])
    levels = np.stack([site.log_density(np.full(len(site), x)) for x in np.sort(grid)])
    x = np.sort(grid)
    if Property.LOG_CONCAVE in declared:
        for a, b in ((0, -1), (5, 30), (1, 20), (12, 18), (18, 22), (19, 40)):
            middle = site.log_density(np.full(len(site), 0.5 * (x[a] + x[b])))
            chord = 0.5 * (levels[a] + levels[b])
            if np.any(middle < chord - 1e-9 * (1.0 + np.abs(chord))):
                yield f"declared LOG_CONCAVE, but not between s = {x[a]:g} and {x[b]:g}"
    if isinstance(site, Pointwise):
        answers = [site.pointwise(np.full(len(site), p)) for p in x]
        curvature = np.stack([a.curvature for a in answers])
        if Property.LOG_CONCAVE in declared and np.any(curvature > 1e-12):
            yield "declared LOG_CONCAVE, but a curvature is positive"
        if Property.GAUSSIAN in declared:
            third = np.stack([a.third for a in answers])
            if np.any(third != 0.0) or np.ptp(curvature, axis=0).max() > 1e-12:
                yield "declared GAUSSIAN, but the log density is not quadratic"
    if Property.NATURAL in declared and not _natural(site):
        yield "declared NATURAL, but one more of y does not add s to the log density"
    if Property.BOUNDED in declared:
        ends = np.maximum(*(site.log_density(np.full(len(site), e)) for e in (-1e4, 1e4)))
        if np.any(ends > levels.max(axis=0) + 1.0):
            yield "declared BOUNDED, but the log density grows without end"


def _natural(site: Site) -> bool:
    """Whether l(s; y) - l(s; y - 1) is s and a constant, of rows with y > 1."""
    site = site.take(getattr(site, "y") > 1.0)  # noqa: B009
    changed: dict[str, Any] = {"y": getattr(site, "y") - 1.0}  # noqa: B009
    before = dataclasses.replace(site, **changed)
    at = [np.full(len(site), x) for x in (0.0, *NEAR)]
    gain = np.stack([site.log_density(s) - before.log_density(s) - s for s in at])
    size = 1.0 + np.stack([np.abs(site.log_density(s)) for s in at])
    return bool(np.all(np.abs(gain - gain[0]) <= 1e-9 * size))


def _super_gaussian(site: Site) -> Iterator[str]:
    if isinstance(site, Widths):
        yield from _widths(site, site)
    if not isinstance(site, SuperGaussian):
        if not isinstance(site, Widths):
            yield "declared SUPER_GAUSSIAN, but the class does not inherit SuperGaussian"
        return
    if Property.SUPER_GAUSSIAN not in site.spec.properties:
        yield "inherits SuperGaussian, but does not declare SUPER_GAUSSIAN"
    for p in (0.07, 0.4, 1.3, 3.0, 8.0, 30.0):
        s = np.full(len(site), p)
        for signed in (s, -s):
            level, l = site.beta * signed + site.g(s * s)[0], site.log_density(signed)
            if not np.allclose(level, l, rtol=1e-11, atol=1e-11):
                yield f"t(s) is not e^(beta s) e^g(s^2) at |s| = {p:g}"
        x = s * s
        h = 1e-3 * p * p
        _, first, second = site.g(x)
        if np.any(first > 0.0):
            yield f"g grows at x = {p * p:g}"
        if np.any(second < 0.0):
            yield f"g is not convex at x = {p * p:g}"
        for name, k, answer in (("g'", 0, first), ("g''", 1, second)):
            slope, _ = difference(lambda t, k=k: site.g(t)[k], x, h)  # type: ignore[misc]
            if not np.allclose(answer, slope, rtol=1e-6, atol=1e-9):
                yield f"{name} differs from differences at x = {p * p:g}"
    for x in (0.0, 1e8):
        if not all(np.all(np.isfinite(part)) for part in site.g(np.full(len(site), x))):
            yield f"g is not finite at x = {x:g}"


def _widths(site: Site, answers: Widths) -> Iterator[str]:
    """The bound of widths: below l everywhere, equal at s where z = 0; h* and its derivatives."""
    zero = np.zeros(len(site))
    for p in (-4.1, -0.7, 0.3, 2.6):
        s = np.full(len(site), p)
        touching = answers.widths(s, zero)
        for z, w in ((zero, touching), (zero + 1.7, answers.widths(s, zero + 1.7))):
            for t in np.linspace(-9.0, 9.0, 25):
                bound = w.shift * t - 0.5 * t * t / w.width - 0.5 * w.h
                if np.any(bound > site.log_density(np.full(len(site), t)) + 1e-9):
                    yield f"the bound of widths({p:g}, {z[0]:g}) is above log t at s = {t:g}"
        level = touching.shift * s - 0.5 * s * s / touching.width - 0.5 * touching.h
        if not np.allclose(level, site.log_density(s), rtol=1e-10, atol=1e-10):
            yield f"the bound of widths({p:g}, 0) does not touch log t there"
        one = answers.widths(s, zero + 1.0)
        for name, part, answer in (
            ("slope", "penalty", one.slope),
            ("curvature", "slope", one.curvature),
        ):

            def below(t: Array, part: str = part) -> Array:
                return np.asarray(getattr(answers.widths(t, zero + 1.0), part))

            measured, smooth = difference(below, s)
            yield from _compare(f"{name} of h* at s = {p:g}", answer, measured, smooth, measured)
