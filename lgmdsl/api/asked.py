"""What predictions are asked for: refused where that is nothing, and told where it is ambiguous."""

from __future__ import annotations

from lgmdsl.canonical.ground_errors import count_of, signature
from lgmdsl.canonical.ground_model import GroundedModel
from lgmdsl.canonical.ground_usage import Usage
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.structure import Members
from lgmdsl.dataset import Dataset
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.language.checked import CheckedModel
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
    wanted += [f"members of `{name}` under that name" for name in named]
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


def unlabelled(fitted: CanonicalModel, new: GroundedModel) -> tuple[Diagnostic, ...]:
    """W305: rows without labels are new members of the latents over them, also where there are as
    many as were fitted and the fit's own may be meant."""
    out = []
    for dim in new.replaced:
        before, now = fitted.grounded.indices[dim], new.indices[dim]
        same = before.counted and now.counted and now.size == before.size
        if not same or dim in new.steps:
            continue
        names = [
            b.name
            for b in fitted.latents
            for f in b.factors
            if dim in f.dims and members_of(f.name) is Members.JOINED and "at" not in f.arguments
        ]
        if names:
            out.append(
                Diagnostic(
                    "W305",
                    f"{count_of(now.size, 'row')} of `{dim}` without labels are taken as new ones, "
                    "though as many were fitted",
                    details=(f"latents that have their prior there: {', '.join(names)}",),
                    help=f"predictions at fitted rows: fit with labels of `{dim}`, and give them "
                    "again; or ask the fit itself: fit.mean",
                    severity="warning",
                    layout="plain",
                )
            )
    return tuple(out)
