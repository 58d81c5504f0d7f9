"""Accepted with a warning: W302 an order that was guessed, W303 loops, W304 an expansion, W308 a
key that is not used, next to a name that has no key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.dataset import Dataset
from lgmdsl.errors import Diagnostic, nearest
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.language.tree import ast
from lgmdsl.remedies import key


def _warning(code: str, symbol: Symbol, message: str, detail: str, help: str = "") -> Diagnostic:
    return Diagnostic(
        code,
        message,
        symbol.statement.span,
        details=(detail,),
        help=help,
        severity="warning",
        layout="plain",
    )


def guessed_order(symbol: Symbol, index: IndexSet) -> Diagnostic:
    """W302: an unlabelled array over labels that only the maps gave, or that are numbers from 0
    of which the maps never use 0."""
    shown = ", ".join(str(v) for v in index.labels[:4].tolist())
    labels = f"give a key `{index.name}` with the labels in the order of `{symbol.name}`"
    pairs = f"give `{symbol.name}` as pairs of labels"
    return _warning(
        "W302",
        symbol,
        f"`{symbol.name}` has no labels for `{index.name}`; its entries are taken in the sorted "
        "order of the labels",
        f"{index.name}: {shown}{', ...' if index.size > 4 else ''}",
        pairs if symbol.type == "graph" else labels,
    )


def dropped_loops(symbol: Symbol, number: int, first: str) -> Diagnostic:
    """W303: edges from a member to itself."""
    return _warning(
        "W303",
        symbol,
        f"`{symbol.name}` joins members to themselves; these loops are dropped",
        f"{number} {'loop' if number == 1 else 'loops'}, first at {first}",
    )


def expanded(symbol: Symbol, shape: tuple[int, ...], stored: int) -> Diagnostic:
    """W304: a sparse matrix that is used elsewhere than in `@`."""
    filled = stored / max(1, shape[0] * shape[1])
    return _warning(
        "W304",
        symbol,
        f"`{symbol.name}` is sparse but is used outside `@`; it is expanded",
        f"{shape[0]} x {shape[1]}, {filled:.1%} of the entries stored",
    )


def unused_keys(
    model: CheckedModel, dataset: Dataset, indices: Mapping[str, IndexSet], reused: Collection[str]
) -> Iterator[Diagnostic]:
    """W308: where the source has no key for a name that can do without, as an index without labels
    and a datum whose values are `reused` from the fit, an idle key of its shape that is almost it.

    The columns of a table are many and all of one shape: only another case is near to them.
    """
    taken = {dataset.key(name) for name in model.symbols}
    idle = {k: e for k, e in dataset.entries.items() if k not in taken}
    for symbol in model.symbols.values():
        name, statement = symbol.name, symbol.statement
        if not idle or name in dataset.mapping or dataset.ask(name) is not None:
            continue
        shape: tuple[int, ...]
        if isinstance(statement, ast.Index) and name in indices and statement.definition is None:
            shape, has = (indices[name].size,), "has no labels of its own in these data"
        elif name in reused:
            shape, has = tuple(indices[d].size for d in symbol.dims), "keeps its values of the fit"
        else:
            continue
        near = [
            k
            for k, e in idle.items()
            if e.shape == shape and (not e.table or k.casefold() == name.casefold())
        ]
        close = nearest(name, near)
        if close is not None:
            yield _warning(
                "W308",
                symbol,
                f"`{close}` is not used, and `{name}` {has}",
                f"{dataset.name} has `{close}`, and no `{name}`",
                f"if `{name}` is meant: {key(name, close)}",
            )
