"""What must not change a posterior: order of rows and labels, units, how sites are split, and
whether the model came from text or from Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.api.fit import Fit
from lgmdsl.arrays import AnyArray

GLMM = """lgm 1
index obs
index subject
index feat
data X[obs, feat] : real
data who[obs] : subject
data time[obs] : positive
data y[obs] : count
latent b0 ~ normal(mean = 0.3, sd = 3)
latent b[feat] ~ normal(sd = {sd})
latent u[subject] ~ normal(sd = 0.7)
let eta[obs] = b0 + X @ b + u[who]
observe y ~ {family}
report rate[obs] = exp(eta)
"""
FAMILIES = {
    "poisson": "poisson(log_rate = eta, exposure = time)",
    "negbinomial": "negbinomial(log_mean = eta, size = 2)",
    "binomial": "binomial(n = 40, logit = eta)",
    "probit": "binomial(n = 40, probit = eta)",
}


def made(seed: int, rows: int = 24) -> dict[str, AnyArray]:
    rng = np.random.default_rng(seed)
    return {
        "X": rng.normal(size=(rows, 2)),
        "who": np.array(list("abcd"))[rng.integers(0, 4, rows)],
        "time": rng.random(rows) + 0.5,
        "y": rng.poisson(2.0, rows),
    }


def fitted(data: dict[str, AnyArray], family: str = "poisson", sd: float = 2.0) -> Fit:
    text = GLMM.format(family=FAMILIES[family], sd=sd)
    fit = lgm.fit(lgm.loads(text), data, method="laplace", tol=1e-10)
    assert fit.converged
    return fit


seeds = st.integers(0, 2**20)
families = st.sampled_from(sorted(FAMILIES))


@given(seeds, families)
def test_the_order_of_rows_is_irrelevant(seed: int, family: str) -> None:
    data = made(seed)
    order = np.random.default_rng(seed + 1).permutation(len(data["y"]))
    one, two = fitted(data, family), fitted({k: v[order] for k, v in data.items()}, family)
    assert two.log_evidence == pytest.approx(one.log_evidence, rel=1e-9)
    for name in ("b", "u"):
        np.testing.assert_allclose(two.mean(name), one.mean(name), atol=1e-7)
        np.testing.assert_allclose(two.sd(name), one.sd(name), atol=1e-7)
    np.testing.assert_allclose(two.mean("eta"), one.mean("eta").values[order], atol=1e-7)


@given(seeds)
def test_labels_are_matched_by_name_not_by_position(seed: int) -> None:
    data = made(seed)
    shuffled = {**data, "subject": np.array(list("dbca"))}
    one, two = fitted(data), fitted(shuffled)
    assert two.log_evidence == pytest.approx(one.log_evidence, rel=1e-9)
    present = sorted(set(data["who"]))
    np.testing.assert_allclose(
        two.mean("u").sel(subject=present), one.mean("u").sel(subject=present), atol=1e-7
    )


@given(seeds, families, st.floats(0.1, 10.0))
def test_the_unit_of_a_covariate_scales_its_coefficient(
    seed: int, family: str, unit: float
) -> None:
    data = made(seed)
    one = fitted(data, family)
    two = fitted({**data, "X": data["X"] * unit}, family, sd=2.0 / unit)
    assert two.log_evidence == pytest.approx(one.log_evidence, rel=1e-8)
    np.testing.assert_allclose(two.mean("b") * unit, one.mean("b"), atol=1e-6)
    np.testing.assert_allclose(two.mean("eta"), one.mean("eta"), atol=1e-6)


@given(seeds)
def test_a_binomial_is_the_sum_of_its_trials(seed: int) -> None:
    """k successes of n at one predictor, or n Bernoulli sites there: one posterior; the
    evidences differ by the binomial coefficient."""
    rng = np.random.default_rng(seed)
    X, n = rng.normal(size=(6, 2)), rng.integers(1, 5, 6)
    y = rng.binomial(n, 0.4)
    head = "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\n"
    tail = "latent b[feat] ~ normal(sd = 2)\nlet eta[obs] = X @ b\n"
    whole = lgm.fit(
        lgm.loads(
            f"{head}data n[obs] : count\ndata y[obs] : count\n{tail}"
            "observe y ~ binomial(n = n, logit = eta)\n"
        ),
        {"X": X, "n": n, "y": y},
        method="laplace",
        tol=1e-10,
    )
    each = np.concatenate([np.r_[np.ones(k), np.zeros(m - k)] for k, m in zip(y, n, strict=False)])
    split = lgm.fit(
        lgm.loads(f"{head}data y[obs] : binary\n{tail}observe y ~ bernoulli(logit = eta)\n"),
        {"X": np.repeat(X, n, axis=0), "y": each},
        method="laplace",
        tol=1e-10,
    )
    from scipy.special import gammaln

    ways = (gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)).sum()
    assert whole.log_evidence == pytest.approx(split.log_evidence + ways, rel=1e-8)
    np.testing.assert_allclose(whole.mean("b"), split.mean("b"), atol=1e-7)
    np.testing.assert_allclose(whole.sd("b"), split.sd("b"), atol=1e-7)


@given(seeds)
def test_a_poisson_count_splits_over_its_exposure(seed: int) -> None:
    """Poisson(t e^s) twice at one predictor is Poisson(2 t e^s) of the sum, up to a constant."""
    data = made(seed)
    twice = {k: np.concatenate([v, v]) for k, v in data.items()}
    once = {**data, "y": 2 * data["y"], "time": 2 * data["time"]}
    one, two = fitted(once), fitted(twice)
    np.testing.assert_allclose(one.mean("b"), two.mean("b"), atol=1e-7)
    np.testing.assert_allclose(one.sd("u"), two.sd("u"), atol=1e-7)


@given(seeds)
def test_missing_responses_drop_out(seed: int) -> None:
    data = made(seed)
    text = GLMM.format(family=FAMILIES["poisson"], sd=2.0).replace("count", "count?")
    holed = data["y"].astype(float)
    gone = np.arange(len(holed)) % 3 == 0
    holed[gone] = np.nan
    subjects = np.array(list("abcd"))
    full = {**data, "y": holed, "subject": subjects}
    with_holes = lgm.fit(lgm.loads(text), full, method="laplace", tol=1e-10)
    shorter = {k: v[~gone] for k, v in data.items()}
    without = fitted({**shorter, "subject": subjects})
    assert with_holes.log_evidence == pytest.approx(without.log_evidence, rel=1e-9)
    np.testing.assert_allclose(with_holes.mean("u"), without.mean("u"), atol=1e-7)
    assert with_holes.mean("eta").shape == (24,)


def test_the_builder_and_the_text_give_the_same_fit() -> None:
    data = made(1)
    m = lgm.Model()
    obs, subject, feat = m.index("obs"), m.index("subject"), m.index("feat")
    X = m.data("X", [obs, feat], "real")
    who = m.data("who", [obs], subject)
    time = m.data("time", [obs], "positive")
    y = m.data("y", [obs], "count")
    b0 = m.latent("b0", [], lgm.normal(mean=0.3, sd=3))
    b = m.latent("b", [feat], lgm.normal(sd=2.0))
    u = m.latent("u", [subject], lgm.normal(sd=0.7))
    eta = m.let("eta", [obs], b0 + X @ b + u[who])
    m.observe(y, lgm.poisson(log_rate=eta, exposure=time))
    m.report("rate", [obs], lgm.exp(eta))
    assert m == lgm.loads(GLMM.format(family=FAMILIES["poisson"], sd=2.0))
    built = lgm.fit(m, data, method="laplace", tol=1e-10)
    assert built.log_evidence == fitted(data).log_evidence


@given(seeds, st.booleans())
def test_gaussian_models_equal_the_closed_form(seed: int, wide: bool) -> None:
    """y = X b + e: the exact posterior and evidence, through both dense engines."""
    rng = np.random.default_rng(seed)
    rows, columns = (5, 9) if wide else (30, 3)
    X, y = rng.normal(size=(rows, columns)), rng.normal(size=rows)
    text = (
        "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : real\n"
        "latent b[feat] ~ normal(mean = 0.5, sd = 1.5)\nlet eta[obs] = X @ b + 2\n"
        "observe y ~ normal(mean = eta, sd = 0.7)\n"
    )
    fit = lgm.fit(lgm.loads(text), {"X": X, "y": y})
    cov = 2.25 * X @ X.T + 0.49 * np.eye(rows)
    resid = y - 2 - X @ np.full(columns, 0.5)
    _sign, logdet = np.linalg.slogdet(2 * np.pi * cov)
    assert fit.log_evidence == pytest.approx(
        -0.5 * logdet - 0.5 * resid @ np.linalg.solve(cov, resid), rel=1e-8
    )
    precision = np.eye(columns) / 2.25 + X.T @ X / 0.49
    mean = np.linalg.solve(precision, 0.5 / 2.25 + X.T @ (y - 2) / 0.49)
    np.testing.assert_allclose(fit.mean("b"), mean, atol=1e-8)
    np.testing.assert_allclose(fit.sd("b"), np.sqrt(np.diag(np.linalg.inv(precision))), atol=1e-8)
    assert str(fit.guarantee) == "exact"
