"""Rows whose residuals are a latent: against the multivariate normal density, by dense algebra."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.errors import DataError, MethodError, ModelError

HEAD = """lgm 1
index obs
index g = {"a", "b", "c", "d", "e"}
index t = 1..4
data who[obs] : g
data when[obs] : t
data x[obs] : real
data y[obs] : real?
"""
MEAN = "latent a ~ normal(sd = 2)\nlatent b ~ normal(sd = 3)\n"
OBSERVE = "observe y ~ normal(mean = a + b * x, residual = e[who, when])\n"
SDS = np.array([0.5, 0.9, 1.4, 0.7])
WIDE = np.array([[1.0, 0.5, 0.1, 0.2], [0.5, 2.0, 0.6, 0.3], [0.1, 0.6, 1.5, 0.4],
                 [0.2, 0.3, 0.4, 0.9]])  # fmt: skip
PLACE = np.array([0.0, 3.0, 1.0, 7.5])
LAGS = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
GAPS = np.abs(np.subtract.outer(PLACE, PLACE))
MATERN = (1.0 + np.sqrt(3.0) * GAPS / 2.0) * np.exp(-np.sqrt(3.0) * GAPS / 2.0)
GIVEN = {"w": SDS, "S": WIDE, "place": PLACE}


class Case(NamedTuple):
    """A structure over times, what its arguments are declared as, and its covariance."""

    structure: str
    covariance: Array
    declared: str = ""


CASES = {
    "ar1": Case("ar1(sd = 0.8, rho = 0.55)", 0.64 * 0.55**LAGS),
    "negative": Case("ar1(sd = 0.8, rho = -0.6)", 0.64 * (-0.6) ** LAGS),
    "hetar1": Case(
        "ar1(sd = w, rho = 0.55)", np.outer(SDS, SDS) * 0.55**LAGS, "data w[t] : positive\n"
    ),
    "ou": Case(
        "ou(sd = 0.8, rate = 0.4, at = place)", 0.64 * np.exp(-0.4 * GAPS), "data place[t] : real\n"
    ),
    "toeplitz": Case("toeplitz(sd = 0.8, pacf = 0.55)", 0.64 * 0.55**LAGS),
    "compound": Case(
        "compound(sd = w, rho = 0.3)",
        np.outer(SDS, SDS) * np.where(LAGS == 0.0, 1.0, 0.3),
        "data w[t] : positive\n",
    ),
    "dense": Case("dense(cov = S)", WIDE, "hyper S[t, t] : covariance ~ flat\n"),
    "gp": Case(
        "gp(at = place, kernel = matern(sd = 0.8, length = 2, smoothness = 1.5) + white(sd = 0.5))",
        0.64 * MATERN + 0.25 * np.eye(4),
        "data place[t] : real\n",
    ),
    "iid": Case("iid", np.eye(4)),
}


def rows(seed: int = 0, count: int = 14) -> dict[str, Any]:
    """Rows of some of the cells, in any order, two of them without y."""
    rng = np.random.default_rng(seed)
    cells = rng.permutation(20)[:count]
    y = 1.0 + 1.5 * rng.normal(size=count)
    y[:2] = np.nan
    who, when = np.array(list("abcde"))[cells // 4], 1 + cells % 4
    return {"who": who, "when": when, "x": rng.normal(size=count), "y": y}


def density(data: dict[str, Any], covariance: Array) -> float:
    """log p(y), where residuals of one group have the covariance of their times."""
    there = np.isfinite(data["y"])
    when, who, x = data["when"][there] - 1, data["who"][there], data["x"][there]
    k = covariance[np.ix_(when, when)] * (who[:, None] == who) + 4.0 + 9.0 * np.outer(x, x)
    return float(multivariate_normal(np.zeros(len(x)), k).logpdf(data["y"][there]))


def text(case: Case) -> str:
    return HEAD + MEAN + case.declared + f"latent e[g, t] ~ iid * {case.structure}\n" + OBSERVE


def given_to(case: Case) -> dict[str, Any]:
    return {k: v for k, v in GIVEN.items() if f"data {k}[" in case.declared}


def fitted(case: Case, data: dict[str, Any], **options: Any) -> lgm.Fit:
    fixed = {"S": WIDE} if "hyper S" in case.declared else None
    return lgm.fit(lgm.loads(text(case)), {**data, **given_to(case)}, fixed=fixed, **options)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_evidence_is_that_of_the_rows_together(name: str, seed: int) -> None:
    data = rows(seed)
    fit = fitted(CASES[name], data)
    assert fit.converged and not fit.warnings
    assert fit.log_evidence == pytest.approx(density(data, CASES[name].covariance), abs=1e-9)


@pytest.mark.parametrize("unit", [1e-20, 1e20])
@pytest.mark.parametrize("name", ["ar1", "compound"])
def test_a_change_of_unit_moves_the_evidence_by_its_log(name: str, unit: float) -> None:
    data, there = rows(), 12
    scaled = text(CASES[name]).replace("sd = 2", f"sd = {2 * unit!r}")
    scaled = scaled.replace("sd = 3", f"sd = {3 * unit!r}").replace(
        "sd = 0.8", f"sd = {0.8 * unit!r}"
    )
    given = {**data, "y": data["y"] * unit}
    if name == "compound":
        given["w"] = SDS * unit
    fit = lgm.fit(lgm.loads(scaled), given)
    wanted = density(data, CASES[name].covariance) - there * np.log(unit)
    assert fit.log_evidence == pytest.approx(wanted, abs=1e-8)


def test_positions_with_a_hyperparameter_in_them() -> None:
    """Their order is not known beforehand, so that no row is taken for the one before another."""
    data = {**rows(), "place": PLACE}
    moving = text(CASES["ou"]).replace("at = place", "at = 3 - h * place")
    moving = moving.replace(
        "latent e", "hyper h : positive ~ lognormal(mean = 0, sd = 1)\nlatent e"
    )
    fit = lgm.fit(lgm.loads(moving), data, fixed={"h": 1.0})
    assert fit.log_evidence == pytest.approx(density(data, CASES["ou"].covariance), abs=1e-9)
    with pytest.raises(MethodError, match="hyperparameters"):
        lgm.fit(lgm.loads(moving), data, hyper="map")


@pytest.mark.parametrize("method", ["laplace", "ep", "natural-gradient"])
def test_every_method_is_exact(method: str) -> None:
    data = rows()
    fit = fitted(CASES["ar1"], data, method=method)
    assert fit.log_evidence == pytest.approx(density(data, CASES["ar1"].covariance), abs=1e-7)


def test_one_series_and_the_index_of_the_data_itself() -> None:
    """A residual over the rows, of which some have no y, next to a latent without residual."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=30)
    y[[4, 5, 29]] = np.nan
    model = lgm.loads(
        "lgm 1\nindex t = 30\ndata y[t] : real?\nlatent a ~ normal(sd = 2)\n"
        "latent e[t] ~ ar1(sd = 0.9, rho = 0.7)\nobserve y ~ normal(mean = a, residual = e)\n"
    )
    there = np.flatnonzero(np.isfinite(y))
    k = 0.81 * 0.7 ** np.abs(np.subtract.outer(there, there)) + 4.0
    wanted = multivariate_normal(np.zeros(len(there)), k).logpdf(y[there])
    assert lgm.fit(model, {"y": y}).log_evidence == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("structure", ["ar1(sd = 0.9, rho = 0.7)", "ou(sd = 0.9, rate = 0.4)"])
def test_a_long_series_has_every_row(structure: str) -> None:
    """Longer than a buffer of numpy's, against whitened rows."""
    n, rng = 20_000, np.random.default_rng(7)
    y, rho = rng.normal(size=n), 0.7 if "ar1" in structure else np.exp(-0.4)
    model = lgm.loads(
        f"lgm 1\nindex t = {n}\ndata y[t] : real\nlatent a ~ normal(sd = 2)\n"
        f"latent e[t] ~ {structure}\nobserve y ~ normal(mean = a, residual = e)\n"
    )
    steps = 0.9 * np.sqrt(1.0 - rho * rho)

    def white(x: Array) -> Array:
        return np.concatenate([x[:1] / 0.9, (x[1:] - rho * x[:-1]) / steps])

    one, about = white(np.ones(n)), white(y)
    precision = one @ one + 0.25
    wanted = 0.5 * (one @ about) ** 2 / precision - 0.5 * about @ about
    wanted -= 0.5 * np.log(4.0 * precision) + np.log(0.9) + (n - 1) * np.log(steps)
    wanted -= 0.5 * n * np.log(2.0 * np.pi)
    assert lgm.fit(model, {"y": y}).log_evidence == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize("second", ["dense(cov = S)", "compound(sd = 1.2, rho = 0.4)", "iid"])
def test_two_correlated_factors(second: str) -> None:
    """Times by traits: the covariance of a group is a Kronecker product."""
    rng = np.random.default_rng(4)
    y = rng.normal(size=(3, 2, 4))
    y[0, 1, 2] = y[2, 0, 3] = np.nan
    cov = np.array([[1.3, 0.4], [0.4, 0.8]])
    model = lgm.loads(
        "lgm 1\nindex g = 3\nindex trait = 2\nindex t = 4\ndata y[g, trait, t] : real?\n"
        "hyper S[trait, trait] : covariance ~ flat\nlatent a[trait] ~ normal(sd = 2)\n"
        f"latent e[g, trait, t] ~ iid * {second} * ar1(rho = 0.5)\n"
        "observe y ~ normal(mean = a, residual = e)\n"
    )
    left = {
        "dense(cov = S)": cov,
        "compound(sd = 1.2, rho = 0.4)": 1.44 * np.array([[1.0, 0.4], [0.4, 1.0]]),
        "iid": np.eye(2),
    }[second]
    k = np.kron(np.eye(3), np.kron(left, 0.5**LAGS))
    level = np.kron(np.ones((3, 3)), np.kron(4.0 * np.eye(2), np.ones((4, 4))))
    there = np.flatnonzero(np.isfinite(y.reshape(-1)))
    whole = (k + level)[np.ix_(there, there)]
    wanted = multivariate_normal(np.zeros(len(there)), whole).logpdf(y.reshape(-1)[there])
    fit = lgm.fit(model, {"y": y}, fixed={"S": cov})
    assert fit.log_evidence == pytest.approx(wanted, abs=1e-9)


def test_a_scale_of_each_row_multiplies_its_residual() -> None:
    """As nlme's variance functions next to a correlation."""
    data = rows(6, 16)
    fits = [
        lgm.fit(
            lgm.loads(text(CASES["compound"]).replace("residual = e", f"residual = {scale} * e")),
            {**data, "w": SDS},
        )
        for scale in ("(2 + x^2)^0.7", "-(2 + x^2)^0.7")
    ]
    by_let = text(CASES["compound"]).replace("residual = e", "residual = c * e")
    by_let = by_let.replace("observe", "let c[obs] = (2 + x^2)^0.7\nobserve")
    fits.append(lgm.fit(lgm.loads(by_let), {**data, "w": SDS}))
    there = np.isfinite(data["y"])
    when, who, x = data["when"][there] - 1, data["who"][there], data["x"][there]
    scale = (2.0 + x * x) ** 0.7
    k = CASES["compound"].covariance[np.ix_(when, when)] * (who[:, None] == who)
    k = np.outer(scale, scale) * k + 4.0 + 9.0 * np.outer(x, x)
    wanted = multivariate_normal(np.zeros(len(x)), k).logpdf(data["y"][there])
    for fit in fits:
        assert fit.log_evidence == pytest.approx(wanted, abs=1e-9)


def test_independent_residuals_are_noise() -> None:
    rng = np.random.default_rng(5)
    data = {"y": rng.normal(size=9), "w": rng.uniform(0.5, 2.0, 9)}
    head = "lgm 1\nindex i = 9\ndata y[i] : real\ndata w[i] : positive\nlatent a ~ normal(sd = 2)\n"
    as_noise = head + "observe y ~ normal(mean = a, sd = w)\n"
    as_latent = head + (
        "latent e[i] ~ normal(sd = w)\nobserve y ~ normal(mean = a, residual = e)\n"
    )
    one, two = (lgm.fit(lgm.loads(t), data) for t in (as_noise, as_latent))
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-11)
    assert two.loo().elpd == pytest.approx(one.loo().elpd, abs=1e-9)


@given(st.integers(0, 10_000), st.floats(0.05, 0.95))
def test_a_row_given_those_before_it_has_the_digits_of_dense_algebra(seed: int, rho: float) -> None:
    data = rows(seed, 9)
    case = Case(f"ar1(sd = 0.8, rho = {rho!r})", 0.64 * rho**LAGS)
    assert fitted(case, data).log_evidence == pytest.approx(
        density(data, case.covariance), abs=1e-8
    )


LEARNED = """hyper s : positive ~ pc_sd(u = 2, alpha = 0.05)
hyper r : correlation ~ pc_cor0(u = 0.5, alpha = 0.5)
latent e[g, t] ~ iid * ar1(sd = s, rho = r)
"""


def test_a_fit_reads_back_and_predicts_rows_by_themselves(tmp_path: Path) -> None:
    data = rows(2, 18)
    fit = lgm.fit(lgm.loads(HEAD + MEAN + LEARNED + OBSERVE), data)
    fit.save(tmp_path / "f.nc")
    back = lgm.load_fit(tmp_path / "f.nc")
    new: dict[str, Any] = {"who": ["a", "e"], "when": [1, 4], "x": [0.3, -1.0]}
    here, there = fit.predict(new).frame(), back.predict(new).frame()
    np.testing.assert_allclose(here["y_mean"], there["y_mean"], rtol=1e-9)
    np.testing.assert_allclose(here["y_sd"], there["y_sd"], rtol=1e-9)
    alone = fit.predict({k: v[:1] for k, v in new.items()}).frame()
    np.testing.assert_allclose(alone["y_sd"][0], here["y_sd"][0], rtol=1e-9)
    frame = fit.augment()
    assert "y_loo" not in frame and np.isfinite(frame["y_residual"][2:]).all()


def test_groups_are_left_out_whole() -> None:
    data = rows(2, 18)
    case = CASES["ar1"]
    fit = fitted(case, data)
    for what in (fit.loo, fit.waic, fit.pit, lambda: fit.loo(groups="t")):
        with pytest.raises(MethodError) as caught:
            what()
        assert caught.value.codes == ("E501",) and "groups" in str(caught.value)
    by_group = fit.loo(groups="g")
    rest = {k: v[data["who"] != "c"] for k, v in data.items()}
    wanted = density(data, case.covariance) - density(rest, case.covariance)
    assert float(by_group.pointwise().sel(g="c")) == pytest.approx(wanted, abs=1e-6)


def test_responses_are_drawn_together() -> None:
    """Simulated, replicated and predicted rows have the correlation of their residuals."""
    model = lgm.loads(
        "lgm 1\nindex g\nindex t = 3\ndata y[g, t] : real\nlatent a ~ normal(sd = 0.1)\n"
        "latent e[g, t] ~ iid * ar1(sd = 1, rho = 0.8)\n"
        "observe y ~ normal(mean = a, residual = 2 * e)\n"
    )
    wanted = 4.0 * 0.8 ** np.abs(np.subtract.outer(range(3), range(3)))
    drawn = lgm.simulate(model, sizes={"g": 20_000}, seed=1)["y"]
    np.testing.assert_allclose(np.cov(drawn.T), wanted, atol=0.12)
    fit = lgm.fit(model, {"y": drawn[:40]})
    again = np.asarray(fit.sample_predictive(400, seed=2)["y"]).reshape(-1, 3)
    np.testing.assert_allclose(np.cov(again.T), wanted, atol=0.25)
    new = np.asarray(fit.predict({"g": np.arange(40)}).sample_response("y", 400)).reshape(-1, 3)
    np.testing.assert_allclose(np.cov(new.T), wanted, atol=0.25)


@pytest.mark.parametrize(
    ("old", "new", "kind", "code"),
    [
        ("e[who, when]", "a", ModelError, "E108"),
        ("e[who, when]", "e[who, when] + 1", MethodError, "E501"),
        ("e[who, when]", "a * e[who, when]", ModelError, "E203"),
        ("e[who, when]", "0 * e[who, when]", DataError, "E303"),
        ("a + b * x", "a + b * x + e[who, when]", ModelError, "E108"),
        ("e[who, when])", "e[who, when], weight = 2)", ModelError, "E104"),
        ("residual =", "sd = 1, residual =", ModelError, "E104"),
        ("ar1(sd = 0.8, rho = 0.55)", "rw1(sd = 0.8)", MethodError, "E501"),
        ("iid * ar1(sd = 0.8, rho = 0.55)", "normal(mean = 2, sd = 1)", MethodError, "E501"),
        ("e[who, when]", 'e["a", when]', DataError, "E303"),
    ],
)
def test_refusals(old: str, new: str, kind: type[Exception], code: str) -> None:
    wrong = text(CASES["ar1"]).replace(old, new)
    with pytest.raises(kind) as caught:
        lgm.fit(lgm.loads(wrong), rows())
    assert caught.value.codes[0] == code  # type: ignore[attr-defined]
    assert caught.value.diagnostics[0].help  # type: ignore[attr-defined]


def test_one_report_of_a_residual_is_refused() -> None:
    with pytest.raises(ModelError, match="another use"):
        lgm.loads(text(CASES["ar1"]) + "report z[g, t] = e\n")
