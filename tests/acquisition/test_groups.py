"""The information of groups of measurements against determinants by numpy and against brute force
over joint entropies; the bound, and the search from the highest bound downwards."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.acquisition import measuring as module
from lgmdsl.acquisition.measuring import best_group, bounds, information
from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.model import some_rows
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.operators.fourier import Fourier
from tests.acquisition.images import Image, image, model

KNOWN = image()
GROUPS = tuple(np.flatnonzero(KNOWN.line.reshape(-1) == k) for k in (2, 3))


def whole(of: Image) -> Predictor:
    return Predictor({"u": Fourier(of.pixels.shape)}, np.full(of.pixels.size, 0.3))


def precision(of: Image) -> Array:
    return np.repeat(of.sd**-2.0, len(of.pixels))


def fitted(engine: str = "precision") -> tuple[Conditioned, LinearGaussian]:
    fit = lgm.fit(model(), KNOWN.data, "double-loop", options={"engine": "precision"})
    linear = fit.canonical.linear({})
    made = PrecisionEngine(linear) if engine == "precision" else IterativeEngine(linear)
    q = made.condition(fit.weight, fit.shift)
    assert not isinstance(q, Failed)
    return q, linear


def covariance(q: Conditioned) -> Array:
    """V by inversion of A = B'WB of all sites, written out."""
    f, n = KNOWN.design, len(KNOWN.pixels)
    step = np.diff(np.eye(n), axis=0)
    rows = [
        f[KNOWN.line.reshape(-1) <= 1],
        np.kron(step, np.eye(n)),
        np.kron(np.eye(n), step),
    ]
    a = sum(b.T @ (w[:, None] * b) for b, w in zip(rows, q.weight, strict=True))
    return np.asarray(np.linalg.inv(a))


@pytest.mark.parametrize("engine", ["precision", "iterative"])
def test_information_is_the_log_determinant(engine: str) -> None:
    q, _ = fitted(engine)
    v = covariance(q)
    for rows in GROUPS:
        x = np.sqrt(precision(KNOWN)[rows])[:, None] * KNOWN.design[rows]
        want = 0.5 * np.linalg.slogdet(np.eye(len(rows)) + x @ v @ x.T)[1]
        found = information(q, some_rows(whole(KNOWN), rows), precision(KNOWN)[rows])
        assert found == pytest.approx(want, rel=1e-8)


def test_information_is_the_entropy_that_is_lost() -> None:
    """log|V| before and after, of the posterior conditioned on the measurements as well."""
    q, _ = fitted()
    v = covariance(q)
    for rows in GROUPS:
        x = KNOWN.design[rows]
        after = np.linalg.inv(v) + x.T @ (precision(KNOWN)[rows][:, None] * x)
        want = 0.5 * (np.linalg.slogdet(after)[1] + np.linalg.slogdet(v)[1])
        found = information(q, some_rows(whole(KNOWN), rows), precision(KNOWN)[rows])
        assert found == pytest.approx(want, rel=1e-8)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_small_and_large_noise(scale: float) -> None:
    """Few nats of useless measurements keep their digits: 1/2 tr PV."""
    q, _ = fitted()
    rows = GROUPS[0]
    p = precision(KNOWN)[rows] * scale
    v = KNOWN.design[rows] @ covariance(q) @ KNOWN.design[rows].T
    found = information(q, some_rows(whole(KNOWN), rows), p)
    if scale < 1.0:
        assert found == pytest.approx(0.5 * float(p @ np.diag(v)), rel=1e-8)
    elif scale > 1.0:
        assert found == pytest.approx(0.5 * (np.log(p).sum() + np.linalg.slogdet(v)[1]), rel=1e-8)
    else:
        assert 0.0 < found < 0.5 * float(np.log1p(p * np.diag(v)).sum())


def test_bounds_by_draws_come_to_hadamard_s() -> None:
    """Within their standard errors, which say how they scatter."""
    q, linear = fitted("iterative")
    v = covariance(q)
    p = precision(KNOWN)
    variances = [np.diag(KNOWN.design[g] @ v @ KNOWN.design[g].T) for g in GROUPS]
    halves = [np.log1p(p[g] * r).sum() for g, r in zip(GROUPS, variances, strict=True)]
    want = 0.5 * np.array(halves)
    found = [
        bounds(q, linear, whole(KNOWN), p, GROUPS, np.random.default_rng(k)) for k in range(24)
    ]
    value, error = (np.array(part) for part in zip(*found, strict=True))
    away = (value - want) / error
    assert np.abs(value.mean(axis=0) - want).max() < 4.0 * error.mean() / np.sqrt(24)
    assert 0.6 < np.sqrt(np.mean(away**2)) < 1.5


@pytest.mark.parametrize("exact", [True, False])
def test_the_best_group_is_found(exact: bool) -> None:
    q, linear = fitted("precision" if exact else "iterative")
    p = precision(KNOWN)
    scores = [information(q, some_rows(whole(KNOWN), g), p[g]) for g in GROUPS]
    best = best_group(q, linear, whole(KNOWN), p, GROUPS, exact, np.random.default_rng(0))
    assert best.group == int(np.argmax(scores)) and best.score == max(scores)
    assert best.computed == (2 if exact else best.computed)


def test_those_below_the_best_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores 5, 9, 9, 2 under bounds 10, 9.5, 12, 3 with errors: the order, the end, the tie."""
    scores = {0: 5.0, 1: 9.0, 2: 9.0, 3: 2.0}
    seen: list[int] = []

    def known(q: object, predictor: Predictor, precision: Array) -> float:
        seen.append(int(predictor.offset[0]))
        return scores[seen[-1]]

    def bounding(*given: object) -> tuple[Array, Array]:
        return np.array([8.5, 9.5, 12.0, 3.0]), np.array([0.5, 0.0, 0.0, 0.1])

    monkeypatch.setattr(module, "information", known)
    monkeypatch.setattr(module, "bounds", bounding)
    rows: list[IntArray] = [np.array([k]) for k in range(4)]
    q, linear = fitted()
    numbered = Predictor({}, np.arange(4.0))
    found = best_group(q, linear, numbered, np.ones(4), rows, False, np.random.default_rng(0))
    assert seen == [2, 0, 1] and (found.group, found.score, found.computed) == (1, 9.0, 3)


def test_a_group_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    q, _ = fitted()
    monkeypatch.setenv("LGM_MEMORY", "1MB")
    with pytest.raises(lgm.MethodError) as caught:
        information(q, Predictor({}, np.zeros(1000)), np.ones(1000))
    assert caught.value.codes == ("E505",) and "1,000 rows" in str(caught.value)
