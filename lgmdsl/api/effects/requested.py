"""What an effect is of: the levels that a covariate is set to, and which of them are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from lgmdsl.api.summary.labels import index_order
from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.grounding.model import GroundedModel, IndexSet
from lgmdsl.canonical.grounding.usage import usage_of
from lgmdsl.errors import Diagnostic, MethodError, ModelError, listed, suggestion
from lgmdsl.language.checked import Symbol

# A slope is a difference over this share of the covariate's range on both sides, as in R's
# marginaleffects (`eps`).
STEP = 1e-4
# Labels that contrasts are made of, unless two are named.
MOST_LABELS = 60
WORDS = ("slope", "reference", "pairwise", "sequential", "levels", "sd", "iqr", "minmax")


@dataclass(frozen=True)
class Level:
    """A value that the covariate is set to: `value` in all rows, or the row's own and `shift`.
    `column`: of a matrix; None of a covariate with one axis."""

    column: int | None
    value: float | None = None
    shift: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """The response at level `high` against that at `low` (None: alone), over `divisor`. `words`:
    of the difference, and of the ratio."""

    term: str
    words: tuple[str, str]
    high: int
    low: int | None
    divisor: float = 1.0


def _columns(grounded: GroundedModel, name: str) -> list[str]:
    """How the columns of a matrix that was made of columns are asked for; else the name."""
    if name not in grounded.codings:
        return [name]
    labels = grounded.indices[grounded.model.symbols[name].dims[1]].labels
    return [f"{name}[{label}]" for label in labels.tolist()]


def _made_of(grounded: GroundedModel, column: str) -> list[str]:
    """The columns of matrices that were made of this column of a table."""
    return [
        asked
        for name in grounded.codings
        for asked in _columns(grounded, name)
        if asked == f"{name}[{column}]" or asked.startswith(f"{name}[{column}[")
    ]


def covariate(grounded: GroundedModel, name: str) -> tuple[Symbol, str]:
    """The datum that a name leads to, and the label of one column of it (`X[age]`).

    Raises ModelError E103 where it is no covariate of a response, MethodError E501 where the prior
    of a latent is built on it.
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
        made = _made_of(grounded, base)
        there = f"it has: {', '.join(shown) or 'none'}"
        help = f"there is {listed(made, last='or')}" if made else suggestion(base, known, there)
        raise ModelError(Diagnostic("E103", message, help=help))
    graph = grounded.graph
    latents = [n.id for n in graph.of_kind("latent") if base in graph.behind([n.id])]
    if latents:
        message = f"the effect of `{base}` is that of other places of `{latents[0]}`"
        help = "compare predictions there: fit.predict(new)"
        details = (f"the prior of `{latents[0]}` is built on `{base}`",)
        raise MethodError(Diagnostic("E501", message, details=details, help=help))
    return model.symbols[base], column.removesuffix("]")


class Requested:
    """The levels of a covariate and the comparisons between them, by the `contrast` asked for."""

    def __init__(self, grounded: GroundedModel, name: str, contrast: object) -> None:
        self.grounded, self.contrast = grounded, contrast
        self.symbol, column = covariate(grounded, name)
        self.levels: list[Level] = []
        self.comparisons: list[Comparison] = []
        values = grounded.values[self.symbol.name]
        if self.symbol.target is not None:
            self._labels(grounded.indices[self.symbol.target])
        elif len(self.symbol.dims) < 2 or not self._matrix():
            self._numbers(self.symbol.name, None, np.asarray(values))
        else:
            self._columns(values, column)

    def _matrix(self) -> bool:
        """Whether the last axis is one of columns: it has no response's rows."""
        return self.symbol.dims[-1] not in usage_of(self.grounded.graph).rows

    def _columns(self, values: Any, column: str) -> None:
        labels = [str(v) for v in self.grounded.indices[self.symbol.dims[-1]].labels.tolist()]
        if column and column not in labels:
            message = f"`{self.symbol.name}` has no column `{column}`"
            help = suggestion(column, labels, f"it has: {', '.join(labels[:20])}")
            raise ModelError(Diagnostic("E302", message, help=help))
        for k, label in enumerate(labels):
            if not column or label == column:
                part = (
                    values[..., k] if isinstance(values, np.ndarray) else values[:, [k]].toarray()
                )
                self._numbers(f"{self.symbol.name}[{label}]", k, np.asarray(part))

    def _add(self, *levels: Level) -> list[int]:
        """The places of levels, new ones added."""
        for level in levels:
            if level not in self.levels:
                self.levels.append(level)
        return [self.levels.index(level) for level in levels]

    def _numbers(self, term: str, column: int | None, values: AnyArray) -> None:
        values = values[np.isfinite(values)]
        wanted = self.contrast
        binary = bool(values.size) and bool(np.isin(values, (0.0, 1.0)).all())
        if wanted is None:
            wanted = (0, 1) if binary else "slope"
        low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
        spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
        if wanted == "slope":
            half = STEP * (high - low) or STEP
            up, down = self._add(Level(column, None, half), Level(column, None, -half))
            self.comparisons.append(Comparison(term, ("slope", "slope"), up, down, 2.0 * half))
            return
        if isinstance(wanted, int | float | np.number) and not isinstance(wanted, bool):
            up, own = self._add(Level(column, None, float(wanted)), Level(column))
            words = f"{float(wanted):+g}"
            self.comparisons.append(Comparison(term, (words, f"ratio at {words}"), up, own))
            return
        if wanted == "sd":
            up, down = self._add(Level(column, None, spread / 2), Level(column, None, -spread / 2))
            both = ("x + sd/2 - (x - sd/2)", "(x + sd/2) / (x - sd/2)")
            self.comparisons.append(Comparison(term, both, up, down))
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
            (place,) = self._add(Level(column, value))
            self.comparisons.append(Comparison(term, (f"{value:g}", f"{value:g}"), place, None))

    def _versus(self, term: str, high: Level, low: Level, a: str, b: str) -> None:
        up, down = self._add(high, low)
        self.comparisons.append(Comparison(term, (f"{a} - {b}", f"{a} / {b}"), up, down))

    def _labels(self, index: IndexSet) -> None:
        texts, wanted = [str(v) for v in index.labels.tolist()], self.contrast
        order = index_order(index).tolist()
        term = self.symbol.name
        pair = _pair(wanted)
        if pair is not None:
            for value in pair:
                if str(value) not in texts:
                    message = f"`{self.symbol.target}` has no label `{value}`"
                    help = suggestion(str(value), texts, f"it has: {', '.join(texts[:20])}")
                    raise ModelError(Diagnostic("E302", message, help=help))
            a, b = (texts.index(str(v)) for v in pair)
            pairs = [(a, b)]
        elif len(texts) > MOST_LABELS:
            raise _many(term, len(texts))
        elif wanted == "levels":
            for k in order:
                (place,) = self._add(Level(None, float(k)))
                self.comparisons.append(Comparison(term, (texts[k], texts[k]), place, None))
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
            self._versus(term, Level(None, float(b)), Level(None, float(a)), texts[b], texts[a])

    def values_at(self, level: Level, values: Any) -> Any:
        """The covariate of all rows at a level."""
        if not isinstance(values, np.ndarray):
            values = values.toarray()
        out = np.array(values)
        where = out[..., level.column] if level.column is not None else out[...]
        if level.value is None:
            where += level.shift
        else:
            where[...] = level.value
            # A row has one level: that of this column, or the base.
            if others := _others(self.grounded, self.symbol.name, level.column):
                out[..., others] = 0.0
        return out


def _others(grounded: GroundedModel, name: str, column: int | None) -> list[int]:
    """The columns of the other levels of a factor by treatment contrasts."""
    first = 0
    for coding in grounded.codings.get(name, ()):
        own = range(first, first + len(coding.labels))
        if column is not None and column in own and coding.kind == "treatment":
            return [k for k in own if k != column]
        first = own.stop
    return []


def _pair(value: object) -> tuple[Any, Any] | None:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        return value[0], value[1]
    return None


def _unknown(contrast: object, wanted: str) -> ModelError:
    message = f"`contrast` of this covariate is {wanted}"
    near = suggestion(str(contrast), WORDS, "as in contrast=(1, 3)")
    return ModelError(Diagnostic("E108", message, details=(f"got {contrast!r}",), help=near))


def _many(term: str, size: int) -> MethodError:
    message = f"`{term}` has {size:,} values, too many to compare all"
    return MethodError(Diagnostic("E501", message, help='name two: contrast=("a", "b")'))
