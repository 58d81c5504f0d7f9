"""The option that rewrites golden messages."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", default=False,
        help="write the messages of tests/language/golden anew",
    )  # fmt: skip
