"""`event`, `lower` and `upper` of an observe statement, checked against what is observed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.named import expand
from lgmdsl.canonical.grounding.errors import count_of
from lgmdsl.contract.censoring import CENSORING, ENDS, OBSERVING, censoring_fault, within
from lgmdsl.errors import DataError, ModelError
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import names_in

_OPEN = (
    "a missing end (NaN, type `real?`) or an infinite one is open; a row without either is observed"
)
_HAVE = {1: "is `{}`", 2: "are `{}` and `{}`"}
_AT_RISK = "a row is at risk from `entry` on, before `y`; leave out rows that never were"

if TYPE_CHECKING:
    from lgmdsl.canonical.blocks.sites import SiteBlock
    from lgmdsl.canonical.grounding.model import GroundedModel
    from lgmdsl.language.checked import Symbol


def as_observed(family: ast.Dist, grounded: GroundedModel) -> ast.Dist:
    """The family without the arguments that say how a response was observed, where nothing is known
    of that: new data, whose responses are those before any censoring."""
    arguments = tuple(
        a
        for a in family.arguments
        if a.name not in OBSERVING or all(n in grounded.values for n in _data_in(a.value, grounded))
    )
    return (
        family if len(arguments) == len(family.arguments) else replace(family, arguments=arguments)
    )


def _data_in(value: ast.Value, grounded: GroundedModel) -> list[str]:
    symbols = grounded.model.symbols
    names = [name.id for name in names_in(value)]
    return [n for n in names if n in symbols and symbols[n].kind == "data"]


def with_bounded_rows(
    block: SiteBlock, arguments: Mapping[str, ast.Value], symbol: Symbol
) -> SiteBlock:
    """The block with the rows too whose y is missing and whose interval is known.

    Raises DataError E304 where neither is, and the type of y has no `?`.
    """
    ends = [name for name in ENDS if name in arguments]
    if not ends or any(block.parameters[name].depends for name in ends):
        return block
    positive = block.family.spec.observed[0] == "positive"
    y = within(_values(block, arguments.keys() & {*ENDS, "entry"}), positive)
    assert block.y is not None
    y[block.rows] = block.y
    rows = np.flatnonzero(~np.isnan(y))
    if not len(block.rows) and len(rows) < len(y) and not symbol.optional:
        lost = np.flatnonzero(np.isnan(y))
        raise DataError.of(
            "E304",
            f"`{block.name}` is missing, and so {_HAVE[len(ends)].format(*ends)}, in "
            f"{count_of(len(lost), 'row')}",
            block.span,
            f"first at {block.place(int(lost[0]))}",
            help=f"declare `{block.name} : {symbol.type}?`, which predicts these rows, or drop "
            "them",
        )
    return replace(block, rows=rows, y=y[rows])


def censored_between(block: SiteBlock) -> Array:
    """(2, rows) the ends between which the response of a censored row lies, infinite where an end
    is open; NaN in rows whose response was observed, or of which nothing is known."""
    out = np.full((2, int(np.prod(block.data_shape))), np.nan)
    names = [name for name in CENSORING if name in block.parameters]
    y, rows = block.data.y, block.data.rows
    if not names or y is None or block.event:
        return out
    values = {name: v[rows] for name, v in _values(block, names).items()}
    missing = np.full(len(rows), np.nan)
    low, high = values.get("lower", missing), values.get("upper", missing)
    late = values.get("event", np.ones(len(rows))) == 0.0
    bounded = ~(np.isnan(low) & np.isnan(high))
    low = np.where(late, y, np.where(bounded & np.isnan(low), -np.inf, low))
    high = np.where(late | (bounded & np.isnan(high)), np.inf, high)
    out[:, rows] = low, high
    return out


def _values(block: SiteBlock, names: Collection[str]) -> dict[str, Array]:
    """What some arguments are in every row."""
    return {
        name: np.array(
            expand(block.parameters[name].evaluate({}), block.data.dims, block.sizes),
            dtype=np.float64,
        ).reshape(-1)
        for name in names
    }


def check_censoring(block: SiteBlock, arguments: Mapping[str, ast.Value]) -> None:
    """Raises ModelError E104 (`event` together with `lower` or `upper`), DataError E303 (an
    interval that does not hold y)."""
    ends = [name for name in ENDS if name in arguments]
    if "event" in arguments and ends:
        raise ModelError.of(
            "E104",
            f"`event` and `{ends[0]}` both say how `{block.name}` is censored",
            block.span,
            help="keep one: event = 0 is lower = y without an upper end",
        )
    nodes = [block.parameters[name] for name in (*ends, "event") if name in arguments]
    if any(node.depends for node in nodes):
        raise ModelError.of(
            "E104",
            "how a row is censored cannot depend on a hyper",
            block.span,
            help=f"declare `{next(n for n in (*ends, 'event') if n in arguments)}` as data: "
            f"data event[{', '.join(block.dims)}] : binary, and event = event",
        )
    values = _values(block, arguments.keys() & {*CENSORING, "entry"})
    fault = censoring_fault(block.y, {n: v[block.rows] for n, v in values.items()})
    if fault is not None:
        message, wrong = fault
        raise DataError.of(
            "E303",
            message.format(y=f"`{block.name}`") + f" in {count_of(len(wrong), 'row')}",
            block.span,
            f"first at {block.place(int(block.rows[wrong[0]]))}",
            help=_AT_RISK if "entry" in message else _OPEN,
        )
