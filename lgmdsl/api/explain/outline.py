"""A partly compiled model: the parts that can be lowered, and what is refused.

`compile.py` stops at the first stage that refuses something; explain, methods and check report
on every part, so here each part is lowered separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lgmdsl.api.simulate.synthetic_covariates import sketch
from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.latents import LatentBlock, latent_blocks
from lgmdsl.canonical.blocks.rewrites import Rewrite, rewrite
from lgmdsl.canonical.blocks.sites import SiteBlock, site_block
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.grounding.ground import GroundedModel, ground
from lgmdsl.canonical.lowering.hypers import HyperBlock, HyperSpace, hyper_space
from lgmdsl.canonical.lowering.lower import Lowered, Lowering, as_affine
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import canonicalise, mapped
from lgmdsl.dataset import Dataset, Keys, read
from lgmdsl.errors import Diagnostic, LgmError, MethodError
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.model_graph import SITES
from lgmdsl.language.builder import Model
from lgmdsl.language.check.sites import residual_names
from lgmdsl.language.tree import ast
from lgmdsl.sites import catalogue as sites
from lgmdsl.vocabulary import plugins


@dataclass(frozen=True, eq=False)
class Outline:
    """`canonical` is None where something is refused. `lets` holds the affine forms of the lets
    that could be lowered, by name; `blocks` the sites that could, by their node;
    `lost` the lets that could not, and those that use them.
    Without data (`has_data` False) sizes and values are placeholders: only names and forms hold.
    """

    grounded: GroundedModel
    has_data: bool
    canonical: CanonicalModel | None
    blocks: Mapping[str, SiteBlock]
    lets: Mapping[str, Affine]
    lost: frozenset[str]
    hypers: tuple[HyperBlock, ...]
    rewrites: tuple[Rewrite, ...]
    refused: tuple[Diagnostic, ...]
    dataset: Dataset | None = None


def outline_of(model: Model, data: object = None, mapping: Keys | None = None) -> Outline:
    """Lower every part of a model. Raises ModelError, and DataError where data are given."""
    plugins.load()
    graph = model_graph(model.checked)
    dataset = None if data is None else read(data, mapping)
    grounded = sketch(graph) if dataset is None else ground(graph, dataset)
    lowering = Lowering(grounded)
    refused: list[Diagnostic] = []
    lets, lost = _lets(lowering, refused)
    latents: tuple[LatentBlock, ...] = ()
    try:
        latents = latent_blocks(lowering)
    except MethodError as error:
        refused += error.diagnostics
    blocks: dict[str, SiteBlock] = {}
    rewrites = [*mapped(lowering, residual_names(graph.model.tree))]
    for node in graph.of_kind(*SITES):
        try:
            block = site_block(node, lowering, sites.find_site, latents)
            blocks[node.id], done = rewrite(block, sites.find_site)
            rewrites += done
        except MethodError as error:
            refused += error.diagnostics
    hypers = hyper_space(lowering).blocks
    canonical = None if refused else canonicalise(grounded, sites.find_site)
    diagnostics = tuple(dict.fromkeys(refused))
    return Outline(
        grounded,
        data is not None,
        canonical,
        blocks,
        lets,
        lost,
        hypers,
        tuple(rewrites),
        diagnostics,
        dataset,
    )


def _lets(
    lowering: Lowering, refused: list[Diagnostic]
) -> tuple[dict[str, Affine], frozenset[str]]:
    """Lower every let; those that could be, and the names of the others."""
    forms: dict[str, Affine] = {}
    lost: set[str] = set()
    graph = lowering.grounded.graph
    for symbol in lowering.grounded.declared("let"):
        assert isinstance(symbol.statement, ast.Let)
        value = symbol.statement.value
        try:
            lowered = lowering(value)
            if lost.isdisjoint(let.id for let in graph.lets_of(symbol.name)):
                forms[symbol.name] = as_affine(lowered, lowering.sizes)
            else:
                lost.add(symbol.name)
        except MethodError as error:
            refused += error.diagnostics
            lowered = _blank(lowering, symbol.degree == "affine")
            lost.add(symbol.name)
        lowering.lets[symbol.name] = lowered
    return forms, frozenset(lost)


def _blank(lowering: Lowering, affine: bool) -> Lowered:
    """A placeholder for a let that could not be lowered, so that later parts are examined too."""
    zero = co.number(0.0)
    return Affine((), zero, lowering.sizes) if affine else zero


def neutral(block: HyperBlock) -> Array | float:
    """A value inside a hyper's type; it decides no size and no sparsity."""
    sizes = block.sizes
    if block.type == "covariance":
        return np.eye(sizes[0])
    if block.type == "simplex":
        return np.full(sizes, 1.0 / sizes[-1])
    if block.type == "ordered":
        return np.broadcast_to(np.arange(sizes[-1], dtype=np.float64), sizes).copy()
    return {"unit": 0.5, "correlation": 0.5}.get(block.type, 1.0)


def check_priors(outline: Outline) -> None:
    """Raise LgmError for arguments that hyperpriors refuse, where no other hyper is in them, and
    for what the structures refuse of their axes and data: every block's, with placeholders
    for hyperparameters without a value (then what is out of range may be theirs)."""
    if outline.canonical is None or not outline.has_data:
        return
    space = outline.canonical.hypers
    free = {b.name: neutral(b) for b in space.blocks if b.value is None}
    wrong, refused = _wrong_priors(space), list[Diagnostic]()
    try:
        theta = space.theta(free)
        for block in outline.canonical.latents:
            try:
                block.at(theta)
            except LgmError as error:
                refused += error.diagnostics
    except LgmError as error:
        refused += error.diagnostics
    refused = [d for d in dict.fromkeys(refused) if not (free and d.code.startswith("E3"))]
    if wrong or refused:
        raise LgmError(tuple(dict.fromkeys((*wrong, *refused))))


def _wrong_priors(space: HyperSpace) -> list[Diagnostic]:
    wrong: list[Diagnostic] = []
    for block in space.blocks:
        if block.prior is not None and not block.prior.depends:
            try:
                block.prior.at({})
            except LgmError as error:
                wrong += error.diagnostics
    return wrong
