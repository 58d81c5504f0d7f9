"""The hyperparameter space: types, priors, values in earlier hypers, and what the user pinned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.canonical.expressions.coefficient import Coefficient, Gradient, Theta
from lgmdsl.canonical.expressions.named import collapse, expand
from lgmdsl.canonical.grounding.errors import located
from lgmdsl.canonical.lowering.lower import Lowering, distinct
from lgmdsl.errors import DataError, Diagnostic, MethodError, Span, suggestion
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.memory import TooLarge
from lgmdsl.priors import catalogue
from lgmdsl.priors.prior import VALUE, Prior, Unsuitable
from lgmdsl.remedies import pin, setting
from lgmdsl.structures.shared.refusals import Refused

if TYPE_CHECKING:
    from numpy.random import Generator

# Of a covariance's largest eigenvalue: what rounding may take from one that is zero.
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class HyperBlock:
    """One declared hyperparameter. `value` is set where the model gives one; `prior` otherwise."""

    name: str
    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    type: str
    span: Span
    prior: HyperPrior | None
    value: Coefficient | None


@dataclass(frozen=True, eq=False)
class HyperSpace:
    """All hyperparameters of a model, each after those in its prior or value, else in the order of
    the text.

    `labels` are those of the index sets.
    """

    blocks: tuple[HyperBlock, ...]
    labels: Mapping[str, AnyArray] = field(default_factory=dict)

    def block(self, name: str) -> HyperBlock | None:
        return next((b for b in self.blocks if b.name == name), None)

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the hyperparameters that have a prior and so no value of their own."""
        return tuple(b.name for b in self.blocks if b.value is None)

    def theta(self, fixed: Mapping[str, object] | None = None) -> dict[str, Array]:
        """Every hyperparameter's value, `fixed` first (a scalar fills an indexed one).

        Raises MethodError E503 for one without a value, and DataError for a pinned value of the
        wrong name (E103), shape (E301) or type (E303).
        """
        return self.filled(fixed)

    def filled(
        self,
        fixed: Mapping[str, object] | None = None,
        give: Callable[[HyperBlock, Theta], Array] | None = None,
    ) -> dict[str, Array]:
        """Every hyperparameter's value, as `theta` gives them; `give(block, theta so far)` gives
        the value of each free hyper not pinned."""
        pinned = dict(fixed or {})
        for name in pinned:
            if self.block(name) is None:
                raise MethodError(unknown_hyper(name, tuple(b.name for b in self.blocks)))
        theta: dict[str, Array] = {}
        unset = []
        for block in self.blocks:
            if block.name in pinned:
                theta[block.name] = as_value(block, pinned[block.name])
            elif block.value is not None:
                if block.value.depends <= theta.keys():
                    theta[block.name] = _computed(block, block.value, theta)
            elif give is not None:
                theta[block.name] = give(block, theta)
            else:
                unset.append(block)
        if unset:
            raise MethodError(tuple(_no_value(b) for b in unset))
        return theta

    def start(
        self, fixed: Mapping[str, object] | None = None, initial: Theta | None = None
    ) -> dict[str, Array]:
        """Every hyper's value, a free one's from `initial`, or in the middle of its prior given
        the earlier ones."""

        def value(block: HyperBlock, theta: Theta) -> Array:
            start_value = None if initial is None else initial.get(block.name)
            return _prior(block, theta).typical(block.sizes) if start_value is None else start_value

        return self.filled(fixed, value)

    def sample(self, rng: Generator, fixed: Mapping[str, object] | None = None) -> dict[str, Array]:
        """Every hyper's value, a free one's drawn from its prior given the earlier ones.

        Raises MethodError E503 for those whose prior cannot be drawn from.
        """
        improper = [b for b in self.unpinned(fixed or ()) if b.prior and not b.prior.draws]
        if improper:
            raise MethodError(tuple(_improper(b) for b in improper))
        return self.filled(
            fixed, lambda block, theta: _prior(block, theta).sample(rng, block.sizes)
        )

    def unpinned(self, pinned: Collection[str] = ()) -> tuple[HyperBlock, ...]:
        """The free blocks that are not pinned, in order."""
        return tuple(b for b in self.blocks if b.value is None and b.name not in pinned)

    def log_prior(self, theta: Theta, pinned: Collection[str] = ()) -> tuple[float, Gradient]:
        """The log density of all hypers with a prior and not pinned, at a complete theta.

        On the natural scale; its gradient there, over the same hypers, with what flows to them
        through the arguments of later priors. A covariance's is symmetric, and that of a simplex
        is in all its entries. Raises DataError E303 where an argument leaves its range.
        """
        total, gradient = 0.0, Gradient()
        for block in self.unpinned(pinned):
            prior, value = _prior(block, theta), theta[block.name]
            total += prior.log_density(value)
            slopes = prior.gradient(value)
            gradient[block.name] = gradient.get(block.name, 0.0) + slopes.pop(VALUE)
            block.prior.pull(slopes, theta, gradient)  # type: ignore[union-attr]
        folded = self.pull(gradient, theta, pinned)
        return total, {k: v for k, v in folded.items() if k not in pinned}

    def pull(self, gradient: Gradient, theta: Theta, fixed: Collection[str]) -> Gradient:
        """Fold the gradients of hypers with values in earlier ones back onto the free ones."""
        out = dict(gradient)
        for block in reversed(self.blocks):
            if block.name not in fixed:
                fold(block, theta, out)
        return {k: v for k, v in out.items() if k in self.free}


def fold(block: HyperBlock, theta: Theta, out: Gradient) -> None:
    """Move the gradient of a hyper given by a value onto the hypers in it."""
    if block.value is not None and block.name in out:
        adjoint = np.asarray(out.pop(block.name))
        block.value.pull(collapse(adjoint, distinct(block.dims), block.value.dims), theta, out)


def hyper_space(lowering: Lowering) -> HyperSpace:
    """Lower every hyper statement, those in its prior or value before it."""
    blocks = []
    for symbol in lowering.grounded.declared("hyper"):
        statement = symbol.statement
        assert isinstance(statement, ast.Hyper)
        value = None if statement.value is None else lowering.coefficient(statement.value)
        dist = statement.prior
        prior = None if dist is None else hyper_prior(symbol, dist, lowering)
        sizes = tuple(lowering.sizes[d] for d in symbol.dims)
        blocks.append(
            HyperBlock(
                symbol.name,
                symbol.dims,
                sizes,
                symbol.type,
                statement.name.span,
                prior,
                value,
            )
        )
    labels = {name: i.labels for name, i in lowering.grounded.indices.items()}
    return HyperSpace(tuple(blocks), labels)


def _prior(block: HyperBlock, theta: Theta) -> Prior:
    assert block.prior is not None, "a hyper has a prior or a value"
    return block.prior.at(theta)


def _computed(block: HyperBlock, value: Coefficient, theta: Theta) -> Array:
    named = value.evaluate(theta)
    axes = distinct(block.dims)
    values = np.array(expand(named, axes, dict(zip(axes, block.sizes, strict=True))))
    problem = _violation(block.type, values)
    if problem:
        raise DataError(_outside(block, problem, "in the model"))
    return values


def as_value(
    block: HyperBlock, value: object, role: str = "pinned", give: Callable[[str, str], str] = pin
) -> Array:
    """A value of the hyper's shape and type; a scalar fills an array. Raises DataError E301 or
    E303, with the value's role and the remedy that gives one."""
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(_outside(block, f"{value!r} is not a number", role)) from None
    if values.ndim == 0 and block.type == "covariance":
        values = float(values) ** 2 * np.eye(block.sizes[0])  # a scalar is the common sd
    elif values.ndim == 0:
        values = np.full(block.sizes, float(values))
    if values.shape != block.sizes:
        raise DataError.of(
            "E301",
            f"the value {role} for hyper `{block.name}` has the wrong shape",
            block.span,
            details=(
                f"declared {block.name}[{', '.join(block.dims)}]   {block.sizes}"
                if block.dims
                else f"declared {block.name}   a single number",
                f"given    {values.shape}",
            ),
            help="give a scalar, which fills it, or an array of that shape"
            if block.dims
            else f"give one number: {give(block.name, '0.5')}",
        )
    problem = _violation(block.type, values)
    if problem:
        raise DataError(_outside(block, problem, role))
    return values


def _violation(type_: str, values: Array) -> str:
    """What is wrong with values of a hyper type, empty where nothing is."""
    if not np.isfinite(values).all():
        return "it is not finite"
    if type_ == "positive" and not (values > 0).all():
        return f"{values.min():g} is not positive"
    if type_ == "unit" and not ((values >= 0) & (values <= 1)).all():
        return "it is not between 0 and 1"
    if type_ == "correlation" and not (np.abs(values) < 1).all():
        return "it is not strictly between -1 and 1"
    if type_ == "simplex" and not (
        (values >= 0).all() and np.allclose(values.sum(axis=-1), 1.0, atol=1e-8)
    ):
        return "its rows are not non-negative with sum 1"
    if type_ == "ordered" and not (np.diff(values, axis=-1) > 0).all():
        return "it does not increase"
    if type_ == "covariance":
        if not np.allclose(values, np.swapaxes(values, -1, -2), rtol=1e-10, atol=0.0):
            return "it is not symmetric"
        eigenvalues = np.linalg.eigvalsh(values)
        if (eigenvalues[..., 0] < -ROUNDING * eigenvalues[..., -1]).any():
            return "it is not positive semi-definite"
    return ""


def _outside(block: HyperBlock, problem: str, where: str) -> Diagnostic:
    return Diagnostic(
        "E303",
        f"the value {where} for hyper `{block.name}` is outside its type `{block.type}`",
        block.span,
        problem,
    )


def unknown_hyper(name: str, known: tuple[str, ...]) -> Diagnostic:
    """E103 for a name that is not of the `known` hypers."""
    listed = f"the hypers are: {', '.join(known)}" if known else "the model has no hyper"
    return Diagnostic(
        "E103",
        f"no hyper is named `{name}`",
        help=suggestion(name, known, listed),
    )


def _no_value(block: HyperBlock) -> Diagnostic:
    return Diagnostic(
        "E503",
        f"hyper `{block.name}` has a prior but no value, and hyperparameters are held fixed",
        block.span,
        f"declared {block.type}, with a prior",
        note="VALUE is a matrix, as in [[1, 0.3], [0.3, 2]]" if block.type == "covariance" else "",
        help=f"pin it: {pin(block.name)}, or write = VALUE in the model; or learn it: "
        f"{setting('hyper', 'auto')}",
    )


def _improper(block: HyperBlock) -> Diagnostic:
    return Diagnostic(
        "E503",
        f"hyper `{block.name}` has no value, and its prior cannot be drawn from",
        block.span,
        f"declared {block.type}, with an improper prior",
        help=f"pin it: {pin(block.name)}",
    )


# ---- hyper priors ------------------------------------------------------------------------------
# Hyperpriors, their arguments coefficients: constants, data, expressions in earlier hypers.


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
