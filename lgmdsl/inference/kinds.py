"""The kinds of parts that a third party can add, and what each has to declare.

Sites, bounds, structures, kernels, priors and engines keep catalogues of their own; the back ends'
stands here, since nothing below may know it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, get_args

from lgmdsl.bounds import catalogue as bounds
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.site import Site
from lgmdsl.contract.structure import Structure
from lgmdsl.engines.choose import AUTO, register_engine, unregister_engine
from lgmdsl.errors import MethodError, listed
from lgmdsl.language.parse.grammar import is_name
from lgmdsl.priors import catalogue as priors
from lgmdsl.priors.prior import Prior
from lgmdsl.sites import catalogue as sites
from lgmdsl.structures import catalogue as structures
from lgmdsl.structures.kernels import Kernel
from lgmdsl.vocabulary.lookup import DATA_TYPES, HYPER_TYPES, lookup
from lgmdsl.vocabulary.signature import ArgumentType, Category, Over, Signature
from lgmdsl_backends.catalogue import BACKENDS

BackendClass = type[Backend[Any]]


@dataclass(frozen=True)
class Kind:
    """One kind of part: its base class, how its catalogue takes and forgets one, and how the
    language's categories call it (none where it is no word of models)."""

    name: str
    words: str  # what messages call it
    base: type
    add: Callable[[Any], object]
    remove: Callable[[Any], object]
    categories: tuple[Category, ...] = ()
    instance: bool = False  # bounds are objects, everything else is a class


def _add_backend(part: BackendClass) -> None:
    if BACKENDS.setdefault(part.spec.name, part) is not part:
        raise MethodError.of(
            "E106",
            f"a back end called `{part.spec.name}` exists already",
            help="give the new one another name",
        )


KINDS = (
    Kind(
        "site",
        "site",
        Site,
        sites.register_site,
        lambda p: sites.unregister_site(p.spec.name),
        ("family", "potential"),
    ),
    Kind("bound", "bound", Bound, bounds.register_bound, bounds.unregister_bound, instance=True),
    Kind(
        "structure",
        "structure",
        Structure,
        lambda p: structures.register_structure(p.name, structures.Declared.of(p)),
        lambda p: structures.STRUCTURES.pop(p.name, None),
        ("structure",),
    ),
    Kind(
        "prior",
        "hyperprior",
        Prior,
        priors.register_prior,
        lambda p: priors.PRIORS.pop(p.name, None),
        ("prior",),
    ),
    Kind(
        "kernel",
        "kernel",
        Kernel,
        lambda p: structures.register_kernel(p.name, structures.Declared.of(p)),
        lambda p: structures.KERNELS.pop(p.name, None),
        ("kernel",),
    ),
    Kind("engine", "engine", Engine, register_engine, unregister_engine),
    Kind("backend", "back end", Backend, _add_backend, lambda p: BACKENDS.pop(p.spec.name, None)),
)


def kind_of(part: object) -> Kind:
    """The kind of a part. Raises TypeError for anything that is none."""
    for kind in KINDS:
        if kind.instance and isinstance(part, kind.base):
            return kind
        if isinstance(part, type) and issubclass(part, kind.base):
            if kind.instance:
                raise TypeError(f"a {kind.words} is registered as an object: {part.__name__}()")
            return kind
    classes = listed([k.base.__name__ for k in KINDS if not k.instance], "or")
    raise TypeError(f"a part is a subclass of {classes}, or a Bound, not {part!r}")


def name_of(part: Any) -> str:
    """What a part is called in its catalogue."""
    return str(part.spec.name if hasattr(part, "spec") else part.name)


def signature_of(part: Any) -> Signature | None:
    """The declaration of a part that is a word of the language."""
    declared = part.spec.signature if isinstance(part, type) and issubclass(part, Site) else None
    return declared or getattr(part, "signature", None)


def check_declared(part: Any, kind: Kind) -> None:
    """Raise TypeError where a part does not declare what its kind has to, in one sentence."""
    for fault in _faults(part, kind):
        raise TypeError(f"{kind.words} {_shown(part)}: {fault}")


def _shown(part: Any) -> str:
    return part.__name__ if isinstance(part, type) else type(part).__name__


def _faults(part: Any, kind: Kind) -> Iterator[str]:
    if inspect.isabstract(part):
        missing = listed([f"`{m}`" for m in sorted(part.__abstractmethods__)])
        yield f"the class does not define {missing}"
    spec = getattr(part, "spec", None) if kind.base in (Site, Bound, Backend) else part
    name = getattr(spec, "name", None)
    if not isinstance(name, str) or not name:
        yield "it has no name (`name`, or that of its `spec`)"
    if name == AUTO and kind.base in (Engine, Backend):
        yield f"`{AUTO}` is reserved for the automatic choice, and cannot be a name"
    undeclared = inspect.getattr_static(Engine, "cost")
    if kind.base is Engine and inspect.getattr_static(part, "cost") is undeclared:
        yield "it declares no `cost`, by which engines are compared"
    if kind.categories:
        yield from _signature_faults(part, kind)


def _signature_faults(part: Any, kind: Kind) -> Iterator[str]:
    signature: object = signature_of(part)
    name = part.spec.family if issubclass(part, Site) else part.name
    if signature is None:
        # A variant of a family that the language has, as `normal.mean.censored`.
        if kind.base is Site and any(lookup(c, name) for c in kind.categories):
            return
        where = "SiteSpec(signature=...)" if kind.base is Site else "a class variable `signature`"
        yield f"it has no signature, by which the language knows its arguments; give {where}"
        return
    if not isinstance(signature, Signature):
        yield f"its signature is {signature!r}, wanted a `Signature`"
        return
    category = kind.categories[0]
    if kind.base is Site and part.spec.potential:
        category = "potential"
    if signature.category != category:
        yield f'its signature is of category "{signature.category}", wanted "{category}"'
    if signature.name != name:
        yield f"its signature is of `{signature.name}`, and the part is called `{name}`"
    for word in (signature.name, *(p.name for p in signature.parameters)):
        if not is_name(word):
            yield f"`{word}` cannot be written in a model: letters, digits and `_`, no opener"
    for p in signature.parameters:
        if p.type not in get_args(ArgumentType) or p.over not in get_args(Over):
            yield f"its argument `{p.name}` has type {p.type!r} over {p.over!r}: one is unknown"
    types = {"family": (*DATA_TYPES, "index"), "prior": HYPER_TYPES}.get(category)
    if types and (not signature.observed or not set(signature.observed) <= set(types)):
        yield f"`observed` of its signature is {signature.observed}, wanted some of {types}"
    yield from _taken(part, kind, signature)


def _site_faults(part: type[Site]) -> Iterator[str]:
    """Where a site's parameters are not what its signature declares."""
    try:
        form = part.spec.form
    except ValueError:
        yield f"its signature has no argument `{part.spec.argument}` of type latent"
        return
    assert form is not None
    left_out = {p.name: p.left_out for p in form.parameters}
    if lacking := [name for name in part.spec.parameters if name not in left_out]:
        yield f"its signature lacks {listed(sorted(lacking))}"
        return
    for name, value in part.spec.parameters.items():
        if value != left_out[name] and not (value is not None and math.isnan(value)):
            yield (
                f"left out, its parameter `{name}` is {value} in the spec and {left_out[name]} in "
                "the signature; name it in `takes` alone"
            )


def _taken(part: Any, kind: Kind, signature: Signature) -> Iterator[str]:
    """Whether the class takes the arguments that its signature declares."""
    declared = {p.name for p in signature.parameters}
    if kind.base is Site:
        yield from _site_faults(part)
        return
    if kind.base is Prior:
        arguments = {f.name for f in fields(part)} - {"type"}
        if arguments != declared:
            yield (
                f"its fields are {sorted(arguments)}, "
                f"and its signature's arguments {sorted(declared)}"
            )
        return
    places = (1,) if kind.base is Structure else ()
    try:
        inspect.signature(part).bind(*places, **dict.fromkeys(declared))
    except TypeError as error:
        call = "cls(size, **arguments)" if places else "cls(**arguments)"
        yield f"it is not called as {call} with the arguments of its signature: {error}"
