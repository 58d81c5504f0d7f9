"""A fit with its responses, which result files do not hold, at the rows that it was made from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lgmdsl.api.by_rows import check_groups, check_rows
from lgmdsl.canonical.grounding.tables.place import placed
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import compile_model
from lgmdsl.dataset import Dataset, Keys, read
from lgmdsl.errors import DataError, listed
from lgmdsl.inference.plan import plan_again
from lgmdsl.memory import check
from lgmdsl.posterior.unfolded import expanded
from lgmdsl.remedies import either
from lgmdsl.sites import catalogue as sites

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


ROW = 300.0  # bytes of a row that is asked again, about: what is read, its predictor and its site


def without_responses(canonical: CanonicalModel) -> tuple[str, ...]:
    """The responses that a model does not hold, being of a result file."""
    return tuple(b.name for b in canonical.blocks if b.y is None and not b.site.spec.potential)


def with_responses(
    fit: FitRecord, data: object, mapping: Keys | None, caller: str, how: str
) -> tuple[FitRecord, CanonicalModel]:
    """The fit at its rows, and the canonical model with its responses: the fit's own, or made again
    from the data. Rows that were read by batches are read again, from `data` or from where they
    were, and the fit is the one of these rows that all have a site of their own.

    `caller` needs them, `how` shows how to give them. Raises DataError: E305 where the fit comes
    from a file and no data are given, E303 for other data than the fit's; MethodError E501 for
    rows that cannot be had, E505 where they are larger than the memory budget.
    """
    canonical = fit.canonical
    check_groups(canonical, caller)
    data = canonical.rows.read_from if data is None else data
    if data is None:
        check_rows(canonical, caller)
        lacking = without_responses(canonical)
        if lacking:
            shown = listed([f"`{n}`" for n in lacking])
            message = f"{caller} needs {shown}, which result files do not hold"
            raise DataError.of("E305", message, help=f"give the data of the fit: {how}")
        return fit, canonical
    if not canonical.rows.kept:
        count = canonical.observations
        check(f"the rows of the fit, for {caller}", f"{count:,} rows in memory", ROW * count)
    dataset = data if isinstance(data, Dataset) else read(data, mapping)
    dataset = placed(fit.model.checked, dataset, canonical.grounded)
    again = compile_model(fit.model.checked, dataset, sites.find_site)
    hashes = {k.removeprefix("sha256_"): v for k, v in fit.provenance.items()}
    other = [n for n, h in again.grounded.hashes.items() if hashes.get(n, h) != h]
    if other:
        names = listed([f"`{n}`" for n in other])
        message = f"the data are not those of the fit: {names}"
        raise DataError.of(
            "E303",
            message,
            help=either(
                "give the file that the fit was made from: --data DATA",
                "give the data that the fit was made from: data=...",
            ),
        )
    if canonical.rows.kept:
        return fit, again
    from lgmdsl.streams.folded import folded_as

    planned = plan_again(canonical, fit.method, fit.provenance)
    whole = folded_as(canonical, again, planned.backend.spec)
    if whole is None:
        check_rows(canonical, caller)
    else:
        planned = replace(planned, canonical=whole)
    return expanded(fit, planned), again
