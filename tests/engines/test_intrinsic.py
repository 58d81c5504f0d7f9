"""Intrinsic priors (singular precision with a null space) in the precision engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from lgmdsl.arrays import Array, Matrix
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.operators.explicit import Dense, Identity
from lgmdsl.structures.catalogue import structure
from lgmdsl.testing.structure_checks import check_structure


@dataclass(frozen=True, eq=False)
class Walk(Structure):
    """A first-order random walk, Q = D'D / sd^2; its level has density 1."""

    order: int
    sd: Array
    name: ClassVar[str] = "walk"

    @property
    def size(self) -> int:
        return self.order

    @property
    def shape(self) -> Shape:
        return Shape.PRECISION | Shape.IMPROPER

    def _steps(self) -> Array:
        return np.diff(np.eye(self.order), axis=0)

    def precision(self) -> Array:
        return self._steps().T @ self._steps() / float(self.sd) ** 2

    def log_det_precision(self) -> float:
        return float(np.log(self.order) - 2 * (self.order - 1) * np.log(self.sd))

    def null_space(self) -> Array:
        return np.full((self.order, 1), self.order**-0.5)

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        dense = adjoint if isinstance(adjoint, np.ndarray) else adjoint.toarray()
        return {"sd": np.asarray(-2.0 / self.sd * np.sum(dense * self.precision()))}


def test_the_walk_is_a_structure() -> None:
    check_structure(lambda a: Walk(5, a["sd"]), {"sd": np.array(0.7)})


def model(sd: float, tied: bool, extra: bool = False) -> LinearGaussian:
    rng = np.random.default_rng(0)
    blocks = [PriorBlock("f", (Walk(5, np.array(sd)),), np.zeros(5))]
    columns = (
        {"f": Identity(5)}
        if not extra
        else {"f": Dense(np.eye(5)), "w": Dense(rng.normal(size=(5, 2)))}
    )
    if extra:
        mean = np.array([0.3, -0.2])
        blocks.append(PriorBlock("w", (structure("normal", 2, mean=mean, sd=1.1),), mean))
    held = Constraints({"f": Dense(np.ones((1, 5)))}, np.array([0.7])) if tied else None
    return LinearGaussian(tuple(blocks), (Predictor(columns, rng.normal(size=5)),), held)


W, B = (np.array([1.0, 0.0, 2.0, 0.5, -0.02]),), (np.array([0.3, 0.1, -1.0, 0.6, 2.0]),)


@pytest.mark.parametrize("tied", [False, True])
def test_a_walk_is_a_level_and_its_steps(tied: bool) -> None:
    """f = level + cumulated N(0, sd^2) steps, the level flat: a proper block and a flat one."""
    sd, n = 0.8, 5
    q = PrecisionEngine(model(sd, tied)).condition(W, B)
    steps = np.tril(np.ones((n, n)), -1)[:, : n - 1] * 1.0
    blocks = (
        PriorBlock("a", (structure("flat", 1),), np.zeros(1)),
        PriorBlock("e", (structure("normal", n - 1, sd=sd),), np.zeros(n - 1)),
    )
    columns = {"a": Dense(np.ones((n, 1))), "e": Dense(steps)}
    held = None
    if tied:
        rows = {k: Dense(c.dense().sum(axis=0, keepdims=True)) for k, c in columns.items()}
        held = Constraints(rows, np.array([0.7]))
    p = Predictor(columns, model(sd, tied).predictors[0].offset)
    other = CovarianceEngine(LinearGaussian(blocks, (p,), held)).condition(W, B)
    np.testing.assert_allclose(q.mean[0], other.mean[0], rtol=1e-9)
    np.testing.assert_allclose(q.variance[0], other.variance[0], rtol=1e-9)
    # |Q|_+ = n / sd^(2(n-1)) puts sqrt(n) before N(e), and df = da de. Tied, both count n: one
    # more sqrt(n) for the plane here, the n by which the constraint sees the level there.
    jacobian = 0.0 if tied else 0.5 * np.log(n)
    np.testing.assert_allclose(q.log_normaliser, other.log_normaliser + jacobian, rtol=1e-9)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("extra", [False, True])
def test_slopes(tied: bool, extra: bool) -> None:
    def at(sd: float) -> float:
        q = PrecisionEngine(model(sd, tied, extra)).condition(W, B)
        assert not isinstance(q, Failed)
        return q.log_normaliser

    linear = model(0.8, tied, extra)
    q = PrecisionEngine(linear).condition(W, B)
    adjoint = q.adjoints().precision["f"]
    slope = linear.blocks[0].factors[0].pullback_precision(adjoint)["sd"]
    h = 1e-4
    measured = (8 * (at(0.8 + h) - at(0.8 - h)) - at(0.8 + 2 * h) + at(0.8 - 2 * h)) / (12 * h)
    np.testing.assert_allclose(slope, measured, rtol=1e-8)


def test_products_of_intrinsic_factors() -> None:
    block = PriorBlock("u", (Walk(3, np.array(1.0)), Walk(4, np.array(0.6))), np.zeros(12))
    prior = BlockPrior(block, 0)
    q = prior.precision()
    values = np.linalg.eigvalsh(q)
    assert prior.nullity == prior.null_space.shape[1] == int(np.sum(values < 1e-9))
    np.testing.assert_allclose(
        prior.null_space.T @ prior.null_space, np.eye(prior.nullity), atol=1e-12
    )
    np.testing.assert_allclose(q @ prior.null_space, 0.0, atol=1e-12)
    np.testing.assert_allclose(
        prior.log_det_precision, np.log(values[values > 1e-9]).sum(), rtol=1e-10
    )


def test_covariance_engine_refuses() -> None:
    assert "walk" in CovarianceEngine.refuses(model(1.0, False))
    assert not PrecisionEngine.refuses(replace(model(1.0, False)))
