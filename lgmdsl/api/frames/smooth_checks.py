"""Whether the smooths of a fit have enough coefficients, by its residuals along each of them, and
whether they stand in for one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lgmdsl.api.by_rows import check_groups
from lgmdsl.api.columns import Columns
from lgmdsl.api.response_data import with_responses
from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.basis_check import NEAREST, BasisCheck, basis_check
from lgmdsl.assess.concurvity import Concurvity, concurvities
from lgmdsl.canonical.blocks.censoring import censored_between
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.smooths import SmoothTerm, smooth_terms
from lgmdsl.dataset import Keys
from lgmdsl.posterior.marginals import check_draws

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

STEP = 1e-3  # of the range of a column, for the slopes of a surface along it


def concurvity_columns(fit: FitRecord, data: object, mapping: Keys | None) -> Columns:
    """The columns that `concurvity` adds to `Fit.smooths`; only rows that the fit does not keep are
    read again, from the data."""
    terms, canonical = smooth_terms(fit.canonical), fit.canonical
    if not canonical.rows.kept:
        how = "fit.smooths(concurvity=True, data=...)"
        again, _ = with_responses(fit, data, mapping, "the concurvity of smooths", how)
        canonical = again.canonical
    check_groups(canonical, "the concurvity of smooths")
    mean, places = fit.posterior.conditioned.latent_mean, [t.where for t in terms]
    found = concurvities(canonical.linear(fit.theta), mean, places) if terms else []
    measures = enumerate(Concurvity._fields)
    return {f"concurvity_{name}": np.array([c[k] for c in found]) for k, name in measures}


class _Residuals(NamedTuple):
    """Those of a response, (n,), and the flat positions of their rows."""

    block: SiteBlock
    rows: IntArray
    values: Array


def check_columns(fit: FitRecord, data: object, mapping: Keys | None, seed: int) -> Columns:
    """The columns that `check` adds to `Fit.smooths`."""
    check_draws(0, seed)
    how = "fit.smooths(check=True, data=...)"
    fit, canonical = with_responses(fit, data, mapping, "checking smooths", how)
    terms = smooth_terms(fit.canonical)
    found = [_residuals(fit, canonical, b) for b in canonical.blocks]
    known = sorted((r for r in found if r is not None), key=lambda r: -len(r.rows))
    checks = [_checked(fit, t, known, seed) for t in terms]
    out: Columns = {"k": np.array([len(t.where) for t in terms], dtype=np.int64)}
    return out | {
        name: np.array([c[k] for c in checks]) for k, name in enumerate(BasisCheck._fields)
    }


def _residuals(fit: FitRecord, canonical: CanonicalModel, block: SiteBlock) -> _Residuals | None:
    """(y - E[y | s]) / sd(y | s), times the root of the weight, at the posterior mean of s given
    the hyperparameters at their mode; None of what has no such moments, or residuals that are
    correlated."""
    spec = block.family.spec
    if spec.potential or spec.vector or block.classes or block.each or block.residual is not None:
        return None
    rows, y = canonical.given(block)
    kept = np.isnan(censored_between(block)[0])[rows]
    rows, y = rows[kept], y[kept]
    frame = fit.conditional.frame
    written = frame.embed(canonical.as_written(block, fit.theta))
    s = written.values(frame.conditioned.latent_mean, frame.slices)
    site = block.bind_family(fit.theta)
    try:
        with np.errstate(all="ignore"):
            mean, variance = site.conditional_mean(s), site.conditional_variance(s)
    except TypeError:
        return None
    weights = np.ones(len(s))
    weights[block.data.rows] = block.data_weights
    with np.errstate(all="ignore"):
        values = (y - mean[rows]) * np.sqrt(weights[rows] / variance[rows])
    varies = np.isfinite(values).all() and len(np.unique(values)) > 1
    return _Residuals(block, rows, values) if varies and len(rows) > NEAREST else None


def _checked(
    fit: FitRecord, term: SmoothTerm, known: Sequence[_Residuals], seed: int
) -> BasisCheck:
    """Of the response with most rows that the smooth is in and whose rows say which member they
    have."""
    for residuals in known:
        if term.name not in {owner(t.latent) for t in residuals.block.written.terms}:
            continue
        members = _members(fit.canonical, residuals, term.along)
        if members is not None:
            return basis_check(_places(fit, term)[members], residuals.values, seed)
    return BasisCheck(np.nan, np.nan)


def _members(canonical: CanonicalModel, residuals: _Residuals, along: str) -> IntArray | None:
    """The member of an index that each row has: its own, or by the only map that leads there."""
    block = residuals.block
    at = np.unravel_index(residuals.rows, block.data_shape) if block.data_shape else ()
    dims = dict(zip(block.data.dims, at, strict=True))
    if along in dims:
        return dims[along]
    grounded = canonical.grounded
    maps = [s for s in grounded.model.of_kind("data") if s.target == along]
    maps = [s for s in maps if s.dims and {*s.dims} <= dims.keys()]
    if len(maps) != 1:
        return None
    values = np.asarray(grounded.values[maps[0].name])
    members = values[tuple(dims[d] for d in maps[0].dims)].astype(np.int64)
    return members if (members >= 0).all() else None


def _places(fit: FitRecord, term: SmoothTerm) -> Array:
    """(members, d) where the members of a smooth lie, in units in which they are compared: those of
    a thin plate as they are, columns of a product by how far the smooth changes along each."""
    canonical = fit.canonical
    smooth = canonical.smooths.get(term.name)
    if smooth is None:
        return np.arange(canonical.sizes[term.along], dtype=np.float64)[:, None]
    places = canonical.positions[term.name]
    if smooth.penalties is None:
        return places
    mean = fit.conditional.frame.conditioned.latent_mean[term.where]
    here, out = np.hstack(smooth.columns(places)) @ mean, np.empty(places.shape)
    for k, column in enumerate(places.T):
        span = float(np.ptp(column))
        there = places + STEP * span * np.eye(places.shape[1])[k]
        slope = np.abs(np.hstack(smooth.columns(there)) @ mean - here).mean() / (STEP * span)
        out[:, k] = slope * (column - column.min()) / span
    return out
