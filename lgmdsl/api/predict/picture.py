"""prediction.plot("y", ax=ax): a prediction on matplotlib axes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.positions import LinePositions, described, line
from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.errors import MethodError, ModelError, suggestion
from lgmdsl.plot.effects import (
    FOREST,
    LEVELS,
    Curve,
    ForestRow,
    draw_curve,
    draw_forest,
    draw_sorted,
)
from lgmdsl.plot.fields import THREADS, TwoWay, draw_cells, draw_lines, two_way

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lgmdsl.api.predict.predict import Prediction


def plot(prediction: Prediction, name: str | None, ax: Axes | None) -> Axes:
    """See `Prediction.plot`."""
    if find_spec("matplotlib") is None:
        message = "a picture needs matplotlib"
        raise MethodError.of("E501", message, help="pip install 'lgmdsl[plot]'")
    name = _chosen(prediction) if name is None else name
    if name not in prediction.names:
        known = prediction.names
        help = suggestion(name, known, f"it has: {', '.join(known)}")
        raise ModelError.of("E103", f"the prediction has no `{name}`", help=help)
    dims, levels = _quantiles(prediction, name)
    canonical = prediction.canonical
    label = described(canonical.grounded.model, name)
    table = _table(prediction, name, label, dims, levels) if len(dims) > 1 else None
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.figure(figsize=(8.2, 4.0), layout="constrained").subplots()
    if table is not None:
        (draw_lines if table.x is not None else draw_cells)(ax, table)
        return ax
    flat = levels.reshape(len(LEVELS), -1)
    if not dims:
        draw_forest(ax, label, [ForestRow(name, flat[:, 0])])
        return ax
    dim = dims[0]
    labels, along = _members(canonical, dim), _along(canonical, dim, name)
    if along is not None:
        named = None if along.labels is None else list(along.labels)
        draw_curve(ax, Curve("", f"{label}, predicted", along.axis, along.x, flat, named))
    elif len(labels) <= FOREST:
        rows = [ForestRow(a, q) for a, q in zip(labels, flat.T, strict=True)]
        draw_forest(ax, label, rows)
    else:
        draw_sorted(ax, Curve("", label, dim, np.arange(1.0, 1.0 + len(labels)), flat, labels))
    return ax


def _members(canonical: CanonicalModel, dim: str) -> list[str]:
    """The labels of an index, of those that were asked for."""
    asked = canonical.grounded.asked.get(dim)
    labels = canonical.grounded.indices[dim].labels if asked is None else asked
    return [str(v) for v in labels.tolist()]


def _along(canonical: CanonicalModel, dim: str, name: str = "") -> LinePositions | None:
    """Where these lie along a line, which may be that of a quantity's curve; None where they have
    no order."""
    along, asked = line(canonical, dim, name), canonical.grounded.asked.get(dim)
    if along is None or asked is None:
        return along
    places = canonical.grounded.indices[dim].positions(asked)
    named = None if along.labels is None else tuple(along.labels[k] for k in places.tolist())
    return LinePositions(along.x[places], along.axis, named)


def _table(
    prediction: Prediction, name: str, label: str, dims: tuple[str, ...], levels: Array
) -> TwoWay:
    """Lines by group, or cells. Raises MethodError E501 where the groups are many."""
    canonical = prediction.canonical
    labels = [_members(canonical, d) for d in dims]
    lines = [_along(canonical, d, name) for d in dims]
    table = two_way(("", f"{label}, predicted"), dims, labels, levels, lines, THREADS)
    if table is None:
        message = f"`{name}` cannot be drawn: it is over {' and '.join(dims)}"
        many = "so many lines" if any(lines) else "so many colours"
        help = f"{many} would not be told apart; prediction.frame() has its numbers"
        raise MethodError.of("E501", message, help=help)
    return table


def _chosen(prediction: Prediction) -> str:
    names = prediction.responses or prediction.unobserved
    if not names:
        raise MethodError.of(
            "E501", "the prediction has nothing to draw", help="prediction.frame() has its numbers"
        )
    return names[0]


def _quantiles(prediction: Prediction, name: str) -> tuple[tuple[str, ...], Array]:
    """Declared axes and (5, ...) quantiles at LEVELS, at the members asked for."""
    if name in prediction.responses:
        values = prediction.response_quantile(name, LEVELS)
        dims = prediction.observed(name).data.dims
    else:
        values = prediction.quantile(name, LEVELS)
        dims = prediction.marginals.quantity_dims(name)
    return dims, np.asarray(values.values, dtype=np.float64)
