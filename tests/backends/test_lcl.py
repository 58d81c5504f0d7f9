"""Decoupled variational inference: the dual, its inner problems, known fits, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.elbo import ElboPoint, elbo_at, expected
from lgmdsl.errors import LgmError
from lgmdsl.inference.plan import plan
from lgmdsl.numerics.pair_newton import Terms, maximise_pairs
from lgmdsl.testing.backend_checks import check_backend
from lgmdsl_backends.lcl import Dual, LinearlyConstrained
from tests.backends.test_coordinate_ascent import TWO_BLOCKS, two_blocks
from tests.backends.test_known_fits import CASES


def test_it_conforms() -> None:
    assert check_backend(LinearlyConstrained) == 5


@pytest.mark.parametrize(
    "name", ["ionosphere_gp_sd_e1_len_e0.5", "lupus_probit_sd5", "epil_glmm_sd0.5"]
)
def test_known_fits(name: str, shared: Path) -> None:
    text, data, _ = CASES[name]
    known = json.loads((shared / "reference" / "known_fits.json").read_text())[f"{name}/vg"]
    fit = lgm.fit(lgm.loads(text), data(shared / "data"), method="lcl")
    assert fit.converged
    assert fit.log_evidence == pytest.approx(known["log_evidence"], rel=1e-8)
    np.testing.assert_allclose(fit.mean("eta").values[:6], known["mean"], atol=1e-3)
    np.testing.assert_allclose(fit.sd("eta").values[:6], known["sd"], atol=1e-3)


def dual(damping: float) -> Dual:
    fit = lgm.fit(lgm.loads(TWO_BLOCKS), two_blocks(), method="laplace")
    problem = plan(fit.canonical, "lcl").at(fit.theta)
    s = problem.engine.prior_mean
    weight = tuple(np.full(len(x), 0.3) for x in s)
    answers = expected(problem, s, tuple(np.ones_like(x) for x in s))
    point = elbo_at(problem, weight, tuple(a.d_mean for a in answers))
    assert isinstance(point, ElboPoint)
    return Dual(problem, point, damping)


@pytest.mark.parametrize("damping", [0.0, 0.7])
def test_the_dual_s_gradient(damping: float) -> None:
    d = dual(damping)
    low, high, _, _ = d.box()
    a = np.clip(0.8 * d.a, low + 0.05, high - 0.05)
    weight = 1.2 * d.weight
    _, by_a, by_w = d(a, weight)
    step = 1e-4
    for k in (0, 3, 13, 14, 19):
        unit = step * np.eye(len(a))[k]
        rise = (d(a + unit, weight)[0] - d(a - unit, weight)[0]) / (2.0 * step)
        assert rise == pytest.approx(by_a[k], abs=1e-6, rel=1e-5)
        rise = (d(a, weight + unit)[0] - d(a, weight - unit)[0]) / (2.0 * step)
        assert rise == pytest.approx(by_w[k], abs=1e-6, rel=1e-5)


def test_the_box_is_the_range_of_slopes() -> None:
    d = dual(0.0)
    low, high, least, _ = d.box()
    data = two_blocks()
    np.testing.assert_allclose(high, np.r_[data["y"], data["n"]], atol=1e-9)
    np.testing.assert_allclose(low[:14], data["y"] - 1.0, atol=1e-9)
    assert np.isneginf(low[14:]).all() and (least > 0).all()


def test_pairs_of_the_exponential_link() -> None:
    """Closed form (21): for f = y h - e^{h + v/2}, sigma = (lambda + lambda_k) sigma_k /
    (y - a + lambda_k) and h = log(y - a) - sigma^2 / 2."""
    y, a = np.array([0.0, 3.0, 40.0]), np.array([-2.0, 2.999, 5.0])
    weight, before, sigma0 = np.array([0.1, 2.0, 9.0]), np.array([1.0, 0.5, 3.0]), np.ones(3) * 0.7

    def moments(where: IntArray, h: Array, v: Array) -> tuple[Array, Array, Array, Array, Array]:
        e = np.exp(h + 0.5 * v)
        return y[where] * h - e, y[where] - e, -0.5 * e, -0.5 * e, -0.25 * e

    zero = np.zeros(3)
    terms = Terms(a, weight * sigma0, before, zero, zero, zero, sigma0)
    for start in (-30.0, 0.0, 6.0):
        found = maximise_pairs(moments, terms, np.full(3, start), np.ones(3))
        sigma = (weight + before) * sigma0 / (y - a + before)
        assert found.settled.all()
        np.testing.assert_allclose(found.sigma, sigma, rtol=1e-8)
        np.testing.assert_allclose(found.h, np.log(y - a) - 0.5 * sigma**2, atol=1e-8)


def test_flat_priors_are_refused() -> None:
    text = TWO_BLOCKS.replace("normal(sd = 2)", "flat")
    with pytest.raises(LgmError):
        lgm.fit(lgm.loads(text), two_blocks(), method="lcl")


def test_a_cut_step_is_not_called_converged() -> None:
    fit = lgm.fit(lgm.loads(TWO_BLOCKS), two_blocks(), method="lcl", max_steps=2)
    assert not fit.converged and fit.trace[-1].residual > 1e-4
