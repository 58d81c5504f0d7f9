"""The published data that stand in pages of the gallery are those of the sources."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
Names = dict[str, Any]
# A page, the file of its data, and the pairs to compare: what the page has, what the file has.
PAGES: dict[str, tuple[str, Callable[[Names, Names], list[tuple[Any, Any]]]]] = {
    "coal": ("coal_disasters", lambda p, f: [(p["y"], f["count"]), (p["year"], f["year"])]),
    "rats": ("rats", lambda p, f: [(p["y"], f["y"]), (p["days"], f["x"])]),
    "dyes": ("dyes", lambda p, f: [(p["y"], f["y"])]),
    "beetles": (
        "beetles",
        lambda p, f: [
            (p["log_dose"], f["x"]),
            (p["data"]["killed"], f["r"]),
            (p["data"]["n"], f["n"]),
        ],
    ),
}


# Pages whose data come with a package, which they import.
PACKAGED = re.compile(r"^import statsmodels|^from sklearn.datasets", re.MULTILINE)


def test_every_page_with_published_data_is_compared() -> None:
    pages = [p for p in EXAMPLES.glob("*_published_*") if not PACKAGED.search(p.read_text("utf-8"))]
    assert {p.stem.removeprefix("plot_published_") for p in pages} == {*PAGES}


@pytest.mark.parametrize("page", PAGES)
def test_the_numbers_of_a_page_are_those_of_its_source(page: str, shared: Path) -> None:
    file, pairs = PAGES[page]
    script = (EXAMPLES / f"plot_published_{page}.py").read_text(encoding="utf-8")
    known: Names = {}
    exec(re.split(r'^\w+ = (?:lgm\.loads\()?"""\nlgm 1', script, flags=re.MULTILINE)[0], known)
    with np.load(shared / "data" / f"{file}.npz") as source:
        for here, there in pairs(known, dict(source)):
            np.testing.assert_array_equal(here, there)
