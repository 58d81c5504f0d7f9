"""Diagnostics for wrong data: E301 to E305, each with datum, position and remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.canonical.grounding.labels import meant_labels
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.errors import DataError, Diagnostic, LgmError, ModelError, meant
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import text_of
from lgmdsl.remedies import key as source_key
from lgmdsl.structures.shared.refusals import Refused, filled
from lgmdsl.visible import visible

SHOWN = 5


def signature(name: str, dims: Sequence[str]) -> str:
    """`y[obs]`."""
    return f"{name}[{', '.join(dims)}]" if dims else name


def count_of(number: int, word: str) -> str:
    """`1 label`, `236 labels`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def show(value: Any) -> str:
    """A found value: text in quotes, whole numbers without a point."""
    if isinstance(value, (str, np.str_)):
        text = visible(str(value), lines=False)
        return f'"{text if len(text) <= 30 else text[:27] + "..."}"'
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else f"{number:g}"


def tally(values: AnyArray) -> str:
    """`1 (118), 2 (118)`: the distinct values with their counts, the commonest few."""
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size > SHOWN:
        commonest = np.sort(np.argsort(-counts, kind="stable")[:SHOWN])
        shown = [f"{show(distinct[k])} ({counts[k]})" for k in commonest]
        return ", ".join(shown) + f" and {count_of(distinct.size - SHOWN, 'more value')}"
    return ", ".join(f"{show(v)} ({n})" for v, n in zip(distinct, counts, strict=True))


def places(mask: BoolArray, dims: Sequence[str], indices: Mapping[str, IndexSet]) -> str:
    """`at obs 4, 17, 99 and 5 more`: the labels of the marked entries, first few."""
    if mask.ndim == 0 or mask.ndim != len(dims):
        return ""
    entries = np.argwhere(mask)
    if not len(entries):
        return ""
    named = [
        [_label(indices[d], int(position)) for d, position in zip(dims, row, strict=True)]
        for row in entries[:SHOWN]
    ]
    if len(dims) == 1:
        shown, head = ", ".join(row[0] for row in named), dims[0]
    else:
        shown = ", ".join(f"[{', '.join(row)}]" for row in named)
        head = f"[{', '.join(dims)}]"
    more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return f"at {head} {shown}{more}"


def _label(index: IndexSet, position: int) -> str:
    return str(index.labels[position]) if position < index.size else str(position)


def about(index: IndexSet) -> str:
    """`obs has 236 labels, from d.npz:obs`."""
    return f"{index.name} has {count_of(index.size, 'label')}, {index.origin}"


def wrong_shape(
    symbol: Symbol, shape: Sequence[int], indices: Mapping[str, IndexSet], note: str = ""
) -> Diagnostic:
    """E301: the array's axes are not those declared."""
    dims = symbol.dims
    declared = f"declared {signature(symbol.name, dims)}"
    known = "; ".join(about(indices[d]) for d in dict.fromkeys(dims) if d in indices)
    shown = f"({', '.join(str(n) for n in shape)}{',' if len(shape) == 1 else ''})"
    details = [f"{declared:<24} {known}".rstrip(), f"given    {shown}"]
    return Diagnostic(
        "E301",
        f"data `{symbol.name}` has the wrong shape",
        symbol.statement.span,
        details=(*details, *([note] if note else [])),
        help=_shape_help(symbol, tuple(shape), indices),
        layout="plain",
    )


def _shape_help(symbol: Symbol, shape: tuple[int, ...], indices: Mapping[str, IndexSet]) -> str:
    name, dims = symbol.name, symbol.dims
    wanted = tuple(indices[d].size for d in dims if d in indices)
    helps: list[str] = []
    if len(dims) == 2 and len(shape) == 1 and shape[0] == _size(indices, dims[0]):
        helps.append(f"{name}[:, None]")
    elif len(dims) == 2 and len(shape) == 2 and shape[0] != shape[1]:
        # Transposed it fits, and the other axis has its size from nothing but this array.
        first, second = _size(indices, dims[0]), _size(indices, dims[1])
        self_sized = f":{name}" in indices[dims[1]].origin if dims[1] in indices else True
        if shape[1] == first and (self_sized or second == shape[0]):
            return f"{name}.T"
    total, want = int(np.prod(shape, dtype=object)), int(np.prod(wanted, dtype=object))
    if len(wanted) == len(dims) and total == want:
        if len(shape) == len(wanted) and shape[::-1] == wanted:
            helps.append(f"{name}.T")
        elif len(wanted) == 1:
            helps.append(f"np.ravel({name})")
        elif not wanted:
            helps.append(f"np.ravel({name})[0]")
        elif not helps:
            helps.append(f"np.reshape({name}, {wanted})")
    sized: list[str] = []
    for size in shape:
        fits = [i.name for i in indices.values() if i.size == size and i.name not in sized]
        if not fits:
            break
        sized.append(fits[0])
    if shape and len(sized) == len(shape) and tuple(sized) != dims:
        helps.append(f"declare {signature(name, sized)}")
    if not helps and len(shape) == len(dims):
        off = [d for d, n in zip(dims, shape, strict=True) if d in indices and indices[d].size != n]
        if off:
            helps.append(
                f"give `{name}` and the other data over {off[0]} the same "
                f"{'rows' if dims.index(off[0]) == 0 else 'columns'}, or declare another index"
            )
    if not helps:
        helps.append(
            f"give {signature(name, dims)} with {count_of(len(dims), 'axis')}".replace(
                "axiss", "axes"
            )
        )
    return ", or ".join(helps)


def _size(indices: Mapping[str, IndexSet], name: str) -> int:
    return indices[name].size if name in indices else -1


def wrong_labels(
    symbol: Symbol, target: IndexSet, unknown: AnyArray, where: str, remedy: str = ""
) -> Diagnostic:
    """E302: labels that the index set does not have."""
    distinct = list(dict.fromkeys(unknown.reshape(-1).tolist()))[:SHOWN]
    helps = remedy or (meant_labels(distinct, target.labels) if _is_text(distinct[0]) else "")
    known = ", ".join(show(v) for v in target.labels[:SHOWN].tolist())
    more = ", ..." if target.size > SHOWN else ""
    return Diagnostic(
        "E302",
        f"`{symbol.name}` holds a label that `{target.name}` does not have",
        symbol.statement.span,
        details=(
            f"found {tally(unknown)}{', ' if where else ''}{where}",
            f"{about(target)}: {known}{more}",
        ),
        help=helps or f"correct the labels, or add them to `{target.name}`",
        layout="plain",
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, np.str_))


def unknown_members(symbol: Symbol, index: IndexSet, unknown: AnyArray) -> Diagnostic:
    """E302: predictions are asked for at members that the fit does not have."""
    shown = ", ".join(show(v) for v in index.labels[:SHOWN].tolist())
    more = ", ..." if index.size > SHOWN else ""
    return Diagnostic(
        "E302",
        f"index `{index.name}` has no member {show(unknown.reshape(-1)[0])}, and takes no new ones",
        symbol.statement.span,
        details=(f"{about(index)}: {shown}{more}",),
        help=f"ask for fitted members of `{index.name}`, or fit again with the new ones",
        layout="plain",
    )


def repeated_labels(name: str, origin: str, labels: AnyArray, span: Any, help: str) -> Diagnostic:
    """E302: an index set's labels must differ."""
    counts = Counter(labels.tolist())
    twice = [(label, n) for label, n in counts.items() if n > 1]
    shown = ", ".join(f"{show(v)} ({n})" for v, n in twice[:SHOWN])
    more = f" and {len(twice) - SHOWN} more" if len(twice) > SHOWN else ""
    return Diagnostic(
        "E302",
        f"the labels of index `{name}` repeat",
        span,
        details=(f"{origin}: {shown}{more}",),
        help=help,
        layout="plain",
    )


def absent_labels(
    symbol: Symbol, index: IndexSet, lacking: AnyArray, steps: bool = False
) -> Diagnostic:
    """E302: the datum has no entry for some of the labels of one of its axes; `steps`: these are
    steps between the others, which the prior needs as members."""
    shown = ", ".join(show(v) for v in lacking[:SHOWN].tolist())
    more = f" and {lacking.size - SHOWN} more" if lacking.size > SHOWN else ""
    return Diagnostic(
        "E302",
        f"`{symbol.name}` lacks labels of `{index.name}`",
        symbol.statement.span,
        details=(f"no entry for {shown}{more}", about(index)),
        help=f"give `{symbol.name}` there too, or let rows map to {index.name}: index row, "
        f"data when[row] : {index.name}, and `{symbol.name}` over row"
        if steps
        else f"add these entries (NaN with `?` where unknown), or drop them from `{index.name}`",
        layout="plain",
    )


def wrong_values(
    symbol: Symbol, summary: str, where: str, help: str, message: str = ""
) -> Diagnostic:
    """E303: values outside the type. `summary` already counts them."""
    article = f"`{symbol.name}` is {symbol.type} but holds other values"
    location = f", {where}" if where else ""
    return Diagnostic(
        "E303",
        message or article,
        symbol.statement.span,
        details=(f"found {summary}{location}.",),
        help=help,
        layout="inline",
    )


def unexpected_missing(
    symbol: Symbol, mask: BoolArray, indices: Mapping[str, IndexSet], observed: bool
) -> Diagnostic:
    """E304: missing entries in a datum declared without `?`, which only an observed one takes."""
    where = places(mask, symbol.dims, indices)
    number = int(mask.sum())
    declared = f"data {signature(symbol.name, symbol.dims)} : {symbol.type}"
    remedy = "drop these rows, or fill in their values: no predictor can use a missing one"
    if symbol.target is not None:
        remedy = 'drop these rows, or give them a label: a new one ("unknown") is a new member'
    return Diagnostic(
        "E304",
        f"`{symbol.name}` has missing entries, and its type has no `?`",
        symbol.statement.span,
        details=(f"{number} of {mask.size} missing" + (f", {where}" if where else ""),),
        help=f"declare `{declared}?`, or drop these rows" if observed else remedy,
        layout="plain",
    )


def absent(
    symbol: Symbol, source: str, keys: Iterable[str], close: str | None, key: str, help: str = ""
) -> Diagnostic:
    """E305: the source has no array of this name."""
    names = list(keys)
    listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    span = symbol.statement.span
    wanted = f", wanted by line {span.line}" if span.known else ""
    mapped = f" (as `{key}`)" if key != symbol.name else ""
    verb = "have" if ", " in source else "has"
    has = f"{source} {verb}: {listed}.  " if names else f"{source} {verb} no arrays.  "
    remedy = help or meant(close, f"give it, or name its key: {source_key(symbol.name, 'KEY')}")
    return Diagnostic(
        "E305",
        f"data is missing `{symbol.name}`{mapped}{wanted}",
        span,
        details=(has,),
        help=remedy,
        layout="inline",
    )


def no_size(symbol: Symbol) -> Diagnostic:
    """E305: neither the model nor the data say how large an index set is."""
    assert isinstance(symbol.statement, ast.Index)
    return Diagnostic(
        "E305",
        f"nothing gives the size of index `{symbol.name}`",
        symbol.statement.span,
        details=("no datum runs over it, and the data hold no labels for it",),
        help=f"index {symbol.name} = 3, or a key `{symbol.name}` with its labels",
        layout="plain",
    )


def index_conflict(symbol: Symbol, problem: str, help: str) -> Diagnostic:
    """E301: the labels or sizes given for an index set contradict its declaration."""
    return Diagnostic(
        "E301", f"index `{symbol.name}` {problem}", symbol.statement.span, help=help, layout="plain"
    )


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
