"""Is the posterior of a model with flat or intrinsic blocks proper? Asked before and after a fit.

Before: with weights at which all rows are of one size, does any combination of latents stay
undetermined?
After, and at the mode before a more expensive method starts: does the likelihood fall along the
direction in which each flat latent is freest? With separated classes it does not: Newton's
decrement vanishes, or the bound rises, on the way to infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.canonical.blocks.latents import FactorSpec, LatentBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.bases import basis_factor
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Failure, Rows, entry_name
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import Property, log_concave
from lgmdsl.contract.status import Status
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.errors import Diagnostic, LgmError, ModelError, NumericalError, listed
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan, plan, verdict
from lgmdsl.inference.registry import backends
from lgmdsl.inference.rescaling import rescale
from lgmdsl.inference.unit_weights import sizes, unit_weights
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.print_expr import show
from lgmdsl.sites.combined.predictors import FARTHEST
from lgmdsl.vocabulary.lookup import signatures

MODES = ("laplace", "map")  # methods that go to the mode, the second past kinks too

# The likelihood must fall between two points far out, in posterior sds or in units of the predictor
# (exponential links end at e^340, and noise may be of any scale): so far that it does not matter
# whether the fit has reached its optimum. LEVEL is the fall in nats that counts as none.
SDS, UNITS = (1e3, 1e6), (100.0, 300.0)
LEVEL = 1e-3
NEARBY = 3.0  # where a fall, of sites that are log-concave, says that there is one farther out
# A posterior sd of so many units of a predictor is infinity on its way. Its direction has no more
# than so many digits, and a million sds would make the others count: a class never seen frees the
# predictors of all others together, and what they differ by is rounding.
RUNAWAY, DIGITS = 1e4, 8
# At most this many latents are followed, the most uncertain first.
FOLLOWED = 200
WORK, FEWEST = 2_000_000, 10  # latents times directions: in large models fewer are followed
LARGEST = 2_000  # rows with kinks, of more the mode costs more than most methods do
HELD = 20_000_000  # entries of a block's null space


@np.errstate(all="ignore")  # what overflows fails to factorise
def check_determined(canonical: CanonicalModel, problem: Problem) -> None:
    """Raise ModelError E402 where data and priors leave a direction of the latents free, E403 where
    constraints exclude one another."""
    loose = tuple(b.name for b in problem.engine.linear.blocks if Shape.IMPROPER in b.shape)
    if not loose and problem.engine.linear.constraints is None:
        return
    outcome = _conditioned(problem, unit_weights(problem))
    rescaled = rescale(problem) if isinstance(outcome, Failed) else None
    if rescaled is not None:  # any positive weights will do: those of the sites' own scales
        own = tuple(bool(np.any(u != 1.0)) for u in rescaled.rescaling.unit)
        again = _conditioned(rescaled.problem, unit_weights(rescaled.problem, own))
        outcome = outcome if isinstance(again, Failed) else again
    if not isinstance(outcome, Failed):
        return
    reason = outcome.worded(labels_of(canonical))
    if outcome.kind is not None and outcome.kind.contradicts:
        raise ModelError(_contradiction(canonical, reason))
    if outcome.rounding:
        raise NumericalError.of(
            "E601",
            "the posterior is beyond double precision",
            note=reason,
            help="fewer points on that axis (neighbours under one label), or a larger sd",
        )
    if loose:
        free = [name for name in loose if name in outcome.latents] or list(loose)
        raise ModelError(improper(canonical, free[0], reason, outcome.latents))


def _conditioned(problem: Problem, weight: Rows) -> Conditioned | Failed:
    shift = tuple(np.zeros(w.shape[:-1] if w.ndim == 3 else w.shape) for w in weight)
    return problem.engine.condition(weight, shift)


def check_mode(planned: Plan, problem: Problem, theta: Theta) -> None:
    """`check_bounded` at the posterior's mode, where it is available, so that an expensive method
    need not go to infinity to learn that there is no optimum."""
    blocks, engine = planned.canonical.blocks, problem.engine
    if planned.method in MODES or not engine.exact or not _loose(engine.linear):
        return  # of an engine that estimates, the mode is as expensive as the method itself
    if all(Property.KINKED in b.site.spec.properties for b in blocks):
        return  # they fall to both sides: what they determine, they bound
    known = backends()
    able = [m for m in MODES if m in known and verdict(blocks, known[m], None).runs]
    if not able or (able[0] == MODES[1] and engine.linear.rows > LARGEST):
        return  # asked after the fit instead
    mode = plan(planned.canonical, able[0]).at(theta, engine)
    outcome = run(known[able[0]](), mode, Tolerances())
    # A search that failed on its way stands nowhere in particular.
    if outcome.posterior is not None and outcome.status in (
        Status.converged,
        Status.iteration_limit,
    ):
        check_bounded(planned.canonical, mode, outcome.posterior.conditioned)


@np.errstate(all="ignore")  # far out log densities overflow, which is a fall
def check_bounded(canonical: CanonicalModel, problem: Problem, conditioned: Conditioned) -> None:
    """Raise ModelError E402 where the joint density does not fall along an improper direction."""
    linear = problem.engine.linear
    parts, fixed = _loose(linear), _fixed(linear)
    for part in parts:
        for unit, label in _followed(canonical, part, conditioned, fixed):
            # One posterior sd long, the proper directions staying where they are.
            response = conditioned.solve(unit)
            direction = _freed(parts, linear, response) / np.sqrt(
                max(float(unit @ response), 1e-300)
            )
            if _least_fall(problem, conditioned, direction) < LEVEL:
                reason = f"the likelihood does not fall as {label} goes to infinity"
                raise ModelError(improper(canonical, part.name, reason))
    # A search that runs to infinity runs along its own mean: of many latents none need do alone.
    far = _freed(parts, linear, conditioned.latent_mean)
    if far.any() and _least_fall(problem, conditioned, far) < LEVEL:
        names = listed([f"`{p.name}`" for p in parts if far[p.where].any()])
        reason = f"the likelihood does not fall as {names} moves from its mean to infinity"
        raise ModelError(improper(canonical, parts[0].name, reason))


def _freed(parts: list[BlockPrior], linear: LinearGaussian, z: Array) -> Array:
    """The part of z along improper directions."""
    out = np.zeros(linear.size)
    for part in parts:
        out[part.where] = part.freed(z[part.where])
    return out


def _fixed(linear: LinearGaussian) -> BoolArray:
    """(n,) the latents that stand alone in a constraint, as the base of treatment contrasts."""
    out = np.zeros(linear.size, dtype=bool)
    if linear.constraints is not None:
        columns = linear.constraints.columns
        parts = [
            sp.csr_array(op.sparse() if op.is_sparse else op.dense()) for op in columns.values()
        ]
        places = [np.arange(linear.size)[linear.slices[name]] for name in columns]
        whole = sp.csr_array(sp.hstack(parts, format="csr"))
        whole.eliminate_zeros()
        alone = np.diff(whole.indptr) == 1
        out[np.concatenate(places)[whole.indices[whole.indptr[:-1][alone]]]] = True
    return out


def _followed(
    canonical: CanonicalModel, part: BlockPrior, conditioned: Conditioned, fixed: BoolArray
) -> Iterator[tuple[Array, str]]:
    """Improper directions of a block: its most uncertain latents if it is flat, but for those that
    are `fixed` (n,), whose variance is rounding; else its basis."""
    size = len(conditioned.latent_mean)
    if part.flat:
        most = max(FEWEST, min(FOLLOWED, WORK // size))
        variance = np.where(fixed[part.where], -1.0, conditioned.latent_variance[part.where])
        uncertain = np.argsort(-variance)[: np.count_nonzero(variance >= 0.0)]
        for i in uncertain[:most]:
            unit = np.zeros(size)
            unit[part.where.start + i] = 1.0
            yield unit, _label(canonical, part.name, int(i))
        return
    for column in part.free_space.T[:FOLLOWED]:
        unit = np.zeros(size)
        unit[part.where] = column
        ends = [
            _label(canonical, part.name, i) for i in (int(column.argmin()), int(column.argmax()))
        ]
        yield (
            unit,
            f"{ends[1]} - {ends[0]}" if column.min() < 0.0 else f"the level of `{part.name}`",
        )


def _least_fall(problem: Problem, conditioned: Conditioned, direction: Array) -> float:
    """The smaller fall of the likelihood along +-`direction`, on which a flat prior has no say,
    over lengths in units of the direction, of the predictors and their level, and of the sd that
    the sites' weights give it (where noise sds are vast, the others are nothing to them)."""
    s = conditioned.mean
    steps = tuple(
        p.times(direction, problem.engine.linear.slices).reshape(m.shape)
        for p, m in zip(problem.engine.linear.predictors, s, strict=True)
    )
    parts = zip(conditioned.weight, steps, strict=True)
    precision = rows.total(tuple(rows.quadratic(w, d) for w, d in parts))
    if log_concave(problem.sites):
        here, up, down = _sums_along(problem, s, steps, (0.0, NEARBY, -NEARBY))
        if min(here - up, here - down) > LEVEL:  # a concave function falls faster and faster
            return min(here - up, here - down)
    longest = max((float(np.abs(d).max(initial=0.0)) for d in steps), default=0.0)
    if longest > RUNAWAY:
        steps = tuple(longest * np.round(d / longest, DIGITS) for d in steps)

    def fall(sign: float, near: float, far: float) -> float:
        before, end = _sums_along(problem, s, steps, (sign * near, sign * far))
        # Beyond the support of some row, near and far alike, nothing is possible any more.
        return before - end if end > -1e300 else math.inf

    scales = [SDS] if longest == 0.0 else [SDS, (UNITS[0] / longest, UNITS[1] / longest)]
    if 0.0 < precision < np.inf:
        scales.append((SDS[0] / np.sqrt(precision), SDS[1] / np.sqrt(precision)))
    room = _room(problem, s, steps)
    if 0.0 < room < np.inf:
        scales.append((room / 3.0, room))
    level = max((float(np.abs(x).max(initial=0.0)) for x in s), default=0.0)
    if 0.0 < longest < level:  # next to which shorter lengths may be rounding
        scales.append((level / longest, 10.0 * level / longest))
    return min(max(fall(sign, near, far) for near, far in scales) for sign in (-1.0, 1.0))


def _sums_along(problem: Problem, s: Rows, steps: Rows, lengths: tuple[float, ...]) -> list[float]:
    """The log density of all sites at s + t steps, for some t; -1e300 where it is not finite."""
    out = np.zeros(len(lengths))
    for site, x, d in zip(problem.sites, s, steps, strict=True):
        if isinstance(site, SumsOfRows):
            out += site.along(x, d[None], np.array([lengths]))[0]
        else:
            out += [float(site.log_density(x + t * d).sum()) for t in lengths]
    return [float(v) if np.isfinite(v) else -1e300 for v in out]


def _room(problem: Problem, s: Rows, steps: Rows) -> float:
    """How far logarithms of scales can go before they are taken as FARTHEST: beyond that the
    density falls no more."""
    room = math.inf
    for site, x, d in zip(problem.sites, s, steps, strict=True):
        logs = list(site.log_scales)
        if logs:
            reach = (FARTHEST - np.abs(x[:, logs])) / np.maximum(np.abs(d[:, logs]), 1e-300)
            room = min(room, float(reach.min(initial=math.inf)))
    return room


def hidden(canonical: CanonicalModel, problem: Problem, failed: Failed | None) -> Diagnostic | None:
    """E601 for a direction that `check_determined` has shown to be determined, and that a method
    could not see: what is small in it was lost to rounding against what is large."""
    if failed is None or failed.kind is not Failure.UNDETERMINED or failed.direction is None:
        return None
    block_sizes = zip(canonical.blocks, sizes(problem.engine.linear), strict=True)
    about = [f"`{b.name}` {np.median(s):.1e}" for b, s in block_sizes if len(s)]
    direction = failed.direction.worded(labels_of(canonical))
    return Diagnostic(
        "E601",
        "the posterior is beyond double precision",
        details=(f"rounding hides what determines {direction}",),
        note=f"predictors for latents of size 1: {listed(about)}",
        help="divide features by their size, so that the latents are of size 1",
    )


def _loose(linear: LinearGaussian) -> list[BlockPrior]:
    """The improper blocks, but for those whose directions are too many to be looked at."""
    blocks = [
        BlockPrior(b, linear.starts[b.name]) for b in linear.blocks if Shape.IMPROPER in b.shape
    ]
    return [b for b in blocks if b.flat or b.size * b.nullity <= HELD]


def _label(canonical: CanonicalModel, name: str, position: int) -> str:
    dims = canonical.layout.dims[name]
    if not dims:
        return f"`{name}`"
    return f"`{canonical.layout.entry(name, dims, position)}`"


def labels_of(canonical: CanonicalModel) -> Callable[[str, int], str]:
    """The labels by which the user knows the entries of latents."""
    names = {b.name for b in canonical.latents}

    def label(name: str, entry: int) -> str:
        known = name in names
        return _label(canonical, name, entry).strip("`") if known else entry_name(name, entry)

    return label


def _contradiction(canonical: CanonicalModel, reason: str) -> Diagnostic:
    statements = canonical.grounded.model.tree.statements
    last = [s for s in statements if isinstance(s, ast.Constrain)][-1]
    return Diagnostic(
        "E403",
        "no value of the latents satisfies every constraint",
        last.span,
        reason,
        help="leave one out, or correct its value; rw1, rw2, besag and bym2 sum to zero already",
    )


# ---- what would make it proper -------------------------------------------------------------------
# E402 for a latent that neither data nor priors fix, with a prior that would.


_TIE = "sum_to_zero"


def improper(
    canonical: CanonicalModel, name: str, reason: str, latents: tuple[str, ...] = ()
) -> Diagnostic:
    """E402 for the block `name`; `latents`: those of the direction that nothing determines."""
    return Diagnostic(
        "E402",
        f"the posterior is improper: nothing fixes `{canonical.shown(name)}`",
        canonical.grounded.model.symbols[owner(name)].statement.span,
        reason,
        help=_remedy(canonical, name, latents),
    )


def _remedy(canonical: CanonicalModel, name: str, latents: tuple[str, ...]) -> str:
    theta = canonical.hypers.start()
    block = next((x for x in canonical.latents if x.name == name), None)
    instead = _without_trends(block, theta) if block else ""
    basis = basis_factor(canonical.grounded.model.symbols[owner(name)])
    if basis is not None:
        shrink = f", or set {basis.basis.shrink} = true" if basis.basis.shrink else ""
        return f"leave out a latent that has that direction{shrink}"
    remedy = instead or f"give `{name}` a proper prior, e.g. normal(sd = 10)"
    untied = next((x for x in canonical.latents if x.name in latents and _untied(x)), None)
    if untied is None or (instead and untied is block):
        return remedy
    of = "" if untied is block else f" of `{untied.name}`"
    return f"remove `{_TIE} = false`{of}, or {remedy}"


def _untied(block: LatentBlock) -> bool:
    return any(f.arguments.get(_TIE) is False for f in block.factors)


def _without_trends(block: LatentBlock, theta: Theta) -> str:
    """Advice to replace structures with free directions by others of the same arguments that have
    none; "" where that is not possible, or where sums to zero leave none."""
    written, loose = [], []
    for factor in map(_tied, block.factors):
        structure = factor.name
        if not _is_proper(factor, theta):
            proper = (n for n in _alike(factor) if _is_proper(replace(factor, name=n), theta))
            structure = next(proper, "")
            loose.append(factor.name)
        if not structure:
            return ""
        written.append(show(replace(factor.factor, name=ast.Name(structure))))
    if not loose:
        return ""
    leaves = "leaves" if len(set(loose)) == 1 else "leave"
    names = listed([f"`{n}`" for n in dict.fromkeys(loose)])
    declared = f"{block.name}[{', '.join(block.dims)}] ~ {' * '.join(written)}"
    return f"{names} {leaves} trends free, which the data must show: latent {declared} has none"


def _tied(factor: FactorSpec) -> FactorSpec:
    """The factor with its sums to zero."""
    if factor.arguments.get(_TIE) is not False:
        return factor
    arguments = {k: v for k, v in factor.arguments.items() if k != _TIE}
    kept = tuple(a for a in factor.factor.arguments if a.name != _TIE)
    return replace(factor, arguments=arguments, factor=replace(factor.factor, arguments=kept))


def _alike(factor: FactorSpec) -> Iterator[str]:
    """Names of other structures that take the same arguments."""
    arguments = {p.name for p in factor.declared.parameters}
    for signature in signatures("structure"):
        same = {p.name for p in signature.parameters} == arguments
        if same and signature.whole == factor.declared.whole and signature.name != factor.name:
            yield signature.name


def _is_proper(factor: FactorSpec, theta: Theta) -> bool:
    """Whether a factor leaves no direction free; of one that is refused, no."""
    try:
        return Shape.IMPROPER not in factor.build(theta).shape
    except LgmError:
        return False
