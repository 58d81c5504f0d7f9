"""What was observed, for the pictures of a fit: responses, and which members of an index have any
data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.predict.predict import Prediction, predicted
from lgmdsl.api.predict.response import has_quantiles, response_quantile
from lgmdsl.api.response_data import with_responses
from lgmdsl.arrays import Array, BoolArray
from lgmdsl.canonical.blocks.censoring import censored_between
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.affine import same
from lgmdsl.canonical.lowering.derived import Derived, Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.site import Property
from lgmdsl.dataset import Keys, read
from lgmdsl.errors import LgmError
from lgmdsl.plot.effects import LEVELS

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

# A quantity is the mean of the response where it is so everywhere, to this share of its sd.
SAME = 0.05
# Rows of a response that is drawn: its quantiles are computed row by row.
ROWS = 20_000


@dataclass(frozen=True)
class Observations:
    """The responses of a fit, and what it predicts of them. `data` and `mapping`: those of the fit,
    which result files do not hold."""

    fit: FitRecord
    data: object = None
    mapping: Keys | None = None

    @cached_property
    def whole(self) -> tuple[FitRecord, CanonicalModel | None]:
        """The fit at its rows, and the model with its responses; None where these are not at
        hand, and where they would have to be read again."""
        if self.data is None and not self.fit.canonical.rows.kept:
            return self.fit, None
        try:
            return with_responses(self.fit, self.data, self.mapping, "plot", "fit.plot(data=...)")
        except LgmError:
            if self.data is not None:
                raise
            return self.fit, None

    @property
    def canonical(self) -> CanonicalModel | None:
        """The model with its responses, if these are at hand."""
        return self.whole[1]

    @cached_property
    def prediction(self) -> Prediction:
        """Predictions at the rows of the fit."""
        return predicted(self.whole[0], read({}))

    def blocks(self) -> tuple[SiteBlock, ...]:
        """The observed data that are one number a row, with an order."""
        canonical = self.fit.canonical if self.canonical is None else self.canonical
        if not canonical.rows.kept:
            return ()
        return tuple(
            b
            for b in canonical.blocks
            if not b.family.spec.potential and not b.each and not b.event and has_quantiles(b)
        )

    def block(self, name: str) -> SiteBlock | None:
        """The observed datum of that name, if it can be drawn."""
        return next((b for b in self.blocks() if b.name == name), None)

    def values(self, block: SiteBlock) -> Array:
        """(rows,) what was observed; NaN where nothing was, or no more than the ends of an interval
        (`ends`), or where it is not at hand."""
        out = np.full(int(np.prod(block.data_shape)), np.nan)
        rows, y = (self.canonical or self.fit.canonical).given(block)
        if np.ndim(y) == 1:
            out[rows] = y
            out[~np.isnan(censored_between(block)[0])] = np.nan
        return out

    def ends(self, block: SiteBlock) -> Array:
        """(2, rows) the ends between which censored responses lie, infinite where open; NaN in
        other rows."""
        return censored_between(block)

    @property
    def censored(self) -> int:
        """How many responses are censored."""
        canonical = self.canonical or self.fit.canonical
        blocks = [b for b in canonical.blocks if not b.family.spec.potential]
        return sum(int((~np.isnan(censored_between(b)[0])).sum()) for b in blocks)

    def quantiles(self, block: SiteBlock) -> Array:
        """(5, rows) of another response at the same rows, at LEVELS."""
        own = self.prediction.observed(block.name)
        return response_quantile(self.prediction, own, np.array(LEVELS)).reshape(len(LEVELS), -1)

    def mean(self, block: SiteBlock) -> Array:
        """(rows,) of another response at the same rows."""
        parts = self.prediction.parts(self.prediction.observed(block.name), of_sds=False)
        return parts["mean"].reshape(-1)

    def over(self, name: str, dims: tuple[str, ...]) -> tuple[Array, Array] | None:
        """(rows,) what was observed of the response whose mean a quantity is, and the `ends` of
        those that are censored; None where it is the mean of none."""
        for block in self.blocks():
            size = int(np.prod(block.data_shape))
            if block.data.dims != dims or block.data.y is None or size > ROWS:
                continue
            quantity = self.fit.quantity(name)
            mean = self.prediction.parts(self.prediction.observed(block.name), of_sds=False).get(
                "mean"
            )
            if mean is None:
                continue
            far = np.abs(mean - quantity.mean)
            if bool((far <= SAME * quantity.sd + 1e-9 * np.abs(mean)).all()):
                return self.values(block), self.ends(block)
        return None

    def around(self, name: str, dims: tuple[str, ...]) -> Array | None:
        """(rows,) the partial residuals of a smooth over the rows: its mean with what is left of a
        Gaussian response in whose mean it stands as it is; NaN where nothing was observed. None of
        anything else."""
        canonical = self.fit.canonical
        if name not in canonical.smooths or canonical.named[name][0] != dims:
            return None
        for block in self.blocks():
            size = int(np.prod(block.data_shape))
            gaussian = Property.GAUSSIAN in block.site.spec.properties
            if not gaussian or block.data.dims != dims or block.data.y is None or size > ROWS:
                continue
            if _stands_in(canonical.named[name][1], block):
                left = self.values(block) - self.mean(block)
                return np.asarray(self.fit.quantity(name).mean + left)
        return None


def _stands_in(tree: Derived, block: SiteBlock) -> bool:
    """Whether the predictor of a block has this value among its summands, and nothing else of its
    latents."""
    if not isinstance(tree, Leaf):
        return False
    theirs = [t for t in block.written.terms if t.latent in tree.form.latents]
    pairs = zip(tree.form.terms, theirs, strict=False)
    return len(theirs) == len(tree.form.terms) and all(same(*pair) for pair in pairs)


def with_data(canonical: CanonicalModel, dim: str) -> BoolArray | None:
    """(n,) which members of an index an observed row belongs to, or maps to; None where that does
    not say which of them have data (matrices over the index)."""
    grounded = canonical.grounded
    for symbol in grounded.model.of_kind("data"):
        if dim in symbol.dims and len(symbol.dims) > 1 and symbol.target is None:
            observed = any(symbol.name == b.name for b in canonical.blocks)
            if not observed:
                return None
    return _reached(canonical, dim, frozenset())


def _reached(canonical: CanonicalModel, dim: str, above: frozenset[str]) -> BoolArray | None:
    grounded = canonical.grounded
    seen, linked = np.zeros(canonical.sizes[dim], dtype=bool), False
    maps = [s for s in grounded.model.of_kind("data") if s.target == dim]
    for block in canonical.blocks:
        if block.family.spec.potential:
            continue
        dims = block.data.dims
        rows = dict(zip(dims, np.unravel_index(block.data.rows, block.data_shape), strict=False))
        if dim in rows:
            seen[rows[dim]], linked = True, True
        for symbol in maps:
            values = grounded.values.get(symbol.name)
            if isinstance(values, np.ndarray) and symbol.dims and {*symbol.dims} <= rows.keys():
                members = values[tuple(rows[d] for d in symbol.dims)].astype(np.int64)
                seen[members[members >= 0]], linked = True, True
    for symbol in maps:
        values = grounded.values.get(symbol.name)
        if len(symbol.dims) == 1 and symbol.dims[0] not in {dim, *above}:
            below = _reached(canonical, symbol.dims[0], above | {dim})
            if below is not None and isinstance(values, np.ndarray):
                members = values[below].astype(np.int64)
                seen[members[members >= 0]], linked = True, True
    return seen if linked else None
