"""A plan: one method for one model. Which back end, which routes, what an engine is chosen by."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from lgmdsl.arrays import IntArray
from lgmdsl.bounds.catalogue import applicable, named, unknown
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.engine import Confinement, Engine
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Expected, Pointwise, Tilted
from lgmdsl.contract.site import Property, Site
from lgmdsl.engines.choose import AUTO as ANY_ENGINE
from lgmdsl.engines.choose import COUNTS, LANCZOS, VARIANCES, Known, Terms, required, stronger
from lgmdsl.engines.shared.kept import shape_of
from lgmdsl.engines.shared.some_rows import SomeRows
from lgmdsl.errors import Diagnostic, MethodError, Span, listed, suggestion
from lgmdsl.inference.options import NO_OTHERS, OtherOptions, configured
from lgmdsl.inference.registry import BackendClass, backends
from lgmdsl.inference.routes import Refusal, Route, lifted, route

# Questions whose answers make weights that are negative where a site is not log-concave.
SIGNED = (Pointwise, Expected, Tilted)
ENGINE, VARIANCES_OPTION = "engine", "variances"  # options that every method has
# Those that are numbers: with which variances, the least that they may be, and a usual value. With
# four samples or fewer a standard error has no finite mean square.
COUNTED = {name: variances for variances, name in COUNTS.items()}
LEAST, USUAL = {"samples": 5, "vectors": 1}, {"samples": 50, "vectors": 400}
STEPS = 12.0  # conditionings of a fit whose sites are not Gaussian, about
# `auto` tries these in order and takes the first that can run the model.
AUTO = ("natural-gradient", "ep", "laplace")


@dataclass(frozen=True)
class Plan:
    """A back end with its options, a route for each site block, and what engines are chosen by."""

    canonical: CanonicalModel
    backend: Backend[Any]
    routes: tuple[Route, ...]
    terms: Terms = field(default_factory=Terms.of)

    @property
    def method(self) -> str:
        return self.backend.spec.name

    @np.errstate(all="ignore")  # what is not finite is refused, or found by the driver
    def at(self, theta: Theta, engine: Engine | None = None, seed: int = 0) -> Problem:
        """The problem at theta; `engine`: one that another plan for this model and theta built;
        `seed`: of an engine that estimates.
        Raises MethodError E501 where no engine, or not the one asked for, can take it."""
        flops = 0.0
        if engine is not None:
            engine = engine.unconfined
        else:
            linear = self.canonical.linear(theta)
            shape = shape_of(linear)
            known, sums = self._taken.get(shape), not self.canonical.rows.kept
            engine, flops = required(linear, self.terms, seed, known, sums)
            self._taken.setdefault(shape, Known(engine.name, flops))  # in any order of searches
        sites = self.canonical.sites(theta)
        if not engine.exact:
            self._check_positive(engine)
        gaussian = all(Property.GAUSSIAN in s.spec.properties for s in sites)
        engine = engine.expect(1.0 if gaussian else STEPS, self.terms.fits)
        return replace(self._of(sites, kept(self.backend, engine, seed)), flops=flops)

    def some_rows(self, problem: Problem, rows: Sequence[IntArray]) -> Problem:
        """The problem of some rows of each site block, by position, on the exact engine of all: the
        others have no site. Blocks of which no row stays are none of it."""
        engine = SomeRows(problem.engine, rows)
        filled = engine.kept.filled
        routes = tuple(self.routes[k] for k in filled)
        return replace(self, routes=routes)._of(
            tuple(problem.sites[k].take(rows[k]) for k in filled), engine
        )

    @cached_property
    def _taken(self) -> dict[tuple[object, ...], Known]:
        """The engine that was chosen and its cost, by the model's sizes: sizes and patterns decide,
        not values, and to compare costs takes as long as a small fit."""
        return {}

    def _of(self, sites: tuple[Site, ...], engine: Engine) -> Problem:
        answers = tuple(r.answer(s) for r, s in zip(self.routes, sites, strict=True))

        def lift(question: type) -> tuple[object, ...]:
            return tuple(lifted(s, question) for s in sites)

        def firmer(engine: Engine) -> Engine:
            found = stronger(engine.unconfined, self.terms)
            return engine if found is engine.unconfined else kept(self.backend, found)

        return Problem(sites, answers, engine, lift, self._of, firmer)

    def _check_positive(self, engine: Engine) -> None:
        """E501 where a site's weight may be negative: who estimates draws noise of variance W."""
        if self.backend.spec.needs not in SIGNED or not self.backend.spec.evidence:
            return
        for block in self.canonical.blocks:
            if Property.LOG_CONCAVE not in block.site.spec.properties:
                name = block.family.spec.name
                raise MethodError.of(
                    "E501",
                    f"method `{self.method}` cannot run this model at its size",
                    block.span,
                    f"{name} is not log-concave: its weights may be negative, and the "
                    f"{engine.name} engine takes none",
                    help="methods whose weights are positive: double-loop, map",
                )


@dataclass(frozen=True)
class Verdict:
    """Whether a method can run a model: its routes, or the reasons why not."""

    method: str
    routes: tuple[Route, ...]
    refusals: tuple[tuple[SiteBlock, Refusal], ...]

    @property
    def runs(self) -> bool:
        return not self.refusals


def verdict(blocks: tuple[SiteBlock, ...], backend: BackendClass, bound: str | None) -> Verdict:
    """Route every site block of a model to one back end.

    A named bound serves the sites that it applies to, and the others keep their own routes; where
    it applies to none, all are refused.
    """
    answers = [(b, route(b.site, backend, bound)) for b in blocks]
    if bound is not None and any(isinstance(r, Route) for _, r in answers):
        answers = [(b, r if isinstance(r, Route) else route(b.site, backend)) for b, r in answers]
    return Verdict(
        backend.spec.name,
        tuple(r for _, r in answers if isinstance(r, Route)),
        tuple((b, r) for b, r in answers if isinstance(r, Refusal)),
    )


def plan(
    canonical: CanonicalModel,
    method: str = "auto",
    bound: str | None = None,
    options: Mapping[str, object] | None = None,
    others: OtherOptions = NO_OTHERS,
) -> Plan:
    """Choose the back end and its routes.

    `options` are fields of the back end, and `engine`: the name of the one to take; `others` are
    those that the caller has taken out.
    Raises MethodError: E103 for an unknown method, bound or engine, E501, E502 or E504 where it
    cannot run the model (with the methods that can), E104 for an option that the back end does
    not have.
    """
    known = backends()
    if bound is not None and not named(bound):
        raise MethodError(unknown(bound))
    if method == "auto":
        order = [*(m for m in AUTO if m in known), *(m for m in known if m not in AUTO)]
        runs = (m for m in order if verdict(canonical.blocks, known[m], bound).runs)
        method = next(runs, order[0])
    if method not in known:
        raise MethodError(_unknown(method, known, others.remedy(method)))
    judged = verdict(canonical.blocks, known[method], bound)
    if not judged.runs:
        able = able_to_run(canonical.blocks, bound)
        needs = known[method].spec.needs
        raise MethodError(tuple(_refused(method, b, r, able, needs) for b, r in judged.refusals))
    chosen = dict(options or {})
    terms = _terms(known[method], chosen)
    return Plan(canonical, configured(known[method], chosen, others), judged.routes, terms)


def plan_again(canonical: CanonicalModel, method: str, provenance: Mapping[str, str]) -> Plan:
    """The plan of a fit, by its provenance."""
    settings = json.loads(provenance.get("settings", "{}"))
    options = json.loads(provenance.get("options", "{}"))
    return plan(canonical, method, settings.get("bound"), options)


def _terms(backend: BackendClass, options: dict[str, object]) -> Terms:
    """What the engine is chosen by, taken out of the options. Raises MethodError E103 for an
    unknown engine, E104 for variances that there are not or that the method cannot be driven by."""
    engine = str(options.pop(ENGINE, ANY_ENGINE))
    counts = {name: options.pop(name) for name in COUNTED if name in options}
    variances = str(options.pop(VARIANCES_OPTION, next((COUNTED[n] for n in counts), ANY_ENGINE)))
    if variances not in VARIANCES:
        remedy = suggestion(variances, VARIANCES, f"there are: {', '.join(VARIANCES)}")
        raise _wrong_option(f"option `variances` cannot be `{variances}`", remedy)
    number = 0
    for name, given in counts.items():
        if COUNTED[name] != variances:
            raise _wrong_option(
                f"option `{name}` has no use with variances={variances}",
                f"it is how many there are with variances={COUNTED[name]}",
            )
        number = _count(name, given)
    if variances == LANCZOS and not backend.spec.any_variances:
        able = [n for n, b in backends().items() if b.spec.any_variances]
        raise _wrong_option(
            f"method `{backend.spec.name}` cannot be driven by variances=lanczos",
            "Lanczos vectors give less than the variances, and its result would be off by as much; "
            f"methods that can: {listed(able)}",
        )
    return Terms.of(engine, variances, number)


def _count(name: str, given: object) -> int:
    """A number of samples or vectors. Raises MethodError E104."""
    try:
        number = int(str(given))
    except ValueError:
        number = 0
    if number < LEAST[name] or isinstance(given, bool):
        raise _wrong_option(
            f"option `{name}` is a whole number, at least {LEAST[name]}, not `{given}`",
            f"as in {name}={USUAL[name]}",
        )
    return number


def _wrong_option(message: str, help: str) -> MethodError:
    return MethodError.of("E104", message, help=help)


def able_to_run(blocks: tuple[SiteBlock, ...], bound: str | None = None) -> list[str]:
    """The methods that can run these sites, by the bound where one is named."""
    return [name for name, b in backends().items() if verdict(blocks, b, bound).runs]


def _unknown(method: str, known: Mapping[str, BackendClass], option: str) -> Diagnostic:
    """E103; `option`: what the name stands for among the options of fits."""
    aliases = ((name, b.spec.notes.alias(method)) for name, b in known.items())
    elsewhere = [a.means(name) for name, a in aliases if a is not None]
    listing = f"methods: auto, {', '.join(known)}"
    said = "; ".join([*elsewhere, *([option] if option else [])])
    return Diagnostic(
        "E103",
        f"unknown method `{method}`",
        help=f"{said}; {listing}" if said else suggestion(method, known, then=listing),
    )


def _opener(block: SiteBlock) -> str:
    return "potential" if block.family.spec.potential else "observe"


def _refused(
    method: str, block: SiteBlock, refusal: Refusal, able: list[str], needs: type
) -> Diagnostic:
    can = f"methods that can: {listed(able)}" if able else "no method of this version can"
    lifts = applicable(block.site, needs)
    if refusal.code == "E504" and not able:
        apply = f"bounds that apply to {block.family.spec.name}: {listed(lifts)}"
        can = apply if lifts else f"{block.family.spec.name} takes no bound: leave it out"
    return Diagnostic(
        refusal.code,
        f"method `{method}` cannot run this model",
        Span(block.span.source, block.span.start, block.span.start + len(_opener(block))),
        refusal.reason,
        help=f"{can}.  `lgm explain` shows the table",
    )


# ---- confinements of q ---------------------------------------------------------------------------


def kept(backend: Backend[Any], engine: Engine, seed: int = 0) -> Engine:
    """The engine of a model under the back end's confinement; itself where there is none. Raises
    MethodError E501 where the engine's answers are estimates."""
    confinement = backend.confinement(engine.linear)
    if confinement is None:
        return engine
    if not engine.exact:
        message = f"method `{backend.spec.name}` cannot run this model at its size"
        details = (f"the {engine.name} engine estimates, and {confinement.note}",)
        help = "fit fewer rows or latents; or a method that keeps all Gaussians: natural-gradient"
        raise MethodError.of("E501", message, details=details, help=help)
    return within(confinement, engine, seed)


def within(confinement: Confinement, engine: Engine, seed: int = 0) -> Engine:
    """An exact engine under a confinement; engines of parts are the cheapest that there are."""

    def make(linear: LinearGaussian) -> Engine:
        return required(linear, Terms.of(), seed)[0]

    return confinement.engine(engine, make)


def kept_as(provenance: Mapping[str, str], engine: Engine, seed: int = 0) -> Engine:
    """The engine of a stored fit, under the confinement of its method and options."""
    backend = backends().get(provenance.get("method", ""))
    if backend is None or not backend.spec.confined:
        return engine
    options: Mapping[str, object] = json.loads(provenance["options"])
    return kept(configured(backend, options), engine, seed)
