"""The reference page of `lgmdsl.extend`: made from the code, with every name and every promise."""

from __future__ import annotations

import enum
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from lgmdsl import extend

EXT = Path(__file__).parents[2] / "docs" / "_ext"


@pytest.fixture(scope="module")
def made() -> ModuleType:
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location("extend_page", EXT / "extend_page.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sections(made: ModuleType) -> dict[str, str]:
    """What the page says under each name."""
    page = "\n".join(made.extend())
    parts = re.split(r"^### `(\w+)`\n", page, flags=re.MULTILINE)
    assert len(set(parts[1::2])) == len(parts[1::2])
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_name_stands_there_once_and_says_something(
    made: ModuleType, sections: dict[str, str]
) -> None:
    assert [n for names in made.groups().values() for n in names] == extend.__all__
    assert list(sections) == extend.__all__
    assert all(title[0].islower() and len(title) < 80 for title in made.groups())
    code_and_tables = r"(?ms)^```.*?^```$|^\(extend.*?$|^## .*?$|^\| .*?$|^\|--.*?$"
    empty = [n for n, text in sections.items() if not re.sub(code_and_tables, "", text).strip()]
    assert not empty


def test_every_member_of_an_enumeration_says_what_it_promises(sections: dict[str, str]) -> None:
    kinds = {n: v for n in extend.__all__ if isinstance(v := getattr(extend, n), enum.EnumMeta)}
    assert {"Property", "Shape", "Trait", "Members"} <= set(kinds)
    for name, kind in kinds.items():
        told = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", sections[name], re.MULTILINE))
        assert list(told) == list(kind.__members__)
        assert not [m for m, text in told.items() if text == "none" and m != "NONE"], name
    assert "quadratic in s" in sections["Property"]


def test_markup_of_docstrings_is_escaped(made: ModuleType) -> None:
    text = made.prose_text("A `*` times a*b_c, |x|.\n\n    plain *text*\n\n>>> 1\n1\n")
    assert text.split("\n\n") == [
        "A `*` times a\\*b\\_c, \\|x\\|.",
        "```none\nplain *text*\n```",
        "```python\n>>> 1\n1\n```\n",
    ]
