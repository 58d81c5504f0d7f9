"""The audit of a posterior: its distance from the exact one, and corrected moments and quantiles.

Three passes over n draws of q, a mixture of Gaussians over hyperparameter points (made again from
the seed where they are too many to keep). First the importance weights of q's own draws, for k-hat,
and of the draws stretched to a Student t_5; then corrected moments of every functional under the
better of two heavier-tailed proposals; then quantiles. Weights are p(y, z | theta_k) / q_k(z) over
the evidence that the share of point k was made with, so that the corrected posterior is that of z
and theta together. Exact draws may take the place of the proposal's (`exact`): the evidences of the
points then come from them and q's draws together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.accuracy.limits import NORMAL
from lgmdsl.accuracy.tails import effective_size, k_hat
from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.estimator import MixturePoint
from lgmdsl.assess.importance.bench import Bench, Elsewhere, Movement, Sampler, here, summed
from lgmdsl.assess.importance.draws import Chunk, DrawChunks, Proposal
from lgmdsl.assess.importance.moments import (
    Corrected,
    Evidence,
    Functional,
    Moments,
    Sums,
    chosen_entries,
    quantile_shifts,
    sums_of,
)
from lgmdsl.assess.importance.scan import Scan

# Entries of a functional whose quantiles are computed, and entries of one temporary there.
QUANTILES, TOGETHER = 900, 1 << 22


@dataclass(frozen=True, eq=False)
class Findings:
    """Diagnostics and corrected moments from the draws.

    `k_hat`: of the weights of q's own draws, all latents together; `along`: of weight times the
    distance from q's mean along single directions, where there are many latents. `own_size`: the
    effective size of q's own draws. `effective`: that of the `proposal` behind all that follows.
    `corrected`: by name, flat. `r_hat`: of the chains, where draws are exact; 1 else.
    """

    draws: int
    k_hat: float
    along: Mapping[str, float]
    own_size: float
    proposal: str
    effective: float
    log_evidence: float
    log_evidence_se: float
    functionals: tuple[Functional, ...]
    corrected: Mapping[str, Corrected]
    r_hat: float = 1.0


def audit_mixture(
    parts: Sequence[MixturePoint],
    functionals: Sequence[Functional],
    n: int,
    seed: int,
    sampler: Sampler | None = None,
    named_alone: bool = False,
    each: Elsewhere | None = None,
) -> Findings:
    """Audit a mixture over hyperparameter points against the true sites.

    `functionals` are corrected, and so are the sites' predictors and one random projection of all
    latents, which are judged too: a bias spread thinly over many latents adds up there. `sampler`:
    what makes exact draws of a part, in place of a proposal. `named_alone`: judge the `functionals`
    alone, of which something else than q is reported. `each`: workers that have a bench of these
    arguments. Log evidence counts from the parts' levels. Raises NumericalError E601 where the
    posterior cannot be drawn from.
    """
    by_name = {f.name: f for f in functionals}
    bench = Bench(DrawChunks(parts, n, seed), sampler, lambda name, _: by_name[name])
    each = here(bench) if each is None else each
    scan = Scan(bench, each)
    others, moving = zip(*scan.predictors(), scan.projection(), strict=True)
    every = (*functionals, *others)
    if named_alone:
        every = (*functionals, *(replace(f, judged=False) for f in others))
    own_size = effective_size(scan.log_weights)
    follow = scan.k_hats(own_size)
    proposal, source, effective = scan.proposal()
    evidence = Evidence(proposal)
    error = evidence.error
    if sampler is not None:
        error, inflation = scan.evidence_error, float(np.sqrt(n / max(effective, 1e-300)))
    else:
        inflation = 1.0
    sums: Iterable[Sequence[Sums]]
    if sampler is None:
        movements = (*(Movement(f.name, f.mean) for f in functionals), *moving)
        common = (movements, scan.direction, proposal.draws, evidence.columns)
        units = [(k, start) for k in range(len(parts)) for start in bench.chunks.starts(k)]
        sums = each(summed, units, common)
    else:
        sums = _summed(every, source, evidence)
    corrected = _corrected(every, sums, source, proposal, evidence)
    return Findings(
        draws=n,
        k_hat=k_hat(scan.log_weights, own_size),
        along=follow,
        own_size=own_size,
        proposal=proposal.name,
        effective=effective,
        log_evidence=evidence.log,
        log_evidence_se=error,
        functionals=every,
        corrected={name: _wider(c, inflation) for name, c in corrected.items()},
        r_hat=scan.r_hat,
    )


def _summed(
    functionals: Sequence[Functional], source: Iterable[Chunk], evidence: Evidence
) -> Iterator[list[Sums]]:
    """What exact draws add to the moments, chunk by chunk."""
    for chunk in source:
        columns = evidence.columns[chunk.where]
        yield [sums_of(f, chunk.x, columns, chunk.part, chunk.where) for f in functionals]


def _corrected(
    functionals: Sequence[Functional],
    sums: Iterable[Sequence[Sums]],
    source: Iterable[Chunk],
    proposal: Proposal,
    evidence: Evidence,
) -> dict[str, Corrected]:
    totals = [Moments(f) for f in functionals]
    for chunk in sums:
        for total, more in zip(totals, chunk, strict=True):
            total.add(more)
    out = {}
    for total, f in zip(totals, functionals, strict=True):
        out[f.name] = _with_quantiles(f, total.corrected(evidence), source, proposal, evidence)
    return out


@np.errstate(all="ignore")  # a report may be infinite
def _with_quantiles(
    f: Functional,
    corrected: Corrected,
    source: Iterable[Chunk],
    proposal: Proposal,
    evidence: Evidence,
) -> Corrected:
    """Corrected moments with 5 and 95 % points, of at most QUANTILES entries."""
    if not evidence.possible or not f.mean.size:
        return corrected
    n, size = evidence.draws, f.mean.size
    entries = chosen_entries(
        size, QUANTILES, (np.abs(corrected.shift), np.abs(corrected.stretch - 1))
    )
    step = max(TOGETHER // n, 1)
    out = tuple(np.full((2, size), np.nan) for _ in range(3))
    for begin in range(0, len(entries), step):
        block = entries[begin : begin + step]
        y = np.empty((n, len(block)))
        for chunk in source:
            x = chunk.x * proposal.draws[chunk.where, None]
            y[chunk.where] = f.at(chunk.part, x, chunk.where)[:, block]
        for whole, values in zip(out, _quantiles(f, corrected, y, block, evidence), strict=True):
            whole[:, block] = values
    return replace(corrected, quantiles=out[0], quantile_shift=out[1], quantile_error=out[2])


def _quantiles(
    f: Functional, corrected: Corrected, y: Array, block: IntArray, evidence: Evidence
) -> tuple[Array, Array, Array]:
    """Corrected points of some entries, their shifts and errors in corrected sds."""
    posterior, own, error = quantile_shifts(y, evidence.omega, evidence.v)
    mean = f.mean[block]
    base = _normal(f, block) if f.quantiles is None else f.quantiles[:, block]
    drawn = np.isfinite(own)
    if f.quantiles is None:
        base = np.where(drawn, mean + own, base)
    value = np.where(drawn, base + posterior - own, mean + posterior)
    said = base if f.reported is None else f.reported.quantiles[:, block]
    unit = np.where(corrected.sd > 0.0, corrected.sd, np.inf)[block]
    return value, (value - said) / unit, error / unit


def _normal(f: Functional, block: IntArray) -> Array:
    """A normal's points of q's moments."""
    return f.mean[block] + np.array([[-1.0], [1.0]]) * NORMAL * f.sd[block]


def _wider(c: Corrected, inflation: float) -> Corrected:
    """Errors of draws that are worth fewer than they are."""
    return replace(
        c,
        error=c.error * inflation,
        sd_error=c.sd_error * inflation,
        quantile_error=c.quantile_error * inflation,
    )
