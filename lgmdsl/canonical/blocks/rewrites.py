"""What the compiler writes sites as, and says so: `lgm explain` shows each rewrite."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.canonical.blocks.family import FindSite
from lgmdsl.canonical.blocks.observed import Whole
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.contract.site import Site
from lgmdsl.numerics.cuts import reached_and_taken


@dataclass(frozen=True)
class Rewrite:
    """One rewrite that the compiler did, as `lgm explain` shows it."""

    block: str
    description: str


CENTRED = {"laplace.mean": "laplace", "student_t.mean": "student_t"}


STICK, LOGISTIC = "categorical.stick", "bernoulli.logit"
# Families whose data become several sites of another one.
SPLIT = {STICK: LOGISTIC}


def rewrite(block: SiteBlock, find: FindSite) -> tuple[SiteBlock, tuple[Rewrite, ...]]:
    """laplace and student_t observations become potentials on eta - y; binomial counts are named
    as powers of a logistic site; normal observations are named as part of the Gaussian."""
    name = block.site.spec.name
    centred = find(CENTRED.get(name, ""))
    if centred is not None and block.y is not None:
        offset = np.zeros(block.shape).reshape(-1)
        offset[block.rows] = -block.y
        moved = co.Constant(block.dims, offset.reshape(block.shape))
        form = af.add((block.form, Affine((), moved, block.form.sizes)))
        note = f"{name} observations to a {centred.spec.name} potential on the predictor minus y"
        return replace(block, site=centred, form=form), (Rewrite(block.name, note),)
    if name == "binomial.logit":
        return block, (Rewrite(block.name, "binomial(logit) to a logistic site with power n"),)
    if name in ("normal.mean", "normal"):
        return block, (Rewrite(block.name, "normal observations into the Gaussian part: exact"),)
    if name == "lognormal.mean":
        note = "lognormal observations into the Gaussian part, as log y: exact"
        return block, (Rewrite(block.name, note),)
    logistic = find(LOGISTIC)
    if name == STICK and logistic is not None:
        return _stick(block, logistic), (
            Rewrite(block.name, "stick breaking to a logistic site for each cut up to the class"),
        )
    return block, ()


def _stick(block: SiteBlock, logistic: type[Site]) -> SiteBlock:
    """P(y = k) = sigma(s_k) prod_{j < k} sigma(-s_j): a site at each cut j <= y, 1 where j = y."""
    cut = next(d for d in block.form.dims if d not in block.dims)
    size = block.sizes[cut]
    places = block.rows[:, None] * size + np.arange(size)
    if block.y is None:
        whole = Whole(block.dims, block.rows, None, size, np.arange(0))
        return replace(
            block, dims=(*block.dims, cut), event="", site=logistic, rows=np.arange(0), whole=whole
        )
    reached, taken = reached_and_taken(block.y, size)
    whole = Whole(block.dims, block.rows, block.y, size, np.nonzero(reached)[0])
    return replace(
        block, dims=(*block.dims, cut), event="", site=logistic, rows=places[reached],
        y=taken[reached].astype(np.float64), whole=whole,
    )  # fmt: skip
