"""The pages of the rooms show the import layers that pyproject.toml enforces, in their order."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOMS = ("engines", "learning", "canonical", "language", "api", "sites", "structures")


def contract(root: Path, name: str) -> dict[str, Any]:
    config = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = config["tool"]["importlinter"]["contracts"]
    return next(c for c in contracts if c["id"] == name)


def layers(root: Path, name: str) -> list[set[str]]:
    """The rows of a contract, from the top: names without their package."""
    rows = contract(root, name)["layers"]
    return [{n.strip(" ()").removeprefix("lgmdsl.") for n in row.split("|")} for row in rows]


def test_the_guide_shows_the_layers(root: Path) -> None:
    page = (root / "lgmdsl" / "README.md").read_text(encoding="utf-8")
    section = page.split("## Import layers")[1].split("\n## ")[0]
    shown = re.findall(r"^    (\S.*)$", section, re.MULTILINE)
    assert [set(row.split(", ")) for row in shown] == layers(root, "layers")


@pytest.mark.parametrize("room", ROOMS)
def test_a_page_shows_its_rooms_in_the_order_of_their_layers(root: Path, room: str) -> None:
    folder, rows = root / "lgmdsl" / room, layers(root, room)
    page = (folder / "README.md").read_text(encoding="utf-8")
    table = page.split("## Rooms, from the top layer down")[1].split("\n## ")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    shown = [re.sub(r"/$|\.py$", "", n) for cell in first for n in re.findall(r"`([^`]+)`", cell)]
    place = {name: k for k, row in enumerate(rows) for name in row}
    order = [place[name] for name in shown]
    assert order == sorted(order)
    folders = {p.parent.name for p in folder.glob("*/__init__.py")}
    assert folders <= set(shown)
    assert set(place) <= set(shown) | set(re.findall(r"\w+", page))


NUMBERED = re.compile(
    r"(?<![\d.,_])0" + r"0[1-5]\b(?=\)|'s\b|, (?:section|figure|table|algorithm))"
)
OUTSIDE = re.compile(r"\b(?:ALGOR" + r"ITHMS|DES" + r"IGN\.md|TAR" + r"GETS\.md|STY" + r"LE\.md)")


def test_papers_are_cited_by_their_authors(root: Path) -> None:
    """Never by a number that only a folder outside the repository explains, nor by its notes."""
    texts = [root / "README.md"]
    for folder in ("lgmdsl", "backends", "tests", "models", "grammars", "docs"):
        texts += [p for end in ("py", "md") for p in sorted((root / folder).rglob(f"*.{end}"))]
    lines = (
        (p, k, line)
        for p in texts
        for k, line in enumerate(p.read_text(encoding="utf-8").splitlines(), 1)
    )
    cited = [f"{p}:{k}: {t}" for p, k, t in lines if NUMBERED.search(t) or OUTSIDE.search(t)]
    assert not cited, "\n".join(cited)
