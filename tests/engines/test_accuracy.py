"""The covariance engine's normaliser where the prior is wide, against 50-digit algebra."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Identity
from lgmdsl.structures.catalogue import kernel, structure


def exact(covariance: Array, flat: Array, start: Array, weight: Array, shift: Array) -> float:
    """log int N(s; start + flat f, covariance) exp(-s'Ws/2 + b's) ds df."""
    with mp.workdps(50):
        s, w, b = mp.matrix(covariance), mp.diag(list(weight)), mp.matrix(shift)
        inner = mp.eye(len(weight)) + s * w
        gain = w * mp.inverse(inner)  # W - W C W, C the posterior covariance for fixed f
        m = mp.matrix(start)
        value = -mp.log(mp.det(inner)) / 2
        if flat.shape[1]:
            h = mp.matrix(flat)
            tilt, a = b - w * m, h.T * gain * h
            pull = h.T * (tilt - w * (mp.inverse(inner) * s * tilt))
            m = m + h * mp.lu_solve(a, pull)
            value += flat.shape[1] * mp.log(2 * mp.pi) / 2 - mp.log(mp.det(a)) / 2
        tilt = b - w * m
        value += (tilt.T * mp.lu_solve(inner, s * tilt))[0] / 2
        return float(value + (b.T * m)[0] - (m.T * w * m)[0] / 2)


def error(seed: int, free: int) -> float:
    """Of the log normaliser, for twelve rows of a process of sd 100 beside sites of sd 0.2 to 3."""
    rng = np.random.default_rng(seed)
    rows = 12
    at = rng.normal(size=(rows, 1))
    k = kernel("se", sd=100.0, length=np.array([1.0]))
    gp = structure("gp", rows, at=at, kernel=k)
    blocks = [PriorBlock("f", (gp,), np.zeros(rows))]
    columns: dict[str, Operator] = {"f": Identity(rows)}
    if free:
        blocks.append(PriorBlock("a", (structure("flat", 1),), np.zeros(1)))
        columns["a"] = Dense(np.ones((rows, 1)))
    linear = LinearGaussian(tuple(blocks), (Predictor(columns, rng.normal(size=rows)),))
    weight = np.exp(rng.uniform(-2.0, 3.0, rows))
    shift = weight * rng.normal(size=rows)
    q = CovarianceEngine(linear).condition((weight,), (shift,))
    assert isinstance(q, Conditioned)
    start = linear.predictors[0].offset
    wanted = exact(gp.covariance(), np.ones((rows, free)), start, weight, shift)
    return abs(q.log_normaliser - wanted)


@pytest.mark.parametrize("free", [0, 1])
def test_a_wide_process_leaves_the_normaliser_its_digits(free: int) -> None:
    """What rounding leaves in alpha must enter squared; (b - Ws0)'S alpha / 2 is worse."""
    errors = [error(seed, free) for seed in range(10)]
    assert np.median(errors) < 3e-11 and max(errors) < 1e-9
