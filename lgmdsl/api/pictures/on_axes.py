"""fit.plot("f", ax=ax): quantities of a fit on matplotlib axes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.api.assess.pit import pit
from lgmdsl.api.pictures.drawings import (
    LARGEST,
    Panel,
    hyper_drawing,
    quantity_drawings,
    response_drawing,
    scalar_panel,
    scalar_row,
)
from lgmdsl.api.pictures.observed import Observations
from lgmdsl.api.pictures.pictures import GIVE_DATA, PIT, histogram, known_names, plot, unknown_name
from lgmdsl.arrays import AnyArray
from lgmdsl.dataset import Keys
from lgmdsl.errors import MethodError, ModelError, suggestion
from lgmdsl.plot.canvas import HEIGHT, WIDTH, check_matplotlib, shape
from lgmdsl.plot.pit import draw_pit
from lgmdsl.posterior.marginals import all_names, named_tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lgmdsl.posterior.fit_record import FitRecord


def drawn(
    fit: FitRecord,
    target: str | os.PathLike[str] | Sequence[str],
    ax: Axes | Sequence[Axes] | AnyArray | None,
    format: str,
    names: Sequence[str] | None,
    data: object,
    mapping: Keys | None,
) -> Any:
    """The axes that names are drawn on, or the files in a folder. See `Fit.plot`."""
    if isinstance(target, os.PathLike):
        return tuple(plot(fit, target, format, names, data, mapping).files)
    if isinstance(target, str) and ax is None and is_folder(fit, target):
        return tuple(plot(fit, target, format, names, data, mapping).files)
    return on_axes(fit, target, ax, data, mapping)


def is_folder(fit: FitRecord, target: str) -> bool:
    """Whether a text is no name. Raises ModelError E103 for what is nearly a name and no folder."""
    known = (*known_names(fit), PIT)
    if target in known:
        return False
    near = suggestion(target, known, "")
    if near and os.path.basename(target) == target and not os.path.isdir(target):
        error = unknown_name(fit, target).diagnostics[0]
        raise ModelError(replace(error, help=f'{near} A folder of that name: "./{target}"'))
    return True


def on_axes(
    fit: FitRecord,
    names: str | Sequence[str],
    ax: Axes | Sequence[Axes] | AnyArray | None = None,
    data: object = None,
    mapping: Keys | None = None,
) -> Any:
    """The axes that names are drawn on, one or an array of them. See `Fit.plot`."""
    check_matplotlib()
    observations = Observations(fit, data, mapping)
    single = isinstance(names, str)
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise ModelError.of("E108", "no names to draw", help='fit.plot(["f", "u"])')
    panels = [_panels(fit, name, observations) for name in wanted]
    given = None if ax is None else np.ravel(np.asarray(ax, dtype=object))
    whole = [p for parts in panels for p in parts]
    firsts = [parts[0] for parts in panels]
    shown = whole if given is None or len(given) == len(whole) else firsts
    if given is None:
        given = _new(len(shown))
    if len(given) < len(shown):
        message = f"{len(shown)} panels do not fit on {len(given)} axes"
        raise ModelError.of("E108", message, help="give one of `axes` for each name")
    for axes, panel in zip(given, shown, strict=False):
        panel(axes)
    return given[0] if single and len(shown) == 1 else given[: len(shown)]


def _panels(fit: FitRecord, name: str, observations: Observations) -> tuple[Panel, ...]:
    """How a name is drawn. Raises ModelError E103 for an unknown one, MethodError E501 for one that
    is fixed or has no picture."""
    canonical = fit.canonical
    if name not in known_names(fit):
        if name != PIT:
            raise unknown_name(fit, name)
        heights, count = histogram(pit(fit, data=observations.data, mapping=observations.mapping))
        hidden = observations.censored
        return (partial(draw_pit, heights=heights, count=count, censored=hidden),)
    if any(b.name == name for b in canonical.hypers.blocks):
        return hyper_drawing(fit, name) or _refused(name, "it is fixed, or has no density")
    if name not in all_names(canonical):
        if observations.canonical is None:
            return _refused(name, "its values are not in the result file", GIVE_DATA)
        drawing = response_drawing(observations, name)
        return _refused(name, "it has no quantiles, or very many rows") if drawing is None else (
            drawing.panels
        )  # fmt: skip
    dims = named_tree(canonical, name)[0]
    if np.prod(canonical.layout.shape(dims)) > LARGEST:
        return _refused(name, f"it has more than {LARGEST:,} entries")
    if not dims:
        row = scalar_row(fit, name)
        return _refused(name, "it is fixed, or not finite") if row is None else (scalar_panel(row),)
    drawings = quantity_drawings(fit, name, observations)
    return drawings[0].panels if drawings else _refused(name, "it is fixed, or not finite")


def _refused(name: str, reason: str, help: str = "") -> tuple[Panel, ...]:
    help = help or f'fit["{name}"] has its numbers'
    raise MethodError.of("E501", f"`{name}` cannot be drawn: {reason}", help=help)


def _new(count: int) -> Any:
    """(count,) new axes, on the figure that notebooks show."""
    import matplotlib.pyplot as plt

    rows, columns = shape(count)
    wide = WIDTH * columns if count > 1 else 8.2
    figure = plt.figure(figsize=(wide, HEIGHT * rows + (0.8 if count == 1 else 0.2)),
                        layout="constrained")  # fmt: skip
    grid = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    for axes in grid[count:]:
        axes.set_visible(False)
    return grid[:count]
