"""The results of `explain` as plain values, from which the page and the JSON are made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lgmdsl.api.explain.methods import ModelMethods
from lgmdsl.api.explain.page import page
from lgmdsl.errors import Diagnostic
from lgmdsl.html import Paged


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
