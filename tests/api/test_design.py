"""`lgm.design`: what it chooses, its record, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.design import design as module
from lgmdsl.api.design.design import Design
from tests.acquisition.pools import HEAD, MODELS, small

PROBIT = (MODELS["gaussian"]).replace("logit = eta", "probit = eta")
COUNTS = (
    (MODELS["gaussian"])
    .replace("y[obs] : binary", "y[obs] : count")
    .replace("bernoulli(logit", "poisson(log_rate")
)
TWO = MODELS["gaussian"].replace("latent", "data k[obs] : binary\nlatent", 1) + (
    "observe k ~ bernoulli(logit = eta)\n"
)
GRID = """lgm 1
index obs
index item
data X[obs, item] : real
data y[obs, item] : binary
latent w[item] ~ normal(sd = 1)
let eta[obs, item] = X * w
observe y ~ bernoulli(logit = eta)
"""
LEVELS = """lgm 1
index obs
index group
data X[obs] : real
data g[obs] : group
data y[obs] : binary
latent a[group] ~ normal(sd = 1)
latent w ~ normal(sd = 1)
let eta[obs] = a[g] + w * X
observe y ~ bernoulli(logit = eta)
"""
KNOWN = small("gaussian", candidates=12)


def design(**changed: Any) -> Design:
    given: dict[str, Any] = {
        "model": KNOWN.model, "data": KNOWN.data, "candidates": KNOWN.candidates,
        "steps": 7, "block": 3, "oracle": KNOWN.oracle,
    }  # fmt: skip
    return lgm.design(**{**given, **changed})


def test_queries_course_and_page() -> None:
    found = design(test=KNOWN.test)
    assert found.wanted == len(found.queries) == 7 and not found.interrupted
    assert [p.included for p in found.course] == [0, 3, 6, 7]
    assert all(q.label == KNOWN.oracle["y"][q.row] for q in found.queries)
    fit = KNOWN.fit()
    first = found.course[0]
    assert first.log_evidence == fit.log_evidence
    p = np.asarray(fit.predict({"X": KNOWN.test["X"]}).mean("eta")) > 0
    assert first.test_error == np.mean(p != KNOWN.test["y"])
    page = found.table.splitlines()
    assert page[0] == "queries by uncertainty: 25 labelled cases, 12 candidates"
    assert page[2].split() == ["query", "obs", "score", "P(y", "=", "1)", "y"]
    assert max(map(len, page)) <= 80
    json = found.as_json()
    assert json["response"] == "y" and len(json["queries"]) == 7  # type: ignore[arg-type]


def test_after_the_design_the_bound_is_near_that_of_a_fit_of_its_cases() -> None:
    found = design(score="information")
    rows = list(found.rows)
    data = {
        "X": np.vstack([KNOWN.data["X"], KNOWN.candidates["X"][rows]]),
        "y": np.r_[KNOWN.data["y"], KNOWN.oracle["y"][rows]],
    }
    fit = lgm.fit(KNOWN.model, data, "double-loop")
    below = fit.log_evidence - found.course[-1].log_evidence
    assert 0.0 < below < 0.05


def test_without_an_oracle_the_next_queries_are_ranked() -> None:
    found = design(oracle=None, steps=12)
    assert sorted(found.rows) == list(range(12)) and not found.interrupted
    assert all(q.label is None for q in found.queries) and len(found.course) == 1
    assert found.table.startswith("next queries by uncertainty") and "No oracle" in found.table
    # The first one is what an oracle would be asked first.
    assert found.queries[0].row == design().queries[0].row


@pytest.mark.thorough
def test_labels_of_the_candidates_and_sparse_covariates() -> None:
    import scipy.sparse as sp
    import xarray as xr

    names = [f"case {k}" for k in range(12)]
    table = xr.DataArray(
        KNOWN.candidates["X"], dims=("obs", "feat"), coords={"obs": names, "feat": range(4)}
    )
    labelled = design(candidates={"X": table}, oracle={"y": KNOWN.oracle["y"], "obs": names})
    assert labelled.rows == design().rows and "case " in labelled.table
    sparse = {k: sp.csr_array(v["X"]) for k, v in (("a", KNOWN.data), ("b", KNOWN.candidates))}
    found = design(data={"X": sparse["a"], "y": KNOWN.data["y"]}, candidates={"X": sparse["b"]})
    assert found.rows == design().rows
    renamed = {"cov": KNOWN.data["X"], "y": KNOWN.data["y"]}
    again = design(data=renamed, candidates={"cov": KNOWN.candidates["X"]}, mapping={"X": "cov"})
    assert again.rows == design().rows


def test_cases_with_latents_of_their_own() -> None:
    """A Gaussian process: the candidates' values join the latents, whose posterior is joint."""
    gp = small("gp", features=2)
    found = lgm.design(gp.model, gp.data, gp.candidates, "information", 6, 2, gp.oracle, outer=40)
    rows = list(found.rows)
    data = {
        "X": np.vstack([gp.data["X"], gp.candidates["X"][rows]]),
        "y": np.r_[gp.data["y"], gp.oracle["y"][rows]],
    }
    fit = lgm.fit(gp.model, data, "double-loop", tol=1e-11)
    assert found.course[-1].log_evidence == pytest.approx(fit.log_evidence, rel=1e-8)
    with pytest.raises(lgm.MethodError) as caught:
        lgm.design(gp.model, gp.data, gp.candidates, oracle=gp.oracle, test=gp.test)
    assert caught.value.codes == ("E501",)


def test_candidates_of_new_groups() -> None:
    rng = np.random.default_rng(3)
    data = {"X": rng.normal(size=20), "g": np.repeat(["a", "b"], 10), "y": rng.integers(0, 2, 20)}
    pool = {"X": rng.normal(size=6), "g": np.array(["b", "c", "c", "d", "a", "d"])}
    oracle = {"y": np.array([0, 1, 1, 0, 1, 0])}
    found = lgm.design(lgm.loads(LEVELS), data, pool, "information", 6, 6, oracle, outer=40)
    both = {
        "X": np.r_[data["X"], pool["X"]],
        "g": np.r_[data["g"], pool["g"]],
        "y": np.r_[data["y"], oracle["y"]],
    }
    fit = lgm.fit(lgm.loads(LEVELS), both, "double-loop", tol=1e-11)
    assert found.course[-1].log_evidence == pytest.approx(fit.log_evidence, rel=1e-8)
    assert found.queries[0].row in (1, 2, 3, 5)  # of a group that nothing is known of


@pytest.mark.parametrize("score", ["uncertainty", "random"])
def test_a_design_that_was_cut_off_goes_on_with_the_same_digits(tmp_path: Path, score: str) -> None:
    whole_place, place = tmp_path / "whole.jsonl", tmp_path / "d.jsonl"
    whole = design(record=whole_place, test=KNOWN.test, score=score)

    def stop(done: int, wanted: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    cut = design(record=place, test=KNOWN.test, score=score, on_query=stop)
    assert cut.interrupted and len(cut.queries) == 5 and "5 of 7" in cut.table
    assert cut.queries == whole.queries[:5] and cut.course == whole.course[:2]
    seen: list[int] = []
    again = design(
        record=place, test=KNOWN.test, score=score, on_query=lambda done, wanted: seen.append(done)
    )
    assert seen == [6, 7]
    assert again.queries == whole.queries and again.course == whole.course
    assert place.read_bytes() == whole_place.read_bytes()


@pytest.mark.thorough
def test_a_record_that_is_cut_anywhere_gives_the_same_digits(tmp_path: Path) -> None:
    place = tmp_path / "d.jsonl"
    whole = design(record=place)
    text = place.read_bytes()
    for size in np.linspace(text.index(b"\n") + 1, len(text), 12, dtype=int):
        place.write_bytes(text[:size])
        again = design(record=place)
        assert again.queries == whole.queries and again.course == whole.course
        assert place.read_bytes() == text


@pytest.mark.thorough
def test_more_or_fewer_steps_of_the_same_record(tmp_path: Path) -> None:
    place = tmp_path / "d.jsonl"
    design(record=place, steps=4)
    more = design(record=place, steps=11)
    whole = design(steps=11)
    assert more.queries == whole.queries and more.course == whole.course
    fewer = design(record=place, steps=6)
    assert fewer.queries == whole.queries[:6] and [p.included for p in fewer.course] == [0, 3, 6]
    assert not fewer.interrupted


def test_fewer_steps_that_end_within_a_block_of_the_record(tmp_path: Path) -> None:
    place = tmp_path / "d.jsonl"
    whole = design(record=place, steps=11)
    before = place.read_bytes()
    fewer = design(record=place, steps=5)
    assert not fewer.interrupted and "interrupted" not in fewer.table
    assert fewer.queries == whole.queries[:5] and fewer.course == whole.course[:2]
    assert place.read_bytes() == before

    def stop(done: int, wanted: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    cut = design(record=tmp_path / "cut.jsonl", steps=5, on_query=stop)
    assert cut.interrupted  # all are made, but the last block was not re-fitted


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 3}, "seed differs"),
        ({"block": 2}, "block differs"),
        ({"oracle": None}, "oracle"),
        ({"score": "random"}, "score"),
        ({"candidates": {"X": np.eye(12, 4)}}, "candidates"),
    ],
)
def test_a_record_of_another_design_is_refused(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    place = tmp_path / "d.jsonl"
    design(record=place, steps=2)
    before = place.read_bytes()
    with pytest.raises(lgm.DataError, match=said) as caught:
        design(record=place, **change)
    assert caught.value.codes == ("E306",) and place.read_bytes() == before


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "line",
    [
        '{"number": 9}',
        '{"settled": 3, "weight": [[1]]}',
        "[1]",
        '{"number": 1, "row": 1, "score": 1, "probability": 1}',
    ],
)
def test_a_record_that_was_edited_is_refused(tmp_path: Path, line: str) -> None:
    place = tmp_path / "d.jsonl"
    design(record=place, steps=1)
    head = place.read_text().splitlines()[0]
    place.write_text(f"{head}\n{line}\n")
    if line == "[1]":  # no object: left out, as half a line is
        design(record=place, steps=1)
        return
    with pytest.raises(lgm.DataError) as caught:
        design(record=place, steps=1)
    assert caught.value.codes == ("E306",)


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"candidates": {"Z": np.eye(3, 4)}}, "E305", "bring no rows of `obs`"),
        ({"candidates": {"X": np.eye(3, 5)}}, "E30", "X"),
        ({"candidates": {"X": np.full((3, 4), np.nan)}}, "E304", "X"),
        ({"steps": 13}, "E108", "more than the 12 candidates"),
        (
            {"steps": 2, "candidates": {"X": np.ones((1, 4))}, "oracle": None},
            "E108",
            "and there is 1 candidate",
        ),
        ({"steps": 0}, "E108", "steps"),
        ({"block": 1.5}, "E108", "block"),
        ({"outer": True}, "E108", "outer"),
        ({"seed": -1}, "E108", "seed"),
        ({"score": "uncertain"}, "E103", "did you mean `uncertainty`"),
        ({"oracle": {"y": np.full(12, 2)}}, "E303", "y"),
        ({"oracle": {"y": np.ones(11)}}, "E301", "y"),
        ({"oracle": {"Y": np.ones(12)}}, "E305", "did you mean `Y`"),
        ({"oracle": {"y": np.r_[np.nan, np.ones(11)]}}, "E304", "y"),
        ({"test": {"X": np.ones((3, 4))}}, "E305", "y"),
        ({"test": {"y": np.ones(3)}}, "E305", "X"),
        ({"model": lgm.loads(PROBIT)}, "E501", "bernoulli.logit"),
        ({"model": lgm.loads(COUNTS)}, "E501", "poisson.log_rate"),
        ({"model": lgm.loads(TWO), "data": {**KNOWN.data, "k": KNOWN.data["y"]}}, "E501", "`k`"),
        (
            {"model": lgm.loads(GRID), "data": {"X": np.ones((4, 2)), "y": np.ones((4, 2))}},
            "E501",
            "one index of cases",
        ),
        (
            {
                "model": lgm.loads(
                    HEAD.replace("data y[obs] : binary\n", "") + "latent w[feat] ~ normal(sd = 1)\n"
                    "let eta[obs] = X @ w\npotential eta ~ laplace(scale = 1)\n"
                )
            },
            "E501",
            "observes none",
        ),
    ],
)
def test_what_it_refuses(change: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(lgm.LgmError) as caught:
        design(**change)
    assert caught.value.codes[0].startswith(code), str(caught.value)
    assert said in str(caught.value)


def test_optional_labels_that_are_missing() -> None:
    model = lgm.loads(MODELS["gaussian"].replace("binary", "binary?"))
    gone = {**KNOWN.data, "y": np.r_[np.nan, KNOWN.data["y"][1:]]}
    found = design(model=model, data=gone)
    assert found.labelled == 24
    with pytest.raises(lgm.DataError) as caught:
        design(model=model, oracle={"y": np.r_[np.nan, np.ones(11)]})
    assert caught.value.codes == ("E304",) and "first at obs 0" in str(caught.value)


def test_predictors_that_are_not_finite() -> None:
    model = lgm.loads(MODELS["gaussian"].replace("+ 1.5", "+ 1 / X[obs, 0]"))
    bad = KNOWN.candidates["X"].copy()
    bad[5, 0] = 0.0
    with pytest.raises(lgm.DataError) as caught:
        design(model=model, candidates={"X": bad})
    assert caught.value.codes == ("E303",) and "first at obs 5" in str(caught.value)


@pytest.mark.few(1)
@pytest.mark.parametrize("score", ["uncertainty", "information", "random"])
@pytest.mark.parametrize("oracle", [KNOWN.oracle, None])
def test_predictors_whose_variance_overflows(score: str, oracle: object) -> None:
    import scipy.sparse as sp

    far = KNOWN.candidates["X"].copy()
    far[7] *= 1e200
    sparse = {"X": sp.csr_array(KNOWN.data["X"]), "y": KNOWN.data["y"]}
    for data, x in ((KNOWN.data, far), (sparse, sp.csr_array(far))):
        with pytest.raises(lgm.DataError) as caught:
            design(data=data, candidates={"X": x}, score=score, oracle=oracle)
        assert caught.value.codes == ("E303",) and "first at obs 7" in str(caught.value)
    # Two rows whose variances are finite, but not their product, which the updates take.
    far[[7, 9]] = KNOWN.candidates["X"][[7, 9]] * 1e90
    with pytest.raises(lgm.DataError, match="2 rows"):
        design(candidates={"X": far}, score=score, oracle=oracle)
    far[[7, 9]] *= 1e-90 * 1e60
    assert len(design(candidates={"X": far}, score=score, oracle=None).queries) == 7


def test_an_interrupt_before_any_query_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "sequence", stop)
    with pytest.raises(KeyboardInterrupt):
        design()


def test_picture() -> None:
    pytest.importorskip("matplotlib")
    assert design(test=KNOWN.test).picture("svg").startswith(b"<?xml")
    with pytest.raises(lgm.MethodError) as caught:
        design().picture()
    assert caught.value.codes == ("E501",)
