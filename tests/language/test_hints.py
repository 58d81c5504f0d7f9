"""The table of mistakes: each has an example that it is said of, and every repair can be read."""

from __future__ import annotations

import re

import pytest

from lgmdsl.language.parse.grammar import OPENERS, Stop, read
from lgmdsl.language.parse.hints import MISTAKES, WORDS, Mistake
from lgmdsl.language.parse.parse import as_source, parse_all
from lgmdsl.language.parse.tokens import tokenise
from lgmdsl.language.parse.trouble import Trouble

each = pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.message[:50])


def trouble(text: str) -> Trouble:
    """Where the reading of a statement stops."""
    source = as_source(text)
    tokens, _ = tokenise(source)
    stop = read(OPENERS[tokens[0].type], tokens)
    assert isinstance(stop, Stop)
    return Trouble(source, tuple(tokens), stop.position, stop.accepts)


@each
def test_the_example_is_the_mistake_and_no_other(mistake: Mistake) -> None:
    assert next(m for m in MISTAKES if m.fits(trouble(mistake.example))) is mistake


@each
def test_what_is_said_is_whole(mistake: Mistake) -> None:
    hint = mistake.hint(trouble(mistake.example)).diagnostic
    for text in (hint.message, hint.label, hint.help, hint.note):
        assert "None" not in text and "{}" not in text.replace("`{}`", "")
    assert hint.message and hint.label
    assert 0 <= hint.span.start < hint.span.end <= len(mistake.example)
    said, *_ = parse_all(f"lgm 1\n{mistake.example}\n").diagnostics
    assert (said.code, said.message) == (mistake.code, hint.message)


@each
def test_a_repaired_statement_is_read_further(mistake: Mistake) -> None:
    stopped = trouble(mistake.example)
    repaired = mistake.hint(stopped).repaired
    if mistake.repair is None:
        assert repaired is None
        return
    assert repaired is not None
    again = read(OPENERS[repaired[0].type], repaired)
    assert not isinstance(again, Stop) or again.position >= stopped.position


@each
def test_its_templates_know_their_words(mistake: Mistake) -> None:
    for template in (mistake.message, mistake.label, mistake.help, mistake.note):
        words = re.findall(r"\{(\w+)(?:\.\w+)?\}", template.replace("{{", "").replace("}}", ""))
        assert set(words) <= {"t", *WORDS}


def test_every_word_is_used_and_the_last_mistake_fits_everywhere() -> None:
    templates = " ".join(m.message + m.label + m.help + m.note for m in MISTAKES)
    assert all("{" + word + "}" in templates for word in WORDS)
    assert all(MISTAKES[-1].fits(trouble(m.example)) for m in MISTAKES)
