"""prediction.plot("y", ax=ax): a prediction on matplotlib axes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.positions import LinePositions, described, line
from lgmdsl.arrays import Array, IntArray
from lgmdsl.errors import Diagnostic, MethodError, ModelError, suggestion
from lgmdsl.plot.effects import (
    FOREST,
    LEVELS,
    Curve,
    ForestRow,
    draw_curve,
    draw_forest,
    draw_sorted,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lgmdsl.api.predict.predict import Prediction


def plot(prediction: Prediction, name: str | None, ax: Axes | None) -> Axes:
    """See `Prediction.plot`."""
    if find_spec("matplotlib") is None:
        message = "a picture needs matplotlib"
        raise MethodError(Diagnostic("E501", message, help="pip install 'lgmdsl[plot]'"))
    name = _chosen(prediction) if name is None else name
    if name not in prediction.names:
        known = prediction.names
        help = suggestion(name, known, f"it has: {', '.join(known)}")
        raise ModelError(Diagnostic("E103", f"the prediction has no `{name}`", help=help))
    dims, levels = _quantiles(prediction, name)
    if len(dims) > 1:
        message = f"`{name}` cannot be drawn: it is over {' and '.join(dims)}"
        raise MethodError(Diagnostic("E501", message, help="prediction.frame() has its numbers"))
    canonical = prediction.canonical
    label = described(canonical.grounded.model, name)
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.figure(figsize=(8.2, 4.0), layout="constrained").subplots()
    flat = levels.reshape(len(LEVELS), -1)
    if not dims:
        draw_forest(ax, label, [ForestRow(name, flat[:, 0])])
        return ax
    grounded, dim = canonical.grounded, dims[0]
    index = grounded.indices[dim]
    asked = grounded.asked.get(dim)
    labels = [str(v) for v in (index.labels if asked is None else asked).tolist()]
    along = line(canonical, dim)
    if along is not None:
        places = np.arange(index.size) if asked is None else index.positions(asked)
        draw_curve(ax, _curve(label, along, places, flat))
    elif len(labels) <= FOREST:
        rows = [ForestRow(a, q) for a, q in zip(labels, flat.T, strict=True)]
        draw_forest(ax, label, rows)
    else:
        draw_sorted(ax, Curve("", label, dim, np.arange(1.0, 1.0 + len(labels)), flat, labels))
    return ax


def _curve(label: str, along: LinePositions, places: IntArray, flat: Array) -> Curve:
    """At the members that were asked for, a line in the order of its places."""
    x = along.x[places]
    named = None if along.labels is None else [along.labels[k] for k in places.tolist()]
    return Curve("", f"{label}, predicted", along.axis, x, flat, named)


def _chosen(prediction: Prediction) -> str:
    names = prediction.responses or prediction.unobserved
    if not names:
        raise MethodError(Diagnostic("E501", "the prediction has nothing to draw"))
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
