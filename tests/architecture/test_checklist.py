"""The checklist of the papers (tests/reproductions/CHECKLIST.md): every path and test that it names
exists, every row has an answer, and no numbered item of a paper is left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

LEAST = {  # numbered items by the heading that they stand under
    "Nickisch and Seeger 2009": ["theorem 1", "theorem 2", "figure 1", "figure 2"],
    "Khan 2014": ["theorem 4.1", "algorithm 1", "figure 1"],
    "Khan 2012, the thesis": [
        *("figures 1.1 to 1.4", "figure 2.1", "figure 3.1", "figure 6.1"),
        *(f"figure 4.{k}" for k in range(1, 16)),
        *(f"figure 5.{k}" for k in range(1, 9)),
        *(f"table {k}" for k in ("1.1", "1.2", "3.1", "4.1", "5.1")),
        *(f"algorithm {k}" for k in range(1, 6)),
        *(f"theorem {k}" for k in ("3.4.1", "4.6.1", "4.6.2", "5.5.1")),
        *(f"A.{k}" for k in range(1, 9)),
    ],
    "Qi and Jaakkola 2007": ["figure 1", "figure 2", "theorem 4.1"],
}


@pytest.fixture(scope="module")
def rows(root: Path) -> dict[str, list[tuple[str, str]]]:
    """(item, where) by paper."""
    page = (root / "tests" / "reproductions" / "CHECKLIST.md").read_text(encoding="utf-8")
    found: dict[str, list[tuple[str, str]]] = {}
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        cells = [
            re.split(r"(?<!\\)\|", line)[1:-1] for line in body.splitlines() if line.startswith("|")
        ]
        assert all(len(c) == 3 for c in cells), name
        found[name] = [
            (c[0].strip(), c[2].strip()) for c in cells if c[0].strip() not in ("item", "---")
        ]
    return found


def named(where: str) -> list[str]:
    return re.findall(r"`([^`]+)`", where)


def missing(path: str, root: Path) -> str | None:
    """What of `FILE`, `FILE::TEST` or `FOLDER` is not there."""
    file, _, test = path.partition("::")
    target = root / "tests" / file
    if not target.exists():
        return f"no {file}"
    if target.is_dir():
        whole = (target / "README.md").is_file() and any(target.glob("test_*.py"))
        return None if whole and not test else f"{file} has no page or no test"
    tree = ast.parse(target.read_text(encoding="utf-8"))
    tests = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    tests = {n for n in tests if n.startswith("test_")}
    if test:
        return None if test in tests else f"no {test} in {file}"
    return None if tests else f"no tests in {file}"


def test_every_path_exists(root: Path, rows: dict[str, list[tuple[str, str]]]) -> None:
    paths = [p for part in rows.values() for _, where in part for p in named(where)]
    assert len(paths) > 100
    assert [m for p in paths if (m := missing(p, root)) is not None] == []


def test_every_row_has_a_test_a_reason_or_is_open(
    rows: dict[str, list[tuple[str, str]]],
) -> None:
    for part in rows.values():
        for item, where in part:
            if where.startswith("Open"):
                assert not named(where), f"{item} is open and names a test"
            elif where.startswith("Not here"):
                assert len(where.partition(":")[2].split()) > 3, f"{item} lacks its reason"
            else:
                assert named(where) and where.startswith("`"), item


def test_no_numbered_item_is_left_out(rows: dict[str, list[tuple[str, str]]]) -> None:
    assert set(rows) == set(LEAST)
    for paper, least in LEAST.items():
        items = [item for item, _ in rows[paper]]
        for name in least:
            pattern = re.compile(re.escape(name) + r"(?![.\d])")
            assert any(pattern.match(item) for item in items), f"{paper}: {name}"


def test_every_reproduction_has_a_row(root: Path, rows: dict[str, list[tuple[str, str]]]) -> None:
    paths = [p for part in rows.values() for _, where in part for p in named(where)]
    for test in (root / "tests" / "reproductions").glob("*/test_*.py"):
        folder = f"reproductions/{test.parent.name}"
        assert any(p == folder or p.startswith(folder + "/") for p in paths), folder


def test_what_is_missing_is_found(root: Path) -> None:
    own = "architecture/test_checklist.py"
    assert missing(own, root) is None
    assert missing(f"{own}::test_every_path_exists", root) is None
    assert missing(f"{own}::test_of_nothing", root) == f"no test_of_nothing in {own}"
    assert missing("architecture/test_nothing.py", root) == "no architecture/test_nothing.py"
    assert missing("architecture", root) == "architecture has no page or no test"
    assert missing("conftest.py", root) == "no tests in conftest.py"
