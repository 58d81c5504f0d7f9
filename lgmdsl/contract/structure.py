"""Prior structures: one axis of a Gaussian block at fixed hyperparameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import ClassVar

from lgmdsl.arrays import Array, IntArray, Matrix, SparseMatrix
from lgmdsl.vocabulary.signature import Part


class Shape(Flag):
    """What a structure offers; engines are chosen from it."""

    NONE = 0
    COVARIANCE = auto()  #: covariance() exists (possibly singular)
    PRECISION = auto()  #: precision() exists (possibly singular: see null_space)
    DIAGONAL = auto()  #: variance() gives the whole covariance
    IMPROPER = auto()  #: some direction has density 1: flat, or a null space not all constrained
    SPARSE = auto()  #: precision() is sparse


class Members(Enum):
    """How a structure takes members that the fit did not have."""

    FIXED = auto()  #: not at all: its prior is one of the fitted members alone
    JOINED = auto()  #: built over old and new members it is, over the old ones, what it was
    ORDERED = auto()  #: `extension` says what new ones are, given the fitted ones


@dataclass(frozen=True, eq=False)
class Regression:
    """Members given the ones before them: z_i ~ N(slope z_before, variance), (m,) each; the slope
    is 0 where there is none."""

    slope: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class Extension:
    """m new members given the n fitted ones: new | z ~ N(weights z, covariance).

    `weights` (m, n) csr, `covariance` (m, m), possibly singular: a new member at the place of a
    fitted one is that one.
    """

    weights: SparseMatrix
    covariance: Array


class Structure(Part, ABC):
    """An n x n Gaussian prior on one axis, its argument values already evaluated.

    Frozen dataclasses whose fields are the size and the argument values. Gradients flow back
    through `pullback_*`: given dF/dK (or dF/dQ) they return dF/dargument for each argument.

    A third party's class is called as `cls(size, **arguments)` (float64 arrays; csr for a graph or
    a matrix that came sparse). Its `signature` declares its name and arguments:

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> import numpy as np
    >>> import lgmdsl as lgm
    >>> from lgmdsl.extend import Array, Parameter, Shape, Signature, Structure
    >>> @lgm.register
    ... @dataclass(frozen=True, eq=False)
    ... class Exchangeable(Structure):
    ...     order: int
    ...     sd: Array
    ...     share: Array
    ...     signature: ClassVar[Signature] = Signature(
    ...         "exchangeable", "structure",
    ...         (Parameter("sd", "positive", over="none"),
    ...          Parameter("share", "unit", required=False, default=0.5, over="none")),
    ...         carries_scale=("sd",), summary="all pairs are equally correlated")
    ...     @property
    ...     def size(self):
    ...         return self.order
    ...     @property
    ...     def shape(self):
    ...         return Shape.COVARIANCE
    ...     def covariance(self):  # sd^2 ((1 - share) I + share 11')
    ...         n = self.order
    ...         return self.sd**2 * ((1 - self.share) * np.eye(n) + self.share * np.ones((n, n)))
    ...     def pullback_covariance(self, adjoint):
    ...         apart = np.ones_like(adjoint) - np.eye(self.order)
    ...         return {"sd": np.asarray(2 / self.sd * np.sum(adjoint * self.covariance())),
    ...                 "share": np.asarray(self.sd**2 * np.sum(adjoint * apart))}
    >>> m = lgm.Model()
    >>> g = m.index("g")
    >>> y = m.data("y", g, "real")
    >>> u = m.latent("u", g, lgm.exchangeable(sd=1))
    >>> m.observe(y, lgm.normal(mean=u, sd=1))
    >>> lgm.fit(m, {"y": [1.0, 2.0, 3.0]}).mean("u").values.round(3)
    array([1.   , 1.333, 1.667])
    """

    members: ClassVar[Members] = Members.FIXED
    #: whether members are a Markov chain along their positions, or their order: `regression` exists
    chained: ClassVar[bool] = False

    @property
    @abstractmethod
    def size(self) -> int: ...

    @property
    @abstractmethod
    def shape(self) -> Shape: ...

    def mean(self) -> Array | None:
        """(n,) prior mean, None for zero."""
        return None

    def variance(self) -> Array:
        """(n,) diagonal of the covariance."""
        return self.covariance().diagonal().copy()

    def covariance(self) -> Array:
        """(n, n) covariance; raises TypeError for improper structures."""
        raise TypeError(f"{self.name} has no covariance")

    def precision(self) -> Matrix:
        """(n, n) precision, dense or csr; raises TypeError where only a covariance exists."""
        raise TypeError(f"{self.name} has no precision")

    def log_det_precision(self) -> float:
        """log of the product of the precision's non-zero eigenvalues (0 for flat)."""
        raise TypeError(f"{self.name} has no precision")

    def null_space(self) -> Array:
        """(n, k) orthonormal basis of the improper directions; k = 0 where proper."""
        import numpy as np

        return np.zeros((self.size, 0))

    @property
    def nullity(self) -> int:
        """k; for structures that know it without the basis."""
        return int(self.null_space().shape[1])

    def constraints(self) -> SparseMatrix:
        """(k, n) csr: rows c with c'z = 0 that belong to the prior (sums to zero). Where they span
        the null space the structure is proper, and offers Q^+ as its covariance."""
        import scipy.sparse as sp

        return sp.csr_array((0, self.size))

    def held(self) -> tuple[Structure, SparseMatrix] | None:
        """This prior tied to 0 along its whole null space, whose arguments are the same, and an
        orthonormal basis (n, k), csr, of the directions of density 1 that it had. None where there
        are no such directions next to others, or the structure does not know."""
        return None

    def covariance_at(self, rows: IntArray, columns: IntArray) -> Array | None:
        """Entries (row, column) of K at places where Q stores one, in closed form; None where there
        is none (engines then factor Q)."""
        return None

    @property
    def coordinates(self) -> Array | None:
        """(n, k) what tells members apart in whatever order they come, such as the inputs of a gp;
        None: where they stand."""
        return None

    @property
    def joined(self) -> bool:
        """Whether Q joins all members, whatever the arguments: no group of them is independent of
        the rest. False where that is not known."""
        return False

    @property
    def proportional(self) -> bool:
        """Whether Q depends on the arguments through one factor alone, of what data determine."""
        return False

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        """dF/dargument from dF/dK, (n, n); keys are argument names, shapes those of the values."""
        raise TypeError(f"{self.name} has no covariance")

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """dF/dargument from dF/dQ, (n, n): dense, or csr on Q's pattern."""
        raise TypeError(f"{self.name} has no precision")

    def pullback_mean(self, adjoint: Array) -> dict[str, Array]:
        """dF/dargument from dF/dmu, (n,), for the arguments of `mean()`."""
        return {}

    def regression(self, members: IntArray, before: IntArray) -> Regression:
        """Members (m,) of a chain given ones before them, (m,), -1 for none."""
        raise TypeError(f"{self.name} is no chain")

    def pullback_regression(
        self, members: IntArray, before: IntArray, slope: Array, variance: Array
    ) -> dict[str, Array]:
        """dF/dargument from dF/dslope and dF/dvariance, (m,) each."""
        raise TypeError(f"{self.name} is no chain")

    def extension(self, places: Array, new: Array) -> Extension:
        """New members at the places `new` (m,), in any order and again and again, of an axis whose
        fitted members are at `places` (n,): the label's distance from the first one in steps, or
        `at`. What it says of one member must not depend on the others that are asked for.

        For `Members.ORDERED`. Raises Refused (E302) for places where it has no members.
        """
        raise TypeError(f"{self.name} takes no new members")
