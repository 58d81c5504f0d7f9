"""Vector sites in a model: over which index their predictors run, and rows with missing counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lgmdsl.arrays import BoolArray, IntArray
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.grounding.errors import count_of
from lgmdsl.canonical.grounding.ground import GroundedModel
from lgmdsl.contract.site import Site
from lgmdsl.errors import DataError
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast


class Event:
    """Indices and rows of a site block. `classes` is the index of the classes that its datum is, or
    counts, empty where there are none; `event` that of the predictors of vector sites: the classes,
    or a head of them (the last class has predictor 0), empty for scalar sites."""

    dims: tuple[str, ...]
    family: type[Site]
    parameters: Mapping[str, Coefficient]
    rows: IntArray
    sizes: Mapping[str, int]
    classes: str
    event: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all entries, the missing ones included."""
        return tuple(self.sizes[d] for d in self.dims)

    @property
    def complete(self) -> bool:
        """Whether no entry is missing."""
        return len(self.rows) == int(np.prod(self.shape, dtype=np.int64))

    @property
    def predictor_dims(self) -> tuple[str, ...]:
        """Indices of the predictor: the rows' and the event's."""
        return (*self.dims, self.event) if self.event else self.dims

    @property
    def predictors(self) -> int:
        """How many predictors each vector site has, 0 for scalar ones."""
        return self.sizes[self.event] if self.event else 0

    @property
    def predictor_shape(self) -> tuple[int, ...]:
        """(N,), or (N, K) for vector sites: of the observed rows."""
        return (len(self.rows), self.predictors) if self.event else (len(self.rows),)

    def predictor_rows(self) -> IntArray:
        """Flat positions of the observed rows' predictors."""
        return event_rows(self.rows, self.predictors)

    def dims_of(self, parameter: str) -> tuple[str, ...]:
        """Indices of a parameter: the rows', and the classes where it has one value for each, or
        an index of its own (the cuts between classes); of one that all rows share the predictors'
        index and the classes."""
        if parameter in self.family.spec.wide:
            return (*self.family_dims, self.classes)
        if parameter in self.family.spec.shared:
            return (self.event, self.classes)
        extra = (d for d in self.parameters[parameter].dims if d not in self.family_dims)
        return (*self.family_dims, *extra)

    @property
    def family_dims(self) -> tuple[str, ...]:
        """Indices of the rows that the parameters are of."""
        return self.dims


def event_rows(rows: IntArray, event: int) -> IntArray:
    """Flat positions of the predictors of rows that have `event` each, one where it is 0."""
    if not event:
        return rows
    return np.asarray((rows[:, None] * event + np.arange(event)).reshape(-1))


def event_of(form: Affine, rows: tuple[str, ...], classes: str, grounded: GroundedModel) -> str:
    """The index of a vector site's predictors: the classes, a head of them that appears in the form
    instead, or an index of its own that the `rows` lack (topics, pieces of time)."""
    if classes in form.dims:
        return classes
    extra = [d for d in form.dims if d not in rows]
    heads = [d for d in extra if _head_of(d, grounded) == classes]
    return next(iter((*heads, *extra)), classes)


def _head_of(name: str, grounded: GroundedModel) -> str:
    symbol = grounded.model.symbols.get(name)
    statement = symbol.statement if symbol is not None else None
    definition = statement.definition if isinstance(statement, ast.Index) else None
    return definition.of.id if isinstance(definition, ast.Head) else ""


def whole_rows(missing: BoolArray, symbol: Symbol) -> BoolArray:
    """Which rows of counts over classes are missing. Raises DataError E304 for a row of which only
    some counts are: what is known of them would be lost."""
    gone = np.asarray(missing.all(axis=-1))
    part = np.flatnonzero((missing.any(axis=-1) & ~gone).reshape(-1))
    if len(part):
        raise DataError.of(
            "E304",
            f"`{symbol.name}` has only some of its counts in {count_of(len(part), 'row')}",
            symbol.statement.span,
            f"first in row {int(part[0])}",
            help="give every count of a row, or none",
        )
    return gone
