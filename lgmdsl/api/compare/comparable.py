"""Whether models may be compared, and why not: W610."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lgmdsl.api.assess.loo import Loo
from lgmdsl.arrays import AnyArray
from lgmdsl.contract.structure import Shape
from lgmdsl.errors import Diagnostic, listed
from lgmdsl.posterior.fit_record import FitRecord


@dataclass(frozen=True, eq=False)
class Responses:
    """What a model observes: `names` in their order, entries and values of each, whether they are
    discrete; `order`: their places among the model's own. `values` is None in fits from files,
    whose `hashes` name the data, and so is `rows` where these were streamed."""

    names: tuple[str, ...]
    order: tuple[int, ...]
    rows: tuple[AnyArray | None, ...]
    values: tuple[AnyArray | None, ...]
    hashes: tuple[str, ...]
    discrete: tuple[bool, ...]

    def same(self, other: Responses) -> bool:
        """Whether both have observed the same: one value by value where both know them."""
        if len(self.names) != len(other.names):
            return False
        for k in range(len(self.names)):
            at, there = self.rows[k], other.rows[k]
            if at is not None and there is not None and not np.array_equal(at, there):
                return False
            mine, theirs = self.values[k], other.values[k]
            if mine is not None and theirs is not None:
                if not np.array_equal(mine, theirs, equal_nan=True):
                    return False
            elif self.hashes[k] != other.hashes[k]:
                return False
        return True


def responses_of(fit: FitRecord) -> Responses:
    """The observed data of a fit, by name."""
    blocks = [b for b in fit.canonical.blocks if not b.family.spec.potential]
    order, held = sorted(range(len(blocks)), key=lambda k: blocks[k].name), fit.canonical.by_rows
    return Responses(
        names=tuple(blocks[k].name for k in order),
        order=tuple(order),
        rows=tuple(blocks[k].data.rows if held else None for k in order),
        values=tuple(blocks[k].data.y if held else None for k in order),
        hashes=tuple(fit.provenance.get(f"sha256_{blocks[k].name}", "") for k in order),
        discrete=tuple(blocks[k].family.spec.discrete for k in order),
    )


def warning(message: str, *details: str, help: str = "") -> Diagnostic:
    """W610."""
    return Diagnostic("W610", message, details=details, help=help, severity="warning")


def evidence_doubts(
    fits: Mapping[str, FitRecord], known: Mapping[str, Responses]
) -> tuple[bool, tuple[Diagnostic, ...]]:
    """Whether log evidences may be compared, with why not, or what is doubtful in it."""
    reasons = _different(known)
    improper = {name: _improper(fit) for name, fit in fits.items()}
    first = next(iter(improper.values()))
    if any(parts != first for parts in improper.values()):
        which = [
            f"{name}: {listed([f'`{p}`' for p, *_ in sorted(parts)]) or 'none'}"
            for name, parts in improper.items()
        ]
        reasons.append("they have different improper priors, whose constants are arbitrary")
        reasons += which
    lost = [name for name, fit in fits.items() if not math.isfinite(fit.log_evidence)]
    if lost:
        reasons.append(f"{_listed(lost)} {'has' if len(lost) == 1 else 'have'} no evidence")
    if reasons:
        return False, (warning("log evidences of these models may not be compared", *reasons),)
    doubts = []
    maximised = [n for n, f in fits.items() if f.learning is not None and f.hyper != "integrate"]
    if maximised:
        doubts.append(
            f"hyperparameters of {_listed(maximised)} were maximised over: the evidence "
            'is at their values, which favours models with more of them (hyper="integrate")'
        )
    potentials = {
        n: sum(b.family.spec.potential for b in f.canonical.blocks) for n, f in fits.items()
    }
    if any(potentials.values()):
        doubts.append("potentials are part of the prior as they stand, without its constant")
    guarantees = {n: str(f.guarantee) for n, f in fits.items()}
    if len(set(guarantees.values())) > 1:
        doubts.append(f"guarantees differ: {', '.join(f'{n} {g}' for n, g in guarantees.items())}")
    doubts += _unconverged(fits)
    return True, ((warning("shares of the evidences are doubtful", *doubts),) if doubts else ())


def prediction_doubts(
    fits: Mapping[str, FitRecord],
    known: Mapping[str, Responses],
    loos: Mapping[str, Loo | None],
    lacking: Mapping[str, str],
) -> tuple[bool, tuple[Diagnostic, ...]]:
    """Whether predictions may be compared, with why not, or what is doubtful in leave-one-out."""
    reasons = [f"{name}: {message}" for name, message in lacking.items()]
    reasons += _different(known)
    broken = [n for n, loo in loos.items() if loo is not None and not math.isfinite(loo.elpd)]
    if broken:
        reasons.append(f"a response of {_listed(broken)} has no predictive density")
    if reasons:
        return False, (warning("predictions of these models may not be compared", *reasons),)
    doubts = [
        f"{name}: {loo.flagged} flagged; fit.loo(exact=True) fits again without each of them"
        for name, loo in loos.items()
        if loo is not None and loo.flagged
    ]
    return True, ((warning("leave-one-out is doubtful", *doubts),) if doubts else ())


def _different(known: Mapping[str, Responses]) -> list[str]:
    """How the responses differ, if they do."""
    names = list(known)
    first = known[names[0]]
    other = [n for n in names[1:] if not first.same(known[n])]
    if other:
        return [f"{_listed([names[0]])} and {_listed(other)} observe different responses"]
    kinds = [n for n in names[1:] if known[n].discrete != first.discrete]
    if kinds:
        return [
            f"{_listed([names[0]])} and {_listed(kinds)} take the responses differently: "
            "one as discrete (probabilities), the other as continuous (densities)"
        ]
    return []


def _improper(fit: FitRecord) -> frozenset[tuple[str, ...]]:
    """The improper priors of latents (with structures and sizes) and of free hyperparameters."""
    linear = fit.canonical.linear(fit.theta)
    loose = {b.name for b in linear.blocks if Shape.IMPROPER in b.shape}
    parts = {
        (b.name, *(f"{f.name} of {f.size}" for f in b.factors))
        for b in fit.canonical.reported
        if b.name in loose
    }
    if fit.learning is not None:
        for block in fit.canonical.hypers.blocks:
            if block.prior is not None and not block.prior.at(fit.theta).proper:
                parts.add((block.name, str(block.sizes)))
    return frozenset(parts)


def _unconverged(fits: Mapping[str, FitRecord]) -> list[str]:
    stopped = [name for name, fit in fits.items() if not fit.converged]
    return [f"{_listed(stopped)} did not converge"] if stopped else []


def _listed(names: list[str]) -> str:
    return listed([f"`{n}`" for n in names])
