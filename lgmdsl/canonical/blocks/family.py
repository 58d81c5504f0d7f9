"""The family that a statement names, and the values of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.lowering.lower import Lowering
from lgmdsl.contract.censoring import CENSORING
from lgmdsl.contract.site import Site
from lgmdsl.errors import Diagnostic, MethodError, Span
from lgmdsl.language.tree import ast
from lgmdsl.sites.combined.choose import BY_ARGUMENT, modified, seen_as
from lgmdsl.vocabulary.lookup import lookup, shipped
from lgmdsl.vocabulary.signature import Category

SEEN = (*CENSORING, "entry")  # how a row was observed
FindSite = Callable[[str], "type[Site] | None"]


def family_of(
    family: ast.Dist, find: FindSite, potential: bool = False
) -> tuple[type[Site], dict[str, ast.Value]]:
    """The site of a distribution: its name is family.argument for the latent argument given."""
    arguments = {a.name: a.value for a in family.arguments}
    variant = variant_of(family.name.id, arguments)
    names = [family.name.id] if potential else [f"{family.name.id}.{a}{variant}" for a in arguments]
    modifiers = _modifiers(arguments)
    seen = arguments.keys() & {*SEEN}
    if seen:
        names = [f"{name}{kind}" for kind in ("", ".censored") for name in names]
    sites = [site for name in names if (site := find(name)) is not None]
    if seen:
        sites = seen_as(sites, seen) or sites
    # `normal(mean = 0, log_var = h)` names two sites; the right one takes all the arguments.
    taken = arguments.keys() - {"weight"}
    sites = [modified(site, modifiers) for site in sites]
    for site in sites:
        if taken <= {site.spec.argument, *site.spec.parameters}:
            return site, arguments
    if sites:
        return sites[0], arguments
    signature = lookup("family", family.name.id)
    linking = {p.name for p in signature.parameters if p.linking} if signature else set()
    shown = [name for name in names if linking.intersection(name.split(".")[1:2])] or names
    wording = family.name.id if potential else " or ".join(shown)
    raise MethodError.of(
        "E501",
        f"no back end takes `{wording}` yet",
        family.span,
        "it is parsed and checked, but this version cannot fit it",
        help=HELP,
    )


def _modifiers(arguments: dict[str, ast.Value]) -> set[str]:
    """Names of the arguments that change a family into another; `truncated`, which is no number, is
    taken out of `arguments`."""
    if isinstance(truncated := arguments.get("truncated"), ast.Bool):
        del arguments["truncated"]
        return {"truncated"} if truncated.value else set()
    return {name for name in BY_ARGUMENT if name in arguments}


def parameters_of(
    site: type[Site],
    arguments: Mapping[str, ast.Value],
    lowering: Lowering,
    span: Span,
    known: Mapping[str, Coefficient] = MappingProxyType({}),
) -> dict[str, Coefficient]:
    """The arguments given, and defaults for the others; `known` are those lowered already.

    Raises MethodError E501 for an argument of the family that this variant has no parameter for,
    E104 for one that it cannot do without.
    """
    extra = [a for name, a in arguments.items() if name not in site.spec.parameters]
    if extra:
        name = next(n for n in arguments if n not in site.spec.parameters)
        if name in SEEN and not shipped_family(site):
            raise MethodError(_without_tails(site, name, extra[0].span))
        raise MethodError.of(
            "E501",
            f"`{site.spec.name}` does not take the argument `{name}`",
            extra[0].span,
            f"other forms of `{site.spec.family}` do",
            help=_instead(site, name),
        )
    out: dict[str, Coefficient] = {}
    for name, default in site.spec.parameters.items():
        if name in known:
            out[name] = known[name]
        elif name in arguments:
            out[name] = lowering.coefficient(arguments[name])
        else:
            if default is None:
                raise MethodError(_wanting(site, name, span))
            out[name] = co.number(default)
    return out


def shipped_family(site: type[Site]) -> bool:
    """Whether the language has the family, and no plug-in."""
    return any(s.name == site.spec.family for s in shipped("family"))


def _instead(site: type[Site], name: str) -> str:
    """What to write in place of an argument that the site does not take."""
    category: Category = "potential" if site.spec.potential else "family"
    signature = lookup(category, site.spec.family)
    parameter = None if signature is None else signature.parameter(name)
    given = "" if parameter is None else parameter.instead
    return given or f"leave `{name}` out, or take a family that has it: `lgm help {name}`"


def _without_tails(site: type[Site], name: str, span: Span) -> Diagnostic:
    """E501: a third party's family whose class gives no tails, though it may have a `cdf`."""
    family = site.spec.family
    return Diagnostic(
        "E501",
        f"`{name}` needs the tails of `{family}`, which its class `{site.__name__}` does not give",
        span,
        "the logs of P(Y > y) and of P(Y <= y), with derivatives in the predictor",
        help=f"leave `{name}` out; its author makes `{site.__name__}` a subclass of "
        "`lgmdsl.extend.Tails` with the method `tail`: a `cdf` is not enough",
    )


def _wanting(site: type[Site], name: str, span: Span) -> Diagnostic:
    """What a variant of a family asks for and others do not: the scores of a stereotype model."""
    help = wanted(site.spec.name, name)
    return Diagnostic("E104", f"`{site.spec.name}` needs `{name}`", span, help=help)


# ---- unfitted ----------------------------------------------------------------------------------
# Families of the language that no back end fits: which one a statement names, and why not.


HELP = "`lgm methods` lists the sites that this version fits"


def variant_of(family: str, arguments: dict[str, ast.Value]) -> str:
    """`.NAME` of the variant that a text argument asks for, "" where it is the usual one; the
    argument is taken out of `arguments`."""
    signature = lookup("family", family)
    texts = [p for p in signature.parameters if p.type == "string"] if signature else []
    for parameter in texts:
        value = arguments.pop(parameter.name, None)
        if isinstance(value, ast.String) and value.value != parameter.default:
            return f".{value.value}"
    return ""


def wanted(site: str, parameter: str) -> str:
    """How to give an argument that one variant alone takes."""
    if site.endswith(".stereotype") and parameter == "scores":
        return (
            "scores = t with hyper t[class] : ordered ~ normal(sd = 3); with equal spaces between "
            'the scores it is model = "adjacent"'
        )
    return f"give {parameter} = ..."
