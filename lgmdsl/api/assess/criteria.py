"""fit.dic() and fit.waic(): information criteria, labelled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.assess.components import assessed
from lgmdsl.api.assess.observations import Observations
from lgmdsl.api.page import counted, wrapped
from lgmdsl.assess.criteria import (
    deviances,
    drawn_deviances,
    drawn_waic_terms,
    standard_error,
    waic_terms,
)
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Rows
from lgmdsl.dataset import Keys
from lgmdsl.html import Paged

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.posterior.fit_record import FitRecord

# Above this posterior variance of a log density its WAIC is unreliable (Vehtari, Gelman and
# Gabry 2017, section 2.3).
MOST_EFFECTIVE = 0.4


@dataclass(frozen=True, eq=False)
class Dic(Paged):
    """Deviance information criterion of a fit, D = -2 log p(y | predictors, hypers).

    `mean_deviance` is its posterior mean; `deviance_at_mean` is, as in R-INLA, at the posterior
    mean of the predictors (and the hyperparameters of largest weight, under `hyper = vb` those
    whose precisions are expected); `p_d` their difference, the effective number of parameters;
    `dic` = mean_deviance + p_d, with its Monte Carlo `error` where the posterior is made of exact
    draws (0 else). No saturated deviance is taken off.
    """

    mean_deviance: float
    deviance_at_mean: float
    observations: Observations = field(repr=False)
    local_mean: Rows = field(repr=False)
    local_at_mean: Rows = field(repr=False)
    error: float = 0.0

    @property
    def p_d(self) -> float:
        return self.mean_deviance - self.deviance_at_mean

    @property
    def dic(self) -> float:
        return self.mean_deviance + self.p_d

    def pointwise(self, name: str | None = None) -> xr.DataArray:
        """Each response's share of `dic`; the name may be left out where one datum is observed."""
        pairs = zip(self.local_mean, self.local_at_mean, strict=True)
        return self.observations.labelled([2.0 * a - b for a, b in pairs], name)

    def __str__(self) -> str:
        return "\n".join(
            [
                _title("DIC", self.local_mean),
                f"  mean deviance         {self.mean_deviance:.2f}",
                f"  effective parameters  {self.p_d:.2f}",
                f"  DIC                   {self.dic:.2f}{_noise(self.error)}",
            ]
        )


@dataclass(frozen=True, eq=False)
class Waic(Paged):
    """Widely applicable information criterion of a fit.

    `elpd` = lppd - p_waic estimates the expected log density of new responses, with the standard
    error `se`; `waic` = -2 elpd. `lppd`: sum of log posterior means of p(y_i | s_i); `p_waic`: sum
    of the posterior variances of log p(y_i | s_i). `error`: the Monte Carlo error of `elpd`, where
    the posterior is made of exact draws (0 else).
    """

    elpd: float
    se: float
    lppd: float
    p_waic: float
    observations: Observations = field(repr=False)
    local_lppd: Rows = field(repr=False)
    local_effective: Rows = field(repr=False)
    error: float = 0.0

    @property
    def waic(self) -> float:
        return -2.0 * self.elpd

    @property
    def doubtful(self) -> int:
        """How many responses have a variance of log p(y_i | s_i) above 0.4."""
        return int(sum(np.sum(p > MOST_EFFECTIVE) for p in self.local_effective))

    def pointwise(self, name: str | None = None) -> xr.DataArray:
        """Each response's share of `elpd`."""
        pairs = zip(self.local_lppd, self.local_effective, strict=True)
        return self.observations.labelled([a - b for a, b in pairs], name)

    def effective(self, name: str | None = None) -> xr.DataArray:
        """Each response's share of `p_waic`."""
        return self.observations.labelled(self.local_effective, name)

    def __str__(self) -> str:
        lines = [
            _title("WAIC", self.local_lppd),
            f"  elpd                  {self.elpd:.2f}, standard error {self.se:.2f}"
            f"{_noise(self.error)}",
            f"  effective parameters  {self.p_waic:.2f}",
            f"  WAIC                  {self.waic:.2f}",
        ]
        if self.doubtful:
            text = (
                f"{counted(self.doubtful, 'response')} with a log density of variance above "
                f"{MOST_EFFECTIVE}: rather ask for fit.loo()"
            )
            lines += wrapped(f"  doubtful              {text}", 0, 24)
        return "\n".join(lines)


def dic(fit: FitRecord, data: object = None, mapping: Keys | None = None) -> Dic:
    """The DIC of a fit. Raises MethodError and DataError as `assessed`."""
    asked = assessed(fit, data, mapping, "dic")
    if asked.drawn is None:
        parts, error = deviances(asked.components, asked.at_points), 0.0
    else:
        parts = drawn_deviances(asked.drawn)
        error = parts.error
    return Dic(
        rows.total(parts.mean),
        rows.total(parts.at_mean),
        asked.observations,
        parts.mean,
        parts.at_mean,
        error,
    )


def waic(fit: FitRecord, data: object = None, mapping: Keys | None = None) -> Waic:
    """The WAIC of a fit. Raises MethodError and DataError as `assessed`."""
    asked = assessed(fit, data, mapping, "waic", apart=True)
    if asked.drawn is None:
        parts, error = waic_terms(asked.components), 0.0
    else:
        parts = drawn_waic_terms(asked.drawn)
        error = parts.error
    lppd, effective = rows.total(parts.lppd), rows.total(parts.effective)
    local = tuple(a - b for a, b in zip(parts.lppd, parts.effective, strict=True))
    return Waic(
        lppd - effective,
        standard_error(local),
        lppd,
        effective,
        asked.observations,
        parts.lppd,
        parts.effective,
        error,
    )


def _noise(error: float) -> str:
    """The Monte Carlo error of draws."""
    return f", Monte Carlo error {error:.2g}" if error > 0.0 else ""


def _title(name: str, local: Rows) -> str:
    return f"{name} of {counted(sum(len(x) for x in local), 'response')}"
