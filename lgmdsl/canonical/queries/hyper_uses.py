"""Where hyperparameters appear in the canonical form, after the compiler's rewrites, and which free
ones are behind them.

The first is read off the nodes of the form, as a rewrite may move an argument of a site into its
predictor; the second is the model graph's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lgmdsl.canonical.model import CanonicalModel


def uses(canonical: CanonicalModel) -> list[str]:
    """Every hyper once for each place where it appears: terms and offsets of predictors,
    arguments of priors, of sites, and of other hypers."""
    places = [*of_predictors(canonical), *of_priors(canonical), *of_sites(canonical)]
    return [name for depends in places for name in depends]


def of_predictors(canonical: CanonicalModel) -> Iterator[frozenset[str]]:
    """The hypers in each term and offset of the predictors."""
    for block in canonical.blocks:
        yield block.form.offset.depends
        for term in block.form.terms:
            yield term.depends


def of_sites(canonical: CanonicalModel) -> Iterator[frozenset[str]]:
    """The hypers in each argument of a site that is not its predictor."""
    for block in canonical.blocks:
        for node in block.parameters.values():
            yield node.depends


def of_latents(canonical: CanonicalModel) -> Iterator[frozenset[str]]:
    """The hypers in each argument of a latent's prior, and in each constraint."""
    for latent in canonical.latents:
        for factor in latent.factors:
            for node in factor.coefficients().values():
                yield node.depends
    for equation in canonical.equations:
        yield equation.value.depends | equation.form.offset.depends
        for term in equation.form.terms:
            yield term.depends


def of_priors(canonical: CanonicalModel) -> Iterator[frozenset[str]]:
    """The hypers in each argument of a latent's prior, each constraint, and each value and prior of
    another hyper."""
    yield from of_latents(canonical)
    for hyper in canonical.hypers.blocks:
        if hyper.value is not None:
            yield hyper.value.depends
        if hyper.prior is not None:
            yield hyper.prior.depends


def made_of(
    canonical: CanonicalModel, names: Collection[str], pinned: Collection[str] = ()
) -> frozenset[str]:
    """The names, and the hypers in the values of hypers among them, pinned ones the last."""
    stop = {*canonical.hypers.free, *pinned}
    behind = canonical.grounded.graph.behind(names, through=("hyper",), stop=stop)
    return frozenset((*names, *behind))


def roots(
    canonical: CanonicalModel, names: Collection[str], pinned: Collection[str] = ()
) -> frozenset[str]:
    """The free hypers, neither pinned nor given by a value, behind some names."""
    free = {block.name for block in canonical.hypers.unpinned(pinned)}
    return made_of(canonical, names, pinned) & free
