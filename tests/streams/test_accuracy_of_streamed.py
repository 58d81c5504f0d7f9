"""Estimated errors of fits whose rows are read by batches: those of rows in memory, and from a
sample of the groups nearly those of all."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.errors import in_sample
from lgmdsl.streams import model as by_places

MODEL = """lgm 1
index obs
index group
data y[obs] : {type}
data x[obs] : real
data who[obs] : group
hyper s : positive ~ half_normal(sd = 3)
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 5)
latent u[group] ~ {prior}
observe y ~ {family}
"""
FAMILIES = {
    "laplace": ("real", "laplace(mean = a + b * x + u[who], scale = 1)"),
    "binary": ("binary", "bernoulli(logit = a + b * x + u[who])"),
    "poisson": ("count", "poisson(log_rate = a + b * x + u[who])"),
}


def model(family: str, prior: str = "normal(sd = s)") -> lgm.Model:
    kind, text = FAMILIES[family]
    return lgm.loads(MODEL.format(type=kind, family=text, prior=prior))


def rows(family: str, groups: int, each: int, sd: float = 1.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    who, x = np.repeat(np.arange(groups), each), rng.normal(size=groups * each)
    eta = 0.3 + 0.5 * x + sd * rng.normal(size=groups)[who]
    if family == "laplace":
        return {"y": eta + rng.laplace(size=len(eta)), "x": x, "who": who}
    if family == "binary":
        y = (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    else:
        y = rng.poisson(np.exp(eta))
    return {"y": y, "x": x, "who": who}


def fitted(
    family: str, data: dict[str, np.ndarray], how: str, method: str, hyper: str = "map"
) -> lgm.Fit:
    fixed = {"s": 1.0} if hyper == "fixed" else None
    return lgm.fit(model(family), data, method, hyper, fixed=fixed, options={"rows": how})


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("family", "method", "groups", "hyper"),
    [
        ("laplace", "natural-gradient", 8, "fixed"),  # fourth derivatives, by tensors
        ("laplace", "double-loop", 60, "fixed"),  # and by draws
        ("poisson", "laplace", 8, "map"),
        ("binary", "laplace", 60, "integrate"),
        ("binary", "natural-gradient", 60, "map"),
    ],
)
def test_as_of_rows_in_memory(family: str, method: str, groups: int, hyper: str) -> None:
    data = rows(family, groups, 3)
    streamed, kept = (fitted(family, data, how, method, hyper) for how in ("streamed", "kept"))
    assert "none" not in kept.accuracy.basis
    for name in ("mean", "quantile", "evidence"):
        one, other = getattr(streamed.accuracy, name), getattr(kept.accuracy, name)
        if name == "evidence" and family == "laplace":
            # Of sums over rows, what single rows add is known to second order alone.
            assert 0.0 < one <= 1.02 * other
            continue
        assert one == pytest.approx(other, rel=2e-3 if groups == 8 else 0.35, abs=0.02), name
    assert [w.code for w in streamed.warnings] == [w.code for w in kept.warnings]


def test_small_groups_under_laplace_are_not_taken_for_right() -> None:
    data = rows("binary", 600, 3, 2.0)
    fit = fitted("binary", data, "streamed", "laplace")
    (warning,) = fit.warnings
    assert warning.code == "W609"
    assert "`s` may be off" in warning.message
    assert fit.theta["s"] < 1.9


@pytest.mark.thorough
def test_auto_takes_hyperparameters_of_the_corrected_evidence() -> None:
    data = rows("binary", 120, 3, 2.0)
    plain = fitted("binary", data, "streamed", "natural-gradient")
    auto, kept = (fitted("binary", data, how, "auto") for how in ("streamed", "kept"))
    assert "maximise the corrected evidence" in auto.provenance["notes"]
    assert plain.theta["s"] < auto.theta["s"]
    assert auto.theta["s"] == pytest.approx(kept.theta["s"], rel=0.1)


@pytest.mark.parametrize(("hyper", "worst"), [("map", "s"), ("integrate", "s"), ("fixed", "b")])
def test_a_sample_tells_nearly_what_all_rows_tell(
    hyper: str, worst: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_sample, "ROWS", 400)
    monkeypatch.setattr(in_sample, "GROUPS", 100)
    data = rows("binary", 1200, 4, 1.5)
    part = fitted("binary", data, "streamed", "laplace", hyper).accuracy
    monkeypatch.setattr(in_sample, "ROWS", 10**9)
    whole = fitted("binary", data, "streamed", "laplace", hyper).accuracy
    assert part.basis.endswith("in 400 of 4,800 rows")
    assert "rows" not in whole.basis
    assert whole.worst == worst and part.worst in (worst, "b")  # which are off alike
    for name in ("mean", "quantile", "evidence"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name), rel=0.3), name


APART = {
    "normal(sd = s)": True,
    "ar1(rho = 0.5, sd = s)": False,
    "rw1(sd = s)": False,
}


@pytest.mark.parametrize("prior", APART)
def test_groups_that_the_prior_joins_are_no_sample(
    prior: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_sample, "ROWS", 50)
    monkeypatch.setattr(in_sample, "GROUPS", 10)
    data = rows("poisson", 60, 4, 0.5)
    fit = lgm.fit(model("poisson", prior), data, "laplace", "map", options={"rows": "streamed"})
    assert fit.accuracy.known
    assert ("of 240 rows" in fit.accuracy.basis) is APART[prior]


def test_crossed_groups_are_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_sample, "ROWS", 50)
    monkeypatch.setattr(in_sample, "GROUPS", 10)
    text = FAMILIES["poisson"]
    crossed = MODEL.format(type=text[0], family=text[1], prior="normal(sd = s)")
    crossed = crossed.replace("index group\n", "index group\nindex item\n")
    crossed = crossed.replace(
        "observe", "data what[obs] : item\nlatent v[item] ~ normal(sd = 1)\nobserve"
    )
    crossed = crossed.replace("u[who]", "u[who] + v[what]")
    data = rows("poisson", 60, 4, 0.5)
    data["what"] = np.arange(240) % 7
    fit = lgm.fit(lgm.loads(crossed), data, "laplace", "map", options={"rows": "streamed"})
    assert fit.accuracy.known
    assert "of 240 rows" not in fit.accuracy.basis
    monkeypatch.setattr(by_places, "LARGEST", 100)
    fit = lgm.fit(lgm.loads(crossed), data, "laplace", "map", options={"rows": "streamed"})
    assert (
        fit.accuracy.basis == "none: rows were read by batches, and no sample of them tells of all"
    )
