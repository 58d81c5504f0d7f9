"""fit.effects() of exponentials of wide predictors: closed moments, against Gaussian integrals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.effects import effects as module
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.posterior.tails import MOST, sd_error

TEXT = """lgm 1
index obs
data x[obs] : real
data z[obs] : real
data y[obs] : {type}
latent a ~ normal(sd = 1)
latent b ~ normal(sd = 1)
latent c ~ normal(sd = 0.5)
let eta[obs] = a + b * x + c * z * x
report ab = a + b
report ac = a + c
report bc = b + c
observe y ~ {family}
"""
FAMILIES = {
    "poisson": ("count", "poisson(log_rate = eta)", lambda s: np.exp(s)),
    "negbinomial": ("count", "negbinomial(log_mean = eta, size = 2)", lambda s: np.exp(s)),
    "zero_inflated": (
        "count",
        "poisson(log_rate = eta, zero_inflation = 0.3)",
        lambda s: 0.7 * np.exp(s),
    ),
    "lognormal": ("positive", "lognormal(mean = eta, sd = 1)", lambda s: np.exp(s + 0.5)),
    "exponential": ("positive", "exponential(log_rate = eta)", lambda s: np.exp(-s)),
    "truncated": (
        "count",
        "poisson(log_rate = eta, truncated = true)",
        lambda s: np.exp(s) / -np.expm1(-np.exp(s)),
    ),
}
CLOSED = ["poisson", "negbinomial", "zero_inflated", "lognormal", "exponential"]
FAR = {"x": [3.0, 4.0], "z": [0.5, -1.0]}  # predictors with sds of 2 to 3


def some_fit(name: str) -> Fit:
    kind, family, _ = FAMILIES[name]
    if kind == "count":
        y: Any = [1, 2, 1]
    else:
        y = [1.0, 2.0, 0.5]
    data = {"x": [-0.1, 0.1, 0.2], "z": [0.0, 1.0, 0.0], "y": y}
    text = TEXT.format(type=kind, family=family)
    return lgm.fit(lgm.loads(text), data, options={"correction": "off"})


def gaussian(fit: Fit) -> tuple[Array, Array]:
    """Mean and covariance of a, b and c."""
    mean = np.array([float(fit.mean(n)) for n in "abc"])
    cov = np.diag([float(fit.sd(n)) ** 2 for n in "abc"])
    for i, j, name in ((0, 1, "ab"), (0, 2, "ac"), (1, 2, "bc")):
        cov[i, j] = cov[j, i] = 0.5 * (float(fit.sd(name)) ** 2 - cov[i, i] - cov[j, j])
    return mean, cov


def by_nodes(fit: Fit, g: Any) -> tuple[float, float]:
    """Mean and sd of g(a, b, c) by the trapezoid rule, out to where its square has its mass."""
    mean, cov = gaussian(fit)
    root = np.linalg.cholesky(cov)
    line = np.arange(-16.0, 16.01, 0.4)
    t = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1).reshape(-1, 3)
    t = t[(t**2).sum(axis=1) < 16.0**2]
    weight = np.exp(-0.5 * (t**2).sum(axis=1)) * (0.4 / np.sqrt(2 * np.pi)) ** 3
    values = g(*(mean + t @ root.T).T)
    first = weight @ values
    return first, np.sqrt(weight @ (values - first) ** 2)


def average(name: str, x: Array, z: Array) -> Any:
    mean: Any = FAMILIES[name][2]
    pairs = [*zip(x, z, strict=True)]
    return lambda a, b, c: np.mean([mean(a + b * u + c * v * u) for u, v in pairs], axis=0)


@pytest.mark.few(13)
@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("contrast", ["levels", (3.0, 4.0), "slope"])
def test_sds_are_those_of_the_gaussian(
    name: str, contrast: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, z = some_fit(name), np.array(FAR["z"])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = fit.effects("x", contrast=contrast, data=FAR)
    # By importance sampling they are 14 to 25 % too small under the posterior of exponential rows,
    # within 2 % under that of negbinomial ones, and exact under that of lognormal ones; of Poisson
    # ones 5 % too large, where warnings begin, but 30 % and more far from the data.
    doubted = ["the sds of the effects of `x` may be off" in str(w.message) for w in said]
    if contrast != "levels" or name in ("negbinomial", "exponential", "lognormal"):
        assert doubted == [True] * (name not in ("negbinomial", "lognormal"))
    if contrast == "levels":
        for row, at in enumerate([-0.1, 0.1, 0.2]):
            wanted = by_nodes(fit, average(name, np.full(2, at), z))
            assert tuple(found.loc[row, ["estimate", "sd"]]) == pytest.approx(wanted, rel=1e-6)
        return
    if contrast == "slope":
        half = 1e-3
        x = np.array(FAR["x"])
        high, low = average(name, x + half, z), average(name, x - half, z)
        wanted = by_nodes(fit, lambda *l: (high(*l) - low(*l)) / (2.0 * half))
    else:
        high, low = (average(name, np.full(2, v), z) for v in (4.0, 3.0))
        wanted = by_nodes(fit, lambda *l: high(*l) - low(*l))
    assert tuple(found.loc[0, ["estimate", "sd"]]) == pytest.approx(wanted, rel=2e-5)
    # Nothing is drawn where no quantiles are asked for.
    monkeypatch.setattr(module, "drawn_averages", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = fit.effects("x", contrast=contrast, data=FAR, quantiles=())
    assert float(short["sd"].iloc[0]) == pytest.approx(float(found["sd"].iloc[0]), rel=1e-12)


def test_ratios_of_one_change_are_lognormal(monkeypatch: pytest.MonkeyPatch) -> None:
    """exp(b (x1 - x0)), whatever the rows, where no other term changes with x."""
    fit, rows = some_fit("poisson"), {"x": [3.0, 4.0], "z": [0.5, 0.5]}
    monkeypatch.setattr(module, "drawn_averages", None)
    found = fit.effects("x", contrast=(0.0, 3.0), compare="ratio", data=rows)
    mean, cov = gaussian(fit)
    t = np.array([0.0, 3.0, 1.5])
    m, v = t @ mean, t @ cov @ t
    level = np.exp(m + 0.5 * v)
    numbers = ["estimate", "sd", "q5", "q50", "q95"]
    wanted = [level, level * np.sqrt(np.expm1(v)), *np.exp(m + np.sqrt(v) * NORMAL)]
    np.testing.assert_allclose(found.loc[0, numbers].astype(float), wanted, rtol=1e-7)
    slope = fit.effects("x", compare="ratio", data=rows).loc[0, numbers].astype(float)
    m, sd = t @ mean / 3.0, np.sqrt(v) / 3.0
    np.testing.assert_allclose(slope, [m, sd, *(m + sd * NORMAL)], rtol=1e-6)


NORMAL = np.array([-1.6448536269514722, 0.0, 1.6448536269514722])


@pytest.mark.parametrize(("name", "compare"), [("truncated", "difference"), ("poisson", "ratio")])
def test_few_draws_that_carry_the_variance_are_said(name: str, compare: str) -> None:
    """Where there is no closed form: other means, and ratios of averages of several rows."""
    fit = some_fit(name)
    rows = {"x": [3.0, 4.0], "z": [4.0, -4.0]}
    with pytest.warns(lgm.PredictionWarning, match="W611.*sds by few draws"):
        fit.effects("x", contrast=(0.0, 5.0), compare=compare, data=rows)


def test_normal_and_moderate_draws_are_not_doubted() -> None:
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(4000, 20))
    assert sd_error(np.exp(0.5 * normal), 4000.0).max() < MOST
    mild = some_fit("truncated")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mild.effects("x", contrast=(-0.1, 0.1))


@pytest.mark.thorough
def test_effects_of_an_integrated_model_are_those_of_many_draws() -> None:
    """Closed moments at the points agree with draws of latents and hyperparameters together."""
    rng = np.random.default_rng(2)
    n = 80
    x, g = rng.normal(size=n), np.arange(n) % 8
    y = rng.poisson(np.exp(0.5 + 0.3 * x + 0.4 * rng.normal(size=8)[g]))
    text = """lgm 1
index obs
index group
data x[obs] : real
data g[obs] : group
data y[obs] : count
hyper s : positive ~ exponential(rate = 1)
latent a ~ normal(sd = 3)
latent b ~ normal(sd = 3)
latent u[group] ~ normal(sd = s)
let eta[obs] = a + b * x + u[g]
observe y ~ poisson(log_rate = eta)
"""
    fit = lgm.fit(lgm.loads(text), {"x": x, "g": [f"g{k}" for k in g], "y": y})
    assert len(fit.points) > 2
    found = fit.effects("x", contrast=(0.0, 1.0), by="g", n=4000)
    draws = fit.sample(40_000, seed=3)
    a, b = draws["a"].values, draws["b"].values
    for row in range(8):
        u = draws["u"].values[:, list(draws["u"]["group"].values).index(found.loc[row, "g"])]
        effect = np.exp(a + u) * np.expm1(b)
        assert found["estimate"].iloc[row] == pytest.approx(effect.mean(), rel=0.02)
        assert found["sd"].iloc[row] == pytest.approx(effect.std(), rel=0.03)


def reported(report: str, spread: float) -> Fit:
    text = TEXT.format(type="real", family="normal(mean = eta, sd = 1)")
    text = text.replace("report ab = a + b\n", f"report ab = {report}\n")
    data = {"x": [-0.1, 0.1, 0.2], "z": [0.0, 1.0, 0.0], "y": [1.0, 2.0, 0.5]}
    text = text.replace("latent b ~ normal(sd = 1)", f"latent b ~ normal(sd = {spread})")
    return lgm.fit(lgm.loads(text), data)


@pytest.mark.parametrize(
    ("report", "spread", "said"),
    [
        ("exp(a) + exp(b)", 3.0, True),
        ("exp(a) + exp(b)", 0.5, False),
        ("log(exp(a) + exp(b))", 3.0, False),
        ("exp(b)", 3.0, False),  # closed
    ],
)
def test_reports_whose_variance_few_draws_carry(report: str, spread: float, said: bool) -> None:
    fit = reported(report, spread)
    assert [w.code for w in fit.warnings].count("W611") == said
    if said:
        assert "rests on few draws" in str(fit.summary())


def test_responses_by_draws_say_where_few_carry_their_variance() -> None:
    """A posterior made of exact draws has no closed form."""
    text = """lgm 1
index obs
index one
data n[obs] : count
data y[obs] : count
data x[one] : real
data k[one] : count
latent a ~ normal(sd = 10)
latent b ~ normal(sd = 1)
let eta[obs] = a
let rate[one] = b * x
observe y ~ binomial(n = n, logit = eta)
observe k ~ poisson(log_rate = rate)
"""
    data = {"n": [20, 27], "y": [0, 0], "x": [0.1], "k": [1]}
    fit = lgm.fit(lgm.loads(text), data)
    assert fit.drawn is not None
    with pytest.warns(lgm.PredictionWarning, match="W611.*the sd of `k` rests on few draws"):
        far = fit.predict({"x": [4.0]}).response("k")
    assert far["sd"].values.shape == (1,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit.predict({"x": [0.2]}).response("k")


def test_predicted_reports_and_hazards_say_so_too() -> None:
    lets = "report total[obs] = exp(eta) + exp(a)\nobserve"
    text = TEXT.format(type="positive", family="weibull(log_scale = eta, shape = 2)")
    lives = lgm.fit(
        lgm.loads(text.replace("observe", lets)),
        {"x": [-0.1, 0.1, 0.2], "z": [0.0, 1.0, 0.0], "y": [1.0, 2.0, 0.5]},
    )
    far, near = lives.predict(FAR), {"x": [0.1], "z": [0.0]}
    with pytest.warns(lgm.PredictionWarning, match="W611.*hazards of `y`"):
        lives.survival([1.0], FAR)
    for asked in (lambda: far.sd("total"), far.frame, far.to_dataset):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            asked()
        assert any("W611" in str(w.message) and "sd of `total`" in str(w.message) for w in said)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lives.survival([1.0], near)
        lives.predict(near).frame()


def test_effects_on_a_mean_that_is_infinite_are_refused() -> None:
    text = (
        "lgm 1\nindex obs\ndata y[obs] : positive\ndata x[obs] : real\nlatent a ~ normal(sd = 2)\n"
    )
    text += (
        "latent b ~ normal(sd = 1)\nobserve y ~ loglogistic(log_scale = a + b * x, shape = {})\n"
    )
    rng = np.random.default_rng(0)
    data = {"y": rng.gamma(1.0, size=20), "x": rng.normal(size=20)}
    fit = lgm.fit(lgm.loads(text.format(1)), data)
    with pytest.raises(lgm.ModelError, match="`y` has no finite mean under loglogistic"):
        fit.effects("x", contrast=(0.0, 1.0))
    link = fit.effects("x", contrast=(0.0, 1.0), scale="link")
    assert link["estimate"].iloc[0] == pytest.approx(float(fit.mean("b")), rel=0.05)
    assert np.isfinite(
        lgm.fit(lgm.loads(text.format(3)), data).effects("x", contrast=(0.0, 1.0))["estimate"]
    ).all()
