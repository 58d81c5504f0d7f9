"""The model of a fit with its responses, which result files do not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lgmdsl.api.by_rows import check_rows
from lgmdsl.canonical.grounding.tables.place import placed
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import compile_model
from lgmdsl.dataset import Dataset, Keys, read
from lgmdsl.errors import DataError, Diagnostic, listed
from lgmdsl.remedies import either
from lgmdsl.sites import catalogue as sites

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


def with_responses(
    fit: FitRecord, data: object, mapping: Keys | None, caller: str, how: str
) -> CanonicalModel:
    """The canonical model with its responses: the fit's own, or made again from the data.

    `caller` needs them, `how` shows how to give them. Raises DataError: E305 where the fit comes
    from a file and no data are given, E303 for other data than the fit's.
    """
    canonical = fit.canonical
    check_rows(canonical, caller)
    if data is None:
        lacking = [b.name for b in canonical.blocks if b.y is None and not b.site.spec.potential]
        if lacking:
            shown = listed([f"`{n}`" for n in lacking])
            message = f"{caller} needs {shown}, which result files do not hold"
            raise DataError(Diagnostic("E305", message, help=f"give the data of the fit: {how}"))
        return canonical
    dataset = data if isinstance(data, Dataset) else read(data, mapping)
    dataset = placed(fit.model.checked, dataset, canonical.grounded)
    again = compile_model(fit.model.checked, dataset, sites.find_site)
    hashes = {k.removeprefix("sha256_"): v for k, v in fit.provenance.items()}
    other = [n for n, h in again.grounded.hashes.items() if hashes.get(n, h) != h]
    if other:
        names = listed([f"`{n}`" for n in other])
        message = f"the data are not those of the fit: {names}"
        raise DataError(
            Diagnostic(
                "E303",
                message,
                help=either(
                    "give the file that the fit was made from: --data DATA",
                    "give the data that the fit was made from: data=...",
                ),
            )
        )
    return again
