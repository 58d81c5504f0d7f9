"""What a fit through an engine that estimates variances and determinants may claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.status import Guarantee


def with_standard_errors(posterior: GaussianPosterior) -> GaussianPosterior:
    """The posterior; where its engine estimates, as an approximation whatever the method promises,
    with the standard errors in its notes."""
    q, errors = posterior.conditioned, posterior.conditioned.errors
    if errors is None:
        return posterior
    shares = [
        np.asarray(e).reshape(-1) / np.maximum(np.abs(np.asarray(v).reshape(-1)), 1e-300)
        for e, v in zip(errors.variance, q.variance, strict=True)
    ]
    share = np.concatenate(shares) if shares else np.zeros(1)
    typical = 100.0 * float(np.sqrt(np.mean(share**2)))
    note = (
        f"the iterative engine estimates: log evidence +- {errors.log_normaliser:.2g}, "
        f"variances +- {typical:.2g} % (Monte Carlo standard errors)"
    )
    return replace(posterior, guarantee=Guarantee.APPROXIMATE, notes=(*posterior.notes, note))
