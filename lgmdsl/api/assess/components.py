"""The components of a fit's posterior: what every assessment of it is computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.assess.observations import Observations
from lgmdsl.api.response_data import with_responses
from lgmdsl.arrays import Array
from lgmdsl.assess.component import Component
from lgmdsl.assess.drawn.levels import PosteriorDraws
from lgmdsl.assess.predictive import Drawn, joint_draws, pieces_of
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.expressions.named import expand
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.site import Site
from lgmdsl.dataset import Keys
from lgmdsl.errors import MethodError
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.mixture import CACHED, Mixture
from lgmdsl.posterior.predictive.moments import moments
from lgmdsl.posterior.shifted_draws import (
    DrawnHypers,
    by_theta,
    drawn_sites,
    hypers_of,
    parameter_rows,
)
from lgmdsl.remedies import setting

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


@dataclass(frozen=True, eq=False)
class Assessed:
    """A fit as its assessments see it: the model with its responses, the components of the
    posterior, and the positions of the responses.

    `at_points`: a component for each hyperparameter point; `components`: those to average over,
    which are the same unless the sites' parameters have separate factors (`hyper = vb`). `drawn`:
    the exact draws that are reported in the place of the components' Gaussians, where there are
    any: assessments are then averages over them."""

    canonical: CanonicalModel
    at_points: tuple[Component, ...]
    components: tuple[Component, ...]
    observations: Observations
    mixture: Mixture
    drawn: PosteriorDraws | None = None

    @cached_property
    def mixing(self) -> bool:
        """Whether predictors are made of latents and hyperparameters both."""
        blocks = (self.canonical.blocks[k] for k in observed(self.canonical))
        return any(hypers_of(Leaf(b.written)) for b in blocks)

    def drawn_hypers(self, seed: int, mixing: bool | None = None) -> DrawnHypers:
        """The hyperparameters of joint draws of `at_points`."""
        return self.mixture.drawn(seed, self.mixing if mixing is None else mixing)

    def joint_draws(self, size: int, seed: int) -> Iterator[Drawn]:
        """Joint draws of hyperparameter points and z, in pieces: those that the posterior is made
        of, where it is."""
        if not self.mixture.of_draws:
            yield from joint_draws(self.at_points, size, seed)
            return
        for points, _, places, z in self.mixture.joint(size, np.random.default_rng(seed)):
            component = self.at_points[int(points[places[0]])] if len(places) else self.at_points[0]
            step = pieces_of(component)
            for start in range(0, len(places), step):
                some = slice(start, start + step)
                yield Drawn(points, component, places[some], z[some])

    def predictors(self, component: Component, z: Array, thetas: Sequence[Theta]) -> Rows:
        """The predictors at draws z (k, n) of a component, at the hyperparameters of each where
        they are made of any."""
        if not self.mixing or not thetas:
            return component.at(z)
        blocks = [self.canonical.blocks[k] for k in observed(self.canonical)]
        out = tuple(np.empty((len(z), *m.shape)) for m in component.mean)
        for theta, rows in by_theta(thetas):
            predict = partial(_predictors, self.canonical, blocks, theta)
            for whole, s in zip(out, replace(component, predict=predict).at(z[rows]), strict=True):
                whole[rows] = s
        return out

    def together(self, block: int, y: Array, thetas: Theta | Sequence[Theta]) -> Array:
        """Draws (draws, N) of all rows of one observed datum together, from those of each given
        what was observed before it; `thetas`: of each draw, or of all."""
        source = self.canonical.blocks[observed(self.canonical)[block]]
        if source.residual is None:
            return y
        assert source.y is not None, "responses are at hand"
        each = [thetas] * len(y) if isinstance(thetas, Mapping) else thetas
        return source.residual.replicated(y, source.y, source.rows, each)

    def drawn_sites(
        self, block: int, theta: Theta, thetas: Sequence[Theta], count: int
    ) -> Iterator[tuple[slice, Site]]:
        """`drawn_sites` of one observed datum."""
        source = self.canonical.blocks[observed(self.canonical)[block]]
        return drawn_sites(source, theta, thetas, count, _response(source)["y"])


def assessed(
    fit: FitRecord,
    data: object,
    mapping: Keys | None,
    call: str,
    together: bool = False,
    removes: bool = False,
    apart: bool = False,
) -> Assessed:
    """Everything behind `fit.CALL`; `together`: responses are not taken one by one.

    Raises MethodError E501 where the model observes nothing, the fit is a mode alone, its variances
    are estimates, responses are to leave a confined q (`removes`), or are taken one by one
    (`apart`) though their residuals are correlated; DataError as `with_responses`.
    """
    caller = f"fit.{call}()"
    fit, canonical = with_responses(fit, data, mapping, caller, f"fit.{call}(data=...)")
    for block in canonical.blocks if apart else ():
        if block.residual is not None:
            block.residual.check_apart(block.rows, caller)
    if not observed(canonical):
        message = f"{caller} is about observed data, and the model has potentials alone"
        raise MethodError.of("E501", message, help="fit.audit() checks the accuracy of the fit")
    if np.isnan(fit.log_evidence):
        message = f"{caller} is about the posterior, and method `{fit.method}` finds its mode alone"
        raise MethodError.of(
            "E501",
            message,
            help=f"fit with {setting('method', 'laplace')}, or by ep or natural-gradient",
        )
    if fit.posterior.conditioned.errors is not None:
        message = f"{caller} needs exact variances, and this fit's are estimates (iterative engine)"
        raise MethodError.of(
            "E501",
            message,
            help=f"fit a smaller part of the data with {setting('engine', 'sparse')}",
        )
    if removes and fit.posterior.conditioned.confinement is not None:
        message = f"{caller} takes responses out of q, and `{fit.method}` confines q"
        raise MethodError.of(
            "E501", message, help=f"fit with {setting('method', 'natural-gradient')}"
        )
    blocks = tuple(canonical.blocks[k] for k in observed(canonical))
    where = tuple((b.name, b.data.dims, b.data.rows) for b in blocks)
    at_points = components(fit, canonical)
    spread = tuple(c for one in at_points for c in _spread(fit, canonical, one, together))
    drawn = None
    if fit.drawn is not None:
        drawn = PosteriorDraws(at_points, fit.drawn.point, fit.drawn.z, fit.drawn.ess)
    return Assessed(
        canonical, at_points, spread, Observations(canonical.layout, where), fit.marginals, drawn
    )


def components(fit: FitRecord, canonical: CanonicalModel) -> tuple[Component, ...]:
    """The posterior as a mixture over hyperparameter points: one point at fixed hyperparameters.

    `canonical` is the fit's model with its responses.
    """
    small = sum(b.size for b in canonical.latents) <= CACHED
    return tuple(
        component(canonical, p, conditioned_once(p) if small else p.condition) for p in fit.points
    )


def _spread(
    fit: FitRecord, canonical: CanonicalModel, one: Component, together: bool
) -> tuple[Component, ...]:
    """A component for each of several values of the sites' parameters, where these have factors
    that the latents know by a mean only: q(z) and its Gaussian sites are the same in all."""
    if fit.hyper_marginals is None:
        return (one,)
    blocks = [canonical.blocks[k] for k in observed(canonical)]

    def rows(theta: Theta) -> Array:
        parameters = [parameter_rows(b, theta) for b in blocks]
        wide = max(f.shape[1] for f in parameters)
        return np.concatenate([np.pad(f, ((0, 0), (0, wide - f.shape[1]))) for f in parameters])

    thetas, weights = fit.hyper_marginals.nodes(rows, together)
    return tuple(
        replace(one, weight=one.weight * float(w), sites=tuple(_sites(b, t) for b in blocks))
        for t, w in zip(thetas, weights, strict=True)
    ) or (one,)


def _sites(block: SiteBlock, theta: Theta) -> Site:
    return block.family(**block.parameter_values(theta), **_response(block))


def conditioned_once(point: HyperPoint) -> Callable[[], Conditioned]:
    """The point's Gaussian, conditioned on first use and cached."""
    q = point.condition()
    return lambda: q


def component(
    canonical: CanonicalModel, point: HyperPoint, condition: Callable[[], Conditioned]
) -> Component:
    """The posterior at one point.

    The compiler's rewrites are undone: a site on eta - y becomes the family of y on eta.
    """
    positions, theta, q = observed(canonical), point.theta, condition()
    blocks = [canonical.blocks[k] for k in positions]

    moments = [
        _scalar(b, theta, q, k) if b.whole is None else _whole(canonical, b, theta, q, k)
        for k, b in zip(positions, blocks, strict=True)
    ]
    mean, variance, site_weight, site_shift = zip(*moments, strict=True)
    return Component(
        weight=point.share,
        sites=tuple(_sites(b, theta) for b in blocks),
        mean=mean,
        variance=variance,
        site_weight=site_weight,
        site_shift=site_shift,
        condition=condition,
        predict=partial(_predictors, canonical, blocks, theta),
        slices={b.name: canonical.layout.latent(b.name) for b in canonical.latents},
        theta=theta,
        row_weights=tuple(b.data_weights for b in blocks),
    )


def _predictors(
    canonical: CanonicalModel, blocks: Sequence[SiteBlock], theta: Theta
) -> tuple[Predictor, ...]:
    return tuple(canonical.as_written(b, theta, every=False) for b in blocks)


def _scalar(block: SiteBlock, theta: Theta, q: Conditioned, k: int) -> tuple[Array, ...]:
    """Mean and variance of the predictors as written, W and b of their sites."""
    d = _recentring(block, theta)
    shift = q.shift[k] + q.weight[k] * d if d.any() else q.shift[k]
    return q.mean[k] + d, q.variance[k], q.weight[k], shift


def _whole(
    canonical: CanonicalModel, block: SiteBlock, theta: Theta, q: Conditioned, k: int
) -> tuple[Array, ...]:
    """Moments of predictors, W and b where several sites stand for each datum: W is diagonal, 0
    where there is no site."""
    mean, variance = moments(q, canonical.as_written(block, theta, every=False))
    data = block.data
    entry = block.rows % data.event
    weight, shift = np.zeros_like(variance), np.zeros_like(mean)
    weight[data.owner, entry, entry] = q.weight[k]
    shift[data.owner, entry] = q.shift[k]
    return mean, variance, weight, shift


def observed(canonical: CanonicalModel) -> tuple[int, ...]:
    """The positions of the site blocks that observe data."""
    return tuple(k for k, b in enumerate(canonical.blocks) if not b.family.spec.potential)


def every_value(canonical: CanonicalModel) -> Observations:
    """Where the values of the observed data belong: each count, where a row counts classes."""
    blocks = [canonical.blocks[k] for k in observed(canonical)]
    places = tuple((b.name, (*b.data.dims, *b.each), b.entries()) for b in blocks)
    return Observations(canonical.layout, places)


def _response(block: SiteBlock) -> dict[str, Array]:
    y = block.data.y
    assert y is not None
    return {"y": y}


def _recentring(block: SiteBlock, theta: Theta) -> Array:
    """The predictor as written less the one that the back ends see, for each observed row."""
    if block.form is block.written:
        return np.zeros(1)
    return _offset(block, block.written, theta) - _offset(block, block.form, theta)


def _offset(block: SiteBlock, form: Affine, theta: Theta) -> Array:
    sizes = {**block.sizes, **form.sizes}
    return np.asarray(
        expand(form.offset.evaluate(theta), block.dims, sizes).reshape(-1)[block.rows]
    )
