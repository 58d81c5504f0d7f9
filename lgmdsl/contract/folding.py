"""Rows that are fitted as fewer sites: rows that are alike as one, rows of a place as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Rows

if TYPE_CHECKING:
    from lgmdsl.canonical.model import CanonicalModel

# Rows of a block from which on they are summed up by places, and rows at each, on average.
LEAST, ROWS_A_PLACE = 50_000, 8


@dataclass(frozen=True, eq=False)
class Folding(ABC):
    """How the rows of `whole`, a model with all its rows, became the fewer sites of `folded`. As
    functions of the latents and the hyperparameters the sums of both are the same. `again` folds
    the same model in the same way in another process."""

    entry: ClassVar[str]  #: of the provenance

    whole: CanonicalModel
    folded: CanonicalModel
    again: Callable[[CanonicalModel], CanonicalModel | None]

    @property
    @abstractmethod
    def note(self) -> str:
        """What was folded: `y: 5,000 rows, 40 distinct`."""

    @abstractmethod
    def unfolded(
        self,
        theta: Mapping[str, Array],
        weight: Rows,
        shift: Rows,
        condition: Callable[[], Conditioned],
        question: type,
        answers: Sequence[Callable[[Any], Any]],
    ) -> tuple[Rows, Rows]:
        """Weights and shifts of all rows, from those of the sites. `condition` gives the posterior;
        `question`: what the method asks of sites, of each block through `answers`."""

    @abstractmethod
    def summed(self, theta: Mapping[str, Array], weight: Rows, shift: Rows) -> tuple[Rows, Rows]:
        """Weights and shifts of the sites, from those of all rows."""

    @abstractmethod
    def seen(
        self, theta: Mapping[str, Array], q: Conditioned, weight: Rows, shift: Rows
    ) -> Conditioned:
        """A posterior of the sites at all rows, whose weights and shifts are these."""
