"""DIC, WAIC and leave-one-out of a fit, for `lgm summary --criteria`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lgmdsl.api.fit.fit import Fit
from lgmdsl.workers.task import Jobs


def criteria(
    fit: Fit, data: object, mapping: Mapping[str, str], exact: bool = False, jobs: Jobs = None
) -> tuple[str, dict[str, Any]]:
    """The three pages as one text, and their numbers; `exact`, `jobs` of leave-one-out."""
    dic, waic = fit.dic(data, mapping), fit.waic(data, mapping)
    loo = fit.loo(exact=exact, data=data, mapping=mapping, jobs=jobs)
    fields = {
        "dic": dic.dic,
        "p_d": dic.p_d,
        "waic": waic.waic,
        "p_waic": waic.p_waic,
        "elpd_waic": waic.elpd,
        "elpd_waic_se": waic.se,
        "elpd_loo": loo.elpd,
        "elpd_loo_se": loo.se,
        "p_loo": loo.p_loo,
        "flagged": loo.flagged,
        "failed": loo.failed,
        "dic_error": dic.error,
        "elpd_waic_error": waic.error,
        "elpd_loo_error": loo.error,
    }
    return "\n\n".join(map(str, (dic, waic, loo))), fields
