"""Lines chosen one after another against fits from scratch and dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.acquisition.measuring import Measurable, Measured, Refitted, measure
from lgmdsl.api.design.measurable import lines_of, measurable, measured_response
from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.engine import Engine, Failed
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.dataset import read
from lgmdsl.inference.plan import plan
from lgmdsl.inference.settings import FitSettings
from tests.acquisition.images import Image, image, model
from tests.compiled import canonical_form

KNOWN = image(8)


def pool(m: lgm.Model, of: Image, fit: Any) -> Measurable:
    canonical = canonical_form(m, of.data)
    lines = lines_of(canonical, measured_response(canonical), "line", read({"line": of.line}))
    settings = FitSettings("double-loop", "fixed", tol=1e-9)
    return measurable(plan(canonical, "double-loop"), settings, 0, lines, fit.theta)


def begun(m: lgm.Model, of: Image) -> tuple[Any, Measurable]:
    fit = lgm.fit(m, of.data, "double-loop", tol=1e-9)
    return fit, pool(m, of, fit)


def course(
    m: lgm.Model, of: Image, score: str, steps: int, block: int, oracle: bool
) -> list[Measured | Refitted]:
    fit, measuring = begun(m, of)
    block_of = fit.canonical.blocks[0]
    y = of.y.reshape(-1) if oracle else None
    return list(
        measure(measuring, fit.posterior, block_of.rows, block_of.y, score, steps, block, 0, y)
    )


def scores(of: Image, fit: Any, lines: list[int]) -> dict[int, float]:
    """1/2 log|1 + P^1/2 X V X' P^1/2| of each line, V by draws' covariance: dense solves."""
    q = fit.posterior.conditioned
    v = q.solve(np.eye(of.pixels.size))
    out = {}
    for k in lines:
        rows = np.flatnonzero(of.line.reshape(-1) == k)
        x = of.design[rows] / np.repeat(of.sd, len(of.pixels))[rows, None]
        out[k] = 0.5 * float(np.linalg.slogdet(np.eye(len(rows)) + x @ v @ x.T)[1])
    return out


@pytest.mark.thorough
def test_each_choice_is_the_best_by_a_fit_of_what_was_measured() -> None:
    """With a re-fit after each, to convergence: choice, score and evidence are those of `fit`."""
    m = model()
    events = course(m, KNOWN, "information", 3, 1, True)
    lines, left = [0, 1], [2, 3, 4]
    for choice, refitted in zip(events[::2], events[1::2], strict=True):
        assert isinstance(choice, Measured) and isinstance(refitted, Refitted)
        data = {"y": np.where(np.isin(KNOWN.line, lines), KNOWN.y, np.nan), "s": KNOWN.sd}
        best = scores(KNOWN, lgm.fit(m, data, "double-loop", tol=1e-9), left)
        taken = choice.group + 2
        assert taken == max(best, key=lambda k: best[k])
        assert choice.score == pytest.approx(best[taken], rel=1e-5)
        lines.append(taken)
        left.remove(taken)
        data = {"y": np.where(np.isin(KNOWN.line, lines), KNOWN.y, np.nan), "s": KNOWN.sd}
        fit = lgm.fit(m, data, "double-loop", tol=1e-9)
        assert refitted.posterior.log_evidence == pytest.approx(fit.log_evidence, abs=1e-6)
        mean = refitted.posterior.conditioned.latent_mean
        assert np.allclose(mean, np.asarray(fit.mean("u")).reshape(-1), atol=1e-5)
        assert refitted.status.name == "converged"
        assert np.array_equal(refitted.rows, np.flatnonzero(np.isin(KNOWN.line, lines)))


@pytest.mark.parametrize(("block", "oracle"), [(1, True), (2, True), (3, False)])
@pytest.mark.parametrize("weight", ["", ", weight = 3"])
def test_information_of_a_gaussian_model_adds_up(block: int, oracle: bool, weight: str) -> None:
    """The chain rule: in any order, with or without values, that of all lines together."""
    m = model(potentials=False, weight=weight)
    events = course(m, KNOWN, "information", 3, block, oracle)
    total = sum(e.score or 0.0 for e in events if isinstance(e, Measured))
    precision = (3.0 if weight else 1.0) * np.repeat(KNOWN.sd**-2.0, 8)
    first = KNOWN.line.reshape(-1) <= 1

    def half(rows: BoolArray) -> float:
        a = np.eye(64) / 0.49 + KNOWN.design[rows].T @ (precision[rows, None] * KNOWN.design[rows])
        return 0.5 * float(np.linalg.slogdet(a)[1])

    assert total == pytest.approx(half(np.ones(64, dtype=bool)) - half(first), rel=1e-9)
    last = events[-1]
    if oracle:
        assert isinstance(last, Refitted)
        fit = lgm.fit(m, {"y": KNOWN.y, "s": KNOWN.sd}, "double-loop")
        assert last.posterior.log_evidence == pytest.approx(fit.log_evidence, rel=1e-9)
        mean = last.posterior.conditioned.latent_mean
        assert np.allclose(mean, np.asarray(fit.mean("u")).reshape(-1), atol=1e-9)


def test_without_values_the_rest_keeps_its_weights() -> None:
    """Greedy ranks by dense algebra at the weights of the start."""
    m = model()
    events = course(m, KNOWN, "information", 3, 1, False)
    fit, _ = begun(m, KNOWN)
    v = np.linalg.inv(fit.posterior.conditioned.solve(np.eye(64)))
    left = [2, 3, 4]
    for event in events:
        assert isinstance(event, Measured)
        best = {}
        for k in left:
            rows = np.flatnonzero(KNOWN.line.reshape(-1) == k)
            x = KNOWN.design[rows] / np.repeat(KNOWN.sd, 8)[rows, None]
            gram = x.T @ x
            best[k] = 0.5 * (np.linalg.slogdet(v + gram)[1] - np.linalg.slogdet(v)[1]), gram
        taken = max(left, key=lambda k: best[k][0])
        assert event.group + 2 == taken
        assert event.score == pytest.approx(best[taken][0], rel=1e-6)
        v = v + best[taken][1]
        left.remove(taken)


def test_the_mean_stays_without_values() -> None:
    m = model()
    fit, measuring = begun(m, KNOWN)
    means: list[Array] = []
    make = measuring.engine

    def watched(rows: IntArray) -> Engine:
        engine = make(rows)
        condition = engine.condition

        def keeping(weight: Any, shift: Any) -> Any:
            q = condition(weight, shift)
            assert not isinstance(q, Failed)
            means.append(q.latent_mean)
            return q

        engine.condition = keeping  # type: ignore[method-assign]
        return engine

    object.__setattr__(measuring, "engine", watched)
    block = fit.canonical.blocks[0]
    list(measure(measuring, fit.posterior, block.rows, block.y, "information", 3, 1, 0, None))
    assert len(means) == 2
    for mean in means:
        assert np.allclose(mean, fit.posterior.conditioned.latent_mean, atol=1e-9)


def test_a_refit_starts_where_the_values_put_the_posterior() -> None:
    """Of a Gaussian model that is where it ends."""
    fit, measuring = begun(model(potentials=False), KNOWN)
    refit, block = measuring.refit, fit.canonical.blocks[0]
    seen: list[Array] = []

    def watched(rows: IntArray, y: Array, start: GaussianPosterior) -> Any:
        seen.append(start.conditioned.latent_mean)
        return refit(rows, y, start)

    object.__setattr__(measuring, "refit", watched)
    y = KNOWN.y.reshape(-1)
    events = measure(measuring, fit.posterior, block.rows, block.y, "information", 3, 2, 0, y)
    ends = [e.posterior.conditioned.latent_mean for e in events if isinstance(e, Refitted)]
    assert len(seen) == len(ends) == 2
    for begin, end in zip(seen, ends, strict=True):
        assert np.allclose(begin, end, atol=1e-9)


def test_random_is_ordered_by_its_seed() -> None:
    m = model(potentials=False)
    fit, measuring = begun(m, KNOWN)
    block = fit.canonical.blocks[0]

    def order(seed: int) -> list[int]:
        events = measure(measuring, fit.posterior, block.rows, block.y, "random", 3, 1, seed, None)
        return [e.group for e in events if isinstance(e, Measured)]

    orders = {tuple(order(seed)) for seed in range(8)}
    assert order(3) == order(3) and len(orders) > 2
    assert all(sorted(o) == [0, 1, 2] for o in orders)


def test_a_posterior_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    m = model(potentials=False)
    fit, measuring = begun(m, KNOWN)
    make, block = measuring.engine, fit.canonical.blocks[0]

    def failing(rows: IntArray) -> Engine:
        engine = make(rows)
        engine.condition = lambda weight, shift: Failed("improper")  # type: ignore[method-assign]
        return engine

    object.__setattr__(measuring, "engine", failing)
    with pytest.raises(lgm.NumericalError, match="improper") as caught:
        list(measure(measuring, fit.posterior, block.rows, block.y, "information", 2, 1, 0, None))
    assert caught.value.codes == ("E601",)
