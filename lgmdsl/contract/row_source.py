"""Where the rows of a model's site blocks are, and what can be asked of them there: in the blocks,
in memory as fewer sites, in a file that was read by batches, or spread over shards."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.site import Site

if TYPE_CHECKING:
    from lgmdsl.canonical.model import CanonicalModel
    from lgmdsl.dataset import Dataset

# Rows of a block from which on they are summed up by places, and rows at each, on average.
LEAST, ROWS_A_PLACE = 50_000, 8

Theta = Mapping[str, Array]
# How pickle makes a model again: a function, and its arguments.
Remade = tuple[Callable[..., Any], tuple[Any, ...]]


class Held(NamedTuple):
    """How many rows of a site block are held elsewhere, and the sum of their weights."""

    rows: int
    weight: float


StoredArray = tuple[AnyArray, Mapping[str, Any]]


class Stored(NamedTuple):
    """What a result file says of rows that it does not hold: a `group` with attributes, and arrays
    with theirs; `format`: of the first version that could read it."""

    group: str
    format: int
    attributes: Mapping[str, Any]
    arrays: Mapping[str, StoredArray]


@dataclass(frozen=True, eq=False)
class RowSource:
    """All rows are in the site blocks, each a site of its own. Others hold some of the rows alone
    in the blocks of an index, or fewer rows; `model` is always the one whose rows these are."""

    @property
    def over(self) -> tuple[str, ...]:
        """The index sets over which site blocks hold some of the rows alone."""
        return ()

    @property
    def kept(self) -> bool:
        """Whether the site blocks hold all rows."""
        return not self.over

    def declared(self, model: CanonicalModel) -> CanonicalModel:
        """The model with every latent, of some of the rows where blocks hold no more: what says how
        hyperparameters enter."""
        return model

    @property
    def folding(self) -> Folding | None:
        """How rows in memory became fewer sites; None where they did not."""
        return None

    @property
    def read_from(self) -> Dataset | None:
        """Where rows that blocks do not hold can be had again; None where there are none, or where
        that is not known."""
        return None

    @property
    def said(self) -> dict[str, str]:
        """What a fit's provenance says of rows that blocks do not hold: how many, where, and hashes
        of all of them."""
        return {}

    @property
    def beyond(self) -> tuple[Predictor, ...]:
        """Predictors of sites that no block declares."""
        return ()

    def held(self, k: int) -> Held | None:
        """The rows of site block k that it stands for and does not hold; None where it has all."""
        return None

    def slopes(self, k: int) -> Literal["sites", "sums", "hypers"]:
        """What the slopes of site block k belong to: the parameters of each site, these summed over
        the rows, or hyperparameters by name."""
        return "sites"

    def observed(self, model: CanonicalModel, k: int, theta: Theta) -> Predictor:
        """The predictor of the sites of block k."""
        return model.own_predictor(k, theta)

    def bound(self, model: CanonicalModel, k: int, theta: Theta) -> Site:
        """The sites of block k."""
        return model.own_sites(k, theta)

    def sampled(self, model: CanonicalModel) -> CanonicalModel | None:
        """The model of a sample of the rows, on the same latents, whose fits are much cheaper; None
        where there is none."""
        return None

    def few_groups(
        self, model: CanonicalModel, theta: Theta, rows: int, groups: int
    ) -> CanonicalModel | None:
        """The model of a sample of whole groups of rows, with the groups' latents: about so many
        rows, and so many groups at least. None where it would be most of them, or where they are
        not apart. Raises LgmError where they cannot be read."""
        return None

    @property
    def unsampled(self) -> str:
        """Why errors of a fit are not estimated where there are no `few_groups`; "" where all sites
        can be looked at."""
        return ""

    def reached(self, theta: Theta, posterior: GaussianPosterior, value: float) -> None:
        """A search, which makes one fit after another, has made this one; `value`: the log
        posterior of theta. Of use where questions cost less near another fit."""

    def remade(self, model: CanonicalModel) -> Remade | None:
        """How pickle makes the model again; None where it is compiled from its text and data."""
        return None

    def stored(self) -> Stored | None:
        """What a result file says of the rows; None where it holds them."""
        return None

    def done(self) -> None:
        """Let go of workers and rows at the end of a fit."""


@dataclass(frozen=True, eq=False)
class Folding(RowSource):
    """Rows in memory as fewer sites: rows that are alike as one, rows of a place as one, Gaussian
    rows as their sums. As functions of the latents and the hyperparameters the sums of both are the
    same. `whole` has all rows; `again` folds the same model in the same way in another process."""

    entry: ClassVar[str]  #: of the provenance
    left: ClassVar[str]  #: what the sites are

    whole: CanonicalModel
    again: Callable[[CanonicalModel], CanonicalModel | None]

    @property
    def folding(self) -> Folding:
        return self

    def remade(self, model: CanonicalModel) -> Remade:
        return self.again, (self.whole,)

    @property
    @abstractmethod
    def note(self) -> str:
        """What was folded: `y: 5,000 rows, 40 distinct`."""

    @property
    def descriptions(self) -> tuple[tuple[str, str], ...]:
        """What was folded, block by block, for `lgm explain`."""
        return ()

    @abstractmethod
    def unfolded(
        self,
        theta: Theta,
        weight: Rows,
        shift: Rows,
        condition: Callable[[], Conditioned],
        question: type,
        answers: Sequence[Callable[[Any], Any]],
    ) -> tuple[Rows, Rows]:
        """Weights and shifts of all rows, from those of the sites. `condition` gives the posterior;
        `question`: what the method asks of sites, of each block through `answers`."""

    @abstractmethod
    def summed(self, theta: Theta, weight: Rows, shift: Rows) -> tuple[Rows, Rows]:
        """Weights and shifts of the sites, from those of all rows."""

    @abstractmethod
    def seen(self, theta: Theta, q: Conditioned, weight: Rows, shift: Rows) -> Conditioned:
        """A posterior of the sites at all rows, whose weights and shifts are these."""
