"""Is the posterior of a model with flat or intrinsic blocks proper? Asked before and after a fit.

Before: with unit weights on every row, does any combination of latents stay undetermined?
After: does the joint density fall along the direction in which each improper latent is freest? With
separated classes it does not: Newton's decrement vanishes on the way to infinity.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.structure import Shape
from lgmdsl.errors import Diagnostic, ModelError

# How many posterior sds the density is followed, and the fall in nats that counts as none.
REACH = 10.0
LEVEL = 1e-3
# At most this many latents are followed, the most uncertain first.
FOLLOWED = 200


@np.errstate(all="ignore")  # what overflows fails to factorise
def check_determined(canonical: CanonicalModel, problem: Problem) -> None:
    """Raise ModelError E402 where data and priors leave a direction of the latents free."""
    if not _improper(problem):
        return
    predictors = problem.engine.linear.predictors
    weight = tuple(_unit(p) for p in predictors)
    shift = tuple(np.zeros(w.shape[:-1] if w.ndim == 3 else w.shape) for w in weight)
    outcome = problem.engine.condition(weight, shift)
    if isinstance(outcome, Failed):
        raise ModelError(_free(canonical, _improper(problem)[0], outcome.reason))


def check_bounded(canonical: CanonicalModel, problem: Problem, conditioned: Conditioned) -> None:
    """Raise ModelError E402 where the joint density does not fall along an improper latent."""
    linear = problem.engine.linear
    for name in _improper(problem):
        start, size = linear.starts[name], _size(problem, name)
        variance = conditioned.latent_variance[start : start + size]
        for i in np.argsort(-variance)[:FOLLOWED]:
            unit = np.zeros(linear.size)
            unit[start + i] = 1.0
            direction = conditioned.solve(unit) / np.sqrt(max(variance[i], 1e-300))
            if _least_fall(problem, conditioned, direction) < LEVEL:
                label = _label(canonical, name, int(i))
                reason = f"the likelihood does not fall as {label} goes to infinity"
                raise ModelError(_free(canonical, name, reason))


def _least_fall(problem: Problem, conditioned: Conditioned, direction: Array) -> float:
    """The smaller fall of log p(y, z) from the mode over +-REACH steps of `direction`.

    The prior's part is quadratic: 1/2 t^2 (1 - d'B'WBd), d being one posterior sd long; its slope
    cancels the sites' at the mode.
    """
    linear = problem.engine.linear
    s = conditioned.mean
    slopes = tuple(
        b - rows.times(w, m)
        for b, w, m in zip(conditioned.shift, conditioned.weight, s, strict=True)
    )
    steps = tuple(
        _moved(p, direction, linear).reshape(m.shape)
        for p, m in zip(linear.predictors, s, strict=True)
    )
    here = sum(float(v.sum()) for v in problem.log_density(s))
    tilt = sum(float((g * d).sum()) for g, d in zip(slopes, steps, strict=True))
    inside = rows.total(
        tuple(rows.quadratic(w, d) for w, d in zip(conditioned.weight, steps, strict=True))
    )
    falls = []
    for t in (-REACH, REACH):
        there: Rows = tuple(x + t * d for x, d in zip(s, steps, strict=True))
        gain = sum(float(v.sum()) for v in problem.log_density(there)) - here - t * tilt
        falls.append(0.5 * t * t * max(1.0 - inside, 0.0) - gain)
    return min(falls)


def _moved(predictor: Predictor, z: Array, linear: LinearGaussian) -> Array:
    """B z for one predictor."""
    out = np.zeros(predictor.rows)
    for name, operator in predictor.columns.items():
        start = linear.starts[name]
        out += operator.matvec(z[start : start + operator.shape[1]])
    return out


def _unit(predictor: Predictor) -> Array:
    if not predictor.event:
        return np.ones(predictor.rows)
    k = predictor.event
    return np.broadcast_to(np.eye(k), (predictor.rows // k, k, k)).copy()


def _improper(problem: Problem) -> tuple[str, ...]:
    return tuple(b.name for b in problem.engine.linear.blocks if Shape.IMPROPER in b.shape)


def _size(problem: Problem, name: str) -> int:
    return next(b.size for b in problem.engine.linear.blocks if b.name == name)


def _label(canonical: CanonicalModel, name: str, position: int) -> str:
    dims = canonical.layout.dims[name]
    if not dims:
        return f"`{name}`"
    at = np.unravel_index(position, canonical.layout.shape(dims))
    labels = ", ".join(str(canonical.layout.labels[d][k]) for d, k in zip(dims, at, strict=True))
    return f"`{name}[{labels}]`"


def _free(canonical: CanonicalModel, name: str, reason: str) -> Diagnostic:
    statement = canonical.grounded.model.symbols[name].statement
    return Diagnostic(
        "E402",
        f"the posterior is improper: nothing fixes `{name}`",
        statement.span,
        reason,
        help=f"give `{name}` a proper prior, e.g. normal(sd = 10)",
    )
