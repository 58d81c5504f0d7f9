"""Is a mean zero, as far as its draws can tell?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lgmdsl.arrays import Array

_STANDARD_ERRORS = 5.5


def is_zero(values: Array, label: str) -> Iterator[str]:
    """A sentence where the mean of `values` is further from 0 than 5.5 standard errors."""
    mean = float(np.mean(values))
    error = float(np.std(values)) / np.sqrt(len(values))
    # A rare value of up to 20 may be missing from the draws altogether.
    if abs(mean) > _STANDARD_ERRORS * error + 20.0 / len(values):
        yield f"{label} is {mean:.4g}, {abs(mean) / max(error, 1e-300):.1f} standard errors from 0"
