"""fit.plot(): the pictures of a fit, as files in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lgmdsl.api.pictures.compare_picture import check_matplotlib
from lgmdsl.api.pictures.hyper_pictures import panels
from lgmdsl.api.pictures.positions import LinePositions, MapPositions, line, places
from lgmdsl.api.summary.summary import learned_names
from lgmdsl.arrays import Array
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.dataset import Keys
from lgmdsl.errors import DataError, Diagnostic, LgmError, MethodError, ModelError, suggestion
from lgmdsl.files import write
from lgmdsl.plot.canvas import FORMATS
from lgmdsl.plot.effects import (
    LEVELS,
    Curve,
    ForestRow,
    curve_picture,
    forest_picture,
    sorted_picture,
)
from lgmdsl.plot.fields import Heat, Map, heat_picture, map_picture
from lgmdsl.plot.hypers import hyper_picture
from lgmdsl.plot.pit import pit_picture
from lgmdsl.posterior.marginals import all_names, named_tree

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit

FOREST = 40  # members of an index without an order that are drawn one by one
LARGEST = 1_000_000  # entries of a quantity that is drawn
PIT = "pit"
GIVE_DATA = "give the data of the fit: --data DATA, or data=... in Python"

Draw: TypeAlias = Callable[[str], bytes]


@dataclass
class Drawn:
    """`files` that were written, and why others were not: `left_out`, a line for each."""

    files: list[Path] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def plot(
    fit: Fit,
    directory: str | os.PathLike[str],
    format: str = "png",
    names: Sequence[str] | None = None,
    data: object = None,
    mapping: Keys | None = None,
) -> Drawn:
    """Draw, and write. See `Fit.plot`."""
    check_matplotlib()
    if format not in FORMATS:
        message = f"a picture's format is one of {', '.join(FORMATS)}, not `{format}`"
        raise ModelError(Diagnostic("E108", message))
    wanted = _wanted(fit, names)
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(Diagnostic("E306", f"cannot write to `{folder}`: {reason}")) from None
    drawn = Drawn()
    for name, draw in _pictures(fit, wanted, drawn.left_out, data, mapping):
        place = folder / f"{name}.{format}"
        write(place, draw(format))
        drawn.files.append(place)
    if not drawn.files:
        raise MethodError(
            Diagnostic(
                "E501",
                "there is nothing to draw",
                details=tuple(drawn.left_out),
                help="name quantities that are not fixed; `lgm summary FIT.nc` lists them",
            )
        )
    return drawn


def _wanted(fit: Fit, names: Sequence[str] | None) -> tuple[str, ...]:
    """The names to draw. Raises ModelError E103 for an unknown one."""
    canonical = fit.canonical
    latents = [n for n in canonical.latent_names if n not in canonical.named]
    known = dict.fromkeys([*latents, *canonical.named, *(b.name for b in canonical.hypers.blocks)])
    if names is None:
        return (*dict.fromkeys([*latents, *canonical.named, *learned_names(fit)]), PIT)
    for name in names:
        if name not in known and name != PIT:
            raise ModelError(
                Diagnostic(
                    "E103",
                    f"the model has no latent, let, report or hyper named `{name}`",
                    help=suggestion(name, (*known, PIT), f"it has: {', '.join(known)}"),
                )
            )
    return tuple(dict.fromkeys(names))


def _pictures(
    fit: Fit,
    wanted: Sequence[str],
    left_out: list[str],
    data: object,
    mapping: Keys | None,
) -> Iterator[tuple[str, Draw]]:
    """File names without endings, and what draws them."""
    canonical = fit.canonical
    hypers = {b.name for b in canonical.hypers.blocks}
    scalars: list[ForestRow] = []
    for name in wanted:
        if name in hypers or (name == PIT and name not in all_names(canonical)):
            continue
        dims = named_tree(canonical, name)[0]
        if not canonical.layout.shape(dims):
            quantiles = _quantiles(fit, name)
            if quantiles is None:
                left_out.append(f"{name}: it is fixed, or not finite")
            else:
                scalars.append(ForestRow(titled(canonical, name), quantiles.reshape(-1)))
        elif np.prod(canonical.layout.shape(dims)) > LARGEST:
            left_out.append(f"{name}: more than {LARGEST:,} entries")
        else:
            pictures = list(_effect(fit, name, dims))
            yield from pictures
            if not pictures:
                left_out.append(f"{name}: it is fixed, or not finite")
    if scalars:
        yield "scalars", partial(forest_picture, "Single quantities", "", scalars)
    learned = [n for n in learned_names(fit) if n in wanted]
    shown = panels(fit, learned)
    if shown:
        yield "hyper", partial(hyper_picture, "Hyperparameters", shown)
    drawn = {p.name.partition("[")[0] for p in shown}
    left_out.extend(f"{n}: it has no density" for n in wanted if n in hypers and n not in drawn)
    if PIT in wanted:
        try:
            found_pit = fit.pit(data=data, mapping=mapping)
        except LgmError as error:
            first = error.diagnostics[0]
            help = GIVE_DATA if first.code == "E305" and data is None else first.help
            left_out.append(f"{PIT}: {first.message}" + (f" ({help})" if help else ""))
        else:
            middle = np.concatenate([np.ravel(b.middle) for b in found_pit.blocks])
            count = int(np.isfinite(middle).sum())
            heights = found_pit.histogram(bins(count)).values
            title = "Leave-one-out probability integral transforms"
            yield PIT, partial(pit_picture, title, heights, count)


def bins(count: int) -> int:
    """Bars of a histogram of so many transforms: some ten in each, between 5 and 20."""
    return int(np.clip(count // 10, 5, 20))


def _effect(fit: Fit, name: str, dims: tuple[str, ...]) -> Iterator[tuple[str, Draw]]:
    """The pictures of an indexed quantity; none where it is fixed, or nowhere finite."""
    canonical = fit.canonical
    kind = "latent" if name in canonical.latent_names else _kind(canonical, name)
    title = titled(canonical, name, dims)
    quantity = fit.quantity(name)
    if not (np.isfinite(quantity.sd) & (quantity.sd > 0.0)).any():
        return
    if len(dims) == 2:
        axes = distinct(dims)
        labels = [[str(v) for v in canonical.layout.labels[d].tolist()] for d in dims]
        heat = Heat(title, (axes[0], axes[1]), (labels[0], labels[1]), quantity.mean, quantity.sd)
        yield f"{kind}_{name}", partial(heat_picture, heat)
        return
    along = line(canonical, dims[0]) if len(dims) == 1 else None
    where = places(canonical, dims[0]) if len(dims) == 1 else None
    if where is not None:
        field = Map(title, where.axes, where.places, quantity.mean, quantity.sd, where.ratio)
        yield f"map_{name}", partial(map_picture, field)
    quantiles = _quantiles(fit, name)
    if quantiles is not None:
        draw = _one_index(canonical, name, dims, title, quantiles, along, where)
        if draw is not None:
            yield f"{kind}_{name}", draw


def _one_index(
    canonical: CanonicalModel,
    name: str,
    dims: tuple[str, ...],
    title: str,
    quantiles: Array,
    along: LinePositions | None,
    where: MapPositions | None,
) -> Draw | None:
    """A curve, dots or sorted entries; None for many entries that a map shows already."""
    flat = quantiles.reshape(len(LEVELS), -1)
    if along is not None:
        return partial(curve_picture, Curve(title, name, along.axis, along.x, flat, along.labels))
    if flat.shape[1] <= FOREST:
        labels = [""]
        for dim in dims:
            members = [str(v) for v in canonical.layout.labels[dim].tolist()]
            labels = [f"{a}, {b}" if a else b for a in labels for b in members]
        rows = [ForestRow(label, q) for label, q in zip(labels, flat.T, strict=True)]
        return partial(forest_picture, title, name, rows)
    if where is not None:
        return None
    axis = ", ".join(dims)
    return partial(
        sorted_picture, Curve(title, name, axis, np.arange(1.0, 1.0 + flat.shape[1]), flat)
    )


def _quantiles(fit: Fit, name: str) -> Array | None:
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


def _kind(canonical: CanonicalModel, name: str) -> str:
    symbol = canonical.grounded.model.symbols.get(name)
    return symbol.kind if symbol is not None else "latent"
