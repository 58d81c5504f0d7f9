"""Integration over hyperparameters against quadrature on a fine lattice of plain fits."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import simpson

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.learning.integration.designs import PLANE_LOWER
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from tests.learning.glmm import CROSSED, GLMM, NORMAL, counts, crossed, load, measured

# A fit, and by fits at fixed scales: log scales, their density, the log evidence, what was found.
Exact: TypeAlias = tuple[lgm.Fit, Array, Array, float, list[Any]]


@pytest.fixture(scope="module")
def glmm() -> Exact:
    """The fit, and the exact marginals by 61 fits at fixed s (x = log s)."""
    data, model = counts(), load(GLMM)
    fit = lgm.fit(model, data, method="laplace", hyper="integrate")
    x = np.linspace(np.log(0.25), np.log(1.6), 41)
    rate = -np.log(0.01)
    rows = []
    for s in np.exp(x):
        at = lgm.fit(model, data, method="laplace", hyper="fixed", fixed={"s": s})
        u, r = at.mean("u").values, at.mean("rate").values
        prior = np.log(rate) - rate * s
        rows.append((at.log_evidence + prior + np.log(s), u, at.sd("u").values, r))
    density = np.array([r[0] for r in rows])
    weight = np.exp(density - density.max())
    total = simpson(weight, x=x)
    return fit, x, weight / total, density.max() + np.log(total), rows


@pytest.mark.thorough
def test_evidence_and_moments_of_a_scale(glmm: Exact) -> None:
    fit, x, weight, evidence, _ = glmm
    s = np.exp(x)
    mean = simpson(weight * s, x=x)
    sd = np.sqrt(simpson(weight * (s - mean) ** 2, x=x))
    assert fit.log_evidence == pytest.approx(evidence, abs=2e-4)
    assert float(fit.mean("s")) == pytest.approx(mean, abs=1e-3 * sd)
    assert float(fit.sd("s")) == pytest.approx(sd, rel=1e-3)
    square = simpson(weight * s**2, x=x)
    assert float(fit.mean("v")) == pytest.approx(square, rel=1e-3)


@pytest.mark.thorough
def test_quantiles_of_a_scale(glmm: Exact) -> None:
    fit, x, weight, _, _ = glmm
    fine = np.linspace(x[0], x[-1], 5001)
    cumulative = np.cumsum(np.interp(fine, x, weight)) * (fine[1] - fine[0])
    levels = [0.025, 0.25, 0.5, 0.75, 0.975]
    wanted = np.exp(np.interp(levels, cumulative, fine))
    np.testing.assert_allclose(fit.quantile("s", levels), wanted, rtol=3e-3)
    np.testing.assert_allclose(fit.quantile("v", levels), wanted**2, rtol=6e-3)


def test_mixture_moments_of_latents_and_reports(glmm: Exact) -> None:
    fit, x, weight, _, rows = glmm
    means, sds, rates = (np.array([r[k] for r in rows]) for k in (1, 2, 3))
    mean = simpson(weight[:, None] * means, x=x, axis=0)
    second = simpson(weight[:, None] * (sds**2 + means**2), x=x, axis=0)
    np.testing.assert_allclose(fit.mean("u"), mean, atol=1e-4)
    np.testing.assert_allclose(fit.sd("u"), np.sqrt(second - mean**2), rtol=1e-3)
    np.testing.assert_allclose(
        fit.mean("rate"), simpson(weight[:, None] * rates, x=x, axis=0), rtol=1e-3
    )


def test_draws_are_of_the_mixture(glmm: Exact) -> None:
    fit = glmm[0]
    drawn = fit.sample(20_000, seed=3, names=["s", "u", "v"])
    assert float(drawn["s"].mean()) == pytest.approx(float(fit.mean("s")), abs=0.01)
    np.testing.assert_allclose(drawn["v"], drawn["s"] ** 2)
    np.testing.assert_allclose(drawn["u"].mean("sample"), fit.mean("u"), atol=0.02)
    np.testing.assert_allclose(drawn["u"].std("sample"), fit.sd("u"), rtol=0.03)
    again = fit.sample(20_000, seed=3, names=["s", "u", "v"])
    np.testing.assert_array_equal(drawn["u"], again["u"])


@pytest.mark.thorough
def test_two_scales_against_a_lattice() -> None:
    model, data = load(CROSSED), crossed()
    fit = lgm.fit(model, data, method="natural-gradient", hyper="integrate")
    axis = np.linspace(-2.75, 3.25, 13)
    cell = (axis[1] - axis[0]) ** 2
    densities, rows = [], []
    for a, b in itertools.product(axis, axis):
        v, w = np.exp(a), np.exp(b)
        at = lgm.fit(model, data, method="natural-gradient", fixed={"v": v, "w": w})
        prior = stats.invgamma(2).logpdf([v, w]).sum()
        densities.append(at.log_evidence + prior + a + b)
        rows.append((v, w, float(at.mean("b0")), float(at.sd("b0"))))
    density = np.array(densities)
    weight = np.exp(density - density.max())
    v, w, mean, sd = np.array(rows).T
    share = weight / weight.sum()
    assert fit.log_evidence == pytest.approx(density.max() + np.log(weight.sum() * cell), abs=2e-2)
    for name, values in (("v", v), ("w", w), ("ratio", v / w)):
        spread = np.sqrt(share @ (values - share @ values) ** 2)
        tolerance = 0.03 if name != "ratio" else 0.06
        assert float(fit.mean(name)) == pytest.approx(share @ values, abs=tolerance * spread)
    centre = share @ mean
    assert float(fit.mean("b0")) == pytest.approx(centre, abs=5e-3)
    spread = np.sqrt(share @ (sd**2 + (mean - centre) ** 2))
    assert float(fit.sd("b0")) == pytest.approx(spread, rel=5e-3)


@pytest.mark.few(1)
@pytest.mark.parametrize("design", ["grid", "ccd", "gauss-hermite"])
def test_three_hyperparameters_by_every_design(design: str) -> None:
    data = measured()
    fit = lgm.fit(load(NORMAL), data, hyper="integrate", options={"integration": design})
    s, t, shift, weight, evidence = _lattice_of_normals(data["y"])
    assert fit.log_evidence == pytest.approx(evidence, abs=0.03)
    for name, values in (("s", s), ("t", t), ("shift", shift)):
        mean = weight @ values
        spread = float(np.sqrt(weight @ (values - mean) ** 2))
        near = 0.03 if design != "ccd" else 0.08
        assert float(fit.mean(name)) == pytest.approx(mean, abs=near * spread)
        assert float(fit.sd(name)) == pytest.approx(spread, rel=1.5 * near)


def _lattice_of_normals(y: Array) -> tuple[Array, Array, Array, Array, float]:
    """The exact posterior of NORMAL's hyperparameters on a lattice of (log s, log t, shift)."""
    a, b, c = np.linspace(-5, 2.2, 60), np.linspace(-1, 1.2, 50), np.linspace(-5, 5, 60)
    s, t, shift = (k.reshape(-1) for k in np.meshgrid(np.exp(a), np.exp(b), c, indexing="ij"))
    n, mean = len(y), y.mean()
    # Sufficient statistics: the mean of y, N(shift, s^2 + t^2 / n), and the squares about it.
    spread = s**2 + t**2 / n
    squares = ((y - mean) ** 2).sum()
    log = (
        -0.5 * np.log(2 * np.pi * spread)
        - 0.5 * (mean - shift) ** 2 / spread
        - 0.5 * (n - 1) * np.log(2 * np.pi)
        - (n - 1) * np.log(t)
        - 0.5 * np.log(n)
        - 0.5 * squares / t**2
    )
    log += stats.halfnorm(scale=2).logpdf(s) + stats.gamma(3, scale=0.5).logpdf(t)
    log += stats.norm.logpdf(shift) + np.log(s) + np.log(t)
    weight = np.exp(log - log.max())
    cell = (a[1] - a[0]) * (b[1] - b[0]) * (c[1] - c[0])
    evidence = log.max() + np.log(weight.sum() * cell)
    return s, t, shift, weight / weight.sum(), evidence


@pytest.mark.thorough
def test_as_many_threads_as_wanted_give_the_same_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = load(CROSSED), crossed()
    found = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(
            "lgmdsl.learning.objective.log_posterior.os.cpu_count", lambda cores=cores: cores
        )
        monkeypatch.setattr("lgmdsl.learning.objective.log_posterior.WORTH_A_THREAD", 0.0)
        fit = lgm.fit(model, data, hyper="integrate")
        found.append((fit.log_evidence, fit.mean("a").values.tobytes(), float(fit.sd("v"))))
    assert found[0] == found[1] == found[2]


@pytest.mark.thorough
def test_what_is_fixed_beside_learned_ones_is_fixed() -> None:
    text = NORMAL.replace(
        "half_normal(sd = 2)", "half_normal(sd = 2)\nhyper c[obs] : positive = 0.7"
    )
    fit = lgm.fit(load(text), measured(), hyper="integrate", fixed={"shift": 0.3})
    for name, value in (("c", 0.7), ("shift", 0.3)):
        assert (fit.mean(name) == value).all() and not fit.sd(name).any()
    fixed = fit.summary().partition("hyperparameters (fixed)")[2].partition("\nhyper")[0]
    assert "shift" in fixed and "c[0]" in fixed
    with pytest.raises(lgm.MethodError, match="it is fixed"):
        fit.density("c")


@pytest.mark.parametrize(
    ("prior", "law"),
    [
        ("positive ~ gamma(shape = 2, rate = 1)", stats.gamma(2)),
        ("positive ~ pc_sd(u = 1, alpha = 0.01)", stats.expon(scale=-1.0 / np.log(0.01))),
        ("positive ~ half_normal(sd = 1)", stats.halfnorm()),
        ("unit ~ uniform(lower = 0, upper = 1)", stats.uniform()),
    ],
)
def test_without_data_the_prior_comes_back(prior: str, law: Any) -> None:
    """Its evidence is 1; on the coordinate's line none of these is normal."""
    model = lgm.loads(
        f"lgm 1\nindex i = 2\ndata y[i] : real?\nhyper s : {prior}\n"
        "latent u[i] ~ normal(sd = s)\nlet eta[i] = u\nobserve y ~ normal(mean = eta, sd = 1)\n"
    )
    fit = lgm.fit(model, {"y": np.array([np.nan, np.nan])}, hyper="integrate")
    assert fit.log_evidence == pytest.approx(0.0, abs=1e-3)
    assert float(fit.mean("s")) == pytest.approx(law.mean(), abs=8e-4 * law.std())
    assert float(fit.sd("s")) == pytest.approx(law.std(), rel=1.5e-3)
    levels = [0.025, 0.5, 0.975]
    np.testing.assert_allclose(fit.quantile("s", levels), law.ppf(levels), atol=5e-3 * law.std())


SCALES = """lgm 1
index i = 2
data y[i] : real?
hyper s : positive ~ half_normal(sd = 1)
hyper r : positive ~ gamma(shape = 2, rate = 1)
latent u[i] ~ normal(sd = s)
latent v[i] ~ normal(sd = r)
let eta[i] = u + v
observe y ~ normal(mean = eta, sd = 1)
"""


def fits_made(monkeypatch: pytest.MonkeyPatch, lower: float) -> tuple[lgm.Fit, int]:
    """Two scales without data, and how many fits they took; `lower`: nats below the rest of a cell
    that is left out."""
    made = [0]
    at = Objective.inside

    def counted(self: Objective, *arguments: Any) -> Evaluation | None:
        made[0] += 1
        return at(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Objective, "inside", counted)
        patch.setattr("lgmdsl.learning.integration.designs.PLANE_LOWER", lower)
        fit = lgm.fit(lgm.loads(SCALES), {"y": np.full(2, np.nan)}, hyper="integrate")
    return fit, made[0]


def test_cells_whose_neighbours_fall_steeply_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prior comes back, tails of powers among it, by fewer fits and the same as by all."""
    (few, less), (every, more) = (fits_made(monkeypatch, lower) for lower in (PLANE_LOWER, np.inf))
    assert less < more
    for fit in (few, every):
        assert fit.log_evidence == pytest.approx(0.0, abs=2e-3)
        for name, law in (("s", stats.halfnorm()), ("r", stats.gamma(2))):
            assert float(fit.mean(name)) == pytest.approx(law.mean(), abs=3e-3 * law.std())
            assert float(fit.sd(name)) == pytest.approx(law.std(), rel=3e-3)
            ends = [0.025, 0.5, 0.975]
            np.testing.assert_allclose(
                fit.quantile(name, ends), law.ppf(ends), atol=2e-2 * law.std()
            )


@pytest.mark.parametrize("hyper", ["map", "integrate"])
def test_a_chain_of_squares_that_overflows_has_no_moments(hyper: str) -> None:
    """s^4096 is infinite at some values of s: no number is given for it, and no RuntimeWarning;
    what else was learned is as it was."""
    lets = "\n".join(f"let a{k} = a{k - 1} * a{k - 1}" for k in range(2, 14))
    text = (
        "lgm 1\nindex obs\ndata y[obs] : real\nhyper a1 : positive ~ half_normal(sd = 1)\n"
        f"{lets}\nlatent m ~ normal(sd = 2)\nlet eta[obs] = m\n"
        "observe y ~ normal(mean = eta, sd = a1)\n"
    )
    y = 4.0 * np.random.default_rng(0).normal(size=30)
    fit = lgm.fit(lgm.loads(text), {"y": y}, hyper=hyper)
    assert not np.isfinite(float(fit.mean("a13"))) and np.isnan(float(fit.sd("a13")))
    assert float(fit.mean("a1")) > 2.0 and 0.0 < float(fit.sd("a1")) < 1.0
    with pytest.raises(lgm.MethodError, match="its values overflow"):
        fit.density("a13")
