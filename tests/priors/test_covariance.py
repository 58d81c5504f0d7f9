"""Priors of covariance matrices: normalised over the lower triangle, slopes, draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lgmdsl.arrays import Array
from lgmdsl.priors.catalogue import prior
from lgmdsl.priors.covariance import OnCovariances

SCALE = np.array([[1.3, -0.4, 0.2], [-0.4, 0.9, 0.1], [0.2, 0.1, 0.7]])
CASES = pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("lkj_cov", {"eta": 1.7, "u": 1.2, "alpha": 0.1}),
        ("lkj_cov", {"eta": 1.7, "u": np.array([1.2, 0.4, 3.0]), "alpha": 0.1}),
        ("inv_wishart", {"df": 4.3, "scale": SCALE}),
        ("graphical_lasso", {"rate": 1.6}),
    ],
)


def some(k: int = 3, seed: int = 1) -> Array:
    root = np.random.default_rng(seed).normal(size=(k, k))
    return np.asarray(root @ root.T + 0.3 * np.eye(k))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("lkj_cov", {"eta": 1.7, "u": 1.2, "alpha": 0.1}),
        ("lkj_cov", {"eta": 0.8, "u": 0.5, "alpha": 0.05}),
        ("lkj_cov", {"eta": 1.3, "u": np.array([0.6, 1.5]), "alpha": 0.05}),
        ("inv_wishart", {"df": 3.4, "scale": SCALE[:2, :2]}),
    ],
)
def test_mass_one_over_two_by_two(name: str, arguments: dict[str, object]) -> None:
    """Gauss-Legendre in log variances and atanh of the correlation."""
    found = prior(name, "covariance", **arguments)
    assert isinstance(found, OnCovariances)
    t, w = np.polynomial.legendre.leggauss(80)
    a, b = np.exp(-4.0 + 24.0 * t)[:, None, None], np.exp(-4.0 + 24.0 * t)[:, None]
    weight = 24.0 * 24.0 * 13.0 * w[:, None, None] * w[:, None] * w
    z = 13.0 * t
    a, b, c = np.broadcast_arrays(a, b, np.sqrt(a * b) * np.tanh(z))
    jacobian = a * b * np.sqrt(a * b) / np.cosh(z) ** 2
    if name == "lkj_cov":  # a density of two sds and a correlation
        jacobian = jacobian / (4.0 * a * b)
    density = np.exp(found.each(np.stack([a, c, c, b], axis=-1).reshape(*a.shape, 2, 2)))
    # the inverse Wishart is narrow where the variances are far apart
    tolerance = 1e-3 if name == "inv_wishart" else 2e-5
    assert float((weight * jacobian * density).sum()) == pytest.approx(1.0, abs=tolerance)


def test_inverse_wishart_against_scipy() -> None:
    for k in (1, 2, 3):
        known = stats.invwishart(4.3, SCALE[:k, :k])
        found = prior("inv_wishart", "covariance", df=4.3, scale=SCALE[:k, :k])
        assert found.log_density(some(k)) == pytest.approx(known.logpdf(some(k)), rel=1e-12)


def test_lkj_constant_and_marginals() -> None:
    """At eta = 1 a 3 x 3 correlation matrix is uniform over a volume of pi^2 / 2; in general each
    correlation has (1 + r) / 2 ~ beta(eta + k/2 - 1, same)."""
    found = prior("lkj_cov", "covariance", eta=1.0, u=1.0, alpha=np.exp(-1.0))
    s = some()
    sd = np.sqrt(s.diagonal())
    want = -np.log(np.pi**2 / 2) - sd.sum()
    assert found.log_density(s) == pytest.approx(want, rel=1e-12)
    drawn = prior("lkj_cov", "covariance", eta=2.5, u=0.7, alpha=0.2).sample(
        np.random.default_rng(3), (4000, 4, 4)
    )
    sds = np.sqrt(np.diagonal(drawn, axis1=1, axis2=2))
    assert (sds > 0.7).mean() == pytest.approx(0.2, abs=0.01)
    for i, j in ((1, 0), (3, 0), (3, 2)):
        r = drawn[:, i, j] / (sds[:, i] * sds[:, j])
        assert stats.kstest(0.5 * (1.0 + r), stats.beta(3.5, 3.5).cdf).pvalue > 0.01


def test_inverse_wishart_draws() -> None:
    """The inverse is Wishart: its diagonal entries are chi-squared times those of Psi^-1."""
    found = prior("inv_wishart", "covariance", df=4.3, scale=SCALE)
    drawn = found.sample(np.random.default_rng(3), (4000, 3, 3))
    inverse, base = np.linalg.inv(drawn), np.linalg.inv(SCALE)
    for i in range(3):
        assert stats.kstest(inverse[:, i, i] / base[i, i], stats.chi2(4.3).cdf).pvalue > 0.01
    assert inverse.mean(axis=0) == pytest.approx(4.3 * base, abs=0.15)
    small = found.typical((3, 3))
    assert np.linalg.inv(small) == pytest.approx(4.3 * base)


@CASES
def test_slopes(name: str, arguments: dict[str, object]) -> None:
    """d log p = sum_ij G_ij dS_ij for two matrices at once, and the slopes in the arguments."""
    found = prior(name, "covariance", **arguments)
    value = np.stack([some(), some(seed=2)])
    gradient = found.gradient(value)
    assert gradient["value"] == pytest.approx(np.swapaxes(gradient["value"], -1, -2))
    for g, i, j in ((0, 0, 0), (0, 1, 0), (1, 2, 1), (1, 2, 2)):
        step = np.zeros((2, 3, 3))
        step[g, i, j] = step[g, j, i] = 1e-6
        want = (found.log_density(value + step) - found.log_density(value - step)) / 2e-6
        got = float((gradient["value"] * step).sum() / 1e-6)
        assert got == pytest.approx(want, rel=1e-6, abs=1e-7)
    for argument, given in arguments.items():
        at = np.asarray(given, dtype=np.float64)
        for place in np.ndindex(*at.shape):
            step = np.zeros(at.shape)
            step[place] = 1e-6
            step = 0.5 * (step + step.T) if at.ndim == 2 else step
            ahead, behind = (
                prior(name, "covariance", **{**arguments, argument: at + s * step}).log_density(
                    value
                )
                for s in (1.0, -1.0)
            )
            got = float((gradient[argument] * step).sum())
            assert got == pytest.approx((ahead - behind) / 2.0, rel=1e-6, abs=1e-12), argument


def test_several_matrices_add_up() -> None:
    value, scale = np.stack([some(), some(seed=2)]), np.stack([SCALE, 2.0 * SCALE])
    found = prior("inv_wishart", "covariance", df=5.0, scale=scale)
    alone = [prior("inv_wishart", "covariance", df=5.0, scale=s) for s in scale]
    want = sum(p.log_density(v) for p, v in zip(alone, value, strict=True))
    assert found.log_density(value) == pytest.approx(want, rel=1e-13)
    gradient = found.gradient(value)
    assert gradient["scale"].shape == (2, 3, 3) and gradient["df"].shape == ()
    assert gradient["scale"][1] == pytest.approx(alone[1].gradient(value[1])["scale"])
    assert found.sample(np.random.default_rng(0), (2, 3, 3)).shape == (2, 3, 3)


def test_graphical_lasso_is_wang_s_density_of_the_precision() -> None:
    found = prior("graphical_lasso", "covariance", rate=1.6)
    precision = np.linalg.inv(some())
    lower = precision[np.tril_indices(3, -1)]
    want = stats.laplace(scale=1 / 1.6).logpdf(lower).sum()
    want += stats.expon(scale=2 / 1.6).logpdf(precision.diagonal()).sum()
    assert found.log_density(some()) == pytest.approx(want, rel=1e-11)
    assert not found.normalised and not found.proper
    with pytest.raises(TypeError, match="cannot be drawn"):
        found.sample(np.random.default_rng(0), (3, 3))


@CASES
def test_no_density_beyond_the_cone(name: str, arguments: dict[str, object]) -> None:
    found = prior(name, "covariance", **arguments)
    assert found.log_density(np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]])) == -np.inf
    assert np.isfinite(found.log_density(found.typical((3, 3))))


def test_lkj_with_a_scale_for_each_member() -> None:
    """P(sd_k > u_k) = alpha; equal scales are one scale; scales of a stack of matrices."""
    u = np.array([0.5, 2.0, 8.0])
    found = prior("lkj_cov", "covariance", eta=2.0, u=u, alpha=0.2)
    drawn = found.sample(np.random.default_rng(5), (6000, 3, 3))
    sds = np.sqrt(np.diagonal(drawn, axis1=1, axis2=2))
    assert (sds > u).mean(axis=0) == pytest.approx(0.2, abs=0.02)
    middle = np.sqrt(np.diag(found.typical((3, 3))))
    assert (sds < middle).mean(axis=0) == pytest.approx(0.5, abs=0.025)
    one, each = (prior("lkj_cov", "covariance", eta=2.0, u=v, alpha=0.2) for v in (1.5, [1.5] * 3))
    assert each.log_density(some()) == pytest.approx(one.log_density(some()), rel=1e-13)
    stack = np.stack([some(), some(seed=2)])
    rows = prior("lkj_cov", "covariance", eta=2.0, u=np.stack([u, 2.0 * u]), alpha=0.2)
    twice = prior("lkj_cov", "covariance", eta=2.0, u=2.0 * u, alpha=0.2)
    want = found.log_density(stack[0]) + twice.log_density(stack[1])
    assert rows.log_density(stack) == pytest.approx(want, rel=1e-13)
    assert rows.sample(np.random.default_rng(0), (2, 3, 3)).shape == (2, 3, 3)
    assert rows.gradient(stack)["u"].shape == (2, 3)
