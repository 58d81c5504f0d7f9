"""Conformance of an engine: moments, normaliser, draws, constraints, adjoints, failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Engine, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.stacked import flatten
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.operators.explicit import Dense, Sparse
from lgmdsl.structures.independent import Dense as DenseCovariance
from lgmdsl.structures.independent import Flat, Normal
from lgmdsl.testing.engine_models import Case, brute, dense_rows, random_case

MakeEngine = Callable[[LinearGaussian], Engine]


def standard_cases(seeds: Iterable[int] = range(3)) -> list[Case]:
    """Models with and without GPs, flat blocks, signed weights, vector sites and constraints."""
    return [
        random_case(seed, gp, flat, signed, vector, tie)
        for seed in seeds
        for gp in (True, False)
        for flat in (True, False)
        for signed in (True, False)
        for vector in (True, False)
        for tie in ("", "proper", *(("flat",) if flat else ()))
    ]


def check_engine(engine: type[Engine], cases: Iterable[Case] | None = None) -> int:
    """Run all checks on every case that the engine does not refuse; returns how many it took.

    Raises AssertionError where an answer is wrong by more than 1e-9 relative (adjoints 1e-5).
    """
    make: MakeEngine = engine
    taken = 0
    for case in standard_cases() if cases is None else cases:
        if engine.refuses(case.linear):
            continue
        taken += 1
        check_cost(engine, case)
        check_answers(make, case)
        check_distances(make, case)
        check_prior_alone(make, case)
        for tilt in (None, tilted(case)):
            check_offset_adjoint(make, case, tilt=tilt)
            check_adjoints(make, case, tilt=tilt)
    assert taken, f"{engine.name} refuses every case"
    check_failure(engine)
    return taken


def check_cost(engine: type[Engine], case: Case) -> None:
    """What the class declares of its cost, if it does (those in `choose.ENGINES` need not)."""
    try:
        cost = engine.cost(case.linear)
    except NotImplementedError:
        return
    assert 0.0 < cost.flops < np.inf, f"{case.name}: {cost.flops} flops"
    assert 0.0 < cost.doubles < np.inf, f"{case.name}: {cost.doubles} doubles"
    assert isinstance(engine.build(case.linear, 0), engine), f"{case.name}: `build` makes another"


def conditioned(make: MakeEngine, case: Case) -> Conditioned:
    """The case's posterior; AssertionError where the engine fails."""
    q = make(case.linear).condition(case.weight, case.shift)
    assert not isinstance(q, Failed), f"{case.name}: {q.reason}"
    return q


def check_answers(make: MakeEngine, case: Case) -> None:
    """Every answer of `Conditioned` against brute force."""
    q, truth = conditioned(make, case), brute(case.linear, case.weight, case.shift)
    b, c = dense_rows(case.linear)
    _close(case, "log_normaliser", q.log_normaliser, truth.log_normaliser)
    centred = truth.log_normaliser
    for w, shift, m in zip(case.weight, case.shift, q.mean, strict=True):
        centred += float(np.sum(0.5 * rows.quadratic(w, m) - rows.inner(shift, m)))
    _close(case, "centred", q.centred, centred)
    _close(case, "latent_mean", q.latent_mean, truth.mean)
    _close(case, "latent_variance", q.latent_variance, truth.covariance.diagonal())
    cov = b @ truth.covariance @ b.T
    mean, first = b @ truth.mean + c, 0
    for p, m, v in zip(case.linear.predictors, q.mean, q.variance, strict=True):
        part = slice(first, first + p.rows)
        _close(case, "mean", m.reshape(-1), mean[part])
        block = cov[part, part]
        if p.event:
            index = np.arange(p.rows).reshape(-1, p.event)
            _close(case, "variance", v, block[index[:, :, None], index[:, None, :]])
        else:
            _close(case, "variance", v, block.diagonal())
        first += p.rows
    rhs = np.random.default_rng(0).normal(size=(case.linear.size, 2))
    _close(case, "solve", q.solve(rhs), truth.covariance @ rhs)
    _close(case, "solve", q.solve(rhs[:, 0]), truth.covariance @ rhs[:, 0])
    _close(
        case, "pulled_back", make(case.linear).pulled_back(case.shift), b.T @ flatten(case.shift)
    )
    last = case.linear.predictors[-1]
    m, v = q.project(last)
    _close(case, "project mean", m, mean[first - last.rows : first])
    _close(case, "project variance", v, cov.diagonal()[first - last.rows : first])
    _close(
        case,
        "project full",
        q.project(last, full=True)[1],
        cov[first - last.rows :, first - last.rows :],
    )
    if case.linear.constraints is not None:
        z = q.sample(np.random.default_rng(1), 3)
        products = sum(
            op.matvec(z.T[case.linear.slices[name]])
            for name, op in case.linear.constraints.columns.items()
        )
        _close(
            case,
            "constrained draws",
            products,
            case.linear.constraints.values[:, None] + np.zeros(3),
        )


def check_distances(make: MakeEngine, case: Case) -> None:
    """`draw` gives the draws of `sample`, their Mahalanobis distances and the rank of Cov(z)."""
    q, truth = conditioned(make, case), brute(case.linear, case.weight, case.shift)
    drawn = q.draw(np.random.default_rng(4), 5)
    again = q.sample(np.random.default_rng(4), 5)
    assert np.array_equal(drawn.z, again), f"{case.name}: draw and sample differ"
    values, vectors = np.linalg.eigh(truth.covariance)
    free = values > 1e-9 * values[-1]
    assert drawn.rank == free.sum(), f"{case.name}: rank {drawn.rank}, not {free.sum()}"
    white = (drawn.z - truth.mean) @ vectors[:, free] / np.sqrt(values[free])
    wanted = (white**2).sum(axis=1)
    error = np.abs(drawn.radius - wanted).max() / wanted.max()
    assert error <= 1e-6, f"{case.name}: distances of draws off by {error:.1e}"


def check_prior_alone(make: MakeEngine, case: Case) -> None:
    """Without predictors the posterior is the prior: draws of a model's latents ask for it."""
    linear = replace(case.linear, predictors=())
    if any(Shape.IMPROPER in b.shape for b in linear.blocks):
        return
    alone = replace(case, linear=linear, weight=(), shift=())
    unseen = tuple(np.zeros_like(w) for w in case.weight)
    truth = brute(case.linear, unseen, tuple(np.zeros_like(b) for b in case.shift))
    q = conditioned(make, alone)
    assert q.mean == () and q.variance == (), f"{case.name}: moments of no site"
    _close(alone, "latent_mean of the prior", q.latent_mean, truth.mean)
    _close(alone, "latent_variance of the prior", q.latent_variance, truth.covariance.diagonal())
    z = q.sample(np.random.default_rng(0), 2)
    assert z.shape == (2, linear.size), f"{case.name}: draws of the prior have shape {z.shape}"


def check_draws(make: MakeEngine, case: Case, size: int = 40_000, seed: int = 0) -> None:
    """Means and covariances of draws within 5.5 Monte Carlo standard errors."""
    q, truth = conditioned(make, case), brute(case.linear, case.weight, case.shift)
    z = q.sample(np.random.default_rng(seed), size)
    sd = np.sqrt(truth.covariance.diagonal()) + 1e-9
    miss = (z.mean(axis=0) - truth.mean) / sd * np.sqrt(size)
    assert np.abs(miss).max() < 5.5, (
        f"{case.name}: means of draws off by {np.abs(miss).max():.1f} se"
    )
    centred = (z - truth.mean) / sd
    scaled = truth.covariance / np.outer(sd, sd)
    error = (centred.T @ centred / size - scaled) / np.sqrt((1.0 + scaled**2) / size)
    assert np.abs(error).max() < 5.5, f"{case.name}: covariance of draws off"


def tilted(case: Case, seed: int = 4) -> Rows:
    """A random tilt of the shifts."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=np.shape(b)) for b in case.shift)


def check_offset_adjoint(
    make: MakeEngine, case: Case, step: float = 1e-5, tilt: Rows | None = None
) -> None:
    """dF/dc by central differences along a random direction."""
    rng = np.random.default_rng(2)
    turns = [rng.normal(size=p.rows) for p in case.linear.predictors]

    def case_at(t: float) -> Case:
        predictors = tuple(
            replace(p, offset=p.offset + t * d)
            for p, d in zip(case.linear.predictors, turns, strict=True)
        )
        return replace(case, linear=replace(case.linear, predictors=predictors))

    adjoint = conditioned(make, case).adjoints(tilt).offset
    slope = sum(float(a.reshape(-1) @ d) for a, d in zip(adjoint, turns, strict=True))
    _slope("offset", slope, make, case_at, step, tilt)


def check_adjoints(
    make: MakeEngine, case: Case, step: float = 1e-5, tilt: Rows | None = None
) -> None:
    """dF/dB (on B's pattern), dF/dmu and dF/dK or dF/dQ by central differences."""
    adjoints, rng = conditioned(make, case).adjoints(tilt), np.random.default_rng(3)
    for k, p in enumerate(case.linear.predictors):
        for name, operator in p.columns.items():
            derivative = adjoints.operator[k][name]
            array = operator.dense()
            turn: Array = np.asarray(rng.normal(size=array.shape))
            if operator.is_sparse:
                assert sp.issparse(derivative), f"{case.name}: dF/dB of a sparse B is not sparse"
                turn = turn * (array != 0)
                derivative = cast("SparseMatrix", derivative).toarray()
            slope = float(np.sum(np.asarray(derivative) * turn))

            def case_at(
                t: float, k: int = k, name: str = name, array: Array = array, turn: Array = turn
            ) -> Case:
                predictors = list(case.linear.predictors)
                columns = {**predictors[k].columns, name: Dense(array + t * turn)}
                predictors[k] = Predictor(columns, predictors[k].offset, predictors[k].event)
                return replace(case, linear=replace(case.linear, predictors=tuple(predictors)))

            _slope(f"operator {name}", slope, make, case_at, step, tilt)
    for i, block in enumerate(case.linear.blocks):
        if Shape.IMPROPER in block.shape:
            continue
        turn = np.asarray(rng.normal(size=block.size))

        def mean_at(t: float, i: int = i, turn: Array = turn) -> Case:
            block = case.linear.blocks[i]
            return _with_block(
                case, i, PriorBlock(block.name, block.factors, block.mean + t * turn)
            )

        slope = float(adjoints.mean[block.name] @ turn)
        _slope(f"mean {block.name}", slope, make, mean_at, step, tilt)
        _check_prior(
            make,
            case,
            i,
            adjoints.covariance.get(block.name),
            adjoints.precision.get(block.name),
            rng,
            step,
            tilt,
        )


def _check_prior(
    make: MakeEngine,
    case: Case,
    i: int,
    covariance: Array | None,
    precision: Matrix | None,
    rng: np.random.Generator,
    step: float,
    tilt: Rows | None,
) -> None:
    """dF/dK along K + t K turn K (a singular K keeps its range), or dF/dsd through Q."""
    block = case.linear.blocks[i]
    if covariance is not None:
        k = BlockPrior(block, 0).covariance
        inner = np.asarray(rng.normal(size=k.shape))
        turn = np.asarray(k @ np.add(inner, inner.T) @ k)

        def at(t: float) -> Case:
            return _with_factor(case, i, DenseCovariance(np.ascontiguousarray(k + t * turn)))

        slope = float(np.sum(covariance * turn))
        _slope(f"covariance {block.name}", slope, make, at, step, tilt)
    if precision is not None:
        q = _diagonal_precision(block)
        sd, stretch = 1.0 / np.sqrt(q), rng.normal(size=block.size)

        def scaled(t: float) -> Case:
            return _with_factor(case, i, Normal(block.size, 0.0, sd + t * stretch))

        slope = float(precision.diagonal() @ (-2.0 * stretch / sd**3))
        _slope(f"precision {block.name}", slope, make, scaled, step, tilt)


def _diagonal_precision(block: PriorBlock) -> Array:
    """(n,) diagonal precision of a diagonal block."""
    return np.asarray(1.0 / BlockPrior(block, 0).variance)


def _with_block(case: Case, i: int, block: PriorBlock) -> Case:
    blocks = list(case.linear.blocks)
    blocks[i] = block
    return replace(case, linear=replace(case.linear, blocks=tuple(blocks)))


def _with_factor(case: Case, i: int, factor: Structure) -> Case:
    block = case.linear.blocks[i]
    return _with_block(case, i, PriorBlock(block.name, (factor,), block.mean))


def _slope(
    quantity: str,
    slope: float,
    make: MakeEngine,
    case_at: Callable[[float], Case],
    step: float,
    tilt: Rows | None,
) -> None:
    """`slope` against that of log_normaliser (+ tilt'E[s]) along `case_at`."""
    values = []
    for t in (2 * step, step, -step, -2 * step):
        q = conditioned(make, case_at(t))
        turns = () if tilt is None else zip(tilt, q.mean, strict=True)
        values.append(q.log_normaliser + sum(float(np.sum(t * m)) for t, m in turns))
    measured = (8 * (values[1] - values[2]) - (values[0] - values[3])) / (12 * step)
    error = abs(slope - measured)
    assert error <= 1e-5 * max(1.0, abs(measured)), (
        f"{case_at(0.0).name}: d{quantity} {slope} but measured {measured}"
    )


def _close(case: Case, quantity: str, answer: object, wanted: object) -> None:
    a, b = np.asarray(answer), np.asarray(wanted)
    assert a.shape == b.shape, f"{case.name}: {quantity} has shape {a.shape}, not {b.shape}"
    scale = max(1.0, float(np.abs(b).max(initial=0.0)))
    error = float(np.abs(a - b).max(initial=0.0)) / scale
    assert error <= 1e-9, f"{case.name}: {quantity} off by {error:.1e}"


# ---- failure checks ----------------------------------------------------------------------------
# Conformance of an engine where there is no posterior: a value that says so, with a reason.


def check_failure(engine: type[Engine]) -> None:
    """An indefinite posterior and an undetermined flat direction are `Failed`, with a reason."""
    make: Callable[[LinearGaussian], Engine] = engine
    proper = PriorBlock("w", (Normal(2, 0.0, 1.0),), np.zeros(2))
    rows = Predictor({"w": Dense(np.eye(2))}, np.zeros(2))
    one = LinearGaussian((proper,), (rows,))
    ones: Rows = (np.ones(2),)
    if not engine.refuses(one):
        bad = make(one).condition((np.array([-1.5, 1.0]),), ones)
        assert isinstance(bad, Failed) and bad.reason, "an indefinite posterior must be Failed"
    flat = PriorBlock("f", (Flat(2),), np.zeros(2))
    collinear = Sparse(sp.csr_array(np.array([[1.0, 1.0], [2.0, 2.0]])))
    columns = {"w": Dense(np.eye(2)), "f": collinear}
    both = LinearGaussian((proper, flat), (replace(rows, columns=columns),))
    if not engine.refuses(both):
        lost = make(both).condition(ones, ones)
        assert isinstance(lost, Failed), "an improper posterior must be Failed"
        assert "f[" in lost.reason, f"the undetermined direction is not named: {lost.reason}"
