"""Rewrites of site blocks by the compiler; `lgm explain` lists them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.family import FindSite
from lgmdsl.canonical.blocks.residuals import Residual, conditional
from lgmdsl.canonical.blocks.sites import RewrittenData, SiteBlock
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.contract.classes import Pieces, Separable, Split
from lgmdsl.contract.site import Site
from lgmdsl.errors import MethodError, listed
from lgmdsl.sites.combined.weighted import weighted


@dataclass(frozen=True)
class Rewrite:
    """One rewrite that the compiler did, as `lgm explain` shows it."""

    block: str
    description: str


def rewrite(block: SiteBlock, find: FindSite) -> tuple[SiteBlock, tuple[Rewrite, ...]]:
    """What families declare: `centred` observations become potentials on eta - y, `Split` ones
    several sites of another family, `Separable` ones a site for each term; `rewrite` describes a
    change of name alone. What they become is given the weights of the rows."""
    if block.residual is not None:
        return _of_residual(block, block.residual)
    block, rewrites = _of_family(block, find)
    if block.weight is None:
        return block, rewrites
    note = f"log t of each row of {block.family.spec.name} times its weight"
    return replace(block, site=weighted(block.site)), (*rewrites, Rewrite(block.name, note))


def _of_residual(block: SiteBlock, residual: Residual) -> tuple[SiteBlock, tuple[Rewrite, ...]]:
    """A normal site for each row, given the rows before it in its group."""
    form, sd = conditional(residual, block.rows, block.y)
    note = (
        f"correlated residuals `{residual.block.name}`: each row given those before it in its group"
    )
    sizes = {**block.sizes, **form.sizes}
    parameters = {**block.parameters, block.family.spec.gaussian_scale: sd}
    given = replace(block, form=form, written=form, parameters=parameters, sizes=sizes)
    return given, (Rewrite(block.name, note),)


def _of_family(block: SiteBlock, find: FindSite) -> tuple[SiteBlock, tuple[Rewrite, ...]]:
    spec = block.site.spec
    centred = find(spec.centred) if spec.centred else None
    if centred is not None and block.y is not None:
        offset = np.zeros(block.shape).reshape(-1)
        offset[block.rows] = -block.y
        shift = co.Constant(block.dims, offset.reshape(block.shape))
        form = af.add((block.form, Affine((), shift, block.form.sizes)))
        note = (
            f"{spec.name} observations to a {centred.spec.name} potential on the predictor minus y"
        )
        return replace(block, site=centred, form=form), (Rewrite(block.name, note),)
    note = spec.rewrite or block.note
    rewrites = (Rewrite(block.name, note),) if note else ()
    if issubclass(block.site, Split):
        into = find(block.site.into)
        if into is not None:
            return _split(block, block.site, into), rewrites
    if issubclass(block.site, Separable):
        return _terms(block, block.site), (Rewrite(block.name, block.site.note),)
    return block, rewrites


def _split(block: SiteBlock, family: type[Split], into: type[Site]) -> SiteBlock:
    """A scalar site of `into` at each predictor that an observation reaches."""
    size = block.predictors
    if block.y is None:
        return _in_pieces(block, into, None, tuple(into.spec.parameters))
    known = _known(block)
    if "available" in known:
        block.check_offered(block.family(**{"y": block.y, **known}), known)
    return _in_pieces(block, into, family.split({"y": block.y, **known}, size))


def _terms(block: SiteBlock, family: type[Separable]) -> SiteBlock:
    """A scalar site for each term of the log density."""
    into = family.terms()
    if block.y is None:
        return _in_pieces(block, into, None, ("term",))
    reached = family.reached(block.y, block.predictors)
    term = np.broadcast_to(np.arange(reached.shape[1], dtype=np.float64), reached.shape)
    y = np.broadcast_to(block.y[:, None], reached.shape)
    return _in_pieces(block, into, Pieces(reached, y, {"term": term}))


def _in_pieces(
    block: SiteBlock, into: type[Site], pieces: Pieces | None, parameters: tuple[str, ...] = ()
) -> SiteBlock:
    """The block of scalar sites; without data, of none, with those parameters."""
    size = block.predictors
    if pieces is None:
        none = np.zeros((len(block.rows), size), dtype=bool)
        values = {name: np.zeros(none.shape) for name in parameters}
        pieces = Pieces(none, np.zeros(none.shape), values)
    places = block.rows[:, None] * size + np.arange(size)
    owner = np.nonzero(pieces.reached)[0]
    return replace(
        block,
        dims=(*block.dims, block.event),
        event="",
        site=into,
        rows=places[pieces.reached],
        y=None if block.y is None else pieces.y[pieces.reached],
        whole=RewrittenData(block.dims, block.rows, block.y, size, owner),
        given={name: value[pieces.reached] for name, value in pieces.parameters.items()},
    )


def _known(block: SiteBlock) -> dict[str, Array]:
    """The parameters of a family that is split, which say how. Raises MethodError E501 for one that
    a hyper is in."""
    for name, node in block.parameters.items():
        if node.depends:
            hypers = listed([f"`{n}`" for n in sorted(node.depends)])
            raise MethodError.of(
                "E501",
                f"`{name}` of `{block.family.spec.family}` depends on {hypers}",
                block.span,
                help=f"give `{name}` as data or as a number",
            )
    return block.parameter_values({})
