"""What a prior refuses: an argument, what is wanted of it, and a remedy.

A prior knows nothing of the model's text; the canonical form adds the place.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.errors import Diagnostic, LgmError


class Unsuitable(LgmError):
    """E303: an argument that a prior cannot take."""

    def __init__(self, argument: str, message: str, label: str = "", help: str = "") -> None:
        self.argument = argument
        self.diagnostic = Diagnostic("E303", message, label=label, help=help)
        super().__init__(Diagnostic("E303", message, details=(label,) if label else (), help=help))


def require(
    fine: BoolArray | bool, prior: str, argument: str, value: Array, wanted: str, help: str = ""
) -> None:
    """Raise Unsuitable, with the first entry of `value` at fault, unless all of `fine` holds."""
    whole = np.broadcast_arrays(np.asarray(fine), value)
    if whole[0].all():
        return
    worst = float(whole[1][~whole[0]].reshape(-1)[0])
    raise Unsuitable(
        argument,
        f"`{argument}` of `{prior}` must be {wanted}",
        f"is {worst:g}",
        help or f"give {argument} a value that is {wanted}",
    )
