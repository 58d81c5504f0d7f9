"""What a prediction requests: refused where that is nothing, with warnings where ambiguous."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.grounding.errors import SHOWN, count_of, show, signature
from lgmdsl.canonical.grounding.label_line import sorted_distinct
from lgmdsl.canonical.grounding.labels import MAX_LABELS_COMPARED, nearest_label
from lgmdsl.canonical.grounding.model import GroundedModel, IndexSet
from lgmdsl.canonical.grounding.usage import Usage
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.structure import Members
from lgmdsl.dataset import Dataset, Entry
from lgmdsl.errors import DataError, Diagnostic, listed
from lgmdsl.language.checked import CheckedModel
from lgmdsl.remedies import either
from lgmdsl.structures.catalogue import members_of


class PredictionWarning(UserWarning):
    """An ambiguity in what predictions were requested for (W305 to W307), or a standard deviation
    that rests on few draws, or on a predictor that is not Gaussian (W611); `diagnostic` has its
    parts."""

    def __init__(self, text: str, diagnostic: Diagnostic | None = None) -> None:
        super().__init__(text)
        self.diagnostic = diagnostic


def check_asked(model: CheckedModel, usage: Usage, dataset: Dataset) -> None:
    """Raise DataError E305 for new data that do not say where to predict.

    A model without data or labels to name is predicted as it is, from empty data.
    """
    covariates = [s for s in model.of_kind("data") if s.name not in usage.responses]
    rows = [s for s in model.of_kind("data") if s.name in usage.observed and usage.rows & {*s.dims}]
    named = sorted(usage.steps | (usage.growing & _targets(model)))
    if not (covariates or named) and not (dataset.entries or dataset.tables):
        return
    indices = [s.name for s in model.of_kind("index")]
    if any(dataset.ask(s.name) is not None for s in (*covariates, *rows)):
        return
    if any(dataset.labels(name) is not None for name in indices):
        return
    wanted = [signature(s.name, s.dims) for s in covariates]
    wanted += [f"members of `{name}` (a column or key of that name)" for name in named]
    wanted += [] if wanted else [signature(s.name, s.dims) for s in rows]
    has = f"{dataset.name} has: {', '.join(dataset.keys[:20])}" if dataset.keys else ""
    raise DataError.of(
        "E305",
        "the new data name nothing that predictions of this model are asked for by",
        details=(has or f"{dataset.name} has no arrays",),
        help=f"give {', '.join(wanted) or 'members of an index'}; what was fitted is in the fit"
        " itself: fit.mean, `lgm summary`",
        layout="plain",
    )


def _targets(model: CheckedModel) -> set[str]:
    return {s.target for s in model.of_kind("data") if s.target is not None}


def ambiguous(
    fitted: CanonicalModel, new: GroundedModel, dataset: Dataset
) -> tuple[Diagnostic, ...]:
    """W305: rows without labels are new members of the latents over them, also where there are as
    many as were fitted and the fit's own may be meant. W306: responses of new members, which say
    nothing of them. W307: labels that the fit does not know, which may be mistyped."""
    out = []
    for dim, labels in new.new_levels.items():
        if names := _joined(fitted, dim):
            out.append(_unknown(fitted.grounded.indices[dim], labels, names))
    for dim in new.replaced:
        names = _joined(fitted, dim)
        if not names or dim in new.steps:
            continue
        before, now = fitted.grounded.indices[dim], new.indices[dim]
        if before.counted and now.counted and now.size == before.size:
            out.append(_new_rows(dim, now.size, names))
        unknown = now.labels[before.positions(now.labels) < 0]
        # Row numbers name nothing, and the numbers of other rows are no misprint.
        named = not (before.counted or now.counted) and (
            now.labels.dtype.kind == "U" or unknown.size < now.size
        )
        if named and unknown.size:
            out.append(_unknown(before, unknown, names))
        labelled = [
            b.name
            for b in fitted.blocks
            if not b.family.spec.potential and dim in b.data.dims and not b.own_trials
            if (entry := dataset.ask(b.name)) is not None and _says_something(entry)
        ]
        if labelled and not _all_known(before, now):
            out.append(_unused(dim, labelled[0], names))
    return tuple(out)


def say(diagnostics: Iterable[Diagnostic]) -> None:
    """Each as a PredictionWarning at the line that called lgmdsl."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == "lgmdsl":
        level, frame = level + 1, frame.f_back
    for diagnostic in diagnostics:
        warnings.warn(PredictionWarning(diagnostic.render(), diagnostic), stacklevel=level)


def _joined(fitted: CanonicalModel, dim: str) -> list[str]:
    """The latents that have a new member of an index set at their prior, whatever its label."""
    names = (
        fitted.shown(b.name)
        for b in fitted.latents
        for f in b.factors
        if dim in f.dims and members_of(f.name) is Members.JOINED and "at" not in f.arguments
    )
    return list(dict.fromkeys(names))


def _all_known(before: IndexSet, now: IndexSet) -> bool:
    """Whether labels, not row numbers, name fitted members throughout."""
    counted = before.counted or now.counted
    return not counted and bool((before.positions(now.labels) >= 0).all())


def _says_something(entry: Entry) -> bool:
    """Whether an entry has values that are not missing."""
    values, missing = entry.loaded.values, entry.loaded.missing
    if not isinstance(values, np.ndarray):
        return True
    gone = np.zeros(values.shape, dtype=np.bool_) if missing is None else missing
    if values.dtype.kind == "f":
        gone = gone | np.isnan(values)
    return bool((~gone).any())


def _new_rows(dim: str, size: int, names: list[str]) -> Diagnostic:
    return Diagnostic(
        "W305",
        f"{count_of(size, 'row')} of `{dim}` without labels are taken as new ones, though as many "
        "were fitted",
        details=(f"latents that have their prior there: {', '.join(names)}",),
        help=f"for the fitted rows ask the fit itself ({either('lgm summary', 'fit.mean')}), or "
        f"label `{dim}` in the fit and in the new data",
        severity="warning",
        layout="plain",
    )


def _unused(dim: str, response: str, names: list[str]) -> Diagnostic:
    return Diagnostic(
        "W306",
        f"`{response}` is given for new members of `{dim}`, and predictions learn nothing from it",
        details=(f"latents that have their prior there: {', '.join(names)}",),
        help=f"leave `{response}` out; members whose responses are known in part are completed by "
        "lgm.fit(model, data, fixed=...).impute()",
        severity="warning",
        layout="plain",
    )


def _unknown(fitted: IndexSet, labels: AnyArray, names: list[str]) -> Diagnostic:
    """W307, with the labels of the fit that may be meant."""
    labels, _ = sorted_distinct(labels)
    known = [str(v) for v in fitted.labels[:MAX_LABELS_COMPARED].tolist()]
    text = "U" in (labels.dtype.kind, fitted.labels.dtype.kind)
    meant = [
        (v, near) for v in labels[:SHOWN].tolist() if text and (near := nearest_label(v, known))
    ]
    shown = ", ".join(show(v) for v in labels[:SHOWN].tolist())
    more = f" and {labels.size - SHOWN} more" if labels.size > SHOWN else ""
    some = ", ".join(show(v) for v in fitted.labels[:SHOWN].tolist())
    near = listed([f"{show(close)} for {show(v)}" for v, close in meant])
    verb = "is" if labels.size == 1 else "are"
    return Diagnostic(
        "W307",
        f"{count_of(labels.size, 'label')} of `{fitted.name}` {verb} not in the fit, and {verb} "
        f"predicted from the prior: {shown}{more}",
        details=(
            f"latents that have their prior there: {', '.join(names)}",
            f"the fit has {count_of(fitted.size, 'label')}: {some}"
            f"{', ...' if fitted.size > SHOWN else ''}",
        ),
        help=f"did you mean {near}?" if near else "correct the labels if fitted members are meant",
        severity="warning",
        layout="plain",
    )
