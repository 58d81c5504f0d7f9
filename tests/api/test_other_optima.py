"""W602 is said where another optimum matters, and nowhere else; `auto` reports all modes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.fit.optima import other_optima
from lgmdsl.arrays import Array

GROUPS = """lgm 1
index obs
data y[obs] : real
latent m ~ normal(mean = -4, sd = {sd})
let s[obs] = m
observe y ~ student_t(mean = s, scale = 0.1, df = 1)
"""
LEARNED = GROUPS.replace("latent", "hyper t : positive ~ half_normal(sd = 10)\nlatent")
EQUAL = np.r_[-4.0 + 0.1 * np.arange(5), 8.0 + 0.1 * np.arange(5)]
HEAVIER = np.r_[-4.0 + 0.1 * np.arange(5), 8.0 + 0.1 * np.arange(7)]
REGRESSION = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
latent b[feat] ~ normal(sd = 5)
let s[obs] = X @ b
observe y ~ student_t(mean = s, scale = {scale}, df = 4)
"""
MANY = """lgm 1
index obs
index g
data at[obs] : g
data y[obs] : real
latent u[g] ~ normal(sd = 5)
let s[obs] = u[at]
observe y ~ student_t(mean = s, scale = 0.1, df = 1)
"""


def codes(fit: Fit) -> list[str]:
    return [w.code for w in fit.warnings]


def level(y: Array) -> Callable[[Array, float], Array]:
    def at(m: Array, sd: float) -> Array:
        logs = sum(stats.t.logpdf(v, 1.0, m, 0.1) for v in y)
        return np.asarray(stats.norm.logpdf(m, -4.0, sd) + logs)

    return at


X = np.linspace(-30.0, 30.0, 120001)


def truth() -> tuple[Array, Array]:
    p = np.exp(level(EQUAL)(X, 10.0) + 40.0)
    return X, p / p.sum()


@pytest.mark.parametrize("method", ["natural-gradient", "laplace", "ep", "map"])
def test_a_named_method_says_where_the_other_mode_is(method: str) -> None:
    fit = lgm.fit(lgm.loads(GROUPS.format(sd=10)), {"y": EQUAL}, method)
    warning = next(w for w in fit.warnings if w.code == "W602")
    x, p = truth()
    share = int(warning.message.split("with ")[1].split(" %")[0])
    assert "`m`" in warning.message and share == pytest.approx(100 * p[x > 2.0].sum(), abs=4)
    assert "it is at 8.19" in warning.details[0] and "at -3.79" in warning.details[0]
    assert abs(float(fit.mean("m")) + 3.8) < 0.1  # the method's own


def test_auto_reports_both_modes() -> None:
    fit = lgm.fit(lgm.loads(GROUPS.format(sd=10)), {"y": EQUAL})
    x, p = truth()
    mean = p @ x
    sd = np.sqrt(p @ (x - mean) ** 2)
    assert "W602" not in codes(fit) and "W609" not in codes(fit)
    assert fit.drawn is not None and "from its modes" in fit.provenance["marginals"]
    assert float(fit.mean("m")) == pytest.approx(float(mean), abs=0.06 * float(sd))
    assert float(fit.sd("m")) == pytest.approx(sd, rel=0.05)
    ends = np.interp([0.05, 0.95], np.cumsum(p), x)
    np.testing.assert_allclose(fit.quantile("m", [0.05, 0.95]), ends, atol=0.1)
    corrected = lgm.fit(
        lgm.loads(GROUPS.format(sd=10)), {"y": EQUAL}, "laplace", options={"correction": "on"}
    )
    assert "W602" not in codes(corrected)
    assert float(corrected.sd("m")) == pytest.approx(sd, rel=0.05)


@pytest.mark.parametrize("method", ["auto", "natural-gradient", "laplace", "ep", "map"])
@pytest.mark.parametrize("seed", range(3))
def test_ordinary_robust_regressions_are_not_warned(method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = (12, 40, 200)[seed]
    design = np.c_[np.ones(n), rng.normal(size=(n, 2))]
    y = design @ [1.0, 2.0, -1.0] + rng.standard_t(4, n)
    y[: n // 10] += 8.0
    fit = lgm.fit(lgm.loads(REGRESSION.format(scale=1.0)), {"X": design, "y": y}, method)
    assert fit.converged and "W602" not in codes(fit)
    assert "find one mode" in fit.provenance["notes"] and "one mode" in fit.summary()


@pytest.mark.thorough
def test_auto_learns_hyperparameters_from_the_higher_optimum() -> None:
    """The lighter group is at the prior's mean, where searches start: with a small sd of the prior
    it is the only mode, so that no other start shows at the maximum itself."""
    text = LEARNED.format(sd="t")
    t = np.linspace(0.01, 45.0, 300)
    logs = np.array([np.log(np.exp(level(HEAVIER)(X, s) + 60.0).sum() * (X[1] - X[0])) for s in t])
    logs = logs - 60.0 + stats.halfnorm.logpdf(t, 0.0, 10.0)
    exact = float(np.log(np.exp(logs - logs.max()).sum() * (t[1] - t[0])) + logs.max())
    fit = lgm.fit(lgm.loads(text), {"y": HEAVIER})
    assert fit.converged and "W602" not in codes(fit)
    assert abs(float(fit.mean("m")) - 8.29) < 0.02
    assert fit.log_evidence == pytest.approx(exact, abs=0.1)
    weights = np.exp(logs - logs.max())
    assert float(fit.mean("t")) == pytest.approx(float(weights @ t / weights.sum()), rel=0.05)
    for hyper in ("integrate", "map"):
        own = lgm.fit(lgm.loads(text), {"y": HEAVIER}, "natural-gradient", hyper=hyper)
        assert float(own.mean("m")) < -3.0
        warning = next(w for w in own.warnings if w.code == "W602")
        assert "nats higher" in warning.message and "8.29" in warning.details[0]


def many(groups: int, two: bool) -> dict[str, object]:
    """Groups of eight rows, some of them outliers; in one of them, if `two`, two clusters."""
    rng = np.random.default_rng(1)
    at = np.repeat(np.arange(groups), 8)
    y = 2.0 * rng.normal(size=groups)[at] + 0.05 * rng.standard_normal(8 * groups)
    if two:
        y[at == 3] = np.repeat([-1.1, 1.1], 4) + 0.05 * rng.standard_normal(8)
    y[::17] += 4.0
    return {"at": at, "y": y}


@pytest.mark.parametrize("method", ["natural-gradient", "laplace"])
def test_one_of_many_groups_has_two_modes(method: str) -> None:
    """More latents than are searched: runs from other starts, each group's outliers for itself."""
    fit = lgm.fit(lgm.loads(MANY), many(40, True), method)
    warning = next(w for w in fit.warnings if w.code == "W602")
    assert "u[3]" in warning.message + " ".join(warning.details)
    plain = lgm.fit(lgm.loads(MANY), many(40, False), method)
    assert "W602" not in codes(plain) and "starts agree" in plain.provenance["notes"]


def test_what_cannot_be_checked_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_optima, "OPERATIONS", 0.0)
    monkeypatch.setattr(other_optima, "EXPECTED", 0.0)
    data = many(40, False)
    first = lgm.fit(lgm.loads(MANY), data, "natural-gradient")
    again = lgm.fit(lgm.loads(MANY), data, "natural-gradient", start_from=first)
    warning = next(w for w in again.warnings if w.code == "W602")
    assert "not tried" in warning.message


def test_log_concave_sites_have_one_optimum_and_no_note() -> None:
    text = GROUPS.format(sd=10).replace(
        "student_t(mean = s, scale = 0.1, df = 1)", "laplace(mean = s, scale = 1)"
    )
    fit = lgm.fit(lgm.loads(text), {"y": EQUAL})
    assert "W602" not in codes(fit) and "log-concave" not in fit.provenance.get("notes", "")


@pytest.mark.few(2)
@pytest.mark.parametrize("method", ["laplace", "natural-gradient", "ep"])
def test_two_warnings_of_two_modes_have_one_remedy(method: str) -> None:
    """W609 proposed ep, which reports one of the modes as well, next to W602."""
    model = lgm.loads(
        "lgm 1\nindex obs\ndata y[obs] : real\nlatent b ~ normal(sd = 10)\n"
        "observe y ~ student_t(mean = b, scale = 0.5, df = 2)\n"
    )
    data = {"y": [-6.0, -6.2, -5.9, 6.0, 6.1, 6.3]}
    fit = lgm.fit(model, data, method)
    helps = {w.code: w.help for w in fit.warnings}
    assert set(helps) == {"W602", "W609"}
    assert helps["W609"] == 'take exact draws of all modes: options={"correction": "on"}'
    better = lgm.fit(model, data, method, options={"correction": "on"})
    assert "W609" not in {w.code for w in better.warnings}
    assert 5.5 < float(better.sd("b")) < 6.5  # two modes at -6 and 6 of equal mass
