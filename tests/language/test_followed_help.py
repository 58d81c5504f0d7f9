"""Following a help line that proposes text ends its problem, and makes no text that is no model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lgmdsl.errors import Diagnostic, LgmError
from lgmdsl.language.load import loads
from tests.language.followed import followed

PROGRAMS = sorted((Path(__file__).parent / "golden").glob("*.lgm"))
TEXTS = {p.stem: p.read_bytes().decode("utf-8") for p in PROGRAMS}


def problems(text: str) -> tuple[Diagnostic, ...]:
    try:
        loads(text, "m.lgm")
    except LgmError as error:
        return error.diagnostics
    return ()


def leads_on(text: str, found: Diagnostic, new: str) -> bool:
    """Whether the problem is gone, at its place, and whatever comes next is no slip of syntax."""
    before, after = problems(text), problems(new)
    said, left = (Counter((d.code, d.message) for d in many) for many in (before, after))
    same = (found.code, found.message)
    fewer = left[same] < said[same]
    beyond = new.startswith(text[: found.span.start]) and all(
        d.span.start > found.span.start for d in after if (d.code, d.message) == same
    )
    return (fewer or beyond) and not any(
        code == "E109" and not message.startswith("the model has no")
        for code, message in left - said
    )


@pytest.mark.parametrize("name", TEXTS)
def test_help_leads_to_a_valid_text(name: str) -> None:
    text = TEXTS[name]
    for found in problems(text):
        proposed = [*followed(text, found)] if found.span.known else []
        assert not proposed or any(leads_on(text, found, new) for new in proposed), (
            f"{found.message}: {found.help}"
        )


def test_most_messages_propose_text() -> None:
    """Were the proposals not read from the messages any more, nothing would be tested above."""
    found = [(t, d) for t in TEXTS.values() for d in problems(t) if d.span.known]
    assert sum(any(True for _ in followed(t, d)) for t, d in found) > 180
