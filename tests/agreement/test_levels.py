"""Responses at a level of up to 1e12 times their noise: the evidence of Gaussian models against 60
digits, for every exact engine and for methods of every kind, wherever the level is written; sites
that are not Gaussian against themselves without the level."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.problem import Problem
from lgmdsl.engines.choose import ENGINES
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.registry import backends
from lgmdsl.sites.catalogue import site
from lgmdsl.testing.random import latent_blocks as blocks
from lgmdsl.testing.random.model import RandomModel, Sites

ROWS, GROUPS, NOISE = 12, 4, 0.5
KINDS = ("mean", "wide", "flat", "offset")
LEVELS = (1e6, 5e6, 1e9, 1e12)
EXACT = [e.engine for e in ENGINES if e.engine.exact]


def leveled(level: float, kind: str, family: str = "normal.mean", **more: float) -> RandomModel:
    """Groups about a level, which a prior mean, a wide or flat prior, or an offset knows."""
    rng = np.random.default_rng(2)
    who = rng.integers(0, GROUPS, ROWS)
    mean, sd = {"mean": (level, 3.0), "wide": (0.0, level), "flat": (0.0, np.inf)}.get(
        kind, (0.0, 3.0)
    )
    parts = (
        blocks.scalar("a", ROWS, mean, sd),
        blocks.levels("u", who, GROUPS, 1.3),
        blocks.coefficients("b", rng.normal(size=(ROWS, 2)), 0.0, 1.0),
    )
    # On a grid that doubles have at the highest level, so that y - level is the same at each.
    residual = 0.25 * np.round(4.0 * (rng.normal(size=ROWS) + rng.normal(size=GROUPS)[who]))
    scale = "sd" if family.startswith("normal") else "scale"
    y = level + residual
    own = Sites(site(family), "y0", y, {scale: NOISE, **more}, {}, np.ones(ROWS, dtype=bool))
    return RandomModel(parts, (own,), 0.0, np.full(ROWS, level) if kind == "offset" else None)


def truth(case: RandomModel) -> float:
    """The log density of y, in 60 digits."""
    mp.dps = 60
    cov, mean = mp.zeros(ROWS), [mpf(float(c)) for c in case.offset]
    flat = [b for b in case.blocks if b.covariance is None]
    for block in case.blocks:
        design = mp.matrix(block.columns.tolist())
        if block.covariance is not None:
            # Of a number, squared exactly: its square as a double would be off by an ulp.
            variances = [mpf(float(np.sqrt(v))) ** 2 for v in block.covariance.diagonal()]
            cov += design * mp.diag(variances) * design.T
        at = design * mp.matrix(block.mean.tolist())
        mean = [m + at[i] for i, m in enumerate(mean)]
    noise = mpf(float(case.sites[0].parameters["sd"])) ** 2
    cov += noise * mp.eye(ROWS)
    y = case.sites[0].y
    assert y is not None
    away = mp.matrix([mpf(float(v)) - m for v, m in zip(y, mean, strict=True)])
    lower = mp.cholesky(cov)
    logdet = 2 * sum(mp.log(lower[i, i]) for i in range(ROWS))
    solved = mp.lu_solve(cov, away)
    out = -(ROWS * mp.log(2 * mp.pi) + logdet + (away.T * solved)[0]) / 2
    for block in flat:
        column = mp.matrix(block.columns.tolist())
        across = mp.lu_solve(cov, column)
        size, pull = (column.T * across)[0], (across.T * away)[0]
        out += (mp.log(2 * mp.pi) - mp.log(size) + pull**2 / size) / 2
    return float(out)


def on(case: RandomModel, engine: type[Engine], method: str) -> Problem | None:
    """The problem on that engine; None where it cannot take it."""
    problem = case.problem(method)
    if engine.refuses(problem.engine.linear):
        return None
    assert problem.remade is not None
    return problem.remade(problem.sites, engine(problem.engine.linear))


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", LEVELS)
def test_gaussian_evidence_keeps_its_digits(level: float, kind: str) -> None:
    case = leveled(level, kind)
    wanted = truth(case)
    taken = 0
    for engine in EXACT:
        for method in ("natural-gradient", "ep", "double-loop", "laplace"):
            problem = on(case, engine, method)
            if problem is None:
                continue
            found = run(backends()[method](), problem, Tolerances())
            assert found.status.name == "converged" and found.posterior is not None
            assert found.posterior.log_evidence == pytest.approx(wanted, rel=1e-7), engine.name
            taken += 1
    assert taken >= 12


@pytest.mark.few(10)
@pytest.mark.parametrize("method", sorted(m for m, b in backends().items() if not b.spec.confined))
def test_every_method_keeps_its_digits(method: str) -> None:
    for kind in KINDS:
        if kind == "flat" and method == "lcl":
            continue  # its dual needs proper priors
        case = leveled(1e9, kind)
        fit = case.fit(method)
        assert fit.converged and fit.log_evidence == pytest.approx(truth(case), rel=1e-7), kind
        eta = np.asarray(fit.mean("eta").values)
        y = case.sites[0].y
        assert y is not None and np.abs(eta - y).max() < 3.0


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("family", "method"),
    [
        (family, method)
        for family in ("student_t.mean", "laplace.mean", "normal.mean.censored")
        for method in ("natural-gradient", "ep", "laplace")
        if (family, method) != ("laplace.mean", "laplace")  # a kink
    ],
)
def test_other_sites_do_not_know_the_level(family: str, method: str) -> None:
    more = {"df": 4.0} if family.startswith("student") else {}

    def evidence(level: float, kind: str) -> tuple[float, Array]:
        case = leveled(level, kind, family, **more)
        if family.endswith("censored"):
            y = case.sites[0].y
            assert y is not None
            upper = np.where(np.arange(ROWS) % 3 == 0, y + 1.0, np.nan)
            own = Sites(
                case.sites[0].family,
                "y0",
                y,
                {"sd": NOISE, "upper": upper},
                {"upper": "real?"},
                case.sites[0].present,
            )
            case = RandomModel(case.blocks, (own,), 0.0, case.shifts)
        fit = case.fit(method)
        assert fit.converged
        return fit.log_evidence, np.asarray(fit.mean("u").values)

    for kind in ("mean", "flat", "offset"):
        plain, here = evidence(0.0, kind)
        far, there = evidence(1e12, kind)
        assert far == pytest.approx(plain, rel=1e-6)
        np.testing.assert_allclose(there, here, atol=1e-4)
