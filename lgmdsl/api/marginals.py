"""Moments, quantiles and draws of anything the model names, under a conditioned Gaussian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from lgmdsl.api.frame import Frame
from lgmdsl.arrays import Array
from lgmdsl.canonical import affine, derived
from lgmdsl.canonical.affine import Affine
from lgmdsl.canonical.derived import SAMPLE, Derived, Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.named import Named, expand
from lgmdsl.errors import Diagnostic, ModelError, nearest

# Draws behind the moments of reports that are neither affine nor monotone: fewer for a report so
# large that its draws would hold more than REPORT_VALUES numbers, but never below FEWEST.
REPORT_DRAWS, REPORT_VALUES, FEWEST = 4000, 2 * 10**7, 200


@dataclass(frozen=True)
class Quantity:
    """A named quantity: its declared indices, mean and sd over them."""

    dims: tuple[str, ...]
    mean: Array
    sd: Array


@dataclass(frozen=True, eq=False)
class Marginals:
    """Marginals of latents, lets, reports and hypers at fixed hyperparameters.

    Affine quantities are Gaussian; a monotone function of one has a transformed marginal; anything
    else is summarised from up to `REPORT_DRAWS` joint draws with `seed`.
    """

    canonical: CanonicalModel
    theta: Mapping[str, Array]
    frame: Frame
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that can be asked for."""
        return (
            *(b.name for b in self.canonical.latents),
            *self.canonical.named,
            *(h.name for h in self.canonical.hypers.blocks),
        )

    def quantity_dims(self, name: str) -> tuple[str, ...]:
        """The declared indices of a name."""
        block = self.canonical.hypers.block(name)
        return block.dims if block is not None else self._tree(name)[0]

    def quantity(self, name: str) -> Quantity:
        """Mean and sd of a name; raises ModelError E103 for an unknown one."""
        block = self.canonical.hypers.block(name)
        if block is not None:
            value = np.asarray(self.theta[name])
            return Quantity(block.dims, value, np.zeros_like(value))
        dims, tree = self._tree(name)
        if isinstance(tree, Leaf):
            mean, variance = self._gaussian(name, tree.form, dims)
            return Quantity(dims, mean, np.sqrt(variance))
        curve = derived.monotone(tree)
        if curve is not None:
            mean, variance = self._gaussian(name, curve[0], dims)
            return Quantity(dims, *_transformed(tree, curve[1], mean, variance))
        draws = self._report_draws(name)
        with np.errstate(all="ignore"):  # an infinite draw has no moments
            return Quantity(dims, draws.mean(axis=0), draws.std(axis=0, ddof=1))

    def quantile(self, name: str, levels: Array) -> tuple[tuple[str, ...], Array]:
        """Declared indices, and quantiles with a leading axis over the levels."""
        block = self.canonical.hypers.block(name)
        if block is not None:
            value = np.asarray(self.theta[name])
            return block.dims, np.broadcast_to(value, (len(levels), *value.shape)).copy()
        dims, tree = self._tree(name)
        curve = derived.monotone(tree)
        form = tree.form if isinstance(tree, Leaf) else curve[0] if curve else None
        if form is None:
            with np.errstate(all="ignore"):
                return dims, np.quantile(self._report_draws(name), levels, axis=0)
        mean, variance = self._gaussian(name, form, dims)
        z = special.ndtri(levels).reshape(-1, *(1 for _ in dims))
        values = mean + z * np.sqrt(variance)
        return dims, values if curve is None else curve[1](values)

    def draws(self, names: Sequence[str], size: int, seed: int) -> dict[str, Array]:
        """Joint draws of several names, each with a leading sample axis.

        Raises ModelError E108 for a size or a seed that is not a whole number from 0.
        """
        asked = ((size, "draws are asked for in a number"), (seed, "a seed is a number"))
        for value, what in asked:
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
                raise ModelError(Diagnostic("E108", f"{what} that is whole and not below 0"))
        z = self.frame.conditioned.sample(np.random.default_rng(seed), size)
        return {name: self.evaluate(name, z) for name in names}

    def evaluate(self, name: str, z: Array) -> Array:
        """A name at draws z, (size, n) of the frame's Gaussian: a leading sample axis."""
        block = self.canonical.hypers.block(name)
        if block is not None:
            value = np.asarray(self.theta[name])
            return np.broadcast_to(value, (len(z), *value.shape)).copy()
        dims, tree = self._tree(name)
        drawn: dict[int, Named] = {}
        for leaf in derived.leaves(tree):
            drawn[id(leaf)] = self._draw_form(leaf.form, z)
        result = derived.evaluate(tree, drawn)
        sizes = {**self.canonical.sizes, SAMPLE: len(z)}
        return np.array(expand(result, (SAMPLE, *dims), sizes))

    @property
    def affine(self) -> frozenset[str]:
        """The lets (and reports) that are affine in the latents, so Gaussian under q."""
        named = self.canonical.named
        return frozenset(n for n, (_, tree) in named.items() if isinstance(tree, Leaf))

    # ---- pieces ----------------------------------------------------------------------------

    def _tree(self, name: str) -> tuple[tuple[str, ...], Derived]:
        if name in self.canonical.layout.starts:
            return self.canonical.layout.dims[name], Leaf(self._latent_form(name))
        if name not in self.canonical.named:
            close = nearest(name, self.names)
            raise ModelError(
                Diagnostic(
                    "E103",
                    f"the model has no latent, let, report or hyper named `{name}`",
                    help=f"did you mean `{close}`?"
                    if close
                    else f"it has: {', '.join(self.names)}",
                )
            )
        return self.canonical.named[name]

    def _latent_form(self, name: str) -> Affine:
        return affine.latent(name, self.canonical.layout.dims[name], self.canonical.sizes)

    def _gaussian(self, name: str, form: Affine, dims: tuple[str, ...]) -> tuple[Array, Array]:
        shape = self.canonical.layout.shape(dims)
        conditioned = self.frame.conditioned
        if name in self.frame.starts and self.frame.places[name] is None:
            start = self.frame.starts[name]
            where = slice(start, start + self.frame.sizes[name])
            mean, variance = conditioned.latent_mean[where], conditioned.latent_variance[where]
        else:
            predictor = self.canonical.predictor(form, dims, self.theta)
            mean, variance = conditioned.project(self.frame.embed(predictor))
        # Variances that rounding left below zero are those of fixed quantities.
        return mean.reshape(shape), np.maximum(variance, 0.0).reshape(shape)

    def _draw_form(self, form: Affine, z: Array) -> Named:
        dims = form.dims
        predictor = self.frame.embed(self.canonical.predictor(form, dims, self.theta))
        values = np.repeat(predictor.offset[:, None], len(z), axis=1)
        for name, operator in predictor.columns.items():
            values += operator.matvec(self.frame.part(name, z).T)
        shape = tuple(form.sizes.get(d, self.canonical.sizes.get(d, 0)) for d in dims)
        return Named((SAMPLE, *dims), values.T.reshape(len(z), *shape))

    @cached_property
    def _report_z(self) -> Array:
        rng = np.random.default_rng(self.seed)
        return self.frame.conditioned.sample(rng, REPORT_DRAWS)

    def _report_draws(self, name: str, most: int = REPORT_DRAWS) -> Array:
        shape = self.canonical.layout.shape(self.quantity_dims(name))
        size = int(np.prod(shape, dtype=np.int64))
        draws = max(FEWEST, min(REPORT_DRAWS, REPORT_VALUES // max(size, 1)))
        return self.evaluate(name, self._report_z[: min(draws, most)])

    def undefined(self, name: str) -> float:
        """The share of entries and draws in which a report is not finite (log of a negative)."""
        tree = self._tree(name)[1]
        if isinstance(tree, Leaf) or derived.monotone(tree) is not None:
            return 0.0
        with np.errstate(all="ignore"):
            return float(1.0 - np.isfinite(self._report_draws(name, FEWEST)).mean())


def probability_levels(given: object) -> Array:
    """(Q,) the probabilities that quantiles are asked for at; raises ModelError E108."""
    try:
        levels = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        levels = np.zeros(0)
    if levels.ndim != 1 or levels.size == 0 or not ((levels > 0) & (levels < 1)).all():
        raise ModelError(
            Diagnostic("E108", "quantiles are asked for at probabilities between 0 and 1")
        )
    return levels


def _transformed(
    tree: Derived, curve: derived.Elementwise, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """Mean and sd of g(x), x ~ N(mean, variance): closed form for exp, else the trapezoid rule,
    which converges exponentially for the analytic functions of the language."""
    if (
        isinstance(tree, derived.Apply)
        and tree.function == "exp"
        and isinstance(tree.operand, Leaf)
    ):
        with np.errstate(over="ignore", invalid="ignore"):
            first = np.exp(mean + 0.5 * variance)
            relative = np.sqrt(np.expm1(variance))
            return first, np.where(relative > 0, first * relative, 0.0)
    sd = np.sqrt(variance)
    widest = float(sd.max(initial=0.0))
    nodes = np.linspace(-9.0, 9.0, int(np.clip(201 + 40 * widest, 201, 8001)))
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    centre = curve(mean)
    with np.errstate(over="ignore", invalid="ignore"):
        for x, w in zip(nodes, weights, strict=True):
            # Centred at g(mean), so that small variances do not cancel.
            deviation = curve(mean + x * sd) - centre
            first += w * deviation
            second += w * deviation**2
        spread = np.sqrt(np.maximum(second - first**2, 0.0))
        return centre + first, np.where(np.isfinite(spread), spread, np.inf)
