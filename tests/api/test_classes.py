"""Models of classes, ordered or not: missing entries, predictions, draws, refits, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.joint import newton_move
from lgmdsl.contract.objectives.super_gaussian import residual, super_gaussian
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import plan
from lgmdsl.inference.registry import load_entry_points
from lgmdsl_backends.double_loop import DoubleLoop
from tests.api.class_models import (
    LABELS,
    MODELS,
    ORDINAL,
    PINNED,
    STICK,
    data,
    fitted,
)
from tests.compiled import canonical_form


@pytest.mark.few(3)
@pytest.mark.parametrize("name", MODELS)
def test_missing_entries_drop_out(name: str) -> None:
    given = data(10 if name == "probit" else 40)
    there = given["y"] != ""
    for method in ("laplace", "natural-gradient"):
        whole = fitted(name, given, method)
        some = fitted(name, {k: v[there] for k, v in given.items()}, method)
        assert whole.log_evidence == pytest.approx(some.log_evidence, rel=1e-10)
        np.testing.assert_allclose(whole.mean("b"), some.mean("b"), rtol=1e-6)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", MODELS)
def test_class_probabilities(name: str, tmp_path: Path) -> None:
    """Labelled, summing to 1, the average over draws of the predictor; and after a restart."""
    fit = fitted(name, data(12 if name == "probit" else 40))
    new = {"x": [-2.0, 0.0, 1.0]}
    found = fit.predict(new)
    p = found.response("y").probability
    assert p.dims == ("obs", "class") and p["class"].values.tolist() == LABELS
    np.testing.assert_allclose(p.sum("class"), 1.0, rtol=1e-9)
    drawn = found.sample_response("y", 40_000)
    for k, label in enumerate(LABELS):
        share = (drawn == label).mean("sample")
        error = np.sqrt(p[:, k] * (1 - p[:, k]) / 40_000)
        assert np.all(np.abs(share - p[:, k]) < 4.5 * error + 1e-3)
    assert set(found.to_dataset()) == {"eta_mean", "eta_sd", "y_probability"}
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc").predict(new).response("y").probability
    np.testing.assert_allclose(again, p, rtol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["stick", "softmax", "probit", "stereotype"])
def test_criteria_of_classes(name: str) -> None:
    """WAIC, DIC and leave-one-out by many draws of the posterior; a PIT needs an order."""
    rows = 8 if name == "probit" else 20
    fit = fitted(name, data(rows), "laplace")
    waic, dic, there = fit.waic(), fit.dic(), data(rows)["y"] != ""
    draws = np.asarray(fit.to_arviz(8_000)["log_likelihood"]["y"])[0][:, there]
    found = waic.effective().values[there]
    np.testing.assert_allclose(found, draws.var(axis=0), rtol=0.1, atol=1e-3)
    assert waic.lppd == pytest.approx(np.log(np.exp(draws).mean(axis=0)).sum(), abs=0.05)
    assert dic.mean_deviance == pytest.approx(-2.0 * draws.sum(axis=1).mean(), abs=0.1)
    near = 2.5 if name == "probit" else 0.3  # of eight data a WAIC is rough
    assert waic.elpd == pytest.approx(fit.loo().elpd, abs=near)
    if name != "stereotype":
        with pytest.raises(lgm.MethodError, match="gives no distribution"):
            fit.pit()


@pytest.mark.thorough
def test_scores_are_learned() -> None:
    """Classes 1 and 2 that no predictor tells apart have scores that are close."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=1500)
    scores, cuts = np.array([0.0, 1.0, 1.1, 2.5]), np.array([-0.5, 0.0, 0.5])
    odds = np.cumsum(np.diff(scores) * (1.5 * x[:, None] - cuts), axis=1)
    p = np.exp(np.concatenate([np.zeros((1500, 1)), odds], axis=1))
    y = np.array([rng.choice(LABELS, p=row / row.sum()) for row in p])
    text = MODELS["stereotype"][0]
    fit = lgm.fit(lgm.loads(text), {"x": x, "y": y}, method="laplace", hyper="map")
    assert fit.converged
    step = np.diff(fit.theta["t"])
    assert step[1] < 0.5 * min(step[0], step[2])


@pytest.mark.thorough
def test_learned_cuts_are_a_mixture_of_points() -> None:
    text = MODELS["cumulative logit"][0]
    fit = lgm.fit(lgm.loads(text), data(), method="laplace", hyper="integrate")
    p = fit.predict({"x": [0.5]}).response("y").probability.values[0]
    assert p.sum() == pytest.approx(1.0, rel=1e-9) and len(fit.points) > 3
    best = lgm.fit(lgm.loads(text), data(), method="laplace", hyper="map")
    assert np.all(np.diff(best.theta["c"]) > 0.0)
    near = best.predict({"x": [0.5]}).response("y").probability.values[0]
    np.testing.assert_allclose(p, near, atol=0.03)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["cumulative logit", "stick", "softmax"])
def test_leaving_out_by_refits_is_a_prediction_from_the_rest(name: str) -> None:
    given = data(16)
    fit = fitted(name, given)
    found = fit.loo(exact="all").pointwise()
    at = 6
    rest = {**given, "y": given["y"].copy()}
    rest["y"][at] = ""
    p = fitted(name, rest).predict({"x": given["x"][at : at + 1]}).response("y").probability
    known = np.log(p.sel({"class": given["y"][at]}).item())
    assert float(found[at]) == pytest.approx(known, abs=1e-5)
    assert np.isnan(found[4])
    quick = fit.loo().pointwise()
    # Cavities of a bound are not as good as those of expectation propagation.
    near = 0.01 if fit.method == "ep" else 0.02
    assert float(np.nanmedian(np.abs(quick - found))) < near


def test_cuts_of_groups_are_gathered() -> None:
    """c[group, cut] by a map; and the row of one group, which is that row itself."""
    given = data()
    given["which"] = np.arange(len(given["x"])) % 3
    text = MODELS["continuation"][0]
    indexed = text.replace("c[cut] :", "c[grp, cut] :").replace("data x", "index grp = 3\ndata x")
    grouped = indexed.replace("cuts = c,", "cuts = c[which, cut],")
    grouped = grouped.replace("data x", "data which[obs] : grp\ndata x")
    value = np.array([[-1.0, 0.2, 1.0], [-0.5, 0.4, 2.0], [0.0, 0.1, 0.3]])
    whole = lgm.fit(lgm.loads(grouped), given, method="laplace", fixed={"c": value})
    again = lgm.fit(lgm.loads(grouped), given, method="laplace", hyper="map")
    assert again.theta["c"].shape == (3, 3) and again.log_evidence > whole.log_evidence
    one = lgm.loads(indexed.replace("cuts = c,", "cuts = c[1, cut],"))
    single = lgm.fit(one, data(), method="laplace", fixed={"c": value})
    known = lgm.fit(lgm.loads(text), data(), method="laplace", fixed={"c": value[1]})
    assert single.log_evidence == pytest.approx(known.log_evidence, rel=1e-12)


def test_pit_of_ordered_classes() -> None:
    fit = fitted("cumulative probit", data())
    found = fit.pit()
    lower, upper = found.lower("y"), found.upper("y")
    there = data()["y"] != ""
    assert np.all((lower < upper)[there])
    assert np.all(lower[data()["y"] == "low"] == 0.0)
    np.testing.assert_allclose(upper[data()["y"] == "top"], 1.0, rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["adjacent", "stereotype", "probit", "stick", "softmax"])
def test_simulated_and_replicated_data_are_labels(name: str) -> None:
    text, fixed = MODELS[name]
    model = lgm.loads(text)
    made = lgm.simulate(model, sizes={"obs": 30}, fixed=fixed)
    assert set(made["y"]) <= set(LABELS)
    fit = lgm.fit(model, made, method="laplace", fixed=fixed)
    assert set(np.ravel(fit.sample_predictive(3)["y"])) <= set(LABELS)


def test_sticks_are_a_logistic_regression_for_each_cut() -> None:
    """With independent latents: class k or a later one, among the data that reach cut k."""
    given = data(60)
    whole = fitted("stick", given)
    there = given["y"] != ""
    x, code = given["x"][there], np.array([LABELS.index(y) for y in given["y"][there]])
    one = lgm.loads(
        "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : binary\nlatent a ~ normal(sd = 2)\n"
        "latent b ~ normal(sd = 1)\nlet eta[obs] = a + b * x\n"
        "observe y ~ bernoulli(logit = eta)\n"
    )
    evidence = 0.0
    for k in range(3):
        left = code >= k
        fit = lgm.fit(one, {"x": x[left], "y": (code[left] == k).astype(int)}, method="ep")
        evidence += fit.log_evidence
        assert float(whole.mean("b")[k]) == pytest.approx(float(fit.mean("b")), abs=1e-5)
    assert whole.log_evidence == pytest.approx(evidence, rel=1e-7)


def canonical(name: str, given: dict[str, Any]) -> CanonicalModel:
    load_entry_points()
    return canonical_form(MODELS[name][0], given)


def test_data_leave_a_block_with_their_sites() -> None:
    (block,) = canonical("stick", data(12)).blocks
    y = block.data.y
    assert y is not None and len(block.rows) == int(np.sum(np.minimum(y + 1, 3)))
    gone = [0, 3, 4]
    some, again = block.without(np.array([0, 3])), block.without(np.array(gone))
    twice = some.without(np.array([2]))  # the datum that was the fifth
    for left in (twice, again):
        assert left.data.y is not None and left.y is not None
        np.testing.assert_array_equal(left.data.y, np.delete(y, gone))
        np.testing.assert_array_equal(left.rows // 3, left.data.rows[left.data.owner])
        np.testing.assert_array_equal(left.y, left.data.y[left.data.owner] == left.rows % 3)


def test_the_double_loop_sees_shifts_that_are_off() -> None:
    """Its residual is that of the means too: the shifts move with the widths."""
    made = canonical("continuation", data())
    problem = plan(made, "double-loop").at(made.hypers.theta({"c": np.array(PINNED["c"])}))
    found = run(DoubleLoop(), problem, Tolerances(1e-12, 1e-8)).posterior
    assert found is not None
    near, off = (
        problem.engine.condition(found.weight, tuple(b + d for b in found.shift)) for d in (0, 0.01)
    )
    assert not isinstance(near, Failed) and not isinstance(off, Failed)
    assert residual(problem, near) < 1e-5
    (site,) = super_gaussian(problem)
    best = site.widths(off.mean[0], off.variance[0])
    pulls = off.shift[0] - off.weight[0] * off.mean[0]
    move = newton_move(problem.engine, off, (-best.slope - pulls,))
    assert residual(problem, off) == pytest.approx(move, rel=1e-9) and move > 1e-3


def test_sticks_are_told_as_logistic_sites() -> None:
    told = str(lgm.explain(lgm.loads(STICK), data()))
    assert "categorical.stick, seen as bernoulli.logit" in told
    assert "stick breaking to a logistic site for each cut up to the class" in told
    assert "4 entries missing" in " ".join(told.split())


@pytest.mark.thorough
def test_every_bound_of_logistic_sites_takes_sticks() -> None:
    best = fitted("stick", data(), "natural-gradient").log_evidence
    found = [
        fitted("stick", data(), "natural-gradient", bound=b).log_evidence
        for b in ("piecewise-quadratic-8", "jaakkola", "bohning")
    ]
    assert best > found[0] > found[1] > found[2]
    double = fitted("stick", data(), "double-loop").log_evidence
    assert double == pytest.approx(found[1], rel=1e-7)


@pytest.mark.parametrize("name", ["cumulative logit", "continuation"])
def test_the_double_loop_takes_shifted_logistic_sites(name: str) -> None:
    """At its optimum, that of the Jaakkola bound; the evidence lies above it."""
    given = data()
    found = fitted(name, given, "double-loop")
    same = fitted(name, given, "natural-gradient", bound="jaakkola")
    assert found.converged and found.log_evidence == pytest.approx(same.log_evidence, rel=1e-8)
    np.testing.assert_allclose(found.mean("b"), same.mean("b"), rtol=1e-4)
    assert found.log_evidence < fitted(name, given, "natural-gradient").log_evidence
    with pytest.raises(lgm.MethodError, match="does not answer SuperGaussian"):
        fitted(name, given, "coordinate-descent")


@pytest.mark.parametrize(
    ("family", "told"),
    [
        ('ordinal(logit = eta, cuts = c, model = "stereotype")', "scores"),
        ('ordinal(probit = eta, cuts = c, model = "stereotype")', "scores = t with hyper"),
        ("ordinal(logit = eta, cuts = c, scores = t)", "the argument `scores`"),
    ],
)
def test_refusals_say_what_to_take(family: str, told: str) -> None:
    text = ORDINAL.replace("HERE", "logit = eta, cuts = c").replace(
        "observe y ~ ordinal(logit = eta, cuts = c)",
        f"hyper t[class] : ordered ~ normal(sd = 1)\nobserve y ~ {family}",
    )
    with pytest.raises(lgm.MethodError) as caught:
        lgm.fit(lgm.loads(text), data(), method="laplace", fixed=PINNED)
    wanted = "E104" if told.startswith("scores") else "E501"
    assert caught.value.codes == (wanted,) and told in str(caught.value)
