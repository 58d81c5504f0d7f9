"""Quantities over two indices: curves by group, cells as dots with whiskers, a panel for each
member of the shorter index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import COLOURS, GREY, entry, legend, picture, short, zero_line
from lgmdsl.plot.effects import (
    FOREST,
    LEVELS,
    Curve,
    ForestRow,
    along_ticks,
    draw_forest,
    draw_sorted,
    narrower,
)
from lgmdsl.plot.panels import panel_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUPS = len(COLOURS)  # that have a colour each
THREADS = 40  # groups that have a line each; more are a heat map
CELL = 4.0  # points across the median of a cell
UNLIKE = 3.0  # times that the numbers of one group may be as large as another's on one axis


@dataclass(frozen=True)
class TwoWay:
    """A quantity over members (n of them along `axis`) and groups (k, of the index `by`): quantiles
    (5, n, k) at `effects.LEVELS`. `x` (n,): where members lie on a line, None where they have no
    order; `labels`: of the members, None where x says all."""

    title: str
    name: str
    axis: str
    by: str
    groups: Sequence[str]
    quantiles: Array
    x: Array | None = None
    labels: Sequence[str] | None = None

    @property
    def apart(self) -> bool:
        """Whether each group has a panel of its own: many members without an order, or numbers of
        unlike size, as of levels and slopes."""
        if self.x is not None or len(self.groups) == 1:
            return False
        sizes = np.nanmax(np.abs(self.quantiles[[0, 4]]), axis=(0, 1))
        unlike = float(np.nanmax(sizes)) > UNLIKE * float(np.nanmin(sizes))
        return self.quantiles.shape[1] > FOREST or unlike


class Along(Protocol):
    """Where the members of an index lie along a line: `x` (n,), under the name `axis`, and their
    `labels` where x only numbers them."""

    @property
    def x(self) -> Array: ...
    @property
    def axis(self) -> str: ...
    @property
    def labels(self) -> Sequence[str] | None: ...


def two_way(
    called: tuple[str, str],
    dims: Sequence[str],
    labels: Sequence[Sequence[str]],
    levels: Array,
    along: Sequence[Along | None],
    crossed: int = GROUPS,
) -> TwoWay | None:
    """Quantiles (5, n, k, ...) of a quantity, `called` by its title and its name, as lines by group
    along the longest order, else cells: the groups are the members of the other indices together.
    None where these would not be told apart, which of several orders are more than `crossed`."""
    sizes = [len(some) for some in labels]
    ordered = [k for k in range(len(dims)) if along[k] is not None]
    member = max(ordered or range(len(dims)), key=lambda k: sizes[k])
    others = [k for k in range(len(dims)) if k != member]
    groups = [", ".join(g) for g in product(*(labels[k] for k in others))]
    places = along[member]
    most = GROUPS if places is None else THREADS if len(ordered) == 1 else crossed
    if len(groups) > most:
        return None
    return TwoWay(
        *called,
        dims[member] if places is None else places.axis,
        ", ".join(dims[k] for k in others),
        groups,
        np.moveaxis(levels, 1 + member, 1).reshape(len(LEVELS), sizes[member], -1),
        None if places is None else places.x,
        labels[member] if places is None else places.labels,
    )


def two_way_picture(table: TwoWay, format: str = "png") -> bytes:
    """Raises ImportError without matplotlib."""
    if table.apart:
        count = range(len(table.groups))
        panels = [lambda axes, k=k: draw_group(axes, table, k) for k in count]
        return panel_picture(table.title, panels, format)
    if table.x is not None:
        return picture(lambda f: draw_lines(f.subplots(), table), table.title, 8.2, 4.4, format)
    height = 1.4 + 0.13 * table.quantiles.shape[1] * (1 + len(table.groups))
    draw: Any = lambda f: draw_cells(f.subplots(), table)  # noqa: E731
    return picture(draw, table.title, 7.2, float(np.clip(height, 2.4, 12.0)), format)


def two_way_panels(table: TwoWay) -> list[Callable[..., None]]:
    """What draws each panel on axes, with `table` to be given: all groups in one, or each in its
    own."""
    if table.apart:
        return [partial(draw_group, group=k) for k in range(len(table.groups))]
    return [draw_cells if table.x is None else draw_lines]


def draw_lines(axes: Axes, table: TwoWay) -> None:
    """A line for each group over the members, with 90 % bands where groups have colours."""
    assert table.x is not None
    order = np.argsort(table.x, kind="stable")
    x, quantiles = table.x[order], table.quantiles[:, order]
    coloured = len(table.groups) <= GROUPS
    for k, group in enumerate(table.groups):
        low, middle, high = quantiles[0, :, k], quantiles[2, :, k], quantiles[4, :, k]
        colour = COLOURS[k] if coloured else COLOURS[0]
        named = "" if coloured else f"median, one line for each of {len(table.groups)} {table.by}"
        label = entry(group, 20) if coloured else named if k == 0 else "_"
        width, alpha = (1.6, 1.0) if coloured else (0.8, 0.6)
        axes.plot(x, middle, color=colour, linewidth=width, alpha=alpha, label=label)
        if coloured:
            axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0.0)
    along_ticks(axes, table.x, table.labels)
    axes.margins(x=0.01)
    zero_line(axes, "y", *axes.get_ylim())
    axes.set_ylabel(short(table.name, 40))
    axes.set_xlabel(short(table.axis, 70))
    _legend(axes, f"{table.by}, median and 90 %" if coloured else "")


def draw_cells(axes: Axes, table: TwoWay) -> None:
    """A dot with whiskers for each cell, a row for each member and a colour for each group."""
    count, groups = table.quantiles.shape[1:]
    places = np.arange(count)[::-1]
    drawn = []
    for k, group in enumerate(table.groups):
        q = table.quantiles[:, :, k]
        at = places + 0.7 * (0.5 - (k + 0.5) / groups)
        colour = COLOURS[k]
        axes.hlines(at, q[0], q[4], color=colour, linewidth=1.0)
        axes.hlines(at, q[1], q[3], color=colour, linewidth=2.6)
        axes.plot([], [], "o-", color=colour, markersize=4.0, label=entry(group, 20))
        drawn.append((q[2], at, q[4] - q[0], colour))
    hidden = False
    for median, at, widths, colour in drawn:
        narrow = narrower(axes, "x", widths, CELL)
        hidden |= bool(narrow.any())
        for rows, color in ((~narrow, "white"), (narrow, colour)):
            axes.plot(median[rows], at[rows], "o", color=color, markeredgecolor=colour,
                      markersize=CELL, zorder=3)  # fmt: skip
    axes.set_yticks(places, [entry(a, 40) for a in table.labels or ()], fontsize=9.0)
    axes.set_ylim(-0.6, count - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    zero_line(axes, "x", *axes.get_xlim())
    axes.set_xlabel(short(table.name, 70))
    axes.set_ylabel(short(table.axis, 30))
    within = "\nfull dots: 90 % within" if hidden else ""
    _legend(axes, f"{table.by}: median, 50 % and 90 %{within}")


def draw_group(axes: Axes, table: TwoWay, group: int) -> None:
    """The members of one group, one by one or sorted."""
    flat, labels = table.quantiles[:, :, group], list(table.labels or ())
    if len(labels) <= FOREST:
        draw_forest(axes, "", [ForestRow(a, q) for a, q in zip(labels, flat.T, strict=True)])
    else:
        x = np.arange(1.0, 1.0 + len(labels))
        draw_sorted(axes, Curve("", "", table.axis, x, flat, labels))
    heading = f"{short(table.name, 20)}, {table.by}: {entry(table.groups[group], 20)}"
    axes.set_title(heading, loc="left", fontsize=9.0, color=GREY, pad=16.0)


def _legend(axes: Axes, title: str) -> None:
    """The groups' colours next to the axes, where they are several."""
    if len(axes.get_legend_handles_labels()[1]) == 1:
        legend(axes)
        return
    axes.legend(
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        frameon=False,
        fontsize=8.5,
        title=short(title, 40),
        title_fontsize=8.5,
        alignment="left",
    )
