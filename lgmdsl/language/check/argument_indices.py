"""Which indices an argument may and must have: E201, E205, and E108 for classes and cuts."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class ArgumentIndices:
    """The indices of the value of an argument; `earlier`: the shapes of the arguments before it."""

    value: ast.Expr
    has: tuple[str, ...]
    parameter: Parameter
    owner: str
    place: Place
    inference: Inference
    scope: Scope
    earlier: dict[str, Shape]

    def check(self) -> bool:
        """Whether the indices of the value are those its parameter takes; complains if not."""
        has, dims, parameter, place = self.has, self.place.dims, self.parameter, self.place
        match parameter.over:
            case "none" | "one" | "lags":
                least, most = {"none": (0, 0), "one": (1, 1)}.get(parameter.over, (0, 1))
                if least <= len(has) <= most:
                    return True
                wanted = "over one further index" if most else "one number"
                wanted = wanted if least == most else f"one number, or {wanted}"
                return self._complain(
                    f"{self.owner} must be {wanted}",
                    f"declare it over an index of lags: hyper {parameter.name}[lag]"
                    if most
                    else "pick one entry by its label, or declare it without an index",
                )
            case "others":
                others = [d for d in dims if d != place.axis]
                if set(has) <= set(others):
                    return True
                each = f", or one for each member of {quoted(others)}" if others else ""
                return self._complain(
                    f"{self.owner} must be one number{each}",
                    f"declare it over {bracketed(others)}"
                    if others
                    else "pick one entry by its label, or declare it without an index",
                )
            case "axis" | "input":
                return self._on_axis()
            case "member":
                axis = place.axis or ""
                if not has or has == (axis,):
                    return True
                return self._complain(
                    f"{self.owner} must be one number, or one for each member of `{axis}`",
                    f"declare it over the axis: hyper {parameter.name}[{axis}], or without an index"
                    if axis
                    else "declare it without an index",
                )
            case "class" | "classes":
                heads = self.scope.heads_of(str(place.observed))
                if parameter.over == "classes" and any(i in heads for i in has):
                    return self._cut()
                return self._class()
            case "cut":
                return self._cut()
            case "last" | "rest":
                return self._counts()
            case "topic":
                if len(dims) < 2:
                    return self._complain(
                        f"`{place.name}` observes counts of words in documents",
                        "declare the counts over both: data n[doc, word] : count",
                        f"`{place.shown}` has too few indices",
                    )
                topics = [i for i in has if i not in dims[:-1]]
                if len(topics) == 1 and topics[0] != (dims[-1] if dims else ""):
                    return True
                return self._complain(
                    f"{self.owner} is over the documents and one index of topics",
                    f"declare index topic, and a predictor eta{bracketed([*dims[:-1], 'topic'])}",
                )
            case "emission":
                return self._emission()
            case "piece":
                return self._piece()
            case "inner":
                return self._inner()
        extra = [i for i in has if i not in dims]
        if extra and place.entries and set(extra) <= set(place.entries):
            return self._each_entry(extra)
        if extra:
            self._outside(extra, dims)
        return not extra

    def _each_entry(self, extra: list[str]) -> bool:
        """E201: an argument with a value for each entry of a group, whose norm has one."""
        text = text_of(self.value)
        over, plain = bracketed(self.place.dims), text.replace(f"[{self.place.group}]", "")
        help = "give it one number, or a hyper without an index"
        if self.place.dims:
            help = f"give it one number, or declare it over the groups: hyper s{over}"
        self.scope.findings.error(
            "E201",
            f"{self.owner} has one value for each group, not for each of its entries",
            self.value.span,
            f"`{text}` {has_indices(tuple(extra))}",
            help=help if plain == text else f"groups have no map to go through: write {plain}",
        )
        return False

    def _complain(self, message: str, help: str, label: str = "") -> bool:
        """E108; the label says which indices the value has."""
        label = label or f"`{text_of(self.value)}` {has_indices(self.has)}"
        self.scope.findings.error("E108", message, self.value.span, label, help=help)
        return False

    def _on_axis(self) -> bool:
        has, place = self.has, self.place
        if place.axis is None or self.parameter.type in ("positive", "count"):
            # A kernel's length, a scale, a size: one number, or one for each input dimension.
            if place.inputs is None or set(has) <= set(place.inputs):
                return True
            dim = place.inputs[0] if place.inputs else ""
            return self._complain(
                f"{self.owner} must be one number, or one for each input dimension",
                f"the inputs have the dimension {dim}: declare it over [{dim}]"
                if dim
                else "there is a single input: declare it without an index",
            )
        most = 2 if self.parameter.over == "input" else 1
        if has[:1] == (place.axis,) and len(has) <= most:
            return True
        text = text_of(self.value)
        wanted = f"[{place.axis}]" + (f" or [{place.axis}, dim]" if most == 2 else "")
        message = f"`{place.name}` stands for the axis `{place.axis}`, and `{text}` is not over it"
        name = text if isinstance(self.value, ast.Name) else f"{self.parameter.name}_{place.axis}"
        help = (
            f"declare it over the axis: data {with_dims(name, [str(place.axis), *has[1:2]])} : real"
        )
        maps = self.scope.maps_to(has[0], (place.axis or "",)) if has else []
        if maps and isinstance(self.value, ast.Name):
            picked = with_dims(text, [maps[0], *has[1:]])
            help = f"`{maps[0]}` maps {place.axis} to {has[0]}: write {picked}"
        if place.axis in has:
            message = f"{self.owner} is over {wanted}, but `{text}` is over {bracketed(has)}"
            help = (
                f"the first index of `{self.parameter.name}` is the axis, and at most one follows"
            )
        self.scope.findings.error(
            "E205", message, self.value.span, f"{wanted} is wanted", help=help
        )
        return False

    def _class(self) -> bool:
        has, place = self.has, self.place
        classes = str(place.observed)
        if classes in has:
            extra = [i for i in has if i not in place.dims and i != classes]
            if extra:
                self._outside(extra, place.dims)
            return not extra
        text = text_of(self.value)
        heads = [i for i in has if i in self.scope.heads_of(classes)]
        help = f"give it the index: let {text if isinstance(self.value, ast.Name) else 'eta'}"
        help += bracketed([*place.dims, classes])
        if heads:
            help = f"`stick` takes one for all but the last: {place.name}(stick = {text})"
        return self._complain(
            f"`{self.parameter.name}` of `{place.name}` has one entry for each label of "
            f"`{classes}`",
            help,
        )

    def _cut(self) -> bool:
        has, place = self.has, self.place
        classes = str(place.observed)
        known = self.scope.heads_of(classes)
        heads = [i for i in has if i in known]
        extra = [i for i in has if i not in place.dims and i not in heads]
        if len(heads) == 1 and not extra:
            return True
        if len(heads) == 1 and classes not in extra:
            self._outside(extra, place.dims)
            return False
        text = text_of(self.value)
        name = text if isinstance(self.value, ast.Name) else self.parameter.name
        cut = known[0] if known else f"{classes}_cut"
        dims = [cut if i == classes else i for i in has if i != cut]
        shown = with_dims(name, dims if cut in dims else [*dims, cut])
        help = f"give it the index `{cut}`: {shown}"
        if not known:
            help = f"declare index {cut} = head({classes}), and {shown}"
        return self._complain(
            f"`{self.parameter.name}` of `{place.name}` has one entry for each label of "
            f"`{classes}` but the last",
            help,
        )

    def _counts(self) -> bool:
        has, place = self.has, self.place
        dims = place.dims
        if not dims:
            return self.parameter.type != "latent" or self._complain(
                f"`{place.name}` observes counts over classes",
                "declare the classes: data y[obs, class] : count",
                f"{place.shown} has no index",
            )
        allowed = dims if self.parameter.over == "last" else dims[:-1]
        heads = [
            i for i in has if self.parameter.over == "last" and i in self.scope.heads_of(dims[-1])
        ]
        if heads and dims[-1] not in has:  # the last class is the reference
            dims = allowed = (*dims[:-1], heads[0])
        extra = [i for i in has if i not in allowed]
        if extra:
            if extra == [dims[-1]]:
                return self._complain(
                    f"{self.owner} is the total over `{dims[-1]}`",
                    _totals(self.value, self.parameter, place),
                )
            self._outside(extra, allowed)
            return False
        if self.parameter.over == "last" and dims[-1] not in has:
            return self._complain(
                f"{self.owner} has one entry for each label of `{dims[-1]}`, the last index of "
                f"`{place.shown}`",
                f"give it the index: {_opener(self.value, self.scope)} "
                f"{_named(self.value, 'eta')}{bracketed(dims)}",
            )
        return True

    def _emission(self) -> bool:
        softmax = self.earlier.get("softmax")
        if len(self.place.dims) < 2:
            return True
        last = self.place.dims[-1:] if self.place.dims else ()
        topics = (
            [i for i in softmax.indices if i not in self.place.dims]
            if softmax
            else list(self.has[:1])
        )
        wanted = (*topics[:1], *last)
        if self.has == wanted:
            return True
        return self._complain(
            f"{self.owner} gives each topic "
            + (
                f"its distribution over {quoted([*map(shown_index, last)])}"
                if last
                else "a distribution"
            ),
            f"declare it as hyper beta{bracketed(wanted)} : simplex ~ dirichlet(alpha = 1)",
        )

    def _piece(self) -> bool:
        if len([i for i in self.has if i not in self.place.dims]) == 1:
            return True
        pieces = bracketed([*self.place.dims, "piece"])
        return self._complain(
            f"{self.owner} has one entry for each piece of time: one further index",
            f"declare index piece, and a predictor over it: let eta{pieces} = base[piece] + b * x",
        )

    def _inner(self) -> bool:
        predictor = next(iter(self.earlier.values()), None)
        pieces = [i for i in predictor.indices if i not in self.place.dims] if predictor else []
        known = self.scope.heads_of(pieces[0]) if pieces else ()
        if len(self.has) == 1 and (not pieces or self.has[0] in known):
            return True
        piece = pieces[0] if pieces else "piece"
        inner = known[0] if known else "inner"
        declared = "" if known else f"index {inner} = head({piece}), and "
        return self._complain(
            f"{self.owner} are the times between the pieces: one for each label of `{piece}` but "
            "the last",
            f"declare {declared}data {self.parameter.name}[{inner}] : positive",
        )

    def _outside(self, extra: list[str], allowed: tuple[str, ...]) -> None:
        shown, inference = self.place.shown, self.inference
        complain_outside(self.value, extra, allowed, shown, inference, self.scope)


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
