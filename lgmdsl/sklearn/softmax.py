"""The linear model of several classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from lgmdsl.arrays import Array, IntArray
from lgmdsl.language.builder import Model
from lgmdsl.language.load import loads
from lgmdsl.sklearn.families import number
from lgmdsl.sklearn.written import LEVEL, SLOPE, Linear

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
    columns: Linear
    estimator: Any
    response: str = "y"

    @classmethod
    def of(
        cls, x: Array, codes: IntArray, classes: int, estimator: Any, weights: Array | None
    ) -> Softmax:
        """For classes 0, 1, ... of the rows."""
        columns = Linear.of(x, range(x.shape[1]), weights)
        sds = {"level": number(LEVEL), "slope": number(SLOPE)}
        text = TEXT.format(features=x.shape[1], classes=classes, **sds)
        data = {**columns.at(x, []), "y": codes}
        return cls(loads(text), data, columns, estimator)

    def rows(self, X: Any) -> Mapping[str, object]:
        """The data of other rows."""
        x = validate_data(self.estimator, X, dtype=np.float64, reset=False)
        return self.columns.at(x, [])
