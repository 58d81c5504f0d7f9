"""What all estimators share: fitting the model of a table, and asking for new rows of it."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from lgmdsl.api.fit.fitting import fit as fit_model
from lgmdsl.api.predict.predict import Prediction
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.dataset.delimited import is_number
from lgmdsl.language.builder import Model
from lgmdsl.language.checked import Symbol
from lgmdsl.language.load import load, loads
from lgmdsl.language.tree import ast
from lgmdsl.sklearn.families import weighted

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


# ---- bound columns -----------------------------------------------------------------------------


ENCODE = "encode it (sklearn.preprocessing.OneHotEncoder)"


def named(X: Any) -> bool:
    """Whether the columns of a table have names: texts, as scikit-learn has it."""
    return hasattr(X, "columns") and all(isinstance(c, str) for c in X.columns)


def check_numbers(X: Any, remedy: str, labelled: Collection[int] = ()) -> None:
    """Raise ValueError for named columns that hold text, except those `labelled`, by position."""
    if not named(X):
        return
    for place, name in enumerate(X.columns):
        values = np.asarray(X[name])
        if place in labelled or values.dtype.kind in "biuf":
            continue
        text = next((v for v in values.tolist() if isinstance(v, str) and not is_number(v)), None)
        if text is not None:
            raise ValueError(f"column {name!r} holds text, {text!r}, not numbers: {remedy}")


def model_of(model: Model | str | os.PathLike[str]) -> Model:
    """A model, the text of one (it has several lines), or the path of a file."""
    if isinstance(model, Model):
        return model
    if isinstance(model, Path) or (isinstance(model, str) and "\n" not in model):
        return load(model)
    return loads(str(model))


def response_type(model: Model, response: str) -> str:
    """The type of a datum; ValueError where the model observes none of that name over one index."""
    return response_symbol(model, response).type


def response_symbol(model: Model, response: str) -> Symbol:
    """A datum over one index; ValueError where the model has none of that name."""
    symbol = model.checked.symbols.get(response)
    if symbol is None or symbol.kind != "data" or len(symbol.dims) != 1:
        vectors = [s.name for s in model.checked.of_kind("data") if len(s.dims) == 1]
        known = ", ".join(f"`{n}`" for n in vectors)
        raise ValueError(f"response={response!r} is no datum over one index; there are {known}")
    return symbol


@dataclass(frozen=True, eq=False)
class Bound:
    """`columns`: which datum each column of a table is; `matrix`: the datum that takes the rest."""

    model: Model
    response: str
    data: Mapping[str, object]
    columns: Mapping[str, str | int]
    matrix: tuple[str, str, tuple[str | int, ...]] | None
    estimator: Any

    def rows(self, X: Any) -> Mapping[str, object]:
        """The data of other rows."""
        if named(X):
            validate_data(self.estimator, X, reset=False, skip_check_array=True)
        else:
            X = validate_data(self.estimator, X, reset=False, dtype=np.float64)
        return _values(X, self.columns, self.matrix)


def bound(
    estimator: Any,
    model: Model,
    response: str,
    X: Any,
    y: AnyArray,
    data: Mapping[str, object] | None,
) -> Bound:
    """The rows of X and y as data of a model; ValueError for columns that are missing, or are not
    the model's."""
    symbol = response_symbol(model, response)
    (index,) = symbol.dims
    given = dict(data or {})
    wanted = [s for s in model.checked.of_kind("data") if s.name not in {response, *given}]
    vectors = [s.name for s in wanted if s.dims == (index,)]
    matrices = [s for s in wanted if len(s.dims) == 2 and s.dims[0] == index]
    names = list(X.columns) if named(X) else None
    if names is None:
        columns, matrix = _in_order(vectors, matrices, X.shape[1])
    else:
        columns, matrix = _by_name(vectors, matrices, names)
    values = {**given, **_values(X, columns, matrix), response: y}
    if matrix is not None and names is not None and not _sized(model, matrix[1]):
        values.setdefault(matrix[1], np.array([str(c) for c in matrix[2]]))
    return Bound(model, response, values, columns, matrix, estimator)


def bound_classes(
    estimator: Any,
    model: Model,
    response: str,
    X: Any,
    y: AnyArray,
    data: Mapping[str, object] | None,
    classes: AnyArray | None,
) -> Bound:
    """Rows of X and y as data of a model whose response is a class; `classes`: their labels in
    order, where they have one. Raises ValueError as `bound`, and for a response of another type."""
    form = bound(estimator, model, response, X, y, data)
    target = response_symbol(model, response).target
    if target is None:
        raise ValueError(f"`{response}` is neither binary nor a class: use LgmRegressor")
    if classes is None or _sized(model, target):
        return form
    labelled = {target: np.asarray(classes), **form.data}
    return Bound(model, response, labelled, form.columns, form.matrix, estimator)


def class_labels(model: Model, response: str, data: Mapping[str, object] | None) -> AnyArray | None:
    """The labels of a response's classes in their order, where the model or the data name them."""
    target = response_symbol(model, response).target
    if target is None:
        return None
    definition = getattr(model.checked.symbols[target].statement, "definition", None)
    if isinstance(definition, ast.Labels):
        return np.asarray(definition.labels)
    return np.asarray(data[target]) if data is not None and target in data else None


def _sized(model: Model, index: str) -> bool:
    """Whether the model itself says what the members of an index are."""
    return getattr(model.checked.symbols[index].statement, "definition", None) is not None


def _in_order(
    vectors: Sequence[str], matrices: Sequence[Symbol], count: int
) -> tuple[dict[str, str | int], tuple[str, str, tuple[str | int, ...]] | None]:
    """Columns without names: all of a matrix, or one for each datum."""
    if len(matrices) == 1 and not vectors:
        return {}, (matrices[0].name, matrices[0].dims[1], tuple(range(count)))
    if not matrices and len(vectors) == count:
        return dict(zip(vectors, range(count), strict=True)), None
    wanted = [*vectors, *(m.name for m in matrices)]
    raise ValueError(
        f"X has {count} columns without names, and the model has the data {', '.join(wanted)}: "
        "give a frame, whose columns have names"
    )


def _by_name(
    vectors: Sequence[str], matrices: Sequence[Symbol], names: Sequence[str]
) -> tuple[dict[str, str | int], tuple[str, str, tuple[str | int, ...]] | None]:
    missing = [v for v in vectors if v not in names]
    if missing:
        listed = ", ".join(missing)
        raise ValueError(
            f"X has no column {listed}, which the model needs; it has {', '.join(names)}"
        )
    if len(matrices) > 1:
        listed = ", ".join(m.name for m in matrices)
        raise ValueError(
            f"the model has the matrices {listed}, and X holds the columns of one: give the others "
            "by name in data="
        )
    columns: dict[str, str | int] = {v: v for v in vectors}
    if not matrices:
        return columns, None
    rest = tuple(n for n in names if n not in vectors)
    return columns, (matrices[0].name, matrices[0].dims[1], rest)


def _values(
    X: Any,
    columns: Mapping[str, str | int],
    matrix: tuple[str, str, tuple[str | int, ...]] | None,
) -> dict[str, object]:
    def column(key: str | int) -> Any:
        return X[:, key] if isinstance(key, int) else X[key]

    out: dict[str, object] = {name: column(key) for name, key in columns.items()}
    if matrix is not None:
        if named(X):
            check_numbers(
                X[list(matrix[2])], f"{ENCODE}, or leave it out: `{matrix[0]}` is numeric"
            )
        parts = [np.asarray(column(key), dtype=np.float64) for key in matrix[2]]
        out[matrix[0]] = np.stack(parts, axis=1)
    return out
