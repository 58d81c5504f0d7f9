"""Rewrites of site blocks by the compiler; `lgm explain` lists them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.family import FindSite
from lgmdsl.canonical.blocks.observed import RewrittenData
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.contract.classes import Split
from lgmdsl.contract.site import Site
from lgmdsl.errors import Diagnostic, MethodError, listed
from lgmdsl.sites.combined.weighted import weighted


@dataclass(frozen=True)
class Rewrite:
    """One rewrite that the compiler did, as `lgm explain` shows it."""

    block: str
    description: str


def rewrite(block: SiteBlock, find: FindSite) -> tuple[SiteBlock, tuple[Rewrite, ...]]:
    """What families declare: `centred` observations become potentials on eta - y, `Split` ones
    several sites of another family; `rewrite` describes a change of name alone. What they become is
    given the weights of the rows."""
    block, rewrites = _of_family(block, find)
    if block.weight is None:
        return block, rewrites
    note = f"log t of each row of {block.family.spec.name} times its weight"
    return replace(block, site=weighted(block.site)), (*rewrites, Rewrite(block.name, note))


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
    rewrites = (Rewrite(block.name, spec.rewrite),) if spec.rewrite else ()
    if issubclass(block.site, Split):
        into = find(block.site.into)
        if into is not None:
            return _split(block, block.site, into), rewrites
    return block, rewrites


def _split(block: SiteBlock, family: type[Split], into: type[Site]) -> SiteBlock:
    """A scalar site of `into` at each predictor that an observation reaches."""
    cut = next(d for d in block.form.dims if d not in block.dims)
    size = block.sizes[cut]
    places = block.rows[:, None] * size + np.arange(size)
    if block.y is None:
        whole = RewrittenData(block.dims, block.rows, None, size, np.arange(0))
        return replace(
            block,
            dims=(*block.dims, cut),
            event="",
            site=into,
            rows=np.arange(0),
            whole=whole,
            given={name: np.zeros(0) for name in into.spec.parameters},
        )
    reached, values, parameters = family.split({"y": block.y, **_known(block)}, size)
    whole = RewrittenData(block.dims, block.rows, block.y, size, np.nonzero(reached)[0])
    return replace(
        block,
        dims=(*block.dims, cut),
        event="",
        site=into,
        rows=places[reached],
        y=values[reached],
        whole=whole,
        given={name: value[reached] for name, value in parameters.items()},
    )


def _known(block: SiteBlock) -> dict[str, Array]:
    """The parameters of a family that is split, which say how. Raises MethodError E501 for one that
    a hyper is in."""
    for name, node in block.parameters.items():
        if node.depends:
            hypers = listed([f"`{n}`" for n in sorted(node.depends)])
            raise MethodError(
                Diagnostic(
                    "E501",
                    f"`{name}` of `{block.family.spec.family}` depends on {hypers}",
                    block.span,
                    help=f"give `{name}` as data or as a number",
                )
            )
    return block.parameter_values({})
