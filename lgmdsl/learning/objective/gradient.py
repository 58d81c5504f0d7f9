"""The gradient of the log evidence in the hyperparameters, all of them in one reverse pass.

At the optimum of a bound, or at EP's fixed point, log_evidence is stationary in the site weights
and shifts, so its gradient is the partial derivative at fixed (W, b). Laplace's is not: its back
end hands out adjoints that hold the third-derivative term (Rasmussen and Williams 2006,
section 5.5.1).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.linalg as sla

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Gradient, Theta
from lgmdsl.canonical.expressions.named import collapse
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.reverse import parameters, pull
from lgmdsl.contract.engine import Adjoints
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.engines.shared.design import dense_rows
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.inference.plan import Plan
from lgmdsl.remedies import pin


def evidence_gradient(
    planned: Plan, posterior: GaussianPosterior, theta: Theta, fixed: Mapping[str, object]
) -> Gradient:
    """dlog_evidence/dhyper on the natural scale for every hyper that is free and not in `fixed`,
    in the shape of its value; a symmetric one of a covariance.

    `posterior` is the fit of `planned` at `theta`; what it lacks in convergence the gradient lacks
    in the first order. With the mean corrected, the evidence and so the gradient are Laplace's.
    Raises MethodError E501 for a method without a log evidence, a site parameter whose slope nobody
    knows, and constraints whose coefficients depend on a hyper.
    """
    canonical = planned.canonical
    if not planned.backend.spec.evidence:
        raise MethodError(_no_evidence(planned.method))
    if any(t.depends for e in canonical.equations for t in e.form.terms):
        raise MethodError(_turning())
    adjoints = (
        posterior.conditioned.adjoints() if posterior.adjoints is None else (posterior.adjoints())
    )
    slopes: tuple[Mapping[str, Array], ...] = tuple({} for _ in canonical.blocks)
    if posterior.slopes is not None and any(
        canonical.rows.slopes(k) == "hypers" or parameters(b)
        for k, b in enumerate(canonical.blocks)
    ):
        slopes = posterior.slopes()
    raw = pull(canonical, adjoints, slopes, theta)
    if any(e.value.depends or e.form.offset.depends for e in canonical.equations):
        _constraints(canonical, adjoints, theta, raw)
    free = [n for n in canonical.hypers.free if n not in fixed]
    pulled = canonical.hypers.pull(raw, theta, fixed)
    return {n: np.asarray(pulled.get(n, 0.0)) + np.zeros(np.shape(theta[n])) for n in free}


def _constraints(
    canonical: CanonicalModel, adjoints: Adjoints, theta: Theta, out: Gradient
) -> None:
    """Add what the right sides e of Cz = e give.

    dF/de is the difference l of the multipliers of posterior and prior, and the posterior's
    stationarity less the prior's says B'(dF/dc) - dF/dmu = C'l, C with the structures' own rows.
    """
    linear = canonical.linear(theta)
    assert linear.constraints is not None
    asked = dense_rows(linear.constraints.columns, linear.slices, linear.size)
    structural = [BlockPrior(b, 0).tied.rows.toarray() for b in linear.blocks]
    rows = np.vstack([asked, sla.block_diag(*structural)])
    pull = StackedPredictors(linear).pulled(adjoints.offset)
    pull -= np.concatenate([adjoints.mean[b.name] for b in linear.blocks])
    multiplier = np.linalg.lstsq(rows.T, pull, rcond=None)[0][: len(asked)]
    first = 0
    for e in canonical.equations:
        sizes = {**canonical.sizes, **e.form.sizes}
        shape = tuple(sizes[d] for d in e.dims)
        count = int(np.prod(shape, dtype=np.int64))
        slope = np.reshape(multiplier[first : first + count], shape)
        first += count
        for node, sign in ((e.value, 1.0), (e.form.offset, -1.0)):
            if node.depends:
                node.pull(collapse(sign * slope, e.dims, node.dims), theta, out)


def _no_evidence(method: str) -> Diagnostic:
    return Diagnostic(
        "E501",
        f"method `{method}` has no log evidence, and so no gradient in the hyperparameters",
        help=f"take laplace, natural-gradient or ep, or pin every hyper: {pin('NAME')}",
    )


def _turning() -> Diagnostic:
    return Diagnostic(
        "E501",
        "a constraint has a hyperparameter among the coefficients of its latents",
        help="divide by it, so that the hyper stands on the right side; or pin it",
    )
