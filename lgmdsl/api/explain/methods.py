"""Which methods run a model, and the table of sites and back ends they are read from.

Both are computed from what sites, bounds and back ends declare; nothing here is written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from lgmdsl.api.explain.outline import Outline, outline_of
from lgmdsl.api.page import columns, several, wrapped
from lgmdsl.bounds.catalogue import SERIES, applicable, bounds
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import Diagnostic
from lgmdsl.html import Paged
from lgmdsl.inference.plan import verdict
from lgmdsl.inference.registry import BackendClass, backends
from lgmdsl.inference.routes import Refusal, Route, compiled, route
from lgmdsl.language.load import AnyModel, as_model
from lgmdsl.sites import catalogue as sites


@dataclass(frozen=True)
class Reason:
    """Why a method cannot run a model; `where` names the site or the part of the model."""

    code: str
    where: str
    text: str


@dataclass(frozen=True)
class MethodVerdict:
    """One method and one model. `routes` says for each site how it answers the method; `bounds`
    are those that `--bound` can name instead (`stem-R` for any number R of pieces)."""

    method: str
    runs: bool
    routes: tuple[tuple[str, str], ...]
    reasons: tuple[Reason, ...]
    summary: str
    bounds: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.runs:
            ways = "; ".join(f"{site}: {how}" for site, how in self.routes)
            return f"{self.method}: runs ({ways})" if ways else f"{self.method}: runs"
        return f"{self.method}: cannot ({'; '.join(r.text for r in self.reasons)})"


@dataclass(frozen=True)
class ModelMethods(Paged):
    """The verdict of every method on one model."""

    model: str
    verdicts: tuple[MethodVerdict, ...]

    def __repr__(self) -> str:
        return f"ModelMethods({self.model!r}: {several(self.able, 20)})"

    def __iter__(self) -> Iterator[MethodVerdict]:
        return iter(self.verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)

    def __getitem__(self, method: str) -> MethodVerdict:
        return next(v for v in self.verdicts if v.method == method)

    @property
    def able(self) -> tuple[str, ...]:
        """The methods that run the model."""
        return tuple(v.method for v in self.verdicts if v.runs)

    def as_json(self) -> dict[str, object]:
        """Plain values for `lgm methods MODEL --json`."""
        return {
            "model": self.model,
            "methods": [
                {
                    "method": v.method,
                    "runs": v.runs,
                    "routes": [{"site": s, "how": h} for s, h in v.routes],
                    "bounds": list(v.bounds),
                    "reasons": [
                        {"code": r.code, "where": r.where, "text": r.text} for r in v.reasons
                    ],
                }
                for v in self.verdicts
            ],
        }

    def __str__(self) -> str:
        lines = []
        width = max((len(v.method) for v in self.verdicts), default=0)
        for v in self.verdicts:
            lines.append(f"{v.method:<{width}}  {'runs' if v.runs else 'cannot run this model'}")
            notes = [f"{site}: {how}" for site, how in v.routes] if v.runs else []
            notes += [f"{r.where}: {r.text} ({r.code})" for r in v.reasons]
            if v.runs and v.bounds:
                notes.append(f"--bound: {', '.join(v.bounds)}")
            lines += [row for text in notes for row in wrapped(text, width + 4, width + 6)]
        return "\n".join(lines)


@dataclass(frozen=True)
class MethodTable(Paged):
    """Every site family (rows) and every back end (columns)."""

    sites: tuple[type[Site], ...]
    backends: tuple[BackendClass, ...]

    def cell(self, site: type[Site], backend: BackendClass) -> Route | Refusal:
        """The route, or why there is none."""
        return route(compiled(site), backend)

    def __iter__(self) -> Iterator[tuple[str, str, Route | Refusal]]:
        for site in self.sites:
            for backend in self.backends:
                yield site.spec.name, backend.spec.name, self.cell(site, backend)

    def as_json(self) -> dict[str, object]:
        """Plain values for `lgm methods --json`."""
        table: dict[str, dict[str, dict[str, str]]] = {}
        for site, backend, cell in self:
            ways = (
                {"refused": cell.reason, "code": cell.code}
                if isinstance(cell, Refusal)
                else {
                    "through": cell.bound.spec.name if cell.bound else "itself",
                    "guarantee": str(cell.guarantee),
                }
            )
            table.setdefault(site, {})[backend] = ways
        methods = [
            {
                "method": b.spec.name,
                "summary": b.spec.summary,
                "needs": b.spec.needs.__name__,
                "guarantee": str(b.spec.guarantee),
                "paper": b.spec.paper,
            }
            for b in self.backends
        ]
        lifts = [
            {
                "bound": name,
                "gives": b.spec.gives.__name__,
                "guarantee": str(b.spec.guarantee),
                "error": b.spec.error if math.isfinite(b.spec.error) else None,
                "summary": b.spec.summary,
                "paper": b.spec.paper,
            }
            for name, b in _named_bounds()
        ]
        return {"methods": methods, "bounds": lifts, "table": table}

    def markdown(self) -> str:
        """The table in Markdown, as the manual has it."""
        names = [b.spec.name for b in self.backends]
        lines = [f"| site | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
        for site in self.sites:
            cells = [_short(self.cell(site, b)) for b in self.backends]
            lines.append(f"| `{_label(site)}` | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        rows = [("site", *(b.spec.name for b in self.backends))]
        rows += [(_label(s), *(_short(self.cell(s, b)) for b in self.backends)) for s in self.sites]
        legend = [
            row
            for b in self.backends
            for row in wrapped(f"{b.spec.name}: {b.spec.summary} ({b.spec.paper})", 0, 2)
        ]
        lifts = [
            row for name, lift in _named_bounds() for row in wrapped(_bound_line(name, lift), 0, 2)
        ]
        return "\n".join([*columns(rows), "", *legend, "", "bounds (--bound NAME)", *lifts])


def _named_bounds() -> list[tuple[str, Bound]]:
    """Every bound, and for each series the member that its error and summary are shown of."""
    series = [(f"{s}, at R = {s.middle}", s.example) for s in SERIES]
    return [*((b.spec.name, b) for b in bounds()), *series]


def _bound_line(name: str, lift: Bound) -> str:
    spec = lift.spec
    says = f"{name}: {spec.summary}, gives {spec.gives.__name__}, {spec.guarantee.value}"
    if not math.isfinite(spec.error):
        return f"{says} ({spec.paper})"
    source = f"; {spec.paper}" if spec.paper else ""
    return f"{says} ({spec.error:.2g}{source})"


@overload
def methods(model: AnyModel) -> ModelMethods:
    """The verdicts on a model."""


@overload
def methods(model: None = None) -> MethodTable:
    """The whole table."""


@overload
def methods(model: AnyModel | None) -> ModelMethods | MethodTable:
    """Either."""


def methods(model: AnyModel | None = None) -> ModelMethods | MethodTable:
    """The methods that run a model and why the others cannot; without a model, the whole table.

    Needs no data. Raises ModelError for a wrong model.
    """
    if model is None:
        return MethodTable(sites.families(), tuple(backends().values()))
    model = as_model(model, "methods")
    return methods_of(outline_of(model), model.checked.source.name)


def methods_of(outline: Outline, name: str, unsolved: Diagnostic | None = None) -> ModelMethods:
    """The verdicts on a model whose outline is known; `unsolved`: why no engine takes it."""
    blocks = tuple(outline.blocks.values())
    parts = tuple(
        Reason(d.code, _where(d.span.line), d.message)
        if d.span.known
        else Reason(d.code, "the model", d.message)
        for d in outline.refused
    )
    if unsolved is not None:
        parts += (Reason(unsolved.code, "the model", "no engine takes it"),)
    verdicts = []
    for backend in backends().values():
        judged = verdict(blocks, backend, None)
        refused = tuple(Reason(r.code, block.name, r.reason) for block, r in judged.refusals)
        ways = tuple(
            (b.name, _how(b.site, r))
            for b in blocks
            if isinstance(r := route(b.site, backend), Route)
        )
        reasons = (*parts, *refused)
        verdicts.append(
            MethodVerdict(
                backend.spec.name,
                not reasons,
                ways,
                reasons,
                backend.spec.summary,
                _bounds(blocks, backend),
            )
        )
    return ModelMethods(name, tuple(verdicts))


def _bounds(blocks: Sequence[SiteBlock], backend: BackendClass) -> tuple[str, ...]:
    """The bounds that lift a site of the model to what the back end asks."""
    names = [name for b in blocks for name in applicable(b.site, backend.spec.needs)]
    return tuple(dict.fromkeys(names))


def _where(line: int) -> str:
    return f"line {line}"


def _how(site: type[Site], way: Route) -> str:
    if way.bound is None:
        return f"{site.spec.name} answers by itself"
    return f"{site.spec.name} {way}, {way.guarantee.value}"


def _label(site: type[Site]) -> str:
    return f"potential {site.spec.name}" if site.spec.potential else site.spec.name


def _short(cell: Route | Refusal) -> str:
    """A few words for a cell of the table."""
    if isinstance(cell, Refusal):
        kinked = cell.code == "E502" or Property.KINKED in cell.site.spec.properties
        return "no (kink)" if kinked else "no"
    if cell.bound is None:
        return "yes"
    mark = "≥" if cell.guarantee is Guarantee.LOWER else ""
    return f"{mark}{cell.bound.spec.name}"
