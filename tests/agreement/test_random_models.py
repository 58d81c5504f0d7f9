"""The shipped strategies: a model's text and its arrays are one model; brute force is exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.vendor.pretty import pretty
from scipy import integrate

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.inference import registry
from lgmdsl.sites.catalogue import site
from lgmdsl.testing.engine_models import dense_rows
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random.evidence import brute_log_evidence
from lgmdsl.testing.random.latent_blocks import coefficients, levels, scalar
from lgmdsl.testing.random.model import RandomModel, Sites
from tests.plugins.acme.acme_lgm import Geometric

from .methods import few

# These observe a potential's distance from y: the compiler moves y into the offset.
MOVED = ("laplace.mean", "logistic.mean", "student_t.mean", "asymmetric_laplace.quantile")


@pytest.mark.thorough
@given(random_models(flat=True, missing=True))
@few(40)
def test_text_and_arrays_are_one_model(case: RandomModel) -> None:
    problem = case.problem("cholesky")
    linear = problem.engine.linear
    design, offset = dense_rows(linear)
    wanted, shifts = [], []
    for s in case.sites:
        moved = s.y if s.y is not None and s.family.spec.name in MOVED else np.zeros(case.rows)
        wanted.append(case.design[s.present])
        shifts.append((case.offset - moved)[s.present])
    np.testing.assert_allclose(design, np.vstack(wanted), atol=1e-12)
    np.testing.assert_allclose(offset, np.concatenate(shifts), atol=1e-12)
    for block, made in zip(case.blocks, linear.blocks, strict=True):
        prior = BlockPrior(made, linear.starts[block.name])
        assert prior.flat == (block.covariance is None)
        if block.covariance is not None:
            scale = max(1.0, float(np.abs(block.covariance).max()))
            np.testing.assert_allclose(prior.covariance, block.covariance, atol=1e-12 * scale)
            np.testing.assert_allclose(prior.mean, block.mean)
    for s, compiled in zip(case.sites, problem.sites, strict=True):
        at = np.linspace(-2.0, 2.0, len(s.bound))
        moved, name = np.zeros(case.rows), s.family.spec.name
        if s.y is not None and name in MOVED:
            moved, name = s.y, s.family.spec.family
        assert compiled.spec.name == name
        np.testing.assert_allclose(
            compiled.log_density(at - moved[s.present]),
            s.bound.log_density(at),
            rtol=1e-10,
            atol=1e-10,
        )


def gaussian_evidence(case: RandomModel) -> tuple[float, Array, Array]:
    """log p(y), and means and sds of all predictors, of a model whose sites are all normal: least
    squares on the whitened prior, which no conditioning spoils."""
    values, vectors = np.linalg.eigh(case.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    start = case.offset + case.design @ case.mean
    b, y, sd = [], [], []
    for s in case.sites:
        b.append((case.design @ root)[s.present])
        y.append((0.0 if s.y is None else s.y[s.present]) - start[s.present])
        sd.append(s.bound.sd)  # type: ignore[attr-defined]
    noise = np.concatenate(sd)
    stacked = np.vstack([np.vstack(b) / noise[:, None], np.eye(len(root))])
    wanted = np.concatenate([np.concatenate(y) / noise, np.zeros(len(root))])
    q, r = np.linalg.qr(stacked)
    x = np.linalg.solve(r, q.T @ wanted)
    left = wanted - stacked @ x
    value = -0.5 * left @ left - np.log(np.abs(r.diagonal())).sum() - np.log(noise).sum()
    half = np.linalg.solve(r.T, (case.design @ root).T)
    return (
        float(value - 0.5 * len(noise) * np.log(2.0 * np.pi)),
        start + case.design @ root @ x,
        np.sqrt((half**2).sum(axis=0)),
    )


@given(random_models(families=("normal.mean", "normal"), rows=(1, 12), latents=(1, 3)))
@few(12)
def test_brute_force_equals_the_closed_form_on_gaussian_models(case: RandomModel) -> None:
    value, _, _ = gaussian_evidence(case)
    assert brute_log_evidence(case) == pytest.approx(value, abs=1e-7)


@given(
    random_models(
        families=("laplace.mean", "student_t.mean", "bernoulli.logit"),
        rows=(2, 5),
        latents=(1, 1),
        wild=False,
        likelihoods=1,
    ),
    st.floats(0.3, 3.0),
)
@few(4)
def test_brute_force_equals_nested_integrals_where_sites_have_kinks(
    case: RandomModel, sd: float
) -> None:
    """Two levels share no site, so that the integral over both is a product."""
    who = np.arange(case.rows) % 2
    case = replace(case, blocks=(levels("u", who, 2, sd),))
    total = 0.0
    for level in (0, 1):
        (part,) = case.take(np.flatnonzero(who == level)).sites
        offset = case.offset[who == level]

        def joint(z: float, part: Sites = part, offset: Array = offset) -> float:
            return float(part.bound.log_density(offset + z).sum()) - 0.5 * (z / sd) ** 2

        grid = np.linspace(-40.0 * sd, 40.0 * sd, 1001)
        peak = max(joint(z) for z in grid)
        at = float(grid[np.argmax([joint(z) for z in grid])])
        kinks = [] if part.y is None else list(part.y - offset)
        breaks = sorted({*(-offset), *kinks, at, *np.linspace(-40.0 * sd, 40.0 * sd, 41)})
        mass = sum(
            integrate.quad(
                lambda z, f=joint, p=peak: np.exp(f(z) - p), a, b, epsabs=1e-13, epsrel=1e-12
            )[0]
            for a, b in pairwise(breaks)
        )
        total += peak + np.log(mass) - np.log(sd * np.sqrt(2.0 * np.pi))
    assert brute_log_evidence(case) == pytest.approx(total, abs=1e-7)


def test_brute_force_says_what_it_cannot_do() -> None:
    one = np.ones(1)
    normal = Sites(site("normal.mean"), "y", one, {"sd": 1.0}, {}, one > 0)
    kinked = Sites(site("laplace.mean"), "y", one, {"scale": 1.0}, {}, one > 0)
    flat = RandomModel((scalar("a", 1, 0.0, np.inf),), (normal,))
    four = RandomModel((coefficients("b", np.ones((1, 4)), 0.0, 1.0),), (normal,))
    three = RandomModel((coefficients("b", np.ones((1, 3)), 0.0, 1.0),), (kinked,))
    for case, words in ((flat, "flat"), (four, "4 latents"), (three, "3 latents")):
        with pytest.raises(ValueError, match=words):
            brute_log_evidence(case)


def test_a_failing_example_shows_its_text_and_data() -> None:
    normal = Sites(site("normal.mean"), "y", np.array([2.5]), {"sd": 1.0}, {}, np.ones(1) > 0)
    shown = pretty(RandomModel((scalar("a", 1, 0.0, 2.0),), (normal,)))
    assert "observe y ~ normal(mean = eta, sd = 1.0)" in shown and "y = array([2.5])" in shown


@pytest.fixture
def geometric() -> Iterator[None]:
    lgm.register(Geometric)
    yield
    registry.unregister(Geometric)


def test_a_third_party_s_family_is_drawn_like_any_other(geometric: None) -> None:
    @given(random_models(families=("geometric.logit",), rows=(2, 6), wild=False))
    @few(4)
    def check(case: RandomModel) -> None:
        assert case.fit("laplace").converged

    check()
