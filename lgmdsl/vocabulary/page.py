"""A declaration as a page: what `lgm help NAME` shows of a name of the language."""

from __future__ import annotations

from lgmdsl.vocabulary.lookup import CATEGORIES, IN_WORDS, categories, lookup, names
from lgmdsl.vocabulary.signature import Parameter, Signature, literal


def page_of(name: str) -> str:
    """Every declaration of a name, in the order of the manual; "" for an unknown one."""
    known = [s for c in categories(name) if (s := lookup(c, name)) is not None]
    return "\n".join(_of_one(s) for s in known)


def every_name() -> tuple[str, ...]:
    """All names of the language."""
    return tuple(dict.fromkeys(n for c in CATEGORIES for n in names(c)))


def _of_one(signature: Signature) -> str:
    form = signature.show().replace(" or ", "\n    or ")
    lines = [f"{IN_WORDS[signature.category]} `{signature.name}`: {signature.summary}"]
    lines += ["", f"    {form}", ""]
    seen: set[str] = set()
    for each in (signature, signature.other):
        for parameter in each.parameters if each else ():
            row = _argument(parameter)
            if row not in seen:
                seen.add(row)
                lines.append(row)
    facts = (
        ("observes", ", ".join(signature.observed) if signature.category == "family" else ""),
        ("for", ", ".join(signature.observed) if signature.category == "prior" else ""),
        ("support", signature.support),
        ("scale", signature.scale),
        *((f"formula, {link}" if link else "formula", text) for link, text in signature.formulas),
        ("example", signature.example),
        ("see also", ", ".join(signature.see_also)),
        ("source", signature.source),
    )
    properties = [f"{word}: {text}" for word, text in facts if text and text != signature.summary]
    return "\n".join([*lines, *([""] if properties and seen else []), *properties, ""])


def _argument(parameter: Parameter) -> str:
    choices = f" ({' | '.join(literal(c) for c in parameter.choices)})" if parameter.choices else ""
    meaning = f"  {parameter.meaning}" if parameter.meaning else ""
    return f"    {parameter.show()}{choices}{meaning}"
