"""Densities on the predictor's axis know no unit: everything times c moves the log evidence by
-log c for each density, and means and sds by c, for every such family, method and c; or the fit
says that it did not converge."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Status
from lgmdsl.sites.catalogue import SITES, site, sites
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random import latent_blocks as blocks
from lgmdsl.testing.random.model import RandomModel, Sites

from .hostile import fitted
from .methods import METHODS, apart, few, predictors, solved

SCALED = tuple(
    s.spec.name
    for s in sites()
    if s.spec.scales and not s.spec.vector and Property.LIMITED not in s.spec.properties
)
UNITS = (1e-100, 1e-30, 1e-20, 1e-5, 1e3, 1e7, 1e20, 1e100)


def densities(case: RandomModel) -> int:
    """How many densities on the predictor's axis the evidence has."""
    return sum(int(np.count_nonzero(~s.bound.censored)) for s in case.sites)


def test_families_with_a_scale_declare_it() -> None:
    """A field on the axis of s that is not declared would keep its unit."""
    assert {
        "normal.mean",
        "student_t.mean",
        "laplace.mean",
        "normal.mean.censored",
        "sech2",
        "student_t.mean.censored",
        "laplace.mean.censored",
        "normal",
        "laplace",
        "student_t",
        "logistic",
        "exp_power",
    } <= set(SCALED)


@pytest.mark.few(11)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", SCALED)
def test_the_unit_is_irrelevant(family: str, method: str) -> None:
    tally = Counter[str]()

    @given(
        random_models(
            families=(family,), rows=(1, 6), latents=(1, 5), wild=False, flat=True, missing=True
        ),
        st.sampled_from(UNITS),
    )
    @few(2)
    def holds(case: RandomModel, unit: float) -> None:
        one = solved(case, method)
        two = solved(case.measured(unit), method, extreme=True)
        if one is None or two is None:
            tally["refused" if one is None else "no state"] += 1
            return
        if not two.converged:
            tally[f"{one.status}, {two.status}"] += 1
            return
        flats = sum(b.size for b in case.blocks if b.covariance is None)
        gain = (flats - densities(case)) * np.log(unit)
        size = max(1.0, abs(one.log_evidence))
        # What `tol` asks for lies beyond the digits of some bounds: it stops where no step raises
        # them, at the same place.
        close = abs(two.log_evidence - gain - one.log_evidence) < 1e-9 * size
        assert one.converged or (one.status is Status.stalled and close), (
            "in other units it converges"
        )
        tally["compared"] += 1
        assert two.log_evidence - gain == pytest.approx(one.log_evidence, abs=1e-6 * size)
        mean, sd = predictors(two)
        assert apart(predictors(one), (mean / unit, sd / unit)) < 1e-3

    holds()
    assert tally["compared"] > 0 or set(tally) <= {"refused"}, tally


@pytest.mark.parametrize("method", ["laplace", "natural-gradient", "ep"])
@pytest.mark.parametrize("shape", [-0.3, 0.2])
def test_the_unit_of_extremes_is_irrelevant(shape: float, method: str) -> None:
    """Their support moves with the predictor."""
    rng, rows = np.random.default_rng(4), 30
    y = 2.0 + rng.gumbel(size=rows) * np.where(rng.random(rows) < 0.5, 1.0, 0.5)
    parts = (blocks.scalar("a", rows, 1.0, 3.0),)
    family = site("gev.location")

    def at(c: float) -> Fit | str:
        fields: dict[str, float | Array] = {"scale": 1.2, "shape": shape}
        own = Sites(family, "y0", y, fields, {}, np.ones(rows, dtype=bool))
        return fitted(RandomModel(parts, (own,), 0.0).measured(c), method)

    plain = at(1.0)
    if isinstance(plain, str):
        assert plain == "refused"
        return
    assert plain.converged
    for c in UNITS:
        fit = at(c)
        assert not isinstance(fit, str) and fit.converged
        gain = fit.log_evidence + rows * np.log(c) - plain.log_evidence
        assert abs(gain) < 1e-6 * max(1.0, abs(plain.log_evidence))
        assert float(fit.mean("a")) == pytest.approx(c * float(plain.mean("a")), rel=1e-5)


LOGGED = {"lognormal.mean": 1.0, "gamma.log_mean": 1.0, "weibull.log_scale": 1.0,
          "exponential.log_rate": -1.0, "loglogistic.log_scale": 1.0,
          "generalized_gamma.location": 1.0, "generalized_pareto.log_scale": 1.0}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "family", [f + end for f in LOGGED for end in ("", ".censored") if f + end in SITES]
)
def test_the_unit_of_a_positive_response_is_an_offset(family: str, method: str) -> None:
    """y times c, and its log scale, mean or rate moved by log c, which an offset does."""
    rng, rows = np.random.default_rng(3), 5
    parts = (blocks.scalar("a", rows, 0.3, 1.0),)
    spec, found = site(family).spec, Counter[str]()
    parameters: dict[str, float | Array] = {
        n: 0.8 for n in spec.parameters if n not in ("event", "lower", "upper")
    }
    y = rng.lognormal(size=rows)
    interval = {
        "lower": np.where(np.arange(rows) % 2 == 0, 0.5 * y, np.nan),
        "upper": np.where(np.arange(rows) % 3 == 0, 2.0 * y, np.nan),
    }
    types = {"lower": "real?", "upper": "real?"}
    if not family.endswith("censored"):
        interval, types = {}, {}

    def at(c: float) -> Fit | str:
        given = {**parameters, **{n: c * x for n, x in interval.items()}}
        own = Sites(site(family), "y0", c * y, given, types, np.ones(rows, dtype=bool))
        sign = LOGGED[family.removesuffix(".censored")]
        return fitted(RandomModel(parts, (own,), float(sign * np.log(c))), method)

    plain = at(1.0)
    if isinstance(plain, str):
        assert plain == "refused"
        return
    assert plain.converged
    densities = rows - int(
        np.count_nonzero(~np.isnan(list(interval.values())).all(axis=0)) if interval else 0
    )
    for c in (1e-100, 1e-20, 1e20, 1e100):
        fit = at(c)
        if isinstance(fit, str) or not fit.converged:
            found["not converged"] += 1
            continue
        found["compared"] += 1
        moved = fit.log_evidence + densities * np.log(c)
        assert moved == pytest.approx(plain.log_evidence, abs=1e-6 * abs(plain.log_evidence))
        assert float(fit.sd("a")) == pytest.approx(float(plain.sd("a")), rel=1e-3)
    assert found["compared"] == 4, found


LEARNED = """lgm 1
index obs
index group
data y[obs] : real
data who[obs] : group
hyper s : positive ~ exponential(rate = {rate!r})
hyper t : positive ~ half_normal(sd = {wide!r})
latent a ~ normal(sd = {wide!r})
latent u[group] ~ normal(sd = t)
observe y ~ {family}(mean = a + u[who], {scale} = s)
"""


@pytest.mark.few(8)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "hyper"), [("normal", "map"), ("normal", "integrate"), ("student_t", "map")]
)
def test_the_unit_is_irrelevant_to_hypers(family: str, hyper: str) -> None:
    """With the priors' scales times c too."""
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(6), 5)
    y = rng.normal(size=6)[who] + 0.5 * rng.normal(size=30)

    def at(c: float) -> Fit:
        scale = "sd" if family == "normal" else "df = 5, scale" if family[0] == "s" else "scale"
        text = LEARNED.format(rate=1.0 / c, wide=3.0 * c, family=family, scale=scale)
        return lgm.fit(lgm.loads(text), {"y": c * y, "who": who}, hyper=hyper)

    plain, found = at(1.0), 0
    assert plain.converged
    for c in (1e-100, 1e6, 1e100):
        fit = at(c)
        if not fit.converged:
            continue
        found += 1
        off = fit.log_evidence + 30 * np.log(c) - plain.log_evidence
        assert abs(off) < 1e-3, (c, off)
        for name in ("s", "t"):
            ratio = float(fit.mean(name)) / c / float(plain.mean(name))
            assert ratio == pytest.approx(1.0, abs=1e-2), (name, c)
    assert found == 3
