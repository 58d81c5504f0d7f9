"""Ordered classes and stick breaking: closed forms, limits, and what public calls refuse."""

from __future__ import annotations

from itertools import product
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.errors import DataError
from lgmdsl.site_questions import expected, tilted
from lgmdsl.sites.catalogue import families, site
from lgmdsl.sites.ordinal.adjacent import (
    AdjacentLogit,
    AdjacentProbit,
    StereotypeLogit,
    StereotypeProbit,
)
from lgmdsl.sites.ordinal.continuation import ContinuationLogit
from lgmdsl.sites.ordinal.cumulative import OrdinalLogit, OrdinalProbit
from lgmdsl.sites.quadrature import tilted_by_quadrature
from lgmdsl.sites.vector.stick import CategoricalStick
from tests.sites.examples import example

NAMES = [f.spec.name for f in families() if f.spec.family == "ordinal"]
CUTS = np.array([-1.0, 0.5, 0.6, 3.0])
SCORES = np.array([-0.3, 0.1, 1.4, 1.5, 3.0])


def every_class(name: str) -> Any:
    made: Any = site(name)
    return made(np.arange(5.0), np.tile(CUTS, (5, 1)), *scored(made, 5))


def scored(made: Any, rows: int, scores: Array = SCORES) -> list[Array]:
    """The scores of a stereotype model, nothing of the others."""
    return [np.tile(scores, (rows, 1))] if "scores" in made.spec.parameters else []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("s", [-30.0, -2.0, 0.0, 0.55, 4.0, 30.0])
def test_classes_have_all_the_mass(name: str, s: float) -> None:
    level = every_class(name).log_density(np.full(5, s))
    assert np.exp(level).sum() == pytest.approx(1.0, rel=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_two_classes_are_a_binary_response(name: str) -> None:
    """With one cut every model is the same: P(Y = 1) = F(s - cut)."""
    made: Any = site(name)
    s = np.linspace(-5.0, 5.0, 7)
    law = special.log_ndtr if "probit" in name else special.log_expit
    for y, sign in ((0.0, -1.0), (1.0, 1.0)):
        found = made(np.full(7, y), np.full((7, 1), 0.3), *scored(made, 7, np.array([2.0, 3.0])))
        np.testing.assert_allclose(found.log_density(s), law(sign * (s - 0.3)), rtol=1e-12)


def test_adjacent_classes_and_continuation_by_their_definitions() -> None:
    s = np.full(5, 0.7)
    log_p = every_class("ordinal.logit.adjacent").log_density(s)
    np.testing.assert_allclose(np.diff(log_p), 0.7 - CUTS, rtol=1e-12)
    log_p = every_class("ordinal.logit.stereotype").log_density(s)
    np.testing.assert_allclose(np.diff(log_p), np.diff(SCORES) * (0.7 - CUTS), rtol=1e-12)
    for name, steps in (("adjacent", np.ones(4)), ("stereotype", np.diff(SCORES))):
        p = np.exp(every_class(f"ordinal.probit.{name}").log_density(s))
        np.testing.assert_allclose(
            p[1:] / (p[1:] + p[:-1]), special.ndtr(steps * (0.7 - CUTS)), rtol=1e-12
        )
    p = np.exp(every_class("ordinal.logit.continuation").log_density(s))
    left = np.cumsum(p[::-1])[::-1]
    np.testing.assert_allclose(p[:-1] / left[:-1], special.expit(CUTS - 0.7), rtol=1e-12)


def test_equal_steps_of_scores_are_adjacent_classes() -> None:
    """The thesis's form too: exp(phi_k - alpha_k eta), alpha falling (1.62)."""
    s, alike = np.linspace(-4.0, 5.0, 5), np.arange(5.0) - 7.0
    a = every_class("ordinal.logit.adjacent").pointwise(s)
    site = StereotypeLogit(np.arange(5.0), np.tile(CUTS, (5, 1)), np.tile(alike, (5, 1)))
    b = site.pointwise(s, 1.0)
    for name in ("value", "slope", "curvature", "third"):
        np.testing.assert_allclose(getattr(b, name), getattr(a, name), rtol=1e-11, atol=1e-14)
    alpha = -SCORES
    phi = -np.concatenate([[0.0], np.cumsum(np.diff(SCORES) * CUTS)])
    known = phi - alpha * s[:, None] - special.logsumexp(phi - alpha * s[:, None], axis=1)[:, None]
    found = every_class("ordinal.logit.stereotype").log_density(s)
    np.testing.assert_allclose(found, known[np.arange(5), np.arange(5)], rtol=1e-12)


def test_equal_steps_of_scores_are_adjacent_probits() -> None:
    s = np.linspace(-4.0, 5.0, 5)
    a = AdjacentProbit(np.arange(5.0), np.tile(CUTS, (5, 1))).pointwise(s)
    scores = np.tile(np.arange(5.0) + 3.0, (5, 1))
    b = StereotypeProbit(np.arange(5.0), np.tile(CUTS, (5, 1)), scores).pointwise(s)
    for name in ("value", "slope", "curvature", "third"):
        np.testing.assert_allclose(getattr(b, name), getattr(a, name), rtol=1e-13)


@pytest.mark.parametrize("seed", range(12))
def test_adjacent_probits_are_log_concave_where_cuts_are_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = seed % 6 + 1
    cuts = np.cumsum(np.exp(rng.normal(-1.0, 2.0, size))) - 2.0
    scores = np.cumsum(np.exp(rng.normal(0.0, 1.5, size + 1)))
    s = np.linspace(-9.0, 12.0, 211)
    for y in range(size + 1):
        made = StereotypeProbit(
            np.full(211, float(y)), np.tile(cuts, (211, 1)), np.tile(scores, (211, 1))
        )
        assert made.pointwise(s).curvature.max() <= 1e-13


@pytest.mark.parametrize("gap", [1e-12, 1e-6, 0.3, 40.0])
@pytest.mark.parametrize("s", [-200.0, -3.0, 0.1, 50.0])
@pytest.mark.parametrize("family", [OrdinalLogit, OrdinalProbit])
def test_narrow_classes_and_far_predictors(family: Any, gap: float, s: float) -> None:
    low, high = 0.25, 0.25 + gap
    found = family(np.ones(1), np.array([[low, high]])).pointwise(np.full(1, s))
    with mp.workdps(80):

        def upper(x: Any) -> Any:
            """P(X > x)."""
            return mp.erfc(x / mp.sqrt(2)) / 2 if family is OrdinalProbit else 1 / (1 + mp.exp(x))

        def log_mass(t: Any) -> Any:
            a, b = mp.mpf(low) - t, mp.mpf(high) - t
            return mp.log(upper(a) - upper(b) if a > 0 else upper(-b) - upper(-a))

        known = mp.taylor(log_mass, mp.mpf(s), 2)
        wanted = [float(known[0]), float(known[1]), float(2 * known[2])]
    parts = [found.value[0], found.slope[0], found.curvature[0]]
    # high - low has an error of half a unit in the last place of high.
    assert parts[0] == pytest.approx(wanted[0], rel=1e-11, abs=3e-17 / gap)
    assert parts[1] == pytest.approx(wanted[1], rel=1e-9, abs=1e-12)
    assert parts[2] == pytest.approx(wanted[2], rel=1e-8, abs=1e-11)


@pytest.mark.parametrize("sd", [0.05, 1.0, 20.0])
def test_probit_moments_are_in_closed_form(sd: float) -> None:
    some: Any = example("ordinal.probit")
    mean, variance = np.linspace(-6.0, 6.0, len(some)), np.full(len(some), sd**2)
    found, known = some.tilted(mean, variance), tilted_by_quadrature(some, mean, variance)
    for name in ("log_mass", "mean", "variance"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(known, name), rtol=1e-9, atol=1e-10, err_msg=name
        )
    for name, slope in some.tilted_slopes(mean, variance).items():
        at, h = some.parameter(name), 1e-4
        moved = [
            some.with_parameter(name, at + k * h).tilted(mean, variance).log_mass
            for k in (-2, -1, 1, 2)
        ]
        differences = (moved[0] - 8 * moved[1] + 8 * moved[2] - moved[3]) / (12 * h)
        np.testing.assert_allclose(slope, differences, rtol=1e-8, atol=1e-9)


def test_public_calls_take_a_row_of_cuts() -> None:
    found = expected("ordinal.logit", [0, 1, 4], 0.2, 1.5, cuts=CUTS)
    one = expected("ordinal.logit", 1, 0.2, 1.5, cuts=CUTS)
    assert found.value.shape == (3,) and found.value[1] == pytest.approx(float(one.value))
    mass = tilted("ordinal.probit", np.arange(5), -0.4, 2.0, cuts=CUTS).log_mass
    assert np.exp(mass).sum() == pytest.approx(1.0, rel=1e-12)
    for y, cuts, told in (
        (5, CUTS, "a class up to 4"),
        (0.5, CUTS, "position of a class"),
        (0, CUTS[::-1], "increase"),
        (0, 1.0, "one entry or more"),
    ):
        with pytest.raises(DataError, match=told):
            expected("ordinal.logit", y, 0.0, 1.0, cuts=cuts)


def test_entries_of_parameters() -> None:
    some = AdjacentLogit(np.ones(2), np.tile(CUTS, (2, 1)))
    assert some.parameter("cuts[2]").tolist() == [0.6, 0.6]
    moved = some.with_parameter("cuts[2]", np.array([7.0, 8.0]))
    assert moved.cuts[:, 2].tolist() == [7.0, 8.0] and some.cuts[0, 2] == 0.6
    assert list(some.parameter_slopes(np.zeros(2))) == [f"cuts[{j}]" for j in range(4)]


def test_continuation_needs_no_order() -> None:
    some = ContinuationLogit(np.arange(3.0), np.tile([1.0, -2.0], (3, 1)))
    assert np.exp(some.log_density(np.full(3, 0.4))).sum() == pytest.approx(1.0, rel=1e-13)


def stick(size: int) -> CategoricalStick:
    return CategoricalStick(np.arange(size + 1.0), np.ones((size + 1, size + 1)))


def test_sticks_have_all_the_mass_and_draws_follow_it() -> None:
    s = np.tile([-0.4, 0.3, 1.2], (4, 1))
    p = np.exp(stick(3).log_density(s))
    np.testing.assert_allclose(p[0], special.expit(-0.4))
    np.testing.assert_allclose(p[1], special.expit(0.4) * special.expit(0.3))
    assert p.sum() == pytest.approx(1.0, rel=1e-14)
    many = CategoricalStick(np.zeros(40_000), np.ones((40_000, 4)))
    drawn = many.sample(np.tile(s[0], (40_000, 1)), np.random.default_rng(1))
    share = np.bincount(drawn.astype(int), minlength=4) / 40_000
    assert np.all(np.abs(share - p) < 4.0 * np.sqrt(p * (1 - p) / 40_000))


@pytest.mark.parametrize(("sd", "error"), [(0.5, 1e-6), (1.5, 2e-6), (4.0, 2e-6)])
def test_predictive_sticks_against_a_grid(sd: float, error: float) -> None:
    """All classes at once, the same as one by one; two cuts, correlated."""
    mean, variance = np.array([0.4, -0.8]), sd**2 * np.array([[1.0, -0.6], [-0.6, 1.3]])
    t = np.linspace(-8.0, 8.0, 401)
    u = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    s = mean + u @ np.linalg.cholesky(variance).T
    weight = np.exp(-0.5 * (u**2).sum(axis=1))
    up = special.expit(s)
    p = np.stack([up[:, 0], (1 - up[:, 0]) * up[:, 1], (1 - up[:, 0]) * (1 - up[:, 1])])
    found = stick(2).predictive(np.tile(mean, (3, 1)), np.tile(variance, (3, 1, 1)))
    np.testing.assert_allclose(found[0], p @ weight / weight.sum(), atol=error)
    one = stick(2).tilted(np.tile(mean, (3, 1)), np.tile(variance, (3, 1, 1))).log_mass
    np.testing.assert_allclose(np.exp(one), found[0], rtol=1e-12)
    wide = stick(4).predictive(np.zeros((5, 4)), np.tile(sd**2 * np.eye(4), (5, 1, 1)))
    np.testing.assert_allclose(wide[0], 0.5 ** np.array([1, 2, 3, 4, 4]), atol=5e-4)


def test_tilted_sticks_against_a_grid() -> None:
    mean, variance = np.array([0.4, -0.8]), np.array([[1.5, -0.9], [-0.9, 2.0]])
    t = np.linspace(-8.0, 8.0, 301)
    u = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    s = mean + u @ np.linalg.cholesky(variance).T
    weight = np.exp(-0.5 * (u**2).sum(axis=1))
    weight /= weight.sum()
    found = stick(2).tilted(np.tile(mean, (3, 1)), np.tile(variance, (3, 1, 1)))
    for y in range(3):
        site = CategoricalStick(np.full(len(s), float(y)), np.ones((len(s), 3)))
        density = np.exp(site.log_density(s)) * weight
        mass, share = density.sum(), density / density.sum()
        centre = share @ s
        spread: Array = (share[:, None] * (s - centre)).T @ (s - centre)
        assert np.exp(found.log_mass[y]) == pytest.approx(mass, rel=1e-6)
        np.testing.assert_allclose(found.mean[y], centre, atol=2e-6)
        np.testing.assert_allclose(found.variance[y], spread, atol=1e-5)
    assert np.exp(found.log_mass).sum() == pytest.approx(1.0, rel=1e-12)


MASKS = np.array(list(product([0.0, 1.0], repeat=4)))[1:]  # all but nothing on offer


def chance(available: Array, s: Array) -> Array:
    """P(class) by going through the classes one after the other."""
    out, left = np.zeros(4), 1.0
    offered = np.flatnonzero(available)
    for k in offered[:-1]:
        out[k] = left * special.expit(s[k])
        left *= special.expit(-s[k])
    out[offered[-1]] = left
    return out


@pytest.mark.parametrize("mask", MASKS)
def test_sticks_pass_over_what_is_not_available(mask: Array) -> None:
    s = np.array([-0.4, 0.3, 1.2])
    site = CategoricalStick(np.arange(4.0), np.tile(mask, (4, 1)))
    with np.errstate(divide="ignore"):
        p = np.exp(site.log_density(np.tile(s, (4, 1))))
    np.testing.assert_allclose(p, chance(mask, s), rtol=1e-14)
    assert p.sum() == pytest.approx(1.0, rel=1e-14)
    many = CategoricalStick(np.zeros(20_000), np.tile(mask, (20_000, 1)))
    drawn = many.sample(np.tile(s, (20_000, 1)), np.random.default_rng(1))
    share = np.bincount(drawn.astype(int), minlength=4) / 20_000
    assert np.all(np.abs(share - p) <= 4.5 * np.sqrt(p * (1 - p) / 20_000))


@pytest.mark.parametrize("mask", MASKS)
def test_the_sites_of_a_masked_stick_multiply_to_it(mask: Array) -> None:
    s = np.array([-0.4, 0.3, 1.2])
    y = np.flatnonzero(mask).astype(np.float64)
    available = np.tile(mask, (len(y), 1))
    reached, taken, parameters = CategoricalStick.split({"y": y, "available": available}, 3)
    assert not parameters
    log = np.where(taken > 0, special.log_expit(s), special.log_expit(-s))
    p = np.exp(np.where(reached, log, 0.0).sum(axis=1))
    np.testing.assert_allclose(p, chance(mask, s)[mask > 0], rtol=1e-14)


def test_predictions_of_masked_sticks_are_averages_over_the_predictors() -> None:
    mean, variance = np.array([0.4, -0.8, 0.2]), 0.8 * np.eye(3) + 0.3
    s = np.random.default_rng(3).multivariate_normal(mean, variance, 100_000)
    n = len(MASKS)
    site = CategoricalStick(np.argmax(MASKS, axis=1).astype(np.float64), MASKS)
    found = site.predictive(np.tile(mean, (n, 1)), np.tile(variance, (n, 1, 1)))
    mass = site.tilted(np.tile(mean, (n, 1)), np.tile(variance, (n, 1, 1))).log_mass
    for k, mask in enumerate(MASKS):
        each = np.array([chance(mask, x) for x in s[:2000]])
        error = 4.5 * each.std(axis=0) / np.sqrt(len(each)) + 1e-3
        assert np.all(np.abs(found[k] - each.mean(axis=0)) < error)
        first = int(np.argmax(mask))
        assert np.exp(mass[k]) == pytest.approx(found[k, first], rel=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-10)


def test_nothing_on_offer_cannot_occur() -> None:
    site = CategoricalStick(np.zeros(1), np.zeros((1, 4)))
    assert site.log_density(np.zeros((1, 3)))[0] == -np.inf
