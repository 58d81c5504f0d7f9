"""What a fit may claim: numbers that are not finite are never reported as converged, and only a
usable result has a guarantee."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic, listed
from lgmdsl.inference.registry import backends
from lgmdsl.remedies import either, setting

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

# Ways whose hyperparameters all have a posterior; after map those that are not determined have no
# standard error.
WITH_SDS = ("integrate", "vb")


def entitled(fit: FitRecord) -> FitRecord:
    """The fit with the status and the guarantee that its numbers allow: numerical_error, and W601
    that says what, where it is `converged` but its log evidence, a mean or an sd is not finite; no
    guarantee where the status is not `usable`."""
    fit = _only_finite(fit)
    return fit if fit.status.usable else replace(fit, guarantee=Guarantee.APPROXIMATE)


def _only_finite(fit: FitRecord) -> FitRecord:
    if not fit.converged:
        return fit
    wrong = not_finite(fit)
    if not wrong:
        return fit
    warning = Diagnostic(
        "W601",
        f"{listed(list(wrong))} {'is' if len(wrong) == 1 else 'are'} not finite",
        details=("the search itself met its tolerances",),
        help="give hyperparameters tighter priors, or compare another "
        f"{either('--method', 'method')} and {setting('hyper', 'map')}",
        severity="warning",
    )
    return replace(fit, status=Status.numerical_error, warnings=(*fit.warnings, warning))


def not_finite(fit: FitRecord) -> tuple[str, ...]:
    """What is not finite of the log evidence, the latents' moments at `theta` and the
    hyperparameters."""
    q = fit.posterior.conditioned
    method = backends().get(fit.method)
    promised = method is None or method.spec.evidence  # the mode alone has none
    out = ["the log evidence"] if promised and not np.isfinite(fit.log_evidence) else []
    if not np.isfinite(q.latent_mean).all():
        out.append("a latent's mean")
    if not np.isfinite(q.latent_variance).all():
        out.append("a latent's sd")
    for block in fit.canonical.hypers.blocks:
        quantity = fit.quantity(block.name) if fit.hyper in WITH_SDS else None
        if not np.isfinite(fit.theta[block.name]).all():
            out.append(f"`{block.name}`")
        elif quantity is not None and not np.isfinite([quantity.mean, quantity.sd]).all():
            out.append(f"the mean or sd of `{block.name}`")
    return tuple(out)
