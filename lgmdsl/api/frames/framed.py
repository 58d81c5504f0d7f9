"""A fit as frames: the methods of `Fit` that return tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from lgmdsl.api.columns import LEVELS
from lgmdsl.memory import during

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit


class Framed:
    """The methods of `Fit` that return frames: of pandas, or of polars (`backend="polars"`). Each
    raises MethodError: E104 for another backend, E501 where its library is not installed."""

    @during("making a table of the fit")
    def tidy(
        self,
        names: Sequence[str] | None = None,
        quantiles: Sequence[float] = LEVELS,
        backend: str = "pandas",
    ) -> Any:
        """One row for each number that was estimated, hyperparameters first.

        Columns: `term` (`u[m1]`), `name` (`u`), `kind` (hyper, latent, let or report), one for each
        index (`g`; `feat_2` for a repeated one) with the label, None where the row has no such
        index; `mean`, `sd`, and quantiles `q5`, `q50`, `q95` (other `quantiles`: `q2.5`).

        `names`: those that are wanted; else all hypers and latents, and the reports that do not run
        over the rows of the data (those are columns of `augment`). Raises ModelError: E103 for an
        unknown name, E108 for probabilities out of range.
        """
        from lgmdsl.api.frames.tidy import tidy

        return tidy(self._framed, names, quantiles, backend)

    @during("making a table of the data")
    def augment(
        self,
        data: object = None,
        mapping: Mapping[str, str] | None = None,
        response: str | None = None,
        loo: bool = True,
        backend: str = "pandas",
    ) -> Any:
        """One row for each row of the data.

        Columns: the labels of the row; the columns of `data` where they are given, else the data of
        the model over these rows; for lets and reports NAME_mean and NAME_sd; for the response y
        y_mean and y_sd (the predictive distribution of another y at the same row), y_residual = y -
        y_mean, and with `loo` y_loo = log p(y_i | y_-i) and y_loo_flag, why that is unreliable. Of
        classes y_probability is P(the class that was observed), without a residual. Missing
        responses have NaN.

        `response`: which one, where several are observed; else the one of most rows. A fit read
        from a file needs its `data` (`mapping` renames keys): DataError E305 without, E303 for
        other data. Raises ModelError E103 for an unknown response, and what `fit.loo` raises.
        """
        from lgmdsl.api.frames.augment import augment

        return augment(self._framed, data, mapping, response, loo, backend)

    @during("making a table of the fit")
    def glance(
        self,
        data: object = None,
        mapping: Mapping[str, str] | None = None,
        criteria: bool = True,
        backend: str = "pandas",
    ) -> Any:
        """One row: `method`, `hyper`, `status`, `converged`, `observations`, `latents`,
        `log_evidence`, `log_evidence_corrected`, `guarantee`; with `criteria` `dic`, `p_d`, `waic`,
        `p_waic`, `elpd_loo`, `elpd_loo_se`, `p_loo`, `loo_flagged`; `accuracy_mean`, `_sd`,
        `_evidence`, `_worst`, `_basis` (`fit.accuracy`); `points`, `fits`, `steps`, `seconds`.

        Criteria are NaN where they are not defined, and of a fit read from a file without its
        `data` (`mapping` renames keys).
        """
        from lgmdsl.api.frames.glance import glance

        return glance(self._framed, data, mapping, criteria, backend)

    @property
    def _framed(self) -> Fit:
        return cast("Fit", self)
