"""Which engine a model gets, from the structure of its priors and operators, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lgmdsl.contract.engine import Engine
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.entries import AUTO as AUTO
from lgmdsl.engines.entries import ENGINES as ENGINES
from lgmdsl.engines.entries import Entry as Entry
from lgmdsl.engines.entries import Option as Option
from lgmdsl.engines.entries import names as names
from lgmdsl.engines.entries import register_engine as register_engine
from lgmdsl.engines.entries import unregister_engine as unregister_engine
from lgmdsl.errors import Diagnostic, MethodError, listed, suggestion
from lgmdsl.memory import VARIABLE, TooLarge, budget, size_text
from lgmdsl.vocabulary import plugins

# How variances may be computed: as the engine does, exactly, or estimated from perturbation samples
# or from Lanczos vectors.
EXACT, SAMPLES, LANCZOS = "exact", "samples", "lanczos"
VARIANCES = (AUTO, EXACT, SAMPLES, LANCZOS)
COUNTS = {SAMPLES: "samples", LANCZOS: "vectors"}  # options that say from how many
# Flops of one exact conditioning beyond which estimates take its place: ten seconds.
PATIENCE = 2e11
# Beyond which no engine is taken unless asked for: a quarter of an hour, and a fit needs dozens.
LONGEST_CONDITIONING = 2e13

# What an engine with more digits may cost: so many flops, or so many times as much.
LIGHT, DEARER = 1e8, 10.0


@dataclass(frozen=True)
class Terms:
    """What an engine is chosen by, once for a fit: `budget`, the bytes that it may hold; `engine`,
    the name of the one that was asked for, or auto; `fits`: how many fits there will be;
    `variances`: how they are computed, one of `VARIANCES`, and `count`: from how many samples or
    vectors, 0 for as many as the engine takes by itself."""

    budget: float
    engine: str = AUTO
    fits: float = 1.0
    variances: str = AUTO
    count: int = 0

    @property
    def counted(self) -> dict[str, str]:
        """`count`, by the option that gives it; empty where none was given."""
        return {COUNTS[self.variances]: str(self.count)} if self.count else {}

    @property
    def asked(self) -> str:
        """What was asked for of the variances, as a reason to refuse an engine."""
        return f"variances={self.variances} was asked for"

    def refuses(self, engine: type[Engine]) -> str:
        """Why it does not compute variances as was asked for, or ""."""
        if self.variances == AUTO:
            return ""
        if self.variances == EXACT:
            return "" if engine.exact else f"it estimates variances, and {self.asked}"
        if self.variances in engine.estimates:
            return ""
        how = "computes variances exactly" if engine.exact else "takes no such estimate"
        return f"it {how}, and {self.asked}"

    @staticmethod
    def of(engine: str = AUTO, variances: str = AUTO, count: int = 0) -> Terms:
        """Within the memory budget of this process. Raises MethodError E103 for an unknown name."""
        known = (AUTO, *names())
        if engine not in known:
            available = f"engines: {', '.join(known)}"
            raise MethodError(
                Diagnostic(
                    "E103", f"unknown engine `{engine}`", help=suggestion(engine, known, available)
                )
            )
        return Terms(budget(), engine, variances=variances, count=count)


def table(linear: LinearGaussian, terms: Terms | None = None, alone: bool = False) -> list[Option]:
    """Every engine, or `alone` the one that was asked for, with its cost in flops, or why it cannot
    take the model. What was asked for by name may take its time; what else would not end is
    refused."""
    plugins.load()
    terms = terms or Terms.of()
    asked = terms.engine if alone else AUTO
    return [_option(e, linear, terms) for e in ENGINES if asked in (AUTO, e.engine.name)]


def _option(entry: Entry, linear: LinearGaussian, terms: Terms) -> Option:
    refusal = terms.refuses(entry.engine) or entry.engine.refuses(linear)
    if refusal:
        return Option(entry, refusal, math.inf, None)
    try:
        estimate = entry.cost(linear)
    except TooLarge as large:
        return Option(entry, f"it would hold {large.excess}", math.inf, None, beyond=True)
    refusal = _beyond(entry, linear, terms, estimate.flops, estimate.doubles)
    return Option(entry, refusal, estimate.flops, estimate.engine, beyond=bool(refusal))


def _glance(entry: Entry, linear: LinearGaussian, terms: Terms) -> Option:
    """What sizes say of an engine."""
    if entry.least is None:
        return _option(entry, linear, terms)
    least = entry.least(linear)
    refusal = terms.refuses(entry.engine) or least.refusal
    beyond = "" if refusal else _beyond(entry, linear, terms, least.flops, least.doubles)
    return Option(entry, refusal or beyond, least.flops, None, least=True, beyond=bool(beyond))


def _beyond(
    entry: Entry, linear: LinearGaussian, terms: Terms, flops: float, doubles: float
) -> str:
    """The refusal of what would not fit memory, or not end."""
    need = 8.0 * doubles
    if need > terms.budget:
        return (
            f"it would hold {size_text(need)} ({linear.rows} predictor rows, "
            f"{linear.size} latents), and the memory budget is {size_text(terms.budget)}"
        )
    if flops > LONGEST_CONDITIONING and terms.engine != entry.engine.name:
        return f"one conditioning would take {flops:.2g} flops"
    return ""


def considered(linear: LinearGaussian, terms: Terms, sums: bool = False) -> list[Option]:
    """Options of which `preferred` is that of the whole table: engines are asked for their cost
    only while the least that it may be is below the cost of any other. Estimates are looked at
    where exact answers are slow."""
    plugins.load()
    if terms.engine != AUTO:
        return table(linear, terms, alone=True)
    exact = [_glance(e, linear, terms) for e in ENGINES if e.engine.exact]
    _settle(exact, linear, terms, PATIENCE)
    best = preferred(exact)
    if best is not None and best.flops <= PATIENCE:
        for k, o in enumerate(exact) if sums else ():
            if o.least and not o.refusal and _unmoved(o.entry) and o.flops <= _worth(best.flops):
                exact[k] = _option(o.entry, linear, terms)
        return exact
    known = {id(o.entry): o for o in exact}
    every = [known.get(id(e)) or _glance(e, linear, terms) for e in ENGINES]
    _settle(every, linear, terms, math.inf)
    return every


def _settle(options: list[Option], linear: LinearGaussian, terms: Terms, most: float) -> None:
    """Look closely at the cheapest option until it stays the cheapest, or costs more than
    `most`."""
    while True:
        able = [k for k, o in enumerate(options) if not o.refusal]
        best = min(able, key=lambda k: options[k].flops, default=None)
        if best is None or not options[best].least or options[best].flops > most:
            return
        options[best] = _option(options[best].entry, linear, terms)


def _unmoved(entry: Entry) -> bool:
    """Whether an engine's digits do not depend on how wide priors are."""
    return entry.engine.strain is Engine.strain


def _worth(flops: float) -> float:
    """What an engine with more digits may cost next to one of so many flops."""
    return max(LIGHT, DEARER * flops)


def preferred(options: Sequence[Option], engine: str = AUTO, sums: bool = False) -> Option | None:
    """The cheapest exact engine that takes the model, unless it is slow: then the cheapest of all;
    the one of this name where one is asked for; None where none takes it. `sums`: whether sites are
    sums over rows: a weight of theirs has latents in several units in it, and little is left of it
    next to groups with a wide prior, so that an engine whose digits do not depend on units is taken
    where it costs little more."""
    able = sorted(
        (o for o in options if not o.refusal and engine in (AUTO, o.name)), key=lambda o: o.flops
    )
    exact = [o for o in able if o.exact]
    if exact and exact[0].flops <= PATIENCE:
        most = _worth(exact[0].flops)
        firm = [o for o in exact if sums and _unmoved(o.entry) and o.flops <= most]
        return firm[0] if firm else exact[0]
    return able[0] if able else None


def choose(
    linear: LinearGaussian, terms: Terms | None = None, seed: int = 0, sums: bool = False
) -> tuple[Engine | None, str]:
    """The preferred engine and one sentence why (`reason`); None where none takes the model.
    `seed`: of estimates, where it gives any."""
    terms = terms or Terms.of()
    options = considered(linear, terms, sums)
    best = preferred(options, terms.engine, sums)
    if best is None:
        return None, refusal(linear, table(linear, terms), terms).message
    return _built(best, linear, terms, seed), reason(linear, options, terms, sums)


def reason(
    linear: LinearGaussian,
    options: Sequence[Option],
    terms: Terms | None = None,
    sums: bool = False,
) -> str:
    """Why the preferred engine is, in one sentence with the flops that decided; empty where no
    engine takes the model."""
    terms = terms or Terms.of()
    best = preferred(options, terms.engine, sums)
    if best is None:
        return ""
    size = f"{best.name} engine for {linear.rows} predictor rows and {linear.size} latents"
    if terms.engine != AUTO:
        return f"{size}: it was requested"
    cost = f"{best.flops:.2g} flops for one conditioning"
    able = sorted((o for o in options if not o.refusal), key=lambda o: o.flops)
    exact = next((o for o in able if o.exact), None)
    take = "take at least" if exact is not None and exact.least else "take"
    if exact is None:
        why = f"no engine computes variances exactly; it takes {cost}"
    elif not best.exact:
        why = (
            f"it estimates variances, in {cost}; {exact.name}, the cheapest exact engine, would "
            f"{take} {exact.flops:.2g}, above the limit of {PATIENCE:.2g} for exact engines"
        )
    elif best is not exact and best.flops <= PATIENCE:
        return (
            f"{size}: its digits do not depend on the units of latents, {cost}; {exact.name}, "
            f"the cheapest, would {take} {exact.flops:.2g}"
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
    following = next((o for o in able if o is not best and o.exact and not o.least), None)
    if best.exact and following is not None:
        why += f"; {following.name} would cost {following.flops / best.flops:.3g} times as much"
    return f"{size}: {why}"


def _built(best: Option, linear: LinearGaussian, terms: Terms, seed: int) -> Engine:
    engine = best.engine or best.entry.build(linear, seed)
    if terms.variances in engine.estimates:
        engine = engine.estimating(terms.variances, terms.count)
    return engine if terms.engine == AUTO else engine.patient()


class Known(NamedTuple):
    """An engine that was preferred for a model, and the flops of a conditioning."""

    name: str
    flops: float


def required(
    linear: LinearGaussian,
    terms: Terms,
    seed: int = 0,
    known: Known | None = None,
    sums: bool = False,
) -> tuple[Engine, float]:
    """The preferred engine, and the flops of one conditioning; `known`: what was preferred for the
    same model at another theta, which is taken again, at the same cost, where it is exact, takes
    the model and is fast. Raises MethodError E501 where none
    takes the model, or the one that was asked for does not; E505 where they would only with more
    memory or time."""
    if known is not None and known.flops <= PATIENCE:
        entry = next((e for e in ENGINES if e.engine.name == known.name and e.engine.exact), None)
        if entry is not None and not (terms.refuses(entry.engine) or entry.engine.refuses(linear)):
            return _built(Option(entry, "", known.flops, None), linear, terms, seed), known.flops
    best = preferred(considered(linear, terms, sums), terms.engine, sums)
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
    if terms.variances != AUTO:
        fitting = [o for o in options if not terms.refuses(o.entry.engine)]
        return Diagnostic(
            "E501",
            f"no engine takes this model with variances={terms.variances}: "
            + "; ".join(f"{o.name}: {o.refusal}" for o in fitting),
            help="without `variances` the cheapest engine is taken",
        )
    name, size = max(((b.name, b.size) for b in linear.blocks), key=lambda block: block[1])
    return Diagnostic(
        "E505" if any(o.beyond for o in options) else "E501",
        f"no engine takes this model: {'; '.join(f'{o.name}: {o.refusal}' for o in options)}",
        details=(f"the largest latent is `{name}`, {size} entries",),
        help="fewer latents or rows, or a structure with a sparse precision (`rw2`, `ou`, `spde`); "
        f"{VARIABLE} sets the memory budget",
    )


def stronger(engine: Engine, terms: Terms) -> Engine:
    """The cheapest exact engine for the same model whose digits do not depend on how wide priors
    are; the engine itself where it was asked for, where there is none, or none within
    `PATIENCE`."""
    if terms.engine != AUTO:
        return engine
    unmoved = [e for e in ENGINES if e.engine.exact and _unmoved(e)]
    options = [_glance(e, engine.linear, terms) for e in unmoved]
    _settle(options, engine.linear, terms, PATIENCE)
    best = preferred(options)
    if best is None or best.flops > PATIENCE:
        return engine
    return best.engine or best.entry.build(engine.linear, 0)
