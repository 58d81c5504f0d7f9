"""Decoupled variational inference: known fits, hard models, acceptance, options, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.joint import some_rows
from lgmdsl.contract.objectives.elbo import elbo_at
from lgmdsl.contract.questions import ConjugateAnswer
from lgmdsl.errors import MethodError
from lgmdsl.sites.scalar.exponential_rate import ExponentialSite
from lgmdsl_backends.lcl import LinearlyConstrained
from lgmdsl_backends.lcl import dual as conjugates
from lgmdsl_backends.lcl.dual import Dual
from tests.backends.test_coordinate_ascent import TWO_BLOCKS, two_blocks
from tests.backends.test_lcl_dual import LINE, dual, line
from tests.backends.test_natural_gradient import hard_gp


def same(text: str, data: dict[str, Any], **settings: Any) -> lgm.Fit:
    """lcl's fit, which agrees with natural-gradient's."""
    bound = settings.get("bound")
    best = lgm.fit(lgm.loads(text), data, "natural-gradient", tol=1e-9, bound=bound)
    fit = lgm.fit(lgm.loads(text), data, "lcl", **settings)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(best.log_evidence, rel=1e-6, abs=1e-6)
    one, two = fit.posterior.conditioned, best.posterior.conditioned
    sd = np.sqrt(two.latent_variance)
    np.testing.assert_allclose((one.latent_mean - two.latent_mean) / sd, 0.0, atol=2e-3)
    np.testing.assert_allclose(np.sqrt(one.latent_variance) / sd, 1.0, atol=2e-3)
    return fit


def test_a_step_that_lowers_the_bound_is_damped(monkeypatch: pytest.MonkeyPatch) -> None:
    right = LinearlyConstrained._solved
    dampings: list[float] = []

    def fooled(self: LinearlyConstrained, problem: Any, d: Dual, residual: float) -> Any:
        dampings.append(float(d.proximal.max()))
        if d.proximal.any():
            return right(self, problem, d, residual)
        return elbo_at(problem, tuple(np.full(len(x), 50.0) for x in d.like), d.like)

    monkeypatch.setattr(LinearlyConstrained, "_solved", fooled)
    fit = lgm.fit(lgm.loads(TWO_BLOCKS), two_blocks(), "lcl", max_steps=3)
    assert (np.diff([e.objective for e in fit.trace]) > 0.0).all() and fit.steps == 3
    assert dampings[0] == 0.0 < dampings[1]


def test_a_bound_without_digits_is_not_climbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the terms of the ELBO cancel, a rise is rounding."""
    resolved = lgm.fit(lgm.loads(TWO_BLOCKS), two_blocks(), "lcl", max_steps=0).log_evidence
    judge = "lgmdsl_backends.lcl.backend.comparable"
    monkeypatch.setattr(judge, lambda tried, point: tried.elbo <= resolved + 1e-9)
    fit = lgm.fit(lgm.loads(TWO_BLOCKS), two_blocks(), "lcl")
    assert not fit.converged and fit.log_evidence == resolved


@pytest.mark.parametrize(("bound", "damped"), [(None, False), ("quadrature", False), (None, True)])
def test_who_answers_in_closed_form(
    bound: str | None, damped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoupled answers alone, never a bound's lift nor a damped problem."""
    asked: list[int] = []
    right = ExponentialSite.conjugate

    def counted(self: ExponentialSite, *terms: Array) -> ConjugateAnswer:
        asked.append(len(terms[0]))
        return right(self, *terms)

    monkeypatch.setattr(ExponentialSite, "conjugate", counted)
    if damped:
        assert (d := dual(0.5)).evaluate(d.x0) is not None
        assert not asked
        return
    same(TWO_BLOCKS, two_blocks(), bound=bound)
    assert bool(asked) == (bound is None)


def test_outliers_stand_at_the_edge_of_the_box() -> None:
    """At 200 posterior sds f_m of a Laplace site is its limit to the last digit; and no unit of
    the data is too small or too large for the start, the box and the scalar problems."""
    text = LINE.format(sd="{unit}", site="laplace(mean = f, scale = {scale})")
    fit = same(text.format(unit=1, scale=0.05), line())
    slope = fit.posterior.conditioned.adjoints().offset[0]
    np.testing.assert_allclose(slope[[3, 12]] * 0.05, 1.0, rtol=1e-6)
    for unit in (1e-6, 1e9):
        model = lgm.loads(text.format(unit=f"{unit:.9f}", scale=f"{0.05 * unit:.9f}"))
        other = lgm.fit(model, line(unit), "lcl")
        shifted = fit.log_evidence - 20 * np.log(unit)
        assert other.converged and other.log_evidence == pytest.approx(shifted, rel=1e-7)


def test_sites_that_are_not_log_concave() -> None:
    """Some weights are negative; every step rises."""
    text = LINE.format(sd=1, site="student_t(mean = f, scale = 0.05, df = 4)")
    fit = same(text, line())
    assert fit.posterior.weight[0].min() < 0.0
    assert (np.diff([e.objective for e in fit.trace]) >= -1e-12).all()


@pytest.mark.parametrize("bound", ["jaakkola", "piecewise-quadratic-20"])
def test_bounds(bound: str) -> None:
    same(TWO_BLOCKS, two_blocks(), bound=bound)


def test_a_hard_gp_takes_few_newton_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-BFGS needs some 90 evaluations in each linearisation here; and tangents leave few
    expectations to each."""
    evaluated, asked = list[int](), list[int]()
    evaluate, ask = Dual.evaluate, some_rows

    def counted(self: Dual, *point: Any) -> Any:
        evaluated.append(1)
        return evaluate(self, *point)

    def counting(answer: Any, where: Any, size: int) -> Any:
        asked.append(len(where))
        return ask(answer, where, size)

    monkeypatch.setattr(Dual, "evaluate", counted)
    monkeypatch.setattr(conjugates, "some_rows", counting)
    text, data = hard_gp(60)
    fit = same(text, data)
    assert fit.steps <= 16 and len(evaluated) <= 3 * fit.steps
    assert sum(asked) <= 2 * 60 * len(evaluated)


@pytest.mark.parametrize("scaled", [True, False])
def test_the_paper_s_lbfgs(scaled: bool) -> None:
    options = {"solver": "lbfgs", "scaled": scaled, "evaluations": 60}
    same(TWO_BLOCKS, two_blocks(), options=options)


def test_many_rows_go_to_lbfgs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lgmdsl_backends.lcl.backend.by_newton", None)
    same(TWO_BLOCKS, two_blocks(), options={"largest": 19})
    with pytest.raises(TypeError):
        lgm.fit(lgm.loads(TWO_BLOCKS), two_blocks(), "lcl", options={"largest": 20})


def test_less_penalty_takes_fewer_steps() -> None:
    """The penalty of (18) has the wrong sign for speed."""
    text, data = TWO_BLOCKS, two_blocks()
    steps = [same(text, data, options={"penalty": p}).steps for p in (1.0, 0.1)]
    assert steps[1] < steps[0]


# ---- refusals ----------------------------------------------------------------------------------


def test_flat_priors_are_refused() -> None:
    text = TWO_BLOCKS.replace("normal(sd = 2)", "flat")
    with pytest.raises(MethodError, match="needs proper priors") as raised:
        lgm.fit(lgm.loads(text), two_blocks(), method="lcl")
    assert raised.value.codes == ("E501",) and "natural-gradient" in str(raised.value)


@pytest.mark.parametrize("option", [{"solver": "bfgs"}, {"penalty": 0.0}])
def test_options_are_checked(option: dict[str, Any]) -> None:
    with pytest.raises(MethodError) as raised:
        lgm.fit(lgm.loads(TWO_BLOCKS), two_blocks(), "lcl", options=option)
    assert raised.value.codes == ("E104",)


def test_a_cut_step_is_not_called_converged() -> None:
    fit = lgm.fit(lgm.loads(TWO_BLOCKS), two_blocks(), method="lcl", max_steps=2)
    assert not fit.converged and fit.trace[-1].residual > 1e-4
