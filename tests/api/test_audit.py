"""fit.audit and compare(audit=True): labels, files, advice, the lupus data's exact posterior."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import lgmdsl as lgm
from lgmdsl.accuracy import tails as pareto
from lgmdsl.api.fit.fit import Fit
from lgmdsl.assess.importance.verdict import Outcome
from lgmdsl.contract.questions import Tilted
from lgmdsl.inference import registry
from lgmdsl_backends.laplace import Laplace
from tests.backends.test_known_fits import CASES

TEXT = """lgm 1
index obs
index subject
data x[obs] : real
data who[obs] : subject
data y[obs] : {type}
hyper s : positive = 1
latent b0 ~ normal(sd = {sd})
latent b ~ normal(sd = {sd})
latent u[subject] ~ normal(sd = s)
let eta[obs] = b0 + b * x + u[who]
observe y ~ {family}
report line[obs] = b0 + b * x
report p[obs] = invlogit(eta)
report ratio[subject] = u^2 / (1 + exp(b0))
"""
LOGIT = TEXT.format(type="binary?", family="bernoulli(logit = eta)", sd=3)
NORMAL = TEXT.format(type="real", family="normal(mean = eta, sd = 0.5)", sd=2)


def data(rows: int = 40, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    y = (rng.random(rows) < 1 / (1 + np.exp(-0.5 - 2 * x))).astype(float)
    return {"x": x, "who": np.array(list("abcd"))[np.arange(rows) % 4], "y": y}


def fitted(text: str = LOGIT, given: dict[str, Any] | None = None, **settings: Any) -> Fit:
    return lgm.fit(lgm.loads(text), given or data(), **settings)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fitted(method="laplace")


@pytest.mark.thorough
def test_results_are_labelled_like_the_fit_s(fit: Fit) -> None:
    audit = fit.audit(n=500)
    for name in ("b0", "b", "u", "eta", "line", "p", "ratio", "s"):
        for of in (audit.mean, audit.sd, audit.shift, audit.error):
            assert of(name).dims == fit.mean(name).dims and of(name).name == name
            xr.testing.assert_equal(
                of(name).coords.to_dataset(), fit.mean(name).coords.to_dataset()
            )
        shift = (audit.mean(name) - fit.mean(name)) / audit.sd(name).where(audit.sd(name) > 0, 1.0)
        np.testing.assert_allclose(audit.shift(name), shift, atol=1e-12)
    assert float(audit.mean("s")) == 1.0 and float(audit.sd("s")) == 0.0
    with pytest.raises(lgm.ModelError, match="did you mean `eta`"):
        audit.mean("etaa")


def test_what_is_affine_is_corrected_alike(fit: Fit) -> None:
    audit, d = fit.audit(n=500), data()
    u = audit.mean("u").sel(subject=d["who"]).values
    whole = float(audit.mean("b0")) + float(audit.mean("b")) * d["x"] + u
    # Each mean has a regression coefficient of its own: equal up to a share of their errors.
    error = audit.error("eta") * audit.sd("eta")
    assert np.all(np.abs(audit.mean("eta").values - whole) < 0.7 * error.values)
    assert np.all((audit.mean("p") > 0) & (audit.mean("p") < 1))


def test_the_same_seed_gives_the_same_digits(fit: Fit) -> None:
    one, two, three = fit.audit(n=300, seed=1), fit.audit(n=300, seed=1), fit.audit(n=300, seed=2)
    assert (one.k_hat, one.log_evidence) == (two.k_hat, two.log_evidence)
    np.testing.assert_array_equal(one.mean("u"), two.mean("u"))
    assert one.log_evidence != three.log_evidence


@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
def test_nothing_moves_where_the_fit_is_exact(method: str) -> None:
    fit = fitted(NORMAL, method=method)
    audit = fit.audit()
    assert audit.k_hat == -np.inf and audit.outcome is Outcome.trust and "exact" in audit.verdict
    assert audit.log_evidence == pytest.approx(fit.log_evidence, abs=1e-8)
    assert audit.log_evidence_se < 1e-8
    for name in ("b0", "u", "eta", "line", "p", "ratio"):
        np.testing.assert_allclose(audit.mean(name), fit.mean(name), atol=1e-9)
        np.testing.assert_allclose(audit.sd(name), fit.sd(name), atol=1e-6)


U = "u[subject] ~ normal(sd = s)"
PRIORS = {
    "flat": {"b0 ~ normal(sd = 3)": "b0 ~ flat"},
    "constrained": {U: f"{U}\nconstrain sum(u, subject) = 0"},
    "singular": {
        U: "u[subject] ~ dense(cov = C)",
        "hyper s": "data C[subject, subject] : real\nhyper s",
    },
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", PRIORS)
def test_priors_of_any_kind(kind: str) -> None:
    """Two fits of one model are corrected to one posterior."""
    text, given = LOGIT, data(60)
    for old, new in PRIORS[kind].items():
        text = text.replace(old, new)
    if kind == "singular":
        given["C"] = np.outer([1.0, 2.0, -1.0, 0.5], [1.0, 2.0, -1.0, 0.5])
    audits = [
        fitted(text, given, method=m).audit(n=20_000, seed=k)
        for k, m in enumerate(("laplace", "natural-gradient"))
    ]
    one, two = audits
    error = np.hypot(one.log_evidence_se, two.log_evidence_se)
    assert abs(one.log_evidence - two.log_evidence) < 5 * error + 1e-9
    for name in ("b0", "b", "u", "eta"):
        miss = np.abs(one.mean(name) - two.mean(name)) / one.sd(name).clip(1e-9)
        assert (
            float(miss.max()) < 5 * float(np.hypot(one.error(name), two.error(name)).max()) + 1e-6
        )
    if kind == "constrained":
        assert float(one.mean("u").sum()) == pytest.approx(0.0, abs=0.05)


@pytest.mark.thorough
def test_signed_weights() -> None:
    """A robust regression whose outliers get negative weights under the variational Gaussian."""
    text = TEXT.format(type="real", family="student_t(mean = eta, scale = 0.3, df = 3)", sd=2)
    given = data(24)
    given["y"] = 2.0 * given["x"] + 5.0 * (np.arange(24) % 6 == 0)
    fit = fitted(text, given, method="natural-gradient")
    assert min(float(w.min()) for w in fit.weight) < 0
    audit = fit.audit(n=20_000)
    other = fitted(text, given, method="laplace").audit(n=20_000, seed=1)
    error = np.hypot(audit.log_evidence_se, other.log_evidence_se)
    assert abs(audit.log_evidence - other.log_evidence) < 5 * error


def test_missing_rows_count_for_nothing() -> None:
    given, d = data(30), data(30)
    d["y"][20:] = np.nan
    short = {k: v[:20] for k, v in given.items()}
    one, two = fitted(LOGIT, d, method="laplace"), fitted(LOGIT, short, method="laplace")
    a, b = one.audit(seed=3), two.audit(seed=3)
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=5 * (a.log_evidence_se + 1e-9))
    assert a.mean("eta").shape == (30,)


def test_files_keep_the_audit(fit: Fit, tmp_path: Path) -> None:
    audit = fit.audit(n=400, seed=5)
    replace(fit, audited=audit).save(tmp_path / "f.nc")
    back = lgm.load_fit(tmp_path / "f.nc")
    assert back.audited is not None and str(back.audited) == str(audit)
    for name in ("b0", "u", "eta", "p", "s"):
        xr.testing.assert_identical(back.audited.mean(name), audit.mean(name))
        xr.testing.assert_identical(back.audited.error(name), audit.error(name))
    np.testing.assert_equal(back.audited.as_json(), audit.as_json())
    assert str(audit) in back.summary() and str(audit) not in fit.summary()
    fit.save(tmp_path / "g.nc")
    assert lgm.load_fit(tmp_path / "g.nc").audited is None


def test_a_loaded_fit_needs_its_data(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "f.nc")
    back = lgm.load_fit(tmp_path / "f.nc")
    with pytest.raises(lgm.DataError, match="an audit needs `y`") as caught:
        back.audit()
    assert caught.value.codes == ("E305",) and "fit.audit(data=...)" in str(caught.value)
    again = back.audit(
        n=300, data={("z" if k == "x" else k): v for k, v in data().items()}, mapping={"x": "z"}
    )
    want = fit.audit(n=300)
    assert again.log_evidence == pytest.approx(want.log_evidence, abs=1e-9)
    np.testing.assert_allclose(again.mean("u"), want.mean("u"), atol=1e-9)
    wrong = data()
    wrong["y"] = 1.0 - wrong["y"]
    with pytest.raises(lgm.DataError, match="not those of the fit: `y`"):
        back.audit(data=wrong)


def test_a_loaded_fit_that_holds_its_responses_needs_nothing(tmp_path: Path) -> None:
    text = TEXT.format(type="real", family="student_t(mean = eta, scale = 0.5, df = 5)", sd=2)
    fit = fitted(text, method="laplace")
    fit.save(tmp_path / "f.nc")
    one, two = fit.audit(n=300), lgm.load_fit(tmp_path / "f.nc").audit(n=300)
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-9)


@pytest.mark.parametrize("wrong", [{"n": 99}, {"n": 1e4}, {"n": True}, {"seed": -1}])
def test_numbers_that_are_none(fit: Fit, wrong: dict[str, Any]) -> None:
    with pytest.raises(lgm.MethodError, match="whole number") as caught:
        fit.audit(**wrong)
    assert caught.value.codes == ("E108",)


def test_without_arviz(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pareto, "find_spec", lambda name: None)
    for asked in (fit.audit, lambda: lgm.compare(lgm.loads(LOGIT), data(), audit=True)):
        with pytest.raises(lgm.MethodError, match=r"lgmdsl\[arviz\]"):
            asked()


# ---- the lupus data, whose Laplace fit is off by 0.6 sd ------------------------------------------

SEEDS = 4  # of an audit
LUPUS, lupus_data, _ = CASES["lupus_probit_sd5"]


@pytest.fixture(scope="module")
def lupus(shared: Path) -> dict[str, Any]:
    return lupus_data(shared / "data")


@pytest.fixture(scope="module")
def exact(shared: Path) -> dict[str, Any]:
    kept = (shared / "reference" / "lupus_probit_exact.json").read_text()
    found: dict[str, Any] = json.loads(kept)["normal_var_25"]
    return found


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
def test_corrections_reach_the_exact_posterior(
    method: str, lupus: dict[str, Any], exact: dict[str, Any]
) -> None:
    fit, shifted = fitted(LUPUS, lupus, method=method), 0
    for seed in range(SEEDS):
        audit = fit.audit(n=20_000, seed=seed)
        miss = np.abs(audit.mean("w").values - exact["mean"]) / exact["sd"]
        assert miss.max() < 0.05
        assert abs(audit.log_evidence - exact["log_marginal_likelihood"]) < 0.03
        np.testing.assert_allclose(audit.sd("w"), exact["sd"], rtol=0.07)
        low, high = audit.quantile("w").values
        exact_low, _, exact_high = np.array(exact["q5_50_95"]).T
        apart = np.abs([low - exact_low, high - exact_high]) / exact["sd"]
        assert apart.max() < 0.15
        shifted += audit.outcome is Outcome.shifted
    assert shifted == SEEDS  # Laplace's means are off by 0.66 sd, the variational sds by 25 %


def test_a_corrected_probability_stays_one(lupus: dict[str, Any]) -> None:
    """What is corrected lies within what was drawn: the regression alone would leave it."""
    text = LUPUS + "report p[obs] = normal_cdf(eta)\n"
    p = fitted(text, lupus, method="laplace").audit().mean("p")
    assert 0.0 < float(p.min()) < 1e-3 and float(p.max()) < 1.0


class Moments(Laplace):
    """Stands for a back end that matches moments: it is the most accurate there is."""

    spec = replace(Laplace.spec, name="test-moments", needs=Tilted)


@pytest.mark.thorough
def test_the_next_method_is_a_more_accurate_one(
    lupus: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {k: v for k, v in registry.backends().items() if v.spec.needs is not Tilted}
    monkeypatch.setattr(registry, "_backends", known)
    audit = fitted(LUPUS, lupus, method="laplace").audit()
    assert audit.verdict.startswith("shifted: the corrected mean of w[1] is 0.6")
    assert audit.verdict.endswith("above the fit's; try method natural-gradient")
    monkeypatch.setitem(known, "test-moments", Moments)
    assert "try method test-moments" in fitted(LUPUS, lupus, method="laplace").audit().verdict
    monkeypatch.setattr(registry, "_backends", {"laplace": Laplace})
    alone = fitted(LUPUS, lupus, method="laplace").audit().verdict
    assert "no method here is more accurate: use the corrected values" in alone


def test_a_bound_is_left_out_first() -> None:
    given = {**data(8), "y": np.ones(8)}
    text = LOGIT.replace("sd = 3", "sd = 10")
    audit = fitted(text, given, method="natural-gradient", bound="bohning").audit()
    assert audit.outcome is not Outcome.trust and "leave out the bound bohning" in audit.verdict


@pytest.mark.thorough
def test_more_draws_are_advised_where_they_would_tell() -> None:
    fit = fitted(method="ep")
    found = [fit.audit(n=500, seed=seed) for seed in range(15)]
    told = [a.verdict for a in found if "draws would" in a.verdict]
    assert len(told) > 2 and all("too few to detect a" in v for v in told)
    wanted = [int(v.split("; ")[1].split()[0].replace(",", "")) for v in told]
    assert max(wanted) > 1000
    undecided = sum(fit.audit(n=n).outcome is Outcome.undecided for n in wanted)
    assert undecided <= len(wanted) / 2


def test_predictors_without_a_name_are_judged_and_told() -> None:
    """Prior sds of 10 on a separated set: y's predictors move, the named latents too."""
    text = (
        "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : binary?\n"
        "latent b ~ normal(sd = 0.5)\nlatent c ~ normal(sd = 0.5)\n"
        "observe y ~ bernoulli(logit = 20 * x * (b + c))\n"
    )
    given = {"obs": ["p", "q", "r"], "x": [1.0, 2.0, -1.0], "y": [1.0, np.nan, 0.0]}
    audit = fitted(text, given, method="laplace").audit()
    assert "the predictor of y[p]" in audit.verdict or "the predictor of y[r]" in audit.verdict
    swapped = {**given, "x": [1.0, 2.0, -3.0]}
    told = fitted(text, swapped, method="laplace").audit().verdict
    assert "y[q]" not in told


def test_pages_hold_in_80_columns(fit: Fit) -> None:
    page = str(fit.audit(n=400))
    assert max(map(len, page.splitlines())) <= 80 and "k-hat" in page and "verdict" in page
    exact = str(fitted(NORMAL, method="laplace").audit(n=200))
    assert "-inf (the largest weights are one value)" in exact and "shift" not in exact


# ---- compare -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_comparison_shows_every_audit() -> None:
    methods = ("laplace", "natural-gradient")
    found = lgm.compare(lgm.loads(LOGIT), data(), methods, audit=500, seed=4)
    own = fitted(method="laplace", seed=4).audit(n=500, seed=4)
    first = found["laplace"].fit
    assert first is not None and first.audited is not None
    assert first.audited.log_evidence == pytest.approx(own.log_evidence, abs=1e-9)
    lines = found.table.splitlines()
    assert max(map(len, lines)) <= 80
    start = next(k for k, line in enumerate(lines) if line.startswith("audit  "))
    assert [line.split()[0] for line in lines[start + 1 : start + 3]] == list(methods)
    assert lines[start + 1].split()[-1] == str(first.audited.outcome)
    assert "audit: 500 draws" in found.table
    rows = json.loads(json.dumps(found.as_json(), default=float))["methods"]
    assert [r["audit"]["outcome"] for r in rows] == [
        str(f.audited.outcome) for f in found.fits.values()
    ]
    plain = lgm.compare(lgm.loads(LOGIT), data(), methods)
    assert "audit" not in plain.table and "audit" not in plain.as_json()["methods"][0]  # type: ignore[index]


@pytest.mark.thorough
def test_a_symmetric_fit_that_is_far_too_wide_is_not_trusted() -> None:
    """Two contradicting observations under sites with exponential tails: between them the density
    is flat, so the largest weights are one value, the means agree, and only the sd is wrong."""
    text = (
        "lgm 1\nindex obs\ndata y[obs] : real\nlatent b ~ normal(sd = 100)\nlet s[obs] = b\n"
        "observe y ~ laplace(mean = s, scale = 0.5)\n"
    )
    good = fitted(text, {"y": [-10.0, 10.0]}, method="ep", options={"power": 0.5})
    assert good.converged and float(good.sd("b")) < 7.0
    assert "exact" not in good.audit().verdict
    nothing = tuple(np.zeros_like(b) for b in good.shift)
    prior = good.posterior.conditioned.engine.condition(nothing, nothing)  # type: ignore[attr-defined]
    wide = replace(good, weight=nothing, shift=nothing, condition=lambda: prior)
    audit = wide.audit()
    assert float(wide.sd("b")) == pytest.approx(100.0)
    assert audit.outcome is Outcome.undecided and "the exact sampler can tell" in audit.verdict
    exact = wide.audit(16_000, sampler=True)
    assert float(exact.sd("b")) == pytest.approx(6.0, rel=0.1)
    assert exact.outcome is Outcome.shifted and "of b is" in exact.verdict
