"""What each message code means, with a wrong example and its correction (`lgm help E203`)."""

from __future__ import annotations

import textwrap

from lgmdsl.errors import Diagnostic, ModelError, meant, nearest
from lgmdsl.language.catalogue.data import DATA_AND_METHODS
from lgmdsl.language.catalogue.entry import CodeEntry
from lgmdsl.language.catalogue.model import MODEL

CATALOGUE: dict[str, CodeEntry] = {entry.code: entry for entry in MODEL + DATA_AND_METHODS}

_KINDS = {
    "E1": "syntax and names",
    "E2": "indices and algebra",
    "E3": "data",
    "E4": "the posterior",
    "E5": "methods",
    "E6": "numerical trouble",
    "E7": "workers",
    "W": "warning",
}


def codes() -> tuple[str, ...]:
    """All codes, errors before warnings."""
    return tuple(sorted(CATALOGUE))


def kind_of(code: str) -> str:
    """The chapter a code belongs to: `indices and algebra` for E203."""
    return _KINDS.get(code[:2]) or _KINDS.get(code[:1], "")


def explain_code(code: str) -> str:
    """The meaning of a code, a wrong example and its correction. Raises ModelError if unknown."""
    entry = CATALOGUE.get(code.strip().strip("[]").upper())
    if entry is None:
        close = nearest(code.upper(), CATALOGUE)
        raise ModelError(
            Diagnostic(
                "E103",
                f"there is no message code `{code}`",
                help=meant(close, then=f"Codes: {' '.join(codes())}", quote=""),
            )
        )
    meaning = textwrap.fill(entry.meaning, 88)
    wrong, corrected = (_indented(text) for text in (entry.wrong, entry.corrected))
    return (
        f"{entry.code} ({kind_of(entry.code)}): {entry.title}\n\n{meaning}\n\n"
        f"Wrong:\n{wrong}\n\nRight:\n{corrected}\n"
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
