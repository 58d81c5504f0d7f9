"""What all estimators share: fitting the model of a table, and asking for new rows of it."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from lgmdsl.api.fit.fitting import fit as fit_model
from lgmdsl.api.predict.predict import Prediction
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.language.builder import Model
from lgmdsl.sklearn.weighted import weighted

# Estimators are fitted many times, in cross-validation and grids: no exact draws unless asked for.
QUICK = {"effort": "low"}


class Form(Protocol):
    """The model of a table: its statements, the data of the rows that it was made for, and those
    of any others. `response`: the datum that is observed."""

    @property
    def model(self) -> Model: ...
    @property
    def response(self) -> str: ...
    @property
    def data(self) -> Mapping[str, object]: ...
    def rows(self, X: Any) -> Mapping[str, object]:
        """The data of other rows."""


class LgmEstimator(BaseEstimator):
    """`fit_` is the `lgmdsl.Fit`, which answers everything else; `model_` its model."""

    method: str
    hyper: str
    fixed: Mapping[str, object] | None
    options: Mapping[str, object] | None
    seed: int

    @abstractmethod
    def _form(self, X: Any, y: Any, weights: Array | None) -> Form:
        """The model of a table; `weights` (n,) of its rows, for priors that scale with it."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to a table X (n, p) and responses, or labels, y (n,).

        `sample_weight` (n,), 0 or above: a row of weight 2 counts as two rows, one of weight 0 is
        left out (`weight` of the response's family, multiplied by the model's own).
        """
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        weights = self._weights(y, weights)
        self._fitted(self._form(X, y, weights), weights)
        return self

    def _weights(self, y: Any, weights: Array | None) -> Array | None:
        """Weights of the rows, those given and the estimator's own."""
        return weights

    def _fitted(self, form: Form, weights: Array | None) -> None:
        self.form_ = form
        self.model_ = form.model
        data = dict(form.data)
        if weights is not None:
            self.model_, added = weighted(form.model, form.response)
            data[added] = weights
        self.fit_ = fit_model(
            self.model_,
            data,
            method=self.method,
            hyper=self.hyper,
            fixed=self.fixed,
            options={**QUICK, **(self.options or {})},
            seed=self.seed,
        )
        if not self.fit_.converged:
            message = f"the fit did not converge: {self.fit_.status.value}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def _predicted(self, X: Any) -> Prediction:
        check_is_fitted(self, "fit_")
        return self.fit_.predict(dict(self.form_.rows(X)))

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """The names of the columns that the model was fitted to: those of the table, else x0, x1,
        ...; ValueError where `input_features` are others."""
        check_is_fitted(self, "fit_")
        names = [f"x{k}" for k in range(self.n_features_in_)]
        known = np.asarray(getattr(self, "feature_names_in_", names), dtype=object)
        if input_features is not None:
            given = np.asarray(input_features, dtype=object)
            named = hasattr(self, "feature_names_in_")
            if len(given) != len(known) or (named and not np.array_equal(given, known)):
                raise ValueError(f"input_features are not those of the fit: {', '.join(known)}")
            return given
        return known


class Regressor(RegressorMixin, LgmEstimator):
    """An estimator of numeric responses."""

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """(n,) means of the responses at new rows; with `return_std` also the sds of new responses
        there, noise included."""
        response = self._predicted(X).response(self.form_.response)
        mean = response["mean"].values
        return (mean, response["sd"].values) if return_std else mean
