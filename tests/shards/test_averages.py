"""Methods that average over q, over shards: against fits with all rows, and differences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.contract import rows as rows_
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Expected
from lgmdsl.learning.objective.gradient import evidence_gradient
from lgmdsl.shards.anchors import Near, Point
from lgmdsl.shards.averages import averaged
from lgmdsl.shards.averages.at_shared import AtShared
from lgmdsl.shards.averages.settling import settle
from lgmdsl.shards.averages.shard_sites import ShardSites
from lgmdsl.shards.passes import Shards
from lgmdsl.shards.questions import Answered, answered
from lgmdsl.shards.shard import ShardSource
from lgmdsl_backends.ep.by_rows import RowPoint
from lgmdsl_backends.ep.by_rows import at as at_sites
from tests.shards.models import (
    CASES,
    check_same,
    compiled,
    folder,
    passes_of,
    posterior,
    rows,
    spread,
    text,
    whole,
)
from tests.shards.test_same_bits import digest
from tests.workers.models import Kept, Killing

METHOD = "natural-gradient"
# A method, and a model that it takes.
OTHERS = [
    *(("ep", case) for case in ("poisson", "trials", "negbinomial", "vectors", "walk", "kinked")),
    *(("double-loop", case) for case in ("residuals", "binary", "kinked")),
]
KINKED = "laplace(mean = eta, scale = t)"  # a likelihood with a kink
STEP = 1e-4


def model_of(case: str) -> lgm.Model:
    if case == "kinked":
        return lgm.loads(text("gaussian", family=KINKED))
    return lgm.loads(text(case))


def data_of(case: str, **more: Any) -> dict[str, Any]:
    return rows("gaussian" if case == "kinked" else case, **more)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("method", "case"), [*((METHOD, case) for case in (*CASES, "kinked")), *OTHERS]
)
def test_bound_moments_and_gradient_are_those_of_all_rows(
    method: str, case: str, tmp_path: Path
) -> None:
    model, place = model_of(case), folder(tmp_path / case, data_of(case))
    canonical, planned = compiled(model, place, method)
    kept = whole(model, place.with_suffix(".parquet"), method)
    theta = canonical.hypers.start({})
    one, other = posterior(planned, theta), posterior(kept, theta)
    check_same(planned, one, kept, other, theta, means=1e-8, variances=1e-7, slopes=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("method", "case"),
    [
        *((METHOD, case) for case in ("negbinomial", "means", "vectors", "kinked")),
        ("ep", "negbinomial"),
        ("double-loop", "residuals"),
    ],
)
def test_the_gradient_is_that_of_differences(method: str, case: str, tmp_path: Path) -> None:
    model = model_of(case)
    place = folder(tmp_path / case, data_of(case, count=60, groups=5), 2)
    canonical, planned = compiled(model, place, method)
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


def source_of(case: str, place: Path) -> tuple[ShardSource, Point]:
    """A shard, and a q of the shared latents to ask it at."""
    canonical, _ = compiled(model_of(case), folder(place, data_of(case), 2), METHOD)
    theta, p = dict(canonical.hypers.start({})), canonical.size
    root = 0.3 * np.eye(p) + 0.1 * np.tri(p)
    return passes_of(canonical).sources[0], Point(
        theta, 0.2 * np.cos(np.arange(p)), root @ root.T, Expected
    )


@pytest.mark.parametrize("case", ["poisson", "vectors", "crossed", "kinked"])
def test_slopes_of_the_expectation_are_those_of_differences(case: str, tmp_path: Path) -> None:
    """In the mean of the shared latents, and in their covariance, which need not be near that of
    any fit."""
    source, at = source_of(case, tmp_path / "rows")
    assert at.covariance is not None
    answer, size = answered(source, at, ()), len(at.beta)

    def value(mean: Any, covariance: Any) -> float:
        return answered(source, at._replace(beta=mean, covariance=covariance), ()).value

    for i in range(size):
        step = STEP * np.eye(size)[i]
        ends = [value(at.beta + sign * step, at.covariance) for sign in (1.0, -1.0)]
        assert answer.slope[i] == pytest.approx((ends[0] - ends[1]) / (2.0 * STEP), rel=1e-5)
        for j in range(i + 1):
            pair = np.zeros((size, size))
            pair[i, j] = pair[j, i] = 0.1 * STEP
            ends = [value(at.beta, at.covariance + sign * pair) for sign in (1.0, -1.0)]
            slope = (ends[0] - ends[1]) / (0.2 * STEP) / (1.0 if i == j else 2.0)
            assert -0.5 * answer.information[i, j] == pytest.approx(slope, rel=1e-4, abs=1e-4)
    source.forget()


def same_bits(one: Answered, other: Answered) -> bool:
    pairs = zip(one[:4], other[:4], strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@pytest.mark.few(3)
@pytest.mark.parametrize("case", ["poisson", "binary", "vectors", "kinked"])
def test_answers_do_not_depend_on_anchors_but_for_rounding(case: str, tmp_path: Path) -> None:
    """And a worker that was asked nothing else gives every bit of them."""
    source, at = source_of(case, tmp_path / "rows")
    assert at.covariance is not None
    a = at._replace(beta=at.beta + 0.05)
    x = at._replace(covariance=0.9 * at.covariance)
    cold = answered(source, at, ())
    nears: tuple[Near, ...] = ((a,), (a, x), (at,))
    for near in nears:
        warm = answered(source, at, near)
        assert warm.passes < cold.passes
        for got, want in zip(warm[:4], cold[:4], strict=True):
            pair = np.asarray(got), np.asarray(want)
            np.testing.assert_allclose(*pair, rtol=1e-7, atol=1e-8)
        source.forget()  # as another worker
        assert same_bits(answered(source, at, near), warm)
        answered(source, x, (at,))
        answered(source, a, (x, at))
        assert same_bits(answered(source, at, near), warm)
    source.forget()


@pytest.mark.few(1)
@pytest.mark.parametrize("fixed", [{"s": 0.7, "t": 0.4}, {"t": 0.4}], ids=["fixed", "map"])
@pytest.mark.parametrize(("method", "off"), [("laplace", 1e-8), (METHOD, 1e-4)])
def test_at_the_default_tolerance_they_agree_as_the_manual_says(
    method: str, off: float, fixed: dict[str, float], tmp_path: Path
) -> None:
    """Means in sds, sds relative; the evidence to a tenth of it, in nats, but to 1e-8."""
    place, model = folder(tmp_path / "shards", rows("crossed")), lgm.loads(text("crossed"))
    kept = {"correction": "off"} | ({} if method == "laplace" else {"merge": "off"})
    one = lgm.fit(model, place, method, "map", fixed)
    other = lgm.fit(model, place.with_suffix(".parquet"), method, "map", fixed, options=kept)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=max(0.1 * off, 1e-8))
    for name in ("a", "b"):
        sd = other.sd(name)
        assert float(np.max(np.abs(one.mean(name) - other.mean(name)) / sd)) < off
        np.testing.assert_allclose(one.sd(name), sd, rtol=off)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "hyper", "case"),
    [
        (METHOD, "map", "crossed"),
        (METHOD, "integrate", "crossed"),
        ("ep", "map", "crossed"),
        ("double-loop", "map", "residuals"),
    ],
)
def test_fits_that_learn_end_where_those_of_all_rows_do(
    method: str, hyper: str, case: str, tmp_path: Path
) -> None:
    """Groups and predictions included, of a fit that was written and read."""
    place, model = folder(tmp_path / "shards", rows(case, 120, 8), 2), lgm.loads(text(case))
    made = lgm.fit(model, place, method, hyper, {"t": 0.4}, tol=1e-9)
    made.save(tmp_path / "fit.nc")
    one = lgm.load_fit(tmp_path / "fit.nc")
    file, kept = place.with_suffix(".parquet"), {"merge": "off", "correction": "off"}
    other = lgm.fit(model, file, method, hyper, {"t": 0.4}, options=kept, tol=1e-9)
    assert one.converged and one.method == method and one.guarantee is other.guarantee
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-7)
    for name in ("a", "b", "s"):
        np.testing.assert_allclose(one.mean(name), other.mean(name), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(one.sd(name), other.sd(name), rtol=1e-4)
    written = one.groups(place, tmp_path / "groups")
    groups = pd.concat([pd.read_parquet(p) for p in written]).set_index("who")
    for kind, of in (("u.mean", other.mean("u")), ("u.sd", other.sd("u"))):
        order = of.sel(group=groups.index.values)
        np.testing.assert_allclose(groups[kind], order, rtol=1e-5, atol=1e-6)
    paths = one.predict_shards(place, tmp_path / "out").paths
    for k, path in enumerate(paths):
        got = pd.read_parquet(path).drop(columns="obs")
        wanted = other.predict(pd.read_parquet(place / f"shard-{k:05d}.parquet")).frame()
        wanted = wanted.drop(columns="obs")
        pd.testing.assert_frame_equal(got, wanted, check_dtype=False, rtol=1e-5, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "hyper"), [(METHOD, "map"), ("ep", "fixed")])
def test_processes_that_end_give_one_hash(
    method: str, hyper: str, tmp_path: Path, crew: Callable[[Any], None]
) -> None:
    shards, model = (
        folder(tmp_path / "shards", rows("poisson", 60, 6), 3),
        lgm.loads(text("poisson")),
    )
    settings: dict[str, Any] = {"fixed": {"s": 0.5}} if hyper == "fixed" else {"start": {"s": 0.5}}

    def of(name: str, jobs: object) -> str:
        fit = lgm.fit(model, shards, method, hyper, tol=1e-3, jobs=jobs, **settings)
        assert fit.converged
        return digest(fit, shards, tmp_path / name, jobs)

    here = of("here", None)
    killing = Killing(2, lambda _, number: number == 20, 1)
    crew(Kept(killing))
    try:
        assert of("killed", 2) == here and killing.kills == 1
    finally:
        killing.close()


LOGISTIC = "logistic(mean = eta, scale = t)"


@pytest.mark.thorough
@pytest.mark.parametrize("unit", [1e-10, 1e10])
@pytest.mark.parametrize(
    ("method", "family"),
    [(METHOD, LOGISTIC), (METHOD, KINKED), ("ep", LOGISTIC), ("double-loop", KINKED)],
)
def test_units_do_not_matter(method: str, family: str, unit: float, tmp_path: Path) -> None:
    data, b = rows("gaussian", 60, 5), "latent b ~ normal(sd = 2)"
    declared = text("gaussian", a=f"normal(sd = {5.0 * unit})", family=family)
    model = lgm.loads(declared.replace(b, f"latent b ~ normal(sd = {2.0 * unit})"))
    place = folder(tmp_path / "rows", {**data, "y": unit * data["y"]}, 2)
    fixed = {"s": 0.5 * unit, "t": 0.3 * unit}
    one = lgm.fit(model, place, method, fixed=fixed, tol=1e-9)
    other = lgm.fit(model, place.with_suffix(".parquet"), method, fixed=fixed, tol=1e-9)
    assert one.converged and one.log_evidence == pytest.approx(other.log_evidence, rel=1e-12)
    np.testing.assert_allclose(one.mean("b"), other.mean("b"), rtol=1e-6)
    np.testing.assert_allclose(one.sd("a"), other.sd("a"), rtol=1e-6)


@pytest.mark.thorough
def test_pairs_of_many_shared_latents_are_sites(tmp_path: Path) -> None:
    """Of which each group touches two or three."""
    data = rows("crossed", 400, 80)
    home = np.array([int(w[1:]) for w in data["who"]]) % 40
    data["what"] = (home + np.arange(400) % 2) % 40
    model, place = lgm.loads(text("crossed")), folder(tmp_path / "shards", data)
    fixed = {"s": 0.5, "t": 0.5}
    canonical, _ = compiled(model, place, METHOD)
    assert spread(canonical).layout.codes is not None
    kept = {"merge": "off", "correction": "off"}
    file = place.with_suffix(".parquet")
    for method in (METHOD, "ep"):
        one = lgm.fit(model, place, method, fixed=fixed, tol=1e-9)
        other = lgm.fit(model, file, method, fixed=fixed, options=kept, tol=1e-9)
        same_shared(one, other)


def same_shared(one: lgm.Fit, other: lgm.Fit) -> None:
    assert one.converged and one.log_evidence == pytest.approx(other.log_evidence, abs=1e-8)
    np.testing.assert_allclose(one.mean("v"), other.mean("v"), atol=1e-6)
    np.testing.assert_allclose(one.sd("v"), other.sd("v"), rtol=1e-6)


@pytest.mark.thorough
def test_auto_takes_what_can_run_the_model(tmp_path: Path) -> None:
    place = folder(tmp_path / "shards", rows("gaussian", 60, 5), 2)
    for case, method in (("gaussian", "laplace"), ("kinked", METHOD)):
        model = model_of(case)
        assert lgm.fit(model, place, fixed={"s": 0.5, "t": 0.7}).method == method
        assert f"method      {method}" in str(lgm.explain(model, place))


@pytest.mark.parametrize("bound", ["jaakkola", "bohning"])
def test_rows_may_answer_through_a_bound(bound: str, tmp_path: Path) -> None:
    model, place = lgm.loads(text("binary")), folder(tmp_path / "shards", rows("binary"))
    file, fixed = place.with_suffix(".parquet"), {"s": 0.5}
    one = lgm.fit(model, place, METHOD, fixed=fixed, bound=bound, tol=1e-9)
    other = lgm.fit(model, file, METHOD, fixed=fixed, bound=bound, options={"merge": "off"})
    assert one.converged and one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    np.testing.assert_allclose(one.mean("a"), other.mean("a"), atol=1e-5)
    one.groups(place, tmp_path / "groups")


def test_counts_that_differ_by_millions_settle_group_by_group(tmp_path: Path) -> None:
    """Whole steps overshoot in some groups, and not in others."""
    data = rows("poisson")
    one_of = {f"g{k}": 10.0 ** (k % 7) for k in range(15)}
    data["y"] = np.round(data["y"] * np.array([one_of[w] for w in data["who"]]))
    model, place = lgm.loads(text("poisson")), folder(tmp_path / "shards", data)
    file, fixed = place.with_suffix(".parquet"), {"s": 4.0}
    one = lgm.fit(model, place, METHOD, fixed=fixed, tol=1e-9)
    other = lgm.fit(model, file, METHOD, fixed=fixed, tol=1e-9, options={"merge": "off"})
    assert one.converged and one.log_evidence == pytest.approx(other.log_evidence, rel=1e-9)
    np.testing.assert_allclose(one.sd("a"), other.sd("a"), rtol=1e-5)  # weights: 1e-6


def test_where_steps_do_not_end_the_back_end_climbs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where neither comes to an end there is no answer, rather than a wrong one."""
    source, at = source_of("poisson", tmp_path / "rows")
    plain = answered(source, at, ())
    source.forget()
    monkeypatch.setattr(averaged, "settle", lambda *_: None)
    climbed = answered(source, at, ())
    assert climbed.value == pytest.approx(plain.value, abs=1e-9)
    np.testing.assert_allclose(climbed.slope, plain.slope, rtol=1e-6, atol=1e-6)
    source.forget()
    monkeypatch.setattr(averaged, "STEPS", 2)
    assert answered(source, at, ()).value == -np.inf
    source.forget()
    shards = Path(source.file.path).parent
    with pytest.raises(lgm.NumericalError) as caught:
        lgm.fit(model_of("poisson"), shards, METHOD, fixed={"s": 0.5})
    assert caught.value.codes == ("E601",)


@pytest.mark.thorough
def test_a_group_that_moved_away_goes_back(tmp_path: Path) -> None:
    """Next to shared latents of five times the variance whole steps from the modes end at rates
    that are no numbers, in some groups; with sites of another model they overshoot."""
    source, at = source_of("poisson", tmp_path / "rows")
    assert at.covariance is not None
    groups = source.shard().groups(at.theta)
    sums, mode = groups.places, groups.eliminated(at.beta)
    start = mode.weight, mode.answer.slope + rows_.times(mode.weight, mode.z)
    wide = at._replace(covariance=5.0 * at.covariance)
    assert wide.covariance is not None
    engine = AtShared(groups, at.beta, wide.covariance)
    with np.errstate(all="ignore"):
        end = settle(Problem((sums,), (sums,), engine), engine, *start, 1e-9, 120)
    assert end is not None
    assert end.elbo == pytest.approx(answered(source, wide, (at,)).value, abs=1e-9)
    engine = AtShared(groups, at.beta, at.covariance)
    problem = Problem((sums,), (sums,), engine)
    (mean,), split = engine.prior_mean, groups.split
    weight, shift = np.zeros((*mean.shape, mean.shape[1])), np.zeros_like(mean)
    weight[:, split.own, split.own] = 10.0
    shift[: len(shift) // 2, split.own] = 200.0
    end = settle(problem, engine, weight, shift, 1e-9, 1000)
    assert end is not None
    assert end.elbo == pytest.approx(answered(source, at, ()).value, abs=1e-10)
    assert settle(problem, engine, weight, shift, 1e-9, 2) is None
    nowhere = at._replace(beta=1e4 + at.beta)
    assert answered(source, nowhere, ()).value == -np.inf
    source.forget()


def test_weights_that_shards_do_not_ask_for_are_no_fixed_point(tmp_path: Path) -> None:
    """EP's residual at the right means and variances that are a quarter too small."""
    model, place = lgm.loads(text("poisson")), folder(tmp_path / "shards", rows("poisson", 60, 5))
    canonical, planned = compiled(model, place, "ep")
    theta = canonical.hypers.start({})
    problem, found = planned.at(theta), posterior(planned, theta)
    (answer,), (weight,), (shift,) = problem.answers, found.weight, found.shift
    (mean,) = found.conditioned.mean
    assert isinstance(answer, Shards)
    for factor, least, most in ((1.0, 0.0, 1e-6), (4.0 / 3.0, 0.2, np.inf)):
        moved = shift + (factor - 1.0) * rows_.times(weight, mean)
        sites = ShardSites(answer, factor * weight, moved)
        point = at_sites(problem, (sites,), 1.0)
        assert isinstance(point, RowPoint)
        assert least <= point.residual <= most
