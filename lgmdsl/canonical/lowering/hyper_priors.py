"""Hyperpriors, their arguments coefficients: constants, data, expressions in earlier hypers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Coefficient, Gradient, Theta
from lgmdsl.canonical.expressions.named import collapse, expand
from lgmdsl.canonical.grounding.structure_errors import located
from lgmdsl.canonical.lowering.lower import Lowering, distinct
from lgmdsl.errors import DataError
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.memory import TooLarge
from lgmdsl.priors import catalogue
from lgmdsl.priors.prior import Prior, Unsuitable
from lgmdsl.structures.shared.refusals import Refused

PriorClass: TypeAlias = type[Prior]


@dataclass(frozen=True, eq=False)
class HyperPrior:
    """The prior of one hyper of a type, over `dims` (distinct names); `dist` is its text."""

    type: str
    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    arguments: Mapping[str, Coefficient]
    dist: ast.Dist

    @cached_property
    def depends(self) -> frozenset[str]:
        """The hypers in its arguments."""
        return frozenset[str]().union(*(a.depends for a in self.arguments.values()))

    @property
    def family(self) -> PriorClass:
        """The class of its priors."""
        return catalogue.PRIORS[self.dist.name.id]

    @property
    def draws(self) -> bool:
        """Whether it can be drawn from, whatever its arguments."""
        if self.family.improper:
            return False
        return bool(self.depends) or self._constant.proper

    def at(self, theta: Theta) -> Prior:
        """The prior at theta. Raises DataError E303 for an argument out of its range, and what
        besag raises for a graph."""
        return self._built(theta) if self.depends else self._constant

    def pull(self, adjoints: Mapping[str, Array], theta: Theta, out: Gradient) -> None:
        """Add dF/dtheta from dF/dargument."""
        for name, adjoint in adjoints.items():
            node = self.arguments.get(name)  # absent: "value", or an argument with its default
            if node is None or not node.depends:
                continue
            dims = self._dims_of(name)
            collapsed = collapse(np.asarray(adjoint), dims, node.dims) if node.dims else adjoint
            node.pull(np.asarray(collapsed), theta, out)

    @cached_property
    def _constant(self) -> Prior:
        return self._built({})

    def _built(self, theta: Theta) -> Prior:
        name = self.dist.name.id
        try:
            values = {k: self._value(k, a, theta) for k, a in self.arguments.items()}
            return catalogue.prior(name, self.type, **values)
        except Refused as refused:
            raise located(refused, self.dist, self.arguments["graph"].dims[:1], None) from None
        except TooLarge as large:
            raise large.named(f"the spectrum of the graph of `{name}`", self.dist.span) from None
        except Unsuitable as unsuitable:
            value = self.dist.get(unsuitable.argument)
            span = self.dist.span if value is None else value.span
            raise DataError(replace(unsuitable.diagnostic, span=span)) from None

    def _dims_of(self, name: str) -> tuple[str, ...]:
        """The indices of an argument: the hyper's; of a covariance, unless the argument is a
        matrix as well, the members' once."""
        signature = self.family.signature
        declared = None if signature is None else signature.parameter(name)
        matrix = declared is None or declared.type in ("covariance", "matrix")
        return self.dims[:-1] if self.type == "covariance" and not matrix else self.dims

    def _value(self, name: str, argument: Coefficient, theta: Theta) -> Array:
        named = argument.evaluate(theta)
        if not isinstance(named.values, np.ndarray | np.generic):
            from lgmdsl.structures.spatial.besag import besag_spectrum

            return besag_spectrum(named.values)
        if not named.dims:
            return named.dense()
        sizes = dict(zip(self.dims, self.sizes, strict=True))
        return expand(named, self._dims_of(name), sizes)


def hyper_prior(symbol: Symbol, dist: ast.Dist, lowering: Lowering) -> HyperPrior:
    """Lower the prior of a hyper statement."""
    return HyperPrior(
        symbol.type,
        distinct(symbol.dims),
        tuple(lowering.sizes[d] for d in symbol.dims),
        {a.name: lowering.coefficient(a.value) for a in dist.arguments},
        dist,
    )
