"""The catalogue: every code is explained, and its examples do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lgmdsl.errors import ModelError
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.language.catalogue.codes import CATALOGUE, codes, explain_code, kind_of
from lgmdsl.language.catalogue.model import CONTEXT, MODEL, CodeEntry
from lgmdsl.language.load import loads


@pytest.mark.parametrize("entry", MODEL, ids=lambda e: e.code)
def test_examples_of_the_model_codes(entry: CodeEntry) -> None:
    if entry.code.startswith("W"):
        assert warnings(entry.corrected, entry.code) < warnings(entry.wrong, entry.code)
        return
    with pytest.raises(ModelError) as caught:
        loads(CONTEXT + entry.wrong)
    assert set(caught.value.codes) == {entry.code}
    loads(CONTEXT + entry.corrected)


def warnings(body: str, code: str) -> int:
    """How often the context with these statements is warned about with this code."""
    return [d.code for d in warnings_of(model_graph(loads(CONTEXT + body).checked))].count(code)


def test_every_code_used_is_explained(root: Path) -> None:
    """Every code in the source, and every one that the language's manual names."""
    used: set[str] = set()
    for folder in ("lgmdsl", "backends"):
        for file in (root / folder).rglob("*.py"):
            used |= set(re.findall(r'"([EW][1-6]\d\d)"', file.read_text(encoding="utf-8")))
    assert used - set(CATALOGUE) == set()


def test_every_code_of_the_manual_is_explained(shared: Path) -> None:
    text = (shared / "LANGUAGE.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\b[EW][1-6]\d\d\b", text)) - set(CATALOGUE) == set()


@pytest.mark.parametrize("code", codes())
def test_explanations(code: str) -> None:
    text = explain_code(code)
    assert text.startswith(f"{code} ({kind_of(code)}): ")
    assert kind_of(code)
    assert max(map(len, text.splitlines())) <= 100
    assert explain_code(f"[{code.lower()}]") == text


def test_unknown_code() -> None:
    with pytest.raises(ModelError, match="E203") as caught:
        explain_code("E230")
    assert caught.value.codes == ("E103",)
