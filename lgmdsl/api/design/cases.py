"""From a fit and new data to a pool of candidates, and the error on test cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from lgmdsl.acquisition.pool import Pool, times
from lgmdsl.api.by_rows import check_rows
from lgmdsl.api.page import counted
from lgmdsl.api.predict.predict import Prediction, predicted
from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.grounding.axes import BoundDatum, align, bind
from lgmdsl.canonical.grounding.errors import about, absent, wrong_shape
from lgmdsl.canonical.grounding.ground import GroundedModel, IndexSet, ground_new
from lgmdsl.canonical.grounding.labels import LabelArray
from lgmdsl.canonical.grounding.labels import labels_of as as_labels
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.dataset import Dataset, Entry
from lgmdsl.engines.shared.conditioned import RowConditioned
from lgmdsl.errors import NOWHERE, DataError, Diagnostic, MethodError, listed
from lgmdsl.inference.plan import plan
from lgmdsl.language.checked import Symbol
from lgmdsl.posterior.joined_cases import check_joining

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

METHOD = "double-loop"
WANTED = "bernoulli.logit"
# |b|^2 of a row above which its variance b' A^-1 b is computed at once: the updates multiply the
# variances of two rows, so its square must not overflow.
LARGE = 1e100


def response_of(canonical: CanonicalModel) -> int:
    """Which site block observes the labels. Raises MethodError E501 where not exactly one block
    observes, or it is not `bernoulli(logit = ...)` over one index."""
    check_rows(canonical, "active learning")
    seen = [k for k, b in enumerate(canonical.blocks) if not b.family.spec.potential]
    first = canonical.blocks[seen[0]] if seen else None
    if first is None:
        message, reason = "active learning asks for labels, and the model observes none", ""
    elif len(seen) > 1:
        names = listed([f"`{canonical.blocks[k].name}`" for k in seen])
        message, reason = f"active learning labels one observation, not {names}", ""
    elif (first.family.spec.link, first.family.spec.observed) != ("logit", ("binary",)):
        message = f"active learning needs `{WANTED}`, one label a case"
        reason = f"this is {first.family.spec.name}"
    elif len(first.dims) != 1:
        message = "active learning needs one index of cases"
        reason = f"`{first.name}` has {len(first.dims)}"
    else:
        return seen[0]
    advice = "observe y ~ bernoulli(logit = eta), with one label `y` for each case"
    span = NOWHERE if first is None else first.span
    raise MethodError.of("E501", message, span, reason, help=advice)


@dataclass(frozen=True, eq=False)
class Cases:
    """Candidates as a pool, and the index set of their rows."""

    pool: Pool
    members: IndexSet
    extended: bool


def cases_of(fit: FitRecord, response: int, candidates: Dataset) -> Cases:
    """The pool of a fit and its candidates.

    Raises DataError: what prediction raises for the candidates, E305 where they bring no rows,
    E303 where the predictor or its variance is not finite; MethodError E501 where more than their
    observations would join.
    """
    new, block = _predicted(fit, response, candidates, "candidates", check_joining)
    frame = new.marginals.part(0).frame
    extended = _extends(fit, new)
    linear = _linear(fit, new) if extended else fit.canonical.linear(fit.theta)
    predictor = frame.embed(new.canonical.predictor(block.form, block.dims, fit.theta))
    _check_finite(block, predictor, new)
    planned = plan(fit.canonical, METHOD)
    pool = Pool(
        linear,
        fit.canonical.sites(fit.theta),
        tuple(r.answer for r in planned.routes),
        response,
        predictor,
    )
    return Cases(pool, new.canonical.grounded.indices[block.dims[0]], extended)


def tester(
    fit: FitRecord, response: int, test: Dataset, extended: bool
) -> Callable[[Array], float]:
    """The share of test cases that a posterior mean of the latents puts on the wrong side.

    Raises MethodError E501 where candidates or test cases have latents that the fit lacks.
    """
    new, block = _predicted(fit, response, test, "test cases")
    if extended or _extends(fit, new):
        raise MethodError.of(
            "E501",
            "no test error where cases have latents that the fit lacks",
            block.span,
            help="leave out the test cases",
        )
    predictor = new.canonical.predictor(block.form, block.dims, fit.theta)
    _check_finite(block, predictor, new)
    truth = labels_of(fit, response, test, "test cases")
    linear = fit.canonical.linear(fit.theta)

    def error(z: Array) -> float:
        positive = times(predictor, z, linear) + predictor.offset > 0.0
        return float(np.mean(positive != (truth > 0.5)))

    return error


def _predicted(
    fit: FitRecord,
    response: int,
    cases: Dataset,
    kind: str,
    check: Callable[[GroundedModel], None] | None = None,
) -> tuple[Prediction, SiteBlock]:
    new = predicted(fit, cases, check)
    block, index = new.canonical.blocks[response], fit.canonical.blocks[response].dims[0]
    if index in new.canonical.grounded.replaced:
        return new, block
    over = [
        f"`{s.name}`"
        for s in fit.canonical.grounded.model.of_kind("data")
        if index in s.dims and s.name != block.name
    ]
    wanted = f"give {listed(over)}" if over else f"give `{index}` with their labels"
    has = f"{cases.name} has: {', '.join(cases.keys[:20])}" if cases.keys else "no arrays"
    raise DataError.of(
        "E305",
        f"the {kind} bring no rows of `{index}`",
        details=(has,),
        help=f"{wanted}, one entry for each new case",
        layout="plain",
    )


def _extends(fit: FitRecord, new: Prediction) -> bool:
    """Whether new cases have latents that the fit lacks."""
    grounded = new.canonical.grounded
    changed = {*grounded.replaced, *grounded.new_levels}
    return any(changed & set(b.dims) for b in fit.canonical.latents)


def _linear(fit: FitRecord, new: Prediction) -> LinearGaussian:
    return cast(RowConditioned, new.marginals.part(0).frame.conditioned).linear


def _check_finite(block: SiteBlock, predictor: Predictor, new: Prediction) -> None:
    """Raise E303 for rows that cannot be scored: a division by zero, an overflow."""
    square = np.where(np.isfinite(predictor.offset), 0.0, np.inf)
    with np.errstate(all="ignore"):
        for operator in predictor.columns.values():
            matrix = operator.matrix()
            if isinstance(matrix, np.ndarray):
                square += np.einsum("ij,ij->i", matrix, matrix)
            else:
                square += np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1)
        bad = ~np.isfinite(square)
        far = np.flatnonzero(~bad & (square > LARGE))
        if far.size:
            part = new.canonical.predictor(block.form, block.dims, new.marginals.part(0).theta, far)
            frame = new.marginals.part(0).frame
            mean, variance = frame.conditioned.project(frame.embed(part))
            bad[far] = ~(np.isfinite(mean) & np.isfinite(variance**2))
    if bad.any():
        labels = new.canonical.layout.labels[block.dims[0]]
        rows = counted(int(bad.sum()), "row")
        raise DataError.of(
            "E303",
            f"the predictor of `{block.name}` or its variance is not finite in {rows}",
            block.span,
            f"first at {block.dims[0]} {labels[np.flatnonzero(bad)[0]]}",
            help="look for a division by zero, the log of 0, or numbers too large",
        )


# ---- labels ------------------------------------------------------------------------------------


def labels_of(fit: FitRecord, response: int, cases: Dataset, kind: str) -> Array:
    """(J,) labels, 0 or 1, of cases from their source.

    Raises DataError: E305 where it has none, E304 for missing ones, and what grounding finds (E301
    for another length, E303 for values that are not binary).
    """
    symbol, _ = _asked(fit, response, cases)
    grounded = ground_new(fit.canonical.grounded, cases)
    missing = grounded.missing.get(symbol.name)
    if missing is not None and missing.any():
        index = grounded.indices[symbol.dims[0]]
        first = index.labels[int(np.flatnonzero(missing)[0])]
        raise DataError.of(
            "E304",
            f"the {kind} lack `{symbol.name}` in {int(missing.sum())} cases",
            symbol.statement.span,
            details=(f"first at {index.name} {first}",),
            help="leave these cases out",
            layout="plain",
        )
    return np.asarray(grounded.values[symbol.name], dtype=np.float64)


def answers_of(
    fit: FitRecord, response: int, cases: Dataset, members: IndexSet, oracle: Dataset
) -> Array:
    """(J,) labels, 0 or 1, of candidates by an oracle, in the order of `members`.

    They are matched by the labels of the index, under its own name or on the datum's axis; by
    position where neither the candidates nor the oracle have any. Raises DataError E302 for labels
    that the candidates do not have, and where the oracle lacks theirs; and what `labels_of` raises.
    """
    symbol, entry = _asked(fit, response, oracle)
    bound = bind(symbol, entry, oracle)
    if isinstance(bound, Diagnostic):
        raise DataError(bound)
    if bound.fits:
        bound = _matched(bound, members, oracle)
    loaded = bound.raw
    plain = Entry(entry.name, entry.source, bound.shape, lambda: loaded)
    both = replace(cases, entries={**cases.entries, cases.key(symbol.name): plain})
    return labels_of(fit, response, both, "candidates")


def _asked(fit: FitRecord, response: int, source: Dataset) -> tuple[Symbol, Entry]:
    """The datum that is observed, and its entry. Raises DataError E305 where there is none."""
    symbol = fit.canonical.grounded.model.symbols[fit.canonical.blocks[response].name]
    entry = source.ask(symbol.name)
    if entry is not None:
        return symbol, entry
    close, key = source.suggestion(symbol.name), source.key(symbol.name)
    raise DataError(absent(symbol, source.name, source.keys, close, key))


def _matched(bound: BoundDatum, members: IndexSet, oracle: Dataset) -> BoundDatum:
    # A frame's default 0..n-1 names no case.
    labels = None if bound.weak else bound.labels[0]
    if labels is None:
        labels = _key_labels(bound, members, oracle)
    if labels is None and not members.counted:
        raise DataError.of(
            "E302",
            f"the oracle's `{bound.symbol.name}` has no labels of `{members.name}`",
            bound.symbol.statement.span,
            details=(about(members),),
            help=f"give the oracle a key `{members.name}` with the label of each entry",
            layout="plain",
        )
    if labels is None:
        return bound
    named = replace(bound, labels=(labels,), weak=False)
    aligned = align(named, {members.name: members}, {})
    if isinstance(aligned, Diagnostic):
        raise DataError(aligned)
    return aligned


def _key_labels(bound: BoundDatum, members: IndexSet, oracle: Dataset) -> LabelArray | None:
    """Labels that the oracle holds under the index's own name."""
    key = oracle.key(members.name)
    entry = oracle.entries.get(key)
    if entry is None or entry is bound.entry:
        return None
    loaded, origin = entry.loaded, f"{entry.source}:{key}"
    if not isinstance(loaded.values, np.ndarray) or loaded.values.ndim != 1:
        raise DataError.of(
            "E301",
            f"index `{members.name}` takes its labels from {origin}",
            bound.symbol.statement.span,
            f"which has the shape {loaded.shape}",
            help=f"rename `{key}`, or give one label each",
        )
    labels = as_labels(loaded)
    if labels.values.shape != bound.shape:
        index = IndexSet(members.name, labels.values, f"from {origin}")
        raise DataError(wrong_shape(bound.symbol, bound.shape, {members.name: index}))
    return labels
