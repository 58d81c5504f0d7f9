"""Fixtures and hypothesis profiles shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile(
    "ci",
    max_examples=60,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        default=False,
        help="write the kept messages and pages anew; read the diff",
    )


# What runs only where -m names it: `-m "not slow"` does not bring it in.
ON_REQUEST = ("reproduction", "thorough", "mutations")


def spread(sets: list[dict[str, int]], count: int) -> set[int]:
    """Positions of so many of a test's parameter sets, one at least: each the one with the most
    values that none before it has, of these the farthest from all before it, the first of those."""
    seen: set[tuple[str, int]] = set()
    chosen: list[int] = []
    for _ in range(min(max(count, 1), len(sets))):
        left = [k for k in range(len(sets)) if k not in chosen]
        away = {k: min((abs(k - c) for c in chosen), default=0) for k in left}
        best = max(left, key=lambda k: (len(sets[k].items() - seen), away[k], -k))
        chosen.append(best)
        seen |= sets[best].items()
    return set(chosen)


def mark_the_others_thorough(items: list[pytest.Item]) -> None:
    """Of tests marked `few(n)`, the parameter sets beyond n."""
    tests: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("few") is not None:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in tests.values():
        marker = same[0].get_closest_marker("few")
        assert marker is not None
        values = [{n: id(v) for n, v in i.callspec.params.items()} for i in same]
        chosen = spread(values, *marker.args)
        for k, item in enumerate(same):
            if k not in chosen:
                item.add_marker("thorough")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect reproductions, mutations and thorough tests unless `-m` names a marker of theirs:
    those that have several run for any."""
    mark_the_others_thorough(items)
    expression = config.getoption("markexpr") or ""
    asked = {m for m in ON_REQUEST if m in expression}
    own = [{m for m in ON_REQUEST if i.get_closest_marker(m) is not None} for i in items]
    left_out = [i for i, of in zip(items, own, strict=True) if of and not of & asked]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [i for i in items if i not in set(left_out)]


ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference answers and real data beside the checkout; skips where absent."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no ../shared folder beside the checkout")
    return folder
