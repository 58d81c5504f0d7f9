"""Marginal densities: mass one, the distribution that the quantiles have, and exact quadrature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.interpolate import CubicSpline

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.lowering.derived import Apply, Derived, Leaf, monotone, slope
from lgmdsl.learning.coordinates.hyper_marginals import entry_ends
from lgmdsl.learning.integration.kernel_density import Range, kernel_density, sample_share
from tests.compiled import canonical_form
from tests.learning.glmm import CROSSED, GLMM, NORMAL, counts, crossed, load, measured

LEVELS = [0.025, 0.25, 0.5, 0.75, 0.975]


@pytest.fixture(scope="module")
def glmm() -> lgm.Fit:
    return lgm.fit(load(GLMM), counts(), method="laplace", hyper="integrate")


def check(fit: lgm.Fit, name: str, near: float) -> None:
    """Mass 1, and the distribution function `near` the levels at the fit's quantiles."""
    found = fit.density(name)
    x, p = (found[v].values.reshape(-1, 201) for v in ("x", "density"))
    assert found["density"].dims == (*fit.mean(name).dims, "point")
    np.testing.assert_allclose(np.trapezoid(p, x), 1.0, atol=4e-3)
    steps = 0.5 * (p[:, 1:] + p[:, :-1]) * np.diff(x)
    below = np.concatenate([np.zeros((len(x), 1)), np.cumsum(steps, axis=1)], axis=1)
    quantiles = fit.quantile(name, LEVELS).values.reshape(len(LEVELS), -1).T
    for row in zip(quantiles, x, below, strict=True):
        np.testing.assert_allclose(np.interp(*row), LEVELS, atol=near)


@pytest.mark.thorough
def test_one_scale_against_exact_quadrature(glmm: lgm.Fit) -> None:
    rate, x = -np.log(0.01), np.linspace(np.log(0.2), np.log(1.8), 21)
    fits = [
        lgm.fit(load(GLMM), counts(), method="laplace", hyper="fixed", fixed={"s": s})
        for s in np.exp(x)
    ]
    log = np.array([f.log_evidence for f in fits]) - rate * np.exp(x)
    spline = CubicSpline(x, log - log.max())
    fine = np.linspace(x[0], x[-1], 4001)
    total = np.trapezoid(np.exp(spline(fine) + fine), fine)
    for name, power in (("s", 1.0), ("v", 2.0)):  # v = s^2
        found = glmm.density(name)
        at, p = found["x"].values, found["density"].values
        inside = (at > 0.2**power) & (at < 1.8**power)
        log_s = np.log(at[inside]) / power
        exact = np.exp(spline(log_s)) / total / (power * np.exp(log_s * (power - 1.0)))
        np.testing.assert_allclose(p[inside], exact, atol=4e-3 * p.max())


@pytest.mark.parametrize("name", ["s", "v", "b0", "u", "eta", "rate"])
def test_densities_are_those_of_the_quantiles(glmm: lgm.Fit, name: str) -> None:
    check(glmm, name, 2e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("hyper", ["map", "integrate"])
def test_of_several_hyperparameters(hyper: str) -> None:
    two = lgm.fit(load(CROSSED), crossed(), hyper=hyper)
    for name in ("v", "ratio", "a"):
        check(two, name, 3e-3)
    three = lgm.fit(load(NORMAL), measured(), hyper=hyper)
    for name in ("t", "shift", "m"):
        check(three, name, 1e-2)


def test_of_the_latents_mixture(glmm: lgm.Fit) -> None:
    """Against a kernel density of exact draws, and the moments of the fit."""
    found = glmm.density("u").isel(g=3)
    x, p = found["x"].values, found["density"].values
    mean = np.trapezoid(x * p, x)
    assert mean == pytest.approx(float(glmm.mean("u")[3]), abs=1e-3)
    spread = np.sqrt(np.trapezoid((x - mean) ** 2 * p, x))
    assert spread == pytest.approx(float(glmm.sd("u")[3]), rel=2e-3)
    drawn = glmm.sample(20_000, seed=1, names=["u"])["u"].isel(g=3).values
    np.testing.assert_allclose(stats.gaussian_kde(drawn)(x), p, atol=0.04 * p.max())


def test_a_file_has_the_same_densities(glmm: lgm.Fit, tmp_path: Path) -> None:
    glmm.save(tmp_path / "f.nc")
    read = lgm.load_fit(tmp_path / "f.nc")
    for name in ("s", "rate"):
        np.testing.assert_allclose(read.density(name)["density"], glmm.density(name)["density"])


DRAWN = (
    "lgm 1\nindex a\nindex point\ndata y[a] : real\ndata w[point] : real\n"
    "hyper s : positive = 2\nlatent m ~ normal(sd = s)\nlatent k[point] ~ normal(sd = 1)\n"
    "observe y ~ normal(mean = m, sd = 1)\n"
    "observe w ~ normal(mean = k, sd = 1)\n"
    "report square[point] = exp(k) * exp(k)\nreport z = 2 * s\n"
)


def test_what_only_draws_can_tell_and_what_is_fixed() -> None:
    data = {"y": [0.1, 0.7], "w": [0.0, 1.0, 0.3]}
    fit = lgm.fit(lgm.loads(DRAWN), data)
    found = fit.density("square")
    assert found.attrs["from"] == "draws" and found["density"].dims == ("point", "point_2")
    x, p = found["x"].values, found["density"].values
    np.testing.assert_allclose(np.trapezoid(p, x), 1.0, atol=5e-3)
    mean, sd = fit.mean("k").values, fit.sd("k").values  # square is exactly lognormal
    exact = stats.lognorm.pdf(x, 2.0 * sd[:, None], scale=np.exp(2.0 * mean[:, None]))
    np.testing.assert_allclose(p * x, exact * x, atol=0.08 * (exact * x).max())
    for name, told in (("s", "a prior"), ("z", "fit.mean")):
        with pytest.raises(lgm.MethodError, match=told) as caught:
            fit.density(name)
        assert caught.value.codes == ("E501",)
    for name, size, code in (("nothing", 201, "E103"), ("m", 1, "E108"), ("m", 2.5, "E108")):
        with pytest.raises(lgm.ModelError) as wrong:
            fit.density(name, size)  # type: ignore[arg-type]
        assert wrong.value.codes == (code,)


def test_pinned_hypers_are_fixed() -> None:
    fit = lgm.fit(load(GLMM), counts(groups=5), fixed={"s": 0.6})
    with pytest.raises(lgm.MethodError, match="leave out fixed="):
        fit.density("s")


@pytest.mark.parametrize("name", ["exp", "invlogit", "normal_cdf"])
def test_slopes_of_monotone_reports(name: str) -> None:
    inner: Derived = Leaf(None)  # type: ignore[arg-type]
    for tree in (Apply(name, inner), Apply("invlogit", Apply(name, inner))):
        curve = monotone(tree)
        assert curve is not None
        x, step = np.linspace(-3.0, 3.0, 25), 1e-5
        numeric = (curve[1](x + step) - curve[1](x - step)) / (2 * step)
        np.testing.assert_allclose(slope(tree, x), numeric, rtol=1e-6, atol=1e-10)


RANGES = """lgm 1
index k = {"a", "b"}
index obs
data y[obs] : real
hyper pos : positive ~ half_normal(sd = 1)
hyper cut : positive ~ uniform(lower = 0.5, upper = 2)
hyper corr : correlation ~ uniform(lower = -1, upper = 1)
hyper part : unit ~ beta(a = 2, b = 2)
hyper any[k] : real ~ normal(sd = 1)
hyper S[k, k] : covariance ~ lkj_cov(eta = 2, u = 1, alpha = 0.05)
hyper p[k] : simplex ~ dirichlet(alpha = 2)
latent m ~ normal(sd = pos + cut + corr^2 + part)
observe y ~ normal(mean = m, sd = 1)
"""


def test_ends_of_hyperparameters() -> None:
    grounded = canonical_form(RANGES, {"y": [0.1]})
    ends = {b.name: entry_ends(b) for b in grounded.hypers.blocks}
    wanted = {
        "pos": (0.0, np.inf), "cut": (0.5, 2.0), "corr": (-1.0, 1.0), "part": (0.0, 1.0),
        "any": ([-np.inf] * 2, [np.inf] * 2), "p": ([0.0] * 2, [1.0] * 2),
        "S": ([[0.0, -np.inf], [-np.inf, 0.0]], np.full((2, 2), np.inf)),
    }  # fmt: skip
    assert ends.keys() == wanted.keys()
    for name, (lower, upper) in wanted.items():
        np.testing.assert_array_equal(ends[name][0], lower)
        np.testing.assert_array_equal(ends[name][1], upper)


@pytest.mark.parametrize(
    ("within", "law"),
    [
        (Range(), stats.norm(1.0, 2.0)),
        (Range(0.0), stats.gamma(2.0, scale=3.0)),
        (Range(2.0, 5.0), stats.beta(3.0, 2.0, loc=2.0, scale=3.0)),
    ],
)
def test_kernel_density_of_weighted_draws(within: Range, law: Any) -> None:
    values: Array = law.ppf((np.arange(4000) + 0.5) / 4000)
    weights = np.full(4000, 1 / 4000)
    x, p = kernel_density(values, weights, sample_share(weights), 401, within)
    exact = law.pdf(x)
    assert np.trapezoid(p, x) == pytest.approx(1.0, abs=1e-3)
    line, density = within.line(x), p * within.slope(within.line(x))
    w = within.line(values)
    mean = np.trapezoid(line * density, line)
    assert mean == pytest.approx(w.mean(), abs=2e-3 * w.std())
    spread = np.trapezoid((line - mean) ** 2 * density, line)
    assert spread == pytest.approx(w.var(), rel=5e-3)
    np.testing.assert_allclose(p, exact, atol=0.1 * exact.max())
    np.testing.assert_allclose(within.value(within.line(values)), values, rtol=1e-9)


def test_a_half_line_that_does_not_begin_at_zero() -> None:
    """As that of the degrees of freedom of a Student-t, above 2: there and back."""
    values = np.array([2.1, 3.0, 40.0])
    above = Range(2.0)
    np.testing.assert_allclose(above.value(above.line(values)), values, rtol=1e-12)
