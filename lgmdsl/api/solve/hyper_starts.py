"""Where the search for hyperparameters begins: values that were given, else those of an earlier fit
of a model with hypers of the same names, else the middle of their priors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.hypers import HyperBlock, HyperSpace, as_value, unknown_hyper
from lgmdsl.errors import Diagnostic, LgmError, MethodError
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.remedies import pin, setting, start


def starting_values(
    space: HyperSpace, settings: FitSettings, earlier: Theta | None, way: str
) -> dict[str, Array]:
    """By name, of the hypers that do not start in the middle of their priors. Values of an
    `earlier` fit that do not suit this model are left out.

    Raises MethodError E103 for a name that no hyper has, E104 for one that is not learned;
    DataError E301 for a wrong shape, E303 for a value outside its type or its prior's range.
    """
    pinned: Mapping[str, object] = settings.fixed
    chosen: dict[str, Array] = {}
    for name, value in settings.start.items():
        block = space.block(name)
        if block is None:
            raise MethodError(unknown_hyper(name, tuple(b.name for b in space.blocks)))
        if way == "fixed" or name in pinned or block.value is not None:
            raise MethodError(_not_learned(block, name in pinned))
        chosen[name] = as_value(block, value, "to start from", start)
    if chosen:
        Coordinates(space, pinned).pack(space.start(pinned, chosen))
    if earlier is None or way == "fixed":
        return chosen
    for block in space.unpinned(pinned):
        one = earlier.get(block.name)
        if one is None or np.shape(one) != block.sizes or block.name in chosen:
            continue
        tried = {**chosen, block.name: np.asarray(one, dtype=np.float64)}
        try:
            Coordinates(space, pinned).pack(space.start(pinned, tried))
        except LgmError:
            continue
        chosen = tried
    return chosen


def _not_learned(block: HyperBlock, pinned: bool) -> Diagnostic:
    if pinned:
        why, help = "it is pinned", f"leave out {pin(block.name)}, or {start(block.name)}"
    elif block.value is not None:
        why = "the model gives its value"
        help = "start the hyperparameters that it is computed from, or give it a prior"
    else:
        why, help = (
            "hyperparameters are held fixed",
            f"take {setting('hyper', 'auto')}, or {pin(block.name)}",
        )
    return Diagnostic(
        "E104",
        f"hyper `{block.name}` has no start: it is not learned",
        block.span,
        why,
        help=help,
    )
