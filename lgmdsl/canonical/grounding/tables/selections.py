"""A matrix of columns: `X = age, income, contrasts(region)`, each as it is or by contrasts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from lgmdsl.dataset.dataset import Selection
from lgmdsl.dataset.tables import Coding
from lgmdsl.errors import DataError, Diagnostic, suggestion
from lgmdsl.remedies import either

KINDS = ("treatment", "sum")
_CALL = re.compile(r"\s*contrasts\s*\((.*)\)\s*", re.DOTALL)
_OTHER_CALL = re.compile(r"\s*\w+\s*\(.*\)\s*", re.DOTALL)
FORMS = "contrasts(region), contrasts(region, kind=sum), contrasts(region, base=x)"


def selected(name: str, key: Selection, known: Collection[str]) -> tuple[Coding, ...] | None:
    """The columns that a selection names, with levels yet unknown; None where it is one plain key.

    Raises DataError E305 for contrasts that are not written as they should be.
    """
    if isinstance(key, str):
        if key in known or not ("," in key or _CALL.fullmatch(key)):
            return None
        terms: Sequence[str] = list(_split(key))
    else:
        terms = key
    codings = [c for term in terms if term.strip() for c in _codings(name, term, known)]
    labels = [c.column for c in codings]
    twice = sorted({column for column in labels if labels.count(column) > 1})
    if twice or not codings:
        problem = f"names the column `{twice[0]}` twice" if twice else "names no column"
        raise DataError(wrong(name, problem, f"one of each: {example(name)}"))
    return tuple(codings)


def example(name: str, columns: Sequence[str] = ("a", "b")) -> str:
    """How columns are named, on the command line and in Python."""
    quoted = ", ".join(f'"{column}"' for column in columns)
    return either(f'--map "{name}={",".join(columns)}"', f'mapping={{"{name}": [{quoted}]}}')


def _split(text: str) -> Iterator[str]:
    """The parts between commas that stand outside brackets."""
    depth, start = 0, 0
    for k, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            yield text[start:k].strip()
            start = k + 1
    yield text[start:].strip()


def _codings(name: str, term: str, known: Collection[str]) -> Iterator[Coding]:
    call = None if term in known else _CALL.fullmatch(term)
    if call is None:
        if term not in known and _OTHER_CALL.fullmatch(term):
            raise DataError(wrong(name, f"names `{term.strip()}`, which is no column", FORMS))
        yield Coding(term if term in known else term.strip())
        return
    columns: list[str] = []
    options = {"kind": KINDS[0], "base": ""}
    for part in _split(call[1]):
        option, sign, value = part.partition("=")
        if sign and part not in known:
            if option.strip() not in options:
                raise DataError(wrong(name, f"gives contrasts `{option.strip()}`", FORMS))
            options[option.strip()] = value.strip().strip("\"'")
        elif part in KINDS and part not in known and columns:
            help = f"contrasts({columns[0]}, kind={part})"
            raise DataError(wrong(name, f"names `{part}`, which is no column", help))
        elif part:
            columns.append(part)
    if options["kind"] not in KINDS:
        help = suggestion(options["kind"], KINDS, f"one of: {', '.join(KINDS)}")
        raise DataError(wrong(name, f"wants contrasts of the kind `{options['kind']}`", help))
    if not columns:
        raise DataError(wrong(name, "wants contrasts of no column", "contrasts(region)"))
    for column in columns:
        yield Coding(column, options["kind"], options["base"])


def wrong(name: str, problem: str, help: str) -> Diagnostic:
    """E305 for a selection."""
    option = either("--map", "mapping")
    return Diagnostic("E305", f"{option} of `{name}` {problem}", help=help, layout="plain")
