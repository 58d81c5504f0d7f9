"""What an effect is of: the levels that a covariate is set to, and which of them are compared."""

from __future__ import annotations

from collections.abc import Sequence
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
from lgmdsl.dataset.tables import Coding
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
    if not coded_columns(grounded, name):
        return [name]
    labels = grounded.indices[grounded.model.symbols[name].dims[1]].labels
    return [f"{name}[{label}]" for label in labels.tolist()]


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
        made = [m for m in made_of(grounded, base) if m in known]
        if len(made) == 1:
            return model.symbols[made[0]], name
        made = [f"{m}[{base}]" for m in made]
        there = f"it has: {', '.join(shown) or 'none'}"
        help = f"there is {listed(made, last='or')}" if made else suggestion(base, known, there)
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
        values = grounded.values[self.symbol.name]
        if self.symbol.target is not None:
            self._labels(grounded.indices[self.symbol.target])
        elif len(self.symbol.dims) < 2 or not self._matrix():
            self._numbers(self.symbol.name, None, np.asarray(values), self.contrast)
        else:
            self._columns(values, column)

    def _matrix(self) -> bool:
        """Whether the last axis is one of columns: it has no response's rows."""
        return self.symbol.dims[-1] not in usage_of(self.grounded.graph).rows

    def _columns(self, values: Any, column: str) -> None:
        name, known = self.symbol.name, factors(self.grounded, self.symbol.name)
        labels = [str(v) for v in self.grounded.indices[self.symbol.dims[-1]].labels.tolist()]
        whole = next((f for f in known if f.coding.column == column and column not in labels), None)
        if whole is not None:
            self._factor(whole)
            return
        if column and column not in labels:
            message = f"`{name}` has no column `{column}`"
            all_ = [*labels, *(f.coding.column for f in known)]
            help = suggestion(column, all_, f"it has: {', '.join(labels[:20])}")
            raise ModelError.of("E302", message, help=help)
        for k, label in enumerate(labels):
            if column and label != column:
                continue
            factor = next((f for f in known if k in f.places), None)
            # Of a whole matrix, a contrast of labels is one of its factors, others of its numbers.
            wanted = self.contrast
            if not column and _of_labels(wanted) != (factor is not None):
                wanted = None
            if factor is not None:
                self._level(f"{name}[{label}]", factor, factor.level_at(k), wanted)
                continue
            part = values[..., k] if isinstance(values, np.ndarray) else values[:, [k]].toarray()
            self._numbers(f"{name}[{label}]", k, np.asarray(part), wanted)

    def _add(self, *levels: Level) -> list[int]:
        """The places of levels, new ones added."""
        for level in levels:
            if level not in self.levels:
                self.levels.append(level)
        return [self.levels.index(level) for level in levels]

    def _numbers(self, term: str, column: int | None, values: AnyArray, wanted: Any) -> None:
        values = values[np.isfinite(values)]
        binary = bool(values.size) and bool(np.isin(values, (0.0, 1.0)).all())
        if wanted is None:
            wanted = (0, 1) if binary else "slope"
        low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
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

    def _alone(self, term: str, column: int | None, values: Sequence[float]) -> None:
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

    def _factor(self, factor: Coded) -> None:
        """All levels of a column by contrasts."""
        coding = factor.coding
        texts = [*coding.levels]
        levels = [Level(None, entries=factor.entries(level)) for level in texts]
        order = list(range(len(texts)))
        term = factor.name
        if coding.kind == "sum" and self.contrast is None:
            for text, level in zip(texts, levels, strict=True):
                self._less_mean(term, level, levels, text)
            return
        if coding.kind == "treatment":
            order.sort(key=lambda k: texts[k] != coding.base)
        self._members(term, coding.column, texts, levels, order)

    def _level(self, term: str, factor: Coded, text: str, wanted: Any) -> None:
        """One level of a column by contrasts: against its base, or the mean of all levels."""
        level = Level(None, entries=factor.entries(text))
        coding = factor.coding
        if wanted == "levels":
            self._value(term, level, text)
        elif wanted not in (None, "reference"):
            all_levels = f"all levels together: {factor.name}"
            raise _unknown(wanted, "reference or levels", all_levels)
        elif coding.kind == "sum" and wanted is None:
            levels = [Level(None, entries=factor.entries(v)) for v in coding.levels]
            self._less_mean(term, level, levels, text)
        else:
            base = coding.base if coding.kind == "treatment" else coding.levels[0]
            low = Level(None, entries=factor.entries(base))
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

    def values_at(self, level: Level, values: Any) -> Any:
        """The covariate of all rows at a level."""
        if not isinstance(values, np.ndarray):
            values = values.toarray()
        out = np.array(values)
        for column, entry in level.entries:
            out[..., column] = entry
        if level.entries:
            return out
        where = out[..., level.column] if level.column is not None else out[...]
        if level.value is None:
            where += level.shift
        else:
            where[...] = level.value
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
    `column`: of a matrix; None of a covariate with one axis. `entries`: of several columns, which
    are one level of a factor together."""

    column: int | None
    value: float | None = None
    shift: float = 0.0
    entries: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Comparison:
    """The response at level `high` against the mean of those at `low` (none: alone), over
    `divisor`. `words`: of the difference, and of the ratio."""

    term: str
    words: tuple[str, str]
    high: int
    low: tuple[int, ...]
    divisor: float = 1.0


# ---- coded -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coded:
    """A column of a table in a matrix: `first` is the place of its first column there."""

    matrix: str
    first: int
    coding: Coding

    @property
    def name(self) -> str:
        """How it is asked for."""
        return f"{self.matrix}[{self.coding.column}]"

    @property
    def places(self) -> range:
        """Columns of the matrix that stand for the table's column."""
        return range(self.first, self.first + len(self.coding.labels))

    def entries(self, level: object) -> tuple[tuple[int, float], ...]:
        """The columns of the matrix and what they are in a row of a level, or of a number where the
        column is there as it is."""
        if not self.coding.kind:
            return ((self.first, float(str(level))),)
        level = str(level)
        return tuple(zip(self.places, self.coding.rows[level], strict=True))

    def level_at(self, place: int) -> str:
        """The level whose column is at a place of the matrix."""
        others = [v for v in self.coding.levels if v != self.coding.base]
        return others[place - self.first]

    def groups(self, rows: Array) -> tuple[IntArray, list[str] | list[float]]:
        """The group of each row of the matrix, (..., columns), by the levels or the distinct values
        of the column; and what these are."""
        if not self.coding.kind:
            known, places = np.unique(rows[..., self.first], return_inverse=True)
            return places.reshape(rows.shape[:-1]), known.tolist()
        levels = [*self.coding.levels]
        codes = np.array([self.coding.rows[level] for level in levels])
        part = rows[..., None, self.first : self.first + len(self.coding.labels)]
        return (part == codes).all(axis=-1).argmax(axis=-1), levels


def coded_columns(grounded: GroundedModel, matrix: str) -> list[Coded]:
    """The columns of a table that a matrix was made of, in their order; none of other data."""
    out, first = [], 0
    if len(grounded.model.symbols[matrix].dims) < 2:
        return []  # the contrast of two levels, which is 0 and 1
    for coding in grounded.codings.get(matrix, ()):
        out.append(Coded(matrix, first, coding))
        first += len(coding.labels)
    return out


def made_of(grounded: GroundedModel, column: str) -> list[str]:
    """The data that were made of a column of a table, which the model does not name."""
    known = grounded.codings.items()
    return [name for name, parts in known if column in {c.column for c in parts}]


def factors(grounded: GroundedModel, matrix: str) -> list[Coded]:
    """Columns of a table that a matrix was made of by contrasts."""
    return [c for c in coded_columns(grounded, matrix) if c.coding.kind]
