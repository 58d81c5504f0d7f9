"""The kept MCMC runs: of these models and data, long enough, and right where a computation without
MCMC can tell; and the model files mean the same as the programs that were sampled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm

from . import random_intercepts
from .data import LOADERS, fingerprint, model_text
from .pinned import PINNED
from .random_intercepts import Exact
from .references import NAMES, Marginals, reference

WANTED = 2500  # effective draws of a hyperparameter: its mean to 0.02 sd


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "data"


def hypers(case: str) -> list[str]:
    """Names of the hypers that have a prior."""
    return list(PINNED[case])


@pytest.mark.parametrize("case", NAMES)
def test_reference_is_of_this_model_and_long_enough(case: str, folder: Path) -> None:
    kept = reference(case)
    assert kept.fingerprint == fingerprint(case, folder), (
        f"the model or the data of {case} have changed since: see mcmc/README.md"
    )
    assert kept.rhat < 1.01
    for name in hypers(case):
        assert kept.quantities[name].ess.min() >= WANTED, name


def exact(case: str, folder: Path) -> tuple[Exact, tuple[str, ...], str]:
    """By quadrature and importance sampling: moments, the coefficients' names, the sd's."""
    d = {k: np.asarray(v, dtype=np.float64) for k, v in LOADERS[case][1](folder).items()}
    if case == "epil_51":
        _, who = np.unique(d["who"], return_inverse=True)
        names: tuple[str, ...] = ("b0", "b_base", "b_trt", "b_base_trt", "b_age", "b_v4")
        columns = [d["base"], d["trt"], d["base"] * d["trt"], d["age"], d["v4"]]
        X = np.column_stack([np.ones(len(who)), *columns])
        problem = random_intercepts.poisson(
            X, d["y"], who.astype(np.int64), np.sqrt(1000.0), 2.0, 1.14
        )
        start = np.array([-1.3, 0.9, -0.9, 0.3, 0.5, -0.2, -1.1])
        return random_intercepts.integrate(problem, start), names, "sigma1"
    names = ("b0", "b_seed", "b_extract", "b_both")[: 3 if case == "seeds_01" else 4]
    columns = [np.ones(21), d["x1"], d["x2"], d["x1"] * d["x2"]][: len(names)]
    problem = random_intercepts.binomial(
        np.column_stack(columns), d["r"], d["n"], np.sqrt(1000.0), 0.5, 0.0164
    )
    start = np.array([*(-0.4, 0.0, 1.0, 0.0)[: len(names)], -2.4])
    return random_intercepts.integrate(problem, start), names, "sigma"


def close(mean: float, sd: float, kept: Marginals) -> None:
    """Within the errors of both: 4 standard errors and 0.015 sd; sds within 3 %."""
    room = 4.0 * float(kept.error) + 0.015 * sd
    assert abs(mean - float(kept.mean)) < room
    assert sd == pytest.approx(float(kept.sd), rel=0.03)


@pytest.mark.few(1)
@pytest.mark.parametrize("case", ["seeds_01", "seeds_02", "epil_51"])
def test_reference_equals_exact_integration(case: str, folder: Path) -> None:
    kept = reference(case).quantities
    found, names, sigma = exact(case, folder)
    assert found.size > 5000
    for k, name in enumerate(names):
        close(float(found.mean[k]), float(found.sd[k]), kept[name])
    close(float(found.mean[-1]), float(found.sd[-1]), kept[sigma])
    variance = {"sigma": "log v", "sigma1": "log v1"}[sigma]
    close(float(found.mean[-2]), float(found.sd[-2]), kept[variance])
    gap = (found.group_mean - kept["u"].mean) / found.group_sd
    assert np.abs(gap).max() < 0.04
    np.testing.assert_allclose(found.group_sd, kept["u"].sd, rtol=0.03)


@pytest.mark.parametrize("case", NAMES)
def test_model_file_means_what_was_sampled(case: str, folder: Path) -> None:
    """At the median of the hypers EP's means are near the sampled ones: priors, scales, names."""
    kept = reference(case).quantities
    middle = {name: kept[name].quantiles[2] for name in hypers(case)}
    fit = lgm.fit(lgm.loads(model_text(case)), LOADERS[case][1](folder), "ep", fixed=middle)
    compared = 0
    for name in {block.name.partition(".")[0] for block in fit.canonical.latents}:
        q = kept[name]
        gap = np.abs(fit.mean(name).values - q.mean) / q.sd
        assert gap.max() < 0.3, name  # a scale off by a factor 1.3 is further off
        ratio = fit.sd(name).values / q.sd
        assert 0.7 < np.median(ratio) < 1.1, name
        compared += 1
    assert compared
