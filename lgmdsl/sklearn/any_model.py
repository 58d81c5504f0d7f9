"""Estimators of any model: its responses are y, its data are columns of X."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from lgmdsl.api.predict.requested import PredictionWarning
from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.grounding.order import needs_of
from lgmdsl.errors import DataError
from lgmdsl.language.builder import Model
from lgmdsl.language.load import loads
from lgmdsl.sklearn.estimator import (
    ENCODE,
    Form,
    LgmEstimator,
    Regressor,
    bound,
    bound_classes,
    check_numbers,
    class_labels,
    model_of,
    named,
    response_symbol,
    response_type,
)
from lgmdsl.sklearn.families import number
from lgmdsl.sklearn.ready import written
from lgmdsl.sklearn.written import LEVEL, SLOPE, LinearPart


class AnyModel(LgmEstimator):
    """An estimator of a model that the user gives."""

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | None = None,
        response: str = "y",
        method: str = "auto",
        hyper: str = "auto",
        fixed: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        *,
        data: Mapping[str, object] | None = None,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.response = response
        self.method = method
        self.hyper = hyper
        self.fixed = fixed
        self.options = options
        self.data = data
        self.seed = seed


class LgmRegressor(Regressor, AnyModel):
    """A regressor of any model with a numeric response.

    `model`: an `lgmdsl.Model`, the text of one, or the path of a file; None for a linear model of
    all columns with normal noise (`BayesianGLM`). `response`: the datum that y is. The model's
    other data over the same index are columns of X by name; a matrix `X[obs, feature]` takes all
    columns that are not named so; where X has no names, columns come in the order of the
    declarations. `data`: what has no rows, such as a graph, by name. `method`, `hyper`, `fixed`,
    `options` and `seed` as in `lgmdsl.fit`, with `effort` low unless `options` set it.

    Attributes: `fit_` (the `lgmdsl.Fit`), `model_`, `n_features_in_`, `feature_names_in_`.
    Raises ValueError for tables that do not fit the model, LgmError as `lgmdsl.fit` does.
    """

    def _form(self, X: Any, y: Any, weights: Array | None) -> Form:
        if self.model is None:
            check_numbers(X, f"{ENCODE}, or give a model that has it")
            x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
            pieces = [LinearPart.of(x, range(x.shape[1]), weights)]
            return written(pieces, "normal", x, [], y, self, weights)
        X, y = _table(self, X, y)
        return bound(self, model_of(self.model), self.response, X, y, self.data)


class LgmClassifier(ClassifierMixin, AnyModel):
    """A classifier of any model whose response is binary, or a class.

    Parameters as of `LgmRegressor`; without a `model` a linear one of all columns, logistic for two
    classes and softmax for more. `classes_`: the labels of y, sorted as scikit-learn's scores
    expect; of a binary response the second is the event, 1. Classes of an ordinal response need an
    order: numbers, an ordered categorical (whose second category is then the event of a binary
    response), or the labels in their order, in the model or as `data={"class": ["low", "high"]}`,
    by the name of the index: this one also where scikit-learn replaces y by an array without it.
    An array of numbers for classes that are words is read as scikit-learn encodes words (in
    `cross_val_predict` of probabilities): by the alphabet, with a warning where the classes have
    another order. Without the labels nothing tells such numbers from an order, and a warning says
    which was taken: give them.
    `class_weight`: weights of the rows by their class, or "balanced", n / (classes * rows of it).
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | None = None,
        response: str = "y",
        method: str = "auto",
        hyper: str = "auto",
        fixed: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        *,
        data: Mapping[str, object] | None = None,
        seed: int = 0,
        class_weight: Mapping[Any, float] | str | None = None,
    ) -> None:
        super().__init__(model, response, method, hyper, fixed, options, data=data, seed=seed)
        self.class_weight = class_weight

    def _form(self, X: Any, y: Any, weights: Array | None) -> Form:
        categories, plain = _ordered_categories(y), isinstance(y, np.ndarray)
        self._named = None
        if self.model is None:
            check_numbers(X, f"{ENCODE}, or give a model that has it")
            X, y = validate_data(self, X, y, dtype=np.float64)
        else:
            X, y = _table(self, X, y)
        check_classification_targets(y)
        labels, codes = np.unique(y, return_inverse=True)
        if categories is not None:
            codes = np.array([list(categories).index(label) for label in y])
            labels = categories
        self.classes_ = np.sort(labels)
        decoded = self._decoded(y) if plain else None
        self._event = int(np.argmax(self.classes_ == labels[-1]))
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_.tolist()[0]!r}: a classifier needs two"
            )
        if self.model is not None:
            model = model_of(self.model)
            if response_type(model, self.response) != "binary":
                if decoded is not None:
                    self._named = decoded
                    places = np.searchsorted(self.classes_, y)
                    return bound_classes(
                        self, model, self.response, X, decoded[places], self.data, None
                    )
                if plain and categories is None:
                    self._doubt_places(model, labels)
                known = categories is not None or labels.dtype.kind in "iuf"
                classes = labels if known else None
                return bound_classes(self, model, self.response, X, y, self.data, classes)
            self._binary_only()
            return bound(self, model, self.response, X, codes, self.data)
        if len(self.classes_) == 2:
            pieces = [LinearPart.of(X, range(X.shape[1]), weights)]
            return written(pieces, "bernoulli", X, [], codes, self, weights)
        places = np.searchsorted(self.classes_, labels)[codes]
        return Softmax.of(X, places, len(self.classes_), self, weights)

    def _decoded(self, y: AnyArray) -> AnyArray | None:
        """The label of each class where y is an array of the positions of labels, which are words,
        in the order of the alphabet: what scikit-learn makes of them (`cross_val_predict` of
        probabilities). None where y holds labels."""
        if self.model is None or y.dtype.kind not in "iu":
            return None
        known = class_labels(model_of(self.model), self.response, self.data)
        if known is None or known.dtype.kind not in "UO" or {*known} & {*self.classes_.astype(str)}:
            return None
        if self.classes_[0] < 0 or self.classes_[-1] >= len(known):
            return None
        sorted_labels = np.sort(known)
        if (sorted_labels != known).any():
            read = ", ".join(f"{k}: {label}" for k, label in enumerate(sorted_labels))
            warnings.warn(
                "y holds numbers and the classes are words: read as scikit-learn encodes words, "
                f"by the alphabet ({read})",
                stacklevel=2,
            )
        return np.asarray(sorted_labels[self.classes_])

    def _doubt_places(self, model: Model, labels: AnyArray) -> None:
        """Warn of an array of numbers from 0 for ordered classes without labels: it may be what
        scikit-learn makes of words, ordered or not (`cross_val_predict` of probabilities)."""
        target = response_symbol(model, self.response).target
        if target is None or labels.dtype.kind not in "iu" or labels[0] != 0:
            return
        if class_labels(model, self.response, self.data) is not None:
            return
        if not any(need.user != "head" for need in needs_of(model.checked).get(target, ())):
            return
        taken = " < ".join(map(str, labels[:6])) + (" < ..." if len(labels) > 6 else "")
        shown = ", ".join(map(str, labels[:3])) + (", ..." if len(labels) > 3 else "")
        warnings.warn(
            f"y is an array of numbers from 0, taken in the order {taken}. Where they stand for "
            "words, as in scikit-learn's cross_val_predict of probabilities, that is the order of "
            f'the alphabet: give the words in their order, data={{"{target}": ["lowest", ..., '
            f'"highest"]}}. Where the numbers are the classes, say so: data={{"{target}": '
            f"[{shown}]}}",
            stacklevel=2,
        )

    def _weights(self, y: Any, weights: Array | None) -> Array | None:
        if self.class_weight is None:
            return weights
        own = compute_sample_weight(self.class_weight, y)
        return np.asarray(own if weights is None else own * weights)

    def _fitted(self, form: Form, weights: Array | None) -> None:
        try:
            super()._fitted(form, weights)
        except DataError as error:
            unordered = "E307" in error.codes and self.model is not None
            target = response_symbol(form.model, form.response).target if unordered else None
            if target is None:
                raise
            shown = ", ".join(f'"{label}"' for label in self.classes_[:3])
            more = ", ..." if len(self.classes_) > 3 else ""
            help = (
                f'{type(self).__name__}(..., data={{"{target}": [{shown}{more}]}}), in their order'
            )
            raise DataError(
                replace(d, help=help) if d.code == "E307" else d for d in error.diagnostics
            ) from None

    def _binary_only(self) -> None:
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"`{self.response}` is binary and y has {len(self.classes_)} classes"
            )

    def predict_proba(self, X: Any) -> Array:
        """(n, classes) predictive probabilities, in the order of `classes_`."""
        prediction = self._predicted(X)
        name = self.form_.response
        block = prediction.observed(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PredictionWarning)  # of sds, which are not asked for
            response = prediction.response(name)
        if not block.classes:
            event = np.asarray(response["mean"].values, dtype=np.float64)
            both = [event, 1.0 - event]
            return np.stack(both if self._event == 0 else both[::-1], axis=1)
        table = response["probability"]
        known = [str(label) for label in table.coords[table.dims[-1]].values]
        if self.model is None:
            return np.asarray(table.values)
        out = np.zeros((len(table), len(self.classes_)))
        for k, label in enumerate(self.classes_ if self._named is None else self._named):
            out[:, k] = table.values[:, known.index(str(label))]
        return np.asarray(out / out.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> AnyArray:
        """(n,) the most probable labels."""
        check_is_fitted(self, "fit_")
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.model is not None:
            tags.classifier_tags.multi_class = (
                response_type(model_of(self.model), self.response) != "binary"
            )
        return tags


def _table(estimator: Any, X: Any, y: Any) -> tuple[Any, AnyArray]:
    """X as it is where its columns have names, else as numbers; y as a column."""
    if not named(X):
        X, y = validate_data(estimator, X, y, dtype=np.float64)
        return X, y
    X, _ = validate_data(estimator, X, y, skip_check_array=True)
    y = column_or_1d(np.asarray(y), warn=True)
    if len(y) != len(X):
        raise ValueError(f"X has {len(X)} rows, y has {len(y)}")
    return X, y


def _ordered_categories(y: Any) -> AnyArray | None:
    kind: Any = getattr(y, "dtype", None)
    return np.asarray(kind.categories) if getattr(kind, "ordered", False) else None


# ---- softmax -----------------------------------------------------------------------------------
# The linear model of several classes.


TEXT = """lgm 1
index obs
index feature = {features}
index class = {classes}
data y[obs] : class
data X[obs, feature] : real
latent level[class] ~ normal(sd = {level})
latent w[feature, class] ~ normal(sd = {slope})
let eta[obs, class] = level + X @ w
observe y ~ categorical(softmax = eta)
"""


@dataclass(frozen=True, eq=False)
class Softmax:
    """A level and coefficients for each class, of the standardised columns."""

    model: Model
    data: Mapping[str, object]
    columns: LinearPart
    estimator: Any
    response: str = "y"

    @classmethod
    def of(
        cls, x: Array, codes: IntArray, classes: int, estimator: Any, weights: Array | None
    ) -> Softmax:
        """For classes 0, 1, ... of the rows."""
        columns = LinearPart.of(x, range(x.shape[1]), weights)
        sds = {"level": number(LEVEL), "slope": number(SLOPE)}
        text = TEXT.format(features=x.shape[1], classes=classes, **sds)
        data = {**columns.at(x, []), "y": codes}
        return cls(loads(text), data, columns, estimator)

    def rows(self, X: Any) -> Mapping[str, object]:
        """The data of other rows."""
        x = validate_data(self.estimator, X, dtype=np.float64, reset=False)
        return self.columns.at(x, [])
