"""Khan 2012, section 3.6.2, on sonar and USPS: flops until the bound of a Gaussian-process
classification is within 1e-3 nats of its maximum, at the settings of figure 3.1.

The courses are made by `runs.py`; the tests make the quick ones again, and the table and the
figures of all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reproductions.courses import kept
from tests.reproductions.flops import HEADER, NAMES, cells, check, draw, title
from tests.reproductions.record import table
from tests.reproductions.sonar_usps_flops.runs import DATA, FOLDER, SHOWN, SONAR, computed

pytestmark = pytest.mark.reproduction


@pytest.mark.parametrize("at", SHOWN)
@pytest.mark.parametrize("name", ["natural-gradient", "coordinate-ascent"])
def test_stored_courses_are_those_of_the_code(
    at: tuple[float, float], name: str, shared: Path
) -> None:
    """On sonar: the same optimum, and as many flops to it."""
    again, stored = computed(SONAR, at, name, shared), kept(FOLDER)[SONAR.head + title(*at), name]
    check(again)
    assert again.ended == "converged"
    assert again.optimum == pytest.approx(stored.optimum, abs=1e-6)
    assert again.reached is not None and stored.reached is not None
    assert again.reached.flops == pytest.approx(stored.reached.flops, rel=0.1)


@pytest.mark.thorough
def test_table_and_figures() -> None:
    found = kept(FOLDER)
    rows: list[tuple[object, ...]] = []
    for of in DATA:
        for at in SHOWN:
            runs = {n: found[of.head + title(*at), n] for n in NAMES}
            for name, one in runs.items():
                check(one)
                rows.append((of.name, len(of), *at, *cells(name, one)))
            own = runs["coordinate-ascent"]
            assert own.reached is not None
            assert runs["natural-gradient"].reached.flops < own.reached.flops
        draw(FOLDER, found, SHOWN, head=of.head, name=of.name)
    table(FOLDER, ("data", "N", "log s", "log sd", *HEADER), rows, digits=5)
