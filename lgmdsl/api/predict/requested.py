"""What predictions are asked for: refused where that is nothing, warned of where ambiguous."""

from __future__ import annotations

import numpy as np

from lgmdsl.canonical.grounding.errors import count_of, signature
from lgmdsl.canonical.grounding.model import GroundedModel, IndexSet
from lgmdsl.canonical.grounding.usage import Usage
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.structure import Members
from lgmdsl.dataset import Dataset, Entry
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.language.checked import CheckedModel
from lgmdsl.remedies import either
from lgmdsl.structures.catalogue import members_of


def check_asked(model: CheckedModel, usage: Usage, dataset: Dataset) -> None:
    """Raise DataError E305 for new data of which nothing says at what the model is asked for.

    A model that no datum and no label could say anything of is asked for as it is, by no data.
    """
    covariates = [s for s in model.of_kind("data") if s.name not in usage.responses]
    rows = [s for s in model.of_kind("data")
            if s.name in usage.observed and usage.rows & {*s.dims}]  # fmt: skip
    named = sorted(usage.steps | (usage.growing & _targets(model)))
    if not (covariates or named) and not dataset.entries:
        return
    indices = [s.name for s in model.of_kind("index")]
    if any(dataset.ask(s.name) is not None for s in (*covariates, *rows)):
        return
    if any(dataset.key(name) in dataset.entries for name in indices):
        return
    wanted = [signature(s.name, s.dims) for s in covariates]
    wanted += [f"members of `{name}` (a column or key of that name)" for name in named]
    wanted += [] if wanted else [signature(s.name, s.dims) for s in rows]
    has = f"{dataset.name} has: {', '.join(dataset.keys[:20])}" if dataset.keys else ""
    raise DataError(
        Diagnostic(
            "E305",
            "the new data name nothing that predictions of this model are asked for by",
            details=(has or f"{dataset.name} has no arrays",),
            help=f"give {', '.join(wanted) or 'members of an index'}; what was fitted is in the fit"
            " itself: fit.mean, `lgm summary`",
            layout="plain",
        )
    )


def _targets(model: CheckedModel) -> set[str]:
    return {s.target for s in model.of_kind("data") if s.target is not None}


def ambiguous(
    fitted: CanonicalModel, new: GroundedModel, dataset: Dataset
) -> tuple[Diagnostic, ...]:
    """W305: rows without labels are new members of the latents over them, also where there are as
    many as were fitted and the fit's own may be meant. W306: responses of new members, which say
    nothing of them."""
    out = []
    for dim in new.replaced:
        names = [
            b.name
            for b in fitted.latents
            for f in b.factors
            if dim in f.dims and members_of(f.name) is Members.JOINED and "at" not in f.arguments
        ]
        if not names or dim in new.steps:
            continue
        before, now = fitted.grounded.indices[dim], new.indices[dim]
        if before.counted and now.counted and now.size == before.size:
            out.append(_new_rows(dim, now.size, names))
        given = [
            b.name
            for b in fitted.blocks
            if not b.family.spec.potential and dim in b.data.dims and not b.own_trials
            if (entry := dataset.ask(b.name)) is not None and _says_something(entry)
        ]
        if given and not _all_known(before, now):
            out.append(_unused(dim, given[0], names))
    return tuple(out)


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
