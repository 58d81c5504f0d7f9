"""What a page of the manual says of a part that is no word of models, next to its declaration."""

from __future__ import annotations

from typing import NamedTuple


class Notes(NamedTuple):
    """`formula`: what it computes or means; `support`: where it applies; `advice`: when to take it
    and when it is wrong; `example`: commands on a `model.lgm` and its `data.npz`, or a complete
    model; `see_also`: other names. `without` names those of these that do not apply."""

    formula: str = ""
    support: str = ""
    advice: str = ""
    example: str = ""
    see_also: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


NO_NOTES = Notes()
