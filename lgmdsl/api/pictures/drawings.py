"""How each quantity of a fit is drawn: curves over what has an order, maps and surfaces over
places, dots with whiskers or sorted entries over the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lgmdsl.api.pictures.hyper_pictures import panels
from lgmdsl.api.pictures.observed import ROWS, Observations, with_data
from lgmdsl.api.positions import LinePositions, described, line, places
from lgmdsl.arrays import Array, BoolArray
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.plot.effects import (
    FOREST,
    LEVELS,
    Curve,
    ForestRow,
    curve_picture,
    draw_curve,
    draw_forest,
    draw_sorted,
    forest_picture,
    sorted_picture,
)
from lgmdsl.plot.fields import (
    MEAN,
    SD,
    Heat,
    Map,
    draw_heat,
    draw_map,
    heat_picture,
    map_picture,
    two_way,
    two_way_panels,
    two_way_picture,
)
from lgmdsl.plot.hypers import draw_hyper
from lgmdsl.plot.responses import (
    Agreement,
    Reliability,
    agreement_picture,
    draw_agreement,
    draw_reliability,
    reliability_picture,
)
from lgmdsl.posterior.marginals import named_tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lgmdsl.posterior.fit_record import FitRecord

LARGEST = 1_000_000  # entries of a quantity that is drawn

Draw: TypeAlias = Callable[[str], bytes]
Panel: TypeAlias = "Callable[[Axes], None]"


@dataclass(frozen=True)
class Drawing:
    """One picture: the name of its file without the ending, its panels, which can be drawn on any
    axes (mean and sd of maps and heat maps), and the bytes of the whole in a format. `whole`:
    whether all panels show the quantity itself, and not the first alone."""

    file: str
    panels: tuple[Panel, ...]
    picture: Draw
    whole: bool = False

    @property
    def terms(self) -> tuple[Panel, ...]:
        return self.panels if self.whole else self.panels[:1]


def quantity_drawings(fit: FitRecord, name: str, observations: Observations) -> tuple[Drawing, ...]:
    """The pictures of a latent, let or report over an index, the one that shows most first; none
    where it is fixed, or nowhere finite."""
    canonical = fit.canonical
    dims = named_tree(canonical, name)[0]
    kind = "latent" if name in canonical.latent_names else _kind(canonical, name)
    title, label = titled(canonical, name, dims), described(canonical.grounded.model, name)
    quantity = fit.quantity(name)
    if not (np.isfinite(quantity.sd) & (quantity.sd > 0.0)).any():
        return ()
    if len(dims) == 2:
        axes = distinct(dims)
        labels = [[str(v) for v in canonical.layout.labels[d].tolist()] for d in dims]
        by_group = _two_way(fit, name, dims, labels)
        if by_group is not None:
            return (by_group,)
        heat = Heat(title, (axes[0], axes[1]), (labels[0], labels[1]), quantity.mean, quantity.sd)
        draw = tuple(partial(draw_heat, heat=heat, kind=k) for k in (MEAN, SD))
        return (Drawing(f"{kind}_{name}", draw, partial(heat_picture, heat)),)
    out = []
    along = line(canonical, dims[0], name) if len(dims) == 1 else None
    where = places(canonical, dims[0], name) if len(dims) == 1 else None
    if where is not None:
        field = Map(
            title, where.axes, where.places, quantity.mean, quantity.sd, where.ratio, where.between
        )
        draw = tuple(partial(draw_map, field=field, kind=k) for k in (MEAN, SD))
        out.append(Drawing(f"map_{name}", draw, partial(map_picture, field)))
    levels = quantiles_of(fit, name)
    if levels is not None:
        flat = levels.reshape(len(LEVELS), -1)
        file = f"{kind}_{name}"
        if along is not None:
            seen = with_data(canonical, dims[0])
            left = observations.around(name, dims)
            if left is None:
                curve = _curve(title, label, along, flat, observations.over(name, dims), seen)
            else:
                dots = (along.x, left)
                curve = Curve(
                    title, label, along.axis, along.x, flat, observed=dots, dots="partial residuals"
                )
            draw_it = partial(draw_curve, curve=curve)
            out.append(Drawing(file, (draw_it,), partial(curve_picture, curve)))
        elif where is None or flat.shape[1] <= FOREST:
            out.append(_entries(canonical, file, dims, title, label, flat))
    return tuple(out)


def _two_way(
    fit: FitRecord, name: str, dims: tuple[str, ...], labels: Sequence[Sequence[str]]
) -> Drawing | None:
    """Lines by group along what has an order, else cells of few groups; None for what a heat map
    shows better: two long orders, or many groups."""
    canonical = fit.canonical
    levels = quantiles_of(fit, name)
    if levels is None or dims[0] == dims[1]:
        return None
    along = (line(canonical, dims[0], name), line(canonical, dims[1], name))
    called = titled(canonical, name, dims), described(canonical.grounded.model, name)
    table = two_way(called, dims, labels, levels, along)
    if table is None:
        return None
    panels = tuple(partial(draw, table=table) for draw in two_way_panels(table))
    kind = "latent" if name in canonical.latent_names else _kind(canonical, name)
    return Drawing(f"{kind}_{name}", panels, partial(two_way_picture, table), whole=True)


def response_drawing(observations: Observations, name: str) -> Drawing | None:
    """An observed datum against what is predicted of it; None of what has no quantiles, of very
    many rows, and where it is not at hand."""
    block = observations.block(name)
    if block is None or int(np.prod(block.data_shape)) > ROWS or block.data.y is None:
        return None
    canonical, dims = observations.fit.canonical, block.data.dims
    title = f"{titled(canonical, name, dims)}, observed and predicted"
    label = described(canonical.grounded.model, name)
    values = observations.values(block)
    if "binary" in block.family.spec.observed:
        shares = Reliability(title, label, values, observations.mean(block))
        draw_shares = partial(draw_reliability, rows=shares)
        return Drawing(f"response_{name}", (draw_shares,), partial(reliability_picture, shares))
    levels, ends = observations.quantiles(block), observations.ends(block)
    along = line(canonical, dims[0]) if len(dims) == 1 else None
    if along is not None:
        known = np.isfinite(values) | ~np.isnan(ends[0])
        curve = _curve(title, label, along, levels, (values, ends), known)
        return Drawing(
            f"response_{name}",
            (partial(draw_curve, curve=curve),),
            partial(curve_picture, curve),
        )
    rows = Agreement(title, label, values, levels, ends)
    draw = partial(draw_agreement, rows=rows)
    return Drawing(f"response_{name}", (draw,), partial(agreement_picture, rows))


def hyper_drawing(fit: FitRecord, name: str) -> tuple[Panel, ...]:
    """A panel for each entry of a hyperparameter that has a density."""
    return tuple(partial(draw_hyper, panel=panel) for panel in panels(fit, [name]))


def scalar_row(fit: FitRecord, name: str) -> ForestRow | None:
    """One number as a row with whiskers; None where it is fixed."""
    levels = quantiles_of(fit, name)
    return None if levels is None else ForestRow(titled(fit.canonical, name), levels.reshape(-1))


def scalar_panel(row: ForestRow) -> Panel:
    """One number on axes of its own."""
    return partial(draw_forest, name="", rows=(row,))


def quantiles_of(fit: FitRecord, name: str) -> Array | None:
    """(5, ...) at LEVELS; None where the quantity is fixed, or nowhere finite."""
    quantiles = fit.marginals.quantile(name, np.array(LEVELS))[1]
    spread = quantiles[-1] - quantiles[0]
    return quantiles if (np.isfinite(spread) & (spread > 0.0)).any() else None


def titled(canonical: CanonicalModel, name: str, dims: tuple[str, ...] = ()) -> str:
    """`p[day]: chance of rain`, the description as the model has it."""
    symbol = canonical.grounded.model.symbols.get(name)
    doc = getattr(symbol.statement, "doc", None) if symbol is not None else None
    entry = f"{name}[{', '.join(dims)}]" if dims else name
    return f"{entry}: {doc}" if doc else entry


def _curve(
    title: str,
    label: str,
    along: LinePositions,
    levels: Array,
    observed: tuple[Array, Array] | None,
    seen: BoolArray | None,
) -> Curve:
    """A curve along a line; `observed`: responses and the ends of censored ones."""
    dots, ends = None, None
    if observed is not None:
        dots, ends = (along.x, observed[0]), observed[1]
    return Curve(title, label, along.axis, along.x, levels, along.labels, dots, seen, ends)


def _entries(
    canonical: CanonicalModel,
    file: str,
    dims: tuple[str, ...],
    title: str,
    label: str,
    flat: Array,
) -> Drawing:
    """Entries without an order: one by one, or sorted where they are many."""
    labels = [""]
    for dim in dims:
        members = [str(v) for v in canonical.layout.labels[dim].tolist()]
        labels = [f"{a}, {b}" if a else b for a in labels for b in members]
    if flat.shape[1] <= FOREST:
        rows = tuple(ForestRow(a, q) for a, q in zip(labels, flat.T, strict=True))
        draw: Panel = partial(draw_forest, name=label, rows=rows)
        return Drawing(file, (draw,), partial(forest_picture, title, label, rows))
    x = np.arange(1.0, 1.0 + flat.shape[1])
    curve = Curve(title, label, ", ".join(dims), x, flat, labels)
    draw = partial(draw_sorted, curve=curve)
    return Drawing(file, (draw,), partial(sorted_picture, curve))


def _kind(canonical: CanonicalModel, name: str) -> str:
    symbol = canonical.grounded.model.symbols.get(name)
    return symbol.kind if symbol is not None else "latent"
