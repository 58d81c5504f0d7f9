"""The JSON of a fit: what `lgm fit --json` and `lgm summary --json` print."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from lgmdsl.canonical.lowering.lower import distinct

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit

# A latent with more entries than this is printed with --full only.
LONGEST = 1000


def fit_json(fit: Fit, full: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What `--json` prints of a fit, and the latents left out for their length."""
    hyper, latent, left_out = {}, {}, []
    for block in fit.canonical.hypers.blocks:
        quantity = fit.quantity(block.name)
        hyper[block.name] = {"mean": quantity.mean, "sd": quantity.sd}
    for name in fit.canonical.latent_names:
        quantity = fit.quantity(name)
        if quantity.mean.size > LONGEST and not full:
            left_out.append(name)
            continue
        latent[name] = {
            "dims": list(distinct(quantity.dims)),
            "mean": quantity.mean,
            "sd": quantity.sd,
        }
    fields: dict[str, Any] = {
        "method": fit.method,
        "status": str(fit.status),
        "guarantee": str(fit.guarantee),
        "engine": fit.engine or None,
        "memory_budget": fit.memory_budget,
        "log_evidence": fit.log_evidence,
        "log_evidence_corrected": fit.log_evidence_corrected,
        "accuracy": dataclasses.asdict(fit.accuracy),
        "marginals": fit.provenance.get("marginals", "gaussian"),
        "seconds": fit.seconds,
        "steps": fit.steps,
        "hyper": hyper,
        "latent": latent,
    }
    if fit.audited is not None:
        fields["audit"] = fit.audited.as_json(math.inf if full else LONGEST)
    return fields, tuple(left_out)
