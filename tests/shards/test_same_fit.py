"""Fits of shards against fits with all rows in memory, and slopes against differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.learning.objective.gradient import evidence_gradient
from tests.shards.models import CASES, check_same, compiled, folder, posterior, rows, text, whole

STEP = 1e-4


@pytest.mark.few(9)
@pytest.mark.parametrize("case", CASES)
def test_evidence_moments_and_gradient_are_those_of_all_rows(case: str, tmp_path: Path) -> None:
    model, place = lgm.loads(text(case)), folder(tmp_path / case, rows(case))
    canonical, planned = compiled(model, place)
    kept = whole(model, place.with_suffix(".parquet"))
    theta = canonical.hypers.start({})
    one, other = posterior(planned, theta), posterior(kept, theta)
    check_same(planned, one, kept, other, theta)


@pytest.mark.parametrize("case", ["negbinomial", "means", "vectors", "walk"])
def test_the_gradient_is_that_of_differences(case: str, tmp_path: Path) -> None:
    model, place = lgm.loads(text(case)), folder(tmp_path / case, rows(case))
    canonical, planned = compiled(model, place)
    theta = canonical.hypers.start({})
    slopes = evidence_gradient(planned, posterior(planned, theta), theta, {})
    for name, slope in slopes.items():
        value = np.asarray(theta[name], dtype=float)
        direction = np.ones_like(value) if value.ndim < 2 else np.eye(len(value))
        ends = [
            posterior(planned, {**theta, name: value + sign * STEP * direction}).log_evidence
            for sign in (1.0, -1.0)
        ]
        difference = (ends[0] - ends[1]) / (2.0 * STEP)
        assert float(np.sum(slope * direction)) == pytest.approx(difference, rel=2e-6, abs=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("hyper", ["map", "integrate"])
def test_fits_that_learn_end_where_those_of_all_rows_do(hyper: str, tmp_path: Path) -> None:
    """Groups' latents included, at a maximum and mixed over the hyperparameter."""
    place = folder(tmp_path / "shards", rows("crossed"))
    model = lgm.loads(text("crossed"))
    one = lgm.fit(model, place, hyper=hyper, fixed={"t": 0.4}, tol=1e-9)
    other = lgm.fit(
        model,
        place.with_suffix(".parquet"),
        "laplace",
        hyper,
        {"t": 0.4},
        options={"merge": "off"},
        tol=1e-9,
    )
    assert one.converged and one.method == "laplace"
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-7)
    for name in ("a", "b", "v"):
        np.testing.assert_allclose(one.mean(name), other.mean(name), atol=1e-7)
        np.testing.assert_allclose(one.sd(name), other.sd(name), rtol=1e-6)
    np.testing.assert_allclose(one.mean("s"), other.mean("s"), rtol=1e-6)
    written = one.groups(place, tmp_path / "groups")
    assert len(written) == 3
    groups = pd.concat([pd.read_parquet(p) for p in written]).set_index("who")
    assert sorted(groups.index) == sorted(other["u"].coords["group"].values)
    order = other.mean("u").sel(group=groups.index.values)
    np.testing.assert_allclose(groups["u.mean"], order, atol=1e-7)
    order = other.sd("u").sel(group=groups.index.values)
    np.testing.assert_allclose(groups["u.sd"], order, rtol=1e-6)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("case", "more"),
    [
        ("poisson", ""),
        ("vectors", ""),
        ("gaussian", ""),
        ("poisson", "potential b ~ laplace(scale = 0.002)\n"),
    ],
)
def test_the_mode_is_that_of_all_rows(case: str, more: str, tmp_path: Path) -> None:
    """By `map`: groups included, with an evidence where all sites are Gaussian, and where a kink
    holds a shared latent."""
    model, place = lgm.loads(text(case) + more), folder(tmp_path / case, rows(case))
    fixed = dict(compiled(model, place, "map")[0].hypers.start({}))
    one = lgm.fit(model, place, "map", fixed=fixed, tol=1e-9)
    file, kept = place.with_suffix(".parquet"), {"merge": "off"}
    other = lgm.fit(model, file, "map", fixed=fixed, options=kept, tol=1e-9)
    assert one.converged and np.isnan(one.log_evidence) == (case != "gaussian")
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, atol=1e-9)
    assert (float(one.mean("b")) == pytest.approx(0.0, abs=1e-9)) == bool(more)
    for name in ("a", "b", "u"):
        held = one.mean(name) if name != "u" else _groups(one, place, tmp_path, other)
        np.testing.assert_allclose(held, other.mean(name), rtol=1e-8, atol=1e-9)
    for name in ("a", "b"):
        np.testing.assert_allclose(one.sd(name), other.sd(name), rtol=1e-8)


def _groups(fit: lgm.Fit, place: Path, tmp_path: Path, like: lgm.Fit) -> np.ndarray:
    """The means of the groups' latents, as a fit to all rows has them."""
    parts = [pd.read_parquet(p) for p in fit.groups(place, tmp_path / "groups")]
    known = pd.concat(parts).set_index("who").loc[like["u"].coords["group"].values]
    means = known[[c for c in known.columns if c.endswith(".mean")]].to_numpy()
    return means.reshape(like.mean("u").shape)


def test_a_number_of_shards_changes_rounding_alone(tmp_path: Path) -> None:
    model, data = lgm.loads(text("poisson")), rows("poisson")
    fits = [
        lgm.fit(model, folder(tmp_path / f"of{n}", data, n), fixed={"s": 0.5}) for n in (1, 2, 7)
    ]
    for other in fits[1:]:
        assert other.log_evidence == pytest.approx(fits[0].log_evidence, abs=1e-9)
        np.testing.assert_allclose(other.mean("a"), fits[0].mean("a"), atol=1e-9)


def test_rows_in_another_order_change_rounding_alone(tmp_path: Path) -> None:
    """Shuffled rows, and groups that are split over row groups of the file."""
    data = rows("poisson")
    order = np.random.default_rng(1).permutation(len(data["y"]))
    shuffled = {name: values[order] for name, values in data.items()}
    model = lgm.loads(text("poisson"))
    one = lgm.fit(model, folder(tmp_path / "one", data), fixed={"s": 0.5})
    other = lgm.fit(model, folder(tmp_path / "other", shuffled), fixed={"s": 0.5})
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-9)


def test_rows_with_missing_responses_say_nothing(tmp_path: Path) -> None:
    data = rows("gaussian")
    y = np.where(np.arange(len(data["y"])) % 7 == 0, np.nan, data["y"])
    some = {name: values[~np.isnan(y)] for name, values in data.items()}
    model = lgm.loads(text("gaussian", type="real?"))
    fits = [
        lgm.fit(model, folder(tmp_path / name, columns), fixed={"s": 0.5, "t": 0.7})
        for name, columns in (("missing", {**data, "y": y}), ("without", some))
    ]
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=1e-9)


@pytest.mark.thorough
def test_shards_without_an_observed_row(tmp_path: Path) -> None:
    """Their groups have their prior; where no shard has a row, in the words of the folder."""
    data = rows("gaussian")
    few = np.isin(data["who"], ["g0", "g7", "g11"])
    model, fixed = lgm.loads(text("gaussian", type="real?")), {"s": 0.5, "t": 0.7}
    place = folder(tmp_path / "few", {**data, "y": np.where(few, data["y"], np.nan)}, 7)
    counts = [pd.read_parquet(p)["y"].notna().sum() for p in sorted(place.glob("*.parquet"))]
    assert 0 in counts and max(counts) > 0
    one = lgm.fit(model, place, fixed=fixed)
    other = lgm.fit(model, place.with_suffix(".parquet"), "laplace", fixed=fixed)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-9)
    one.predict_shards(place, tmp_path / "predictions")
    written = pd.concat([pd.read_parquet(p) for p in one.groups(place, tmp_path / "groups")])
    written = written.set_index("who")
    assert len(written) == 15 and written.loc["g3", "u.sd"] == pytest.approx(0.5)
    none = folder(tmp_path / "none", {**data, "y": np.full(len(few), np.nan)})
    with pytest.raises(lgm.MethodError, match="none of its rows is observed") as caught:
        lgm.fit(model, none, fixed=fixed)
    help = caught.value.diagnostics[0].help
    assert "the file that the shards were made of" in help and '{"rows": "kept"}' in help


def test_wide_units_keep_their_digits(tmp_path: Path) -> None:
    """A response in units of 1e-6, whose groups are all but known."""
    data = rows("gaussian")
    small = {**data, "y": 1e-6 * data["y"]}
    text_ = text("gaussian", a="normal(sd = 1e-5)").replace(
        "latent b ~ normal(sd = 2)", "latent b ~ normal(sd = 1e-5)"
    )
    model, place = lgm.loads(text_), folder(tmp_path / "small", small)
    fixed = {"s": 1e-6, "t": 1e-7}
    one = lgm.fit(model, place, fixed=fixed)
    other = lgm.fit(model, place.with_suffix(".parquet"), "laplace", fixed=fixed)
    assert one.converged and one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    np.testing.assert_allclose(one.mean("a"), other.mean("a"), rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize("unit", [1e-20, 1e10, 1e20])
def test_flat_latents_are_determined_in_any_unit(unit: float, tmp_path: Path) -> None:
    """Next to groups of sd 1e10, weights of 1 left rounding of what the rows say: E402."""
    data = rows("gaussian")
    model = lgm.loads(
        text("gaussian", a="flat").replace("latent b ~ normal(sd = 2)", "latent b ~ flat")
    )
    place = folder(tmp_path / "rows", {**data, "y": unit * data["y"]})
    fixed = {"s": unit, "t": 0.5 * unit}
    one = lgm.fit(model, place, fixed=fixed)
    other = lgm.fit(model, place.with_suffix(".parquet"), "laplace", fixed=fixed)
    assert one.converged and one.log_evidence == pytest.approx(other.log_evidence, rel=1e-12)
    np.testing.assert_allclose(one.mean("a"), other.mean("a"), rtol=1e-9)
    np.testing.assert_allclose(one.sd("b"), other.sd("b"), rtol=1e-9)


@pytest.mark.parametrize("s", [1e3, 1e6])
def test_groups_of_a_wide_prior_keep_the_digits_of_the_shared_latents(
    s: float, tmp_path: Path
) -> None:
    """Next to an engine that subtracts from the prior's covariance 3e-5 nats of 437 were lost."""
    model, place = lgm.loads(text("poisson")), folder(tmp_path / "wide", rows("poisson"))
    one = lgm.fit(model, place, fixed={"s": s}, tol=1e-9)
    other = lgm.fit(model, place.with_suffix(".parquet"), "laplace", fixed={"s": s}, tol=1e-9)
    assert one.converged and one.log_evidence == pytest.approx(other.log_evidence, abs=1e-8)


@pytest.mark.parametrize("unit", [1e-20, 1e8, 1e20])
def test_covariates_in_any_unit(unit: float, tmp_path: Path) -> None:
    """A weight of latents in different units has eigenvalues that its largest one hides: from 1e8
    on, searches for the shared latents did not end."""
    data = rows("poisson")
    model = lgm.loads(
        text("poisson").replace("latent b ~ normal(sd = 2)", f"latent b ~ normal(sd = {2 / unit})")
    )
    place = folder(tmp_path / "units", {**data, "x": unit * data["x"]})
    one = lgm.fit(model, place, fixed={"s": 0.5}, tol=1e-9)
    other = lgm.fit(model, place.with_suffix(".parquet"), "laplace", fixed={"s": 0.5}, tol=1e-9)
    assert one.converged and one.log_evidence == pytest.approx(other.log_evidence, abs=1e-8)
    np.testing.assert_allclose(one.mean("b"), other.mean("b"), rtol=1e-8)


def test_a_flat_level_that_wide_groups_absorb(tmp_path: Path) -> None:
    """15 groups of prior sd s next to a flat level, whose sd is then s / 15^(1/2), and the evidence
    falls as s^-14. What the rows say about the level is left by a difference in all of whose digits
    its terms agree: at 1e8, 1.1 nats and two thirds of the sd were lost under `converged`."""
    model, place = lgm.loads(text("poisson", a="flat")), folder(tmp_path / "s", rows("poisson"))
    fits = {s: lgm.fit(model, place, fixed={"s": s}, tol=1e-9) for s in (1e4, 1e6, 1e8)}
    for s, fit in fits.items():
        assert fit.converged
        assert fit.sd("a").item() == pytest.approx(s / 15**0.5, rel=1e-8)
        assert fit.mean("a").item() == pytest.approx(fits[1e8].mean("a").item(), abs=1e-5)
        scaled = fit.log_evidence + 14.0 * np.log(s)
        assert scaled == pytest.approx(fits[1e8].log_evidence + 14.0 * np.log(1e8), abs=2e-6)
    planned = compiled(model, place)[1]
    theta = {"s": np.array(1e4)}
    slope = evidence_gradient(planned, posterior(planned, theta), theta, {})["s"]
    assert float(slope) * 1e4 == pytest.approx(-14.0, rel=1e-5)


def test_flat_levels_and_slopes_that_wide_groups_absorb(tmp_path: Path) -> None:
    """The same of intercepts and slopes with a covariance, s^2 [[1, 0.3], [0.3, 1]]."""
    case = text("vectors", a="flat").replace("latent b ~ normal(sd = 2)", "latent b ~ flat")
    model, place = lgm.loads(case), folder(tmp_path / "s", rows("vectors"))
    shape = np.array([[1.0, 0.3], [0.3, 1.0]])
    fits = {s: lgm.fit(model, place, fixed={"V": s * s * shape}, tol=1e-9) for s in (1e5, 1e7)}
    for s, fit in fits.items():
        assert fit.converged
        for name in ("a", "b"):
            assert fit.sd(name).item() == pytest.approx(s / 15**0.5, rel=1e-8)
    low, high = (fit.log_evidence for fit in fits.values())
    assert high == pytest.approx(low - 28.0 * np.log(100.0), abs=1e-6)
