"""What fits whose rows were read by batches, or lie in shards, cannot be asked."""

from __future__ import annotations

from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.errors import MethodError
from lgmdsl.remedies import either
from lgmdsl.shards.refusals import WHOLE
from lgmdsl.streams.refusals import KEPT

AGAIN = either("give them again: --data DATA", "give them again: data=...")
PREDICT = either("lgm predict FIT.nc FOLDER -o OUT", 'fit.predict_shards("FOLDER", "OUT")')


def check_rows(canonical: CanonicalModel, what: str) -> None:
    """Raise MethodError E501 where `what` needs the rows of a fit that keeps none."""
    check_groups(canonical, what)
    if canonical.rows.kept:
        return
    raise MethodError.of(
        "E501",
        f"{what} needs the rows of the fit, which were read by batches and not kept",
        help=f"{AGAIN}, predict at new data by `fit.predict`, or fit with all rows in memory: "
        f"{KEPT}",
    )


def check_groups(canonical: CanonicalModel, what: str) -> None:
    """Raise MethodError E501 where `what` needs latents that a fit does not hold."""
    if canonical.declared is canonical:
        return
    raise MethodError.of(
        "E501",
        f"{what} needs the rows and the groups' latents of the fit, which lie in shards",
        help=f"predict at rows that lgm shard has split: {PREDICT}; fit.groups writes the "
        f"groups' latents; {WHOLE}",
    )
