"""The whole compiler: text to CanonicalModel, one function for each arrow.

    SourceText -> Ast -> CheckedModel -> ModelGraph
        -> (with Dataset) GroundedModel -> CanonicalModel

Each stage is a frozen value that can be printed; `lgm explain` shows them. The graph says in which
order the parts are lowered, each after all that it depends on; later stages carry it along
(`GroundedModel.graph`), and dependences are looked up in it.
"""

from __future__ import annotations

import copyreg
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from lgmdsl.canonical.blocks.family import FindSite
from lgmdsl.canonical.blocks.latents import LatentBlock, latent_blocks, without_residuals
from lgmdsl.canonical.blocks.rewrites import Rewrite, rewrite
from lgmdsl.canonical.blocks.sites import Observed, SiteBlock, site_blocks
from lgmdsl.canonical.grounding.ground import GroundedModel, ground
from lgmdsl.canonical.lowering import bases, bym2, derived
from lgmdsl.canonical.lowering.derived import Derived
from lgmdsl.canonical.lowering.hypers import hyper_space
from lgmdsl.canonical.lowering.lower import Lowering, as_affine
from lgmdsl.canonical.model import CanonicalModel, Equation, Layout
from lgmdsl.contract.row_source import Remade
from lgmdsl.dataset import Dataset
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.graph.build import model_graph
from lgmdsl.language.check.sites import residual_names
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast
from lgmdsl.sites.catalogue import find_site


def compile_model(model: CheckedModel, data: Dataset, find: FindSite) -> CanonicalModel:
    """A checked model and data to the canonical form. Raises DataError or MethodError."""
    return canonicalise(ground(model_graph(model), data), find)


def canonicalise(
    grounded: GroundedModel, find: FindSite, observed: Sequence[Observed] | None = None
) -> CanonicalModel:
    """GroundedModel -> CanonicalModel: lower lets, priors, sites, constraints, reports; rewrite.

    `find` gives the site class of a name (`poisson.log_rate`), or None. `observed` gives the rows
    of each site block, and the values that a rewrite needs, where the responses themselves are not
    at hand (a stored fit).
    Raises MethodError with every part of the model that this version cannot fit (E501).
    """
    lowering = Lowering(grounded)
    refused: list[Diagnostic] = []
    _lower_lets(lowering, refused)
    hypers = hyper_space(lowering)
    latents: tuple[LatentBlock, ...] = ()
    blocks: tuple[SiteBlock, ...] = ()
    try:
        latents = latent_blocks(lowering)
    except MethodError as error:
        refused += error.diagnostics
    try:
        blocks = site_blocks(lowering, find, latents)
    except MethodError as error:
        refused += error.diagnostics
    if refused:
        raise MethodError(sorted(refused, key=lambda d: d.span.start))
    if observed is not None:
        pairs = zip(blocks, observed, strict=True)
        blocks = tuple(replace(b, rows=o.rows, y=o.y) for b, o in pairs)
    rewritten = [rewrite(b, find) for b in blocks]
    residuals = residual_names(grounded.model.tree)
    latents = without_residuals(latents, residuals)
    return CanonicalModel(
        grounded=grounded,
        latents=latents,
        blocks=tuple(b for b, _ in rewritten),
        equations=_equations(lowering),
        hypers=hypers,
        named=_named(lowering, residuals),
        rewrites=(*mapped(lowering, residuals), *(r for _, rs in rewritten for r in rs)),
        sizes=lowering.sizes,
        layout=_layout(lowering, latents),
        positions={
            symbol.name: basis.positions(lowering.coefficient)
            for symbol in grounded.model.of_kind("latent")
            if (basis := bases.basis_factor(symbol)) is not None
        },
        smooths=lowering.smooths,
    )


def _again(grounded: GroundedModel, observed: tuple[Observed, ...]) -> CanonicalModel:
    return canonicalise(grounded, find_site, observed)


def _reduced(model: CanonicalModel) -> Remade:
    observed = tuple(Observed(b.data.rows, b.data.y) for b in model.blocks)
    return model.rows.remade(model) or (_again, (model.grounded, observed))


# Pickled and copied as what it was made of, and lowered again: expressions are graphs too deep for
# pickle, which recurses.
copyreg.pickle(CanonicalModel, _reduced)


def _lower_lets(lowering: Lowering, refused: list[Diagnostic]) -> None:
    for symbol in lowering.grounded.declared("let"):
        assert isinstance(symbol.statement, ast.Let)
        try:
            lowering.declare(symbol, lowering(symbol.statement.value))
        except MethodError as error:
            refused += error.diagnostics
            lowering.refused.add(symbol.name)


def _equations(lowering: Lowering) -> tuple[Equation, ...]:
    out = []
    for node in lowering.grounded.graph.of_kind("constrain"):
        statement = node.statement
        assert isinstance(statement, ast.Constrain)
        form = lowering.affine(statement.left)
        right = lowering.coefficient(statement.right)
        dims = tuple(dict.fromkeys((*form.dims, *right.dims)))
        out.append(Equation(form, right, dims))
    return tuple(out)


def _named(
    lowering: Lowering, residuals: Collection[str]
) -> dict[str, tuple[tuple[str, ...], Derived]]:
    """Every let and report, and every latent that is a map of blocks, with its declared indices;
    reports may use earlier ones."""
    out: dict[str, tuple[tuple[str, ...], Derived]] = {}
    curved: dict[str, Derived] = {}
    for symbol in lowering.grounded.declared("latent", "let", "report"):
        if symbol.name not in residuals and lowering.axes.maps(symbol):
            out[symbol.name] = (symbol.dims, derived.Leaf(lowering.latent(symbol)))
        if symbol.kind == "latent":
            continue
        assert isinstance(symbol.statement, ast.Let | ast.Report)
        tree = derived.derive(symbol.statement.value, lowering, curved)
        if symbol.kind == "report" and isinstance(tree, derived.Leaf):
            tree = derived.Leaf(as_affine(lowering.declare(symbol, tree.form), lowering.sizes))
        elif symbol.kind == "report":
            curved[symbol.name] = tree
        out[symbol.name] = (symbol.dims, tree)
    return out


def mapped(lowering: Lowering, residuals: Collection[str] = ()) -> tuple[Rewrite, ...]:
    """The latents that became a map of blocks, but for those that are residuals."""
    out = []
    for symbol in lowering.grounded.model.of_kind("latent"):
        if symbol.name in residuals:
            continue
        factor = bym2.mixed_factor(symbol)
        if factor is not None:
            out.append(Rewrite(symbol.name, factor.described(symbol.name)))
        basis = bases.basis_factor(symbol)
        if basis is not None:
            out.append(Rewrite(symbol.name, basis.described(lowering.smooth(basis))))
        ties = lowering.axes.ties(symbol)
        if ties.places:
            out.append(Rewrite(symbol.name, ties.described()))
    return tuple(out)


def _layout(lowering: Lowering, latents: tuple[LatentBlock, ...]) -> Layout:
    starts, dims, offset = {}, {}, 0
    for block in latents:
        starts[block.name], dims[block.name] = offset, block.dims
        offset += block.size
    labels = {name: i.labels for name, i in lowering.grounded.indices.items()}
    for block in latents:
        for factor in block.factors:
            if len(factor.dims) == 1 and factor.labels is not None:
                labels.setdefault(factor.dims[0], factor.labels)
        for dim, size in zip(block.dims, block.sizes, strict=True):
            labels.setdefault(dim, np.arange(1, size + 1))  # coefficients of a basis
    return Layout(labels, starts, dims)
