"""Data for the picture of a comparison: the runs, and which latents are shown."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.plot.canvas import check_matplotlib
from lgmdsl.plot.comparison import Course, Marginal, comparison_picture

if TYPE_CHECKING:
    from lgmdsl.api.compare.comparison import Comparison
    from lgmdsl.posterior.fit_record import FitRecord

PROMISES = {
    Guarantee.EXACT: "exact",
    Guarantee.LOWER: "lower bound",
    Guarantee.NUMERICAL: "exact numerically",
}
# How many marginals are drawn.
SHOWN = 6


def picture(comparison: Comparison, format: str = "png") -> bytes:
    """The picture's bytes. Raises MethodError E501 without matplotlib."""
    check_matplotlib()
    name = os.path.basename(comparison.model.checked.source.name)
    title = "Comparison of methods" + ("" if name.startswith("<") else f": {name}")
    return comparison_picture(title, courses(comparison), marginals(comparison), format)


def courses(comparison: Comparison) -> tuple[Course, ...]:
    """The runs, the reference first. Methods whose objective is a lower bound share the highest
    that converged as their optimum, which shows those that stopped below it."""
    fits = ordered(comparison)
    lower = [f for f in fits.values() if f.guarantee is Guarantee.LOWER]
    bounds = [f.log_evidence for f in [f for f in lower if f.converged] or lower]
    out = []
    for method, fit in fits.items():
        objective = np.array([e.objective for e in fit.trace])
        seconds = np.array([e.seconds for e in fit.trace])
        optimum = max(bounds) if fit.guarantee is Guarantee.LOWER else float(objective[-1])
        out.append(Course(method, _label(fit), seconds, objective, optimum))
    return tuple(out)


def _label(fit: FitRecord) -> str:
    evidence = "no evidence" if math.isnan(fit.log_evidence) else f"{fit.log_evidence:.2f}"
    text = f"{fit.method}: {evidence}"
    if fit.guarantee is not Guarantee.APPROXIMATE:
        text += f" ({PROMISES[fit.guarantee]})"
    return text if fit.status is Status.converged else f"{text}, {fit.status}".replace("_", " ")


def marginals(comparison: Comparison, number: int = SHOWN) -> tuple[Marginal, ...]:
    """The latents that the methods that converged disagree on most: one of each block, then the
    others."""
    fits = ordered(comparison)
    base = fits[comparison.reference]
    judged = [f for f in fits.values() if f.converged or f is base]
    scored: list[tuple[float, str, int]] = []
    first: list[tuple[float, str, int]] = []
    names = base.canonical.shown_names
    for name in names:
        score = _disagreement([_flat(f, name) for f in judged])
        order = np.argsort(-score, kind="stable")[:number]
        ranked = [(float(score[k]), name, int(k)) for k in order if np.isfinite(score[k])]
        first += ranked[:1]
        scored += ranked[1:]
    # Sorting is stable: equal ones stay in the model's order.
    chosen = sorted(first, key=lambda s: -s[0])[:number]
    chosen += sorted(scored, key=lambda s: -s[0])[: number - len(chosen)]
    places = {name: i for i, name in enumerate(names)}
    out = []
    for _, name, k in sorted(chosen, key=lambda s: (places[s[1]], s[2])):
        moments = {}
        for method, fit in fits.items():
            mean, sd = _flat(fit, name)
            moments[method] = (float(mean[k]), float(sd[k]))
        out.append(Marginal(_title(base, name, k), moments))
    return tuple(out)


def ordered(comparison: Comparison) -> dict[str, FitRecord]:
    """The fits, the reference first."""
    fits = comparison.fits
    return {comparison.reference: fits[comparison.reference], **fits}


def _flat(fit: FitRecord, name: str) -> tuple[Array, Array]:
    quantity = fit.quantity(name)
    return quantity.mean.reshape(-1), quantity.sd.reshape(-1)


def _disagreement(moments: list[tuple[Array, Array]]) -> Array:
    """The largest |m - m0| / s0 + |log s / s0| of any method; -inf for a latent that is fixed."""
    mean, sd = moments[0]
    with np.errstate(all="ignore"):
        score = [np.abs(m - mean) / sd + np.abs(np.log(s / sd)) for m, s in moments]
        worst = np.max(score, axis=0)
    return np.where(np.isfinite(worst) & (sd > 0), worst, -np.inf)


def _title(fit: FitRecord, name: str, k: int) -> str:
    layout = fit.canonical.layout
    dims = layout.dims[name]
    if not dims:
        return name
    indices = np.unravel_index(k, layout.shape(dims))
    labels = ", ".join(str(layout.labels[d][i]) for d, i in zip(dims, indices, strict=True))
    return f"{name}[{labels}]"
