"""Refusals of structures, reported with the model's line, names and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.grounding.errors import SHOWN
from lgmdsl.errors import DataError, LgmError, ModelError
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import text_of
from lgmdsl.structures.shared.refusals import Refused, filled


def located(
    refused: Refused, factor: ast.Dist, dims: Sequence[str], labels: AnyArray | None
) -> LgmError:
    """The refusal under the argument at fault (or the whole factor); `labels` are the axis's."""
    value = factor.get(refused.argument) if refused.argument else None
    index = dims[0].rpartition(".")[2] if len(dims) == 1 else "the block"
    words = {
        **{a.name: text_of(a.value) for a in factor.arguments},
        "given": refused.argument if value is None else text_of(value),
        "axis": f"`{index}`" if len(dims) == 1 else index,
        "index": index,
    }
    cause = refused.diagnostic
    diagnostic = replace(
        cause,
        message=filled(cause.message, words),
        help=filled(cause.help, words),
        span=factor.span if value is None else value.span,
        details=_entries(refused, index, labels),
    )
    return DataError(diagnostic) if diagnostic.code.startswith("E3") else ModelError(diagnostic)


def _entries(refused: Refused, index: str, labels: AnyArray | None) -> tuple[str, ...]:
    if refused.entries is None or labels is None:
        return ()
    shown = ", ".join(str(labels[k]) for k in refused.entries[:SHOWN])
    more = len(refused.entries) - SHOWN
    return (f"at {index} {shown}{f' and {more} more' if more > 0 else ''}",)
