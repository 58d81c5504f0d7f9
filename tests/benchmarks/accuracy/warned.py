"""Warnings against what they promise: models where they occur, several methods, ways to learn.

Few groups or slopes under wide priors, few rows, answers near separation, low counts, outliers, and
loadings of either sign. What a fit reports is held against the posterior itself (`integrate`), or
against the posterior at the fit's own hyperparameters and the maximum of their density (`map`,
`em`). `expected` says what follows for each code.
"""

from __future__ import annotations

import math
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.site import Property
from lgmdsl.sites.catalogue import families

from . import judge
from .cases import Builder, CannotBuildError, Case, Hyper
from .loadings import LoadingCase
from .truth import (
    LEVELS,
    OnGrid,
    Target,
    Truth,
    UnsettledError,
    exact,
    integrated,
    weighted_moments,
    whitened,
)

ERROR, POWERS = 0.05, range(10, 14)  # of the truths, in sds; of their points
# Off, in units of the limits: what a warning needs to be deserved, and what may not go without it;
# between the two the truth's own error decides.
DESERVED, MISSED = 0.75, 1.25
FITS = 8  # of each data set, the default one among them
SHIFTED = 5.0  # of outliers, in units of their scale
GRID = {1: np.linspace(-9.0, 12.0, 43), 2: np.linspace(-7.0, 8.0, 16)}  # of log sds
FLAT = 1.0  # nats that a density which is nearly flat loses in five units of a log sd
VANISHED = -4.0  # log sds at which a term has no effect: an ordinary end
WELL = 0.5  # nats between two maxima
# Slopes of the density of a log sd: no finite mass; an infinite variance; one that the spread of
# points does not tell.
IMPROPER, INFINITE, UNKNOWN = -0.1, -2.1, -4.1
DRAWS = 4000
METHODS = (
    "laplace", "natural-gradient", "opper-archambeau", "cholesky", "coordinate-ascent", "lcl",
    "ep", "double-loop", "coordinate-descent", "px-vb", "mean-field", "auto",
)  # fmt: skip
FAMILIES = (
    "bernoulli.logit", "poisson.log_rate", "normal.mean", "bernoulli.probit", "student_t.mean",
    "binomial.logit", "laplace.mean", "bernoulli.cloglog", "negbinomial.log_mean",
    "weibull.log_scale", "exponential.log_rate", "gamma.log_mean", "ordinal.logit", "logistic.mean",
    "beta.logit_mean",
)  # fmt: skip
CODES = ("W602", "W603", "W604", "W605", "W606", "W607", "W608", "W609", "W611")
Row = dict[str, Any]


class _Hard(Builder):
    """Models that warnings are made for."""

    def __init__(self, rng: np.random.Generator, family: Any) -> None:
        super().__init__(rng, family, varied=False)
        self.rows = int(rng.integers(5, 16) if rng.random() < 0.6 else rng.integers(16, 41))
        self.lines[1] = f"index obs = {self.rows}"
        self.widths = (1.0, 10.0)
        self.left = int(rng.choice([0, 1, 1, 2]))
        self.opposed = Property.LOG_CONCAVE not in family.spec.properties and rng.random() < 0.7
        if self.opposed:  # few rows that contradict each other
            self.rows, self.left = int(rng.integers(4, 9)), 0
            self.lines[1] = f"index obs = {self.rows}"

    def _true(self) -> float:
        return float(self.rng.choice([0.05, 0.5, 2.0]))

    def _prior_of(self, name: str) -> Hyper:
        prior = str(self.rng.choice(
            ["flat", "uniform", "half_normal", "half_cauchy", "pc_sd", "exponential"]
        ))  # fmt: skip
        return Hyper(name, prior, float(self.rng.choice([1.0, 3.0, 10.0])))

    def _line(self, eta: str, which: int, count: int) -> str:
        rng, sd, here = self.rng, float(self.rng.choice([1.0, 3.0, 10.0])), np.ones((self.rows, 1))
        self.lines.append(f"latent a ~ normal(sd = {sd!r})")
        self._add("a", here[:, :, None], 0.0, sd, -1)
        if rng.random() < 0.7:
            groups = int(rng.integers(2, min(7, self.rows)))
            who = np.arange(self.rows) % groups
            self.data["who"] = who
            self.lines += [f"index g = {groups}", "data who[obs] : g"]
            text, sd, scale = self._prior(learn=True)
            self.lines.append(f"latent u[g] ~ normal(sd = {text})")
            self._add("u", here[:, :, None] * np.eye(groups)[who][:, None, :], 0.0, sd, scale)
            self.lines.append("let eta[obs] = a + u[who]")
            return eta
        x = self._x("x0")
        text, sd, scale = self._prior(learn=rng.random() < 0.5)
        self.lines.append(f"latent b ~ normal(sd = {text})")
        self._add("b", here[:, :, None] * x[:, None, None], 0.0, sd, scale)
        self.lines.append("let eta[obs] = a + x0 * b")
        return eta

    def _drawn(self, s: Array, values: Mapping[str, Any]) -> Array:
        y = super()._drawn(s, values)
        if "scale" in values and "positive" not in self.family.spec.observed:
            some = self.rng.random(self.rows) < (0.5 if self.opposed else 0.4 * self.rng.random())
            y = np.where(some, y + (2.0 if self.opposed else 1.0) * SHIFTED * values["scale"], y)
        return y


@dataclass(frozen=True, eq=False)
class Report:
    """A function of latents and predictors, (points,), by its text."""

    name: str
    text: str
    least: float | None = None  # log(a + least), else the sum of exp(eta)

    def values(self, case: Case, x: Array, theta: Array) -> Array:
        z = case.latents(x, theta)
        with np.errstate(all="ignore"):
            if self.least is not None:
                return np.asarray(np.log(z[:, 0] + self.least))
            return np.asarray(np.exp(case.predict(z)[:, :, 0]).sum(axis=1))


def hard_case(number: int) -> tuple[Case, tuple[Report, ...]]:
    """The model of a number, families in turn, and its reports."""
    name, turn = FAMILIES[number % len(FAMILIES)], number // len(FAMILIES)
    rng = np.random.default_rng([zlib.crc32(name.encode()), turn, 1])
    family = next(f for f in families() if f.spec.name == name)
    case = _Hard(rng, family).case(number)
    least = round(float(rng.choice([1.0, 2.0, 4.0, 10.0])), 2)
    reports = (
        Report("above", f"report above = log(a + {least!r})", least),
        Report("total", "report total = sum(exp(eta), obs)"),
    )
    lines = "".join(f"{r.text}\n" for r in reports)
    return replace(case, text=case.text + lines), reports


# ---- what is true --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Surface:
    """The exact log density of log sds on a grid; `natural`: of the sds, which `map` maximises."""

    target: Target
    places: Array
    logs: Array
    shape: tuple[int, ...]

    @classmethod
    def of(cls, case: Case) -> Surface:
        count = len(case.hypers)
        axes = np.meshgrid(*[GRID[count]] * count, indexing="ij")
        places = np.stack(axes, axis=-1).reshape(-1, count)
        target = whitened(case)
        return cls(target, places, target.log_densities(places), axes[0].shape)

    def table(self, natural: bool) -> Array:
        logs = self.logs - self.places.sum(axis=1) if natural else self.logs
        return np.asarray(logs.reshape(self.shape))

    @property
    def slope(self) -> float:
        """Of the log density towards large sds, the flattest: 0 and more, no finite mass; above -2,
        an infinite variance; above -4, one that no draws tell."""
        table = self.table(natural=False)
        step = float(GRID[len(self.shape)][1] - GRID[len(self.shape)][0])
        lines = [
            np.moveaxis(table, axis, 0).reshape(len(table), -1).max(axis=1)
            for axis in range(table.ndim)
        ]
        if any(line[1] - line[0] < -IMPROPER * step for line in lines):
            return 0.0  # it does not fall off towards 0 either
        ends = [(line[-1] - line[-2]) / step for line in lines if np.isfinite(line[-1])]
        return max(ends, default=-math.inf)

    @property
    def proposal(self) -> OnGrid:
        """By a finer grid on what matters of this one."""
        size = len(self.shape)
        axes = OnGrid.of([GRID[size]] * size, self.table(natural=False)).narrower
        places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, size)
        return OnGrid.of(axes, self.target.log_densities(places).reshape(self.shape))

    def maxima(self, natural: bool) -> list[tuple[float, Array]]:
        """Heights above all neighbours, ends among them, the highest first; what a path of a line
        joins within WELL nats is one."""
        table = self.table(natural)
        index = np.stack(np.meshgrid(*[np.arange(n) for n in table.shape], indexing="ij"), axis=-1)
        flat = index.reshape(-1, table.ndim)
        out: list[tuple[float, Array]] = []
        for k in np.argsort(-table, axis=None):
            here, value = flat[k], float(table.ravel()[k])
            if not value > table.max() - 8.0:
                break
            around = tuple(slice(max(i - 1, 0), i + 2) for i in here)
            if value < table[around].max():
                continue
            if all(self._apart(table, here, other, value) for _, other in out):
                out.append((value, here))
        return [(v, self.places.reshape(*self.shape, -1)[tuple(i)]) for v, i in out]

    def _apart(self, table: Array, a: Array, b: Array, value: float) -> bool:
        steps = int(np.abs(a - b).max()) + 1
        line = np.round(a + np.linspace(0.0, 1.0, steps)[:, None] * (b - a)).astype(int)
        return bool(table[tuple(line.T)].min() < value - WELL)

    def mode(self, start: Array) -> tuple[Array, float]:
        """The maximum of the natural density near a place, and its height."""

        def lost(log_theta: Array) -> float:
            found = self.target.log_densities(log_theta[None])[0] - log_theta.sum()
            return -float(np.maximum(found, -1e12))

        end = optimize.minimize(
            lost, start, method="Nelder-Mead", options={"maxiter": 60, "xatol": 1e-3}
        )
        return np.asarray(end.x), -float(end.fun)

    def falls(self, k: int, natural: bool) -> tuple[float, float]:
        """Nats that the profile of one log sd loses in five units below its top, and above."""
        axis = GRID[len(self.shape)]
        line = np.moveaxis(self.table(natural), k, 0).reshape(len(axis), -1).max(axis=1)
        top = int(line.argmax())
        below, above = (
            np.interp(axis[top] + s * 5.0, axis, np.maximum(line, -1e9)) for s in (-1.0, 1.0)
        )
        return float(line[top] - below), float(line[top] - above)


def settled(case: Case, surface: Surface | None) -> Truth:
    """The posterior, by the grid of log sds where there are any. Raises UnsettledError."""
    target = whitened(case) if surface is None else surface.target
    proposal = OnGrid((), np.ones(())) if surface is None else surface.proposal
    try:
        return integrated(target, proposal, ERROR, POWERS)
    except UnsettledError:
        if case.hypers:
            raise
        return exact(case, ERROR, POWERS)


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a case before any fit; no truth where an sd is infinite."""

    surface: Surface | None
    truth: Truth | None


def _known(case: Case) -> Known:
    surface = Surface.of(case) if case.hypers else None
    heavy = surface is not None and surface.slope > UNKNOWN
    return Known(surface, None if heavy else settled(case, surface))


def piled(truth: Truth, case: Case, k: int) -> float:
    """The density of the uniform prior's sd in the last twentieth of its range, over its highest in
    any; that of the lowest if that is higher."""
    size = case.hypers[k].size
    values = np.concatenate([p.theta[:, k] for p in truth.points])
    weight = np.concatenate([p.weight for p in truth.points])
    counts = np.histogram(values, np.linspace(0.0, size, 21), weights=weight)[0]
    return float(max(counts[-1], counts[0]) / counts.max())


# ---- fits ----------------------------------------------------------------------------------------


def _asked(number: int, case: Case) -> Iterator[tuple[str, str]]:
    """Methods and ways to learn: the default, and others in turn."""
    rng = np.random.default_rng([number, 7])
    yield "auto", "auto"
    for method in rng.permutation(METHODS):
        yield str(method), str(rng.choice(["integrate", "integrate", "map", "em"]) if case.hypers
                               else "auto")  # fmt: skip


def hard_rows(number: int, _: list[dict[str, str]]) -> list[Row]:
    """The lines of a data set: one for each code that a fit has or should have."""
    if number % 8 == 7:
        return LoadingCase.of(number).rows_of(fit_lines)
    try:
        case, reports = hard_case(number)
    except CannotBuildError as error:
        return [{"number": number, "kind": "left out", "name": str(error)}]
    about = {"number": number, "family": case.family, "hypers": len(case.hypers)}
    try:
        known = _known(case)
    except (UnsettledError, np.linalg.LinAlgError) as error:
        return [about | {"kind": "left out", "name": str(error)}]
    out: list[Row] = []
    for method, hyper in _asked(number, case):
        if len({r["fit"] for r in out}) == FITS:
            break
        out += fit_lines(
            number, case.family, case.text, case.data, case.fixed, method, hyper,
            lambda fit: _judged(fit, case, reports, known), len(case.hypers),
        )  # fmt: skip
    return out


def fit_lines(
    number: int,
    family: str,
    text: str,
    data: Mapping[str, Any],
    fixed: Mapping[str, Any],
    method: str,
    hyper: str,
    judged: Any,
    hypers: int = 0,
) -> list[Row]:
    """A line for each code, or for none, of a fit; none where it is refused."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit = lgm.fit(lgm.loads(text), data, method=method, hyper=hyper, fixed=fixed)
        except lgm.LgmError:
            return []
        seconds = time.process_time() - began
        about = judge.described(fit, seconds) | {
            "number": number, "family": family, "hypers": hypers, "fit": f"{method} {hyper}",
        }  # fmt: skip
        try:
            verdicts = judged(fit)
        except (UnsettledError, np.linalg.LinAlgError) as error:
            return [about | {"kind": "left out", "name": str(error)}]
    said = {w.code for w in fit.warnings}
    lines = [
        about | {"kind": "verdict", "code": code, "warned": int(code in said),
                 "deserved": int(verdicts[code][0]), "needed": int(verdicts[code][1]),
                 "size": verdicts[code][2], "name": verdicts[code][3]}
        for code in verdicts
        if code in said or verdicts[code][1]
    ]  # fmt: skip
    return lines or [about | {"kind": "quiet", "size": verdicts["W609"][2]}]


Verdict = tuple[bool, bool, float, str]  # deserved, needed, how far off, of what
NOTHING: Verdict = (False, False, 0.0, "")


def _judged(
    fit: lgm.Fit, case: Case, reports: Sequence[Report], known: Known
) -> dict[str, Verdict]:
    """For each code whether it is deserved here, and whether it may not be missing."""
    whole = fit.hyper == "integrate"
    out = dict.fromkeys(CODES, NOTHING)
    codes = {w.code for w in fit.warnings}
    surface = known.surface
    finished = str(fit.status) == "converged"
    theta = np.array([float(fit.theta[h.name]) for h in case.hypers])
    if known.truth is None and whole:
        assert surface is not None
        if surface.slope < INFINITE:
            raise UnsettledError("an sd is finite, but draws do not tell it")
        silent = finished and not codes & {"W604", "W605", "W606"}
        away = (True, silent, surface.slope, "infinite sd")
        wrong = (True, False, surface.slope, "infinite sd")  # reports are not judged
        return dict.fromkeys(("W602", "W604", "W605", "W607", "W609"), wrong) | {"W606": away}
    if surface is None or whole:
        assert known.truth is not None
        truth, here = known.truth, case
    else:
        here = case.pinned(np.maximum(theta, 1e-12))
        truth = settled(here, None)
    lines = judge.compared(
        fit, here.quantities, truth.mean, truth.sd, truth.quantiles, LEVELS
    )  # fmt: skip
    if surface is not None and not whole:
        lines += _modes(fit, case, surface, out, codes, theta)
    lines += _named(fit, here, truth)
    worst = max(lines, key=judge.size)
    size, name = judge.size(worst), str(worst["name"])
    off = (size >= DESERVED, False, size, name)
    # What is said by one of the codes needs no other one.
    others = codes & {"W602", "W604", "W605", "W606", "W607"}
    out["W609"] = (off[0], size > MISSED and finished and not others, size, name)
    out["W602"] = off
    out["W606"] = off
    hypers = [q for q in lines if q["kind"] == "hyper"]
    if whole and hypers and case.family == "normal.mean":
        far = max(map(judge.size, hypers)) > MISSED
        out["W606"] = (off[0], far and finished and not others, size, name)
        out["W609"] = (off[0], False, size, name)
    if surface is not None and whole:
        tops = surface.maxima(natural=False)
        out["W607"] = (len(tops) > 1 or off[0], False, size, name)
        _bounds(case, truth, out, codes, finished)
    if surface is not None:
        _flat(case, surface, out, codes, whole, finished)
    _reports(fit, here, truth, reports, out, finished, quiet=size < DESERVED)
    return out


def _named(fit: lgm.Fit, case: Case, truth: Truth) -> list[Row]:
    """The row of the predictor that W609 names; else the first few alone are compared."""
    name, _, place = fit.accuracy.worst.partition("[")
    row = place.removesuffix("]")
    if name != "eta" or not row.isdigit() or case.design.shape[1] > 1 or not truth.points:
        return []
    s = [case.predict(case.latents(p.x, p.theta))[:, int(row), :1] for p in truth.points]
    weight = np.concatenate([p.weight for p in truth.points])
    mean, sd, _, quantiles, _ = weighted_moments(weight, np.concatenate(s))
    quantity = [("predictor", "eta", int(row))]
    return judge.compared(fit, quantity, mean, sd, quantiles, LEVELS)


def _modes(
    fit: lgm.Fit, case: Case, surface: Surface, out: dict[str, Verdict], codes: set[str],
    theta: Array,
) -> list[Row]:  # fmt: skip
    """The maximum of the exact density against the fit's, in the fit's sds; other maxima."""
    tops = surface.maxima(natural=True)
    start = np.log(np.maximum(theta, 1e-9))
    near, height = surface.mode(np.clip(start, -9.0, 12.0))
    highest, value = surface.mode(tops[0][1])
    edge = bool((highest < -6.0).any() or (start < -6.0).any())
    # Another maximum: above this one, or nearly as high.
    apart = float(np.abs(np.exp(highest) - np.exp(near)).max())
    higher = value > height + WELL and apart > 0.1 and not edge
    second = len(tops) > 1 and tops[1][0] > tops[0][0] - 3.5
    out["W607"] = (second or higher, higher and not codes & {"W607", "W601"}, value - height, "max")
    rising = [
        k for k in range(len(case.hypers))
        if surface.falls(k, natural=True)[0] < FLAT and k in surface.target.noise
    ]  # fmt: skip
    out["W605"] = (bool(rising) or _at_upper(case, highest), False, 0.0, "edge")
    lines = []
    for k, h in enumerate(case.hypers):
        sd = float(fit.sd(h.name).values)
        if not np.isfinite(sd) or sd <= 0.0 or near[k] < -6.0:
            continue
        z = (theta[k] - math.exp(near[k])) / sd
        lines.append({"kind": "hyper", "name": h.name, "z": z, "ratio": "", "low_error": "",
                      "high_error": ""})  # fmt: skip
    return lines


def _at_upper(case: Case, log_theta: Array) -> bool:
    return any(
        h.prior == "uniform" and math.exp(v) > 0.95 * h.size
        for h, v in zip(case.hypers, log_theta, strict=True)
    )


def _bounds(
    case: Case, truth: Truth, out: dict[str, Verdict], codes: set[str], finished: bool
) -> None:
    shares = [piled(truth, case, k) for k, h in enumerate(case.hypers) if h.prior == "uniform"]
    if shares:
        out["W605"] = (max(shares) > DESERVED, False, max(shares), "density at the bound")


def _flat(
    case: Case,
    surface: Surface,
    out: dict[str, Verdict],
    codes: set[str],
    whole: bool,
    finished: bool,
) -> None:
    falls = [surface.falls(k, natural=not whole) for k in range(len(case.hypers))]
    least = min(min(pair) for pair in falls)
    both = min(max(pair) for pair in falls)
    table = surface.table(natural=not whole)
    top = surface.places[int(table.argmax())]
    needed = (
        both < 0.5 * FLAT
        and bool((top > VANISHED).all())
        and finished
        and not codes & {"W604", "W605", "W606", "W601"}
    )
    out["W604"] = (least < FLAT, needed, least, "nats lost")


def _reports(
    fit: lgm.Fit, case: Case, truth: Truth, reports: Sequence[Report], out: dict[str, Verdict],
    finished: bool, quiet: bool,
) -> None:  # fmt: skip
    """W603 by the share of points that are not finite; W611 by the sd, and by what sd the truth's
    own draws would give."""
    if not truth.points:
        return
    x = np.concatenate([p.x for p in truth.points])
    theta = np.concatenate([p.theta for p in truth.points])
    w = np.concatenate([p.weight for p in truth.points])
    w = w / w.sum()
    for report in reports:
        values = report.values(case, x, theta)
        if report.least is not None:
            share = float(w[~np.isfinite(values)].sum())
            out["W603"] = (share > 1e-7, share * DRAWS > 8.0 and finished and quiet, share, "share")
            continue
        with np.errstate(all="ignore"):
            away = values - w @ values
            sd = math.sqrt(float(w @ away**2))
            noise = math.sqrt(max(float(w @ away**4) / sd**4 - 1.0, 0.0) / (4.0 * DRAWS))
            ratio = float(fit.sd(report.name).values) / sd - 1.0
        off = abs(ratio) if np.isfinite(ratio) else math.inf
        settled = float((w**2 * away**4).sum()) < (0.02 * sd**2) ** 2
        needed = off > 0.12 and noise > 0.04 and settled and finished and quiet
        out["W611"] = (off > 0.05 or noise > 0.05 or not settled, needed, off, "sd")


# ---- all together --------------------------------------------------------------------------------


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Of each code: fits with it, deserved, not deserved, needed and missing."""
    fits = {(r["number"], r["fit"]) for r in rows if r["kind"] in ("verdict", "quiet")}
    left = {(r["number"], r["fit"]) for r in rows if r["kind"] == "left out"}
    seconds = {(r["number"], r["fit"]): float(r["seconds"] or 0.0) for r in rows if r["fit"]}
    lines = [
        f"{len(fits)} fits, {len(left)} more without a truth; "
        f"{sum(seconds.values()):.0f} CPU s, median {np.median(list(seconds.values())):.2f}",
        "", "| code | fits with it | deserved | not | should have it | missed |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for code in CODES:
        own = [r for r in rows if r["kind"] == "verdict" and r["code"] == code]
        warned = [r for r in own if r["warned"] == "1"]
        good = [r for r in warned if r["deserved"] == "1"]
        missed = [r for r in own if r["warned"] == "0" and r["needed"] == "1"]
        due = len(good) + len(missed)
        lines.append(
            f"| {code} | {len(warned)} | {_of(len(good), len(warned))} | "
            f"{len(warned) - len(good)} | {due} | {_of(len(missed), due)} |"
        )
    for title, wanted in (("not deserved", ("1", "0")), ("missed", ("0", None))):
        lines.append(f"\n{title}:")
        for r in rows:
            if r["kind"] != "verdict" or r["warned"] != wanted[0]:
                continue
            if wanted[1] is not None and r["deserved"] != wanted[1]:
                continue
            lines.append(
                f"  {r['code']} {r['number']} {r['family']} {r['fit']} [{r['codes']}] {r['name']} "
                f"{r['size']} {r['status']} {r['basis']}"
            )
    return "\n".join(lines)


def _of(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)" if whole else "0"
