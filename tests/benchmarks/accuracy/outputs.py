"""All that a fit answers besides its names, by the same points as `truth`: responses of rows, a row
alone, effects, leaving one out, transforms. What the points cannot tell well enough is left out.
"""

from __future__ import annotations

import dataclasses
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.site import Site

from .cases import SHOWN, Case, Sites
from .truth import LEVELS, Points, Truth

Row = dict[str, Any]
SETTLED = 0.25  # errors of the quadrature, at most, in proportion to the limits
ALL_ROWS, PATIENCE = 8, 4.0  # exact LOO of all rows: of so many, and CPU seconds, about
EVERY = 1 << 15  # points that distribution functions are averaged over
NOT_DATA = ("y", "event0", "lower0", "upper0")


def output_lines(fit: lgm.Fit, case: Case, truth: Truth) -> Iterator[Row]:
    """A line for each output: errors in the columns of `judge.compared`."""
    if len(case.sites) > 1 or case.sites[0].site.spec.potential:
        return  # rows that a potential lies on are the model's own
    sites = case.sites[0]
    rows = slice(0, min(SHOWN, case.rows))
    yield from _responses(fit, case, sites.take(rows), truth, rows)
    yield from _effects(fit, case, sites, truth)
    if not sites.site.spec.wide:
        yield from _left_out(fit, case, sites, truth)


# ---- exact ---------------------------------------------------------------------------------------


def distribution(sites: Sites, s: Array, theta: Array) -> Array:
    """P(Y <= y), (points, rows)."""
    kind, p = sites.zeros
    y: Array = getattr(sites.site, dataclasses.fields(sites.site)[0].name)
    if not kind:
        return sites.ask(s, theta, lambda many, flat: many.cdf(flat))
    inner = dataclasses.replace(sites, zeros=("", 0.0))
    safe = inner if sites.site.spec.discrete else inner.observing(np.where(y > 0.0, y, 1.0))
    below = safe.ask(s, theta, lambda many, flat: many.cdf(flat))
    if kind == "hurdle":
        none: Any = 0.0
        if sites.site.spec.discrete:
            none = np.exp(inner.observing(np.zeros(len(y))).given(s, theta))
        above = 1.0 - none  # where hardly any is, all of it is at 1
        with np.errstate(all="ignore"):
            share = np.where(above > 1e-9, (below - none) / above, 1.0)
        below = np.where(y > 0.0, share, 0.0)
    return np.where(y < 0.0, 0.0, p + (1.0 - p) * below)


def moments(sites: Sites, s: Array, theta: Array) -> tuple[Array, Array]:
    """E[y] and E[y^2], (points, rows)."""
    kind, p = sites.zeros
    rows = len(sites.site)
    plain = dataclasses.replace(sites, zeros=("", 0.0)).observing(np.ones(rows))
    first = plain.ask(s, theta, lambda many, flat: many.conditional_mean(flat))
    spread = plain.ask(s, theta, lambda many, flat: many.conditional_variance(flat))
    second = spread + first**2
    share: Any = 1.0
    if kind == "hurdle" and sites.site.spec.discrete:
        share = (1.0 - p) / -np.expm1(plain.observing(np.zeros(rows)).given(s, theta))
    elif kind:
        share = 1.0 - p
    return first * share, second * share


def _averages(truth: Truth, what: Callable[[Points], Array]) -> tuple[Array, Array]:
    """Posterior means of (points, n), and their standard errors over the scramblings."""
    parts, masses = [], []
    for points in truth.points:
        with np.errstate(all="ignore"):
            parts.append(points.weight @ np.where(points.weight[:, None] > 0.0, what(points), 0.0))
        masses.append(points.weight.sum())
    each = np.array(parts) / np.array(masses)[:, None]
    mean = np.sum(parts, axis=0) / np.sum(masses)
    with np.errstate(all="ignore"):
        return mean, np.std(each, axis=0, ddof=1) / np.sqrt(len(each))


def _thinned(truth: Truth) -> Points:
    """Points of equal weight, systematically resampled."""
    x = np.concatenate([p.x for p in truth.points])
    theta = np.concatenate([p.theta for p in truth.points])
    weight = np.concatenate([p.weight for p in truth.points])
    edges = np.cumsum(weight)
    chosen = np.searchsorted(edges, (np.arange(EVERY) + 0.5) / EVERY * edges[-1])
    chosen = np.minimum(chosen, len(x) - 1)
    return Points(x[chosen], theta[chosen], np.full(EVERY, -np.log(EVERY)))


def _line(kind: str, name: str, mean: float, sd: float, **errors: Any) -> Row:
    blank = dict.fromkeys(("z", "ratio", "low_error", "high_error"), "")
    return {"kind": kind, "name": name, "mean": mean, "sd": sd, **blank, **errors}


def _asked(ask: Callable[[], Any]) -> tuple[Any, str]:
    """An answer, and the codes of what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = ask()
    words = " ".join(str(w.message) for w in caught)
    return answer, " ".join(sorted(set(re.findall(r"\bW6\d\d\b", words))))


# ---- responses -----------------------------------------------------------------------------------


def new_rows(case: Case, rows: slice) -> dict[str, Any]:
    """The data of some rows, as a prediction wants them."""
    return {
        n: np.asarray(v)[rows]
        for n, v in case.data.items()
        if n not in NOT_DATA and len(v) == case.rows
    }


def _responses(fit: lgm.Fit, case: Case, sites: Sites, truth: Truth, rows: slice) -> Iterator[Row]:
    count = len(sites.site)
    data = new_rows(case, rows)
    if not data.keys() - {"w0"}:  # nothing that a prediction asks for
        data = {"obs": [f"new{i}" for i in range(count)]}
    prediction = fit.predict(data)
    found, codes = _asked(lambda: prediction.response("y"))
    yield from _alone(fit, prediction, found, data, count)

    def s(points: Points) -> Array:
        return case.predict(case.latents(points.x, points.theta))[:, rows]

    if "probability" in found and "index" in sites.site.spec.observed and sites.weight is None:
        classes = found["probability"].values.reshape(count, -1)
        for k in range(classes.shape[1]):
            at = dataclasses.replace(sites.observing(np.full(count, float(k))), weight=None)

            def chance(p: Points, at: Sites = at) -> Array:
                return np.asarray(np.exp(at.each(s(p), p.theta)))

            exact, error = _averages(truth, chance)
            for i in range(count):
                if error[i] < 0.02 * SETTLED:
                    z = (classes[i, k] - exact[i]) / 0.2  # 0.02 is 0.1, the limit
                    yield _line("response", f"P(y[{i}] = {k})", exact[i], 0.2, z=z, said=codes)
        return
    if "mean" not in found or sites.site.spec.vector or case.design.shape[1] > 2:
        return
    if sites.site.spec.wide:
        return
    both, error = _averages(truth, lambda p: np.hstack(moments(sites, s(p), p.theta)))
    squares, _ = _averages(truth, lambda p: moments(sites, s(p), p.theta)[0] ** 2)
    for i in range(count):
        with np.errstate(all="ignore"):
            mean, spread = both[i], np.sqrt(both[count + i] - both[i] ** 2)
            width = np.sqrt(squares[i] - mean**2)
        errors: Row = {}
        if width > 1e-9 * abs(mean) and error[i] < 0.1 * width * SETTLED:
            errors["z"] = (np.ravel(found["mean"])[i] - mean) / width
        if error[count + i] < 2 * 0.05 * SETTLED * spread**2 and spread > 0.0:
            errors["ratio"] = np.ravel(found["sd"])[i] / spread
        yield _line("response", f"y[{i}]", mean, spread, said=codes, **errors)
    try:
        quantiles, codes = _asked(lambda: prediction.response_quantile("y", list(LEVELS)))
    except lgm.LgmError:
        return
    points = _thinned(truth)
    where = s(points)
    below: list[Array] = []
    upto: list[Array] = []
    for q in quantiles.values.reshape(len(LEVELS), count):
        before = q - 1.0 if sites.site.spec.discrete else q - 1e-9 * np.abs(q) - 1e-290
        for y, out in ((before, below), (q, upto)):
            with np.errstate(all="ignore"):
                f = distribution(sites.observing(np.asarray(y)), where, points.theta)
            out.append(f.mean(axis=0))
    for i in range(count):
        # How far the level is outside P(Y < q) to P(Y <= q): 0.0155 is 0.15 sds of a normal y.
        off = [
            10.0 * float(np.clip(level, below[k][i], upto[k][i]) - level)
            for k, level in enumerate(LEVELS)
        ]
        yield _line(
            "quantile", f"y[{i}]", np.nan, np.nan, said=codes, low_error=off[0], high_error=off[1]
        )


def _alone(
    fit: lgm.Fit, prediction: Any, found: Any, data: dict[str, Any], count: int
) -> Iterator[Row]:
    """A row alone is what it is among others: the largest relative difference."""
    worst, where = 0.0, ""
    for i in range(count):
        alone = fit.predict({n: np.asarray(v)[i : i + 1] for n, v in data.items()})
        pairs = [(v, found[v].values[i : i + 1], alone.response("y")[v].values) for v in found
                 if v != "probability" or found[v].dims[-1] != "value"]  # fmt: skip
        try:
            asked = [0.05, 0.5, 0.95]
            q = [p.response_quantile("y", asked).values for p in (prediction, alone)]
            pairs.append(("quantile", q[0][:, i : i + 1], q[1]))
        except lgm.LgmError:
            pass
        for name, among, here in pairs:
            with np.errstate(all="ignore"):
                gap = np.abs(among - here) / np.maximum(np.abs(among), 1e-300)
            same = (among == here) | (np.isnan(among) & np.isnan(here))  # totals nobody knows
            gap = np.where(same, 0.0, gap)
            if not gap.max(initial=0.0) <= worst:
                worst, where = float(gap.max()), f"{name} of row {i}"
    yield _line("alone", where or "all", 0.0, 1.0, z=worst)


# ---- effects -------------------------------------------------------------------------------------


def _effects(fit: lgm.Fit, case: Case, sites: Sites, truth: Truth) -> Iterator[Row]:
    names = [n for n, _ in case.names]
    if "x0" not in case.data or "b0" not in names or case.design.shape[1] > 1:
        return
    slope = names.index("b0")
    if sites.site.spec.vector or sites.site.spec.wide or "index" in sites.site.spec.observed:
        return

    def values(p: Points) -> Array:
        z = case.latents(p.x, p.theta)
        s = case.predict(z)
        levels = [
            moments(sites, t, p.theta)[0].mean(axis=1) for t in (s, s + z[:, None, slope, None])
        ]
        return np.column_stack([levels[1] - levels[0], levels[1] / levels[0]])

    both, error = _averages(truth, lambda p: np.hstack([values(p), values(p) ** 2]))
    points = _thinned(truth)
    with np.errstate(all="ignore"):
        each = values(points)
    for k, compare in enumerate(("difference", "ratio")):
        try:
            table, codes = _asked(
                partial(fit.effects, "x0", contrast=1, compare=compare, quantiles=list(LEVELS))
            )
        except lgm.LgmError as refusal:
            yield _line("refused", f"effects: {refusal.diagnostics[0].code}", np.nan, np.nan)
            continue
        line = table.iloc[0]
        with np.errstate(all="ignore"):
            mean, sd = both[k], np.sqrt(both[2 + k] - both[k] ** 2)
        errors: Row = {}
        if error[2 + k] < 2 * 0.05 * SETTLED * sd**2 and sd > 1e-12:
            errors["ratio"] = line["sd"] / sd
        if error[k] < 0.1 * SETTLED * sd:
            errors["z"] = (line["estimate"] - mean) / sd
        # Of skewed effects an sd is no measure of a quantile's error: the level's is, as above.
        for which, level in zip(("low_error", "high_error"), LEVELS, strict=True):
            q = line[f"q{100 * level:g}"]
            near = 1e-9 * abs(q)
            inside = np.clip(level, np.mean(each[:, k] < q - near), np.mean(each[:, k] <= q + near))
            errors[which] = 10.0 * (inside - level)
        yield _line("effect", compare, mean, sd, said=codes, **errors)


# ---- leaving one out -----------------------------------------------------------------------------


def _left_out(fit: lgm.Fit, case: Case, sites: Sites, truth: Truth) -> Iterator[Row]:
    rows = min(case.rows, ALL_ROWS)

    def logs(p: Points) -> Array:
        """log p(y_i | z), with the weight that leaves."""
        some = sites.take(slice(0, rows))
        return some.each(case.predict(case.latents(p.x, p.theta))[:, :rows], p.theta)

    weight = np.ones(rows) if sites.weight is None else sites.weight[:rows]
    # E[t^(1 - w)] / E[t^-w] with t = p(y_i | z): y_i is predicted without its row.
    pieces = [(p, logs(p)) for p in truth.points]
    parts, total = [], []
    for p, log in pieces:
        kept = np.isfinite(p.log_weight)
        lw = p.log_weight[kept, None]
        without, single = special.logsumexp(lw - log[kept], axis=0), log[kept] / weight
        with_it = special.logsumexp(lw - log[kept] + single, axis=0)
        parts.append(with_it - without)
        total.append([with_it, without])
    exact = weight * np.subtract(*special.logsumexp(np.array(total), axis=0))
    error = np.std(parts, axis=0, ddof=1) / np.sqrt(len(parts))
    # Where y_i cannot be, the whole posterior has no points, and that without y_i may.
    possible = np.all([np.isfinite(log).all(axis=0) for _, log in pieces], axis=0)
    error = np.where(possible, error, np.inf)
    every = case.rows <= ALL_ROWS and fit.seconds * case.rows < PATIENCE
    began = time.process_time()
    try:
        loo, codes = _asked(lambda: fit.loo(exact="all" if every else False))
    except lgm.LgmError as refusal:
        yield _line("refused", f"loo: {refusal.diagnostics[0].code}", np.nan, np.nan)
        return
    seconds = time.process_time() - began
    here, flags = np.ravel(loo.pointwise("y"))[:rows], np.ravel(loo.flags("y"))[:rows]
    noise = np.nan_to_num(np.ravel(loo.pointwise_error("y"))[:rows])
    for i in range(rows):
        if error[i] < 0.1 * SETTLED:
            z = here[i] - exact[i]  # nats; its limit is 0.1
            name = f"{'exact' if every else 'default'} y[{i}]"
            yield _line(
                "loo", name, exact[i], noise[i], z=z, said=f"{codes} {flags[i]}".strip(),
                skewness=round(seconds, 2),
            )  # fmt: skip
    yield from _transforms(fit, case, sites, pieces, error, rows, every)


def _transforms(
    fit: lgm.Fit,
    case: Case,
    sites: Sites,
    pieces: Sequence[tuple[Points, Array]],
    error: Array,
    rows: int,
    again: bool,
) -> Iterator[Row]:
    if type(sites.site).cdf is Site.cdf or np.any(sites.site.censored):
        return
    try:
        pit, codes = _asked(lambda: fit.pit(exact=again))
    except lgm.LgmError:
        return
    some = sites.take(slice(0, rows))
    y: Array = getattr(some.site, dataclasses.fields(some.site)[0].name)
    upto, mass = np.zeros(rows), np.zeros(rows)
    finite = [np.isfinite(p.log_weight) for p, _ in pieces]
    top = max(
        float((p.log_weight[k, None] - g[k]).max())
        for k, (p, g) in zip(finite, pieces, strict=True)
    )
    for kept, (p, log) in zip(finite, pieces, strict=True):
        s = case.predict(case.latents(p.x, p.theta))[:, :rows]
        with np.errstate(all="ignore"):
            w = np.where(kept[:, None], np.exp(p.log_weight[:, None] - log - top), 0.0)
            f = distribution(some.observing(y), s, p.theta)
        upto += np.where(w > 0.0, w * f, 0.0).sum(axis=0)
        mass += w.sum(axis=0)
    flags = np.ravel(pit.flags("y"))[:rows]
    here = np.ravel(pit.upper("y"))[:rows]
    for i in range(rows):
        if error[i] < 0.1 * SETTLED:
            exact = upto[i] / mass[i]
            z = (here[i] - exact) / 0.6  # 0.06, 0.15 sds of a normal's middle, is 0.1, the limit
            yield _line("pit", f"y[{i}]", exact, 0.6, z=z, said=f"{codes} {flags[i]}".strip())
