"""The results of `explain` as plain values, from which the page and the JSON are made."""

from __future__ import annotations

import os.path
from dataclasses import asdict, dataclass
from typing import Any

from lgmdsl.api.explain.methods import ModelMethods
from lgmdsl.api.page import columns, counted, wrapped
from lgmdsl.errors import Diagnostic
from lgmdsl.html import Paged
from lgmdsl.memory import size_text


@dataclass(frozen=True)
class PartOfSite:
    """The operator that takes one latent to the predictors of one site."""

    latent: str
    rows: int
    columns: int
    stored: int
    sparse: bool


@dataclass(frozen=True)
class SiteView:
    """One site: its family, number, predictor and operators (the last with data only)."""

    name: str
    family: str
    seen_as: str
    count: int | None
    missing: int
    arguments: str
    predictor: tuple[str, ...]
    operators: tuple[PartOfSite, ...]


@dataclass(frozen=True)
class LatentView:
    """One latent: its structure as written, its size, and whether its prior is proper."""

    name: str
    structure: str
    size: int | None
    proper: bool


@dataclass(frozen=True)
class HyperView:
    """One hyperparameter; `value` is empty where it has only a prior and was not pinned."""

    name: str
    type: str
    declared: str
    value: str


@dataclass(frozen=True)
class EngineView:
    """One engine: what one conditioning costs, or why it cannot; whether variances and evidence
    are `exact` to rounding, or estimates."""

    name: str
    refusal: str
    flops: float
    chosen: bool
    exact: bool


@dataclass(frozen=True)
class PartView:
    """Latents that no row joins to the others: how many entries, in how many predictor rows, and
    the engine that the part alone would take, with its flops (empty and 0 without rows)."""

    latents: tuple[str, ...]
    size: int
    rows: int
    engine: str
    flops: float


@dataclass(frozen=True)
class PlateView:
    """Latents that are independent over the members of an index, given the shared ones."""

    index: str
    latents: tuple[str, ...]
    shared: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Explanation(Paged):
    """Everything `lgm explain` prints; `str` is the page. `engine_reason`: why the chosen one of
    `engines` is, with the flops that decided; empty where none is."""

    model: str
    data: str
    sizes: tuple[tuple[str, int | None, str], ...]
    hypers: tuple[HyperView, ...]
    latents: tuple[LatentView, ...]
    groups: tuple[tuple[str, ...], ...]
    plates: tuple[PlateView, ...]
    parts: tuple[PartView, ...]
    sites: tuple[SiteView, ...]
    constraints: tuple[str, ...]
    rewrites: tuple[tuple[str, str], ...]
    batches: tuple[str, ...]
    refused: tuple[Diagnostic, ...]
    engines: tuple[EngineView, ...]
    engine_reason: str
    engine_note: str
    memory_budget: int
    warnings: tuple[Diagnostic, ...]
    methods: ModelMethods

    def __repr__(self) -> str:
        return f"Explanation({self.model!r}, {self.data!r}: print it for the page)"

    def __str__(self) -> str:
        return page(self)

    def as_json(self) -> dict[str, Any]:
        """Plain values for `lgm explain --json`."""
        return {
            "model": self.model,
            "data": self.data,
            "indices": [{"name": n, "size": s, "origin": o} for n, s, o in self.sizes],
            "hypers": [asdict(h) for h in self.hypers],
            "latents": [asdict(v) for v in self.latents],
            "independent_groups": [list(g) for g in self.groups],
            "parts": [asdict(p) for p in self.parts],
            "plates": [asdict(p) for p in self.plates],
            "sites": [asdict(s) for s in self.sites],
            "constraints": list(self.constraints),
            "rewrites": [{"site": b, "rewrite": d} for b, d in self.rewrites],
            "rows": list(self.batches),
            "not_available": [d.as_json() for d in self.refused],
            "engines": [asdict(e) for e in self.engines],
            "engine_reason": self.engine_reason,
            "engine_note": self.engine_note,
            "memory_budget": self.memory_budget,
            "methods": self.methods.as_json()["methods"],
        }


# ---- page --------------------------------------------------------------------------------------
# The page that `lgm explain` prints.


def page(explanation: Explanation) -> str:
    """The explanation as text in 80 columns."""
    name = os.path.basename(explanation.model)
    title = f"{name} with {explanation.data}" if explanation.data else f"{name} (no data given)"
    parts = [title, ""]
    parts += _section("indices", _sizes(explanation))
    parts += _section("hyperparameters", _hypers(explanation))
    parts += _section("priors", _priors(explanation))
    parts += _section("sites", [row for site in explanation.sites for row in _site(site)])
    parts += _section(
        "constraints", [row for c in explanation.constraints for row in wrapped(c, 2, 4)]
    )
    rewrites = [
        row for block, text in explanation.rewrites for row in wrapped(f"{block}: {text}", 2, 4)
    ]
    parts += _section("rewrites", rewrites or ["  none"])
    parts += _section("rows", [row for text in explanation.batches for row in wrapped(text, 2, 4)])
    parts += _section("not available in this version", _refused(explanation))
    parts += _section("engine", _engine(explanation))
    parts += _section("methods", ["  " + line for line in str(explanation.methods).split("\n")])
    return "\n".join(parts).rstrip("\n")


def _section(title: str, rows: list[str]) -> list[str]:
    return [title, *rows, ""] if rows else []


def _sizes(explanation: Explanation) -> list[str]:
    rows = [(n, "" if s is None else f"{s:,}", origin) for n, s, origin in explanation.sizes]
    return columns(rows, 2, right=(1,))


def _hypers(explanation: Explanation) -> list[str]:
    rows, unset = [], []
    for h in explanation.hypers:
        if not h.value:
            unset.append(h.name.partition("[")[0])
        state = f"= {h.value}" if h.value not in ("", "computed") else ""
        rows.append((h.name, h.type, h.declared, state))
    lines = columns(rows, 2)
    if unset:
        pins = " ".join(f"--set {name}=VALUE" for name in unset)
        lines += wrapped(
            f"without a value: {', '.join(unset)}. A fit learns them; to pin: {pins}", 2, 4
        )
    return lines


def _priors(explanation: Explanation) -> list[str]:
    rows = []
    for v in explanation.latents:
        size = "" if v.size is None else f"{v.size:,}"
        rows.append((v.name, size, v.structure, "" if v.proper else "improper"))
    lines = [row for line in columns(rows, 2, right=(1,)) for row in wrapped(line.strip(), 2, 10)]
    known = [v.size for v in explanation.latents if v.size is not None]
    if len(known) == len(explanation.latents):
        blocks = counted(len(known), "block")
        lines.append(f"  {counted(sum(known), 'latent')} in {blocks}")
    if len(explanation.groups) > 1:
        groups = "; ".join(", ".join(g) for g in explanation.groups)
        lines += wrapped(f"independent of one another: {groups}", 2, 4)
    for p in explanation.plates:
        condition = f", given {', '.join(p.shared)}" if p.shared else ""
        lines += wrapped(f"independent over {p.index}{condition}: {', '.join(p.latents)}", 2, 4)
    return lines


def _site(site: SiteView) -> list[str]:
    arguments = f"({site.arguments})" if site.arguments else ""
    head = f"{site.name} ~ {site.family}{arguments}"
    if site.seen_as != site.family:
        head += f", seen as {site.seen_as}"
    if site.count is not None:
        head += f": {counted(site.count, 'site')}"
        if site.missing:
            head += f", {counted(site.missing, 'entry', 'entries')} missing"
    lines = wrapped(head, 2, 6)
    for k, term in enumerate(site.predictor):
        minus = term.startswith("- ")
        sign = ("s = -" if minus else "s =") if k == 0 else "  -" if minus else "  +"
        lines += wrapped(f"{sign} {term.removeprefix('- ')}", 4, 10)
    rows = []
    for op in site.operators:
        if op.sparse:
            share = op.stored / max(op.rows * op.columns, 1)
            kind = f"sparse, {op.stored:,} non-zeros ({share:.2g})"
        else:
            kind = "dense"
        rows.append((op.latent, f"{op.rows:,} x {op.columns:,}", kind))
    return lines + columns(rows, 6, right=(1,))


def _refused(explanation: Explanation) -> list[str]:
    lines = []
    for d in explanation.refused:
        where = f"line {d.span.line}: " if d.span.known else ""
        lines += wrapped(f"{where}{d.message} ({d.code})", 2, 4)
    return lines


def _engine(explanation: Explanation) -> list[str]:
    lines = wrapped(explanation.engine_reason, 2, 4) if explanation.engine_reason else []
    for e in explanation.engines:
        if e.refusal:
            text = f"{e.name}: cannot, {e.refusal}"
        else:
            text = f"{e.name}: {e.flops:.2g} flops for one conditioning"
            text += "" if e.exact else ", variances and evidence by estimates"
            text += "; chosen" if e.chosen else ""
        lines += wrapped(text, 2, 4)
    if explanation.parts:
        parts = [
            f"{', '.join(p.latents)} {p.flops:.2g} ({p.engine})"
            if p.engine
            else f"{', '.join(p.latents)} nothing"
            for p in explanation.parts
        ]
        whole = sum(p.flops for p in explanation.parts)
        text = f"parts that do not interact would take {whole:.2g} flops as separate models"
        lines += wrapped(f"{text}: {'; '.join(parts)}; their evidences add", 2, 4)
    if explanation.engines:
        size = size_text(explanation.memory_budget)
        lines.append(f"  memory budget {size}; another that can: --option engine=NAME")
    if explanation.engine_note:
        lines += wrapped(explanation.engine_note, 2, 4)
    return lines
