"""Wrong programs and what is said about them: each golden/NAME.lgm has its message in NAME.txt.

`pytest tests/language/test_golden.py --update-golden` writes the messages anew; read the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lgmdsl.errors import LgmError
from lgmdsl.language.load import loads

GOLDEN = Path(__file__).parent / "golden"
PROGRAMS = sorted(GOLDEN.glob("*.lgm"))


def message(program: Path) -> str:
    """What is said about a program, under the name that the specification's samples use."""
    text = program.read_bytes().decode("utf-8")
    with pytest.raises(LgmError) as caught:
        loads(text, program.name)
    return str(caught.value) + "\n"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_message(program: Path, request: pytest.FixtureRequest) -> None:
    said = message(program)
    kept = program.with_suffix(".txt")
    if request.config.getoption("--update-golden", default=False):
        kept.write_text(said, encoding="utf-8")
    assert kept.is_file(), "no message is kept: run with --update-golden and read it"
    assert said == kept.read_text(encoding="utf-8")


def test_each_message_has_its_program() -> None:
    assert {p.stem for p in GOLDEN.glob("*.txt")} == {p.stem for p in PROGRAMS}


def test_there_are_many_programs() -> None:
    assert len(PROGRAMS) >= 60


def test_every_message_points_at_its_place_and_helps() -> None:
    """Each error on a text has a position, and a help or a label that says what was wanted."""
    for program in PROGRAMS:
        with pytest.raises(LgmError) as caught:
            loads(program.read_bytes().decode("utf-8"), program.name)
        for found in caught.value.diagnostics:
            assert found.span.known or found.code.startswith("E4"), program.name
            assert found.help or found.label, program.name
