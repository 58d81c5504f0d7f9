"""fit.curve(): a spline along its covariate, its derivatives, and differences of curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.columns import Columns, index_columns, set_apart
from lgmdsl.arrays import Array
from lgmdsl.canonical.grounding.errors import show
from lgmdsl.canonical.grounding.labels import meant_labels
from lgmdsl.canonical.queries.smooths import SmoothTerm, smooth_terms
from lgmdsl.errors import MethodError, ModelError, suggestion
from lgmdsl.posterior.curves import Functions, curves
from lgmdsl.posterior.marginals import check_draws

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

GRID = 100
DERIVATIVES = (0, 1, 2)
CONTRASTS = ("reference", "pairwise", "sequential")


@dataclass(frozen=True)
class CurveSettings:
    """What `Fit.curve` is asked for: the arguments of their names."""

    at: object
    derivative: int
    contrast: object
    level: float
    n: int
    seed: int


def curve_columns(fit: FitRecord, name: str, asked: CurveSettings) -> Columns:
    """The columns of `Fit.curve`."""
    _check(asked)
    terms = _terms(fit, name)
    canonical = fit.canonical
    fitted = canonical.positions[name]
    if fitted.shape[1] > 1:
        raise _no_curve(name, "it is a surface", "its values at new positions: fit.predict(new)")
    at = _positions(asked.at, fitted[:, 0])
    each = np.hstack(canonical.smooths[name].columns(at[:, None], asked.derivative))
    pairs = _pairs(name, terms, asked.contrast)
    if pairs is None:
        outer = canonical.layout.dims[terms[0].blocks[0].name][:-1]
        labels = [canonical.layout.labels[d] for d in outer]
        places = tuple(t.where for t in terms)
        columns = index_columns(outer, labels)
        functions = Functions(places, (each,) * len(terms))
    else:
        columns = {"contrast": np.array([f"{b.labels} - {a.labels}" for a, b in pairs], dtype=str)}
        both = np.hstack([-each, each])
        places = tuple(np.concatenate([a.where, b.where]) for a, b in pairs)
        functions = Functions(places, (both,) * len(pairs))
    found = curves(fit.marginals, functions, asked.level, asked.n, asked.seed)
    out: Columns = {
        "at": np.tile(at, len(found)),
        "estimate": np.concatenate([c.mean for c in found]),
        "sd": np.concatenate([c.sd for c in found]),
        "lower": np.concatenate([c.interval[0] for c in found]),
        "upper": np.concatenate([c.interval[1] for c in found]),
    }
    if asked.n:
        out["band_lower"] = np.concatenate([c.band[0] for c in found])
        out["band_upper"] = np.concatenate([c.band[1] for c in found])
    repeated = {k: np.repeat(v, len(at)) for k, v in columns.items()}
    return set_apart(repeated, out) | out


def _check(asked: CurveSettings) -> None:
    check_draws(asked.n, asked.seed)
    level, derivative = asked.level, asked.derivative
    if not isinstance(level, float | int) or isinstance(level, bool) or not 0.0 < level < 1.0:
        raise ModelError.of(
            "E108",
            "the level of an interval is a number between 0 and 1",
            details=(f"got {level!r}",),
            help="level=0.95",
        )
    whole = isinstance(derivative, int | np.integer) and not isinstance(derivative, bool)
    if not whole or derivative not in DERIVATIVES:
        raise ModelError.of(
            "E108",
            "`derivative` is 0, 1 or 2",
            details=(f"got {derivative!r}",),
            help="derivative=1 for the slope of the curve",
        )


def _terms(fit: FitRecord, name: str) -> list[SmoothTerm]:
    """The curves of a latent. Raises ModelError E103 for an unknown name, MethodError E501 where
    it has no basis."""
    canonical = fit.canonical
    splines = [n for n in canonical.latent_names if n in canonical.smooths]
    if name in splines:
        return [t for t in smooth_terms(canonical) if t.name == name]
    if name not in fit.names:
        there = f"splines: {', '.join(splines)}" if splines else "the model has no spline"
        message = f"the model has no latent `{name}`"
        raise ModelError.of("E103", message, help=suggestion(name, splines, there))
    values = f'what it is at its members: fit.tidy(["{name}"])'
    raise _no_curve(name, "it is no spline", values)


def _no_curve(name: str, reason: str, help: str) -> MethodError:
    message = f"`{name}` is no curve of a basis along one covariate"
    return MethodError.of("E501", message, details=(reason,), help=help)


def _positions(given: object, fitted: Array) -> Array:
    """(G,) where the curve is looked at."""
    if given is None:
        return np.linspace(fitted.min(), fitted.max(), GRID)
    try:
        at = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        at = np.array([np.nan])
    if at.ndim != 1 or not at.size or not np.isfinite(at).all():
        raise ModelError.of(
            "E108",
            "`at` must be finite numbers, positions along the covariate",
            details=(f"got {given!r}"[:200],),
            help=f"at=[{fitted.min():g}, {fitted.max():g}], or leave it out for {GRID} positions",
        )
    return at


def _pairs(
    name: str, terms: Sequence[SmoothTerm], contrast: object
) -> list[tuple[SmoothTerm, SmoothTerm]] | None:
    """Which curves are compared; None where none are."""
    if contrast is None:
        return None
    if len(terms) < 2:
        raise ModelError.of(
            "E108",
            f"`{name}` is a single curve, and a contrast is of two",
            help="leave `contrast` out; a difference of two positions is "
            "fit.effects(covariate, contrast=(a, b))",
        )
    if isinstance(contrast, str) and contrast in CONTRASTS:
        if contrast == "reference":
            return [(terms[0], t) for t in terms[1:]]
        return list(pairwise(terms) if contrast == "sequential" else combinations(terms, 2))
    pair = [str(v) for v in contrast] if isinstance(contrast, list | tuple | np.ndarray) else []
    if len(pair) != 2:
        raise ModelError.of(
            "E108",
            "`contrast` of curves is (from, to), reference, pairwise or sequential",
            details=(f"got {contrast!r}",),
            help=suggestion(str(contrast), CONTRASTS, 'as in contrast=("a", "b")'),
        )
    labels = [t.labels for t in terms]
    for label in pair:
        if label not in labels:
            known = f"it has: {', '.join(map(show, labels[:20]))}"
            help = meant_labels([label], np.array(labels, dtype=np.str_)) or known
            raise ModelError.of("E302", f"`{name}` has no curve {show(label)}", help=help)
    return [(terms[labels.index(pair[0])], terms[labels.index(pair[1])])]
