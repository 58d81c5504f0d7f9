"""bound <= quadrature's ELBO <= log evidence by brute force; piecewise bounds by their own gap."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from lgmdsl.bounds.catalogue import bound as named
from lgmdsl.bounds.logistic import logistic_form
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee
from lgmdsl.testing.models import concave_families, random_models
from lgmdsl.testing.random.evidence import brute_log_evidence
from lgmdsl.testing.random.model import RandomModel

from .methods import few, solved

LOGISTIC = ("bernoulli.logit", "binomial.logit", "sech2", "logistic")
BOUNDS = (
    "jaakkola",
    "bohning",
    "piecewise-linear-3",
    "piecewise-linear-12",
    "piecewise-quadratic-3",
    "piecewise-quadratic-10",
    "piecewise-quadratic-40",
)


def brute(case: RandomModel) -> float:
    """The evidence; examples that brute force cannot settle do not count."""
    try:
        return brute_log_evidence(case)
    except (ValueError, ArithmeticError):
        reject()


def elbo(case: RandomModel, bound: str | None = None) -> tuple[float, float]:
    """The ELBO and what its rounding may be."""
    fit = solved(case, "natural-gradient", bound=bound)
    assert fit is not None
    exact = all(Property.GAUSSIAN in s.family.spec.properties for s in case.sites)
    assert fit.guarantee in ((Guarantee.EXACT,) if exact else (Guarantee.LOWER,))
    return fit.log_evidence, 1e-7 * max(1.0, abs(fit.log_evidence))


@pytest.mark.thorough
@given(
    random_models(
        families=concave_families(), rows=(1, 6), latents=(1, 3), wild=False, missing=True
    )
)
@few(10)
def test_the_elbo_is_below_the_evidence(case: RandomModel) -> None:
    found, slack = elbo(case)
    assert found <= brute(case) + slack


@given(random_models(rows=(1, 4), latents=(1, 1), wild=False))
@few(6)
def test_so_it_is_for_sites_that_are_not_log_concave(case: RandomModel) -> None:
    found, slack = elbo(case)
    assert found <= brute(case) + slack


@pytest.mark.thorough
@given(
    random_models(
        families=(*LOGISTIC, "poisson.log_rate"), rows=(1, 6), latents=(1, 3), wild=False
    ),
    st.lists(st.sampled_from(BOUNDS), min_size=2, max_size=4, unique=True),
)
@few(8)
def test_bounds_are_below_the_elbo_and_it_below_the_evidence(
    case: RandomModel, bounds: list[str]
) -> None:
    logistic = [s.bound for s in case.sites if s.family.spec.name in LOGISTIC]
    if not logistic:
        reject()
    best, slack = elbo(case)
    assert best <= brute(case) + slack
    trials = sum(float(logistic_form(s).n.sum()) for s in logistic)
    for bound in bounds:
        found, _ = elbo(case, bound)
        assert found <= best + slack, bound
        gap = named(bound, Expected).spec.error
        if math.isfinite(gap):
            assert found >= best - trials * gap - slack, bound


@pytest.mark.thorough
@given(random_models(families=LOGISTIC, rows=(5, 30), latents=(1, 40), flat=True))
@few(5)
def test_bounds_are_below_the_elbo_of_larger_models(case: RandomModel) -> None:
    best, slack = elbo(case)
    trials = sum(float(logistic_form(s.bound).n.sum()) for s in case.sites)
    for bound in BOUNDS:
        found, _ = elbo(case, bound)
        assert found <= best + slack, bound
        gap = named(bound, Expected).spec.error
        if math.isfinite(gap):
            assert found >= best - trials * gap - slack, bound
    assert elbo(case, "piecewise-quadratic-40")[0] == pytest.approx(best, abs=slack + 2e-5 * trials)
