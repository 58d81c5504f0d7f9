"""fit.loo(): leave-one-out and leave-group-out predictive densities, labelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.assess.components import Assessed, assessed
from lgmdsl.api.assess.observations import GroupPlaces, Observations, Places
from lgmdsl.api.assess.refits import Refits, SharedFit, without
from lgmdsl.api.jobs import workers_for
from lgmdsl.api.page import counted, wrapped
from lgmdsl.arrays import AnyArray, BoolArray, IntArray
from lgmdsl.assess import loo as one
from lgmdsl.assess.criteria import density, drawn_waic_terms, standard_error
from lgmdsl.assess.drawn import left_out
from lgmdsl.assess.drawn.levels import PosteriorDraws
from lgmdsl.assess.failure import WORDS, Failure
from lgmdsl.assess.groups import Group, groups_out
from lgmdsl.assess.mixture import log_mean, weights_of
from lgmdsl.assess.refit import RefitWithout
from lgmdsl.canonical.grounding.label_line import sorted_distinct
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Rows
from lgmdsl.dataset import Keys
from lgmdsl.errors import DataError, MethodError, ModelError, listed, suggestion
from lgmdsl.html import Paged
from lgmdsl.language.checked import Symbol
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
        raise MethodError.of("E108", message, help='fit.loo(exact="all")')
    for name, value, least in (("n", n, FEWEST), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            message = f"`{name}` must be a whole number not below {least}"
            raise MethodError.of(
                "E108", message, details=(f"got {value!r}",), help=number(name, least)
            )
    together = groups is not None
    asked = assessed(fit, data, mapping, "loo", together, removes=True, apart=not together)
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
    refit: RefitWithout | None,
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
        p_loo=None if groups is not None else rows.total(drawn_waic_terms(draws).lppd) - elpd,
        places=places,
        log_density=local,
        errors=errors,
        flag=tuple(b.flag for b in blocks),
        refitted=tuple(b.refitted for b in blocks),
    )


# ---- groups ------------------------------------------------------------------------------------
# Which responses are left out together: by an index set, a map to it, or labels.


def grouped(
    groups: object, canonical: CanonicalModel, where: Observations
) -> tuple[GroupPlaces, tuple[Group, ...]]:
    """The groups' labels, and the rows of each datum that belong to each group.

    `groups`: an index set, a datum that maps to one, an array with a label for each entry of the
    one observed datum (its shape, or one for each observed entry), or a dict of such arrays.
    Entries without a group (a map that is missing, a datum that has not the index) stay.

    Raises ModelError E103 or E108 for a name that groups nothing, or in several ways; DataError
    E301 for arrays of another shape.
    """
    if isinstance(groups, str):
        axis, labels, positions = _named(groups, canonical, where)
    else:
        axis = "group"
        labels, positions = _from_labels(groups, where)
    members = [g for g in range(len(labels)) if any((p == g).any() for p in positions)]
    rows = tuple(tuple(np.flatnonzero(p == g) for p in positions) for g in members)
    blocks = {b.name: b for b in canonical.blocks}
    for k, (datum, _, entries) in enumerate(where.blocks):
        residual = blocks[datum].residual
        if residual is not None:
            for parts in rows:
                residual.check_whole(entries[parts[k]], entries)
    return GroupPlaces(axis, labels[np.array(members, dtype=np.int64)]), rows


def _named(
    name: str, canonical: CanonicalModel, where: Observations
) -> tuple[str, AnyArray, list[IntArray]]:
    indices = canonical.grounded.indices
    maps = {s.name: s for s in canonical.grounded.model.of_kind("data") if s.target is not None}
    if name in maps:
        target = maps[name].target
        assert target is not None
        asked = [name]
    elif name in indices:
        target = name
        asked = [n for n, s in maps.items() if s.target == name]
    else:
        known = (*indices, *maps)
        has = f"there are: {', '.join(known)}"
        message = f"no index set, and no map to one, is called `{name}`"
        raise ModelError.of("E103", message, help=suggestion(name, known, has))
    positions = []
    for datum, dims, entries in where.blocks:
        candidates = list(_ways(name, asked, maps, canonical, dims))
        if len(candidates) > 1:
            ways = listed([f"`{n}`" for n, _ in candidates], "or")
            message = f"`{datum}` is grouped by `{name}` in several ways"
            raise ModelError.of("E108", message, help=f"name one: {ways}")
        none = np.full(len(entries), -1, dtype=np.int64)
        positions.append(candidates[0][1].reshape(-1)[entries] if candidates else none)
    if all((p < 0).all() for p in positions):
        observed = listed([f"`{n}`" for n in where.names])
        message = f"`{name}` groups no entry of {observed}"
        advice = "give an array with a label for each observed entry"
        raise ModelError.of("E108", message, help=advice)
    return target, indices[target].labels, positions


def _ways(
    name: str,
    maps_asked: list[str],
    maps: Mapping[str, Symbol],
    canonical: CanonicalModel,
    dims: tuple[str, ...],
) -> Iterator[tuple[str, IntArray]]:
    """The ways in which an axis, or maps over the axes, give each entry a position."""
    sizes = canonical.sizes
    if name in dims:
        yield name, spread((name,), np.arange(sizes[name]), dims, sizes)
        return
    for n in maps_asked:
        values = canonical.grounded.values.get(n)
        axes = maps[n].dims
        if values is not None and set(axes) <= set(dims) and distinct(dims) == dims:
            yield n, spread(axes, np.asarray(values), dims, sizes)


def spread(
    axes: tuple[str, ...], values: IntArray, dims: tuple[str, ...], sizes: Mapping[str, int]
) -> IntArray:
    """Values over some axes, at every entry of `dims`."""
    order = sorted(range(len(axes)), key=lambda k: dims.index(axes[k]))
    shape = [sizes[d] if d in axes else 1 for d in dims]
    full = np.transpose(values, order).reshape(shape)
    return np.broadcast_to(full, [sizes[d] for d in dims])


def _from_labels(groups: object, where: Observations) -> tuple[AnyArray, list[IntArray]]:
    if not isinstance(groups, Mapping):
        if len(where.names) > 1:
            message = f"several data are observed: {', '.join(where.names)}"
            advice = "give a dict of arrays of labels by datum, or the name of an index set"
            raise ModelError.of("E108", message, help=advice)
        groups = {where.names[0]: groups}
    unknown = [n for n in groups if n not in where.names]
    if unknown:
        message = f"no datum `{unknown[0]}` is observed"
        raise ModelError.of("E103", message, help=f"there are: {', '.join(where.names)}")
    parts, present = [], []
    for datum, dims, entries in where.blocks:
        if datum not in groups:
            present.append(np.zeros(len(entries), dtype=np.bool_))
            continue
        column = np.asarray(groups[datum])
        shape = where.layout.shape(dims)
        if column.shape == shape:
            column = column.reshape(-1)[entries]
        elif column.shape != (len(entries),):
            message = f"labels of `{datum}`: wanted shape {shape}, got {column.shape}"
            raise DataError.of("E301", message)
        parts.append(column)
        present.append(np.ones(len(entries), dtype=np.bool_))
    labels, flat = sorted_distinct(np.concatenate(parts))
    positions, start = [], 0
    for labelled_rows in present:
        group = np.full(len(labelled_rows), -1, dtype=np.int64)
        group[labelled_rows] = flat[start : start + int(labelled_rows.sum())]
        start += int(labelled_rows.sum())
        positions.append(group)
    return labels, positions
