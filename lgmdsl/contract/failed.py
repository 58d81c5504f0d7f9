"""Why a posterior could not be conditioned: a value with a kind and what it is about.

What reads a failure asks for its kind and its latents. The sentence is made of them: with an
engine's own `name[entry]` in `Failed.reason`, with the user's labels in `Failed.worded`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Failure(Enum):
    """Kinds of failures; the value is the sentence, with the failure's `direction` or `number`."""

    UNDETERMINED = "no datum or prior determines {direction}"
    HIDDEN = "the prior is so stiff that rounding hides what the data say of {direction}"
    CONTRADICTION = "the constraints contradict one another, or the prior"
    AGAINST_PRIOR = "the constraints contradict the prior, which holds that combination fixed"
    SINGULAR_CONSTRAINTS = "the prior covariance of the constraints is singular"
    SINGULAR_ON_CONSTRAINTS = "the posterior covariance of the constraints is singular"
    INDEFINITE_ON_CONSTRAINTS = "the posterior is not positive definite on the constraints"
    INDEFINITE = "the posterior precision is not positive definite"
    NEGATIVE_WEIGHTS = "the posterior precision is not positive definite (negative site weights)"
    NO_NEGATIVE_WEIGHTS = "the iterative engine takes no negative site weights"
    NOT_FINITE = "the posterior precision is not finite"
    WEIGHT_NOT_FINITE = "a site weight is not finite"
    PRIOR_NOT_FINITE = (
        "the prior covariance of the predictors is not finite, or not positive semidefinite"
    )
    ILL_CONDITIONED = "the posterior precision is too badly conditioned for conjugate gradients"
    INACCURATE = (
        "the posterior precision is too badly conditioned for conjugate gradients: "
        "means may be {number:.2g} posterior sds off"
    )
    NOT_CONVERGED = "conjugate gradients did not converge in {number:.0f} iterations"

    @property
    def contradicts(self) -> bool:
        """Whether no value of the latents satisfies every constraint."""
        return self in (Failure.CONTRADICTION, Failure.AGAINST_PRIOR)

    @property
    def rounding(self) -> bool:
        """Whether the posterior exists, and double precision cannot hold it."""
        return self in (Failure.HIDDEN, Failure.ILL_CONDITIONED, Failure.INACCURATE)


@dataclass(frozen=True)
class Term:
    """`coefficient` times the entry `entry` (row-major) of the latent block `latent`."""

    latent: str
    entry: int
    coefficient: float = 1.0


@dataclass(frozen=True)
class Direction:
    """A combination of latents, the largest terms first; `more`: whether others are left out."""

    terms: tuple[Term, ...]
    more: bool = False

    def worded(self, label: Callable[[str, int], str]) -> str:
        """`b0[0]`; `a direction of b0[0]`; `the direction b0[0] - 0.5 a[3] + ...`."""
        first, *others = (label(t.latent, t.entry) for t in self.terms)
        if not others:
            return f"a direction of {first}" if self.more else first
        sign = -1.0 if self.terms[0].coefficient < 0.0 else 1.0
        text = _size(self.terms[0].coefficient) + first
        for term, name in zip(self.terms[1:], others, strict=True):
            join = " - " if sign * term.coefficient < 0.0 else " + "
            text += join + _size(term.coefficient) + name
        return f"the direction {text}{' + ...' if self.more else ''}"


def _size(coefficient: float) -> str:
    return "" if abs(abs(coefficient) - 1.0) < 5e-4 else f"{abs(coefficient):.3g} "


def entry_name(latent: str, entry: int) -> str:
    """The label that an engine has for an entry of a latent block."""
    return f"{latent}[{entry}]"


@dataclass(frozen=True)
class Failed:
    """A factorisation that does not exist (indefinite posterior, improper model): a value.

    `rounding` says that the posterior exists, and double precision cannot hold it. `kind`: what
    failed, None where the `reason` alone says it; `direction`: the combination of latents that a
    kind is about; `number`: what its sentence counts or measures. The reason of a kind is its
    sentence, where none is given.
    """

    reason: str = ""
    rounding: bool = False
    kind: Failure | None = None
    direction: Direction | None = None
    number: float = 0.0

    def __post_init__(self) -> None:
        if self.kind is not None:
            object.__setattr__(self, "rounding", self.rounding or self.kind.rounding)
            object.__setattr__(self, "reason", self.reason or self.worded(entry_name))

    @property
    def latents(self) -> tuple[str, ...]:
        """The latent blocks of the direction, each once, in order."""
        terms = () if self.direction is None else self.direction.terms
        return tuple(dict.fromkeys(t.latent for t in terms))

    def worded(self, label: Callable[[str, int], str]) -> str:
        """The sentence, where the entry i of a latent block is called label(block, i)."""
        if self.kind is None:
            return self.reason
        direction = "" if self.direction is None else self.direction.worded(label)
        return self.kind.value.format(direction=direction, number=self.number)
