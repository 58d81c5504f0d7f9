"""Small linear-Gaussian models for checks of engines, and their answers by brute force."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Identity, Sparse
from lgmdsl.structures.catalogue import kernel, structure


@dataclass(frozen=True, eq=False)
class Case:
    """A model with weights and shifts for which the posterior exists."""

    name: str
    linear: LinearGaussian
    weight: Rows
    shift: Rows


@dataclass(frozen=True, eq=False)
class Answer:
    """Moments of z and the normaliser, by dense algebra in whitened, unconstrained coordinates."""

    log_normaliser: float
    mean: Array
    covariance: Array


def dense_rows(linear: LinearGaussian) -> tuple[Array, Array]:
    """B (P, n) and c (P,)."""
    b = np.zeros((linear.rows, linear.size))
    first = 0
    for p in linear.predictors:
        for name, operator in p.columns.items():
            b[first : first + p.rows, linear.slices[name]] = operator.dense()
        first += p.rows
    return b, np.concatenate([p.offset for p in linear.predictors])


def dense_weight(linear: LinearGaussian, weight: Rows) -> Array:
    """W (P, P)."""
    parts = [np.diag(w) if w.ndim == 1 else sla.block_diag(*w) for w in weight]
    return np.asarray(sla.block_diag(*parts))


def brute(linear: LinearGaussian, weight: Rows, shift: Rows) -> Answer:
    """Integrate over z = z0 + T(y0 + Zu): y whitens proper blocks, Z spans the null space of CT.

    Constraints may touch proper blocks or flat ones, each row one kind only.
    """
    b, c = dense_rows(linear)
    w = dense_weight(linear, weight)
    shifts = np.concatenate([np.reshape(s, -1) for s in shift])
    roots, start, flat = [], [], []
    for block in linear.blocks:
        prior = BlockPrior(block, linear.starts[block.name])
        if prior.flat:
            roots.append(np.eye(block.size))
        else:
            values, vectors = np.linalg.eigh(prior.covariance)
            roots.append(vectors * np.sqrt(np.maximum(values, 0.0)))
        start.append(prior.mean)
        flat.append(np.full(block.size, prior.flat))
    t, z0, free = sla.block_diag(*roots), np.concatenate(start), np.concatenate(flat)
    prior_precision = np.diag(np.where(free, 0.0, 1.0))
    rows, wanted = np.zeros((0, linear.size)), np.zeros(0)
    if linear.constraints is not None:
        rows = np.zeros((len(linear.constraints.values), linear.size))
        for name, operator in linear.constraints.columns.items():
            rows[:, linear.slices[name]] = operator.dense()
        wanted = linear.constraints.values
    turned, target = rows @ t, wanted - rows @ z0
    bt, c0 = b @ t, b @ z0 + c
    a = prior_precision + bt.T @ w @ bt
    h = bt.T @ (shifts - w @ c0)
    top, mean, covariance = _integral(a, h, turned, target)
    proper = ~free
    tying = np.abs(turned[:, proper]).max(axis=1, initial=0.0) > 0
    below, _, _ = _integral(
        prior_precision[np.ix_(proper, proper)],
        np.zeros(proper.sum()),
        turned[np.ix_(tying, proper)],
        target[tying],
    )
    constant = shifts @ c0 - 0.5 * c0 @ w @ c0
    return Answer(top - below + float(constant), z0 + t @ mean, t @ covariance @ t.T)


def _integral(a: Array, h: Array, rows: Array, wanted: Array) -> tuple[float, Array, Array]:
    """log int exp(-y'Ay/2 + h'y) over rows y = wanted, with the mean and covariance of y."""
    if len(rows):
        y0, *_ = np.linalg.lstsq(rows, wanted, rcond=None)
        z = sla.null_space(rows)
    else:
        y0, z = np.zeros(len(a)), np.eye(len(a))
    small, pull = z.T @ a @ z, z.T @ (h - a @ y0)
    sign, log_det = np.linalg.slogdet(small)
    assert sign > 0, "the case has no posterior"
    u = np.linalg.solve(small, pull)
    value = 0.5 * len(u) * np.log(2 * np.pi) - 0.5 * log_det + 0.5 * pull @ u
    value += h @ y0 - 0.5 * y0 @ a @ y0
    return float(value), np.asarray(y0 + z @ u), np.asarray(z @ np.linalg.inv(small) @ z.T)


def random_case(
    seed: int,
    gp: bool = True,
    flat: bool = True,
    signed: bool = False,
    vector: bool = False,
    tie: str = "",
) -> Case:
    """A random model: a normal block with a mean, a GP with duplicate inputs or a product block,
    an optional flat block, scalar and vector sites, constraints on `proper` or `flat`."""
    rng = np.random.default_rng(seed)
    n, rows = int(rng.integers(1, 5)), int(rng.integers(5, 9))
    mean = rng.normal(size=n)
    sd = np.exp(0.3 * rng.normal(size=n))
    blocks = [PriorBlock("w", (structure("normal", n, mean=mean, sd=sd),), mean)]
    columns: dict[str, Operator] = {"w": _operator(rng, rows, n)}
    if gp:
        places = rng.normal(size=(rows, 2))
        places[0] = places[1]
        k = kernel("se", sd=1.3, length=np.array([0.8, 1.7]))
        blocks.append(
            PriorBlock("g", (structure("gp", rows, at=places, kernel=k),), np.zeros(rows))
        )
        columns["g"] = Identity(rows) if rng.integers(2) else _gather(rng, rows, rows)
    else:
        pair = (structure("iid", 2), structure("normal", 2, sd=np.array([0.7, 1.1])))
        blocks.append(PriorBlock("g", pair, rng.normal(size=4)))
        columns["g"] = _operator(rng, rows, 4)
    if flat:
        blocks.append(PriorBlock("f", (structure("flat", 2),), np.zeros(2)))
        columns["f"] = _operator(rng, rows, 2, full=True)
    predictors = [Predictor(columns, rng.normal(size=rows))]
    weight, shift = [_weights(rng, rows, signed)], [rng.normal(size=rows)]
    if vector:
        more = {name: Dense(rng.normal(size=(6, op.shape[1]))) for name, op in columns.items()}
        predictors.append(Predictor(more, rng.normal(size=6), event=3))
        root = rng.normal(size=(2, 3, 3))
        block = root @ root.transpose(0, 2, 1)
        block[0] = np.eye(3) - 1.0 / 3.0  # singular, as softmax sites have
        if signed:
            block[1] -= 0.05 * np.eye(3)
        weight, shift = [*weight, block], [*shift, rng.normal(size=(2, 3))]
    constraints = None
    if tie == "proper":
        constraints = Constraints({"w": Dense(np.ones((1, n)))}, np.array([0.4]))
    elif tie == "flat":
        constraints = Constraints({"f": Dense(np.array([[1.0, 2.0]]))}, np.array([-0.6]))
    linear = LinearGaussian(tuple(blocks), tuple(predictors), constraints)
    traits = {"gp": gp, "flat": flat, "signed": signed, "vector": vector, tie: bool(tie)}
    kind = [word for word, on in traits.items() if on]
    return Case(" ".join([str(seed), *kind]), linear, tuple(weight), tuple(shift))


def _weights(rng: np.random.Generator, rows: int, signed: bool) -> Array:
    w = np.exp(rng.normal(size=rows))
    w[0] = 0.0
    if signed:
        w[1] = -0.02
    return w


def _operator(rng: np.random.Generator, rows: int, size: int, full: bool = False) -> Operator:
    array = rng.normal(size=(rows, size))
    if not full and rng.integers(2):
        import scipy.sparse as sp

        return Sparse(sp.csr_array(array * (rng.uniform(size=array.shape) < 0.6)))
    return Dense(array)


def _gather(rng: np.random.Generator, rows: int, size: int) -> Operator:
    import scipy.sparse as sp

    index = rng.integers(size, size=rows)
    return Sparse(sp.csr_array((np.ones(rows), index, np.arange(rows + 1)), shape=(rows, size)))
