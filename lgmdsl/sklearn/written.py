"""Models that the ready estimators write: the text for a table, and the data for its rows.

Columns are centred and divided by their sds, so that one prior suits all of them. A piece adds
statements to the text and a term to the predictor; it knows its data at any rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.sklearn.families import Family, mean, number, quantiles, sd

MATERN = "matern(sd = s, length = length, smoothness = 2.5)"
LEVEL, SLOPE = 10.0, 2.5  # sds of the level and of the coefficients, in units of the predictor


class PredictorPart(Protocol):
    """A part of the predictor."""

    def statements(self, unit: float) -> list[str]:
        """Statements of the piece: data, hyperparameters, latents; `unit`: that of the
        predictor."""

    @property
    def term(self) -> str:
        """What it adds to the predictor."""

    def known(self) -> Mapping[str, object]:
        """Data that rows do not have."""

    def at(self, x: Array, labels: Sequence[AnyArray]) -> Mapping[str, object]:
        """Data of the rows of a table: `x` its numbers (n, p), `labels` those of its groups."""


@dataclass(frozen=True, eq=False)
class LinearPart:
    """A coefficient for each of some columns, N(0, (2.5 unit)^2) of the standardised ones."""

    columns: tuple[int, ...]
    centre: Array
    scale: Array

    @classmethod
    def of(cls, x: Array, columns: Sequence[int], weights: Array | None) -> LinearPart:
        """By the means and sds of the columns (1 where a column is constant)."""
        part = x[:, list(columns)]
        return cls(tuple(columns), mean(part, weights), _scales(part, weights))

    def statements(self, unit: float) -> list[str]:
        return [
            f"index feature = {len(self.columns)}",
            "data X[obs, feature] : real",
            f"latent w[feature] ~ normal(sd = {number(SLOPE * unit)})",
        ]

    @property
    def term(self) -> str:
        return "X @ w"

    def known(self) -> Mapping[str, object]:
        return {}

    def at(self, x: Array, labels: Sequence[AnyArray]) -> Mapping[str, object]:
        return {"X": (x[:, list(self.columns)] - self.centre) / self.scale}


@dataclass(frozen=True, eq=False)
class GroupEffects:
    """An effect for each label of the k-th column of groups: u ~ N(0, s^2), P(s > unit) = 0.05."""

    k: int

    def statements(self, unit: float) -> list[str]:
        k = self.k
        return [
            f"index group{k}",
            f"data who{k}[obs] : group{k}",
            f"hyper s{k} : positive ~ pc_sd(u = {number(unit)}, alpha = 0.05)",
            f"latent u{k}[group{k}] ~ normal(sd = s{k})",
        ]

    @property
    def term(self) -> str:
        return f"u{self.k}[who{self.k}]"

    def known(self) -> Mapping[str, object]:
        return {}

    def at(self, x: Array, labels: Sequence[AnyArray]) -> Mapping[str, object]:
        return {f"who{self.k}": labels[self.k]}


@dataclass(frozen=True, eq=False)
class Smooth:
    """A smooth function of a column: rw2 at knots, and straight lines between and beyond them.

    Rows with the same value share an entry (ties); where a column has more distinct values than
    there are knots, these lie at its quantiles. The sd about a straight line is gamma with shape 2
    and mean unit / 2, so that its mode is above 0 (Chung et al. 2013); the slope of that line over
    an sd of the column is N(0, (2.5 unit)^2). `scale`: the name of the
    hyperparameter that its sd is, which the first smooth of that name declares (`own`).
    """

    column: int
    knots: Array
    spread: float
    scale: str
    own: bool

    @classmethod
    def of(
        cls, x: Array, column: int, most: int, scale: str, own: bool, weights: Array | None
    ) -> Smooth:
        """At the values of a column, or at `most` of its quantiles."""
        values = np.unique(x[:, column])
        if len(values) > most:
            values = np.unique(quantiles(x[:, column], np.linspace(0.0, 1.0, most), weights))
        return cls(column, values, float(_scales(x[:, [column]], weights)[0]), scale, own)

    def statements(self, unit: float) -> list[str]:
        j, s = self.column, self.scale
        prior = f"hyper {s} : positive ~ gamma(shape = 2, rate = {number(4.0 / unit)})"
        return [
            *([prior] if self.own else []),
            f"index knot{j} = {len(self.knots)}",
            f"data B{j}[obs, knot{j}] : real",
            f"data at{j}[knot{j}] : real",
            f"data slope{j}[knot{j}] : real",
            f"latent f{j}[knot{j}] ~ rw2(sd = {s}, at = at{j})",
            f"potential sum(slope{j} * f{j}, knot{j}) ~ normal(sd = {number(SLOPE * unit)})",
        ]

    @property
    def term(self) -> str:
        return f"B{self.column} @ f{self.column}"

    def known(self) -> Mapping[str, object]:
        place = (self.knots - self.knots.mean()) / self.spread
        slope = place / float(place @ place)  # sum(slope * f): of the line nearest to f
        return {f"at{self.column}": self.knots / self.spread, f"slope{self.column}": slope}

    def at(self, x: Array, labels: Sequence[AnyArray]) -> Mapping[str, object]:
        return {f"B{self.column}": interpolation(x[:, self.column], self.knots)}


@dataclass(frozen=True, eq=False)
class Field:
    """A Gaussian process of the standardised columns, Matern 5/2 with one length for all of them:
    sd within (0, unit), length about 1, both on a log scale."""

    centre: Array
    scale: Array

    @classmethod
    def of(cls, x: Array, weights: Array | None) -> Field:
        """By the means and sds of the columns."""
        return cls(mean(x, weights), _scales(x, weights))

    def statements(self, unit: float) -> list[str]:
        length = np.sqrt(len(self.scale))  # how far apart two rows are, in sds
        return [
            f"index feature = {len(self.scale)}",
            "data X[obs, feature] : real",
            f"hyper s : positive ~ half_normal(sd = {number(2.0 * unit)})",
            f"hyper length : positive ~ lognormal(mean = {number(float(np.log(length)))}, sd = 1)",
            f"latent f[obs] ~ gp(at = X, kernel = {MATERN})",
        ]

    @property
    def term(self) -> str:
        return "f"

    def known(self) -> Mapping[str, object]:
        return {}

    def at(self, x: Array, labels: Sequence[AnyArray]) -> Mapping[str, object]:
        return {"X": (x - self.centre) / self.scale}


def text_of(
    pieces: Sequence[PredictorPart], family: Family, y: AnyArray, weights: Array | None = None
) -> str:
    """The model of a level and the pieces, for responses y whose rows count by their weights."""
    unit = family.unit(y, weights)
    lines = ["lgm 1", "index obs", f"data y[obs] : {family.type}", *family.statements(unit)]
    centre = number(family.centre(y, weights))
    lines.append(f"latent level ~ normal(mean = {centre}, sd = {number(LEVEL * unit)})")
    for piece in pieces:
        lines += piece.statements(unit)
    lines.append(f"let eta[obs] = {' + '.join(['level', *(p.term for p in pieces)])}")
    lines.append(f"observe y ~ {family.law}")
    return "\n".join(lines) + "\n"


def interpolation(x: Array, knots: Array) -> sp.csr_array:
    """(n, k) weights of the values at the knots in those at x, on straight lines."""
    right = np.clip(np.searchsorted(knots, x, side="right"), 1, len(knots) - 1)
    share = (x - knots[right - 1]) / (knots[right] - knots[right - 1])
    rows = np.arange(len(x))
    entries = np.concatenate([1.0 - share, share])
    places = (np.concatenate([rows, rows]), np.concatenate([right - 1, right]))
    return sp.csr_array((entries, places), shape=(len(x), len(knots)))


def _scales(x: Array, weights: Array | None) -> Array:
    """The sds of columns, 1 where a column is constant."""
    scale = sd(x, weights)
    return np.where(
        scale > 1e-12 * np.maximum(np.abs(x).max(axis=0, initial=0.0), 1e-300), scale, 1.0
    )
