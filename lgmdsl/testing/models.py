"""Hypothesis strategies for whole latent Gaussian models, with data that fit them.

    @given(random_models(families=("poisson.log_rate",), rows=(1, 12)))
    def test_something(case): fit = case.fit("natural-gradient")

Any registered family can be named, a third party's too: its signature says which parameters it
takes and its `sample` draws the data. Structure, scales and kinds of data are hypothesis's choices
and shrink; the entries of arrays come from a drawn seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.sites.catalogue import find_site, sites
from lgmdsl.sites.catalogue import site as find
from lgmdsl.sites.censored.censored import ARGUMENTS, ENDS
from lgmdsl.sites.observed import make_sites
from lgmdsl.testing.random import latent_blocks as blocks
from lgmdsl.testing.random.latent_blocks import Block
from lgmdsl.testing.random.model import RandomModel, Sites
from lgmdsl.vocabulary.lookup import lookup

# Predictors at which data are drawn stay within: exp(4) counts at most, so to speak.
FARTHEST = 4.0
# Parameters of these names (or of a family) have a range of their own.
VALUES: dict[str, tuple[float, ...]] = {
    "power": (1.5, 1.0, 0.5, 2.0), "df": (4.0, 1.0, 30.0), "exposure": (1.0, 0.01, 30.0),
    "weibull.shape": (1.0, 0.3, 1.6),
}  # fmt: skip
LIMITS: dict[str, tuple[float, float]] = {
    "tweedie.power": (1.05, 1.95), "generalized_poisson.dispersion": (1.0, 9.0),
}  # fmt: skip
POSITIVE, REAL, SHARES = (1.0, 0.3, 3.0), (0.0, 0.7), (0.5, 0.2, 0.95)
TAME, WILD = (1.0, 0.3, 2.0), (1.0, 0.3, 3.0, 0.03, 10.0, 30.0)


def _plain(family: type[Site]) -> bool:
    """Scalar sites whose parameters are numbers (ordered cuts can only be hypers) and whose density
    is positive at every predictor, so that each method has an answer."""
    spec = family.spec
    return not (spec.vector or spec.indexed or Property.LIMITED in spec.properties)


def smooth_families() -> tuple[str, ...]:
    """The registered scalar families without kinks and without ordered cuts."""
    return tuple(
        s.spec.name for s in sites() if _plain(s) and Property.KINKED not in s.spec.properties
    )


def concave_families() -> tuple[str, ...]:
    """The registered scalar families that declare themselves log-concave."""
    return tuple(
        s.spec.name for s in sites() if _plain(s) and Property.LOG_CONCAVE in s.spec.properties
    )


@st.composite
def random_models(
    draw: st.DrawFn,
    families: Sequence[str] | None = None,
    rows: tuple[int, int] = (1, 30),
    latents: tuple[int, int] = (1, 60),
    wild: bool = True,
    flat: bool = False,
    missing: bool = False,
    likelihoods: int = 2,
) -> RandomModel:
    """A model over `rows` rows (least, most) with `latents` latents and sites of `families`.

    `families` are names as in `lgm methods` (None: every scalar family). `wild`: prior sds from
    0.03 to 30 instead of 0.3 to 2, covariates of sizes 0.1 to 10. `flat`: an intercept may be flat
    where the data fix it. `missing`: some data may be missing. `likelihoods`: at most so many
    blocks of sites. Raises ModelError E103 for an unknown family.
    """
    wanted = [find(n) for n in families] if families else [s for s in sites() if _plain(s)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(*rows))
    parts = _blocks(draw, rng, count, latents, WILD if wild else TAME)
    shifts = _rounded(rng.normal(size=count)) if draw(st.booleans()) else None
    case = RandomModel(tuple(parts), (), draw(st.sampled_from((0.0, -0.5, 2.0))), shifts)
    eta = case.offset + case.design @ _prior_draw(case, rng)
    drawn = []
    for k in range(draw(st.integers(1, likelihoods))):
        drawn.append(_sites(draw, rng, draw(st.sampled_from(wanted)), f"y{k}", eta, missing))
    if flat and case.size < latents[1] and draw(st.booleans()) and _fixed(drawn, eta):
        parts = [*parts, blocks.scalar("a", count, 0.0, math.inf)]
    return replace(case, blocks=tuple(parts), sites=tuple(drawn))


def _blocks(
    draw: st.DrawFn,
    rng: np.random.Generator,
    rows: int,
    latents: tuple[int, int],
    sds: tuple[float, ...],
) -> list[Block]:
    """One to three proper blocks, no more than `latents` latents together, and no fewer."""
    least, most = latents
    drawn: list[Block] = []
    for k in range(draw(st.integers(1, 3))):
        room = most - sum(b.size for b in drawn)
        kinds = [kind for kind, smallest in _KINDS.items() if (smallest or rows) <= room]
        if kinds:
            drawn.append(_block(draw, rng, draw(st.sampled_from(kinds)), f"z{k}", rows, room, sds))
    short = least - sum(b.size for b in drawn)
    if short > 0:
        drawn.append(blocks.coefficients("z9", _rounded(rng.normal(size=(rows, short))), 0.0, 1.0))
    return drawn


# Kinds of blocks, and their smallest sizes (0: one latent for each row).
_KINDS = {"scalar": 1, "coefficients": 1, "levels": 1, "correlated": 1, "slopes": 4, "process": 0}


def _block(
    draw: st.DrawFn,
    rng: np.random.Generator,
    kind: str,
    name: str,
    rows: int,
    room: int,
    sds: tuple[float, ...],
) -> Block:
    sd = draw(st.sampled_from(sds))
    mean = draw(st.sampled_from((0.0, 0.7, -1.5)))
    size = min(room, draw(st.integers(1, 4)))
    scale = draw(st.sampled_from((1.0, 0.1, 10.0))) if sds is WILD else 1.0
    if kind == "scalar":
        return blocks.scalar(name, rows, mean, sd)
    if kind == "coefficients":
        X = _rounded(scale * rng.normal(size=(rows, size)))
        return blocks.coefficients(name, X, mean, sd)
    if kind == "process":
        places = _rounded(rng.normal(size=(rows, draw(st.integers(1, 2)))))
        if draw(st.booleans()):  # inputs that come twice: a singular covariance
            places = places[rng.integers(0, max(1, rows // 2), rows)]
        return blocks.process(name, places, sd, draw(st.sampled_from((1.0, 0.3, 5.0))))
    if kind == "slopes":
        X = np.column_stack([np.ones(rows), _rounded(scale * rng.normal(size=rows))])
        return blocks.slopes(name, X, rng.integers(0, 2, rows), 2, _covariance(draw, rng, 2, sd))
    who = rng.integers(0, size, rows)
    if kind == "correlated":
        return blocks.correlated(name, who, _covariance(draw, rng, size, sd))
    return blocks.levels(name, who, size, sd)


def _covariance(draw: st.DrawFn, rng: np.random.Generator, size: int, sd: float) -> Array:
    """(size, size), of rank one where hypothesis says so."""
    rank = draw(st.sampled_from((size, 1)))
    root = rng.normal(size=(size, rank))
    root /= np.sqrt((root**2).sum(axis=1, keepdims=True))
    covariance = sd**2 * (root @ root.T)
    return np.asarray((covariance + covariance.T) / 2.0)


def _prior_draw(case: RandomModel, rng: np.random.Generator) -> Array:
    """z from the prior, standard normal where it is flat."""
    parts = []
    for b in case.blocks:
        covariance = np.eye(b.size) if b.covariance is None else b.covariance
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        parts.append(b.mean + root @ rng.normal(size=b.size))
    return np.concatenate(parts)


def _sites(
    draw: st.DrawFn,
    rng: np.random.Generator,
    family: type[Site],
    name: str,
    eta: Array,
    missing: bool,
) -> Sites:
    """Sites with data drawn at `eta`, or at predictors that have nothing to do with it."""
    spec, rows = family.spec, len(eta)
    types = {n: _type(spec, n) for n in spec.parameters}
    parameters = {
        n: _parameter(draw, rng, spec.family, n, types[n], rows)
        for n, default in spec.parameters.items()
        if n not in ARGUMENTS and (default is None or draw(st.booleans()))
    }
    present = np.ones(rows, dtype=bool)
    if spec.potential:
        return Sites(family, name, None, parameters, types, present)
    if missing and draw(st.booleans()):
        present = rng.random(rows) < 0.7
        present[0] = True
    s = FARTHEST * rng.normal(size=rows) if draw(st.booleans()) else eta
    filled = {
        n: np.zeros(rows) + parameters.get(n, 0.0 if d is None else d)
        for n, d in spec.parameters.items()
    }
    kind = spec.observed[0]
    before = np.full(rows, 0.5 if kind in ("positive", "unit") else 0.0)
    y = make_sites(family, before, filled).sample(np.clip(s, -FARTHEST, FARTHEST), rng)
    if kind == "positive":
        y = np.maximum(y, 1e-8)  # a draw of tiny shape may be zero in floating point
    parameters |= censoring(draw, rng, spec, y)
    return Sites(family, name, np.asarray(y), parameters, types, present)


def _parameter(
    draw: st.DrawFn, rng: np.random.Generator, family: str, name: str, kind: str, rows: int
) -> float | Array:
    """A number, or one for each row."""
    if kind == "count":
        return rng.integers(0, draw(st.sampled_from((2, 6, 40))), rows).astype(np.float64)
    usual = VALUES.get(name, {"real": REAL, "unit": SHARES}.get(kind, POSITIVE))
    value = draw(st.sampled_from(VALUES.get(f"{family}.{name}", usual)))
    low, high = LIMITS.get(f"{family}.{name}", (-np.inf, np.inf))
    if draw(st.booleans()):
        return float(min(max(value, low), high))
    return np.clip(np.round(value * rng.uniform(0.3, 1.0, rows), 6), low, high)


def _type(spec: SiteSpec, parameter: str) -> str:
    """The type that the language wants of a parameter; ends may be missing."""
    if parameter in ENDS:
        return "real?"
    known = spec.signature or lookup("potential" if spec.potential else "family", spec.family)
    form = None if known is None else known.form(frozenset({spec.argument, *spec.parameters}))
    declared = None if form is None else form.parameter(parameter)
    return "real" if declared is None else declared.type


def _fixed(likelihoods: Sequence[Sites], eta: Array) -> bool:
    """Whether the sites fall on both sides as all predictors move together."""

    def level(by: float) -> float:
        return sum(float(s.bound.log_density((eta + by)[s.present]).sum()) for s in likelihoods)

    middle = max(level(by) for by in range(-20, 21, 4))
    return max(level(-200.0), level(200.0)) < middle - 5.0


def _rounded(values: Array) -> Array:
    return np.round(values, 4)


# ---- censoring ---------------------------------------------------------------------------------
# How random observations are censored: `event`, `lower` and `upper` drawn about y.
#
# A row is observed, or known up to an interval that holds its y; ends are NaN where they are open.


# Of intervals on either side of y, relative to y where it is positive.
WIDTHS = (1.0, 0.01, 30.0)


def censoring(
    draw: st.DrawFn, rng: np.random.Generator, spec: SiteSpec, y: Array
) -> dict[str, Array]:
    """Which of the family's `event`, `lower` and `upper` a model gives, (rows,) each.

    A family that only exists censored, NAME.censored, is given what the plain one does not take:
    the compiler chooses between the two by the arguments.
    """
    chosen = draw(st.sampled_from(_choices(spec)))
    if "event" in chosen:
        return {"event": rng.integers(0, 2, len(y)).astype(np.float64)}
    gaps = draw(st.sampled_from(WIDTHS)) * rng.uniform(0.1, 1.0, (2, len(y)))
    gaps[:, rng.random(len(y)) < 0.2] = 0.0  # observed where both ends are y, else censored at y
    if spec.observed[0] == "positive":
        ends = {"lower": y / (1.0 + gaps[0]), "upper": y * (1.0 + gaps[1])}
    else:
        ends = {"lower": y - gaps[0], "upper": y + gaps[1]}
    return {n: np.where(rng.random(len(y)) < 0.3, np.nan, ends[n]) for n in chosen}


def _choices(spec: SiteSpec) -> list[tuple[str, ...]]:
    plain = find_site(spec.name.removesuffix(".censored"))
    promised = plain is not None and plain.spec is not spec
    without = plain.spec.parameters if plain is not None and promised else {}
    one = [(n,) for n in ARGUMENTS if n in spec.parameters and n not in without]
    both = [ENDS] if spec.parameters.keys() >= set(ENDS) else []
    return [*([] if promised else [()]), *one, *both]
