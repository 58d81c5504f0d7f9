"""A small latent Gaussian model with its data, as text and as plain arrays.

    s = design @ z + offset,   z ~ N(mean, covariance),   sites at s

`text` and `data` go through the language like any user's; `design`, `offset`, `mean` and
`covariance` are the same model in numpy, for brute force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sla

from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.fit.fitting import fit
from lgmdsl.arrays import AnyArray, Array, BoolArray, IntArray
from lgmdsl.compile import compile_model
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import Property, Site
from lgmdsl.dataset import read
from lgmdsl.inference.plan import plan
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.language.builder import Model
from lgmdsl.language.load import loads
from lgmdsl.sites.catalogue import find_site
from lgmdsl.sites.censored.censored import ENDS
from lgmdsl.sites.observed import make_sites
from lgmdsl.testing.random.latent_blocks import Block


@dataclass(frozen=True, eq=False)
class Sites:
    """One site for each row where `present`, all of one family at the model's predictor.

    `y`, (rows,), is None for a potential, which is present everywhere; parameters are numbers, or
    arrays (rows,), which become data of `types`.
    """

    family: type[Site]
    name: str
    y: Array | None
    parameters: Mapping[str, float | Array]
    types: Mapping[str, str]
    present: BoolArray

    @property
    def text(self) -> str:
        """The sites' statements, the predictor being called `eta`."""
        spec = self.family.spec
        lines, assigned = [], []
        for name, value in self.parameters.items():
            if isinstance(value, float):
                assigned.append(f"{name} = {value!r}")
            else:
                lines.append(f"data {name}_{self.name}[obs] : {self.types[name]}")
                assigned.append(f"{name} = {name}_{self.name}")
        if self.y is None:
            return "\n".join([*lines, f"potential eta ~ {spec.family}({', '.join(assigned)})"])
        some = "" if self.present.all() else "?"
        lines.append(f"data {self.name}[obs] : {spec.observed[0]}{some}")
        arguments = ", ".join([f"{spec.argument} = eta", *assigned])
        return "\n".join([*lines, f"observe {self.name} ~ {spec.family}({arguments})"])

    @property
    def data(self) -> dict[str, AnyArray]:
        """What its statements want; NaN where a datum is missing, and so are the ends of its
        interval."""
        columns: dict[str, AnyArray] = {
            f"{n}_{self.name}": np.where(self.present, v, np.nan) if n in ENDS else v
            for n, v in self.parameters.items()
            if not isinstance(v, float)
        }
        if self.y is not None:
            columns[self.name] = np.where(self.present, self.y, np.nan)
        return columns

    @cached_property
    def bound(self) -> Site:
        """The sites of the rows that are present, made without the compiler."""
        rows = np.flatnonzero(self.present)
        every = np.zeros(len(self.present))
        parameters = {
            n: (every + self.parameters.get(n, 0.0 if default is None else default))[rows]
            for n, default in self.family.spec.parameters.items()
        }
        return make_sites(self.family, None if self.y is None else self.y[rows], parameters)

    def measured(self, unit: float) -> Sites:
        """The sites with y and what else is on its axis `unit` times larger."""
        spec = self.family.spec
        rescaled = {*spec.places, *spec.scales}
        parameters = {n: unit * v if n in rescaled else v for n, v in self.parameters.items()}
        return replace(self, y=None if self.y is None else unit * self.y, parameters=parameters)

    def take(self, rows: IntArray) -> Sites:
        """The sites of some rows, in their order; a row may come again."""
        parameters = {n: v if isinstance(v, float) else v[rows] for n, v in self.parameters.items()}
        return replace(
            self,
            y=None if self.y is None else self.y[rows],
            parameters=parameters,
            present=self.present[rows],
        )


@dataclass(frozen=True, eq=False, repr=False)
class RandomModel:
    """Blocks of latents, sites, and an offset: a number, and data o[obs] where they are given.

    Its repr is the text and the data, so that a failing example can be run by hand.
    """

    blocks: tuple[Block, ...]
    sites: tuple[Sites, ...]
    constant: float = 0.0
    shifts: Array | None = None

    @property
    def rows(self) -> int:
        """How many rows `obs` has."""
        return len(self.blocks[0].design)

    @property
    def size(self) -> int:
        """How many latents there are."""
        return sum(b.size for b in self.blocks)

    @property
    def concave(self) -> bool:
        """Whether all sites declare themselves log-concave, so that the ELBO has one maximum."""
        return all(Property.LOG_CONCAVE in s.family.spec.properties for s in self.sites)

    @property
    def proper(self) -> bool:
        """Whether no prior is flat."""
        return all(b.covariance is not None for b in self.blocks)

    def __repr__(self) -> str:
        with np.printoptions(precision=17, threshold=10_000):
            data = "\n".join(f"{name} = {array!r}" for name, array in self.data.items())
        return f"{self.text}---\n{data}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How hypothesis shows a failing example."""
        printer.text(repr(self))

    # ---- as text -------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The model in the language."""
        parts = [b.term for b in self.blocks]
        lines = ["lgm 1", f"index obs = {self.rows}", *(b.text for b in self.blocks)]
        if self.shifts is not None:
            lines.append("data o[obs] : real")
            parts.append("o")
        if self.constant:
            parts.append(repr(self.constant))
        lines.append(f"let eta[obs] = {' + '.join(parts)}")
        return "\n".join([*lines, *(s.text for s in self.sites)]) + "\n"

    @property
    def data(self) -> dict[str, AnyArray]:
        """Everything that the text declares as data, by name."""
        columns: dict[str, AnyArray] = {} if self.shifts is None else {"o": self.shifts}
        for block in self.blocks:
            columns |= block.data
        for sites in self.sites:
            columns |= sites.data
        return columns

    @cached_property
    def model(self) -> Model:
        """The text, read."""
        return loads(self.text)

    def fit(self, method: str = "auto", **settings: Any) -> Fit:
        """The model fitted to its data; settings and errors are those of `lgm.fit`."""
        return fit(self.model, self.data, method, **settings)

    def problem(self, method: str = "natural-gradient", bound: str | None = None) -> Problem:
        """What the driver hands to a back end. Raises what `lgm.fit` raises."""
        load_entry_points()
        canonical = compile_model(self.model.checked, read(self.data), find_site)
        return plan(canonical, method, bound).at(canonical.hypers.theta(None))

    def measured(self, unit: float) -> RandomModel:
        """This model in a unit that makes every number `unit` times larger: y, scales, offsets,
        latents. All sites have `spec.scales`."""
        parts = tuple(replace(b, factor=unit * b.factor).rescaled(1.0 / unit) for b in self.blocks)
        shifts = None if self.shifts is None else unit * self.shifts
        return replace(
            self,
            blocks=parts,
            sites=tuple(s.measured(unit) for s in self.sites),
            constant=unit * self.constant,
            shifts=shifts,
        )

    # ---- as arrays -----------------------------------------------------------------------------

    @property
    def design(self) -> Array:
        """B, (rows, n), blocks in order."""
        return np.hstack([b.columns for b in self.blocks])

    @property
    def offset(self) -> Array:
        """c, (rows,)."""
        shifts = np.zeros(self.rows) if self.shifts is None else self.shifts
        return np.asarray(shifts + self.constant)

    @property
    def mean(self) -> Array:
        """(n,) prior mean."""
        return np.concatenate([b.mean for b in self.blocks])

    @property
    def covariance(self) -> Array:
        """(n, n) prior covariance. Raises ValueError where a prior is flat."""
        parts = [b.covariance for b in self.blocks if b.covariance is not None]
        if len(parts) < len(self.blocks):
            raise ValueError("a flat prior has no covariance")
        return np.asarray(sla.block_diag(*parts))

    # ---- the same model, otherwise -------------------------------------------------------------

    def take(self, rows: IntArray) -> RandomModel:
        """The model over some rows, in their order; a row may come again."""
        return replace(
            self,
            blocks=tuple(b.take(rows) for b in self.blocks),
            sites=tuple(s.take(rows) for s in self.sites),
            shifts=None if self.shifts is None else self.shifts[rows],
        )

    def rescaled(self, by: float) -> RandomModel:
        """All latents divided, B multiplied: the predictors stay, and so does the evidence, but
        for log(by) less with each latent of a flat block."""
        return replace(self, blocks=tuple(b.rescaled(by) for b in self.blocks))
