"""Latents, lets and predictors that the memory budget cannot hold, by their index sizes alone.

The least that each entry takes, measured (peak of a fit of a million entries, less that of an
empty one): a latent that enters few rows 256 bytes, one with its own row 570, one of an `rw1`
1,150; a row that one latent explains 400; a let that nothing uses 52; an entry of an operator
while it is built 48. What passes here may still be too large for every engine (`engines.choose`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from lgmdsl.canonical.grounding.errors import signature
from lgmdsl.errors import Span
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.language.checked import Symbol
from lgmdsl.memory import budget, check

LATENT, ROW, LET, TERM = 250.0, 200.0, 50.0, 48.0  # bytes an entry

FEWER = {
    "latent": "fewer labels",
    "let": "write the expression where it is used, if only some entries are",
    "report": "report fewer entries",
    "data": "fit a part of the rows",
}
BYTES = {"latent": LATENT, "let": LET, "report": LET, "data": ROW}


def most() -> int:
    """Labels an index set can have at most: a gigabyte of them, or an eighth of the memory."""
    return min(1 << 27, budget() // 64)


def check_sizes(graph: ModelGraph, sizes: Mapping[str, int]) -> None:
    """Raise TooLarge (E505) for the first latent, let, report, response or potential that is too
    large; an index whose size is not known yet counts as 1."""
    for symbol in graph.model.symbols.values():
        if symbol.kind in BYTES and (symbol.kind != "data" or symbol.name in graph.observed):
            _check(symbol, sizes)


def _check(symbol: Symbol, sizes: Mapping[str, int]) -> None:
    entries = math.prod(sizes.get(d, 1) for d in symbol.dims)
    kind = "datum" if symbol.kind == "data" else symbol.kind
    check(
        f"{kind} `{signature(symbol.name, symbol.dims)}`",
        counted(entries, [sizes[d] for d in symbol.dims if d in sizes]),
        BYTES[symbol.kind] * entries,
        symbol.statement.span,
        FEWER[symbol.kind],
    )


def check_rows(name: str, sizes: Sequence[int], span: Span) -> int:
    """The number of predictor rows over these indices; raises TooLarge (E505) as above."""
    entries = math.prod(sizes)
    check(f"`{name}`", counted(entries, list(sizes)), ROW * entries, span, "fewer indices")
    return entries


def counted(entries: int, sizes: list[int]) -> str:
    """`100,000 x 100,000 = 10,000,000,000 entries`."""
    product = " x ".join(f"{n:,}" for n in sizes)
    return f"{product} = {entries:,} entries" if len(sizes) > 1 else f"{entries:,} entries"
