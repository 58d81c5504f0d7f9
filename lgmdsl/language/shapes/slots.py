"""`v[slot, ...]`: an index name keeps the axis, a map gathers, a label or number picks."""

from __future__ import annotations

from lgmdsl.errors import meant
from lgmdsl.language.checked import Symbol
from lgmdsl.language.shapes.scope import LabelSet, Scope, place_of
from lgmdsl.language.shapes.shape import Context, Shape, symbol_shape
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import KIND_IN_WORDS, in_line, quoted, text_of, with_dims

MOST_LABELS = 8


def indexed_shape(node: ast.Indexed, scope: Scope, context: Context) -> Shape | None:
    """The shape of a value with a slot for each of its axes."""
    symbol = scope.resolve(node.base)
    if symbol is None:
        for slot in node.slots:
            if isinstance(slot, ast.Name):
                scope.resolve(slot)
        return None
    if symbol.kind == "index":
        scope.findings.error(
            "E108",
            f"`{symbol.name}` is an index, not a value",
            node.base.span,
            "takes no slots",
            help=f"slots belong to values: data, hypers, latents, lets over {symbol.name}",
        )
        return None
    whole = symbol_shape(symbol, node.base, scope, context)
    if whole is None:
        return None
    if len(node.slots) != len(symbol.dims):
        _wrong_number(node, symbol, scope)
        return None
    written = [s.id if isinstance(s, ast.Name) else "" for s in node.slots]
    if written != list(symbol.dims) and sorted(written) == sorted(symbol.dims):
        shown = with_dims(symbol.name, symbol.dims)
        scope.findings.error(
            "E204",
            f"the slots of `{symbol.name}` are not in the order of its axes",
            node.span,
            f"declared {shown}{in_line(place_of(symbol))}",
            help=f"write {shown}: the algebra is by name, and any order fits",
        )
        return None
    indices: list[str] = []
    valid = True
    for slot, axis in zip(node.slots, symbol.dims, strict=True):
        slot_indices = _slot(slot, axis, node, symbol, scope)
        if slot_indices is None:
            valid = False
            continue
        unchanged = slot_indices == (axis,) and isinstance(slot, ast.Name) and slot.id == axis
        # An axis kept twice, as in S[term, term], appears twice; a gathered index joins.
        indices.extend(
            i for i in slot_indices if i not in indices or (unchanged and symbol.dims.count(i) > 1)
        )
    if not valid:
        return None
    if symbol.type == "graph" and tuple(indices) != symbol.dims:
        scope.findings.error(
            "E108",
            f"the graph `{symbol.name}` is used whole",
            node.span,
            "a part of a graph",
            help=f"write {symbol.name}",
        )
        return None
    kind = whole.type
    whole_rows = kind in ("simplex", "ordered") and _keeps_last(node, symbol, indices)
    parted = tuple(indices) != symbol.dims and not whole_rows
    if parted and kind in ("covariance", "simplex", "ordered"):
        kind = {"covariance": "real", "simplex": "unit", "ordered": "real"}[kind]
        if symbol.type == "covariance" and _diagonal(node):
            kind = "positive"
    return Shape(tuple(indices), whole.degree, kind, None, whole.latent, atom=True)


def _keeps_last(node: ast.Indexed, symbol: Symbol, indices: list[str]) -> bool:
    """Whether the last axis, along which entries increase or sum to 1, is kept as the last one."""
    last = node.slots[-1]
    return isinstance(last, ast.Name) and last.id == symbol.dims[-1] == indices[-1]


def _diagonal(node: ast.Indexed) -> bool:
    """Whether the last two slots pick the same label."""
    return len(node.slots) > 1 and node.slots[-1] == node.slots[-2]


def _wrong_number(node: ast.Indexed, symbol: Symbol, scope: Scope) -> None:
    axes, slots = len(symbol.dims), len(node.slots)
    shown = with_dims(symbol.name, symbol.dims)
    scope.findings.error(
        "E108",
        f"`{shown}` has {axes} {'axis' if axes == 1 else 'axes'}, but {slots} "
        f"{'slot is' if slots == 1 else 'slots are'} given",
        node.span,
        f"declared{in_line(place_of(symbol))}" if place_of(symbol).known else "",
        help=f"write {shown}, with an index, a map or a label in each slot"
        if axes
        else f"it is a single number: write {symbol.name}",
    )


def _slot(
    slot: ast.Slot, axis: str, node: ast.Indexed, symbol: Symbol, scope: Scope
) -> tuple[str, ...] | None:
    """The indices a slot leaves, or None after a complaint."""
    if isinstance(slot, ast.String | ast.Number):
        return () if _label_exists(slot, axis, symbol, scope) else None
    known = scope.symbols.get(slot.id)
    if known is None and _is_label(slot.id, axis, scope):
        if scope.mention(slot.id):
            scope.findings.error(
                "E103",
                f"unknown index or map `{slot.id}`",
                slot.span,
                "not declared",
                help=f'a label goes in quotes: {symbol.name}["{slot.id}"]',
            )
        return None
    target = scope.resolve(slot, "index or map")
    if target is None:
        return None
    if target.kind == "index":
        if target.name == axis:
            return (axis,)
        _wrong_index(slot, target, axis, node, symbol, scope)
        return None
    if target.kind != "data" or target.target is None:
        kind = f"`{target.type}` data" if target.kind == "data" else KIND_IN_WORDS[target.kind]
        scope.findings.error(
            "E108",
            f"`{slot.id}` is {kind}: a slot takes an index, a map or a label",
            slot.span,
            f"a map to {axis} is wanted",
            help=_try_maps(axis, node, symbol, scope)
            or f"a map is a datum whose type is the index: data {slot.id}[...] : {axis}",
        )
        return None
    if target.target != axis:
        dims = ", ".join(target.dims)
        scope.findings.error(
            "E204",
            f"`{slot.id}` maps to {target.target}, but this slot of `{symbol.name}` is {axis}",
            slot.span,
            f"maps {dims} to {target.target}" if dims else f"picks one of {target.target}",
            help=_try_maps(axis, node, symbol, scope, target.dims)
            or f"declare a map to it: data {slot.id}2[{dims}] : {axis}",
        )
        return None
    return target.dims


def _wrong_index(
    slot: ast.Name, target: Symbol, axis: str, node: ast.Indexed, symbol: Symbol, scope: Scope
) -> None:
    help = _try_maps(axis, node, symbol, scope, (target.name,))
    scope.findings.error(
        "E204",
        f"this slot of `{symbol.name}` is {axis}, not {target.name}",
        slot.span,
        f"declared {with_dims(symbol.name, symbol.dims)}{in_line(place_of(symbol))}",
        help=help or f"declare a map from one to the other: data {axis}_of[{target.name}] : {axis}",
    )


def _try_maps(
    axis: str,
    node: ast.Indexed,
    symbol: Symbol,
    scope: Scope,
    dims: tuple[str, ...] | None = None,
) -> str:
    maps = scope.maps_to(axis, dims) or scope.maps_to(axis)
    if not maps:
        return ""
    if len(maps) > 1:
        return f"{quoted(maps)} map to {axis}"
    slots = [_meant(s, d, scope) for s, d in zip(node.slots, symbol.dims, strict=True)]
    frm = scope.symbols[maps[0]].dims
    return f"`{maps[0]}` maps {', '.join(frm)} to {axis}: write {with_dims(symbol.name, slots)}"


def _meant(slot: ast.Slot, axis: str, scope: Scope) -> str:
    """A slot as it was written where it fits its axis, else the map that would fit."""
    if not isinstance(slot, ast.Name):
        return text_of(slot)
    symbol = scope.symbols.get(slot.id)
    if symbol is not None and axis in (symbol.name, symbol.target):
        return slot.id
    return next(iter(scope.maps_to(axis)), axis)


def _is_label(word: str, axis: str, scope: Scope) -> bool:
    labels = scope.labels.get(axis)
    return labels is not None and word in labels


def _label_exists(slot: ast.String | ast.Number, axis: str, symbol: Symbol, scope: Scope) -> bool:
    labels = scope.labels.get(axis)
    if labels is None:
        known = isinstance(slot, ast.String) or slot.value.is_integer()
    else:
        known = (slot.value if isinstance(slot, ast.String) else f"{slot.value:.17g}") in labels
        if labels.named and isinstance(slot, ast.Number):
            known = False
    if known:
        return True
    shown = f'"{slot.value}"' if isinstance(slot, ast.String) else slot.text or f"{slot.value:g}"
    scope.findings.error(
        "E302",
        f"`{axis}` has no label {shown}",
        slot.span,
        f"a label of {axis} is wanted",
        help=_labels_help(slot, axis, labels, scope),
    )
    return False


def _labels_help(
    slot: ast.String | ast.Number, axis: str, labels: LabelSet | None, scope: Scope
) -> str:
    if labels is None:
        return "a label that is not text is a whole number"
    known = labels.first(MOST_LABELS)
    if not labels.named:
        return f"its labels are the whole numbers {known[0]} to {labels.last}"
    close = scope.closest(slot.value, labels.first(400)) if isinstance(slot, ast.String) else None
    if close:
        return meant(close, quote='"')
    more = f" and {labels.count - MOST_LABELS} more" if labels.count > MOST_LABELS else ""
    return "its labels are " + ", ".join(f'"{v}"' for v in known) + more
