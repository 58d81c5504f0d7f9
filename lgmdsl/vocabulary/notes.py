"""What a page of the manual says of a part that is no word of models, next to its declaration."""

from __future__ import annotations

from typing import NamedTuple

from lgmdsl.vocabulary.signature import Alias, called


class Notes(NamedTuple):
    """`formula`: what it computes or means; `support`: where it applies; `advice`: when to take it
    and when it is wrong; `example`: commands on a `model.lgm` and its `data.npz`, or a complete
    model; `see_also`: other names. `without` names those of these that do not apply. `also_called`:
    the names of other software."""

    formula: str = ""
    support: str = ""
    advice: str = ""
    example: str = ""
    see_also: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    also_called: tuple[Alias, ...] = ()

    def alias(self, name: str) -> Alias | None:
        """The name of other software, spelt in whatever way; None where it is not one of these."""
        return called(self.also_called, name)


NO_NOTES = Notes()
