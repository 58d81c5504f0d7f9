"""Which indices an argument may and must have: E201, E205, and E108 for classes and cuts."""

from __future__ import annotations

from lgmdsl.language.check.binding import Place
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.shapes.shape import Shape
from lgmdsl.language.shapes.shapes import Inference
from lgmdsl.language.shapes.stray_indices import complain_outside
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import (
    bracketed,
    has_indices,
    quoted,
    shown_index,
    text_of,
    with_dims,
)
from lgmdsl.vocabulary.signature import Parameter


def check_over(
    value: ast.Expr,
    shape: Shape,
    parameter: Parameter,
    owner: str,
    place: Place,
    inference: Inference,
    scope: Scope,
    earlier: dict[str, Shape],
) -> bool:
    """Whether the indices of a value are those its parameter takes; complains if not."""
    has, dims = shape.indices, place.dims
    match parameter.over:
        case "none" | "one":
            wanted = 0 if parameter.over == "none" else 1
            if len(has) == wanted:
                return True
            number = "one number" if wanted == 0 else "over one further index"
            return _complain(
                value,
                f"{owner} must be {number}",
                f"`{text_of(value)}` {has_indices(has)}",
                "pick one entry by its label, or declare it without an index"
                if not wanted
                else f"declare it over an index of lags: hyper {parameter.name}[lag]",
                scope,
            )
        case "axis" | "input":
            return _on_axis(value, has, parameter, owner, place, scope)
        case "class" | "classes":
            heads = scope.heads_of(str(place.observed))
            if parameter.over == "classes" and any(i in heads for i in has):
                return _cut(value, has, parameter, place, inference, scope)
            return _class(value, has, parameter, place, inference, scope)
        case "cut":
            return _cut(value, has, parameter, place, inference, scope)
        case "last" | "rest":
            return _counts(value, has, parameter, owner, place, inference, scope)
        case "topic":
            if len(dims) < 2:
                return _complain(
                    value,
                    f"`{place.name}` observes counts of words in documents",
                    f"`{place.shown}` has too few indices",
                    "declare the counts over both: data n[doc, word] : count",
                    scope,
                )
            topics = [i for i in has if i not in dims[:-1]]
            if len(topics) == 1 and topics[0] != (dims[-1] if dims else ""):
                return True
            return _complain(
                value,
                f"{owner} is over the documents and one index of topics",
                f"`{text_of(value)}` {has_indices(has)}",
                f"declare index topic, and a predictor eta{bracketed([*dims[:-1], 'topic'])}",
                scope,
            )
        case "emission":
            return _emission(value, has, owner, place, earlier, scope)
        case "piece":
            return _piece(value, has, owner, place, scope)
        case "inner":
            return _inner(value, has, parameter, owner, place, earlier, scope)
    extra = [i for i in has if i not in dims]
    if extra and place.entries and set(extra) <= set(place.entries):
        return _each_entry(value, extra, owner, place, scope)
    if extra:
        complain_outside(value, extra, dims, place.shown, inference, scope)
    return not extra


def _each_entry(value: ast.Expr, extra: list[str], owner: str, place: Place, scope: Scope) -> bool:
    """E201: an argument with a value for each entry of a group, whose norm has one."""
    text = text_of(value)
    over, plain = bracketed(place.dims), text.replace(f"[{place.group}]", "")
    help = "give it one number, or a hyper without an index"
    if place.dims:
        help = f"give it one number, or declare it over the groups: hyper s{over}"
    scope.findings.error(
        "E201",
        f"{owner} has one value for each group, not for each of its entries",
        value.span,
        f"`{text}` {has_indices(tuple(extra))}",
        help=help if plain == text else f"groups have no map to go through: write {plain}",
    )
    return False


def _complain(value: ast.Expr, message: str, label: str, help: str, scope: Scope) -> bool:
    scope.findings.error("E108", message, value.span, label, help=help)
    return False


def _on_axis(
    value: ast.Expr,
    has: tuple[str, ...],
    parameter: Parameter,
    owner: str,
    place: Place,
    scope: Scope,
) -> bool:
    if place.axis is None or parameter.type == "positive":
        # A kernel's length: one number, or one for each input dimension.
        if place.inputs is None or set(has) <= set(place.inputs):
            return True
        dim = place.inputs[0] if place.inputs else ""
        return _complain(
            value,
            f"{owner} must be one number, or one for each input dimension",
            f"`{text_of(value)}` {has_indices(has)}",
            f"the inputs have the dimension {dim}: declare it over [{dim}]"
            if dim
            else "the process has a single input: declare it without an index",
            scope,
        )
    most = 2 if parameter.over == "input" else 1
    if has[:1] == (place.axis,) and len(has) <= most:
        return True
    text = text_of(value)
    wanted = f"[{place.axis}]" + (f" or [{place.axis}, dim]" if most == 2 else "")
    message = f"`{place.name}` stands for the axis `{place.axis}`, and `{text}` is not over it"
    name = text if isinstance(value, ast.Name) else f"{parameter.name}_{place.axis}"
    help = f"declare it over the axis: data {with_dims(name, [str(place.axis), *has[1:2]])} : real"
    maps = scope.maps_to(has[0], (place.axis or "",)) if has else []
    if maps and isinstance(value, ast.Name):
        picked = with_dims(text, [maps[0], *has[1:]])
        help = f"`{maps[0]}` maps {place.axis} to {has[0]}: write {picked}"
    if place.axis in has:
        message = f"{owner} is over {wanted}, but `{text}` is over {bracketed(has)}"
        help = f"the first index of `{parameter.name}` is the axis, and at most one follows"
    scope.findings.error("E205", message, value.span, f"{wanted} is wanted", help=help)
    return False


def _class(
    value: ast.Expr,
    has: tuple[str, ...],
    parameter: Parameter,
    place: Place,
    inference: Inference,
    scope: Scope,
) -> bool:
    classes = str(place.observed)
    if classes in has:
        extra = [i for i in has if i not in place.dims and i != classes]
        if extra:
            complain_outside(value, extra, place.dims, place.shown, inference, scope)
        return not extra
    text = text_of(value)
    heads = [i for i in has if i in scope.heads_of(classes)]
    help = f"give it the index: let {text if isinstance(value, ast.Name) else 'eta'}"
    help += bracketed([*place.dims, classes])
    if heads:
        help = f"`stick` takes one for all but the last: {place.name}(stick = {text})"
    return _complain(
        value,
        f"`{parameter.name}` of `{place.name}` has one entry for each label of `{classes}`",
        f"`{text}` {has_indices(has)}",
        help,
        scope,
    )


def _cut(
    value: ast.Expr,
    has: tuple[str, ...],
    parameter: Parameter,
    place: Place,
    inference: Inference,
    scope: Scope,
) -> bool:
    classes = str(place.observed)
    known = scope.heads_of(classes)
    heads = [i for i in has if i in known]
    extra = [i for i in has if i not in place.dims and i not in heads]
    if len(heads) == 1 and not extra:
        return True
    if len(heads) == 1 and classes not in extra:
        complain_outside(value, extra, place.dims, place.shown, inference, scope)
        return False
    text = text_of(value)
    name = text if isinstance(value, ast.Name) else parameter.name
    cut = known[0] if known else f"{classes}_cut"
    dims = [cut if i == classes else i for i in has if i != cut]
    shown = with_dims(name, dims if cut in dims else [*dims, cut])
    help = f"give it the index `{cut}`: {shown}"
    if not known:
        help = f"declare index {cut} = head({classes}), and {shown}"
    return _complain(
        value,
        f"`{parameter.name}` of `{place.name}` has one entry for each label of `{classes}` "
        "but the last",
        f"`{text}` {has_indices(has)}",
        help,
        scope,
    )


def _counts(
    value: ast.Expr,
    has: tuple[str, ...],
    parameter: Parameter,
    owner: str,
    place: Place,
    inference: Inference,
    scope: Scope,
) -> bool:
    dims = place.dims
    if not dims:
        return parameter.type != "latent" or _complain(
            value,
            f"`{place.name}` observes counts over classes",
            f"{place.shown} has no index",
            "declare the classes: data y[obs, class] : count",
            scope,
        )
    allowed = dims if parameter.over == "last" else dims[:-1]
    heads = [i for i in has if parameter.over == "last" and i in scope.heads_of(dims[-1])]
    if heads and dims[-1] not in has:  # the last class is the reference
        dims = allowed = (*dims[:-1], heads[0])
    extra = [i for i in has if i not in allowed]
    if extra:
        if extra == [dims[-1]]:
            return _complain(
                value,
                f"{owner} is the total over `{dims[-1]}`",
                f"`{text_of(value)}` {has_indices(has)}",
                _totals(value, parameter, place),
                scope,
            )
        complain_outside(value, extra, allowed, place.shown, inference, scope)
        return False
    if parameter.over == "last" and dims[-1] not in has:
        return _complain(
            value,
            f"{owner} has one entry for each label of `{dims[-1]}`, the last index of "
            f"`{place.shown}`",
            f"`{text_of(value)}` {has_indices(has)}",
            f"give it the index: {_opener(value, scope)} {_named(value, 'eta')}{bracketed(dims)}",
            scope,
        )
    return True


def _named(value: ast.Expr, otherwise: str) -> str:
    """The name that a value is, or one for an expression."""
    return value.id if isinstance(value, ast.Name) else otherwise


def _opener(value: ast.Expr, scope: Scope) -> str:
    """The statement that declares a value: `let` of an expression."""
    symbol = scope.symbols.get(value.id) if isinstance(value, ast.Name) else None
    return "let" if symbol is None else symbol.kind


def _totals(value: ast.Expr, parameter: Parameter, place: Place) -> str:
    """How the total over the classes is declared: the counts themselves are none."""
    over = f"{bracketed(place.dims[:-1])} : count"
    name = _named(value, "total")
    if name != place.shown.partition("[")[0]:
        return f"declare it without that index: data {name}{over}"
    return f"leave it out, or declare the totals: data total{over}, then {parameter.name} = total"


def _emission(
    value: ast.Expr,
    has: tuple[str, ...],
    owner: str,
    place: Place,
    earlier: dict[str, Shape],
    scope: Scope,
) -> bool:
    softmax = earlier.get("softmax")
    if len(place.dims) < 2:
        return True
    last = place.dims[-1:] if place.dims else ()
    topics = [i for i in softmax.indices if i not in place.dims] if softmax else list(has[:1])
    wanted = (*topics[:1], *last)
    if has == wanted:
        return True
    return _complain(
        value,
        f"{owner} gives each topic its distribution over {quoted([*map(shown_index, last)])}"
        if last
        else f"{owner} gives each topic a distribution",
        f"`{text_of(value)}` {has_indices(has)}",
        f"declare it as hyper beta{bracketed(wanted)} : simplex ~ dirichlet(alpha = 1)",
        scope,
    )


def _piece(value: ast.Expr, has: tuple[str, ...], owner: str, place: Place, scope: Scope) -> bool:
    if len([i for i in has if i not in place.dims]) == 1:
        return True
    pieces = bracketed([*place.dims, "piece"])
    return _complain(
        value,
        f"{owner} has one entry for each piece of time: one further index",
        f"`{text_of(value)}` {has_indices(has)}",
        f"declare index piece, and a predictor over it: let eta{pieces} = base[piece] + b * x",
        scope,
    )


def _inner(
    value: ast.Expr,
    has: tuple[str, ...],
    parameter: Parameter,
    owner: str,
    place: Place,
    earlier: dict[str, Shape],
    scope: Scope,
) -> bool:
    predictor = next(iter(earlier.values()), None)
    pieces = [i for i in predictor.indices if i not in place.dims] if predictor else []
    known = scope.heads_of(pieces[0]) if pieces else ()
    if len(has) == 1 and (not pieces or has[0] in known):
        return True
    piece = pieces[0] if pieces else "piece"
    inner = known[0] if known else "inner"
    declared = "" if known else f"index {inner} = head({piece}), and "
    return _complain(
        value,
        f"{owner} are the times between the pieces: one for each label of `{piece}` but the last",
        f"`{text_of(value)}` {has_indices(has)}",
        f"declare {declared}data {parameter.name}[{inner}] : positive",
        scope,
    )
