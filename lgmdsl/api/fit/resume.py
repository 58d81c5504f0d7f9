"""Which interrupted fit a later one goes on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lgmdsl.learning.integration.checkpoint import Checkpoint

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

# Entries of the provenance that change no fit.
ELSEWHERE = ("python", "data_source", "version_numpy", "version_scipy")


def resumable(earlier: FitRecord, origin: Mapping[str, str]) -> Checkpoint | None:
    """The checkpoint of an earlier fit of the same model, data, method and settings, by the same
    version, as `origin` (the provenance of the new one) says them; None where it has none, or is of
    something else: then it is a start like any other."""
    known = earlier.checkpoint
    if known is None:
        return None
    alike = all(earlier.provenance.get(k) == v for k, v in origin.items() if k not in ELSEWHERE)
    hashed = {k for k in earlier.provenance if k.startswith("sha256_")}
    if not alike or not hashed <= origin.keys():
        return None
    return known if earlier.learning is None else replace(known, steps=earlier.learning.steps)
