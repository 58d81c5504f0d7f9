"""Which engine a model gets, from the structure of its priors and operators, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lgmdsl.contract.engine import Engine, Estimate
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.costs import (
    batched_cost,
    covariance_cost,
    iterative_cost,
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
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.errors import Diagnostic, MethodError, listed, suggestion
from lgmdsl.memory import VARIABLE, TooLarge, budget, size_text
from lgmdsl.vocabulary import plugins


@dataclass(frozen=True)
class Entry:
    """A known engine: its class, how it is built (from a seed too, which those that estimate draw
    their random numbers from), and its cost."""

    engine: type[Engine]
    build: Callable[[LinearGaussian, int], Engine]
    cost: Callable[[LinearGaussian], Estimate]


@dataclass(frozen=True)
class Option:
    """One row of the table: a refusal, or a cost."""

    entry: Entry
    refusal: str
    flops: float
    engine: Engine | None

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
    Entry(BatchedEngine, lambda linear, _: BatchedEngine(linear), batched_cost),
    Entry(WideEngine, lambda linear, _: WideEngine(linear), wide_cost),
    Entry(SparseEngine, lambda linear, _: SparseEngine(linear), sparse_cost),
    Entry(
        IterativeEngine,
        lambda linear, seed: IterativeEngine(linear, seed=seed, endless=LONGEST_FIT),
        iterative_cost,
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


# Flops of one exact conditioning beyond which estimates take its place: ten seconds.
PATIENCE = 2e11
# Beyond which no engine is taken unless asked for: a quarter of an hour, and a fit needs dozens.
LONGEST_CONDITIONING = 2e13


def names() -> tuple[str, ...]:
    """Every known engine, third parties' too."""
    plugins.load()
    return tuple(entry.engine.name for entry in ENGINES)


@dataclass(frozen=True)
class Terms:
    """What an engine is chosen by, once for a fit: `budget`, the bytes that it may hold; `engine`,
    the name of the one that was asked for, or auto; `fits`: how many fits there will be."""

    budget: float
    engine: str = AUTO
    fits: float = 1.0

    @staticmethod
    def of(engine: str = AUTO) -> Terms:
        """Within the memory budget of this process. Raises MethodError E103 for an unknown name."""
        known = (AUTO, *names())
        if engine not in known:
            available = f"engines: {', '.join(known)}"
            raise MethodError(
                Diagnostic(
                    "E103", f"unknown engine `{engine}`", help=suggestion(engine, known, available)
                )
            )
        return Terms(budget(), engine)


def table(linear: LinearGaussian, terms: Terms | None = None, alone: bool = False) -> list[Option]:
    """Every engine, or `alone` the one that was asked for, with its cost in flops, or why it cannot
    take the model. What was asked for by name may take its time; what else would not end is
    refused."""
    plugins.load()
    terms = terms or Terms.of()
    asked = terms.engine if alone else AUTO
    return [_option(e, linear, terms) for e in ENGINES if asked in (AUTO, e.engine.name)]


def _option(entry: Entry, linear: LinearGaussian, terms: Terms) -> Option:
    refusal = entry.engine.refuses(linear)
    if refusal:
        return Option(entry, refusal, math.inf, None)
    try:
        estimate = entry.cost(linear)
    except TooLarge as large:
        return Option(entry, f"it would hold {large.excess}", math.inf, None)
    need = 8.0 * estimate.doubles
    if need > terms.budget:
        refusal = (
            f"it would hold {size_text(need)} ({linear.rows} predictor rows, "
            f"{linear.size} latents), and the memory budget is {size_text(terms.budget)}"
        )
    elif estimate.flops > LONGEST_CONDITIONING and terms.engine != entry.engine.name:
        refusal = f"one conditioning would take {estimate.flops:.2g} flops"
    return Option(entry, refusal, estimate.flops, estimate.engine)


def preferred(options: Sequence[Option], engine: str = AUTO) -> Option | None:
    """The cheapest exact engine that takes the model, unless it is slow: then the cheapest of all;
    the one of this name where one is asked for; None where none takes it."""
    able = sorted(
        (o for o in options if not o.refusal and engine in (AUTO, o.name)), key=lambda o: o.flops
    )
    exact = [o for o in able if o.exact]
    if exact and exact[0].flops <= PATIENCE:
        return exact[0]
    return able[0] if able else None


def choose(
    linear: LinearGaussian, terms: Terms | None = None, seed: int = 0
) -> tuple[Engine | None, str]:
    """The preferred engine and one sentence why (`reason`); None where none takes the model.
    `seed`: of estimates, where it gives any."""
    terms = terms or Terms.of()
    options = table(linear, terms)
    best = preferred(options, terms.engine)
    if best is None:
        return None, refusal(linear, options, terms).message
    return _built(best, linear, terms, seed), reason(linear, options, terms)


def reason(linear: LinearGaussian, options: Sequence[Option], terms: Terms | None = None) -> str:
    """Why the preferred engine is, in one sentence with the flops that decided; empty where no
    engine takes the model."""
    terms = terms or Terms.of()
    best = preferred(options, terms.engine)
    if best is None:
        return ""
    size = f"{best.name} engine for {linear.rows} predictor rows and {linear.size} latents"
    if terms.engine != AUTO:
        return f"{size}: it was requested"
    cost = f"{best.flops:.2g} flops for one conditioning"
    able = sorted((o for o in options if not o.refusal), key=lambda o: o.flops)
    exact = next((o for o in able if o.exact), None)
    if exact is None:
        why = f"no engine computes variances exactly; it takes {cost}"
    elif not best.exact:
        why = (
            f"it estimates variances, in {cost}; {exact.name}, the cheapest exact engine, would "
            f"take {exact.flops:.2g}, above the limit of {PATIENCE:.2g} for exact engines"
        )
    elif best.flops <= PATIENCE:
        why = (
            f"the cheapest exact engine, {cost}, below the limit of {PATIENCE:.2g} from which "
            "estimates are considered"
        )
    else:
        why = (
            f"the cheapest engine, {cost}: above the limit of {PATIENCE:.2g} from which estimates "
            "are considered, but these cost no less"
        )
    following = next((o for o in able if o is not best and o.exact), None)
    if best.exact and following is not None:
        why += f"; {following.name} would cost {following.flops / best.flops:.3g} times as much"
    return f"{size}: {why}"


def _built(best: Option, linear: LinearGaussian, terms: Terms, seed: int) -> Engine:
    engine = best.engine or best.entry.build(linear, seed)
    return engine if terms.engine == AUTO else engine.patient()


def required(linear: LinearGaussian, terms: Terms, seed: int = 0) -> tuple[Engine, float]:
    """The preferred engine, and the flops of one conditioning. Raises MethodError E501 where none
    takes the model, or the one that was asked for does not; E505 where they would only with more
    memory or time."""
    options = table(linear, terms, alone=True)
    best = preferred(options, terms.engine)
    if best is None:
        raise MethodError(refusal(linear, table(linear, terms), terms))
    return _built(best, linear, terms, seed), best.flops


def refusal(linear: LinearGaussian, options: Sequence[Option], terms: Terms) -> Diagnostic:
    """Why no engine, or not the one that was asked for, takes the model, and what would."""
    able = [o.name for o in options if not o.refusal]
    wanted = next((o for o in options if o.name == terms.engine), None)
    if wanted is not None:
        can = f"engines that can: {listed(able)}" if able else "no other engine can"
        return Diagnostic(
            "E501",
            f"engine `{wanted.name}` cannot take this model: {wanted.refusal}",
            help=f"{can}; without `engine` the cheapest is taken",
        )
    name, size = max(((b.name, b.size) for b in linear.blocks), key=lambda block: block[1])
    return Diagnostic(
        "E501",
        f"no engine takes this model: {'; '.join(f'{o.name}: {o.refusal}' for o in options)}",
        details=(f"the largest latent is `{name}`, {size} entries",),
        help=f"fewer latents or rows, or a sparse structure; {VARIABLE} sets the memory budget",
    )


def stronger(engine: Engine, terms: Terms) -> Engine:
    """The cheapest exact engine for the same model whose digits do not depend on how wide priors
    are; the engine itself where it was asked for, where there is none, or none within
    `PATIENCE`."""
    if terms.engine != AUTO:
        return engine
    able = [o for o in table(engine.linear, terms) if o.exact and not o.refusal]
    for option in sorted(able, key=lambda o: o.flops):
        unmoved = option.entry.engine.strain is Engine.strain
        if unmoved and option.flops <= PATIENCE:
            return option.engine or option.entry.build(engine.linear, 0)
    return engine
