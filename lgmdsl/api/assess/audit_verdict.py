"""The verdict of an audit in one sentence: what, where, how far, and what to try next."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.accuracy.tails import threshold
from lgmdsl.assess.importance.audit import Findings
from lgmdsl.assess.importance.bench import PROJECTION
from lgmdsl.assess.importance.scan import EXACT
from lgmdsl.assess.importance.verdict import (
    AGREE,
    CLEAR,
    ERRORS,
    LEAST,
    LEAST_TAIL,
    LIMIT,
    LIMIT_TAIL,
    SD,
    EntryShift,
    Outcome,
    Verdict,
    exact,
)
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.inference.accuracy import more_accurate

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

# More draws are advised up to so many times as many.
MORE = 50
# The error of a tail's draws is itself uncertain: so many times as many are taken.
SPARE = 2.0


@dataclass(frozen=True)
class Advice:
    """`method` to try next, or to leave out the `bound`; `draws` that would be enough to decide;
    whether the exact `sampler` could."""

    method: str = ""
    bound: str = ""
    draws: int = 0
    sampler: bool = False


def advised(fit: FitRecord, findings: Findings, judged: Verdict) -> Advice:
    """What to try next; empty where the fit is trusted."""
    if judged.outcome is Outcome.trust:
        return Advice()
    draws = deciding_draws(findings, judged) if judged.reason == "draws" else 0
    bound = json.loads(fit.provenance.get("settings", "{}")).get("bound") or ""
    better = more_accurate(fit.canonical.blocks, fit.method)
    if fit.drawn is not None:  # exact already: all that is wrong is their number
        bound, better = "", ()
    sampler = judged.outcome is Outcome.undecided and findings.proposal != EXACT
    return Advice("" if bound or not better else better[0], bound, draws, sampler)


def deciding_draws(findings: Findings, judged: Verdict) -> int:
    """How many draws would decide, to one digit; 0 where no sensible number would."""
    far = judged.farthest
    heavy = findings.proposal != EXACT and judged.k_hat > threshold(findings.draws)
    if heavy or findings.effective < LEAST or far is None:
        return 0
    room = max(abs(abs(far.shift) - far.limit), 0.1 * far.limit)
    factor = max(CLEAR * far.error / far.limit, ERRORS * far.error / room) ** 2
    factor = max(factor, LEAST_TAIL / findings.effective)
    if not factor <= MORE:
        return 0
    return _rounded(findings.draws * max(factor, 2.0))


def detecting_draws(findings: Findings, judged: Verdict) -> int:
    """How many draws would notice whatever is off by what is tolerated, to one digit; 0 where they
    would be more than so many times as many."""
    far = judged.farthest
    if far is None or findings.effective < LEAST:
        return 0
    factor = (CLEAR * far.error / far.limit) ** 2
    factor = SPARE * max(factor, LEAST_TAIL / findings.effective, 1.0)
    return _rounded(findings.draws * factor) if factor <= MORE else 0


def _rounded(wanted: float) -> int:
    """Up, to one digit."""
    size = 10.0 ** math.floor(math.log10(wanted))
    return int(math.ceil(wanted / size) * size)


def point(fit: FitRecord) -> str:
    """Which values of learned hyperparameters the audit is conditional on; empty where none are."""
    if fit.learning is None or fit.mixed:
        return ""
    return "the hyperparameters' " + ("expected precisions" if fit.hyper == "vb" else "mode")


def sentence(
    canonical: CanonicalModel,
    findings: Findings,
    judged: Verdict,
    advice: Advice,
    condition: str = "",
) -> str:
    """One sentence that begins with the outcome. `condition`: as of `point`; what is
    trusted is q given these values, and nothing is said of the hyperparameters themselves."""
    far = judged.farthest
    begin = f"trust, given {condition}:" if condition else "trust:"
    if judged.outcome is Outcome.trust and exact(findings):
        return f"{begin} the fit is exact (its importance weights are constant)"
    if judged.outcome is Outcome.trust:
        text = (
            f"{begin} no reported mean is off by {LIMIT} sd, no sd by 10 %, no 90 % interval by "
            f"{LIMIT_TAIL} sd"
        )
        if far is None:
            return text
        return f"{text} ({place(canonical, findings, far)} the most: {_size(far)})"
    if judged.outcome is Outcome.shifted and far is not None:
        text = f"shifted: the corrected {far.of} of {place(canonical, findings, far)} is "
        if far.of == SD:
            text += f"{1.0 / (1.0 - far.shift):.2g} times the fit's"
        else:
            side = "above" if far.shift > 0 else "below"
            text += f"{abs(far.shift):.2g} sd {side} the fit's"
        return f"{text}; {_next(advice, 'use the corrected values')}"
    if judged.reason == "k-hat":
        text = (
            f"cannot tell: k-hat is {judged.k_hat:.2f}, above {threshold(findings.draws):.2g}: "
            "the fit's tails are too thin"
        )
    elif judged.reason == "chains":
        text = f"cannot tell: the exact sampler's chains disagree (R-hat is above {AGREE})"
    else:
        text = (
            f"cannot tell: {findings.effective:,.0f} effective draws of {findings.draws:,} are too "
            f"few to detect a shift of {LIMIT if far is None else far.limit} sd"
        )
        if far is not None and far.of == SD:
            text = text.replace(f"a shift of {LIMIT} sd", "an sd that is 10 % off")
    return f"{text}; {_next(advice, 'only long simulation can decide')}"


def _size(m: EntryShift) -> str:
    """How far something is off."""
    if m.of == SD:
        return f"its sd by {abs(m.shift):.1%}".replace("%", " %")
    return f"its {m.of} by {abs(m.shift):.2g} sd"


def _next(advice: Advice, otherwise: str) -> str:
    words = []
    if advice.draws:
        words.append(f"{advice.draws:,} draws would")
    if advice.bound:
        words.append(f"leave out the bound {advice.bound}")
    elif advice.method:
        words.append(f"try method {advice.method}")
    if advice.sampler:
        words.append("the exact sampler can tell (sampler=True, --audit-sampler)")
    if not words:
        words.append(f"no method here is more accurate: {otherwise}")
    return ", or ".join(words)


def place(canonical: CanonicalModel, findings: Findings, shift: EntryShift) -> str:
    """`w[dose]`, `the predictor of y[3]`, `a random projection`."""
    if shift.name == PROJECTION:
        return f"{PROJECTION} of all latents"
    layout = canonical.layout
    if shift.name.startswith("predictors "):
        block = canonical.blocks[int(shift.name.split()[1])]
        size = next(f.mean.size for f in findings.functionals if f.name == shift.name)
        row = int(block.rows[shift.place // (size // len(block.rows))])  # K for each vector site
        indices = np.unravel_index(row, block.shape) if block.shape else ()
        labels = [
            str(layout.labels[d][i]) if d in layout.labels else str(i)
            for d, i in zip(block.dims, indices, strict=True)
        ]
        name = f"the predictor of {block.name}"
    else:
        latent = shift.name in layout.dims
        hyper = canonical.hypers.block(shift.name)
        if hyper is not None:
            dims: tuple[str, ...] = hyper.dims
        else:
            dims = layout.dims[shift.name] if latent else canonical.named[shift.name][0]
        return layout.entry(shift.name, dims, shift.place)
    return f"{name}[{', '.join(labels)}]" if labels else name
