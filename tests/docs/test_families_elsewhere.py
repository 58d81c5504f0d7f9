"""The table of other packages' families says what this language can write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lgmdsl.vocabulary.lookup import lookup, signatures
from lgmdsl.vocabulary.signature import Signature

PAGE = Path(__file__).parents[2] / "docs" / "coming-from" / "families.md"
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\s)\s\|\s|^\| | \|$", line) if cell and cell.strip()]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
]
HERE = sorted({code for row in ROWS for code in re.findall(r"`([^`]+)`", row[1])})
CALLS = [code for code in HERE if re.fullmatch(r"\w+\(.+\)", code)]


def _form(name: str) -> Signature | None:
    return lookup("family", name) or lookup("potential", name)


def test_the_page_has_tables_of_three_packages() -> None:
    assert len(ROWS) >= 70 and len(CALLS) >= 20


ARGUMENTS = {
    p.name
    for family in signatures("family")
    for form in (family, family.other)
    if form is not None
    for p in form.accepted
}


@pytest.mark.parametrize("call", CALLS)
def test_a_family_and_its_arguments_exist(call: str) -> None:
    name, arguments = call.rstrip(")").split("(", 1)
    signature = _form(name)
    assert signature is not None
    known = {p.name for form in (signature, signature.other) if form for p in form.accepted}
    assert {*re.findall(r"(\w+) =", arguments)} <= known


def test_bare_names_are_families_or_arguments() -> None:
    words = {code for code in HERE if re.fullmatch(r"\w+", code)}
    others = {"rw1", "rw2", "sratio", "bgev"}
    assert {w for w in words if _form(w) is None} <= ARGUMENTS | others
