"""The reproductions' house rules: what each folder holds, how it is written, when it runs."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reproductions.record import LARGEST, differences, elsewhere, figure, splits_table, table

HERE = Path(__file__).parent
FOLDERS = sorted(p.parent for p in HERE.glob("*/test_*.py"))


def test_each_has_its_page_table_and_picture() -> None:
    index = (HERE / "README.md").read_text(encoding="utf-8")
    assert FOLDERS
    for folder in FOLDERS:
        assert f"({folder.name}/README.md)" in index, folder.name
        assert (folder / "README.md").is_file() and list(folder.glob("*.csv")), folder.name
        pictures = list(folder.glob("*.png"))
        assert pictures and all(p.stat().st_size < LARGEST for p in pictures), folder.name


NUMBER = re.compile(r"[−-]?\d[\d,]*(?:\.\d+)?(?:e[−-]?\d+)?")


def numbers(text: str) -> list[tuple[float, float]]:
    """Those of a text, as it prints them, and half a unit of their last digit."""
    found = []
    for match in NUMBER.findall(text.replace(",", "").replace("−", "-")):
        digits, _, power = match.partition("e")
        unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        found.append((float(match), 0.5 * unit))
    return found


def stale(folder: Path) -> list[str]:
    """Cells of a page's tables with a number that is in no table of the folder, signs, names of
    files and first columns left out. Means with standard errors (±) are of several rows."""
    kept = [abs(x) for file in folder.glob("*.csv")
            for row in csv.reader(io.StringIO(file.read_text(encoding="utf-8")))
            for x, _ in numbers(" ".join(row))]  # fmt: skip
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    heads = {k - 1 for k, line in enumerate(lines) if line.startswith("|--")}
    rows = [line.split("|")[2:-1] for k, line in enumerate(lines)
            if line.startswith("|") and not line.startswith("|--") and k not in heads]  # fmt: skip
    return [
        cell.strip()
        for row in rows
        for cell in row
        if "±" not in cell
        and any(
            all(abs(abs(x) - of) > 1.01 * half + 6e-4 * of for of in kept)
            for x, half in numbers(re.sub(r"`[^`]*`|!\[.*?\]\(.*?\)", "", cell))
        )
    ]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_a_page_prints_is_what_is_kept(folder: Path) -> None:
    assert not stale(folder)


def test_a_page_of_another_run_is_found(tmp_path: Path) -> None:
    table(tmp_path, ["name", "steps", "nats"], [["a", 31, -1234.567]])
    page = tmp_path / "README.md"
    page.write_text("| name (of 7) | 8 |\n|---|---|\n| a 9 | 31, −1,234.6 (30 ± 2) |\n")
    assert not stale(tmp_path)
    page.write_text("| name | 8 |\n|---|---|\n| a | 31, −1,234.6 |\n| a | 29, −1,234.6 |\n")
    assert stale(tmp_path) == ["29, −1,234.6"]


def test_they_run_only_where_the_marker_is_named(root: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(
        [*command, str(HERE), "--ignore", __file__, "-m", "not slow"],
        cwd=root,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    told = re.search(r"no tests collected \((\d+) deselected\)", found.stdout)
    assert told and int(told[1]) >= len(FOLDERS), found.stdout + found.stderr
    assert "::test_" not in found.stdout


def test_a_table_is_the_same_text_each_time(tmp_path: Path) -> None:
    rows = [["a", 1, 1 / 3, None], ["b", 2, 1e-12, True]]
    path = table(tmp_path, ["name", "n", "x", "y"], rows, digits=3)
    assert path.read_text() == "name,n,x,y\na,1,0.333,\nb,2,1e-12,True\n"
    with pytest.raises(ValueError, match="NaN"):
        table(tmp_path, ["x"], [[float("nan")]])
    with pytest.raises(ValueError, match="headings"):
        table(tmp_path, ["x", "y"], [[1.0]])


def test_what_is_made_elsewhere_is_compared_with_what_is_kept(tmp_path: Path) -> None:
    head, made = ["who", "steps", "gap", "CPU seconds"], tmp_path / "made"
    made.mkdir()

    def again(*rows: list[object]) -> list[str]:
        with elsewhere(made):
            other = table(tmp_path, head, rows)
        assert other.parent == made
        return differences(kept, other)

    kept = table(tmp_path, head, [["a", 213, 1e-12, 1.0], ["b", 29, 5.0, 2.0]])
    assert not again(["a", 214, 3e-12, 9.0], ["b", 29, 5.001, 0.1])
    assert again(["a", 213, 1e-12, 1.0], ["b", 31, 5.0, 2.0]) == ["table.csv, b, steps: 29, now 31"]
    assert again(["c", 213, 1e-12, 1.0], ["b", 29, 5.2, 2.0]) == [
        "table.csv, a, who: a, now c",
        "table.csv, b, gap: 5, now 5.2",
    ]
    assert "3 rows" in again(["a", 213, 1e-12, 1.0])[0]


def test_splits_have_means_and_standard_errors(tmp_path: Path) -> None:
    found = [{"s": 1.0, "a": 2.0, "b": 1.0}, {"s": 3.0, "a": 6.0, "b": 2.0}]
    each = splits_table(tmp_path, found, "b", ("a", "b"))
    assert each["a"].tolist() == [2.0, 6.0]
    told = (tmp_path / "splits.csv").read_text().splitlines()
    assert told == [
        "split,s,a,b",
        "0,1,2,1",
        "1,3,6,2",
        "mean,2,4,1.5",
        "standard error,1,2,0.5",
        "less b,,2.5,",
        "standard error of that,,1.5,",
    ]


def test_splits_that_do_without_a_column_are_left_out_of_its_means(tmp_path: Path) -> None:
    found: list[dict[str, float | None]] = [
        {"a": 2.0, "b": 1.0},
        {"a": 6.0, "b": 2.0},
        {"a": None, "b": 9.0},
    ]
    each = splits_table(tmp_path, found, "b", ("a", "b"))
    assert each["b"].tolist() == [1.0, 2.0, 9.0] and each["a"][:2].tolist() == [2.0, 6.0]
    told = (tmp_path / "splits.csv").read_text().splitlines()
    assert told[3:] == [
        "2,,9",
        "mean,4,4",
        "standard error,2,2.517",
        "less b,2.5,",
        "standard error of that,1.5,",
    ]


def test_a_figure_is_the_same_bytes_each_time_and_small(tmp_path: Path) -> None:
    import matplotlib
    import numpy as np

    before = dict(matplotlib.rcParams)
    for name in ("one", "two"):
        with figure(tmp_path, name=name) as picture:
            picture.subplots().plot([0, 1], [1, 0], label="σ")
    one, two = ((tmp_path / f"{n}.png").read_bytes() for n in ("one", "two"))
    assert one == two and one.startswith(b"\x89PNG")
    noise = np.random.default_rng(0).uniform(size=(400, 600))
    with pytest.raises(ValueError, match="lower dpi"), figure(tmp_path, name="large") as picture:
        picture.subplots().imshow(noise, interpolation="nearest")
    assert not (tmp_path / "large.png").exists()
    assert dict(matplotlib.rcParams) == before
