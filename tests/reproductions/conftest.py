"""A reproduction that is not asked for by its marker is compared with what its page keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reproductions.record import differences, elsewhere


@pytest.fixture(autouse=True)
def _compared_with_what_is_kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """`-m reproduction` writes tables anew. Those that are marked `thorough` too run with these,
    write nothing here, and fail where a table is not the one that is kept."""
    item = request.node
    asked = "reproduction" in (request.config.getoption("markexpr") or "")
    if asked or item.get_closest_marker("reproduction") is None:
        yield
        return
    made = tmp_path / "made"
    made.mkdir()
    with elsewhere(made):
        yield
    found = [d for new in sorted(made.glob("*.csv"))
             for d in differences(item.path.parent / new.name, new)]  # fmt: skip
    assert not found, "\n".join([*found, "", f"pytest {item.path.parent} -m reproduction"])
