"""Where loadings start, and the axes in which they are told.

At loadings of 0 (the middle of their prior) the evidence is flat in them: a saddle. They start
from the principal components of the working residuals W^-1 (b - Wm) of a fit near it, less the
noise that the other components have, as in probabilistic PCA (Tipping and Bishop 1999). Residuals
of entries that are missing count as 0. Where the data are no matrix, and for products of hypers,
they start at small numbers of random size and sign, the same at every call.

Loadings L on latents whose prior does not know one direction from another are known up to a
rotation alone. They are turned to where L'L is diagonal, the largest first, and each column has
its largest entry positive. What prior there is decides whether that may be done: it is kept only
where it leaves evidence + log prior as it was, else the signs alone are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.affine import Term
from lgmdsl.canonical.expressions.coefficient import Coefficient, Gather, Theta
from lgmdsl.canonical.expressions.named import Axis
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import leaf, linear_hypers, multiplied
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.starts.working_response import working_residuals

WIDEST = 4000  # columns of a data matrix that is decomposed
LEAST_SIGNAL = 0.1  # share of a component that is kept as signal at least
UNSTRUCTURED = 0.1  # sd of random loadings, where no data matrix gives any
VANISHED, LITTLE = 1e-3, 1e-3  # loadings that may have vanished, and nats that say so
SPREAD = 0.1  # about the size of the loadings in that fit


@dataclass(frozen=True, eq=False)
class Loading:
    """sum_k L[items, k] z[rows, k] in the predictor of site block `block`.

    `rows`, `items`: axes of the block's predictors; `axes`: how L's array with axes (items..., k)
    is transposed to have the hyper's own.
    """

    block: int
    hyper: str
    latent: str
    rows: tuple[int, ...]
    items: tuple[int, ...]
    axes: tuple[int, ...]

    def columns(self, value: Array) -> Array:
        """(items, k) of the hyper's array."""
        turned = np.transpose(value, np.argsort(self.axes))
        return turned.reshape(-1, turned.shape[-1])

    def array(self, columns: Array, like: Array) -> Array:
        """The hyper's array of (items, k)."""
        shape = np.transpose(like, np.argsort(self.axes)).shape
        return np.transpose(columns.reshape(shape), self.axes)


def loadings(canonical: CanonicalModel, names: Sequence[str]) -> dict[str, list[Loading]]:
    """The loadings among the hypers `names` that stand once, by their latent."""
    found: dict[str, list[Loading]] = {}
    for k, block in enumerate(canonical.blocks):
        for term in block.form.terms:
            one = _loading(k, block, term)
            if one is not None and one.hyper in names:
                found.setdefault(one.latent, []).append(one)
    hypers = [one.hyper for group in found.values() for one in group]
    once = {n: [o for o in g if hypers.count(o.hyper) == 1] for n, g in found.items()}
    return {n: g for n, g in once.items() if g}


def _loading(k: int, block: SiteBlock, term: Term) -> Loading | None:
    slots = [s.dim for s in term.slots if isinstance(s, Axis)]
    moving = [f for f in term.factors if f.depends]
    arrays = [f for f in term.factors if f.dims]
    if term.applied or len(slots) < len(term.slots) or len(moving) != 1 or arrays != moving:
        return None
    dims, hyper = _dims(moving[0]), leaf(moving[0])
    rows = [d for d in slots if d not in term.summed]
    items = [d for d in block.predictor_dims if d not in rows]
    if hyper is None or len(term.summed) != 1 or len(slots) != len(rows) + 1:
        return None
    order = (*items, *term.summed)
    if sorted(dims) != sorted(order) or not set(rows) <= set(block.dims):
        return None
    place = block.predictor_dims.index
    return Loading(
        k,
        hyper.name,
        term.latent,
        tuple(place(d) for d in rows),
        tuple(place(d) for d in items),
        tuple(order.index(d) for d in dims),
    )


def _dims(node: Coefficient) -> tuple[str, ...]:
    """The index of each axis of a leaf; empty where one is gathered through a map."""
    if not isinstance(node, Gather):
        return node.dims
    dims = tuple(s.dim for s in node.slots if isinstance(s, Axis))
    return dims if len(dims) == len(node.slots) else ()


def idle_loadings(objective: Objective, theta: Theta, size: float = 0.0) -> tuple[str, ...]:
    """The loadings and factors of products that are 0, or no more than `size`, all over."""
    names = multiplied(objective.planned.canonical, theta, objective.pinned)
    return tuple(n for n in names if np.abs(theta[n]).max(initial=0.0) <= size)


def vanished(objective: Objective, at: Evaluation) -> tuple[str, ...]:
    """The small loadings without which evidence + log prior is what it is."""
    small = idle_loadings(objective, at.theta, VANISHED)
    if not small:
        return ()
    x = at.x.copy()
    for name in small:
        x[objective.coordinates.slices[name]] = 0.0
    without = objective.at(x, at.posterior)
    return small if without is not None and abs(without.value - at.value) < LITTLE else ()


def scattered(theta: Theta, names: Sequence[str]) -> Theta:
    """Hypers with small random numbers, none of them next to 0, for `names`."""
    rng = np.random.default_rng(0)

    def drawn(shape: tuple[int, ...]) -> Array:
        return np.asarray(SPREAD * rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 1.5, shape))

    return {**theta, **{n: drawn(np.shape(theta[n])) for n in names}}


def from_components(
    objective: Objective,
    first: Evaluation,
    names: Sequence[str],
    about_prior: bool = False,
    without: int = -1,
) -> Theta:
    """The hypers of a fit with principal components for the loadings among `names`: of the working
    residuals, or of the working response `about_prior` means with the offsets that these leave;
    the component `without` is left out."""
    canonical, theta = objective.planned.canonical, dict(first.theta)
    for group in loadings(canonical, names).values():
        found = _components(first, canonical, group, about_prior, without)
        for one, columns in zip(group, found or (), strict=False):
            theta[one.hyper] = one.array(columns, theta[one.hyper])
    return theta


def _components(
    first: Evaluation,
    canonical: CanonicalModel,
    group: Sequence[Loading],
    about_prior: bool,
    without: int,
) -> list[Array] | None:
    """(items, k) for each loading of a latent: principal components of the residuals of all."""
    tables = [_residuals(canonical.blocks[o.block], first, o, about_prior) for o in group]
    if len({len(t) for t in tables}) > 1 or min(map(len, tables)) < 2:
        return None
    table = np.hstack(tables)
    count, width = table.shape
    factors = first.theta[group[0].hyper].size // tables[0].shape[1]
    if min(count, width) > WIDEST:
        return None
    if width <= count:
        values, vectors = np.linalg.eigh(table.T @ table / count)
    else:
        values, left = np.linalg.eigh(table @ table.T / count)
        vectors = table.T @ left / np.sqrt(np.maximum(values * count, 1e-300))
    values, vectors = values[::-1], vectors[:, ::-1]
    if 0 <= without < len(values):
        values, vectors = np.delete(values, without), np.delete(vectors, without, axis=1)
    kept = min(factors, len(values))
    noise = values[kept:].sum() / max(width - kept, 1)
    signal = np.maximum(values[:kept] - noise, LEAST_SIGNAL * values[:kept])
    whole = UNSTRUCTURED * np.random.default_rng(0).standard_normal((width, factors))
    whole[:, :kept] = vectors[:, :kept] * np.sqrt(signal)
    return np.split(whole, np.cumsum([t.shape[1] for t in tables])[:-1])


def _residuals(block: SiteBlock, first: Evaluation, one: Loading, about_prior: bool) -> Array:
    """(rows, items) working residuals, centred by column, or those `about_prior`; 0 if missing."""
    q = first.posterior
    weight, shift, mean = (a[one.block] for a in (q.weight, q.shift, q.conditioned.mean))
    shape = [block.sizes[d] for d in block.predictor_dims]
    full = np.full(int(np.prod(shape, dtype=np.int64)), np.nan)
    if about_prior:
        mean = first.problem.engine.prior_mean[one.block]
    residual, _ = working_residuals(weight, shift, mean, as_they_are=about_prior)
    full[block.predictor_rows()] = residual.reshape(-1)
    count = int(np.prod([shape[a] for a in one.rows], dtype=np.int64))
    table = np.transpose(full.reshape(shape), (*one.rows, *one.items)).reshape(count, -1)
    seen = np.isfinite(table)
    centre = np.where(seen, table, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    centre = np.zeros_like(centre) if about_prior else centre
    return np.where(seen, table - centre, 0.0)


def reported(objective: Objective, found: Evaluation) -> Evaluation:
    """Maximum in the rotation in which loadings are reported; see the module."""
    canonical = objective.planned.canonical
    linear = linear_hypers(canonical, found.theta, objective.pinned).loadings
    for group in loadings(canonical, linear).values():
        for turn in (_principal, _signs):
            values = [np.asarray(found.theta[o.hyper]) for o in group]
            stacked = np.vstack([o.columns(v) for o, v in zip(group, values, strict=True)])
            rotation = turn(stacked)
            theta = dict(found.theta)
            for o, v in zip(group, values, strict=True):
                theta[o.hyper] = o.array(o.columns(v) @ rotation, v)
            at = objective.at(objective.coordinates.pack(theta), found.posterior)
            slack = objective.tolerances.evidence * max(1.0, abs(found.value))
            if at is not None and abs(at.value - found.value) <= slack:
                found = at
                break
    return found


def _principal(columns: Array) -> Array:
    """The rotation to orthogonal columns, the largest first, with `_signs`."""
    rotation = np.linalg.svd(columns, full_matrices=True)[2].T
    return np.asarray(rotation @ _signs(columns @ rotation))


def _signs(columns: Array) -> Array:
    """Diagonal: each column's largest entry becomes positive."""
    largest = columns[np.abs(columns).argmax(axis=0), np.arange(columns.shape[1])]
    return np.diag(np.where(largest < 0.0, -1.0, 1.0))
