"""Models with intrinsic blocks and constraints, and their answers by dense algebra on the subspace
{Cz = e}: the constraints are integrated out in an orthonormal basis of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.structure import Structure
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Sparse
from lgmdsl.structures.catalogue import structure
from lgmdsl.testing.engine_models import Answer, Case, dense_rows, dense_weight


def ties(linear: LinearGaussian) -> tuple[Array, Array]:
    """Every constraint, dense: each factor's own along its axis at every place of the others, and
    the user's."""
    rows, values = [np.zeros((0, linear.size))], [np.zeros(0)]
    for block in linear.blocks:
        for k, factor in enumerate(block.factors):
            parts = [np.eye(f.size) for f in block.factors]
            parts[k] = factor.constraints().toarray()
            whole = reduce(lambda a, b: np.asarray(np.kron(a, b)), parts)
            here = np.zeros((len(whole), linear.size))
            here[:, linear.slices[block.name]] = whole
            rows.append(here)
            values.append(np.zeros(len(whole)))
    if linear.constraints is not None:
        asked = np.zeros((len(linear.constraints.values), linear.size))
        for name, operator in linear.constraints.columns.items():
            asked[:, linear.slices[name]] = operator.dense()
        rows.append(asked)
        values.append(linear.constraints.values)
    return np.vstack(rows), np.concatenate(values)


def by_subspace(
    linear: LinearGaussian, weight: tuple[Array, ...], shift: tuple[Array, ...]
) -> Answer | None:
    """Moments of z, and log_normaliser: the log of the integral over the subspace, less that of the
    prior over the subspace without the directions of density 1. None where A is not positive
    definite there."""
    priors = [BlockPrior(b, linear.starts[b.name]) for b in linear.blocks]
    q = sla.block_diag(*[p.precision() for p in priors])
    mu = np.concatenate([p.mean for p in priors])
    rows, values = ties(linear)
    if len(rows):
        start = np.linalg.lstsq(rows, values, rcond=None)[0].astype(np.float64)
        basis = np.asarray(sla.null_space(rows), dtype=np.float64)
    else:
        start, basis = np.zeros(linear.size), np.eye(linear.size)
    b, c = dense_rows(linear)
    w, shifts = dense_weight(linear, weight), np.concatenate([np.reshape(s, -1) for s in shift])
    a, h = q + b.T @ w @ b, q @ mu + b.T @ (shifts - w @ c)
    if np.linalg.eigvalsh(basis.T @ a @ basis)[0] <= 0.0:
        return None
    top, mean, covariance = _gaussian(a, h, start, basis)
    stretched = basis.T @ q @ basis
    spectrum, vectors = np.linalg.eigh(stretched)
    free = spectrum <= 1e-10 * max(spectrum[-1], 1e-300)
    moving = np.asarray(basis @ vectors[:, ~free], dtype=np.float64)
    below, _, _ = _gaussian(q, q @ mu, start, moving)
    constant = shifts @ c - 0.5 * c @ w @ c
    return Answer(top - below + float(constant), mean, covariance)


def _gaussian(a: Array, h: Array, start: Array, basis: Array) -> tuple[float, Array, Array]:
    small = basis.T @ a @ basis
    _, log_det = np.linalg.slogdet(small)
    u = np.linalg.solve(small, basis.T @ (h - a @ start))
    mean = start + basis @ u
    value = 0.5 * len(u) * np.log(2 * np.pi) - 0.5 * log_det + h @ mean - 0.5 * mean @ a @ mean
    return float(value), mean, basis @ np.linalg.inv(small) @ basis.T


def graph(rng: np.random.Generator, size: int) -> object:
    """A random graph that may have islands and singletons."""
    upper = np.triu(rng.random((size, size)) < 1.5 / size, 1)
    upper[0, 1] = True
    return sp.csr_array((upper | upper.T).astype(float))


def factors(rng: np.random.Generator, size: int) -> Mapping[str, Structure]:
    """Every Markov structure on an axis."""
    sd, at = float(np.exp(0.4 * rng.normal())), np.cumsum(rng.exponential(size=size) + 0.1)
    adjacency = graph(rng, size)
    root = rng.normal(size=(size, size)) * (rng.random((size, size)) < 2.0 / size)
    return {
        "rw1": structure("rw1", size, sd=sd),
        "rw1 cyclic": structure("rw1", size, sd=sd, cyclic=True),
        "rw1 at": structure("rw1", size, sd=sd, at=at),
        "rw1 free": structure("rw1", size, sd=sd, sum_to_zero=False),
        "rw2": structure("rw2", size, sd=sd),
        "rw2 cyclic": structure("rw2", size, sd=sd, cyclic=True),
        "rw2 at": structure("rw2", size, sd=sd, at=at),
        "rw2 free": structure("rw2", size, sd=sd, sum_to_zero=False),
        "seasonal": structure("seasonal", size, sd=sd, period=3),
        "ar1": structure("ar1", size, sd=sd, rho=0.6),
        "ar": structure("ar", size, sd=sd, pacf=np.array([0.5, -0.3])),
        "ou": structure("ou", size, sd=sd, rate=0.7, at=at),
        "besag": structure("besag", size, graph=adjacency, sd=sd),
        "car": structure("car", size, graph=adjacency, sd=sd, alpha=0.8),
        "gmrf": structure(
            "gmrf", size, precision=sp.csr_array(root @ root.T + np.eye(size)), sd=sd
        ),
        "dense": structure("dense", size, cov=np.cov(rng.normal(size=(size, 3 * size)))),
        "normal": structure("normal", size, sd=sd),
        "iid": structure("iid", size),
    }


def case(seed: int, names: tuple[str, ...], tie: str = "", signed: bool = False) -> Case:
    """A block with the named factors beside an intercept (flat or wide) and a few effects.

    `tie`: "" or a user's constraint on the block's "sum", one "point" of it, or the "effects".
    """
    rng = np.random.default_rng(seed)
    sizes = [int(rng.integers(5, 9)) if len(names) < 3 else 4 for _ in names]
    built = tuple(factors(rng, n)[name] for n, name in zip(sizes, names, strict=True))
    total = int(np.prod(sizes))
    rows = 3 * total
    where = np.concatenate([np.arange(total), rng.integers(0, total, size=rows - total)])
    gather = sp.csr_array((np.ones(rows), (np.arange(rows), where)), shape=(rows, total))
    # Two levels that nothing tells apart are no model.
    flat = bool(rng.integers(2)) and not any("free" in n for n in names)
    mean = rng.normal(size=2)
    intercept = structure("flat", 1) if flat else structure("normal", 1, mean=2.0, sd=30.0)
    blocks = (
        PriorBlock("b0", (intercept,), np.array([0.0 if flat else 2.0])),
        PriorBlock("f", built, np.zeros(total)),
        PriorBlock("w", (structure("normal", 2, mean=mean, sd=1.5),), mean),
    )
    columns: dict[str, Operator] = {
        "b0": Sparse(sp.csr_array(np.ones((rows, 1)))),
        "f": Sparse(gather),
        "w": Dense(rng.normal(size=(rows, 2))),
    }
    weight = rng.exponential(size=rows)
    if signed:
        weight[rng.random(rows) < 0.2] *= -0.005
    constraints = {
        "": None,
        "sum": Constraints({"f": Dense(np.ones((1, total)))}, np.zeros(1)),
        "point": Constraints(
            {"f": Dense(np.eye(1, total, 1)), "w": Dense(np.array([[0.5, 0.0]]))}, np.array([0.7])
        ),
        "effects": Constraints({"w": Dense(np.ones((1, 2)))}, np.array([0.4])),
    }[tie]
    linear = LinearGaussian(blocks, (Predictor(columns, rng.normal(size=rows)),), constraints)
    label = f"{' * '.join(names)}, seed {seed}, {tie}"
    return Case(label, linear, (weight,), (rng.normal(size=rows),))
