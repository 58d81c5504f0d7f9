"""What fits whose rows were read by batches cannot be asked."""

from __future__ import annotations

from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.streams.refusals import KEPT


def check_rows(canonical: CanonicalModel, what: str) -> None:
    """Raise MethodError E501 where `what` needs the rows of a fit that keeps none."""
    if canonical.by_rows:
        return
    raise MethodError(
        Diagnostic(
            "E501",
            f"{what} needs the rows of the fit, which were read by batches and not kept",
            help=f"predict at new data by `fit.predict`, or fit with all rows in memory: {KEPT}",
        )
    )
