"""What is accepted but said: W302 an order that was guessed, W303 loops, W304 an expansion."""

from __future__ import annotations

from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.errors import Diagnostic
from lgmdsl.language.checked import Symbol


def _warning(code: str, symbol: Symbol, message: str, detail: str, help: str = "") -> Diagnostic:
    return Diagnostic(
        code, message, symbol.statement.span, details=(detail,), help=help,
        severity="warning", layout="plain",
    )  # fmt: skip


def guessed_order(symbol: Symbol, index: IndexSet) -> Diagnostic:
    """W302: an unlabelled array over labels that only the maps gave."""
    shown = ", ".join(str(v) for v in index.labels[:4].tolist())
    return _warning(
        "W302", symbol,
        f"`{symbol.name}` has no labels for `{index.name}`; its entries are taken in the sorted "
        "order of the labels",
        f"{index.name}: {shown}{', ...' if index.size > 4 else ''}",
        f"give a key `{index.name}` with the labels in the order of `{symbol.name}`",
    )  # fmt: skip


def dropped_loops(symbol: Symbol, number: int, first: str) -> Diagnostic:
    """W303: edges from a member to itself."""
    return _warning(
        "W303", symbol, f"`{symbol.name}` joins members to themselves; these loops are dropped",
        f"{number} {'loop' if number == 1 else 'loops'}, first at {first}",
    )  # fmt: skip


def expanded(symbol: Symbol, shape: tuple[int, ...], stored: int) -> Diagnostic:
    """W304: a sparse matrix that is used elsewhere than in `@`."""
    filled = stored / max(1, shape[0] * shape[1])
    return _warning(
        "W304", symbol, f"`{symbol.name}` is sparse but is used outside `@`; it is expanded",
        f"{shape[0]} x {shape[1]}, {filled:.1%} of the entries stored",
    )  # fmt: skip
