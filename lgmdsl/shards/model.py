"""A model whose rows are spread over shards: canonical, with the latents that all groups share, and
one site that stands for all rows."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from lgmdsl.arrays import IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.derived import Derived, leaves
from lgmdsl.canonical.model import CanonicalModel, Layout
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.site import Site
from lgmdsl.shards.anchors import Point
from lgmdsl.shards.passes import Passes, Shards, spec_of
from lgmdsl.shards.shard import Roles
from lgmdsl.shards.shared_layout import SharedLayout
from lgmdsl.streams.model import LEAST_PLACES, LEAST_ROWS

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
class ShardedModel(CanonicalModel):
    """`whole`: the model of some of the rows, with the groups' latents; `block`: the number of the
    site block whose rows are spread, and `shared_layout` how it is laid out; `passes`: None for a
    stored fit; `hashes`: of the data over the rows, made of those of the shards in order."""

    whole: CanonicalModel
    roles: Roles
    about: About
    block: int
    shared_layout: SharedLayout
    passes: Passes | None
    hashes: Mapping[str, str]

    @property
    def streamed(self) -> tuple[str, ...]:
        return (self.about.index,)

    @property
    def said_of_rows(self) -> dict[str, str]:
        about, name, layout = self.about, self.blocks[self.block].name, self.shared_layout
        hashes = {f"sha256_{n}": digest for n, digest in self.hashes.items()}
        text = (
            f"{name}: {about.rows:,} rows of {about.groups:,} members of {self.roles.index} in "
            f"{about.shards} shards; {layout.size:,} shared latents, of which {layout.said}"
        )
        return {"shards": text, "shards_sha256": about.manifest, **hashes}

    @property
    def declared(self) -> CanonicalModel:
        return self.whole

    def sampled(self) -> ShardedModel | None:
        """The model of the first shards, whose groups are drawn by their labels' hashes; None where
        those that hold enough are more than one in STEP."""
        if self.passes is None:
            return None
        rows = groups = 0
        for count, found in enumerate(self.passes.found[: len(self.passes.found) // STEP], 1):
            rows, groups = rows + found.rows, groups + found.groups
            if rows >= LEAST_ROWS and groups >= LEAST_PLACES:
                about = replace(self.about, rows=rows, groups=groups, shards=count)
                part, codes = self.passes.first(count), self.shared_layout.codes
                return sharded_model(
                    self.whole, self.roles, about, self.block, codes, part, self.hashes
                )
        return None

    def reached(self, theta: Theta, posterior: GaussianPosterior, value: float) -> None:
        if self.passes is not None:
            q = posterior.conditioned
            beta = np.ascontiguousarray(q.latent_mean)
            question = self.passes.question
            if question is None:
                self.passes.anchors.reached(Point(dict(theta), beta), value)
                return
            covariance = np.ascontiguousarray(self.shared_layout.entries(q.variance[self.block]))
            point = Point(dict(theta), beta, covariance, question)
            self.passes.averages[question].reached(point, value)

    @property
    def observations(self) -> int:
        kept = (
            len(b.data.rows)
            for k, b in enumerate(self.blocks)
            if k != self.block and not b.family.spec.potential
        )
        return self.about.rows + sum(kept)

    @property
    def total_weight(self) -> float:
        kept = (b.row_weights.sum() for k, b in enumerate(self.blocks) if k != self.block)
        return float(self.about.rows) + sum(map(float, kept))

    def observed(self, k: int, theta: Theta) -> Predictor:
        if k != self.block:
            return super().observed(k, theta)
        return self.shared_predictor

    @cached_property
    def shared_predictor(self) -> Predictor:
        """The predictors of these sites."""
        return self.shared_layout.predictor()

    def bound(self, k: int, theta: Theta) -> Site:
        if k != self.block:
            return super().bound(k, theta)
        assert self.passes is not None, "a stored fit has no rows to bind"
        spec = spec_of(self.blocks[k].site)
        return Shards(spec, self.passes, theta, self.about.rows, self.shared_layout)


def sharded_model(
    whole: CanonicalModel,
    roles: Roles,
    about: About,
    block: int,
    codes: IntArray | None,
    passes: Passes | None = None,
    hashes: Mapping[str, str] = MappingProxyType({}),
) -> ShardedModel:
    """The model of the shared latents; `codes`: the pairs of them that are sites, None where one
    site is of all (`SharedLayout`). Lets over the rows or the groups, and those of the groups'
    latents, are left out: nobody holds them."""
    own: dict[str, Any] = {f.name: getattr(whole, f.name) for f in fields(CanonicalModel)}
    latents = tuple(b for b in whole.latents if b.name in roles.shared)
    own["latents"] = latents
    own["blocks"] = tuple(
        replace(b, slopes="hypers") if k == block else b for k, b in enumerate(whole.blocks)
    )
    own["named"] = {
        name: (dims, tree)
        for name, (dims, tree) in whole.named.items()
        if not of_groups(dims, tree, roles, about.index)
    }
    starts, start = {}, 0
    for latent in latents:
        starts[latent.name] = start
        start += latent.size
    dims = {b.name: b.dims for b in latents}
    own["layout"] = Layout(whole.layout.labels, starts, dims)
    return ShardedModel(
        **own,
        whole=whole,
        roles=roles,
        about=about,
        block=block,
        shared_layout=SharedLayout(tuple((b.name, b.size) for b in latents), codes),
        passes=passes,
        hashes=dict(hashes),
    )


def of_groups(dims: tuple[str, ...], tree: Derived, roles: Roles, index: str) -> bool:
    """Whether a let or report is over the rows or the groups, or is of the groups' latents."""
    forms = [leaf.form for leaf in leaves(tree)]
    touched = {name for form in forms for name in form.latents}
    over = {d for form in forms for d in form.dims} | set(dims)
    return bool(touched & set(roles.inner) or over & {roles.index, index})


def _reduced(model: ShardedModel) -> tuple[Callable[..., ShardedModel], tuple[Any, ...]]:
    codes = model.shared_layout.codes
    return sharded_model, (model.whole, model.roles, model.about, model.block, codes)


# Pickled without its shards.
copyreg.pickle(ShardedModel, _reduced)
