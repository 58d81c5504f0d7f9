"""fit.plot(): the pictures of a fit, as files in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.assess.pit import pit
from lgmdsl.api.pictures.drawings import (
    LARGEST,
    Draw,
    Panel,
    quantity_drawings,
    response_drawing,
    scalar_row,
)
from lgmdsl.api.pictures.hyper_pictures import panels
from lgmdsl.api.pictures.observed import Observations
from lgmdsl.api.summary.summary import learned_names
from lgmdsl.dataset import Keys
from lgmdsl.errors import DataError, LgmError, MethodError, ModelError, suggestion
from lgmdsl.files import write
from lgmdsl.plot.canvas import FORMATS, MAX_PANELS, check_matplotlib, panel_picture
from lgmdsl.plot.effects import ForestRow, forest_picture
from lgmdsl.plot.hypers import hyper_picture
from lgmdsl.plot.pit import pit_picture
from lgmdsl.posterior.marginals import all_names, named_tree
from lgmdsl.remedies import either, setting

if TYPE_CHECKING:
    from lgmdsl.api.assess.pit import Pit
    from lgmdsl.arrays import Array
    from lgmdsl.posterior.fit_record import FitRecord

PIT = "pit"
GIVE_DATA = "give the data of the fit: --data DATA, or data=... in Python"


@dataclass
class Drawn:
    """`files` that were written, and why others were not: `left_out`, a line for each."""

    files: list[Path] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def plot(
    fit: FitRecord,
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
        raise ModelError.of("E108", message, help=setting("format", FORMATS[0]))
    wanted = _wanted(fit, names)
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError.of(
            "E306",
            f"cannot write to `{folder}`: {reason}",
            help=either(
                "name another folder: -o pictures", 'name another folder: fit.plot("pictures")'
            ),
        ) from None
    drawn = Drawn()
    for name, draw in _pictures(fit, wanted, drawn.left_out, data, mapping):
        place = folder / f"{name}.{format}"
        write(place, draw(format))
        drawn.files.append(place)
    if not drawn.files:
        raise MethodError.of(
            "E501",
            "there is nothing to draw",
            details=tuple(drawn.left_out),
            help="name quantities that are not fixed; `lgm summary FIT.nc` lists them",
        )
    return drawn


def known_names(fit: FitRecord) -> tuple[str, ...]:
    """What can be drawn by name: latents, lets, reports, hypers, and observed data."""
    canonical = fit.canonical
    latents = [n for n in canonical.latent_names if n not in canonical.named]
    hypers = [b.name for b in canonical.hypers.blocks]
    return tuple(dict.fromkeys([*latents, *canonical.named, *hypers, *_observed(fit)]))


def _observed(fit: FitRecord) -> tuple[str, ...]:
    return tuple(b.name for b in fit.canonical.blocks if not b.family.spec.potential)


def unknown_name(fit: FitRecord, name: str) -> ModelError:
    """E103 for a name that the model does not have."""
    known = known_names(fit)
    help = suggestion(name, (*known, PIT), f"it has: {', '.join(known)}")
    message = f"the model has no latent, let, report, hyper or observed datum named `{name}`"
    return ModelError.of("E103", message, help=help)


def _wanted(fit: FitRecord, names: Sequence[str] | None) -> tuple[str, ...]:
    """The names to draw. Raises ModelError E103 for an unknown one."""
    canonical, known = fit.canonical, known_names(fit)
    if names is None:
        latents = [n for n in canonical.latent_names if n not in canonical.named]
        learned = learned_names(fit)
        return (*dict.fromkeys([*latents, *canonical.named, *learned, *_observed(fit)]), PIT)
    for name in names:
        if name not in known and name != PIT:
            raise unknown_name(fit, name)
    return tuple(dict.fromkeys(names))


def _pictures(
    fit: FitRecord,
    wanted: Sequence[str],
    left_out: list[str],
    data: object,
    mapping: Keys | None,
) -> Iterator[tuple[str, Draw]]:
    """File names without endings, and what draws them."""
    canonical, observations = fit.canonical, Observations(fit, data, mapping)
    hypers = {b.name for b in canonical.hypers.blocks}
    quantities = all_names(canonical)
    scalars: list[ForestRow] = []
    terms: list[tuple[Panel, ...]] = []
    for name in wanted:
        if name in hypers or name not in quantities:
            continue
        dims = named_tree(canonical, name)[0]
        size = np.prod(canonical.layout.shape(dims))
        if size > LARGEST:
            left_out.append(f"{name}: more than {LARGEST:,} entries")
            continue
        if not dims:
            row = scalar_row(fit, name)
            scalars += [] if row is None else [row]
            known = row is not None
        else:
            drawings = quantity_drawings(fit, name, observations)
            yield from ((d.file, d.picture) for d in drawings)
            known = bool(drawings)
            if known and name in canonical.latent_names:
                terms.append(drawings[0].terms)
        if not known:
            left_out.append(f"{name}: it is fixed, or not finite")
    if scalars:
        yield "scalars", partial(forest_picture, "Single quantities", "", scalars)
    if len(terms) > 1:
        each = [panel for of_latent in terms for panel in of_latent]
        title = "Terms of the model" + (
            f", the first {MAX_PANELS}" if len(each) > MAX_PANELS else ""
        )
        yield "terms", partial(panel_picture, title, each)
    learned = [n for n in learned_names(fit) if n in wanted]
    shown = panels(fit, learned)
    if shown:
        yield "hyper", partial(hyper_picture, "Hyperparameters", shown)
    drawn = {p.name.partition("[")[0] for p in shown}
    left_out.extend(f"{n}: it has no density" for n in wanted if n in hypers and n not in drawn)
    for name in (n for n in _observed(fit) if n in wanted and n not in quantities):
        drawing = response_drawing(observations, name)
        if drawing is not None:
            yield drawing.file, drawing.picture
        elif observations.canonical is not None:
            left_out.append(f"{name}: it has no quantiles, or very many rows")
        elif PIT not in wanted:
            left_out.append(f"{name}: its values are needed ({GIVE_DATA})")
    if PIT in wanted:
        try:
            transforms = pit(fit, data=data, mapping=mapping)
        except LgmError as error:
            first = error.diagnostics[0]
            help = GIVE_DATA if first.code == "E305" and data is None else first.help
            left_out.append(f"{PIT}: {first.message}" + (f" ({help})" if help else ""))
        else:
            title = "Leave-one-out probability integral transforms"
            yield PIT, partial(pit_picture, title, *histogram(transforms), observations.censored)


def histogram(pit: Pit) -> tuple[Array, int]:
    """Heights of bars (K,), and the number of transforms."""
    middle = np.concatenate([np.ravel(b.middle) for b in pit.blocks])
    count = int(np.isfinite(middle).sum())
    return pit.histogram(bins(count)).values, count


def bins(count: int) -> int:
    """Bars of a histogram of so many transforms: some ten in each, between 5 and 20."""
    return int(np.clip(count // 10, 5, 20))
