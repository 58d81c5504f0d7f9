"""fit.loo(): leave-one-out and leave-group-out predictive densities, labelled."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.assess.components import Assessed, assessed
from lgmdsl.api.assess.groups import grouped
from lgmdsl.api.assess.observations import Places
from lgmdsl.api.assess.refits import Refits, SharedFit, without
from lgmdsl.api.jobs import workers_for
from lgmdsl.api.page import counted, wrapped
from lgmdsl.arrays import BoolArray, IntArray
from lgmdsl.assess import loo as one
from lgmdsl.assess.criteria import density, standard_error
from lgmdsl.assess.drawn import left_out
from lgmdsl.assess.drawn.criteria import waic_terms
from lgmdsl.assess.drawn.levels import PosteriorDraws
from lgmdsl.assess.failure import WORDS, Failure
from lgmdsl.assess.groups import groups_out
from lgmdsl.assess.mixture import log_mean, weights_of
from lgmdsl.assess.refit import RefitWithout
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Rows
from lgmdsl.dataset import Keys
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.html import Paged
from lgmdsl.remedies import number
from lgmdsl.workers.opened import check_jobs
from lgmdsl.workers.task import Jobs

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.posterior.fit_record import FitRecord

# So many of the worst are shown.
SHOWN = 6
# Quasi-random points for each group that is not Gaussian.
POINTS = 4096
FEWEST = 512
# Flags that a fit without the response removes.
REFITTED = (Failure.influential, Failure.tail, Failure.not_finite)


@dataclass(frozen=True, eq=False)
class Loo(Paged):
    """Predictive densities of what was left out, response by response or group by group.

    `elpd`: the sum of log p(y_i | y_-i), NaN where one of them does not exist; `se`: its standard
    error over the responses (or groups); `error`: the Monte Carlo error of the sum, 0 where every
    integral is by quadrature or exact. `p_loo`: the effective number of parameters, the sum of
    log p(y_i | y) - log p(y_i | y_-i); None for groups. A row leaves with its weight, y_i is
    predicted without it, and each response's terms are multiplied by it (those of groups are not).
    """

    elpd: float
    se: float
    error: float
    p_loo: float | None
    places: Places = field(repr=False)
    log_density: Rows = field(repr=False)
    errors: Rows = field(repr=False)
    flag: tuple[IntArray, ...] = field(repr=False)
    refitted: tuple[BoolArray, ...] = field(repr=False)

    @property
    def flagged(self) -> int:
        """How many are flagged, the influential ones too."""
        return int(sum(np.sum(f > Failure.none) for f in self.flag))

    @property
    def failed(self) -> int:
        """How many have no value, or a meaningless one."""
        return int(sum(np.sum(f > Failure.influential) for f in self.flag))

    @property
    def looic(self) -> float:
        """-2 elpd."""
        return -2.0 * self.elpd

    def pointwise(self, name: str | None = None) -> xr.DataArray:
        """log p(y_i | y_-i), times the weight of the row, NaN for rows that are no responses: those
        missing, and those of weight 0; the name may be left out where one datum is observed."""
        return self.places.labelled(self.log_density, name)

    def pointwise_error(self, name: str | None = None) -> xr.DataArray:
        """Monte Carlo standard errors of `pointwise`."""
        return self.places.labelled(self.errors, name)

    def flags(self, name: str | None = None) -> xr.DataArray:
        """Why a value is unreliable, in words; empty for reliable ones."""
        words = np.array([WORDS[f] for f in Failure])
        return self.places.labelled([words[f] for f in self.flag], name)

    def __str__(self) -> str:
        total = counted(sum(len(f) for f in self.flag), self.places.word)
        noise = f", Monte Carlo error {self.error:.2g}" if self.error > 0 else ""
        lines = [
            f"leave-one-out of {total}",
            f"  elpd                  {self.elpd:.2f}, standard error {self.se:.2f}{noise}",
        ]
        if self.p_loo is not None:
            lines.append(f"  effective parameters  {self.p_loo:.2f}")
        refitted = int(sum(np.sum(r) for r in self.refitted))
        if refitted:
            lines.append(f"  fitted again without  {counted(refitted, self.places.word)}")
        if self.flagged:
            lines.append(f"  flagged               {self.flagged}, of which {self.failed} failed")
            worst = [(int(f), k, i) for k, b in enumerate(self.flag) for i, f in enumerate(b) if f]
            worst.sort(key=lambda w: -w[0])
            for flag, k, i in worst[:SHOWN]:
                text = f"    {self.places.entry(k, i)}: {WORDS[Failure(flag)]}"
                lines += wrapped(text, 0, 6)
            if any(f in REFITTED for f, _, _ in worst):
                advice = "fit.loo(exact=True) fits again without each that is flagged"
                lines += wrapped(f"  help                  {advice}", 0, 24)
        return "\n".join(lines)


def loo(
    fit: FitRecord,
    groups: object = None,
    exact: bool | str = False,
    n: int = POINTS,
    seed: int = 0,
    data: object = None,
    mapping: Keys | None = None,
    jobs: Jobs = None,
) -> Loo:
    """Leave out each response, or each group. See `Fit.loo`."""
    check_jobs(jobs)
    if exact not in (False, True, "all"):
        message = f"`exact` is true (what is flagged), false or all, not {exact!r}"
        raise MethodError(Diagnostic("E108", message, help='fit.loo(exact="all")'))
    for name, value, least in (("n", n, FEWEST), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            message = f"`{name}` must be a whole number not below {least}"
            raise MethodError(
                Diagnostic("E108", message, details=(f"got {value!r}",), help=number(name, least))
            )
    together = groups is not None
    asked = assessed(fit, data, mapping, "loo", together, removes=True)
    refit = without(fit, asked, int(seed)) if exact else None
    every = exact == "all"
    with workers_for(jobs if exact else None, fit.model.tree) as workers:
        if workers is not None and refit is not None:
            shared = SharedFit(replace(fit, canonical=asked.canonical), together, int(seed))
            refit = replace(refit, elsewhere=Refits(workers, shared, asked))
        return _loo(asked, groups, refit, every, int(n), int(seed))


def _loo(
    asked: Assessed,
    groups: object,
    refit: RefitWithout | None,
    every: bool,
    n: int,
    seed: int,
) -> Loo:
    if asked.drawn is not None:
        return _of_draws(asked, asked.drawn, groups, refit, every)
    if groups is not None:
        return _groups(asked, groups, refit, every, n, seed)
    blocks = one.loo(asked.components, refit, every)
    weight = weights_of(asked.components)
    times = asked.components[0].row_weights
    inside = [
        times[k] * log_mean(weight, np.stack([density(c, k) for c in asked.components]))
        for k in range(len(blocks))
    ]
    local = tuple(w * b.log_density for w, b in zip(times, blocks, strict=True))
    errors = tuple(w * b.error for w, b in zip(times, blocks, strict=True))
    elpd = rows.total(local)
    return Loo(
        elpd=elpd,
        se=standard_error(local),
        error=float(np.sqrt(rows.total(tuple(e**2 for e in errors)))),
        p_loo=rows.total(tuple(inside)) - elpd,
        places=asked.observations,
        log_density=local,
        errors=errors,
        flag=tuple(b.flag for b in blocks),
        refitted=tuple(b.refitted for b in blocks),
    )


def _groups(
    asked: Assessed,
    groups: object,
    refit: one.Refit | None,
    every: bool,
    n: int,
    seed: int,
) -> Loo:
    places, members = grouped(groups, asked.canonical, asked.observations)
    densities = groups_out(asked.components, members, n, seed, refit, every)
    return Loo(
        elpd=float(densities.log_density.sum()),
        se=standard_error((densities.log_density,)),
        error=float(np.sqrt(np.sum(densities.error**2))),
        p_loo=None,
        places=places,
        log_density=(densities.log_density,),
        errors=(densities.error,),
        flag=(densities.flag,),
        refitted=(densities.refitted,),
    )


def _of_draws(
    asked: Assessed,
    draws: PosteriorDraws,
    groups: object,
    refit: RefitWithout | None,
    every: bool,
) -> Loo:
    """By exact draws of the posterior, reweighted; by new ones where it is fitted again."""
    places: Places = asked.observations
    if groups is None:
        blocks = left_out.loo(draws, False, refit, every)
    else:
        places, members = grouped(groups, asked.canonical, asked.observations)
        blocks = (left_out.groups_out(draws, members, refit, every),)
    times: Rows = draws.components[0].row_weights
    if groups is not None:
        times = tuple(np.ones_like(b.log_density) for b in blocks)
    local = tuple(w * b.log_density for w, b in zip(times, blocks, strict=True))
    errors = tuple(w * b.error for w, b in zip(times, blocks, strict=True))
    elpd = rows.total(local)
    again = sum(float(np.sum(e[b.refitted] ** 2)) for e, b in zip(errors, blocks, strict=True))
    shared = draws.error(np.sum([b.influence for b in blocks], axis=0))
    return Loo(
        elpd=elpd,
        se=standard_error(local),
        error=float(np.sqrt(shared**2 + again)),
        p_loo=None if groups is not None else rows.total(waic_terms(draws).lppd) - elpd,
        places=places,
        log_density=local,
        errors=errors,
        flag=tuple(b.flag for b in blocks),
        refitted=tuple(b.refitted for b in blocks),
    )
