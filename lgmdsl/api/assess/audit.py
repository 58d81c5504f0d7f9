"""fit.audit(): importance sampling says how far a posterior is from the truth.

The computation is in `assess`, on the sites and the engine's Gaussian; this module supplies the
functionals by the model's names and labels the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.accuracy.limits import LEVELS
from lgmdsl.accuracy.tails import FEWEST_DRAWS, check_arviz
from lgmdsl.api.assess.audit_functionals import AuditedFit, Drawing, SharedAudit, SharedDraws
from lgmdsl.api.assess.audit_verdict import Advice, advised, detecting_draws, point, sentence
from lgmdsl.api.jobs import workers_for
from lgmdsl.api.response_data import with_responses
from lgmdsl.arrays import Array
from lgmdsl.assess.importance.audit import Findings
from lgmdsl.assess.importance.audit import audit_mixture as audit_draws
from lgmdsl.assess.importance.moments import Corrected, Functional, flat
from lgmdsl.assess.importance.verdict import Outcome, judge
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.canonical.model import CanonicalModel, Layout
from lgmdsl.dataset import Keys
from lgmdsl.errors import MethodError, ModelError, suggestion
from lgmdsl.posterior.labelled import labelled
from lgmdsl.remedies import either, number, setting
from lgmdsl.workers.opened import check_jobs
from lgmdsl.workers.task import Jobs
from lgmdsl.workers.workers import Workers

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.posterior.fit_record import FitRecord

DRAWS = 4000
# Latents and predictors at all draws: up to so many, more exact draws are taken where they decide.
VALUES = 10_000_000


@dataclass(frozen=True, eq=False)
class Audit:
    """Importance-sampling diagnostics of what a fit reports: of the mixture over hyperparameters
    where these were integrated, else of the posterior given theirs.

    `k_hat`: shape of the tail of the importance weights of q's own draws, -inf where they are
    constant or the largest are one value, too heavy above 0.7 (`along`: the same along single
    directions, where there are many latents). `ess`: effective sample size of the draws of
    `proposal` ("student-t", "mixture" or "exact sampler") that the corrections come from;
    `own_ess`: of those of q; `r_hat`: of exact draws (1 else).
    `log_evidence`, with its Monte Carlo error `log_evidence_se`, is log p(y | hypers), or log p(y)
    of the mixture. `outcome` is trust, shifted or undecided; `verdict` is a sentence with the
    reason and the method to try next.

    Everything that the fit can be asked for has a corrected `mean`, `sd` and 5 and 95 % `quantile`,
    labelled as there; the outcome rests on the latents, lets and hyperparameters (`judged`), the
    sites' predictors and a random projection.
    """

    draws: int
    seed: int
    k_hat: float
    along: Mapping[str, float]
    own_ess: float
    proposal: str
    ess: float
    log_evidence: float
    log_evidence_se: float
    outcome: Outcome
    verdict: str
    corrected: Mapping[str, Corrected]
    dims: Mapping[str, tuple[str, ...]]
    layout: Layout
    judged: tuple[str, ...]
    r_hat: float = 1.0

    def __repr__(self) -> str:
        numbers = f"k_hat={self.k_hat:.3g}, ess={self.ess:.4g} of {self.draws:,} draws"
        return f"Audit({self.outcome.name}: {numbers}, log_evidence={self.log_evidence:.6g})"

    def _repr_html_(self) -> str:
        from lgmdsl.api.assess.audit_page import card

        return card(self)

    def mean(self, name: str) -> xr.DataArray:
        """Corrected mean of a latent, let, report or hyper; ModelError E103 if unknown."""
        return self._labelled(name, self._of(name).mean)

    def sd(self, name: str) -> xr.DataArray:
        """Corrected standard deviation."""
        return self._labelled(name, self._of(name).sd)

    def quantile(self, name: str, probabilities: Sequence[float] = LEVELS) -> xr.DataArray:
        """Corrected 5 and 95 % points, with a leading `quantile` axis; NaN for some entries of very
        long names. MethodError E108 for other probabilities."""
        levels = np.atleast_1d(np.asarray(probabilities, dtype=np.float64))
        places = [LEVELS.index(p) if p in LEVELS else -1 for p in levels]
        if -1 in places:
            message = "an audit has the quantiles 0.05 and 0.95 alone"
            raise MethodError.of(
                "E108",
                message,
                details=(f"got {probabilities!r}",),
                help="audit.quantile(name, [0.05, 0.95])",
            )
        dims, whole = self.dims[name], self._of(name).quantiles[places]
        values = whole.reshape(len(places), *self.layout.shape(dims))
        return labelled(self.layout, dims, values, name, first="quantile", labels=levels)

    def sd_error(self, name: str) -> xr.DataArray:
        """Monte Carlo standard error of the corrected sd, relative."""
        return self._labelled(name, self._of(name).sd_error)

    def shift(self, name: str) -> xr.DataArray:
        """Corrected mean less the fit's, in corrected sds."""
        return self._labelled(name, self._of(name).shift)

    def error(self, name: str) -> xr.DataArray:
        """Monte Carlo standard error of the corrected mean, in corrected sds."""
        return self._labelled(name, self._of(name).error)

    def __str__(self) -> str:
        from lgmdsl.api.assess.audit_page import page

        return page(self)

    def as_json(self, longest: float = np.inf) -> dict[str, object]:
        """Plain values, the corrections of names with up to `longest` entries."""
        short = {n: c for n, c in self.corrected.items() if c.mean.size <= longest}
        return {
            "outcome": str(self.outcome),
            "verdict": self.verdict,
            "draws": self.draws,
            "seed": self.seed,
            "k_hat": self.k_hat,
            "k_hat_along": dict(self.along),
            "own_ess": self.own_ess,
            "proposal": self.proposal,
            "ess": self.ess,
            "r_hat": self.r_hat,
            "log_evidence": self.log_evidence,
            "log_evidence_se": self.log_evidence_se,
            "corrected": {
                name: {"dims": list(distinct(self.dims[name])), **flat(c)}
                for name, c in short.items()
            },
        }

    def _of(self, name: str) -> Corrected:
        if name not in self.corrected:
            message = f"the audit knows no latent, let, report or hyper named `{name}`"
            has = f"it has: {', '.join(self.corrected)}"
            raise ModelError.of("E103", message, help=suggestion(name, self.corrected, has))
        return self.corrected[name]

    def _labelled(self, name: str, values: Array) -> xr.DataArray:
        dims = self.dims[name]
        return labelled(self.layout, dims, values.reshape(self.layout.shape(dims)), name)


def audit(
    fit: FitRecord,
    n: int = DRAWS,
    seed: int = 0,
    data: object = None,
    mapping: Keys | None = None,
    sampler: bool = False,
    jobs: Jobs = None,
) -> Audit:
    """Audit a fit with n draws. A fit read from a file needs its `data` again. Where
    hyperparameters were integrated, the audit is of the mixture; where they were learned, of the
    posterior given their mode (under `hyper = vb` the values whose precisions are expected), and so
    is its log evidence; the verdict says so. `sampler`: n draws of an exact sampler in place of
    weighted ones, or up to 50 times as many where n cannot decide and the model is small. A fit
    that reports exact draws is held against others, where weights cannot tell. `jobs`: as in `fit`,
    for the draws.

    Raises MethodError (E501 without arviz-stats, and where the method confines q; E108 for n below
    100), DataError (E305 where the
    file of the fit lacks the responses, E303 for other data than the fit's), NumericalError E601
    where the posterior cannot be drawn from.
    """
    check_arviz()
    check_jobs(jobs)
    for name, value, least in (("n", n, FEWEST_DRAWS), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            message = f"`{name}` must be a whole number not below {least}"
            raise MethodError.of(
                "E108", message, details=(f"got {value!r}",), help=number(name, least)
            )
    how = either("lgm summary FIT --audit --data DATA", "fit.audit(data=...)")
    fit, canonical = with_responses(fit, data, mapping, "an audit", how)
    if fit.posterior.conditioned.errors is not None:
        message = "an audit needs exact variances, and this fit's are estimates (iterative engine)"
        raise MethodError.of(
            "E501",
            message,
            help=f"fit a smaller part of the data with {setting('engine', 'sparse')}",
        )
    if fit.posterior.conditioned.confinement is not None:
        message = f"an audit weights draws of q, and `{fit.method}` confines q"
        help = "fit.accuracy has the estimated errors; audit a fit by natural-gradient"
        raise MethodError.of("E501", message, help=help)
    audited = AuditedFit(fit, canonical, int(n), int(seed))
    with workers_for(jobs, fit.model.tree) as workers:
        findings = _enough(audited, sampler, workers)
    return _report(fit, findings, {name: audited.dims(name) for name in audited.names}, int(seed))


def _enough(audited: AuditedFit, sampler: bool, workers: Workers | None) -> Findings:
    """What draws find: exact ones, and more, where those that were asked for cannot tell."""
    fit, functionals = audited.fit, tuple(audited.functionals())
    shared = None if workers is None else SharedAudit(fit, audited.canonical)

    def found(audited: AuditedFit, functionals: Sequence[Functional], exact: bool) -> Findings:
        drawing = Drawing(audited.n, audited.seed, exact)
        each = None
        if workers is not None and shared is not None:
            each = SharedDraws(workers, shared, drawing)
        return audit_draws(
            audited.parts,
            functionals,
            audited.n,
            audited.seed,
            drawing.sampler,
            named_alone=fit.drawn is not None,
            each=each,
        )

    findings = found(audited, functionals, sampler)
    # Chains start around one mode, and have nothing to say of draws at several.
    again = fit.drawn is not None and fit.drawn.of_chains
    if not sampler and again and judge(findings).outcome is Outcome.undecided:
        sampler, findings = True, found(audited, functionals, True)
    more = _more(findings, audited.canonical) if sampler else 0
    if more > findings.draws:
        audited = replace(audited, n=more)
        findings = found(audited, tuple(audited.functionals()), True)
    return findings


def _more(findings: Findings, canonical: CanonicalModel) -> int:
    """So many exact draws as would notice what is off, where too few were all that was wrong; 0
    where they are too many to take."""
    judged = judge(findings)
    if judged.reason != "draws":
        return 0
    wanted = detecting_draws(findings, judged)
    rows = sum(len(b.rows) for b in canonical.blocks)
    return wanted if wanted * (canonical.size + rows) <= VALUES else 0


def _report(
    fit: FitRecord, findings: Findings, names: Mapping[str, tuple[str, ...]], seed: int
) -> Audit:
    judged = judge(findings)
    corrected = {name: findings.corrected[name] for name in names}
    dims = dict(names)
    for block in fit.canonical.hypers.blocks:
        if block.name not in names:
            value = np.asarray(fit.theta[block.name], dtype=np.float64).reshape(-1)
            corrected[block.name] = Corrected.nothing(value)
            dims[block.name] = block.dims
    advice: Advice = advised(fit, findings, judged)
    return Audit(
        draws=findings.draws,
        seed=seed,
        k_hat=findings.k_hat,
        along=findings.along,
        own_ess=findings.own_size,
        proposal=findings.proposal + _condition(fit),
        ess=findings.effective,
        r_hat=findings.r_hat,
        log_evidence=findings.log_evidence,
        log_evidence_se=findings.log_evidence_se,
        outcome=judged.outcome,
        verdict=sentence(fit.canonical, findings, judged, advice, point(fit)),
        corrected=corrected,
        dims=dims,
        layout=fit.canonical.layout,
        judged=judged_names(fit.canonical),
    )


def _condition(fit: FitRecord) -> str:
    """Which hyperparameters an audit of a fit that learned some is conditional on."""
    if fit.learning is None:
        return ""
    if fit.mixed:
        return f" at {len(fit.mixed)} hyperparameter points"
    learned = [b.name for b in fit.canonical.hypers.blocks if fit.quantity(b.name).sd.any()]
    values = (f"{n} = {float(fit.theta[n]):.4g}" for n in learned if np.ndim(fit.theta[n]) == 0)
    shown = ", ".join(values) or point(fit)
    return f" given {shown}"


def judged_names(canonical: CanonicalModel) -> tuple[str, ...]:
    """Latents, lets and hyperparameters."""
    lets = [s.name for s in canonical.grounded.model.of_kind("let") if s.name in canonical.named]
    return (*canonical.latent_names, *lets, *(b.name for b in canonical.hypers.blocks))
