"""What an effect is of: the levels that a covariate is set to, and which of them are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from lgmdsl.api.summary.table import index_order
from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.grounding.errors import show
from lgmdsl.canonical.grounding.labels import meant_labels
from lgmdsl.canonical.grounding.model import GroundedModel, IndexSet
from lgmdsl.canonical.grounding.usage import usage_of
from lgmdsl.dataset.codings import Coding, Design
from lgmdsl.errors import MethodError, ModelError, listed, suggestion
from lgmdsl.language.checked import Symbol
from lgmdsl.remedies import either

# A slope is a difference over this share of the covariate's range on both sides, as in R's
# marginaleffects (`eps`).
STEP = 1e-4
# Of the positions of a latent, whose draws need not be smooth (Ornstein-Uhlenbeck).
PLACE_STEP = 0.01
# Labels that contrasts are made of, unless two are named.
MOST_LABELS = 60
# What only labels can be compared by, and only numbers.
OF_LABELS, OF_NUMBERS = ("reference", "pairwise", "sequential"), ("slope", "sd", "iqr", "minmax")
WORDS = (*OF_NUMBERS, *OF_LABELS, "levels")


def _columns(grounded: GroundedModel, name: str) -> list[str]:
    """How the columns of a matrix that was made of columns are asked for; else the name."""
    of = made(grounded, name)
    if of is None or of.places is None:
        return [name]
    return [f"{name}[{label}]" for term in of.design.terms if term.alone for label in term.labels]


def covariate(grounded: GroundedModel, name: str) -> tuple[Symbol, str]:
    """The datum that a name leads to, and the label of one column of it (`X[age]`, or `age` where
    one matrix alone was made of that column of the table).

    Raises ModelError E103 where it is no covariate of a response.
    """
    base, _, column = name.partition("[")
    model, usage = grounded.model, usage_of(grounded.graph)
    known = [
        s.name
        for s in model.of_kind("data")
        if s.name not in usage.responses and s.type != "graph" and s.name in grounded.values
    ]
    if base not in known:
        message = f"the model has no covariate named `{base}`"
        shown = [label for n in known for label in _columns(grounded, n)]
        holders = [m for m in known for word in (name, base) if m in made_of(grounded, word)]
        holders = list(dict.fromkeys(holders))
        if len(holders) == 1:
            return model.symbols[holders[0]], name
        meant = [f"{m}[{base}]" for m in holders]
        there = f"it has: {', '.join(shown) or 'none'}"
        help = f"there is {listed(meant, last='or')}" if meant else suggestion(base, known, there)
        raise ModelError.of("E103", message, help=help)
    return model.symbols[base], column.removesuffix("]")


class Requested:
    """The levels of a covariate and the comparisons between them, by the `contrast` asked for."""

    def __init__(self, grounded: GroundedModel, name: str, contrast: object) -> None:
        self.grounded, self.contrast = grounded, contrast
        self.symbol, column = covariate(grounded, name)
        # The latents whose prior is built on the covariate: other values are other members.
        graph = grounded.graph
        latents = graph.of_kind("latent")
        self.latents = tuple(n.id for n in latents if self.symbol.name in graph.behind([n.id]))
        self.levels: list[Level] = []
        self.comparisons: list[Comparison] = []
        self.made = made(grounded, self.symbol.name)
        values = grounded.values[self.symbol.name]
        if self.symbol.target is not None:
            self._labels(grounded.indices[self.symbol.target])
        elif self.made is not None and (column or self.made.places is not None):
            self._made(self.made, values, column)
        elif len(self.symbol.dims) < 2 or not self._matrix():
            self._numbers(self.symbol.name, None, np.asarray(values), self.contrast)
        else:
            self._columns(values, column)

    def _matrix(self) -> bool:
        """Whether the last axis is one of columns: it has no response's rows."""
        return self.symbol.dims[-1] not in usage_of(self.grounded.graph).rows

    def _made(self, of: Made, datum: Any, column: str) -> None:
        """Take the levels of a datum that was made of columns: of one column, one level, or all."""
        design, values = of.design, of.values(datum)
        known = {name: design.factor(name) for name in design.names}
        coded = {f"{n}[{v}]": (n, v) for n, f in known.items() if f for v in f.levels}
        if column and column not in known and column not in coded:
            raise self._no_column(design, column)
        for name, factor in known.items():
            if factor is not None and name == column:
                self._factor(name, factor)
            elif factor is not None:
                base = factor.base or factor.levels[0]
                for level in factor.levels:
                    label = f"{name}[{level}]"
                    if column == label or (not column and level != base):
                        self._level(f"{of.name}[{label}]", name, factor, level, bool(column))
            elif column in ("", name):
                self._number(of, name, values[name], bool(column))

    def _number(self, of: Made, name: str, values: AnyArray, alone: bool) -> None:
        """A column that holds numbers; of a whole matrix, contrasts of labels are not its."""
        wanted = self.contrast if alone or not _of_labels(self.contrast) else None
        term = of.name if of.places is None else f"{of.name}[{name}]"
        codings = [c for t in of.design.terms for c in t.codings if c.column == name]
        if any(c.of_levels for c in codings):  # between its levels nothing is known
            wanted = "minmax" if wanted is None else wanted
            if _pair(wanted) is None and wanted not in ("minmax", "levels"):
                raise _unknown(wanted, "(from, to), minmax or levels: it enters by contrasts too")
        self._numbers(term, name, values, wanted)

    def _no_column(self, design: Design, column: str) -> ModelError:
        name = self.symbol.name
        term = next((t for t in design.terms if column in t.labels), None)
        if term is None:
            message = f"`{name}` has no column `{column}`"
            all_ = [*design.labels, *design.names]
            help = suggestion(column, all_, f"it has: {', '.join(design.labels[:20])}")
        else:
            first, *others = dict.fromkeys(term.columns)
            message = (
                f"`{column}` does not change by itself: it is a function of `{first}`"
                + "".join(f" and `{c}`" for c in others)
            )
            by = either("--by", "by=")
            help = f"the effect of `{first}`" + "".join(f", with {by} {c}" for c in others[:1])
        return ModelError.of("E302", message, help=help)

    def _columns(self, values: Any, column: str) -> None:
        """Take the levels of a matrix that is data itself: of one column, or all."""
        name = self.symbol.name
        labels = [str(v) for v in self.grounded.indices[self.symbol.dims[-1]].labels.tolist()]
        if column and column not in labels:
            message = f"`{name}` has no column `{column}`"
            help = suggestion(column, labels, f"it has: {', '.join(labels[:20])}")
            raise ModelError.of("E302", message, help=help)
        for k, label in enumerate(labels):
            if column in ("", label):
                part = (
                    values[..., k] if isinstance(values, np.ndarray) else values[:, [k]].toarray()
                )
                wanted = self.contrast if column or not _of_labels(self.contrast) else None
                self._numbers(f"{name}[{label}]", k, np.asarray(part), wanted)

    def _add(self, *levels: Level) -> list[int]:
        """The places of levels, new ones added."""
        for level in levels:
            if level not in self.levels:
                self.levels.append(level)
        return [self.levels.index(level) for level in levels]

    def _numbers(self, term: str, column: int | str | None, values: AnyArray, wanted: Any) -> None:
        values = values[np.isfinite(values)]
        binary = bool(values.size) and bool(np.isin(values, (0.0, 1.0)).all())
        if wanted is None:
            wanted = (0, 1) if binary else "slope"
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
        if wanted == "slope":
            step = PLACE_STEP if self.latents else STEP
            half = step * (high - low) or step
            up, down = self._add(Level(column, None, half), Level(column, None, -half))
            self.comparisons.append(Comparison(term, ("slope", "slope"), up, (down,), 2.0 * half))
            return
        if isinstance(wanted, int | float | np.number) and not isinstance(wanted, bool):
            up, own = self._add(Level(column, None, float(wanted)), Level(column))
            words = f"{float(wanted):+g}"
            self.comparisons.append(Comparison(term, (words, f"ratio at {words}"), up, (own,)))
            return
        if wanted == "sd":
            up, down = self._add(Level(column, None, spread / 2), Level(column, None, -spread / 2))
            both = ("x + sd/2 - (x - sd/2)", "(x + sd/2) / (x - sd/2)")
            self.comparisons.append(Comparison(term, both, up, (down,)))
            return
        if wanted == "iqr":
            wanted = tuple(float(q) for q in np.quantile(values, [0.25, 0.75]))
        elif wanted == "minmax":
            wanted = (low, high)
        if wanted == "levels":
            wanted = sorted({*values.tolist()})
            self._alone(term, column, wanted)
            return
        pair = _pair(wanted)
        if pair is None:
            raise _unknown(self.contrast, "a number, (from, to), slope, sd, iqr, minmax or levels")
        try:
            a, b = (float(v) for v in pair)
        except (TypeError, ValueError):
            raise _unknown(self.contrast, "two numbers") from None
        self._versus(term, Level(column, b), Level(column, a), f"{b:g}", f"{a:g}")

    def _alone(self, term: str, column: int | str | None, values: Sequence[float]) -> None:
        if len(values) > MOST_LABELS:
            raise _many(term, len(values))
        for value in values:
            self._value(term, Level(column, value), f"{value:g}")

    def _value(self, term: str, level: Level, words: str) -> None:
        (place,) = self._add(level)
        self.comparisons.append(Comparison(term, (words, words), place, ()))

    def _versus(self, term: str, high: Level, low: Level, a: str, b: str) -> None:
        up, down = self._add(high, low)
        self.comparisons.append(Comparison(term, (f"{a} - {b}", f"{a} / {b}"), up, (down,)))

    def _less_mean(self, term: str, level: Level, levels: Sequence[Level], word: str) -> None:
        """A level against the mean of all."""
        (up,) = self._add(level)
        words = (f"{word} - mean", f"{word} / mean")
        self.comparisons.append(Comparison(term, words, up, tuple(self._add(*levels))))

    def _labels(self, index: IndexSet) -> None:
        texts = [str(v) for v in index.labels.tolist()]
        levels = [Level(None, float(k)) for k in range(len(texts))]
        order = index_order(index).tolist()
        self._members(self.symbol.name, str(self.symbol.target), texts, levels, order)

    def _factor(self, column: str, coding: Coding) -> None:
        """All levels of a column by contrasts."""
        texts = [*coding.levels]
        levels = [Level(column, float(k)) for k in range(len(texts))]
        order = list(range(len(texts)))
        term = f"{self.symbol.name}[{column}]"
        if coding.kind == "sum" and self.contrast is None:
            for text, level in zip(texts, levels, strict=True):
                self._less_mean(term, level, levels, text)
            return
        if coding.kind == "treatment":
            order.sort(key=lambda k: texts[k] != coding.base)
        self._members(term, column, texts, levels, order)

    def _level(self, term: str, column: str, coding: Coding, text: str, alone: bool) -> None:
        """One level of a column by contrasts: against its base, or the mean of all levels. `alone`:
        it was asked for; of a whole matrix, contrasts of numbers are not its."""
        level = Level(column, float(coding.levels.index(text)))
        wanted = self.contrast if alone or _of_labels(self.contrast) else None
        if wanted == "levels":
            self._value(term, level, text)
        elif wanted not in (None, "reference"):
            all_levels = f"all levels together: {self.symbol.name}[{column}]"
            raise _unknown(wanted, "reference or levels", all_levels)
        elif coding.kind == "sum" and wanted is None:
            levels = [Level(column, float(k)) for k in range(len(coding.levels))]
            self._less_mean(term, level, levels, text)
        else:
            base = coding.base if coding.kind == "treatment" else coding.levels[0]
            low = Level(column, float(coding.levels.index(base)))
            self._versus(term, level, low, text, base)

    def _members(
        self,
        term: str,
        called: str,
        texts: Sequence[str],
        levels: Sequence[Level],
        order: Sequence[int],
    ) -> None:
        """Labels by their levels, in an order; `called` is what has them."""
        wanted = self.contrast
        pair = _pair(wanted)
        if pair is not None:
            for value in pair:
                if str(value) not in texts:
                    message = f"`{called}` has no label {show(str(value))}"
                    known = f"it has: {', '.join(map(show, texts[:20]))}"
                    help = meant_labels([value], np.array(texts, dtype=np.str_)) or known
                    raise ModelError.of("E302", message, help=help)
            pairs = [(texts.index(str(pair[0])), texts.index(str(pair[1])))]
        elif len(texts) > MOST_LABELS:
            raise _many(term, len(texts))
        elif wanted == "levels":
            for k in order:
                self._value(term, levels[k], texts[k])
            return
        elif wanted in (None, "reference"):
            pairs = [(order[0], k) for k in order[1:]]
        elif wanted == "pairwise":
            pairs = list(combinations(order, 2))
        elif wanted == "sequential":
            pairs = list(pairwise(order))
        else:
            raise _unknown(wanted, "(from, to), reference, pairwise, sequential or levels")
        for a, b in pairs:
            self._versus(term, levels[b], levels[a], texts[b], texts[a])

    def values_at(self, level: Level, grounded: GroundedModel) -> Any:
        """The covariate of all rows at a level."""
        values = grounded.values[self.symbol.name]
        of = made(grounded, self.symbol.name)
        if isinstance(level.column, str):
            assert of is not None, "columns have names where the datum is made of them"
            columns = of.values(values)
            columns[level.column] = level.of(columns[level.column])
            return of.datum(columns)
        out = np.array(values if isinstance(values, np.ndarray) else values.toarray())
        where = out[..., level.column] if level.column is not None else out[...]
        where[...] = level.of(where)
        return out


def _of_labels(contrast: object) -> bool:
    """Whether a contrast is one of labels alone."""
    pair = _pair(contrast)
    words = pair is not None and any(isinstance(v, str) for v in pair)
    return words or (isinstance(contrast, str) and contrast in (*OF_LABELS, "levels"))


def _pair(value: object) -> tuple[Any, Any] | None:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        return value[0], value[1]
    return None


def _unknown(contrast: object, wanted: str, help: str = "") -> ModelError:
    message = f"`{either('--contrast', 'contrast')}` of this covariate is {wanted}"
    pair = f"as in {either('--contrast 1,3', 'contrast=(1, 3)')}"
    near = help or (pair if contrast in WORDS else suggestion(str(contrast), WORDS, pair))
    return ModelError.of("E108", message, details=(f"got {contrast!r}",), help=near)


def _many(term: str, size: int) -> MethodError:
    message = f"`{term}` has {size:,} values, too many to compare all"
    two = either("--contrast a,b", 'contrast=("a", "b")')
    return MethodError.of("E501", message, help=f"name two: {two}")


# ---- levels ------------------------------------------------------------------------------------
# Levels of a covariate, and which of them are compared.


@dataclass(frozen=True)
class Level:
    """A value that the covariate is set to: `value` in all rows, or the row's own and `shift`.
    `column`: of a matrix; the name of a column of the table where the datum was made of these, of
    whose levels the value is the position; None of a covariate with one axis."""

    column: int | str | None
    value: float | None = None
    shift: float = 0.0

    def of(self, values: AnyArray) -> AnyArray:
        """The values of all rows."""
        if self.value is None:
            return values + self.shift
        return np.full(values.shape, self.value).astype(values.dtype)


@dataclass(frozen=True)
class Comparison:
    """The response at level `high` against the mean of those at `low` (none: alone), over
    `divisor`. `words`: of the difference, and of the ratio."""

    term: str
    words: tuple[str, str]
    high: int
    low: tuple[int, ...]
    divisor: float = 1.0


# ---- made of columns ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Made:
    """A datum that was made of columns of a table (`--map "X=age,contrasts(region)"`). `places`: of
    the design's columns along its last axis; None where it is over the rows alone."""

    name: str
    design: Design
    places: IntArray | None

    def values(self, datum: Any) -> dict[str, AnyArray]:
        """The table's columns by the rows of the datum."""
        dense = datum if isinstance(datum, np.ndarray) else datum.toarray()
        return self.design.values(
            dense[..., None] if self.places is None else dense[..., self.places]
        )

    def datum(self, values: Mapping[str, AnyArray]) -> Array:
        """The datum by the table's columns."""
        matrix = self.design.matrix(values)
        if self.places is None:
            return matrix[:, 0]
        out = np.empty_like(matrix)
        out[:, self.places] = matrix
        return out

    def groups(self, column: str, datum: Any) -> tuple[IntArray, list[str] | list[float]]:
        """The group of each row by the levels or the distinct values of a column, and these."""
        values, factor = self.values(datum)[column], self.design.factor(column)
        if factor is not None:
            return values.astype(np.int64), [*factor.levels]
        known, places = np.unique(values, return_inverse=True)
        return places.reshape(values.shape), known.tolist()


def made(grounded: GroundedModel, name: str) -> Made | None:
    """How a datum was made of columns; None of other data."""
    design = grounded.designs.get(name)
    if design is None:
        return None
    dims = grounded.model.symbols[name].dims
    places = None
    if len(dims) == 2:
        places = grounded.indices[dims[1]].positions(np.array(design.labels, dtype=np.str_))
    return Made(name, design, places)


def made_of(grounded: GroundedModel, column: str) -> list[str]:
    """The data that were made of a column of a table, or have a column of this label."""
    return [name for name, d in grounded.designs.items() if column in (*d.names, *d.labels)]
