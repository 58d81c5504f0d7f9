"""How columns of a table enter a matrix; a fit keeps it, so that new rows enter it alike.

A matrix is made of terms, a term is a product of coded columns, and each kind of coding is one
declaration in `KINDS`: what it learns of a column (levels, a center, polynomials), and its columns
for any values. The names and numbers of the kinds are those of R: `contr.treatment`, `contr.sum`,
`contr.helmert`, `contr.poly`, `contr.sdif` of MASS, `poly` and `scale`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product

import numpy as np

from lgmdsl.arrays import AnyArray, Array, BoolArray, IntArray

TRENDS = ("linear", "quadratic", "cubic")


class Unfit(Exception):
    """Values that a coding cannot take: what is wrong with them, and the way on."""

    def __init__(self, problem: str, help: str) -> None:
        super().__init__(problem)
        self.problem, self.help = problem, help


class Kind(ABC):
    """A way in which a column enters."""

    of_levels = False  #: its values are labels

    @abstractmethod
    def labels(self, coding: Coding) -> tuple[str, ...]:
        """The labels of the columns."""

    @abstractmethod
    def block(self, coding: Coding, values: AnyArray) -> Array:
        """(n, columns) for values (n,): numbers, or positions among the levels, -1 if missing."""

    def learned(self, coding: Coding, values: Array) -> Coding:
        """With what it keeps of numbers. Raises Unfit."""
        return coding


# ---- numbers -----------------------------------------------------------------------------------


class Plain(Kind):
    """A column as it is."""

    def labels(self, coding: Coding) -> tuple[str, ...]:
        return (coding.column,)

    def block(self, coding: Coding, values: AnyArray) -> Array:
        return np.asarray(values, dtype=np.float64)[:, None]


@dataclass(frozen=True)
class Function(Kind):
    """A function of the column, defined from `least` on (`open`: above it)."""

    name: str
    function: Callable[[Array], Array]
    least: float = -np.inf
    open: bool = False

    def labels(self, coding: Coding) -> tuple[str, ...]:
        return (f"{self.name}({coding.column})",)

    def learned(self, coding: Coding, values: Array) -> Coding:
        wrong = values[(values <= self.least) if self.open else (values < self.least)]
        if wrong.size:
            sign = "above" if self.open else "of at least"
            raise Unfit(
                f"{self.name} needs numbers {sign} {self.least:g}, and finds {wrong[0]:g}",
                f"the column as it is: {coding.column}; or another unit of it",
            )
        return coding

    def block(self, coding: Coding, values: AnyArray) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.function(np.asarray(values, dtype=np.float64))[:, None]


@dataclass(frozen=True)
class Standard(Kind):
    """Less the mean, and, if `scaled`, over the standard deviation of the rows that were fitted."""

    name: str
    scaled: bool

    def labels(self, coding: Coding) -> tuple[str, ...]:
        return (f"{self.name}({coding.column})",)

    def learned(self, coding: Coding, values: Array) -> Coding:
        spread = float(values.std(ddof=1)) if values.size > 1 and self.scaled else 1.0
        if not values.size or (self.scaled and np.ptp(values) == 0.0):
            raise Unfit("it has one value", f"leave `{coding.column}` out")
        return replace(coding, memory=(float(values.mean()), spread))

    def block(self, coding: Coding, values: AnyArray) -> Array:
        center, spread = coding.memory
        return (np.asarray(values, dtype=np.float64)[:, None] - center) / spread


class Polynomial(Kind):
    """Polynomials of a degree: orthonormal over the rows that were fitted, as R's `poly` by its
    three-term recurrence (Kennedy and Gentle 1980, pp. 343-344), or `raw` powers."""

    def labels(self, coding: Coding) -> tuple[str, ...]:
        powers = range(1, coding.degree + 1)
        if coding.raw:
            return tuple(coding.column if k == 1 else f"{coding.column}^{k}" for k in powers)
        return tuple(f"poly({coding.column})[{k}]" for k in powers)

    def learned(self, coding: Coding, values: Array) -> Coding:
        distinct = np.unique(values).size
        if coding.degree >= distinct:
            most = "none" if distinct < 2 else f"poly({coding.column}, {distinct - 1})"
            raise Unfit(
                f"a polynomial of degree {coding.degree} needs {coding.degree + 1} different "
                f"values, and it has {distinct}",
                f"at most {most}",
            )
        if coding.raw:
            return coding
        center = float(values.mean())
        spread = float(np.abs(values - center).max())
        x = (values - center) / spread
        memory = [center, spread]
        before, now, norm = np.zeros_like(x), np.ones_like(x), float(len(x))
        ratio = 0.0
        for _ in range(coding.degree):
            alpha = float(x @ now**2) / norm
            before, now = now, (x - alpha) * now - ratio * before
            ratio = float(now @ now) / norm
            norm *= ratio
            memory += [alpha, ratio]
        return replace(coding, memory=(*memory, float(len(x))))

    def block(self, coding: Coding, values: AnyArray) -> Array:
        values = np.asarray(values, dtype=np.float64)
        if coding.raw:
            return values[:, None] ** np.arange(1, coding.degree + 1)
        center, spread, *steps, norm = coding.memory
        x = (values - center) / spread
        before, now, last, out = np.zeros_like(x), np.ones_like(x), 0.0, []
        for alpha, ratio in zip(steps[::2], steps[1::2], strict=True):
            before, now = now, (x - alpha) * now - last * before
            last, norm = ratio, norm * ratio
            out.append(now / np.sqrt(norm))
        return np.column_stack(out)


# ---- levels ------------------------------------------------------------------------------------


class Levels(Kind):
    """Contrasts of the levels of a column: a matrix with a row for each."""

    of_levels = True
    based = False  #: whether one of the levels, `base`, is apart

    @abstractmethod
    def rows(self, coding: Coding) -> Array:
        """(levels, columns)."""

    def labels(self, coding: Coding) -> tuple[str, ...]:
        return tuple(f"{coding.column}[{word}]" for word in self.words(coding))

    def words(self, coding: Coding) -> Sequence[str]:
        """What the columns stand for."""
        return [v for v in coding.levels if v != coding.base]

    def block(self, coding: Coding, values: AnyArray) -> Array:
        out: Array = self.rows(coding)[values]
        out[values < 0] = np.nan
        return out


class Full(Levels):
    """A column of 0 and 1 for every level: a value for each cell in a product."""

    def rows(self, coding: Coding) -> Array:
        return np.eye(len(coding.levels))

    def words(self, coding: Coding) -> Sequence[str]:
        return coding.levels


class Treatment(Levels):
    """1 at a level; the base has 0 in all."""

    based = True

    def rows(self, coding: Coding) -> Array:
        return np.delete(np.eye(len(coding.levels)), coding.levels.index(coding.base), axis=1)


class Sum(Levels):
    """1 at a level, and -1 at the base in all: deviations from the mean of the levels."""

    based = True

    def rows(self, coding: Coding) -> Array:
        at = coding.levels.index(coding.base)
        out = np.delete(np.eye(len(coding.levels)), at, axis=1)
        out[at] = -1.0
        return out


class Helmert(Levels):
    """Each level but the first with those before it: -1 at these, and their number at it."""

    def rows(self, coding: Coding) -> Array:
        whole = np.diag(np.arange(float(len(coding.levels))))
        return (whole - np.triu(np.ones_like(whole), 1))[:, 1:]

    def words(self, coding: Coding) -> Sequence[str]:
        return coding.levels[1:]


class Difference(Levels):
    """The coefficients are differences of a level and the one before it."""

    def rows(self, coding: Coding) -> Array:
        count = len(coding.levels)
        after = np.arange(count)[:, None] > np.arange(count - 1)
        return after - (1.0 - np.arange(1, count) / count)

    def words(self, coding: Coding) -> Sequence[str]:
        pairs = zip(coding.levels[1:], coding.levels, strict=False)
        return [f"{level} - {before}" for level, before in pairs]


class Trend(Levels):
    """Orthonormal polynomials over the order of the levels: linear, quadratic, and so on."""

    def rows(self, coding: Coding) -> Array:
        count = len(coding.levels)
        x = np.arange(count) - (count - 1) / 2.0
        q, r = np.linalg.qr(x[:, None] ** np.arange(count))
        return np.asarray((q * np.sign(np.diag(r)))[:, 1:])

    def words(self, coding: Coding) -> Sequence[str]:
        more = range(len(TRENDS) + 1, len(coding.levels))
        return [*TRENDS, *map(str, more)][: len(coding.levels) - 1]


KINDS: dict[str, Kind] = {
    "": Plain(),
    "treatment": Treatment(),
    "sum": Sum(),
    "helmert": Helmert(),
    "difference": Difference(),
    "poly": Trend(),
    "full": Full(),
    "polynomial": Polynomial(),
    "scale": Standard("scale", True),
    "center": Standard("center", False),
    "log": Function("log", np.log, 0.0, True),
    "log1p": Function("log1p", np.log1p, -1.0, True),
    "log2": Function("log2", np.log2, 0.0, True),
    "log10": Function("log10", np.log10, 0.0, True),
    "sqrt": Function("sqrt", np.sqrt, 0.0),
    "exp": Function("exp", np.exp),
}
BASED = tuple(name for name, kind in KINDS.items() if isinstance(kind, Levels) and kind.based)
CONTRASTS = tuple(name for name, kind in KINDS.items() if kind.of_levels)
FUNCTIONS = tuple(name for name, kind in KINDS.items() if isinstance(kind, Function | Standard))


# ---- terms -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coding:
    """How a column enters a term: its `kind` of `KINDS`, and what that keeps of the rows that were
    fitted: `levels`, of which `base` is apart and `unused` are those that no row has, or numbers
    (`memory`). `degree` and `raw` are those of a polynomial."""

    column: str
    kind: str = ""
    base: str = ""
    levels: tuple[str, ...] = ()
    unused: tuple[str, ...] = field(default=(), compare=False)
    degree: int = 0
    raw: bool = False
    memory: tuple[float, ...] = ()

    @property
    def of_levels(self) -> bool:
        """Whether it is of labels, by contrasts."""
        return KINDS[self.kind].of_levels

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its columns: `age`, or `region[south]`, `region[west]`."""
        return KINDS[self.kind].labels(self)

    @property
    def asked(self) -> tuple[object, ...]:
        """What was asked for, without what was learned."""
        return self.column, self.kind, self.degree, self.raw

    def block(self, values: AnyArray) -> Array:
        """(n, columns) for values (n,) of the column: numbers, or positions among `levels`, -1
        where missing. Of numbers that are no levels the columns are NaN."""
        if self.of_levels and values.dtype.kind == "f":
            values = self.positions(values)
        return KINDS[self.kind].block(self, values)

    def positions(self, values: Array) -> IntArray:
        """(n,) numbers as positions among the levels."""
        same = values[:, None] == np.array([float(v) for v in self.levels])
        return np.where(same.any(axis=1), same.argmax(axis=1), -1)

    def learned(self, values: Array) -> Coding:
        """With what its kind keeps of numbers (n,), NaN where missing. Raises Unfit."""
        return KINDS[self.kind].learned(self, values[np.isfinite(values)])

    def __str__(self) -> str:
        if not self.kind:
            return self.column
        if not self.of_levels:
            return self.written
        out = f"{self.kind} contrasts of {self.column}"
        role = "against" if self.kind == "treatment" else "left out:"
        return f"{out}, {role} {self.base}" if self.kind in BASED else out

    @property
    def written(self) -> str:
        """How a selection writes it."""
        if self.of_levels:
            kind = "" if self.kind == "treatment" else f", kind={self.kind}"
            return f"contrasts({self.column}{kind})"
        if self.degree:
            return f"poly({self.column}, {self.degree}{', raw=true' if self.raw else ''})"
        return f"{self.kind}({self.column})" if self.kind else self.column


@dataclass(frozen=True)
class Term:
    """Columns of a matrix: the products of those of its codings, the last of which runs slowest."""

    codings: tuple[Coding, ...]

    @property
    def alone(self) -> Coding | None:
        """Its coding where it is no product."""
        return self.codings[0] if len(self.codings) == 1 else None

    @property
    def plain(self) -> bool:
        """Whether it is a column as it is."""
        return len(self.codings) == 1 and not self.codings[0].kind

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that are in it."""
        return tuple(coding.column for coding in self.codings)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its columns: `age:region[south]`, `age:region[west]`."""
        parts = product(*(coding.labels for coding in reversed(self.codings)))
        return tuple(":".join(reversed(p)) for p in parts)

    def block(self, values: Mapping[str, AnyArray]) -> Array:
        """(n, columns) for values of its columns."""
        parts = [coding.block(values[coding.column]) for coding in self.codings]
        return reduce(lambda a, b: (b[:, :, None] * a[:, None, :]).reshape(len(a), -1), parts)

    def __str__(self) -> str:
        return " : ".join(map(str, self.codings))

    @property
    def written(self) -> str:
        """How a selection writes it."""
        return ":".join(coding.written for coding in self.codings)


@dataclass(frozen=True, eq=False)
class Design:
    """A matrix made of columns: its terms, and those columns, by the rows, that it does not hold as
    they are: numbers, or positions among the levels of contrasts, -1 where missing."""

    terms: tuple[Term, ...]
    columns: Mapping[str, AnyArray] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table, in the order of their terms."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term.columns))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the matrix's columns."""
        return tuple(label for term in self.terms for label in term.labels)

    def factor(self, column: str) -> Coding | None:
        """The contrasts of a column that holds labels alone; None of one that holds numbers."""
        codings = [c for term in self.terms for c in term.codings if c.column == column]
        return codings[0] if all(c.of_levels for c in codings) else None

    def of(self, values: Mapping[str, AnyArray]) -> tuple[Design, Array]:
        """With what it keeps of the columns, and its matrix (n, labels)."""
        plain = {term.columns[0] for term in self.terms if term.plain}
        kept = {name: column for name, column in values.items() if name not in plain}
        return replace(self, columns=kept), self.matrix(values)

    def at(self, rows: IntArray) -> Design:
        """At some of the rows."""
        return replace(self, columns={name: v[rows] for name, v in self.columns.items()})

    def matrix(self, values: Mapping[str, AnyArray]) -> Array:
        """(n, labels) for values of all columns."""
        return np.concatenate([term.block(values) for term in self.terms], axis=1)

    def values(self, matrix: Array) -> dict[str, AnyArray]:
        """All columns, by those that are kept and by the matrix (..., labels) of the rows. Files of
        earlier versions keep none: contrasts are known by their columns."""
        out, first = dict(self.columns), 0
        for term in self.terms:
            part = matrix[..., first : first + len(term.labels)]
            first += len(term.labels)
            coding = term.alone
            if coding is not None and coding.column not in out:
                plain = part[..., 0]
                out[coding.column] = plain if term.plain else _levels_at(coding, part)
        return {name: out[name] for name in self.names}


def _levels_at(coding: Coding, part: Array) -> IntArray:
    """The positions of the levels whose rows these are."""
    codes = coding.block(np.arange(len(coding.levels)))
    same: BoolArray = (part[..., None, :] == codes).all(axis=-1)
    return np.asarray(np.where(same.any(axis=-1), same.argmax(axis=-1), -1))
