"""What must not change a posterior, for every method: the order of rows, how counts are split, the
units of the latents, where an offset is written, rows that say nothing; and labels, and whether the
model came from text or from Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.sites.catalogue import site
from lgmdsl.testing.models import concave_families, random_models
from lgmdsl.testing.random.latent_blocks import scalar
from lgmdsl.testing.random.model import RandomModel, Sites
from tests.agreement.comparisons import compared, must_run

from .methods import METHODS, apart, few, predictors, solved

CONCAVE = concave_families()
OBSERVING = tuple(name for name in CONCAVE if not site(name).spec.potential)
methods = st.sampled_from(sorted(METHODS))
# EP matches the moments of whole sites, so that their parts are other approximations.
dividing = st.sampled_from(sorted(set(METHODS) - {"ep"}))


def both(case: RandomModel, other: RandomModel, method: str) -> tuple[Fit, Fit] | None:
    """The fits of two spellings of one model; None where the method refuses both, or says of one
    that it did not converge."""
    one, two = solved(case, method), solved(other, method)
    assert (one is None) == (two is None)
    if one is None or two is None or not (one.converged and two.converged):
        return None
    compared(method)
    return one, two


def check_same(
    case: RandomModel,
    other: RandomModel,
    method: str,
    rows: tuple[IntArray | slice, IntArray | slice] = (slice(None), slice(None)),
    gain: float = 0.0,
    scale: float = 1.0,
) -> None:
    """The second has evidence more by `gain`; the predictors of the first's rows[0] are those of
    the second's rows[1]; its latents, but for those of single rows, are the first's over `scale`.
    """
    fits = both(case, other, method)
    if fits is None:
        return
    one, two = fits
    size = max(1.0, abs(one.log_evidence), abs(gain))
    assert two.log_evidence == pytest.approx(one.log_evidence + gain, abs=1e-7 * size)
    (m1, s1), (m2, s2) = predictors(one), predictors(two)
    assert apart((m1[rows[0]], s1[rows[0]]), (m2[rows[1]], s2[rows[1]])) < 1e-4
    for block in case.blocks:
        if not block.each_row:
            here = (one.mean(block.name).values, one.sd(block.name).values)
            there = (two.mean(block.name).values, two.sd(block.name).values)
            assert apart(here, (scale * there[0], scale * there[1])) < 1e-4, block.name


@pytest.mark.thorough
@must_run
@given(
    random_models(families=CONCAVE, wild=False, flat=True, missing=True),
    methods,
    st.randoms(use_true_random=False),
)
@few(14)
def test_the_order_of_rows_is_irrelevant(case: RandomModel, method: str, random) -> None:  # type: ignore[no-untyped-def]
    order = np.array(random.sample(range(case.rows), case.rows))
    check_same(case, case.take(order), method, (order, slice(None)))


@pytest.mark.thorough
@must_run
@given(
    random_models(families=CONCAVE, wild=False, flat=True),
    methods,
    st.sampled_from([1e-3, 0.2, 7.0, 1e4]),
)
@few(14)
def test_the_unit_of_the_latents_is_irrelevant(case: RandomModel, method: str, by: float) -> None:
    flats = sum(b.size for b in case.blocks if b.covariance is None)
    # A flat prior has density 1 in either unit.
    check_same(case, case.rescaled(by), method, gain=-flats * np.log(by), scale=by)


@pytest.mark.thorough
@must_run
@given(random_models(families=CONCAVE, wild=False), methods, st.floats(-3.0, 3.0))
@few(14)
def test_an_offset_may_stand_in_a_prior_mean_or_in_the_data(
    case: RandomModel, method: str, offset: float
) -> None:
    bare = replace(case, blocks=(*case.blocks, scalar("c", case.rows, 0.4, 0.8)))
    written = replace(bare, constant=offset)
    shifts = np.full(case.rows, offset) + (0.0 if case.shifts is None else case.shifts)
    check_same(written, replace(bare, constant=0.0, shifts=shifts), method)
    shifted = scalar("c", case.rows, 0.4 + offset, 0.8)
    moved = replace(bare, constant=0.0, blocks=(*case.blocks, shifted))
    fits = both(written, moved, method)
    if fits is not None:
        one, two = fits
        assert two.log_evidence == pytest.approx(one.log_evidence, rel=1e-7, abs=1e-7)
        assert apart(predictors(one), predictors(two)) < 1e-4
        assert float(two.mean("c")) == pytest.approx(float(one.mean("c")) + offset, abs=1e-4)


@pytest.mark.thorough
@must_run
@given(
    random_models(
        families=("binomial.logit", "binomial.probit"),
        rows=(1, 8),
        latents=(1, 20),
        wild=False,
        likelihoods=1,
    ),
    dividing,
)
@few(10)
def test_a_binomial_is_the_sum_of_its_trials(case: RandomModel, method: str) -> None:
    """k successes of n at one predictor, or n Bernoulli sites there: one posterior; the evidences
    differ by the binomial coefficient."""
    (whole,) = case.sites
    n = np.minimum(np.asarray(whole.parameters["n"]), 6.0)
    y = np.minimum(np.asarray(whole.y), n)
    case = replace(case, sites=(replace(whole, y=y, parameters={"n": n}),))
    trials = n.astype(int)
    rows = np.repeat(np.arange(case.rows), trials)
    if not len(rows):
        return
    pairs = zip(trials, y, strict=True)
    each = np.concatenate([np.arange(k) < successes for k, successes in pairs])
    family = site(whole.family.spec.name.replace("binomial", "bernoulli"))
    split = replace(case, sites=()).take(rows)
    single = Sites(family, "y0", each.astype(float), {}, {}, np.ones(len(rows), dtype=bool))
    ways = special.gammaln(n + 1) - special.gammaln(y + 1) - special.gammaln(n - y + 1)
    apart = replace(split, sites=(single,))
    check_same(case, apart, method, (rows, slice(None)), -float(ways.sum()))


@must_run
@given(
    random_models(families=("poisson.log_rate",), rows=(1, 12), wild=False, likelihoods=1),
    dividing,
    st.floats(0.05, 0.95),
)
@few(8)
def test_a_poisson_count_splits_over_its_exposure(
    case: RandomModel, method: str, share: float
) -> None:
    (whole,) = case.sites
    exposure = whole.parameters.get("exposure", 1.0) + np.zeros(case.rows)
    rows = np.repeat(np.arange(case.rows), 2)
    y = np.repeat(np.asarray(whole.y), 2) // 2
    y[::2] += np.asarray(whole.y) - 2 * y[::2]
    parts = np.column_stack([share * exposure, (1.0 - share) * exposure]).ravel()
    split = replace(case, sites=()).take(rows)
    single = Sites(
        whole.family,
        "y0",
        y,
        {"exposure": parts},
        {"exposure": "positive"},
        np.ones(len(rows), dtype=bool),
    )
    gain = logs(y, parts) - logs(np.asarray(whole.y), exposure)
    check_same(case, replace(split, sites=(single,)), method, (rows, slice(None)), gain)


def logs(y: Array, exposure: Array) -> float:
    """The part of the Poisson's log density that is free of the predictor."""
    return float((y * np.log(exposure) - special.gammaln(y + 1.0)).sum())


@pytest.mark.thorough
@must_run
@given(
    random_models(families=OBSERVING, rows=(1, 20), wild=False, missing=True, flat=True), methods
)
@few(14)
def test_a_missing_row_says_nothing(case: RandomModel, method: str) -> None:
    longer = case.take(np.append(np.arange(case.rows), case.rows - 1))
    absent = np.arange(case.rows + 1) < case.rows
    holed = tuple(replace(s, present=s.present & absent) for s in longer.sites)
    check_same(case, replace(longer, sites=holed), method, (slice(None), slice(case.rows)))


@pytest.mark.thorough
@must_run
@given(
    random_models(
        families=("binomial.logit", "binomial.probit", "poisson.log_rate"),
        rows=(1, 20),
        wild=False,
        flat=True,
        likelihoods=1,
    ),
    methods,
)
@few(14)
def test_a_flat_likelihood_says_nothing(case: RandomModel, method: str) -> None:
    """No trials, or next to no exposure."""
    (given_,) = case.sites
    parameter = "n" if "n" in given_.parameters else "exposure"
    value = given_.parameters.get(parameter, 1.0) + np.zeros(case.rows)
    longer = case.take(np.append(np.arange(case.rows), 0))
    silent = replace(
        longer.sites[0],
        y=np.append(np.asarray(given_.y), 0.0),
        parameters={parameter: np.append(value, 0.0 if parameter == "n" else 1e-200)},
    )
    check_same(case, replace(longer, sites=(silent,)), method, (slice(None), slice(case.rows)))


# ---- labels, and the two ways to write a model ---------------------------------------------------

GLMM = """lgm 1
index obs
index subject
index feat
data X[obs, feat] : real
data who[obs] : subject
data time[obs] : positive
data y[obs] : count
latent b0 ~ normal(mean = 0.3, sd = 3)
latent b[feat] ~ normal(sd = 2)
latent u[subject] ~ normal(sd = 0.7)
let eta[obs] = b0 + X @ b + u[who]
observe y ~ poisson(log_rate = eta, exposure = time)
report rate[obs] = exp(eta)
"""


def made(seed: int, rows: int = 24) -> dict[str, AnyArray]:
    rng = np.random.default_rng(seed)
    return {
        "X": rng.normal(size=(rows, 2)),
        "who": np.array(list("abcd"))[rng.integers(0, 4, rows)],
        "time": rng.random(rows) + 0.5,
        "y": rng.poisson(2.0, rows),
    }


@pytest.mark.thorough
@given(st.integers(0, 2**20))
@few(6)
def test_labels_are_matched_by_name_not_by_position(seed: int) -> None:
    data = made(seed)
    shuffled = {**data, "subject": np.array(list("dbca"))}
    one, two = (lgm.fit(lgm.loads(GLMM), d, "laplace", tol=1e-10) for d in (data, shuffled))
    assert one.converged and two.converged
    assert two.log_evidence == pytest.approx(one.log_evidence, rel=1e-9)
    present = sorted(set(data["who"]))
    np.testing.assert_allclose(
        two.mean("u").sel(subject=present), one.mean("u").sel(subject=present), atol=1e-7
    )


def test_the_builder_and_the_text_give_the_same_fit() -> None:
    data = made(1)
    m = lgm.Model()
    obs, subject, feat = m.index("obs"), m.index("subject"), m.index("feat")
    X = m.data("X", [obs, feat], "real")
    who = m.data("who", [obs], subject)
    time = m.data("time", [obs], "positive")
    y = m.data("y", [obs], "count")
    b0 = m.latent("b0", [], lgm.normal(mean=0.3, sd=3))
    b = m.latent("b", [feat], lgm.normal(sd=2))
    u = m.latent("u", [subject], lgm.normal(sd=0.7))
    eta = m.let("eta", [obs], b0 + X @ b + u[who])
    m.observe(y, lgm.poisson(log_rate=eta, exposure=time))
    m.report("rate", [obs], lgm.exp(eta))
    assert m == lgm.loads(GLMM)
    built = lgm.fit(m, data, method="laplace", tol=1e-10)
    assert built.log_evidence == lgm.fit(lgm.loads(GLMM), data, "laplace", tol=1e-10).log_evidence
