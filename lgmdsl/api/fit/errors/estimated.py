"""The estimated errors of a fit: of its latents, lets and hyperparameters, and what W609 says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.accuracy.better import Better, Unknown, better
from lgmdsl.accuracy.errors import (
    BY_ENGINE,
    Accuracy,
    Errors,
    MeanVariance,
    beyond,
    largest,
    largest_by_chance,
    mixed,
    moments_of,
)
from lgmdsl.accuracy.limits import FEW_LATENTS, FEW_ROWS, MEAN, NORMAL, QUANTILE, SD
from lgmdsl.accuracy.weighted import WeightedPosterior
from lgmdsl.api.fit.errors.hyper_errors import (
    HyperErrors,
    Looked,
    conditioned,
    hyper_errors,
    outermost,
    same_theta,
    second_order_gap,
)
from lgmdsl.api.solve.solved import Solved
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.site import log_concave
from lgmdsl.contract.status import Status
from lgmdsl.errors import LgmError
from lgmdsl.inference.plan import Plan

VALUES = 20_000_000  # of a let's rows under all draws or latents: beyond, some of the rows


@dataclass(frozen=True, eq=False)
class Estimated:
    """`accuracy` of a fit, the corrected log evidence (NaN where it is not known), and the entries
    that are off, the worst first, with their errors in words. `hyper`: what is known of learned
    hyperparameters, of whose errors a share is `left`; `given` their mode: what is known of all
    else."""

    accuracy: Accuracy
    log_evidence: float
    off: tuple[tuple[str, str], ...] = ()
    hyper: HyperErrors | None = None
    given: Estimated | None = None
    left: float = 1.0

    def after(self, canonical: CanonicalModel) -> Estimated:
        """Where the hyperparameters were corrected, and a share of their errors is left."""
        if self.hyper is None or self.given is None:
            return self
        return joined(canonical, self.given, self.hyper, self.hyper.left)

    @property
    def of_latents(self) -> Estimated:
        """What is known of all but hyperparameters."""
        return self if self.given is None else self.given

    def with_latents(self, canonical: CanonicalModel, given: Estimated) -> Estimated:
        """The errors of the hyperparameters, and others of all else."""
        return given if self.hyper is None else joined(canonical, given, self.hyper, self.left)


def estimated(
    planned: Plan, solved: Solved, seed: int, whole: WeightedPosterior | None = None
) -> Estimated:
    """Estimated errors of a fit. Where hyperparameters were learned: of latents given their mode,
    and of the hyperparameters by what the corrections of the evidence do to their posterior.
    `whole`: weighted draws of the posterior at the fit's hyperparameters, where there are any."""
    q = solved.posterior
    cut = unsettled(solved)
    if cut is not None:
        return cut
    if solved.engine:  # the one that the fit took, without looking at all others again
        planned = replace(planned, terms=replace(planned.terms, engine=solved.engine))
    looked = Looked()
    given = _at(planned, solved.theta, q.conditioned, q.log_evidence, seed, looked, whole)
    gap = given.log_evidence - q.log_evidence
    if solved.learned is None or gap == 0.0:
        return given
    if whole is None:
        given = _over_points(planned, solved, given, seed, looked)
    near = looked.variational
    gap_of = second_order_gap(planned, seed, near)
    hyper = hyper_errors(planned, solved, gap, seed, gap_of, looked=looked)
    return given if hyper is None else joined(planned.canonical, given, hyper)


def unsettled(solved: Solved) -> Estimated | None:
    """The estimate for a fit that was interrupted or did not converge, of whose errors nothing is
    known; None for other fits."""
    status = solved.run.status if solved.learned is None else solved.learned.status
    if Status.interrupted in (status, solved.run.status):
        return Estimated(Accuracy.none("the fit was interrupted"), math.nan)
    if solved.run.status is not Status.converged:
        return Estimated(Accuracy.none("the fit did not converge"), math.nan)
    return None


def _over_points(
    planned: Plan, solved: Solved, given: Estimated, seed: int, looked: Looked
) -> Estimated:
    """The errors of a small model on average over its mixture, where hyperparameters were
    integrated over; else those `given` the mode. What is computed on the way is `looked` up by
    what asks for the same."""
    canonical, accuracy = planned.canonical, given.accuracy
    linear, mode = canonical.linear(solved.theta), looked.mode
    if mode is None or linear.rows > FEW_ROWS:
        return given
    # The means of others than a variational Gaussian and EP are off most where scales are large.
    if linear.size > FEW_LATENTS and mode[1].base is mode[1].q:
        return given
    shares, parts = [], list[list[tuple[str, np.ndarray, MeanVariance, Errors]]]()
    for k, fitted, share in outermost(solved):
        try:
            problem = planned.at(fitted.theta, seed=seed)
            q = conditioned(problem, fitted)
            if q is None:
                continue
            looked.posteriors[k] = q
            if same_theta(fitted.theta, mode[0]):
                known: Better | None = mode[1]
            else:
                with np.errstate(all="ignore"):
                    known = better(planned, fitted.theta, q, fitted.log_evidence, seed)
        except (Unknown, LgmError, np.linalg.LinAlgError):
            continue
        if known is None:
            continue
        if log_concave(problem.sites):  # others have other modes, which weighted draws look for
            looked.gaps[k] = known.log_evidence - fitted.log_evidence
        parts.append(_by_name_with_moments(canonical, fitted.theta, known))
        shares.append(share)
    if not parts:
        return given
    named = [
        (same[0][0], same[0][1], mixed(np.array(shares), [r for _, _, r, _ in same],
                                       [e for _, _, _, e in same]))
        for same in zip(*parts, strict=True)
    ]  # fmt: skip
    gap = accuracy.evidence
    return summed_up(canonical, named, gap, given.log_evidence, accuracy.basis)


def _by_name_with_moments(
    canonical: CanonicalModel, theta: Theta, known: Better
) -> list[tuple[str, np.ndarray, MeanVariance, Errors]]:
    """The errors by names, each with the means and variances that q reports."""
    seen: list[MeanVariance] = []

    def errors(functional: Predictor | None) -> Errors:
        seen.append(moments_of(known.q, functional))
        return known.errors(functional)

    rows = list(errors_by_name(canonical, theta, errors, known.width))
    (mean, variance), *others = seen
    slices = canonical.linear(theta).slices
    latents = [(mean[slices[b.name]], variance[slices[b.name]]) for b in canonical.latents]
    return [(*row[:2], m, row[2]) for row, m in zip(rows, [*latents, *others], strict=True)]


def joined(
    canonical: CanonicalModel, given: Estimated, hyper: HyperErrors, left: float = 1.0
) -> Estimated:
    """With the errors of hyperparameters, of which a share is `left`, and the gap of the integrated
    evidence."""
    gap = hyper.gap
    errors = {
        name: Errors(left * e.mean, left * e.sd, left * e.quantile)
        for name, e in hyper.errors.items()
    }
    named = [(name, np.arange(len(e.mean)), e) for name, e in errors.items()]
    own = largest(e for _, _, e in named)
    accuracy = given.accuracy
    mean, sd, quantile = (
        max(a, b) for a, b in zip((accuracy.mean, accuracy.sd, accuracy.quantile), own, strict=True)
    )
    off = (*entries_off(canonical, named), *given.off)
    worst = off[0][0] if off else ""
    both = replace(accuracy, mean=mean, sd=sd, quantile=quantile, evidence=gap, worst=worst)
    return Estimated(both, given.log_evidence, off, hyper, given, left)


def _at(
    planned: Plan,
    theta: Theta,
    q: Conditioned,
    log_evidence: float,
    seed: int,
    looked: Looked,
    whole: WeightedPosterior | None,
) -> Estimated:
    """At theta, where the posterior is q, by `whole` or by what is nearer than q."""
    if not planned.backend.spec.evidence:
        return Estimated(Accuracy.none(f"`{planned.method}` gives a mode alone"), math.nan)
    try:
        with np.errstate(all="ignore"):
            if whole is None:
                known = better(planned, theta, q, log_evidence, seed)
            else:
                known = Better.by_draws(q, whole)
    except (Unknown, np.linalg.LinAlgError) as why:
        return Estimated(Accuracy.none(str(why)), math.nan)
    if known is None:
        return Estimated(_of_engine(q), log_evidence)
    looked.mode = (theta, known)
    named = list(errors_by_name(planned.canonical, theta, known.errors, known.width))
    gap = known.log_evidence - log_evidence
    return summed_up(planned.canonical, named, gap, known.log_evidence, known.basis)


def _of_engine(q: Conditioned) -> Accuracy:
    """The accuracy of a Gaussian posterior: exact, but for what the engine estimates, where the
    largest error of a latent's sd that is to be expected counts."""
    errors, off = q.errors, q.latent_variance_error
    if errors is None:
        return Accuracy.exact()
    share = np.zeros(1) if off is None else off / np.maximum(q.latent_variance, 1e-300)
    ratio = 0.5 * share
    if not np.isfinite(ratio).all():
        return Accuracy.none(f"{BY_ENGINE} are not finite")
    usual = Errors(np.zeros_like(ratio), ratio, NORMAL * ratio)
    mean, sd, quantile = largest_by_chance([usual], int(np.count_nonzero(ratio)))
    return Accuracy(mean, sd, quantile, errors.log_normaliser, "", BY_ENGINE)


def summed_up(
    canonical: CanonicalModel,
    named: list[tuple[str, np.ndarray, Errors]],
    gap: float,
    log_evidence: float,
    how: str,
) -> Estimated:
    """What errors by names come to, with the gap of the evidence, and how they are known."""
    mean, sd, quantile = largest(errors for _, _, errors in named)
    off = entries_off(canonical, named)
    accuracy = Accuracy(mean, sd, quantile, gap, off[0][0] if off else "", how)
    return Estimated(accuracy, log_evidence, off)


def errors_by_name(
    canonical: CanonicalModel,
    theta: Theta,
    errors: Callable[[Predictor | None], Errors],
    width: int,
) -> Iterator[tuple[str, np.ndarray, Errors]]:
    """Names, places among their entries, and errors: latents, then affine lets and reports, whose
    rows are so many numbers wide."""
    whole = errors(None)
    linear = canonical.linear(theta)
    for block in canonical.latents:
        where = linear.slices[block.name]
        part = Errors(whole.mean[where], whole.sd[where], whole.quantile[where])
        yield block.name, np.arange(len(part.mean)), part
    for name, (dims, tree) in canonical.named.items():
        if not isinstance(tree, Leaf) or not tree.form.latents:
            continue
        size = math.prod(canonical.layout.shape(dims))
        rows = np.arange(size)
        if size * width > VALUES:
            rows = np.unique(np.linspace(0, size - 1, VALUES // width).astype(np.int64))
        chosen = None if len(rows) == size else rows
        functional: Predictor = canonical.predictor(tree.form, dims, theta, chosen)
        yield name, rows, errors(functional)


def entries_off(
    canonical: CanonicalModel, named: list[tuple[str, np.ndarray, Errors]]
) -> tuple[tuple[str, str], ...]:
    """The worst entry of each name that is beyond what is tolerated, the worst first."""
    out = []
    for name, rows, errors in named:
        times = beyond(errors)
        if len(times) and times.max() > 1.0:
            k = int(times.argmax())
            label = canonical.layout.entry(name, _dims(canonical, name), int(rows[k]))
            out.append((float(times[k]), label, _words(errors, k)))
    return tuple((label, words) for _, label, words in sorted(out, key=lambda o: -o[0]))


def _dims(canonical: CanonicalModel, name: str) -> tuple[str, ...]:
    """The indices of a latent, a let or a hyper."""
    block = canonical.hypers.block(name)
    if block is not None:
        return block.dims
    latents = canonical.layout.dims
    return latents[name] if name in latents else canonical.named[name][0]


def _words(errors: Errors, k: int) -> str:
    """What is wrong with one entry."""
    mean, sd, quantile = float(errors.mean[k]), float(errors.sd[k]), float(errors.quantile[k])
    words = []
    if abs(sd) > SD:
        words.append(f"its sd is about {abs(sd):.0%} too {'large' if sd > 0.0 else 'small'}")
    if abs(mean) > MEAN:
        words.append(f"its mean is about {abs(mean):.2g} sd too {'high' if mean > 0.0 else 'low'}")
    if not words and quantile > QUANTILE:
        words.append(f"a 5 or 95 % point is off by about {quantile:.2g} sd")
    return " and ".join(words)
