"""Families of the language that no back end fits: which one a statement names, and why not."""

from __future__ import annotations

from lgmdsl.language.tree import ast
from lgmdsl.vocabulary.lookup import lookup

HELP = "`lgm methods` lists the sites that this version fits"


def variant(family: str, arguments: dict[str, ast.Value]) -> str:
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
