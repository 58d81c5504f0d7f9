"""Whether a standard deviation taken by draws is known: not where few draws carry it."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.errors import NOWHERE, Diagnostic, Span

# The relative standard error of an sd above which it is said: two of them are 10 %. Of
# 4,000 draws of a normal it is 0.011, of e^z 0.06 to 0.1, of e^{1.5 z} 0.1 to 0.3.
MOST = 0.05


def sd_error(draws: Array, worth: float) -> Array:
    """The relative Monte Carlo standard error of the sds of draws (k, ...), which are worth so many
    independent ones: (...); 0 where all are the same or some are not finite."""
    with np.errstate(all="ignore"):
        return root_error((draws - draws.mean(axis=0)) ** 2, worth)


def root_error(terms: Array, worth: float) -> Array:
    """Relative standard errors of roots of means of terms of at least 0, (k, ...) to (...)."""
    with np.errstate(all="ignore"):
        unit = terms / terms.max(axis=0)
        error = 0.5 * unit.std(axis=0) / unit.mean(axis=0) / np.sqrt(worth)
    return np.asarray(np.nan_to_num(error, nan=0.0))


def of_few_draws(
    message: str, errors: Array, help: str = "", span: Span = NOWHERE
) -> tuple[Diagnostic, ...]:
    """W611 where the relative `errors` of sds are too large; `span`: the statement of what they are
    the sds of."""
    doubtful = int((errors > MOST).sum())
    if not doubtful:
        return ()
    some = f"the Monte Carlo error of the sd is {100.0 * errors.max():.0f} %"
    if errors.size > 1:
        some += f", and more than {100.0 * MOST:.0f} % of {doubtful:,} of {errors.size:,}"
    known = f"the quantiles are right{help}"
    return (Diagnostic("W611", message, span, details=(some,), help=known, severity="warning"),)
