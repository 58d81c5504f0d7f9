"""Every code block of the manual runs, and prints what its page says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lgmdsl.inference import registry
from tests.docs.blocks import RUN, blocks, matches, run_page

DOCS = Path(__file__).parents[2] / "docs"
BUILT = ("_build", "generated", "gallery")
PAGES = sorted(
    page for page in DOCS.rglob("*.md") if not set(BUILT) & set(page.relative_to(DOCS).parts)
)

LONG = ("start/tables.md", "choosing/accuracy.md", "language/data.md")  # 14, 4 and 3 CPU seconds


@pytest.fixture
def _no_part_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parts that a page registers are known while it runs, and not to later tests."""
    parts: list[Any] = []
    register = registry.register

    def noted(part: Any) -> None:
        register(part)
        parts.append(part)

    monkeypatch.setattr(registry, "register", noted)
    yield
    for part in parts:
        registry.unregister(part)


def the_long_ones_thorough(page: Path) -> Any:
    name = str(page.relative_to(DOCS))
    return pytest.param(page, id=name, marks=[pytest.mark.thorough] if name in LONG else [])


@pytest.mark.usefixtures("_no_part_stays")
@pytest.mark.parametrize("page", [the_long_ones_thorough(page) for page in PAGES])
def test_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    count = run_page(page, tmp_path)
    assert count == sum(b.kind in RUN for b in blocks(page))
    assert os.getcwd() == str(tmp_path)


def test_every_block_is_of_a_known_kind() -> None:
    """Of a kind that is run, or not code of this project (`r`: for comparison, run by hand)."""
    silent = {"sh", "none", "toml", "bibtex", "r", "{eval-rst}", "{toctree}", "{include}"}
    kinds = {(b.kind, str(p.relative_to(DOCS)), b.line) for p in PAGES for b in blocks(p)}
    assert not {k for k in kinds if k[0] not in {*RUN, *silent}}


def test_there_are_pages() -> None:
    assert PAGES


@pytest.mark.parametrize(
    ("wanted", "printed", "same"),
    [
        ("a\nb\n", "a \nb", True),
        ("a ... c", "a long b\n c", True),
        ("a", "a b", False),
        ("1.5", "1x5", False),
    ],
)
def test_what_matches(wanted: str, printed: str, same: bool) -> None:
    assert matches(wanted, printed) is same


def test_a_wrong_page_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for body in (
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```lgm\nlgm 1\nlatent u ~ normal()\n```\n",
        "```console\n$ ls\n```\n",
    ):
        page.write_text(body)
        with pytest.raises((AssertionError, Exception)):
            run_page(page, tmp_path)
