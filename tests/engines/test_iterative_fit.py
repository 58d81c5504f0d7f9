"""Whole fits of images on operators that are never written out, beside the sparse engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.compile import compile_model
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.status import Guarantee
from lgmdsl.dataset import read
from lgmdsl.engines import choose
from lgmdsl.engines.iterative import IterativeEngine
from lgmdsl.inference.driver import Run, Tolerances, run
from lgmdsl.inference.plan import plan
from lgmdsl.inference.registry import backends
from lgmdsl.operators.convolution import Convolution
from lgmdsl.sites.catalogue import find_site

from .unformed import Unformed

TEXT = """lgm 1
index row
index col
index krow
index kcol
data y[row, col]     : real
data psf[krow, kcol] : positive
hyper noise : positive = 0.01
hyper tv    : positive = 1/15
latent u[row, col] ~ flat
let blurred[row, col] = conv2(u, psf, boundary = "circular")
observe y ~ normal(mean = blurred, sd = noise)
potential diff(u, row) ~ laplace(scale = tv)
potential diff(u, col) ~ laplace(scale = tv)
"""
N = 14


def data() -> dict[str, Array]:
    rng = np.random.default_rng(4)
    u = np.zeros((N, N))
    u[4:10, 3:8] = 1.0
    side = np.exp(-(np.linspace(-1.2, 1.2, 3) ** 2))
    psf = np.outer(side, side) / side.sum() ** 2
    blurred = Convolution((N, N), psf, "circular").matvec(u.ravel()).reshape(N, N)
    return {"y": blurred + 0.01 * rng.normal(size=(N, N)), "psf": psf}


def fitted(engine: str, hide: bool = False, samples: int = 20) -> Run:
    canonical = compile_model(lgm.loads(TEXT).checked, read(data()), find_site)
    problem = plan(canonical, "double-loop").at(canonical.hypers.theta({}))
    if engine == "iterative":
        linear = problem.engine.linear
        if hide:
            hidden = tuple(
                Predictor({"u": Unformed(p.columns["u"])}, p.offset) for p in linear.predictors
            )
            linear = LinearGaussian(linear.blocks, hidden)
        problem = replace(problem, engine=IterativeEngine(linear, samples=samples))
    return run(backends()["double-loop"](), problem, Tolerances(), 12)


@pytest.fixture(scope="module")
def truth() -> Run:
    return fitted("sparse")


@pytest.mark.parametrize(("hide", "samples", "close"), [(False, 20, 0.02), (True, 200, 0.05)])
def test_the_double_loop_on_operators(hide: bool, samples: int, close: float, truth: Run) -> None:
    """Forty times fewer solves than latents leave the posterior where it is; the bound rises."""
    found = fitted("iterative", hide, samples=samples)
    assert found.posterior is not None and truth.posterior is not None
    q, exact = found.posterior.conditioned, truth.posterior.conditioned
    sd = np.sqrt(exact.latent_variance)
    assert np.sqrt(np.mean(((q.latent_mean - exact.latent_mean) / sd) ** 2)) < close
    rises = np.diff([t.objective for t in found.trace])
    assert (rises > -1e-9 * abs(found.trace[-1].objective)).all()
    wanted = truth.posterior.log_evidence
    assert abs(found.posterior.log_evidence - wanted) < 4 * q.log_normaliser_error + 2.0  # type: ignore[attr-defined]


def test_a_fit_where_no_exact_engine_is_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = lgm.fit(lgm.loads(TEXT), data(), method="double-loop")
    only = [e for e in choose.ENGINES if e.engine is IterativeEngine]
    monkeypatch.setattr(choose, "ENGINES", only)
    fit = lgm.fit(lgm.loads(TEXT), data(), method="double-loop", max_steps=8)
    sd = np.asarray(exact.sd("u"))
    assert np.abs((np.asarray(fit.mean("u")) - np.asarray(exact.mean("u"))) / sd).max() < 0.2
    assert np.sqrt(np.mean((np.asarray(fit.sd("u")) / sd - 1.0) ** 2)) < 0.05
    again = lgm.fit(lgm.loads(TEXT), data(), method="double-loop", max_steps=8)
    assert fit.log_evidence == again.log_evidence
    assert np.array_equal(np.asarray(fit.sd("blurred")), np.asarray(again.sd("blurred")))
    # It says what it is, and an audit, which needs exact densities, is refused.
    assert fit.guarantee is Guarantee.APPROXIMATE and exact.guarantee is Guarantee.LOWER
    assert "the iterative engine estimates: log evidence +-" in fit.provenance["notes"]
    with pytest.raises(lgm.MethodError, match="estimates"):
        fit.audit(n=200)
