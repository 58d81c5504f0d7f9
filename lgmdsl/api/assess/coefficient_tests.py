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

TESTED = ("df", "statistic", "p_value")  # columns after the sd
# Of a contrast's largest entry: what latents that are not coefficients may have in it.
ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class CoefficientTests:
    """`size`: of all latents; `slices`: where each block is among them; `covariance` of the
    coefficients, with their degrees of freedom."""

    size: int
    slices: Mapping[str, slice]
    covariance: CoefficientCovariance

    def others(self, columns: Mapping[str, Array]) -> tuple[str, ...]:
        """The blocks of latents that are no coefficients and enter functionals, (m, n_b) of each
        block."""
        largest = max((float(np.abs(x).max(initial=0.0)) for x in columns.values()), default=0.0)
        entering = {
            n for n, x in columns.items() if np.abs(x).max(initial=0.0) > ROUNDING * largest
        }
        where = {int(k) for k in self.covariance.where}
        own = {n for n, place in self.slices.items() if place.start in where}
        return tuple(sorted(entering - own))

    def of(self, columns: Mapping[str, Array], rows: int) -> Array:
        """(m, p) what m = `rows` functionals, (m, n_b) of each block, are of the coefficients,
        which alone enter them."""
        whole = np.zeros((rows, self.size))
        for name, part in columns.items():
            if name in self.slices:
                whole[:, self.slices[name]] = part
        return np.asarray(whole[:, self.covariance.where])

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
    fit: FitRecord, df: str, data: object, mapping: Keys | None, caller: str, how: str
) -> CoefficientTests:
    """Tests by one of WAYS, of the fit at the maximum of its restricted likelihood; `caller` and
    `how`: as in `with_responses`. Raises ModelError E108 for another word, and what
    `coefficient_covariance` raises."""
    if df not in WAYS:
        help = suggestion(str(df), WAYS, f"there are: {', '.join(WAYS)}")
        raise ModelError.of("E108", f"`{either('--df', 'df')}` cannot be `{df}`", help=help)
    fit, canonical = with_responses(fit, data, mapping, caller, how)
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
        return _alone(tests, {name: np.eye(where.stop - where.start)})
    if name not in canonical.named:
        return None
    dims, tree = canonical.named[name]
    if not isinstance(tree, Leaf) or not tree.form.latents or tree.form.depends:
        return None
    predictor = canonical.predictor(tree.form, dims, fit.theta)
    return _alone(tests, {n: np.asarray(op.dense()) for n, op in predictor.columns.items()})


def _alone(tests: CoefficientTests, columns: Mapping[str, Array]) -> Array | None:
    """The functionals, where coefficients alone enter them."""
    if tests.others(columns):
        return None
    return tests.of(columns, len(next(iter(columns.values()))))
