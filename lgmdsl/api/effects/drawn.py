"""Average expected responses at draws of latents and hyperparameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lgmdsl.api.effects.rows import Rows
from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.linear import Predictor
from lgmdsl.errors import ModelError
from lgmdsl.posterior.drawn_response import class_moments
from lgmdsl.posterior.marginals import Marginals
from lgmdsl.posterior.mixture import Mixture
from lgmdsl.posterior.shifted_draws import DISTINCT, by_theta, drawn_sites, hypers_of
from lgmdsl.remedies import setting

CHUNK = 1 << 19  # predictor entries of draws that are held at once
# Expectations of rows at draws and levels, together: many rows are averaged over fewer draws.
WORK, FEWEST = 4e8, 400


def predictor_at(model: CanonicalModel, rows: Rows, theta: Theta) -> Predictor:
    """The predictor of the rows, without the latents that are left out."""
    predictor = model.as_written(block_of(model, rows.block), theta)
    kept = {n: op for n, op in predictor.columns.items() if n not in rows.without}
    return replace(predictor, columns=kept)


def drawn_averages(
    rows: Rows, levelled: Sequence[tuple[CanonicalModel, Array]], n: int, seed: int, link: bool
) -> Array:
    """(levels, draws, G, C) the average expected response at draws of latents and
    hyperparameters, by the model and the weights (G, N) of each level."""
    block, mixed = rows.block, rows.prediction.marginals
    models = [*dict.fromkeys(model for model, _ in levelled)]
    size = int(np.clip(WORK / (rows.weights.shape[1] * len(models)), min(FEWEST, n), n))
    blocks = [block_of(m, block) for m in models]
    hypers = mixed.drawn(seed, bool(hypers_of(Leaf(block.written))))
    alone = () if models[0].latent_names else _alone(mixed, block, size, seed)
    out: Array | None = None
    for chosen, part, places, z in mixed.joint(size, np.random.default_rng(seed)):
        step = max(1, CHUNK // rows.weights.shape[1])
        for start in range(0, len(places), step):
            some = places[start : start + step]
            thetas = hypers.at(chosen, some)
            if alone and not thetas:
                thetas = tuple(alone[i % len(alone)] for i in some)
            shifted = hypers.carry(chosen, some, z[start : start + step])
            for model, level_block in zip(models, blocks, strict=True):
                s = _predictors(model, rows, part, shifted, thetas if hypers.mixing else ())
                if link:
                    if s.ndim > 2 and not block.family.spec.predictors:
                        raise no_link(block)
                    expected = s.reshape(*s.shape[:2], -1)
                else:
                    expected = _expected(level_block, part.theta, thetas, s)
                for level, (of_level, weights) in enumerate(levelled):
                    if of_level is not model:
                        continue
                    average = np.einsum("gn,snc->sgc", weights, expected)
                    if out is None:
                        out = np.empty((len(levelled), size, *average.shape[1:]))
                    out[level, some] = average
    assert out is not None, "there are draws"
    return out


def _alone(mixed: Mixture, block: SiteBlock, size: int, seed: int) -> tuple[Theta, ...]:
    """Draws of the hyperparameters at a mode, of a model that has nothing else; none where the
    posterior has draws of them, or they are fixed. Raises ModelError E108 where their sds are not
    known."""
    if mixed.hypers is None or len(mixed.thetas) > 1:
        return ()
    rng = np.random.default_rng([seed, 2])
    chosen = np.zeros(1, dtype=np.int64)
    if mixed.drawn(seed, True).at(chosen, chosen):
        return ()
    draws = mixed.hypers.alone(min(size, DISTINCT), rng)
    if not draws:
        raise ModelError.of(
            "E108",
            f"effects on `{block.name}` have no sds: those of the hyperparameters are unknown "
            "at this mode",
            help=f"{setting('hyper', 'integrate')} has them",
        )
    return draws


def _predictors(
    model: CanonicalModel, rows: Rows, part: Marginals, z: Array, thetas: Sequence[Theta]
) -> Array:
    """(k, N), or (k, N, K) of vector sites, at draws z."""
    turns = by_theta(thetas) if thetas else iter([(part.theta, np.arange(len(z)))])
    out: Array | None = None
    event = 0
    for theta, draws in turns:
        predictor = part.frame.embed(predictor_at(model, rows, theta))
        event = predictor.event
        values = predictor.values(z[draws].T, part.frame.slices).T
        out = np.empty((len(z), values.shape[1])) if out is None else out
        out[draws] = values
    assert out is not None, "there are draws"
    shaped: Array = out.reshape(len(z), -1, event) if event else out
    return shaped


def _expected(block: SiteBlock, theta: Theta, thetas: Sequence[Theta], s: Array) -> Array:
    """(k, N, C): E[y | s], or the probability of each class."""
    with np.errstate(all="ignore"):
        if not block.classes:
            out = np.empty(s.shape[:2])
            for turn, site in drawn_sites(block, theta, thetas, len(s), block.blank(), True):
                some = s[turn].reshape(-1, *s.shape[2:])
                out[turn] = site.conditional_mean(some).reshape(-1, s.shape[1])
            return out[..., None]
        count = block.sizes[block.classes]
        shares = np.empty((*s.shape[:2], count))
        if not block.each:
            for k in range(count):
                y = np.full(s.shape[1], float(k))
                for turn, site in drawn_sites(block, theta, thetas, len(s), y, True):
                    some = s[turn].reshape(-1, *s.shape[2:])
                    shares[turn, :, k] = np.exp(site.log_density(some)).reshape(-1, s.shape[1])
            return shares
        for own, rows in _thetas(block, theta, thetas, len(s)):
            flat = s[rows].reshape(-1, *s.shape[2:])
            none = np.zeros((*flat.shape, *flat.shape[1:]))
            known = class_moments(block, own, flat, none, count, len(rows))
            shares[rows] = known.mean.reshape(len(rows), -1, count)
        return shares


def _thetas(
    block: SiteBlock, theta: Theta, thetas: Sequence[Theta], size: int
) -> Iterator[tuple[Theta, IntArray]]:
    """The hyperparameters of the sites with the draws that have them."""
    if thetas and any(p.depends for p in block.parameters.values()):
        yield from by_theta(thetas)
    else:
        yield theta, np.arange(size)


def block_of(model: CanonicalModel, like: SiteBlock) -> SiteBlock:
    """Block of `model` with the name of `like`, a block of another model."""
    return next(b for b in model.blocks if b.name == like.name)


def no_mean(block: SiteBlock) -> ModelError:
    """E501: a response without a finite mean, which effects on it are about."""
    return ModelError.of(
        "E501",
        f"`{block.name}` has no finite mean under {block.family.spec.name} as it was fitted",
        help=f"{setting('scale', 'link')} has the effects on the predictor",
    )


def no_link(block: SiteBlock) -> ModelError:
    """E108 for a link scale that has several axes."""
    message = f"`{block.name}` has several predictors, so its link scale has no one effect"
    help = f"{setting('scale', 'response')} has one for each class"
    return ModelError.of("E108", message, help=help)
