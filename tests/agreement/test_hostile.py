"""A small part of the campaign on hostile units (tests/benchmarks/test_hostile.py)."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from lgmdsl.sites.catalogue import site
from lgmdsl.testing.random import latent_blocks as blocks
from lgmdsl.testing.random.model import RandomModel, Sites

from .hostile import hostile, log_evidence, verdict
from .methods import METHODS

MODELS, EACH = 22, 3  # methods of each model, all of them in turn


def test_the_truth_is_true() -> None:
    """Two latents, a Gaussian density: the closed form; one and a Student-t far from its prior."""
    X = np.array([[0.4], [-1.1], [0.7]])
    parts = (blocks.scalar("a", 3, 0.5, 2.0), blocks.coefficients("b", X, 0.0, 1.0))
    y = np.array([1.0, -0.3, 2.2])
    own = Sites(site("normal.mean"), "y0", y, {"sd": 0.05}, {}, np.ones(3, dtype=bool))
    case = RandomModel(parts, (own,), 0.2)
    away = y - case.offset - case.design @ case.mean
    cov = case.design @ case.covariance @ case.design.T + 0.05**2 * np.eye(3)
    exact = -0.5 * (away @ np.linalg.solve(cov, away) + np.linalg.slogdet(2 * np.pi * cov)[1])
    assert log_evidence(case) == pytest.approx(exact, abs=1e-7)


@pytest.mark.thorough
def test_nothing_is_wrong_under_converged() -> None:
    tally, wrong, names = Counter[str](), list[str](), list(METHODS)
    for seed in range(MODELS):
        one = hostile(seed)
        truth = log_evidence(one.plain)
        assert math.isfinite(truth)
        for k in range(EACH):
            method = names[(EACH * seed + k) % len(names)]
            found = verdict(one, method, truth)
            tally[found.partition(":")[0]] += 1
            if found.startswith("wrong"):
                wrong.append(f"seed {seed}, {method}: {found}\n{one.other!r}")
    assert not wrong, "\n".join(wrong)
    assert tally["agrees"] > 0.6 * MODELS * EACH, tally
