"""Priors with free directions whose sd goes to 0, against dense algebra in f = F a + s R w.

In the coordinates (a, w), w standard normal, everything is regular at s = 0, so the reference has
all its digits at every s, and the slope in s is a difference quotient of it.
"""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.contract.engine import Engine
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.structure import Structure
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.nested.engine import NestedEngine
from lgmdsl.engines.shared.prior import precision_adjoints
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Sparse
from lgmdsl.structures import catalogue

SDS = [1e-1, 1e-3, 1e-5, 1e-8, 1e-12]
LINE = np.array([0.0, 0.3, 0.9, 1.0, 1.8, 2.0, 2.2, 3.1, 4.0, 4.2, 5.0, 6.0])

Factors = Callable[[float], tuple[Structure, ...]]


def walk(sd: float, tied: bool = True, **more: object) -> Structure:
    return catalogue.structure("rw2", 12, sd=np.asarray(sd), cyclic=False, sum_to_zero=tied, **more)


CASES: dict[str, Factors] = {
    "rw2": lambda sd: (walk(sd),),
    "rw2 untied, at unequal places": lambda sd: (walk(sd, tied=False, at=LINE),),
    "rw1 untied": lambda sd: (
        catalogue.structure("rw1", 12, sd=np.asarray(sd), cyclic=False, sum_to_zero=False),
    ),
    "seasonal": lambda sd: (
        catalogue.structure("seasonal", 12, sd=np.asarray(sd), period=np.asarray(4.0)),
    ),
    "rw2 * iid": lambda sd: (walk(sd), catalogue.structure("iid", 3)),
    "iid * rw2": lambda sd: (catalogue.structure("iid", 3), walk(sd)),
}


class Reference:
    """q(a, w) of one block and a flat level, N rows s = M (a, w) + c, by dense algebra."""

    def __init__(self, factors: Factors, design: np.ndarray, offset: np.ndarray) -> None:
        roots: list[np.ndarray] = []
        free: np.ndarray = np.zeros((0, 0))
        for f in factors(1.0):
            q = f.precision()
            q = q.toarray() if sp.issparse(q) else q
            values, vectors = np.linalg.eigh(q)
            kept = values > 1e-9 * values[-1]
            roots.append(vectors[:, kept] / np.sqrt(values[kept]))
            null = vectors[:, ~kept]
            tied = f.constraints().toarray()
            own = null @ sla.null_space(tied @ null) if len(tied) and null.size else null
            if own.size:
                free = own if not free.size else np.kron(free, own)
            else:
                free = np.kron(free, np.eye(f.size)) if free.size else np.eye(f.size)
        self.root = roots[0] if len(roots) == 1 else np.kron(*roots)
        self.free, self.design, self.offset = free, design, offset

    def basis(self, sd: float) -> np.ndarray:
        """(n, m) latents of (a, w), and of the level where there is one."""
        own = np.hstack([self.free, sd * self.root])
        level = self.design.shape[1] - len(own)
        return sla.block_diag(own, np.eye(level)) if level else own

    def __call__(
        self, sd: float, w: np.ndarray, b: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """log_normaliser, mean and covariance of all latents."""
        basis, c = self.basis(sd), self.offset
        m = self.design @ basis
        proper = np.zeros(basis.shape[1])
        proper[self.free.shape[1] :][: self.root.shape[1]] = 1.0
        a, h = np.diag(proper) + m.T @ (w[:, None] * m), m.T @ (b - w * c)
        mean = np.linalg.solve(a, h)
        value = b @ c - 0.5 * c @ (w * c) + 0.5 * h @ mean - 0.5 * np.linalg.slogdet(a)[1]
        value += 0.5 * np.sum(proper == 0.0) * np.log(2 * np.pi)
        return float(value), basis @ mean, basis @ np.linalg.solve(a, basis.T)


def case(
    name: str, sd: float
) -> tuple[LinearGaussian, Reference, np.ndarray, np.ndarray, tuple[Structure, ...]]:
    rng = np.random.default_rng(3)
    factors = CASES[name](sd)
    size = int(np.prod([f.size for f in factors]))
    rows = np.concatenate([np.arange(size), rng.integers(size, size=20)])
    pick = sp.csr_array(
        (rng.uniform(0.5, 1.5, len(rows)), (np.arange(len(rows)), rows)), shape=(len(rows), size)
    )
    offset, level = rng.normal(size=len(rows)), np.ones((len(rows), 1))
    blocks = [PriorBlock("f", factors, np.zeros(size))]
    columns: dict[str, Operator] = {"f": Sparse(pick)}
    if "untied" in name:  # the level is one of f's
        level = np.zeros((len(rows), 0))
    else:
        blocks.append(PriorBlock("level", (catalogue.structure("flat", 1),), np.zeros(1)))
        columns["level"] = Dense(level)
    linear = LinearGaussian(tuple(blocks), (Predictor(columns, offset),))
    reference = Reference(CASES[name], np.hstack([pick.toarray(), level]), offset)
    return linear, reference, rng.uniform(0.5, 2.0, len(rows)), rng.normal(size=len(rows)), factors


@pytest.mark.parametrize("engine", [PrecisionEngine, SparseEngine])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sd", SDS)
def test_all_digits_at_small_sds(engine: type[Engine], name: str, sd: float) -> None:
    linear, reference, w, b, factors = case(name, sd)
    q = engine(linear).condition((w,), (b,))
    value, mean, covariance = reference(sd, w, b)
    assert q.log_normaliser == pytest.approx(value, abs=2e-8)
    sds = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(q.latent_mean, mean, atol=1e-7)
    np.testing.assert_allclose(np.sqrt(q.latent_variance), sds, rtol=1e-7)
    rows = reference.design @ covariance @ reference.design.T
    np.testing.assert_allclose(q.variance[0], rows.diagonal(), rtol=1e-7)
    np.testing.assert_allclose(q.mean[0], reference.design @ mean + reference.offset, atol=1e-7)
    whole = linear.predictors[0]
    np.testing.assert_allclose(q.project(whole, full=True)[1], rows, atol=1e-7)
    rhs = np.random.default_rng(0).normal(size=(linear.size, 2))
    np.testing.assert_allclose(q.solve(rhs), covariance @ rhs, atol=1e-7)
    adjoints = q.adjoints()
    alpha = b - w * (reference.design @ mean + reference.offset)
    np.testing.assert_allclose(adjoints.offset[0], alpha, atol=1e-7)
    slope = np.outer(alpha, mean) - w[:, None] * (reference.design @ covariance)
    own = adjoints.operator[0]["f"]
    there = linear.predictors[0].columns["f"].dense() != 0.0
    np.testing.assert_allclose(own.toarray()[there], slope[:, : there.shape[1]][there], atol=1e-7)
    parts = precision_adjoints(linear.blocks[0], adjoints.precision["f"])
    scaled = next(k for k, f in enumerate(factors) if f.nullity)
    found = sd * float(factors[scaled].pullback_precision(parts[scaled])["sd"])
    step = 1e-4
    ends = [reference(sd * np.exp(e), w, b)[0] for e in (step, -step)]
    assert found == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=2e-7 + 1e-7 * abs(found))


@pytest.mark.parametrize("engine", [PrecisionEngine, SparseEngine])
@pytest.mark.parametrize("kind", ["rw1", "rw2"])
def test_a_stiff_walk_next_to_loose_ones(engine: type[Engine], kind: str) -> None:
    """Ties of several blocks, which orthonormal rows mixed: of a walk whose sd is 1e-6 the digits
    were lost to those of the others, 0.07 nats at an sd of 1e-6 next to sds of 1. The limit is the
    model without the walk, but for its line."""
    rng, rows, size = np.random.default_rng(2), 200, 30
    shape = {"cyclic": False, "sum_to_zero": True}

    def blocks(sd: float) -> tuple[PriorBlock, ...]:
        sds = {"f0": 0.5, "f1": 0.3, "f2": 4.0, "f3": sd}
        made = {
            n: catalogue.structure(kind, size, sd=np.asarray(s), **shape) for n, s in sds.items()
        }
        level = PriorBlock("level", (catalogue.structure("flat", 1),), np.zeros(1))
        return (level, *(PriorBlock(n, (f,), np.zeros(size)) for n, f in made.items()))

    columns: dict[str, Operator] = {"level": Dense(np.ones((rows, 1)))}
    for k in range(4):
        place = (np.arange(rows), rng.integers(size, size=rows))
        columns[f"f{k}"] = Sparse(sp.csr_array((np.ones(rows), place), shape=(rows, size)))
    w, b = rng.uniform(0.2, 0.4, rows), rng.normal(size=rows)
    predictor = Predictor(columns, np.zeros(rows))

    def value(sd: float) -> float:
        return engine(LinearGaussian(blocks(sd), (predictor,))).condition((w,), (b,)).log_normaliser

    lines = np.arange(size) - (size - 1) / 2
    line = (columns["f3"].dense() @ lines)[:, None] / np.linalg.norm(lines)
    others = {n: o for n, o in columns.items() if n != "f3"}
    limit = blocks(1.0)[:-1]
    if kind == "rw2":
        others["line"] = Dense(line)
        limit += (PriorBlock("line", (catalogue.structure("flat", 1),), np.zeros(1)),)
    without = engine(LinearGaussian(limit, (Predictor(others, np.zeros(rows)),)))
    wanted = without.condition((w,), (b,)).log_normaliser
    for sd in (1e-6, 1e-7, 1e-9, 1e-12):
        assert value(sd) == pytest.approx(wanted, abs=1e-8)


@pytest.mark.thorough
def test_on_the_border_of_groups() -> None:
    """The nested engine, whose border a stiff walk is on, as the others."""
    rng, rows = np.random.default_rng(5), 300
    group, place = rng.integers(40, size=rows), rng.integers(12, size=rows)
    blocks = (
        PriorBlock("u", (catalogue.structure("iid", 40),), np.zeros(40)),
        PriorBlock("f", (walk(1e-7),), np.zeros(12)),
        PriorBlock("level", (catalogue.structure("flat", 1),), np.zeros(1)),
    )

    def pick(entries: np.ndarray, size: int) -> Sparse:
        return Sparse(sp.csr_array((np.ones(rows), (np.arange(rows), entries)), shape=(rows, size)))

    columns = {"u": pick(group, 40), "f": pick(place, 12), "level": Dense(np.ones((rows, 1)))}
    linear = LinearGaussian(blocks, (Predictor(columns, np.zeros(rows)),))
    w, b = rng.uniform(0.5, 2.0, rows), rng.normal(size=rows)
    found = [e(linear).condition((w,), (b,)) for e in (NestedEngine, SparseEngine)]
    values = [q.log_normaliser for q in found]
    assert values[0] == pytest.approx(values[1], abs=1e-8)
    np.testing.assert_allclose(found[0].latent_variance, found[1].latent_variance, rtol=1e-7)
    np.testing.assert_allclose(found[0].latent_mean, found[1].latent_mean, atol=1e-7)


def test_draws_keep_their_distances() -> None:
    sd = 1e-5
    linear, reference, w, b, _ = case("rw2", sd)
    q = SparseEngine(linear).condition((w,), (b,))
    drawn = q.draw(np.random.default_rng(1), 4000)
    _, mean, covariance = reference(sd, w, b)
    lines = reference.free.T @ (drawn.z - mean)[:, :-1].T
    np.testing.assert_allclose(
        lines.std(axis=1),
        np.sqrt(reference.free.T @ covariance[:-1, :-1] @ reference.free)[0],
        rtol=0.05,
    )
    assert drawn.rank == linear.size - 1
    assert drawn.radius.mean() == pytest.approx(drawn.rank, rel=0.05)


def test_what_no_datum_sees_is_still_named() -> None:
    """The line of a stiff walk that is seen at one place is improper, by the user's own latent."""
    factors = (walk(1e-8),)
    blocks = (PriorBlock("f", factors, np.zeros(12)),)
    pick = sp.csr_array(([0.0], ([0], [3])), shape=(1, 12))
    linear = LinearGaussian(blocks, (Predictor({"f": Sparse(pick)}, np.zeros(1)),))
    failed = SparseEngine(linear).condition((np.ones(1),), (np.ones(1),))
    assert {t.latent for t in failed.direction.terms} == {"f"}
