"""Moments, quantiles and draws of anything the model names, under a conditioned Gaussian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions import affine
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.named import NamedArray, expand
from lgmdsl.canonical.lowering import derived
from lgmdsl.canonical.lowering.derived import SAMPLE, Derived, Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.linear import Predictor
from lgmdsl.errors import ModelError, suggestion
from lgmdsl.posterior.frame import Frame
from lgmdsl.posterior.tails import exponential_powers, sd_error
from lgmdsl.remedies import either, number

# Draws behind the moments of reports that are neither affine nor monotone: fewer for a report so
# large that its draws would hold more than REPORT_VALUES numbers, but never below FEWEST.
REPORT_DRAWS, REPORT_VALUES, FEWEST = 4000, 2 * 10**7, 200


@dataclass(frozen=True)
class Quantity:
    """A named quantity: its declared indices, mean and sd over them."""

    dims: tuple[str, ...]
    mean: Array
    sd: Array


@dataclass(frozen=True)
class NormalMarginal:
    """A quantity x ~ N(mean, sd^2), or g(x) where `tree` and the increasing `curve` are g."""

    dims: tuple[str, ...]
    mean: Array
    variance: Array
    tree: Derived | None = None
    curve: derived.Elementwise | None = None

    @property
    def sd(self) -> Array:
        return np.sqrt(self.variance)

    def curved(self, x: Array) -> Array:
        """g(x)."""
        return x if self.curve is None else self.curve(x)

    def moments(self) -> tuple[Array, Array]:
        """Mean and sd of g(x)."""
        if self.tree is None or self.curve is None:
            return self.mean, self.sd
        return _transformed(self.tree, self.curve, self.mean, self.variance)

    def at(self, entries: IntArray, x: Array) -> tuple[Array, Array]:
        """g of some entries at x, (T, n), and its variance there, 0."""
        out = np.zeros(x.shape)
        with np.errstate(all="ignore"):
            for t, here in enumerate(x):
                whole = np.array(self.mean).reshape(-1)
                whole[entries] = here
                out[t] = np.ravel(self.curved(whole.reshape(self.mean.shape)))[entries]
        return out, np.zeros(x.shape)

    def about(self, mean: Array) -> Array:
        """E[(g(x) - mean)^2 z^j], j = 0, 1, 2, x = m + sd z: (3, ...)."""
        with np.errstate(all="ignore"):
            if self.tree is not None and _is_exponential(self.tree):
                return exponential_powers(self.mean, self.sd, mean) * mean**2
            out = np.zeros((3, *self.mean.shape))
            nodes = np.linspace(-9.0, 9.0, 181)
            shares = np.exp(-0.5 * nodes**2)
            for x, share in zip(nodes, shares / shares.sum(), strict=True):
                square = share * (self.curved(self.mean + x * self.sd) - mean) ** 2
                out += np.stack([square, x * square, x**2 * square])
            return out


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

    def quantity_dims(self, name: str) -> tuple[str, ...]:
        """The declared indices of a name."""
        block = self.canonical.hypers.block(name)
        return block.dims if block is not None else named_tree(self.canonical, name)[0]

    def normal(self, name: str) -> NormalMarginal | None:
        """A latent, let or report that is Gaussian under q, or a monotone function of what is;
        None for hypers and other reports."""
        if name not in self._normals:
            self._normals[name] = self._normal(name)
        return self._normals[name]

    @cached_property
    def _normals(self) -> dict[str, NormalMarginal | None]:
        return {}

    def _normal(self, name: str) -> NormalMarginal | None:
        if self.canonical.hypers.block(name) is not None:
            return None
        dims, tree = named_tree(self.canonical, name)
        if isinstance(tree, Leaf):
            return NormalMarginal(dims, *self._gaussian(name, tree.form, dims))
        curve = derived.monotone(tree)
        if curve is None:
            return None
        return NormalMarginal(dims, *self._gaussian(name, curve[0], dims), tree, curve[1])

    def quantity(self, name: str) -> Quantity:
        """Mean and sd of a name; raises ModelError E103 for an unknown one."""
        block = self.canonical.hypers.block(name)
        if block is not None:
            value = np.asarray(self.theta[name])
            return Quantity(block.dims, value, np.zeros_like(value))
        normal = self.normal(name)
        if normal is not None:
            return Quantity(normal.dims, *normal.moments())
        dims = self.quantity_dims(name)
        draws = self._report_draws(name)
        with np.errstate(all="ignore"):  # an infinite draw has no moments
            return Quantity(dims, draws.mean(axis=0), draws.std(axis=0, ddof=1))

    def quantile(self, name: str, levels: Array) -> tuple[tuple[str, ...], Array]:
        """Declared indices, and quantiles with a leading axis over the levels."""
        block = self.canonical.hypers.block(name)
        if block is not None:
            value = np.asarray(self.theta[name])
            return block.dims, np.broadcast_to(value, (len(levels), *value.shape)).copy()
        normal = self.normal(name)
        if normal is None:
            with np.errstate(all="ignore"):
                dims = self.quantity_dims(name)
                return dims, np.quantile(self._report_draws(name), levels, axis=0)
        z = special.ndtri(levels).reshape(-1, *(1 for _ in normal.mean.shape))
        return normal.dims, normal.curved(normal.mean + z * normal.sd)

    def draws(self, names: Sequence[str], size: int, seed: int) -> dict[str, Array]:
        """Joint draws of several names, each with a leading sample axis.

        Raises ModelError E108 for a size or a seed that is not a whole number from 0.
        """
        check_draws(size, seed)
        z = self.frame.conditioned.sample(np.random.default_rng(seed), size)
        return {name: self.evaluate(name, z) for name in names}

    def evaluate(self, name: str, z: Array) -> Array:
        """A name at draws z, (size, n) of the frame's Gaussian: a leading sample axis."""
        block = self.canonical.hypers.block(name)
        if block is not None:
            value = np.asarray(self.theta[name])
            return np.broadcast_to(value, (len(z), *value.shape)).copy()
        dims, tree = named_tree(self.canonical, name)
        drawn: dict[int, NamedArray] = {}
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

    def _draw_form(self, form: Affine, z: Array) -> NamedArray:
        dims = form.dims
        predictor = self.frame.embed(self.canonical.predictor(form, dims, self.theta))
        values = predictor.values(z.T, self.frame.slices)
        shape = tuple(form.sizes.get(d, self.canonical.sizes.get(d, 0)) for d in dims)
        return NamedArray((SAMPLE, *dims), values.T.reshape(len(z), *shape))

    @cached_property
    def _report_z(self) -> Array:
        rng = np.random.default_rng(self.seed)
        return self.frame.conditioned.sample(rng, REPORT_DRAWS)

    def _report_draws(self, name: str) -> Array:
        draws = report_draws(self.canonical, self.quantity_dims(name))
        return self.evaluate(name, self._report_z[:draws])

    def undefined(self, name: str) -> float:
        """The share of entries and draws in which a report is not finite (log of a negative)."""
        tree = named_tree(self.canonical, name)[1]
        if isinstance(tree, Leaf) or derived.monotone(tree) is not None:
            return 0.0
        with np.errstate(all="ignore"):
            return float(1.0 - np.isfinite(self._report_draws(name)).mean())

    def entries(self, name: str, entries: IntArray) -> Predictor:
        """What some entries of a function of one that is affine in the latents are functions of, in
        the frame's z."""
        dims, tree = named_tree(self.canonical, name)
        (leaf,) = derived.leaves(tree)
        return self.frame.embed(self.canonical.predictor(leaf.form, dims, self.theta, entries))

    def sd_error(self, name: str) -> float:
        """The relative Monte Carlo error of a report's sd, the largest of all entries; 0 of what
        has a closed form."""
        tree = named_tree(self.canonical, name)[1]
        if isinstance(tree, Leaf) or derived.monotone(tree) is not None:
            return 0.0
        draws = self._report_draws(name)
        return float(sd_error(draws, len(draws)).max(initial=0.0))


def all_names(canonical: CanonicalModel) -> tuple[str, ...]:
    """Every name that can be asked for."""
    hypers = (h.name for h in canonical.hypers.blocks)
    return tuple(dict.fromkeys((*canonical.shown_names, *canonical.named, *hypers)))


def named_tree(canonical: CanonicalModel, name: str) -> tuple[tuple[str, ...], Derived]:
    """The declared indices and the tree of a latent, let or report; raises ModelError E103."""
    dims = canonical.layout.dims
    if name in canonical.layout.starts:
        return dims[name], Leaf(affine.latent(name, dims[name], canonical.sizes))
    if name in canonical.named:
        return canonical.named[name]
    names, symbol = all_names(canonical), canonical.grounded.model.symbols.get(name)
    if symbol is not None and name in all_names(canonical.declared):
        raise ModelError.of(
            "E103",
            f"the fit does not hold `{name}`, which is of groups that lie in shards",
            help=f"it has: {', '.join(names)}; fit.groups writes the groups' latents",
        )
    if symbol is not None and {*symbol.dims} & {*canonical.rows.over}:
        raise ModelError.of(
            "E103",
            f"the fit does not hold `{name}`: its rows were read by batches",
            help=f"it has: {', '.join(names)}; `fit.predict` has `{name}` at new data",
        )
    raise ModelError.of(
        "E103",
        f"the model has no latent, let, report or hyper named `{name}`",
        help=suggestion(name, names, f"it has: {', '.join(names)}"),
    )


def report_draws(canonical: CanonicalModel, dims: tuple[str, ...]) -> int:
    """How many draws the moments of a report over `dims` take."""
    size = int(np.prod(canonical.layout.shape(dims), dtype=np.int64))
    return max(FEWEST, min(REPORT_DRAWS, REPORT_VALUES // max(size, 1)))


def check_draws(size: int, seed: int) -> None:
    """Raise ModelError E108 for a size or a seed that is not a whole number from 0."""
    asked = (
        (size, "draws are asked for in a number", number("draws", 1000)),
        (seed, "a seed is a number", number("seed", 0)),
    )
    for value, wanted, help in asked:
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
            raise ModelError.of("E108", f"{wanted} that is whole and not below 0", help=help)


def probability_levels(probabilities: object) -> Array:
    """(Q,) the probabilities that quantiles are asked for at; raises ModelError E108."""
    try:
        levels = np.atleast_1d(np.asarray(probabilities, dtype=np.float64))
    except (TypeError, ValueError):
        levels = np.zeros(0)
    if levels.ndim != 1 or levels.size == 0 or not ((levels > 0) & (levels < 1)).all():
        raise ModelError.of(
            "E108",
            "quantiles are asked for at probabilities between 0 and 1",
            help=either("--quantiles 0.05,0.5,0.95", "quantiles=(0.05, 0.5, 0.95)"),
        )
    return levels


def column_levels(quantiles: Sequence[float] | None) -> Array:
    """(Q,) the probabilities of the quantile columns of a table, which has none where they are
    empty or None; raises ModelError E108."""
    none = quantiles is None or (isinstance(quantiles, Sized) and not len(quantiles))
    return np.zeros(0) if none else probability_levels(quantiles)


def _is_exponential(tree: Derived) -> bool:
    """Whether it is exp of what is affine in the latents."""
    return (
        isinstance(tree, derived.Apply)
        and tree.function == "exp"
        and isinstance(tree.operand, Leaf)
    )


def _transformed(
    tree: Derived, curve: derived.Elementwise, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """Mean and sd of g(x), x ~ N(mean, variance): closed form for exp, else the trapezoid rule,
    which converges exponentially for the analytic functions of the language."""
    if _is_exponential(tree):
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
