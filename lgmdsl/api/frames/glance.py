"""fit.glance(): a fit in one row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lgmdsl.api.assess.criteria import dic, waic
from lgmdsl.api.assess.loo import loo
from lgmdsl.api.columns import Columns, frame_library, frame_of
from lgmdsl.dataset import Keys
from lgmdsl.errors import DataError, MethodError

if TYPE_CHECKING:
    import pandas as pd

    from lgmdsl.posterior.fit_record import FitRecord

CRITERIA = ("dic", "p_d", "waic", "p_waic", "elpd_loo", "elpd_loo_se", "p_loo", "loo_flagged")


def glance(
    fit: FitRecord, data: object, mapping: Keys | None, criteria: bool, backend: str
) -> pd.DataFrame:
    """See `Fit.glance`."""
    frame_library(backend)
    return frame_of(glance_columns(fit, data, mapping, criteria), backend)


def glance_columns(fit: FitRecord, data: object, mapping: Keys | None, criteria: bool) -> Columns:
    """The columns of `Fit.glance`."""
    known, learning = fit.accuracy, fit.learning
    row: dict[str, Any] = {
        "method": fit.method,
        "hyper": fit.hyper,
        "status": str(fit.status),
        "converged": fit.converged,
        "observations": fit.canonical.observations,
        "latents": sum(b.size for b in fit.canonical.reported),
        "log_evidence": fit.log_evidence,
        "log_evidence_corrected": fit.log_evidence_corrected,
        "guarantee": str(fit.guarantee),
        **(_criteria(fit, data, mapping) if criteria else {}),
        "accuracy_mean": known.mean,
        "accuracy_sd": known.sd,
        "accuracy_evidence": known.evidence,
        "accuracy_worst": known.worst,
        "accuracy_basis": known.basis,
        "points": len(fit.points),
        "fits": 1 if learning is None else learning.fits,
        "steps": fit.steps,
        "seconds": fit.seconds,
    }
    return {name: [value] for name, value in row.items()}


def _criteria(fit: FitRecord, data: object, mapping: Keys | None) -> dict[str, float]:
    """NaN where a criterion is not defined, or where a file lacks its data."""
    out = dict.fromkeys(CRITERIA, math.nan)
    try:
        by_dic, by_waic = dic(fit, data, mapping), waic(fit, data, mapping)
        left_out = loo(fit, data=data, mapping=mapping)
    except MethodError:
        return out
    except DataError:
        if data is not None:
            raise
        return out
    out |= {"dic": by_dic.dic, "p_d": by_dic.p_d, "waic": by_waic.waic, "p_waic": by_waic.p_waic}
    p_loo = math.nan if left_out.p_loo is None else left_out.p_loo
    return out | {
        "elpd_loo": left_out.elpd,
        "elpd_loo_se": left_out.se,
        "p_loo": p_loo,
        "loo_flagged": left_out.flagged,
    }
