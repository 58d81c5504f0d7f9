"""The posterior as a mixture over hyperparameter points: the same questions as `Marginals`.

    q(z, theta) = sum_k weight_k q_k(z) delta(theta - theta_k)

Means, sds, quantiles and draws of latents are those of the mixture; hyperparameters, and
functions of them alone, have the smooth marginals from `learning`, in draws too: those of a draw
come from the part of their posterior that its point represents
(`learning.integration.hyper_posterior`), while lets and reports with latents are evaluated at the
point itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.affine import same
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.expressions.named import expand
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.learning.coordinates.hyper_marginals import Ends, HyperMarginals, OneHyper, entry_ends
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.marginals import (
    REPORT_DRAWS,
    Marginals,
    NormalMarginal,
    Quantity,
    all_names,
    check_draws,
    named_tree,
    report_draws,
)
from lgmdsl.posterior.normal_mixtures import (
    distribution,
    level_of,
    mixed_moments,
    mixed_quantile,
    rank_of,
)
from lgmdsl.posterior.shifted_draws import DrawnHypers, DrawShift, by_theta, hypers_of
from lgmdsl.posterior.tails import NOTHING, Look, Off, least_variance, off, sd_error
from lgmdsl.state import FieldState

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.posterior.marginal_density import Density

# Conditioned Gaussians are cached where the model has no more latents than this, and rebuilt at
# every use where it has more: a mixture has up to some dozens.
CACHED = 1000


def mixture(
    canonical: CanonicalModel,
    points: Sequence[HyperPoint],
    marginals_at: Callable[[HyperPoint], Marginals],
    hypers: HyperMarginals | None,
    seed: int,
) -> Mixture:
    """The mixture of the marginals `at` each point."""
    weights = np.array([p.share for p in points])
    parts = tuple(partial(marginals_at, p) for p in points)
    return Mixture(canonical, weights, parts, tuple(p.theta for p in points), hypers, seed)


class PointDraws(NamedTuple):
    """Draws at one point: the points of all draws, this one's marginals, the draws' places among
    all, and z."""

    chosen: IntArray
    part: Marginals
    places: IntArray
    z: Array


def evaluated(part: Marginals, name: str, z: Array, thetas: Sequence[Theta]) -> Array:
    """A name at draws z (k, n) and the hyperparameters of each; of the part, where the draws
    have no hyperparameters."""
    if not thetas:
        return part.evaluate(name, z)
    out: Array | None = None
    for theta, rows in by_theta(thetas):
        values = replace(part, theta=theta).evaluate(name, z[rows])
        out = np.empty((len(z), *values.shape[1:])) if out is None else out
        out[rows] = values
    return part.evaluate(name, z) if out is None else out


@dataclass(frozen=True, eq=False)
class Mixture(FieldState):
    """`parts[k]()` makes the marginals at point k, of weight `weights[k]`, at `thetas[k]`.
    `hypers`: the marginals of the hyperparameters, None where they are fixed."""

    canonical: CanonicalModel
    weights: Array
    parts: tuple[Callable[[], Marginals], ...]
    thetas: tuple[Theta, ...]
    hypers: HyperMarginals | None
    seed: int = 0

    @cached_property
    def _normal(self) -> dict[str, tuple[NormalMarginal, ...] | None]:
        return {}

    def part(self, k: int) -> Marginals:
        """The marginals at one point."""
        return self._cached[k] if self._cached else self.parts[k]()

    def at_sites(
        self, block: SiteBlock, together: bool = False
    ) -> Iterator[tuple[Marginals, tuple[Theta, ...], Array]]:
        """The marginals at each point with the hyperparameters to average a block's sites over
        there, and the weights of these (`site_thetas`)."""
        for k, (thetas, shares) in enumerate(self.site_thetas(block, together)):
            yield self.part(k), thetas, shares

    def site_thetas(
        self, block: SiteBlock, together: bool = False
    ) -> Iterator[tuple[tuple[Theta, ...], Array]]:
        """The hyperparameters to average a block's sites over at each point, and their weights: the
        point's own, or, of a mean field, whose latents know the sites' parameters by a mean only,
        several (`together`: for all rows at once)."""
        from lgmdsl.posterior.shifted_draws import parameter_rows

        several: tuple[Theta, ...] = ()
        shares = np.zeros(0)
        if self.hypers is not None:
            several, shares = self.hypers.nodes(
                lambda theta: parameter_rows(block, theta, all_rows=True), together
            )
        for theta, weight in zip(self.thetas, self.weights, strict=True):
            yield (several, weight * shares) if several else ((theta,), weight[None])

    def predictors(self, block: SiteBlock) -> tuple[NormalMarginal, ...] | None:
        """The normal marginals at every point of a let that is the predictor of a block's data,
        which are not looked for twice; None where there is none."""
        if block.data.event:
            return None
        for name, (dims, tree) in self.canonical.named.items():
            if not isinstance(tree, Leaf) or dims != block.predictor_dims:
                continue
            if same(tree.form, block.written) and not self._factored(name):
                return self._parts_of(name)
        return None

    def quantity_dims(self, name: str) -> tuple[str, ...]:
        """The declared indices of a name."""
        block = self.canonical.hypers.block(name)
        return block.dims if block is not None else named_tree(self.canonical, name)[0]

    def quantity(self, name: str) -> Quantity:
        """Mean and sd of a name; raises ModelError E103 for an unknown one."""
        dims = self.quantity_dims(name)
        of = self.of_hypers(name)
        if of is not None and self.hypers is not None:
            return Quantity(dims, self.hypers.mean(of), self.hypers.sd(of))
        factored = self._factored(name)
        if len(self.parts) == 1 and not factored:
            return self.part(0).quantity(name)
        parts = None if factored else self._parts_of(name)
        if parts is not None:
            moments = [n.moments() for n in parts]
            means, sds = (np.array([m[i] for m in moments]) for i in (0, 1))
            return Quantity(dims, *mixed_moments(self.weights, means, sds))
        draws = self._report_draws(name)
        with np.errstate(all="ignore"):  # an infinite draw has no moments
            return Quantity(dims, draws.mean(axis=0), draws.std(axis=0, ddof=1))

    def quantile(self, name: str, levels: Array) -> tuple[tuple[str, ...], Array]:
        """Declared indices, and quantiles with a leading axis over the levels."""
        dims = self.quantity_dims(name)
        of = self.of_hypers(name)
        if of is not None and self.hypers is not None:
            return dims, self.hypers.quantile(of, levels, self._ends(name))
        factored = self._factored(name)
        if len(self.parts) == 1 and not factored:
            return self.part(0).quantile(name, levels)
        parts = None if factored else self._parts_of(name)
        if parts is None:
            with np.errstate(all="ignore"):
                return dims, np.quantile(self._report_draws(name), levels, axis=0)
        means, sds = np.array([n.mean for n in parts]), np.array([n.sd for n in parts])
        return dims, parts[0].curved(mixed_quantile(self.weights, means, sds, levels))

    def _ends(self, name: str) -> Ends | None:
        """The range of each entry of a hyperparameter; None of what is computed from them."""
        block = self.canonical.hypers.block(name)
        return None if block is None else entry_ends(block)

    def below(self, name: str, values: Array) -> Array:
        """P(X < value), entry by entry of a name: where `values` are among the quantiles."""
        of = self.of_hypers(name)
        if of is not None and self.hypers is not None:
            hypers, ends = self.hypers, self._ends(name)
            return level_of(values, lambda levels: hypers.quantile(of, levels, ends))
        parts = None if self._factored(name) else self._parts_of(name)
        if parts is None:
            return rank_of(values, self._report_draws(name))
        if parts[0].curve is not None:
            return level_of(values, lambda levels: self.quantile(name, levels)[1])
        means, sds = np.array([n.mean for n in parts]), np.array([n.sd for n in parts])
        return distribution(self.weights, means, sds, values)

    def density(self, name: str, size: int) -> Density:
        """Points and densities with a last axis of `size`; NaN where an entry is fixed."""
        from lgmdsl.posterior.marginal_density import Density, density_of_draws, density_of_normals

        dims = self.quantity_dims(name)
        of, block = self.of_hypers(name), self.canonical.hypers.block(name)
        if of is not None and self.hypers is not None:
            return Density(dims, *self.hypers.density(of, size, self._ends(name)))
        if block is not None:
            value = np.repeat(self.part(0).quantity(name).mean[..., None], size, axis=-1)
            return Density(dims, value, np.full(value.shape, np.nan))
        parts = None if self._factored(name) else self._parts_of(name)
        if parts is None:
            return Density(dims, *density_of_draws(self._report_draws(name), size), "draws")
        return Density(dims, *density_of_normals(self.weights, parts, size))

    def draws(
        self, names: Sequence[str], size: int, seed: int, own_hypers: bool = True
    ) -> dict[str, Array]:
        """Joint draws of several names, each with a leading sample axis, in random order of the
        points. Functions of hyperparameters and latents are evaluated at the draw's hyperparameters
        (`own_hypers`), or else at those of its point. Raises ModelError E108 for a size or
        seed that is not a whole number from 0."""
        check_draws(size, seed)
        out: dict[str, Array] = {}
        of = {n: f for n in names if (f := self.of_hypers(n)) is not None}
        mixed = {n for n in names if n not in of and hypers_of(named_tree(self.canonical, n)[1])}
        hypers = self.drawn(seed, own_hypers and bool(mixed))
        for chosen, part, places, z in self.joint(size, np.random.default_rng(seed)):
            theirs = hypers.at(chosen, places) if of or hypers.mixing else ()
            shifted = hypers.carry(chosen, places, z)
            for name in names:
                if name in of and theirs:
                    values = np.array([of[name](t) for t in theirs])
                elif name in mixed and hypers.mixing:
                    values = evaluated(part, name, shifted, theirs)
                else:
                    values = part.evaluate(name, shifted)
                if name not in out:
                    out[name] = np.empty((size, *values.shape[1:]))
                out[name][places] = values
        return out

    def drawn(self, seed: int, mixing: bool) -> DrawnHypers:
        """The hyperparameters of draws; `mixing`: latents are shifted to them."""
        return DrawnHypers(
            self.hypers, self.thetas, self.weights, seed, mixing, lambda: self._carried
        )

    def joint(self, size: int, rng: Generator) -> Iterator[PointDraws]:
        """Joint draws point by point."""
        if len(self.parts) == 1:
            part, one = self.part(0), np.zeros(size, dtype=np.int64)
            yield PointDraws(one, part, np.arange(size), part.frame.conditioned.sample(rng, size))
            return
        chosen = rng.choice(len(self.parts), size=size, p=self.weights)
        for k in np.unique(chosen) if size else [0]:
            part, places = self.part(int(k)), np.flatnonzero(chosen == k)
            yield PointDraws(chosen, part, places, part.frame.conditioned.sample(rng, len(places)))

    @property
    def of_draws(self) -> bool:
        """Whether the posterior is made of draws: `all_draws` gives them."""
        return False

    def all_draws(self) -> Iterator[PointDraws]:
        """The draws that the posterior is made of; none of a mixture of Gaussians."""
        return iter(())

    def undefined(self, name: str) -> float:
        """The share of entries and draws in which a report is not finite."""
        # One point says whether a report is Gaussian: all of them are a conditioning each.
        first = self.part(0) if "_cached" in self.__dict__ else self.parts[0]()
        if len(self.parts) == 1 or first.normal(name) is not None:
            return first.undefined(name)
        with np.errstate(all="ignore"):
            return float(1.0 - np.isfinite(self._report_draws(name)).mean())

    @property
    def usual_draws(self) -> int:
        """How many draws averages are taken over where nobody says: all that it is made of."""
        return REPORT_DRAWS

    def worth(self, draws: int) -> float:
        """How many independent draws so many of `joint` are worth."""
        return float(draws)

    def sd_error(self, name: str) -> float:
        """The relative Monte Carlo error of a report's sd, the largest of all entries; 0 of what
        has a closed form."""
        of, factored = self.of_hypers(name), self._factored(name)
        if of is not None and self.hypers is not None:
            return 0.0
        first = self.part(0) if "_cached" in self.__dict__ else self.parts[0]()
        if not factored and (len(self.parts) == 1 or first.normal(name) is not None):
            return first.sd_error(name)
        draws = self._report_draws(name)
        return float(sd_error(draws, len(draws)).max(initial=0.0))

    def off(self, name: str) -> Off:
        """Errors of the sds and means of a report, where it is a curve of what is Gaussian."""
        if self.of_draws or name not in self.canonical.named:
            return NOTHING
        first = self.part(0) if "_cached" in self.__dict__ else self.parts[0]()
        normal = first.normal(name)
        if normal is None or normal.curve is None or self._factored(name):
            return NOTHING
        parts, whole = self._parts_of(name) or (), self.quantity(name)
        means, sds = np.array([n.mean for n in parts]), np.array([n.sd for n in parts])
        powers = np.stack([n.about(whole.mean) for n in parts], axis=1)

        def looks(entries: IntArray) -> Iterator[Look]:
            for k, normal in enumerate(parts):
                part = self.part(k)
                yield Look(part.frame, part.entries(name, entries), partial(normal.at, entries))

        least = least_variance(lambda x: parts[0].curved(np.full(whole.mean.shape, x)))
        return off(self.weights, means, sds, powers, least, (whole.mean, whole.sd), looks)

    # ---- pieces ----------------------------------------------------------------------------

    @cached_property
    def _carried(self) -> DrawShift:
        places = None if self.hypers is None else self.hypers.places(self.thetas)
        assert places is not None, "latents are shifted where hyperparameters have places"
        frames = [self.part(k).frame for k in range(len(self.parts))]
        first = frames[0]
        blocks = [slice(start, start + first.sizes[n]) for n, start in first.starts.items()]
        moments = [(f.conditioned.latent_mean, f.conditioned.latent_variance) for f in frames]
        return DrawShift.of(places, moments, blocks)

    @cached_property
    def _cached(self) -> tuple[Marginals, ...]:
        small = len(self.parts) == 1 or sum(b.size for b in self.canonical.latents) <= CACHED
        return tuple(make() for make in self.parts) if small else ()

    def of_hypers(self, name: str) -> Callable[[Theta], Array] | None:
        """A hyperparameter, or a report of hyperparameters alone, as a function of them."""
        if self.canonical.hypers.block(name) is not None:
            return OneHyper(name)
        dims, tree = named_tree(self.canonical, name)
        if not isinstance(tree, Leaf) or tree.form.latents or not tree.form.offset.depends:
            return None
        offset, sizes = tree.form.offset, {**self.canonical.sizes, **tree.form.sizes}
        return lambda theta: np.array(expand(offset.evaluate(theta), dims, sizes))

    def _factored(self, name: str) -> bool:
        """Whether a report is made of latents and of hyperparameters that have factors: it is
        then summarised by draws of both."""
        if self.hypers is None or self.of_hypers(name) is not None:
            return False
        return self.hypers.factored(hypers_of(named_tree(self.canonical, name)[1]))

    def _parts_of(self, name: str) -> tuple[NormalMarginal, ...] | None:
        """The normal marginals of a name at every point; those of all names are found at once, so
        that each point is conditioned once."""
        if name not in self._normal:
            every = () if self._cached else all_names(self.canonical)
            names = tuple(dict.fromkeys((*every, name)))
            rows = []
            for k in range(len(self.parts)):
                part = self.part(k)
                rows.append([part.normal(n) for n in names])
            for n, column in zip(names, zip(*rows, strict=True), strict=True):
                normals = tuple(c for c in column if c is not None)
                self._normal[n] = normals or None
        return self._normal[name]

    def _report_draws(self, name: str) -> Array:
        draws = report_draws(self.canonical, self.quantity_dims(name))
        return self.draws([name], draws, self.seed, own_hypers=self._factored(name))[name]
