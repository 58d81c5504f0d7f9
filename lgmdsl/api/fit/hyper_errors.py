"""What the gap of the evidence does to the posterior of the hyperparameters.

delta(theta) = corrected less reported log evidence changes their density by the factor exp(delta).
Over the points of a mixture it changes the weights; about a mode, a slope g of delta along an axis
one sd long moves the mode by g sds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from lgmdsl.accuracy.better import Errors, Unknown, better
from lgmdsl.api.fit.solved import Solved
from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Failed
from lgmdsl.errors import LgmError
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.integration.asymptotic import Asymptotic

COVERED, MOST = 0.95, 12  # of the mixture, and points at most, that are corrected
FEW = 6  # coordinates about a mode


def hyper_errors(
    planned: Plan, solved: Solved, gap: float, seed: int
) -> tuple[Mapping[str, Errors], float]:
    """Errors of every learned hyperparameter by name, and the gap of the whole evidence; none where
    they are not known. `gap`: that at the mode."""
    learned = solved.learned
    assert learned is not None
    if learned.points:
        return _of_mixture(planned, solved, seed)
    hypers = learned.marginals()
    if isinstance(hypers, Asymptotic) and hypers.frame.unknown is None:
        return _about_mode(planned, solved, hypers, gap, seed), gap
    return {}, gap


def _of_mixture(planned: Plan, solved: Solved, seed: int) -> tuple[Mapping[str, Errors], float]:
    learned = solved.learned
    assert learned is not None
    thetas, shares, gaps, covered = list[Theta](), list[float](), list[float](), 0.0
    for fitted, share in learned.points[:MOST]:
        if covered >= COVERED:
            break
        engine = planned.at(fitted.theta, seed=seed).engine
        q = engine.condition(fitted.weight, fitted.shift)
        if isinstance(q, Failed):
            continue
        try:
            known = better(planned, fitted.theta, q, fitted.log_evidence, seed)
        except (Unknown, LgmError, np.linalg.LinAlgError):
            continue
        covered += share
        thetas.append(fitted.theta)
        shares.append(share)
        gaps.append(0.0 if known is None else known.log_evidence - fitted.log_evidence)
    if len(thetas) < 3:
        return {}, math.nan
    weight, delta = np.array(shares) / sum(shares), np.array(gaps)
    factor = weight * np.exp(delta - delta.max())
    whole = float(delta.max() + np.log(factor.sum()))
    hypers = learned.marginals()
    out = {}
    for block in planned.canonical.hypers.blocks:
        of = _named(block.name)
        sd = hypers.sd(of).reshape(-1)
        values = np.array([of(t).reshape(-1) for t in thetas])
        if (sd > 0.0).any():
            out[block.name] = _reweighted(values, weight, factor / factor.sum(), sd)
    return out, whole


def _reweighted(values: Array, before: Array, after: Array, sd: Array) -> Errors:
    """Of values (k, m) whose weights (k,) were `before` and are better `after`."""
    means = [w @ values for w in (before, after)]
    spreads = [
        np.sqrt(np.maximum(w @ (values - m) ** 2, 0.0))
        for w, m in zip((before, after), means, strict=True)
    ]
    unit = np.where(sd > 0.0, sd, np.inf)
    shift = (means[0] - means[1]) / unit
    with np.errstate(all="ignore"):
        ratio = np.where((spreads[1] > 0.0) & (sd > 0.0), spreads[0] / spreads[1], 1.0) - 1.0
    return Errors(shift, ratio, np.zeros(len(shift)))


def _about_mode(
    planned: Plan, solved: Solved, hypers: Asymptotic, gap: float, seed: int
) -> Mapping[str, Errors]:
    frame, coordinates = hypers.frame, hypers.coordinates
    if frame.size > FEW or frame.flat.any():
        return {}
    slopes = np.zeros(frame.size)
    for j in range(frame.size):
        ends = [
            _gap(planned, solved, coordinates.unpack(frame.mode + side * frame.axes[:, j]), seed)
            for side in (1.0, -1.0)
        ]
        if not np.isfinite(ends).all():
            return {}
        slopes[j] = 0.5 * (ends[0] - ends[1])
    step = frame.axes @ slopes
    out = {}
    for block in planned.canonical.hypers.blocks:
        of = _named(block.name)
        here, sd = hypers.mean(of).reshape(-1), hypers.sd(of).reshape(-1)
        if not (sd > 0.0).any():
            continue
        # Along the tangent: a whole step of a log would overstate what a large one does.
        small = 1e-3 * step
        away = (of(coordinates.unpack(frame.mode + small)).reshape(-1) - here) * 1e3
        shift = np.where(sd > 0.0, -away / np.where(sd > 0.0, sd, 1.0), 0.0)
        out[block.name] = Errors(shift, np.zeros(len(shift)), np.zeros(len(shift)))
    return out


def _gap(planned: Plan, solved: Solved, theta: Theta, seed: int) -> float:
    """Corrected less reported log evidence at theta, fitted from the mode's posterior."""
    try:
        problem = planned.at(theta, seed=seed)
        found = run(planned.backend, problem, Tolerances(), None, solved.posterior).posterior
        if found is None:
            return math.nan
        known = better(planned, theta, found.conditioned, found.log_evidence, seed)
    except (Unknown, LgmError, np.linalg.LinAlgError):
        return math.nan
    return 0.0 if known is None else known.log_evidence - found.log_evidence


def _named(name: str) -> Callable[[Theta], Array]:
    """A hyperparameter as a function of all."""
    return lambda theta: np.asarray(theta[name], dtype=np.float64)
