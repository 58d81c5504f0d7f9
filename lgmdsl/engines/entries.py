"""Every engine, how it is built and what it costs, and a row of the table that compares them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lgmdsl.contract.engine import Engine, Estimate
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.costs import (
    batched_cost,
    covariance_cost,
    iterative_cost,
    nested_cost,
    precision_cost,
    sparse_cost,
    wide_cost,
)
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.grouped.batched import BatchedEngine
from lgmdsl.engines.grouped.wide import WideEngine
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.iterative.patience import LONGEST_FIT
from lgmdsl.engines.least_costs import (
    Least,
    least_batched,
    least_iterative,
    least_nested,
    least_sparse,
    least_wide,
)
from lgmdsl.engines.nested.engine import NestedEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.vocabulary import plugins


@dataclass(frozen=True)
class Entry:
    """A known engine: its class, how it is built (from a seed too, which those that estimate draw
    their random numbers from), its cost, and the least that this may be, where a cost takes more
    than sizes."""

    engine: type[Engine]
    build: Callable[[LinearGaussian, int], Engine]
    cost: Callable[[LinearGaussian], Estimate]
    least: Callable[[LinearGaussian], Least] | None = None


@dataclass(frozen=True)
class Option:
    """One row of the table: a refusal, or a cost; `least`: one that may be higher, or a refusal,
    when looked at more closely; `beyond`: the refusal is one of memory or time alone."""

    entry: Entry
    refusal: str
    flops: float
    engine: Engine | None
    least: bool = False
    beyond: bool = False

    @property
    def name(self) -> str:
        return self.entry.engine.name

    @property
    def exact(self) -> bool:
        """Whether variances and determinants are, to rounding."""
        return self.entry.engine.exact


# An engine, and what it costs: a new engine is one line here.
ENGINES = [
    Entry(CovarianceEngine, lambda linear, _: CovarianceEngine(linear), covariance_cost),
    Entry(PrecisionEngine, lambda linear, _: PrecisionEngine(linear), precision_cost),
    Entry(BatchedEngine, lambda linear, _: BatchedEngine(linear), batched_cost, least_batched),
    Entry(WideEngine, lambda linear, _: WideEngine(linear), wide_cost, least_wide),
    Entry(NestedEngine, lambda linear, _: NestedEngine(linear), nested_cost, least_nested),
    Entry(SparseEngine, lambda linear, _: SparseEngine(linear), sparse_cost, least_sparse),
    Entry(
        IterativeEngine,
        lambda linear, seed: IterativeEngine(linear, seed=seed, endless=LONGEST_FIT),
        iterative_cost,
        least_iterative,
    ),
]
AUTO = "auto"


def register_engine(engine: type[Engine]) -> type[Engine]:
    """Add a third party's engine, chosen by its `refuses` and `cost` as the others are.

    Raises MethodError E106 where the name is taken.
    """
    taken = next((e.engine for e in ENGINES if e.engine.name == engine.name), None)
    if taken is None:
        ENGINES.append(Entry(engine, engine.build, engine.cost))
    elif taken is not engine:
        raise MethodError(
            Diagnostic(
                "E106",
                f"an engine called `{engine.name}` exists already",
                help="give the new one another name",
            )
        )
    return engine


def unregister_engine(engine: type[Engine]) -> None:
    """Take a registered engine out again; an unknown one is no error."""
    ENGINES[:] = [e for e in ENGINES if e.engine is not engine]


def names() -> tuple[str, ...]:
    """Every known engine, third parties' too."""
    plugins.load()
    return tuple(entry.engine.name for entry in ENGINES)
