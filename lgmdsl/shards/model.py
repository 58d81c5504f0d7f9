"""Rows that are spread over shards: a model with the latents that all groups share, and one site
block that stands for all rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from lgmdsl.arrays import IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.derived import Derived, leaves
from lgmdsl.canonical.model import CanonicalModel, Layout
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.row_source import Held, Remade, RowSource, Stored, StoredArray
from lgmdsl.contract.site import Site
from lgmdsl.shards.anchors import Point
from lgmdsl.shards.passes import HYPERPARAMETERS, Passes, Shards
from lgmdsl.shards.sample import sampled_rows
from lgmdsl.shards.shard import Roles
from lgmdsl.shards.shared_layout import SharedLayout
from lgmdsl.streams.model import LEAST_PLACES, LEAST_ROWS

GROUP = "shards"  # of a result file
STEP = 4  # of as many shards, one at most is a sample


@dataclass(frozen=True)
class About:
    """What was split: `rows` of the index, `groups`, `shards`; `manifest`: its sha256."""

    index: str
    rows: int
    groups: int
    shards: int
    manifest: str


@dataclass(frozen=True, eq=False)
class Sharded(RowSource):
    """Rows that are spread over shards. `whole`: the model of some of them, with the groups'
    latents; `block`: the number of the site block that they are of, and `layout` how what they say
    about the shared latents is laid out; `passes`: None for a stored fit, and in
    copies by pickling; `hashes`: of the data over the rows, of those of the shards in order."""

    whole: CanonicalModel
    roles: Roles
    about: About
    block: int
    layout: SharedLayout
    passes: Passes | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)

    def remade(self, model: CanonicalModel) -> Remade:
        known = self.whole, self.roles, self.about, self.block, self.layout.codes
        return sharded_model, known

    @property
    def over(self) -> tuple[str, ...]:
        return (self.about.index,)

    @property
    def said(self) -> dict[str, str]:
        about, name, layout = self.about, self.whole.blocks[self.block].name, self.layout
        hashes = {f"sha256_{n}": digest for n, digest in self.hashes.items()}
        text = (
            f"{name}: {about.rows:,} rows of {about.groups:,} members of {self.roles.index} in "
            f"{about.shards} shards; {layout.size:,} shared latents, of which {layout.said}"
        )
        return {"shards": text, "shards_sha256": about.manifest, **hashes}

    def declared(self, model: CanonicalModel) -> CanonicalModel:
        return self.whole

    def held(self, k: int) -> Held | None:
        return Held(self.about.rows, float(self.about.rows)) if k == self.block else None

    def slopes(self, k: int) -> Literal["sites", "sums", "hypers"]:
        return "hypers" if k == self.block else "sites"

    def sampled(self, model: CanonicalModel) -> CanonicalModel | None:
        """The model of the first shards, whose groups are drawn by their labels' hashes; None where
        those that hold enough are more than one in STEP."""
        if self.passes is None:
            return None
        rows = groups = 0
        for count, found in enumerate(self.passes.found[: len(self.passes.found) // STEP], 1):
            rows, groups = rows + found.rows, groups + found.groups
            if rows >= LEAST_ROWS and groups >= LEAST_PLACES:
                about = replace(self.about, rows=rows, groups=groups, shards=count)
                part = replace(self, about=about, passes=self.passes.first(count))
                return replace(model, rows=part)
        return None

    def few_groups(
        self, model: CanonicalModel, theta: Theta, rows: int, groups: int
    ) -> CanonicalModel | None:
        """With the latents of the groups, which the fit does not hold."""
        if self.passes is None or len(model.blocks) != 1:
            return None
        return sampled_rows(self.passes.sources, rows, groups)

    @property
    def unsampled(self) -> str:
        return "rows lie in shards"

    def reached(self, theta: Theta, posterior: GaussianPosterior, value: float) -> None:
        if self.passes is not None:
            q, question = posterior.conditioned, self.passes.question
            point = Point(dict(theta), np.ascontiguousarray(q.latent_mean))
            if question is None:
                self.passes.anchors.reached(point, value)
                return
            covariance = np.ascontiguousarray(self.layout.entries(q.variance[self.block]))
            point = point._replace(covariance=covariance, question=question)
            self.passes.averages[question].reached(point, value)

    def observed(self, model: CanonicalModel, k: int, theta: Theta) -> Predictor:
        return self.predictor if k == self.block else model.own_predictor(k, theta)

    @cached_property
    def predictor(self) -> Predictor:
        """The predictors of the sites that all shards make together."""
        return self.layout.predictor()

    def bound(self, model: CanonicalModel, k: int, theta: Theta) -> Site:
        if k != self.block:
            return model.own_sites(k, theta)
        assert self.passes is not None, "a stored fit has no rows to bind"
        spec = Shards.spec_of(model.blocks[k].site, "shards", (HYPERPARAMETERS,))
        return Shards(spec, self.passes, theta, self.about.rows, self.layout)

    def stored(self) -> Stored:
        roles, about = json.dumps(asdict(self.roles)), json.dumps(asdict(self.about))
        attributes, codes = {"roles": roles, "about": about, "block": self.block}, self.layout.codes
        return Stored(GROUP, 5, attributes, {} if codes is None else {"pairs": (codes, {})})

    def done(self) -> None:
        if self.passes is not None:
            self.passes.done()


def shards_of(model: CanonicalModel) -> Sharded | None:
    """The shards that the rows of a model are spread over; None of other models."""
    return model.rows if isinstance(model.rows, Sharded) else None


def sharded_model(
    whole: CanonicalModel,
    roles: Roles,
    about: About,
    block: int,
    codes: IntArray | None,
    passes: Passes | None = None,
    hashes: Mapping[str, str] = MappingProxyType({}),
) -> CanonicalModel:
    """The model of the shared latents; `codes`: the pairs of them that are sites, None where one
    site is of all (`SharedLayout`). Lets over the rows or the groups, and those of the groups'
    latents, are left out: nobody holds them."""
    latents = tuple(b for b in whole.latents if b.name in roles.shared)
    named = {
        name: (dims, tree)
        for name, (dims, tree) in whole.named.items()
        if not of_groups(dims, tree, roles, about.index)
    }
    ends = np.cumsum([b.size for b in latents]).tolist()
    starts = {b.name: end - b.size for b, end in zip(latents, ends, strict=True)}
    layout = Layout(whole.layout.labels, starts, {b.name: b.dims for b in latents})
    shared = SharedLayout(tuple((b.name, b.size) for b in latents), codes)
    rows = Sharded(whole, roles, about, block, shared, passes, dict(hashes))
    return replace(whole, latents=latents, named=named, layout=layout, rows=rows)


def of_groups(dims: tuple[str, ...], tree: Derived, roles: Roles, index: str) -> bool:
    """Whether a let or report is over the rows or the groups, or is of the groups' latents."""
    forms = [leaf.form for leaf in leaves(tree)]
    touched = {name for form in forms for name in form.latents}
    over = {d for form in forms for d in form.dims} | set(dims)
    return bool(touched & set(roles.inner) or over & {roles.index, index})


def restored(
    canonical: CanonicalModel, attributes: Mapping[str, Any], arrays: Mapping[str, StoredArray]
) -> CanonicalModel:
    """The model of a result file, of the shared latents."""
    known = json.loads(str(attributes["roles"]))
    roles = Roles(**{**known, **{name: tuple(known[name]) for name in ("inner", "shared")}})
    about = About(**json.loads(str(attributes["about"])))
    codes = arrays["pairs"][0].astype(np.int64) if "pairs" in arrays else None
    return sharded_model(canonical, roles, about, int(attributes["block"]), codes)
