"""fit.audit(): importance sampling says how far a posterior is from the truth.

The computation is in `assess`, on the sites and the engine's Gaussian; this module supplies the
functionals by the model's names and labels the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.assess.audit_verdict import Advice, advised, point, sentence
from lgmdsl.api.response_data import with_responses
from lgmdsl.arrays import Array
from lgmdsl.assess.importance.audit import Findings
from lgmdsl.assess.importance.audit import audit as audit_draws
from lgmdsl.assess.importance.moments import Corrected, Functional
from lgmdsl.assess.importance.pareto import FEWEST, check_arviz
from lgmdsl.assess.importance.verdict import Outcome, judge
from lgmdsl.assess.importance.weights import displacement
from lgmdsl.canonical.layout import Layout
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.errors import Diagnostic, MethodError, ModelError, suggestion
from lgmdsl.posterior.labelled import labelled
from lgmdsl.posterior.marginals import Quantity
from lgmdsl.remedies import either

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.api.fit.fit import Fit

DRAWS = 4000


@dataclass(frozen=True, eq=False)
class Audit:
    """Importance-sampling diagnostics of a fit, at its hyperparameters.

    `k_hat`: shape of the tail of the importance weights of q's own draws, -inf where they are
    constant or the largest are one value, too heavy above 0.7 (`along`: the same along single
    directions, where there are many latents). `ess`: effective sample size of the draws of
    `proposal` ("student-t" or "mixture") that the corrections come from; `own_ess`: of those of q.
    `log_evidence`, with its Monte Carlo error `log_evidence_se`, is log p(y | hypers).
    `outcome` is trust, shifted or unreliable; `verdict` is a sentence with the reason
    and the method to try next.

    Everything that the fit can be asked for has a corrected `mean` and `sd`, labelled as there; the
    outcome rests on the latents and lets (`judged`), the sites' predictors and a random projection.
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

    def mean(self, name: str) -> xr.DataArray:
        """Corrected mean of a latent, let, report or hyper; ModelError E103 if unknown."""
        return self._labelled(name, self._of(name).mean)

    def sd(self, name: str) -> xr.DataArray:
        """Corrected standard deviation."""
        return self._labelled(name, self._of(name).sd)

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
            "log_evidence": self.log_evidence,
            "log_evidence_se": self.log_evidence_se,
            "corrected": {
                name: {
                    "dims": list(distinct(self.dims[name])), "mean": c.mean, "sd": c.sd,
                    "shift": c.shift, "error": c.error,
                }
                for name, c in short.items()
            },
        }  # fmt: skip

    def _of(self, name: str) -> Corrected:
        if name not in self.corrected:
            message = f"the audit knows no latent, let, report or hyper named `{name}`"
            has = f"it has: {', '.join(self.corrected)}"
            raise ModelError(
                Diagnostic("E103", message, help=suggestion(name, self.corrected, has))
            )
        return self.corrected[name]

    def _labelled(self, name: str, values: Array) -> xr.DataArray:
        dims = self.dims[name]
        return labelled(self.layout, dims, values.reshape(self.layout.shape(dims)), name)


def audit(
    fit: Fit,
    n: int = DRAWS,
    seed: int = 0,
    data: object = None,
    mapping: Mapping[str, str] | None = None,
) -> Audit:
    """Audit a fit with n draws. A fit read from a file needs its `data` again. Where
    hyperparameters were learned, the audit is of the posterior given their mode (under `hyper = vb`
    the values whose precisions are expected), and so is its log evidence; the verdict says so.

    Raises MethodError (E501 without arviz-stats, E108 for n below 100), DataError (E305 where the
    file of the fit lacks the responses, E303 for other data than the fit's), NumericalError E601
    where the posterior cannot be drawn from.
    """
    check_arviz()
    for name, value, least in (("n", n, FEWEST), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            message = f"`{name}` must be a whole number not below {least}"
            raise MethodError(Diagnostic("E108", message, details=(f"got {value!r}",)))
    how = either("lgm summary FIT --audit --data DATA", "fit.audit(data=...)")
    canonical = with_responses(fit, data, mapping, "an audit", how)
    linear = canonical.linear(fit.theta)
    quantities = dict(_quantities(fit))
    judged = judged_names(canonical)
    functionals = tuple(
        _functional(fit, linear, name, q, name in judged) for name, q in quantities.items()
    )
    if fit.posterior.conditioned.errors is not None:
        message = "an audit needs exact variances, and this fit's are estimates (iterative engine)"
        raise MethodError(
            Diagnostic("E501", message, help="fit a smaller part of the data exactly")
        )
    q = fit.posterior.conditioned
    findings = audit_draws(canonical.sites(fit.theta), linear, q, functionals, int(n), int(seed))
    return _report(fit, findings, quantities, int(seed))


def _report(fit: Fit, findings: Findings, quantities: Mapping[str, Quantity], seed: int) -> Audit:
    judged = judge(findings)
    corrected = {name: findings.corrected[name] for name in quantities}
    dims = {name: q.dims for name, q in quantities.items()}
    for block in fit.canonical.hypers.blocks:
        value = np.asarray(fit.theta[block.name], dtype=np.float64).reshape(-1)
        zero = np.zeros_like(value)
        corrected[block.name] = Corrected(value, zero, zero, zero)
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
        log_evidence=findings.log_evidence,
        log_evidence_se=findings.log_evidence_se,
        outcome=judged.outcome,
        verdict=sentence(fit.canonical, findings, judged, advice, point(fit)),
        corrected=corrected,
        dims=dims,
        layout=fit.canonical.layout,
        judged=judged_names(fit.canonical),
    )


def _condition(fit: Fit) -> str:
    """Which hyperparameters an audit of a fit that learned some is conditional on."""
    if fit.learning is None:
        return ""
    learned = [b.name for b in fit.canonical.hypers.blocks if fit.quantity(b.name).sd.any()]
    values = (f"{n} = {float(fit.theta[n]):.4g}" for n in learned if np.ndim(fit.theta[n]) == 0)
    shown = ", ".join(values) or point(fit)
    return f" given {shown}"


def judged_names(canonical: CanonicalModel) -> tuple[str, ...]:
    """Latents and lets."""
    lets = [s.name for s in canonical.grounded.model.of_kind("let") if s.name in canonical.named]
    return (*canonical.latent_names, *lets)


def _quantities(fit: Fit) -> Iterator[tuple[str, Quantity]]:
    """Every latent, let and report with its moments under the fit, at the hyperparameters' mode."""
    moments = fit.quantity if fit.learning is None else fit.conditional.quantity
    for name in (*(b.name for b in fit.canonical.latents), *fit.canonical.named):
        yield name, moments(name)


def _functional(
    fit: Fit, linear: LinearGaussian, name: str, quantity: Quantity, judged: bool
) -> Functional:
    mean, sd = quantity.mean.reshape(-1), quantity.sd.reshape(-1)
    if name in fit.canonical.layout.starts:
        where = linear.slices[name]
        return Functional(name, mean, sd, lambda x: x[:, where])
    dims, tree = fit.canonical.named[name]
    if isinstance(tree, Leaf):
        predictor = fit.canonical.predictor(tree.form, dims, fit.theta)
        return Functional(name, mean, sd, lambda x: displacement(linear, predictor, x), judged)
    centre, marginals = fit.posterior.conditioned.latent_mean, fit.conditional

    def curved(x: Array) -> Array:
        return np.asarray(marginals.evaluate(name, centre + x).reshape(len(x), -1) - mean)

    return Functional(name, mean, sd, curved, judged)
