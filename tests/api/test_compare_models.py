"""lgm.compare_models: evidences, leave-one-out, stacking, and what may not be compared."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.compare.models import ModelComparison
from lgmdsl.api.fit.fit import Fit
from lgmdsl.assess.criteria import stacked

HEAD = """lgm 1
index obs
data y[obs] : real
data x[obs] : real
latent a ~ normal(sd = 3)
latent b ~ normal(sd = 3)
"""
LINE = HEAD + "let eta[obs] = a + b * x\nobserve y ~ normal(mean = eta, sd = 1)\n"
LEVEL = HEAD + "let eta[obs] = a + 0 * b * x\nobserve y ~ normal(mean = eta, sd = 1)\n"
WIDE = LINE.replace("sd = 1)\n", "sd = 2)\n")


def data(size: int = 30) -> dict[str, Any]:
    rng = np.random.default_rng(11)
    x = rng.normal(size=size)
    return {"x": x, "y": 0.5 + 0.6 * x + rng.normal(size=size)}


def fitted(text: str, table: dict[str, Any] | None = None, **options: Any) -> Fit:
    return lgm.fit(lgm.loads(text), data() if table is None else table, **options)


@pytest.fixture(scope="module")
def comparison() -> ModelComparison:
    return lgm.compare_models({"level": fitted(LEVEL), "line": fitted(LINE), "wide": fitted(WIDE)})


def exact(slope: bool, sd: float) -> tuple[float, np.ndarray[Any, Any]]:
    """log p(y), and log p(y_i | y_-i), of the conjugate model."""
    table = data()
    design = np.column_stack([np.ones(30), table["x"] * slope])
    cover = 9.0 * design @ design.T + sd**2 * np.eye(30)
    evidence = stats.multivariate_normal(np.zeros(30), cover).logpdf(table["y"])
    precision = np.linalg.inv(cover)
    variance = 1.0 / np.diag(precision)
    gap = (precision @ table["y"]) * variance
    return float(evidence), np.asarray(stats.norm.logpdf(gap, scale=np.sqrt(variance)))


def test_numbers_are_those_of_the_conjugate_models(comparison: ModelComparison) -> None:
    known = {"level": exact(False, 1.0), "line": exact(True, 1.0), "wide": exact(True, 2.0)}
    assert [r.name for r in comparison] == sorted(known, key=lambda n: -known[n][1].sum())
    evidence = np.array([known[r.name][0] for r in comparison])
    shares = np.exp(evidence - evidence.max())
    best = known[comparison.rows[0].name][1]
    for k, row in enumerate(comparison):
        local = known[row.name][1]
        assert row.fit.log_evidence == pytest.approx(evidence[k], abs=1e-6)
        assert row.probability == pytest.approx(shares[k] / shares.sum(), abs=1e-6)
        assert row.elpd == pytest.approx(local.sum(), abs=1e-6)
        gap = local - best
        assert row.difference == pytest.approx(gap.sum(), abs=1e-6)
        assert row.difference_se == pytest.approx(np.sqrt(30 * gap.var(ddof=1)), abs=1e-6)
    assert comparison.warnings == ()
    assert sum(comparison.weights.values()) == pytest.approx(1.0)
    assert comparison["line"].weight > comparison["wide"].weight
    assert len(comparison) == 3 and comparison["line"] is comparison.rows[0]


def test_stacking_is_at_the_maximum() -> None:
    rng = np.random.default_rng(0)
    for models in (2, 3, 6):
        density = rng.normal(size=(200, models)) - np.arange(models)[None, :] * 0.3
        weight = stacked(density)
        mixed = np.exp(density) @ weight
        slope = np.mean(np.exp(density) / mixed[:, None], axis=0)
        assert weight.sum() == pytest.approx(1.0) and (weight >= 0.0).all()
        assert (slope <= 1.0 + 1e-4).all()  # the conditions of Karush, Kuhn and Tucker
        assert np.abs(weight * (slope - 1.0)).max() < 1e-4
    alike = stacked(np.zeros((5, 2)))
    assert alike.sum() == pytest.approx(1.0)
    assert stacked(np.array([[0.0, -900.0]] * 4)) == pytest.approx([1.0, 0.0])


def test_a_page_a_frame_and_a_pickle(comparison: ModelComparison) -> None:
    page = str(comparison)
    assert all(len(line) <= 80 for line in page.splitlines()) and "elpd" in page
    frame = comparison.frame()
    assert list(frame.index) == [r.name for r in comparison]
    assert frame.loc["line", "elpd"] == comparison["line"].elpd
    again = pickle.loads(pickle.dumps(comparison))
    assert str(again) == page and repr(again) == repr(comparison)
    assert repr(comparison).startswith("ModelComparison(")
    assert "<td>line</td>" in comparison._repr_html_()


def reasons(comparison: ModelComparison) -> str:
    assert {w.code for w in comparison.warnings} == {"W610"}
    return " ".join(" ".join((w.message, *w.details)) for w in comparison.warnings)


def test_other_responses_are_not_compared() -> None:
    other = data() | {"y": data()["y"] + 1.0}
    found = lgm.compare_models({"a": fitted(LINE), "b": fitted(LINE, other)})
    assert "observe different responses" in reasons(found)
    for row in found:
        assert np.isnan([row.probability, row.difference, row.weight]).all()
        assert np.isfinite(row.elpd)
    fewer = {k: v[:20] for k, v in data().items()}
    assert "different responses" in reasons(
        lgm.compare_models({"a": fitted(LINE), "b": fitted(LINE, fewer)})
    )


def test_densities_are_not_compared_with_probabilities() -> None:
    table = data() | {"y": np.arange(30) % 4}
    counts = LINE.replace("y[obs] : real", "y[obs] : count").replace(
        "normal(mean = eta, sd = 1)", "poisson(log_rate = eta)"
    )
    models = {"n": fitted(LINE, table), "p": fitted(counts, table, method="laplace")}
    found = lgm.compare_models(models)
    assert "one as discrete (probabilities), the other as continuous" in reasons(found)
    assert np.isnan(list(found.weights.values())).all()


def test_improper_priors_have_no_evidence_in_common() -> None:
    flat = LINE.replace("latent b ~ normal(sd = 3)", "latent b ~ flat")
    found = lgm.compare_models({"flat": fitted(flat), "line": fitted(LINE)})
    assert "different improper priors" in reasons(found) and "flat: `b`" in reasons(found)
    assert np.isnan(found["flat"].probability) and np.isfinite(found["flat"].weight)
    also = flat.replace("latent a ~ normal(sd = 3)", "latent a ~ normal(sd = 1)")
    same = lgm.compare_models({"flat": fitted(flat), "also": fitted(also)})
    assert np.isfinite([r.probability for r in same]).all() and same.warnings == ()


def test_what_is_doubtful_is_said() -> None:
    free = LINE.replace("latent a", "hyper s : positive ~ half_normal(sd = 2)\nlatent a").replace(
        "eta, sd = 1", "eta, sd = s"
    )
    found = lgm.compare_models({"map": fitted(free, hyper="map"), "line": fitted(LINE)})
    assert "hyperparameters of `map` were maximised over" in reasons(found)
    assert np.isfinite(found["map"].probability)


def test_fits_from_files_need_their_data(tmp_path: Path) -> None:
    fitted(LINE).save(tmp_path / "a.nc")
    models = {"a": lgm.load_fit(tmp_path / "a.nc"), "b": fitted(LEVEL)}
    found = lgm.compare_models(models)
    assert "which result files do not hold" in reasons(found)
    assert np.isfinite(found["a"].probability) and np.isnan(found["a"].weight)
    whole = lgm.compare_models(models, data())
    assert np.isfinite([r.weight for r in whole]).all() and whole.warnings == ()


def test_wrong_use() -> None:
    with pytest.raises(lgm.MethodError, match="two fits or more"):
        lgm.compare_models({"a": fitted(LINE)})
    with pytest.raises(TypeError, match="`b` is no Fit but str"):
        wrong: dict[str, Any] = {"a": fitted(LINE), "b": "b.nc"}
        lgm.compare_models(wrong)
