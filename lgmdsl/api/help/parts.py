"""Pages of what models do not name: statements, types, methods, bounds, engines, outcomes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import replace

from lgmdsl.api.fit.hyper_ways import HYPER_WAYS
from lgmdsl.api.fit.options import FIT_OPTIONS, WRITTEN, FitOption, alias_of, given_as
from lgmdsl.bounds.catalogue import bounds as all_bounds
from lgmdsl.bounds.catalogue import named
from lgmdsl.bounds.catalogue import series as all_series
from lgmdsl.contract.backend import CHOICES, MEANING
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.engines.choose import ENGINES
from lgmdsl.inference.registry import BackendClass, backends
from lgmdsl.inference.routes import Refusal, compiled, route
from lgmdsl.language.tree.reserved import RESERVED_WORDS
from lgmdsl.language.tree.statements import STATEMENTS
from lgmdsl.remedies import in_python, on_command_line
from lgmdsl.sites import catalogue as sites
from lgmdsl.vocabulary import plugins
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.page import Argument, Page
from lgmdsl.vocabulary.types import TYPES

TYPE_NAMES = {bool: "bool", int: "integer", float: "real", str: "string"}


# ---- the language ----------------------------------------------------------------------------


def statements() -> Iterator[Page]:
    """The statements and the other reserved words."""
    for s in STATEMENTS:
        grammar = f"{s.syntax}\n{s.example}"
        yield Page.noted("statement", s.word, _sentence(s.summary), s.notes, call=grammar)
    for w in RESERVED_WORDS:
        yield Page.noted("reserved word", w.name, w.summary, w.notes)


def types() -> Iterator[Page]:
    """The types of data and hyperparameters."""
    for t in TYPES:
        yield Page.noted("type", t.name, t.summary, t.notes)


def _sentence(summary: str) -> str:
    """A summary as those of the other pages begin and end."""
    return summary[:1].lower() + summary[1:].removesuffix(".")


# ---- methods ---------------------------------------------------------------------------------


def options_of(backend: BackendClass) -> tuple[Argument, ...]:
    """The options of a back end: its fields."""
    return tuple(
        Argument(
            f.name,
            TYPE_NAMES.get(type(f.default), type(f.default).__name__),
            False,
            f.metadata.get(MEANING, ""),
            str(f.default).lower() if isinstance(f.default, bool) else str(f.default),
            tuple(f.metadata.get(CHOICES, ())),
        )
        for f in dataclasses.fields(backend)  # type: ignore[arg-type]
    )


def methods() -> Iterator[Page]:
    """The methods, with the sites that each takes."""
    for backend in backends().values():
        spec = backend.spec
        yield Page.noted(
            "method",
            spec.name,
            spec.summary,
            spec.notes,
            call=f'--method {spec.name}, method="{spec.name}"',
            arguments=options_of(backend),
            guarantee=f"{spec.guarantee}: {spec.guarantee.value}"
            + ("" if spec.evidence else "; no evidence"),
            methods=_sites_of(backend),
            source=spec.paper,
        )


def _sites_of(backend: BackendClass) -> tuple[tuple[str, str], ...]:
    """The sites that a method takes, by how they answer it."""
    rows: dict[str, list[str]] = {}
    for site in sites.families():
        cell = route(compiled(site), backend)
        if isinstance(cell, Refusal):
            how = "not"
        else:
            how = "" if cell.bound is None else f"through {cell.bound.spec.name}"
        name = f"potential {site.spec.name}" if site.spec.potential else site.spec.name
        rows.setdefault(how, []).append(name)
    return tuple((how, ", ".join(names)) for how, names in sorted(rows.items()))


# ---- bounds ----------------------------------------------------------------------------------


def bounds() -> Iterator[Page]:
    """The bounds and rules by name; of a series the page of all its members."""
    for name in dict.fromkeys(b.spec.name for b in all_bounds()):
        yield _bound(name, named(name))
    for series in all_series():
        fewest, most = series.member(f"{series.stem}-{series.fewest}"), series.example
        assert fewest is not None
        page = _bound(f"{series.stem}-R", (most,))
        reach = f"R from {series.fewest} to {series.most}"
        yield replace(page, summary=f"{page.summary}, or any number R of them", support=(
            f"{page.support}; {reach}" if page.support else reach
        ))  # fmt: skip


def _bound(name: str, forms: tuple[Bound, ...]) -> Page:
    specs = [b.spec for b in forms]
    several = len(specs) > 1
    notes = [s.notes for s in specs]
    asked = [
        b.spec.name for b in backends().values() if any(s.gives is b.spec.needs for s in specs)
    ]
    return Page(
        "bound",
        name,
        specs[0].summary,
        call=f'--bound {name}, bound="{name}"',
        formulas=tuple(
            (s.summary if several else "", s.notes.formula) for s in specs if s.notes.formula
        ),
        takes=tuple(
            site.spec.name
            for site in sites.families()
            if any(not b.applies_to(site) for b in forms)
        ),
        support="; ".join(dict.fromkeys(n.support for n in notes if n.support)),
        guarantee="; ".join(dict.fromkeys(_promise(b) for b in forms)),
        methods=(("", ", ".join(asked)),),
        advice="; ".join(dict.fromkeys(n.advice for n in notes if n.advice)),
        example="\n".join(dict.fromkeys(n.example for n in notes if n.example)),
        see_also=tuple(dict.fromkeys(w for n in notes for w in n.see_also)),
        source="; ".join(dict.fromkeys(s.paper for s in specs if s.paper)),
        without=() if any(s.paper for s in specs) else ("source",),
    )


def _promise(bound: Bound) -> str:
    spec = bound.spec
    text = f"{spec.guarantee}: {spec.guarantee.value}"
    if not math.isfinite(spec.error):
        return text
    kind = "gap of a trial at most" if spec.guarantee is Guarantee.LOWER else "relative error"
    return f"{text}, {kind} {spec.error:.2g}"


# ---- engines, options, treatments ------------------------------------------------------------


def engines() -> Iterator[Page]:
    """The engines."""
    plugins.load()
    for engine in (entry.engine for entry in ENGINES):
        exact = "" if engine.exact else "; variances and determinants are estimates"
        call = f'--option engine={engine.name}, options={{"engine": "{engine.name}"}}'
        page = Page.noted("engine", engine.name, engine.summary, engine.notes, call=call)
        yield replace(page, advice=page.advice + exact)


def options() -> Iterator[Page]:
    """The options of fits, and those of methods by their names."""
    seen = set[str]()
    of_methods: dict[str, list[tuple[BackendClass, Argument]]] = {}
    for backend in backends().values():
        for argument in options_of(backend):
            of_methods.setdefault(argument.name, []).append((backend, argument))
    for option in FIT_OPTIONS:
        seen.add(option.name)
        yield _fit_option(option)
    for name, rows in of_methods.items():
        backend, argument = rows[0]
        value = argument.default
        owners = [b.spec.name for b, _ in rows]
        yield Page(
            "option",
            name,
            "; ".join(dict.fromkeys(a.meaning for _, a in rows if a.meaning)),
            call=f'--option {name}=VALUE, options={{"{name}": VALUE}}',
            arguments=tuple(replace(a, owner=b.spec.name) for b, a in rows),
            support=f"{'method' if len(rows) == 1 else 'methods'} {', '.join(owners)}",
            advice="the default suits most models",
            example=f"lgm fit {_data_of(backend)} --method {owners[0]} --option {name}={value}",
            see_also=tuple(owners),
        )


def _data_of(backend: BackendClass) -> str:
    """The model and data of an example: a method without an evidence learns no hyperparameters."""
    return "model.lgm data.npz" if backend.spec.evidence else "pinned.lgm data.npz"


def _fit_option(option: FitOption) -> Page:
    name = option.name
    if option.setting:
        given = given_as(option)
        call = f"{on_command_line(given)}, {in_python(given)}"
    else:
        call = f'--option {name}=VALUE, options={{"{name}": VALUE}}'
    argument = Argument(
        name,
        "" if option.values else option.type,
        False,
        option.notes.formula,
        option.values[0] if option.values else option.default,
        option.values,
    )
    page = Page.noted(
        "option", name, option.summary, option.notes, call=call, arguments=(argument,)
    )
    called = tuple(f"{a.name} ({a.of})" for a in option.also_called)
    # The formula is the meaning of the argument.
    return replace(page, formulas=(), also_called=called)


def called(word: str) -> Iterator[tuple[str, str]]:
    """The methods, treatments and options that other software calls so, and the options that a flag
    or argument of another name gives (`--map` is mapping): a sentence on each, and its name."""
    noted = (
        *((b.spec.name, b.spec.notes) for b in backends().values()),
        *((w.name, w.notes) for w in HYPER_WAYS),
    )
    for name, notes in noted:
        if (other := notes.alias(word)) is not None:
            yield other.means(name), name
    for option in FIT_OPTIONS:
        if alias := alias_of(option, word):
            yield alias, option.name
        elif word in WRITTEN.get(option.name, ()) and word != option.name:
            flag, _ = WRITTEN[option.name]
            shown = f"--{word}" if word == flag else f"{word}="
            yield f"{shown} is the option `{option.name}`", option.name


def ways() -> Iterator[Page]:
    """The treatments of hyperparameters."""
    for way in HYPER_WAYS:
        yield Page.noted(
            "treatment of hyperparameters",
            way.name,
            way.summary,
            way.notes,
            call=f'--hyper {way.name}, hyper="{way.name}"',
            source=way.source,
        )


# ---- outcomes --------------------------------------------------------------------------------


def statuses() -> Iterator[Page]:
    """How a fit ended."""
    for status in Status:
        advice = status.value.removeprefix(f"{status.name}: ")
        yield Page.noted("status", status.name, advice, status.notes)


def guarantees() -> Iterator[Page]:
    """What a log evidence promises, and which methods give that."""
    for guarantee in Guarantee:
        giving = [b.spec.name for b in backends().values() if b.spec.guarantee is guarantee]
        notes: Notes = guarantee.notes
        page = Page.noted(
            "guarantee",
            str(guarantee),
            f"what a reported log evidence promises: {guarantee.value}",
            notes,
        )
        yield replace(page, methods=(("", ", ".join(giving)),) if giving else ())
