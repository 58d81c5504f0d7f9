"""Standard errors, degrees of freedom and t-tests of coefficients of Gaussian models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from lgmdsl.api.columns import Columns, quantile_columns
from lgmdsl.api.response_data import with_responses
from lgmdsl.api.solve.again import maximised_objective
from lgmdsl.arrays import Array
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.dataset import Keys
from lgmdsl.errors import MethodError, ModelError, suggestion
from lgmdsl.learning.degrees_of_freedom import WAYS, CoefficientCovariance, coefficient_covariance
from lgmdsl.remedies import either

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

# Of a contrast's largest entry: what latents that are not coefficients may have in it.
ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class CoefficientTests:
    """`size`: of all latents; `slices`: where each block is among them; `covariance` of the
    coefficients, with their degrees of freedom."""

    size: int
    slices: Mapping[str, slice]
    covariance: CoefficientCovariance

    def of(self, columns: Mapping[str, Array]) -> Array | None:
        """(m, p) what functionals, (m, n_b) of each block of latents, are of the coefficients; None
        where other latents enter."""
        rows = next(iter(columns.values())).shape[0] if columns else 0
        whole = np.zeros((rows, self.size))
        for name, part in columns.items():
            if name in self.slices:
                whole[:, self.slices[name]] = part
            elif np.abs(part).max(initial=0.0) > 0.0:
                return None
        own = whole[:, self.covariance.where]
        largest = np.abs(whole).max(initial=0.0)
        whole[:, self.covariance.where] = 0.0
        if largest == 0.0 or np.abs(whole).max(initial=0.0) > ROUNDING * largest:
            return None
        return np.asarray(own)

    def columns(self, mean: Array, contrasts: Array, levels: Array) -> Columns:
        """`sd`, `df`, `statistic`, `p_value` and t-quantiles, of c'beta of a `mean`, (m,)."""
        sd, df = self.covariance.of(contrasts)
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = mean / sd
        out: Columns = {"sd": sd, "df": df, "statistic": statistic}
        out["p_value"] = 2.0 * stats.t.sf(np.abs(statistic), df)
        for key, level in zip(quantile_columns(levels), levels, strict=True):
            out[key] = mean + sd * stats.t.ppf(level, df)
        return out


def coefficient_tests(
    fit: FitRecord, df: str, data: object, mapping: Keys | None, caller: str
) -> CoefficientTests:
    """Tests by one of WAYS, of the fit at the maximum of its restricted likelihood. Raises
    ModelError E108 for another word, and what `coefficient_covariance` raises."""
    if df not in WAYS:
        help = suggestion(str(df), WAYS, f"there are: {', '.join(WAYS)}")
        raise ModelError.of("E108", f"`{either('--df', 'df')}` cannot be `{df}`", help=help)
    fit, canonical = with_responses(fit, data, mapping, caller, f"{caller[:-1]}data=...)")
    objective = maximised_objective(fit, canonical, caller)
    top = objective.at(objective.coordinates.pack(fit.theta), fit.posterior)
    if top is None:
        message = f"{caller} cannot repeat the fit at its maximum"
        raise MethodError.of("E501", message, help="look at the warnings of the fit")
    linear = top.problem.engine.linear
    covariance = coefficient_covariance(objective, top, df)
    return CoefficientTests(linear.size, linear.slices, covariance)


def contrasts_of(fit: FitRecord, tests: CoefficientTests, name: str) -> Array | None:
    """(m, p) the entries of a latent, let or report as functionals of the coefficients; None where
    it is none."""
    canonical = fit.canonical
    if name in tests.slices:
        where = tests.slices[name]
        return tests.of({name: np.eye(where.stop - where.start)})
    if name not in canonical.named:
        return None
    dims, tree = canonical.named[name]
    if not isinstance(tree, Leaf) or not tree.form.latents or tree.form.depends:
        return None
    predictor = canonical.predictor(tree.form, dims, fit.theta)
    return tests.of({n: np.asarray(op.dense()) for n, op in predictor.columns.items()})
