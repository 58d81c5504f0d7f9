"""What a fit through an engine that estimates variances and determinants may claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.status import Guarantee
from lgmdsl.engines.iterative_conditioned import IterativeConditioned


def estimated(found: GaussianPosterior) -> bool:
    """Whether the posterior's variances and determinant are estimates."""
    return isinstance(found.conditioned, IterativeConditioned)


def honest(found: GaussianPosterior) -> GaussianPosterior:
    """The posterior; where its engine estimates, as an approximation whatever the method promises,
    with the standard errors in its notes."""
    q = found.conditioned
    if not isinstance(q, IterativeConditioned):
        return found
    shares = [
        np.asarray(e).reshape(-1) / np.maximum(np.abs(np.asarray(v).reshape(-1)), 1e-300)
        for e, v in zip(q.variance_error, q.variance, strict=True)
    ]
    share = np.concatenate(shares) if shares else np.zeros(1)
    typical = 100.0 * float(np.sqrt(np.mean(share**2)))
    told = (
        f"the iterative engine estimates: log evidence +- {q.log_normaliser_error:.2g}, "
        f"variances +- {typical:.2g} % (Monte Carlo standard errors)"
    )
    return replace(found, guarantee=Guarantee.APPROXIMATE, notes=(*found.notes, told))
