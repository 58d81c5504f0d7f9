"""Estimators that write their models: generalised linear, mixed, additive, Gaussian process."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from lgmdsl.api.predict.predict import Prediction
from lgmdsl.api.predict.requested import PredictionWarning
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.language.builder import Model
from lgmdsl.language.load import loads
from lgmdsl.sklearn.estimator import ENCODE, Regressor, check_numbers, named
from lgmdsl.sklearn.families import family_of
from lgmdsl.sklearn.written import Field, GroupEffects, LinearPart, PredictorPart, Smooth, text_of


@dataclass(frozen=True, eq=False)
class Written:
    """A model made of pieces."""

    model: Model
    data: Mapping[str, object]
    pieces: tuple[PredictorPart, ...]
    estimator: Any
    response: str = "y"

    def rows(self, X: Any) -> Mapping[str, object]:
        """The data of other rows."""
        x, labels = table(self.estimator, X)
        return rows_of(self.pieces, x, labels)


def rows_of(
    pieces: Sequence[PredictorPart], x: Array, labels: Sequence[AnyArray]
) -> dict[str, object]:
    """What the pieces know of rows; without any pieces the rows are counted."""
    out: dict[str, object] = {}
    for piece in pieces:
        out |= piece.at(x, labels)
    return out or {"obs": np.arange(len(x))}


def written(
    pieces: Sequence[PredictorPart],
    family: str,
    x: Array,
    labels: Sequence[AnyArray],
    y: AnyArray,
    estimator: Any,
    weights: Array | None = None,
) -> Written:
    """The model of a table by pieces; ValueError for an unknown family."""
    text = text_of(pieces, family_of(family), y, weights)
    data: dict[str, object] = {"y": y}
    for piece in pieces:
        data |= piece.known()
    return Written(loads(text), data | rows_of(pieces, x, labels), tuple(pieces), estimator)


def table(estimator: Any, X: Any) -> tuple[Array, list[AnyArray]]:
    """The numbers of new rows, and the labels of their groups."""
    if not getattr(estimator, "group_columns_", ()):
        return validate_data(estimator, X, dtype=np.float64, reset=False), []
    X, _ = validate_data(estimator, X, y=np.zeros(len(X)), reset=False, skip_check_array=True)
    return split(X, estimator.group_columns_)


def split(X: Any, groups: Sequence[int]) -> tuple[Array, list[AnyArray]]:
    """The numeric columns of a table, and the labels in those of groups (by position)."""
    if named(X):
        columns = [np.asarray(X[name]) for name in X.columns]
    else:
        whole = np.asarray(X)
        columns = [whole[:, k] for k in range(whole.shape[1])]
    labels = [np.array([str(v) for v in columns[k]]) for k in groups]
    rest = [columns[k] for k in range(len(columns)) if k not in set(groups)]
    if not rest:
        return np.zeros((len(columns[0]), 0)), labels
    return check_array(np.stack(rest, axis=1), dtype=np.float64), labels


class ReadyRegressor(Regressor):
    """A level plus pieces of the columns, and a family of responses."""

    def __init__(
        self,
        family: str = "normal",
        method: str = "auto",
        hyper: str = "auto",
        fixed: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.family = family
        self.method = method
        self.hyper = hyper
        self.fixed = fixed
        self.options = options
        self.seed = seed

    @abstractmethod
    def _pieces(self, x: Array, weights: Array | None) -> list[PredictorPart]: ...

    def _form(self, X: Any, y: Any, weights: Array | None) -> Written:
        x, labels, y = self._read(X, y)
        return written(self._pieces(x, weights), self.family, x, labels, y, self, weights)

    def _read(self, X: Any, y: Any) -> tuple[Array, list[AnyArray], Array]:
        check_numbers(X, f"{ENCODE}, or use MixedModel(groups=[...]) with its name")
        x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        return x, [], y

    @property
    def _written(self) -> Written:
        assert isinstance(self.form_, Written)
        return self.form_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = family_of(self.family).positive
        return tags


class BayesianGLM(ReadyRegressor):
    """A generalised linear model of all columns.

    `family`: normal, student_t, poisson, negbinomial, gamma or bernoulli (y is 0 or 1, and what is
    predicted is the probability of 1). Priors are weak and in the unit of y:
    coefficients of standardised columns N(0, 2.5^2), the level N(., 10^2), in sds of y or on the
    scale of the link (Gabry and Goodrich 2016).

    Attributes: `coef_` (p,), `intercept_`, `coef_sd_` (p,) of the columns as they are.
    """

    def _pieces(self, x: Array, weights: Array | None) -> list[PredictorPart]:
        return [LinearPart.of(x, range(x.shape[1]), weights)]

    @property
    def coef_(self) -> Array:
        """(p,) posterior means of the coefficients."""
        check_is_fitted(self, "fit_")
        return np.asarray(self.fit_.mean("w").values / self._linear.scale)

    @property
    def coef_sd_(self) -> Array:
        """(p,) their posterior sds."""
        check_is_fitted(self, "fit_")
        return np.asarray(self.fit_.sd("w").values / self._linear.scale)

    @property
    def intercept_(self) -> float:
        """The predictor where all columns are 0."""
        check_is_fitted(self, "fit_")
        return float(self.fit_.mean("level")) - float(self.coef_ @ self._linear.centre)

    @property
    def _linear(self) -> LinearPart:
        (piece,) = self._written.pieces
        assert isinstance(piece, LinearPart)
        return piece


class MixedModel(ReadyRegressor):
    """A generalised linear mixed model: coefficients for the numeric columns, and an effect for
    each label in each of the columns `groups` (names, or positions; one or several, nested or
    crossed), u ~ N(0, s^2) with s learned.

    Rows of groups that were not fitted have the mean of all groups, with the spread between groups
    in their sd. `family` and the other parameters as of `BayesianGLM`.
    """

    def __init__(
        self,
        groups: str | int | Sequence[str | int] = (),
        family: str = "normal",
        method: str = "auto",
        hyper: str = "auto",
        fixed: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.groups = groups
        super().__init__(family, method, hyper, fixed, options, seed=seed)

    def _read(self, X: Any, y: Any) -> tuple[Array, list[AnyArray], Array]:
        groups = self.groups
        wanted = [groups] if isinstance(groups, str | int) else list(groups)
        if not wanted:
            self.group_columns_: list[int] = []
            return super()._read(X, y)
        X, _ = validate_data(self, X, y, skip_check_array=True)
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64), warn=True)
        check_consistent_length(X, y)
        names = list(X.columns) if named(X) else []
        self.group_columns_ = [_position(g, names, self.n_features_in_) for g in wanted]
        check_numbers(X, f"name it in groups=, or {ENCODE}", self.group_columns_)
        x, labels = split(X, self.group_columns_)
        return x, labels, y

    def _pieces(self, x: Array, weights: Array | None) -> list[PredictorPart]:
        pieces: list[PredictorPart] = (
            [LinearPart.of(x, range(x.shape[1]), weights)] if x.shape[1] else []
        )
        return [*pieces, *(GroupEffects(k) for k in range(len(self.group_columns_)))]

    def _predicted(self, X: Any) -> Prediction:
        with warnings.catch_warnings():
            # Groups that were not fitted are what cross-validation over groups asks for.
            warnings.simplefilter("ignore", PredictionWarning)
            return super()._predicted(X)


class AdditiveModel(ReadyRegressor):
    """A sum of smooth functions, one of each column: rw2 at the distinct values of the column (ties
    share an entry), or at `knots` of its quantiles where there are more, with straight
    lines between and beyond. A column of up to three values has a coefficient. `scales`: "each"
    smooth has its own sd, or all have "one" (faster where there are many columns). `hyper="map"`
    maximises over the sds; other parameters as of `BayesianGLM`.

    `smooth(column)` is the function of a column.
    """

    def __init__(
        self,
        family: str = "normal",
        knots: int = 20,
        scales: str = "each",
        method: str = "auto",
        hyper: str = "map",
        fixed: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.knots = knots
        self.scales = scales
        super().__init__(family, method, hyper, fixed, options, seed=seed)

    def _pieces(self, x: Array, weights: Array | None) -> list[PredictorPart]:
        if not (isinstance(self.knots, int | np.integer) and self.knots >= 4):
            raise ValueError(f"knots={self.knots!r} is not a whole number from 4")
        distinct = [len(np.unique(column)) for column in x.T]
        straight = [j for j, n in enumerate(distinct) if n < 4]
        curved = [j for j, n in enumerate(distinct) if n >= 4]
        if self.scales not in ("each", "one"):
            raise ValueError(f"scales={self.scales!r} is neither 'each' nor 'one'")
        each = self.scales == "each"
        smooth: list[PredictorPart] = [
            Smooth.of(
                x, j, int(self.knots), f"s{j}" if each else "s", each or j == curved[0], weights
            )
            for j in curved
        ]
        return [*([LinearPart.of(x, straight, weights)] if straight else []), *smooth]

    def smooth(self, column: int | str) -> tuple[Array, Array, Array]:
        """Positions of the knots of a column's function, its means and its sds there; ValueError
        for a column that has none."""
        check_is_fitted(self, "fit_")
        j = _position(column, [str(n) for n in self.get_feature_names_out()], self.n_features_in_)
        for piece in self._written.pieces:
            if isinstance(piece, Smooth) and piece.column == j:
                name = f"f{j}"
                return piece.knots, self.fit_.mean(name).values, self.fit_.sd(name).values
        raise ValueError(f"column {column!r} has too few distinct values for a smooth function")


class GaussianProcess(ReadyRegressor):
    """A Gaussian process of the standardised columns: Matern 5/2, one length scale and sd, learned
    with the noise (`hyper="map"`; "integrate" averages over them). Rows with the same inputs
    share a value. Dense: memory n^2, time n^3. Parameters as of `BayesianGLM`.
    """

    def __init__(
        self,
        family: str = "normal",
        method: str = "auto",
        hyper: str = "map",
        fixed: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(family, method, hyper, fixed, options, seed=seed)

    def _pieces(self, x: Array, weights: Array | None) -> list[PredictorPart]:
        return [Field.of(x, weights)]


def _position(column: str | int, names: Sequence[str], count: int) -> int:
    """The position of a column that is given by name or position."""
    if isinstance(column, str):
        if column not in names:
            known = f"X has {', '.join(names)}" if names else "the columns of X have no names"
            raise ValueError(f"there is no column {column!r}: {known}")
        return names.index(column)
    if not 0 <= column < count:
        raise ValueError(f"there is no column {column}: X has {count}")
    return column
