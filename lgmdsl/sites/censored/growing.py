"""E[l] of censored sites whose log survivor function falls like an exponential of s.

l = r(s) - e^{(a - direction s) / scale + shift}: the exponential's expectation and derivatives are
in closed form, as no quadrature could have them (its mass is sd / scale sds from the mean); what is
left grows linearly at most, and is averaged by quadrature.
"""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.numerics.expectations.expectation import expectations
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.censored.censored import CensoredSite


def expected_of_growing(
    site: CensoredSite, mean: Array, variance: Array, second: bool
) -> ExpectedAnswer:
    """f and its derivatives, (N,) each; rows observed exactly answer as their family does."""
    out = np.zeros((5, len(mean)))
    free, censored = site.rows
    if len(free):
        observed = cast(Expected, site.observed_rows)
        answer = observed.expected(mean[free], variance[free], second=True)
        assert answer.d_mean_variance is not None and answer.d_variance2 is not None
        out[:, free] = [
            answer.value,
            answer.d_mean,
            answer.d_variance,
            answer.d_mean_variance,
            answer.d_variance2,
        ]
    if len(censored):
        out[:, censored] = _censored(site.censored_rows, mean[censored], variance[censored])
    return ExpectedAnswer(out[0], out[1], out[2], *(out[3:] if second else ()))


def _censored(site: CensoredSite, mean: Array, variance: Array) -> Array:
    rate = -site.direction / site.spread
    sd = np.maximum(np.sqrt(variance), 1e-12 * np.maximum(1.0, np.abs(mean)))
    columns = _columns(site)

    def stacked(rows: IntArray, s: Array, t: Array) -> Array:
        some, by = columns.take(rows), rate[rows][:, None]
        value, first, second, third = some.masses(s).rest.parts
        last = 0.25 * by**3 * third * t / sd[rows][:, None]
        return np.stack([value, by * first, 0.5 * by**2 * second, 0.5 * by**3 * third, last])

    centre, scale = site.landmark()
    rest = expectations(stacked, mean, sd, centre, scale, checked=True)
    low = site.ends[0]
    open_ = np.isneginf(low)
    a = (np.where(open_, 0.0, low) - site.direction * mean) / site.spread
    log_growth = site.law().log_growth(a)
    assert log_growth is not None
    grown = np.where(open_, 0.0, capped_exp(log_growth + 0.5 * rate**2 * variance))
    factors = (1.0, rate, 0.5 * rate**2, 0.5 * rate**3, 0.25 * rate**4)
    return rest - np.stack([factor * grown for factor in factors])


def _columns(site: CensoredSite) -> CensoredSite:
    fields = {f.name: getattr(site, f.name)[:, None] for f in dataclasses.fields(site)}
    return dataclasses.replace(site, **fields)
