"""The back end `ep`: what is tried, in which order, and what is handed back.

1. parallel (or sequential) EP with adaptive damping, while it comes nearer; from an earlier
   posterior, which may be farther from this one than the prior is, then from the prior;
   then, for log-concave sites of few rows, sweeps: two sites with exponential tails that contradict
   each other under a wide prior only settle one after the other;
2. where a site is not log-concave and the power was 1: the same at power 1/2, whose cavities are
   wider and tolerate more (power EP, Minka 2004);
3. the convergent double loop.

The trace names the stage of each step; the posterior is that of the state with the least residual.
Away from a fixed point EP's value is no evidence, and may be as large as it likes: it is withheld
(NaN, with a note) where even that state's moments are apart by more than FARTHEST.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.backend import Backend, BackendSpec, check_range, option
from lgmdsl.contract.engine import Adjoints, Failed
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Pointwise, Tilted, TiltedSlopes
from lgmdsl.contract.rows import diagonal, times
from lgmdsl.contract.site import log_concave
from lgmdsl.contract.stacked import flatten
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.vocabulary.notes import Notes
from lgmdsl_backends.ep import by_rows
from lgmdsl_backends.ep.by_rows import RowPoint, RowWalk
from lgmdsl_backends.ep.double_loop import LARGEST, OuterPoint, advance
from lgmdsl_backends.ep.double_loop import begin as begin_outer
from lgmdsl_backends.ep.matching import Matched, cavities, matched, nonnegative, tilt
from lgmdsl_backends.ep.parallel import Walk, parallel, sequential

MODES = ("parallel", "sequential", "double-loop")
# Steps without a smaller residual after which a stage is given up.
PATIENCE = 25
HALF = 0.5
# Most rows that are swept after the parallel stage: a sweep takes milliseconds a row.
SWEPT = 200
# Parallel steps before a double loop that is asked for.
APPROACH = 2
SLOW = "EP does not converge; its sweeps and double loop take all rows in memory (rows=kept)"
# The residual above which a state has no evidence, in posterior sds.
FARTHEST = 10.0


@dataclass(frozen=True, eq=False)
class EPState:
    """A stage with its walk or its outer loop, the point with the least residual so far, and how
    many steps ago that was; `warm`: whether it began at an earlier posterior."""

    stage: str
    walk: Walk | RowWalk | None = None
    outer: OuterPoint | None = None
    best: Matched | RowPoint | None = None
    waited: int = 0
    warm: bool = False
    residual: float = math.inf
    failed: Status | None = None
    reason: str | Failed = ""

    @property
    def objective(self) -> float:
        """EP's log evidence at the point; in the double loop the bound that rises to it."""
        if self.outer is not None:
            return self.outer.bound
        return -math.inf if self.walk is None else self.walk.point.value


@dataclass(frozen=True)
class ExpectationPropagation(Backend[EPState]):
    """Expectation propagation (Minka 2001), with powers (Minka 2004).

    `mode`: parallel, sequential or double-loop. `power`: from 1e-4 to 1; towards 0 the variational
    Gaussian. `damping`: the share of the first step that is taken, from 1e-3 to 1; adapted after.
    """

    mode: str = option("parallel", "the order in which sites are updated", MODES)
    power: float = option(
        1.0, "of fractional EP, from 1e-4 to 1; towards 0 the variational Gaussian"
    )
    damping: float = option(
        1.0, "the share of the first step that is taken, from 1e-3 to 1; adapted after"
    )

    spec: ClassVar[BackendSpec] = BackendSpec(
        name="ep",
        needs=Tilted,
        row_sites=True,
        eliminates=True,
        guarantee=Guarantee.APPROXIMATE,
        max_steps=300,
        warm="natural-gradient",
        scout="laplace",
        paper="Minka 2001; Seeger and Nickisch 2011; Opper and Winther 2005",
        summary="matches each site's moments against its cavity; bounds nothing, may not settle",
        notes=Notes(
            formula="site by site: q has the mean and variance of q(s) / site(s) * t(s); log p(y) "
            "by the sites' masses",
            support="sites whose tilted moments are known, by themselves or through quadrature: of "
            "vector sites up to three predictors, or four classes",
            advice="the most accurate sds and evidence of the methods where it converges; "
            "guarantees nothing, and may not settle where sites are not log-concave: --option "
            "damping=0.5, or mode=double-loop",
            example="lgm fit model.lgm data.npz --method ep --option power=0.5 --option "
            "damping=0.5",
            see_also=("natural-gradient", "laplace", "choosing-a-method"),
        ),
    )

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode is one of {', '.join(MODES)}, not {self.mode!r}")
        # Site masses are good to 1e-9, and the log evidence to that over the power.
        check_range("power", self.power, 1e-4, 1.0)
        check_range("damping", self.damping, 1e-3, 1.0)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> EPState:
        if by_rows.in_passes(problem):
            return self._start_rows(problem, warm)
        if self.mode != "parallel" and any(site.spec.vector for site in problem.sites):
            vector = next(site.spec.name for site in problem.sites if site.spec.vector)
            message = f"mode={self.mode} takes scalar sites alone, and {vector} is a vector site"
            raise MethodError(Diagnostic("E501", message, help="--option mode=parallel"))
        point = begin(problem, self.power, warm)
        if isinstance(point, Failed):
            return EPState(self.mode, failed=Status.numerical_error, reason=point)
        if self.mode == "double-loop":
            return self._enter_double_loop(problem, _approached(problem, Walk(point, self.damping)))
        begun = _walked(self._stage(self.power), Walk(point, self.damping), None)
        return replace(begun, warm=warm is not None)

    def step(self, problem: Problem, state: EPState) -> EPState:
        if state.outer is not None:
            return self._outer_step(problem, state, state.outer)
        if isinstance(state.walk, RowWalk):
            return self._row_step(problem, state, state.walk)
        assert state.walk is not None
        if state.waited < PATIENCE:
            move = sequential if state.stage.startswith("sequential") else parallel
            walk = move(problem, state.walk)
            if walk is not None:
                return _walked(state.stage, walk, state)
        return self._fall_back(problem, state)

    def residual(self, problem: Problem, state: EPState) -> float:
        return state.residual

    def posterior(self, problem: Problem, state: EPState) -> GaussianPosterior:
        point = state.best
        assert point is not None, "the driver keeps the last state that has a posterior"
        notes, value = [], point.value
        if point.power != self.power:
            notes.append(f"EP at power 1 did not converge: the result is at power {point.power:g}")
        if point.residual > FARTHEST:
            value = math.nan
            notes.append(f"no log evidence: moments are {point.residual:.2g} sds from matching")
        slopes = _slopes(problem, point)
        return GaussianPosterior(
            weight=point.conditioned.weight,
            shift=point.conditioned.shift,
            conditioned=point.conditioned,
            log_evidence=value,
            guarantee=Guarantee.EXACT if problem.gaussian else self.spec.guarantee,
            notes=tuple(notes),
            slopes=slopes,
            adjoints=None
            if isinstance(point, RowPoint) or not _unmoved(point)
            else partial(_adjoints, problem, point),
        )

    # ---- rows in passes ------------------------------------------------------------------------

    def _start_rows(self, problem: Problem, warm: GaussianPosterior | None) -> EPState:
        if self.mode != "parallel":
            message = f"mode={self.mode} cannot walk through rows that are read by batches"
            raise MethodError(Diagnostic("E501", message, help="--option mode=parallel"))
        point = by_rows.begin(problem, self.power, warm)
        if isinstance(point, Failed):
            return EPState(self.mode, failed=Status.numerical_error, reason=point)
        begun = _walked(self._stage(self.power), RowWalk(point, self.damping), None)
        return replace(begun, warm=warm is not None)

    def _row_step(self, problem: Problem, state: EPState, walk: RowWalk) -> EPState:
        following = by_rows.advance(problem, walk) if state.waited < PATIENCE else None
        if following is not None:
            return _walked(state.stage, following, state)
        cold = by_rows.begin(problem, self.power) if state.warm else Failed("")
        if isinstance(cold, RowPoint):
            return _walked(state.stage, RowWalk(cold, self.damping), None)
        return EPState(state.stage, best=state.best, failed=Status.stalled, reason=SLOW)

    # ---- stages --------------------------------------------------------------------------------

    def _stage(self, power: float) -> str:
        return self.mode if power == self.power else f"{self.mode}, power {power:g}"

    def _fall_back(self, problem: Problem, state: EPState) -> EPState:
        """The next stage, from the best point of this one."""
        best = state.best
        assert isinstance(best, Matched)
        if state.warm:
            cold = begin(problem, best.power)
            if isinstance(cold, Matched):
                return _walked(state.stage, Walk(cold, self.damping), None)
        concave = log_concave(problem.sites)
        if any(not b.scalar for b in best.blocks) and (best.power < 1.0 or concave):
            reason = "EP does not converge, and its double loop takes scalar sites alone"
            return EPState(state.stage, best=best, failed=Status.stalled, reason=reason)
        if state.stage == "parallel" and concave and len(best.mean) <= SWEPT:
            again = begin(problem, best.power, None)
            if isinstance(again, Matched):
                return _walked("sequential", Walk(again, self.damping), None)
        if best.power == 1.0 and not concave:
            wider = begin(problem, HALF, None)
            if isinstance(wider, Matched):
                return _walked(self._stage(HALF), Walk(wider, self.damping), None)
        return self._enter_double_loop(problem, best)

    def _enter_double_loop(self, problem: Problem, point: Matched) -> EPState:
        stage = (
            "double loop" if point.power == self.power else f"double loop, power {point.power:g}"
        )
        if len(point.mean) > LARGEST:
            reason = (
                f"EP does not converge, and {len(point.mean)} rows are too many for the double loop"
            )
            return EPState(stage, best=point, failed=Status.stalled, reason=reason)
        starts = chain((point,), beginnings(problem, point.power))
        outer = next(filter(None, (begin_outer(problem, start) for start in starts)), None)
        if outer is None:
            return EPState(
                stage, best=point, failed=Status.stalled, reason="no inner optimum at the start"
            )
        return _looped(stage, outer, EPState(stage, best=point))

    def _outer_step(self, problem: Problem, state: EPState, outer: OuterPoint) -> EPState:
        following = advance(problem, outer)
        if following is None:
            return replace(
                state, failed=Status.stalled, reason="the double loop makes no further progress"
            )
        return _looped(state.stage, following, state)


def _walked(stage: str, walk: Walk | RowWalk, before: EPState | None) -> EPState:
    best, waited = walk.point, 0
    if before is not None and before.best is not None and best.residual >= before.best.residual:
        best, waited = before.best, before.waited + 1
        if isinstance(best, RowPoint):
            best = replace(best, visited=())
    warm = before is not None and before.warm
    residual = walk.point.residual
    return EPState(stage, walk=walk, best=best, waited=waited, warm=warm, residual=residual)


def _looped(stage: str, outer: OuterPoint, before: EPState) -> EPState:
    best, waited = before.best, before.waited + 1
    if best is None or outer.residual < best.residual:
        best, waited = outer.point, 0
    return EPState(stage, outer=outer, best=best, waited=waited, residual=outer.residual)


def _approached(problem: Problem, walk: Walk) -> Matched:
    """The best of a few parallel steps: rough sites may be far from any inner optimum."""
    best = walk.point
    for _ in range(APPROACH):
        following = parallel(problem, walk)
        if following is None:
            break
        walk, best = following, min(best, following.point, key=lambda point: point.residual)
    return best


def _slopes(
    problem: Problem, point: Matched | RowPoint
) -> Callable[[], tuple[Mapping[str, Array], ...]]:
    """The slopes in the sites' parameters."""
    if isinstance(point, RowPoint):
        return by_rows.parameter_slopes(problem, point)
    return partial(_parameter_slopes, problem, point)


def _unmoved(point: Matched) -> bool:
    """Whether some sites are at predictors without variance."""
    return any(bool(b.known.any()) for b in point.blocks)


def _adjoints(problem: Problem, point: Matched) -> Adjoints:
    """Adjoints of the conditioned Gaussian, whose sites say nothing of predictors without variance:
    there the evidence has the slope of the site itself."""
    out = point.conditioned.adjoints()
    try:
        sites = cast("tuple[Pointwise, ...]", problem.asking(Pointwise))
    except MethodError:  # a site without derivatives: then nobody knows
        return out
    offset = []
    for site, block, slope in zip(sites, point.blocks, out.offset, strict=True):
        known = block.known.reshape(-1, *(1,) * (np.ndim(block.mean) - 1))
        own = site.pointwise(block.mean).slope.reshape(block.mean.shape) if known.any() else 0.0
        offset.append(np.where(known, own, slope.reshape(block.mean.shape)).reshape(slope.shape))
    return replace(out, offset=tuple(offset))


def _parameter_slopes(problem: Problem, point: Matched) -> tuple[Mapping[str, Array], ...]:
    """dlog evidence/dparameter at the fixed point: E_tilted[dl/dparameter] for each site."""
    sites = cast("tuple[TiltedSlopes, ...]", problem.asking(TiltedSlopes))
    with np.errstate(all="ignore"):
        return tuple(
            site.tilted_slopes(b.cavity_mean, b.cavity_variance, point.power)
            for site, b in zip(sites, point.blocks, strict=True)
        )


# ---- beginning ---------------------------------------------------------------------------------


# The largest variance of a predictor of a vector site in the first cavities, where it has no unit.
WIDEST = 0.1


def begin(
    problem: Problem, power: float, warm: GaussianPosterior | None = None
) -> Matched | Failed:
    """The sites of an earlier posterior; or those that match the moments against the prior as their
    cavity, their weights not negative (where a prior is flat, against N(prior mean, 1)); or weights
    of 1 at the prior mean."""
    reason = Failed("no site gives a finite moment at the prior mean")
    for point in _points(problem, power, warm):
        if isinstance(point, Matched):
            return point
        reason = point
    return reason


def beginnings(problem: Problem, power: float) -> Iterator[Matched]:
    """Every first point that exists, without an earlier posterior, in the same order."""
    return (point for point in _points(problem, power, None) if isinstance(point, Matched))


def _points(
    problem: Problem, power: float, warm: GaussianPosterior | None
) -> Iterator[Matched | Failed]:
    for weight, shift in _candidates(problem, power, warm):
        if np.isfinite(weight).all() and np.isfinite(shift).all():
            yield matched(problem, weight, shift, power)


def _candidates(
    problem: Problem, power: float, warm: GaussianPosterior | None
) -> Iterator[tuple[Array, Array]]:
    if warm is not None:
        yield flatten(warm.weight), flatten(warm.shift)
    prior = problem.engine.prior_mean
    unit = tuple(_units(m) for m in prior)
    none = tuple(np.zeros_like(v) for v in unit)
    alone = problem.engine.condition(none, tuple(np.zeros_like(m) for m in prior))
    known = () if isinstance(alone, Failed) else zip(problem.sites, alone.variance, strict=True)
    narrow = tuple(_narrow(v, site.spec.link == "identity") for site, v in known)
    prior_spread = () if isinstance(alone, Failed) else (narrow,)
    for spread in (*prior_spread, unit):
        most = max((float(diagonal(v).max(initial=0.0)) for v in spread), default=0.0)
        targets = []
        for site, m, v in zip(problem.tilting(), prior, spread, strict=True):
            block = cavities(np.zeros_like(v), np.zeros_like(m), (m, v), None, power, most)
            if block is None:
                break
            block = tilt(block, site)
            if not block.finite:
                break
            weight = nonnegative(block.target_weight(), block.variance)
            targets.append((weight, block.slope_gap() + times(weight, m)))
        if len(targets) == len(prior):
            yield flatten(tuple(w for w, _ in targets)), flatten(tuple(s for _, s in targets))
    yield flatten(unit), flatten(tuple(times(w, m) for w, m in zip(unit, prior, strict=True)))


def _narrow(variance: Array, placed: bool) -> Array:
    """The variances; of vector sites with each predictor scaled down to WIDEST: their moments are
    quick where cavities are narrow, and the first ones need not be the prior's. `placed`: the first
    predictor is on the axis of y, whose unit is free: no variance is wide there."""
    if variance.ndim == 1:
        return variance
    scale = np.sqrt(WIDEST / np.maximum(diagonal(variance), WIDEST))
    if placed:
        scale[:, 0] = 1.0
    return np.asarray(variance * scale[:, :, None] * scale[:, None, :])


def _units(mean: Array) -> Array:
    """Variances of 1, (N,), or the identity, (N, K, K)."""
    if mean.ndim == 1:
        return np.ones_like(mean)
    return np.broadcast_to(np.eye(mean.shape[1]), (*mean.shape, mean.shape[1])).copy()
