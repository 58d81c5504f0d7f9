"""What a fit through an engine that estimates variances and determinants may claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Guarantee


def with_standard_errors(posterior: GaussianPosterior) -> GaussianPosterior:
    """The posterior; where its engine estimates, as an approximation whatever the method promises,
    with the standard errors in its notes."""
    q, errors = posterior.conditioned, posterior.conditioned.errors
    if errors is None:
        return posterior
    parts = [f"log evidence +- {errors.log_normaliser:.2g} nats"]
    if any(v.size for v in q.variance):
        rows = [np.asarray(part).reshape(-1) for part in (*errors.variance, *q.variance)]
        count = len(q.variance)
        share = _typical(np.concatenate(rows[:count]), np.concatenate(rows[count:]))
        if share:  # of Lanczos vectors that hold all of it, none is to chance
            parts.append(f"variances of predictors +- {share:.2g} %")
    latent = q.latent_variance_error
    if latent is not None and latent.any():
        parts.append(f"variances of latents +- {_typical(latent, q.latent_variance):.2g} %")
    note = f"the iterative engine estimates: {', '.join(parts)} (Monte Carlo standard errors)"
    notes = (*posterior.notes, note, *([q.remark] if q.remark else []))
    return replace(posterior, guarantee=Guarantee.APPROXIMATE, notes=notes)


def _typical(error: Array, value: Array) -> float:
    """The root mean square of standard errors relative to the values, in per cent."""
    share = error / np.maximum(np.abs(value), 1e-300)
    return 100.0 * float(np.sqrt(np.mean(share**2)))
