"""The plug-in of this folder: its modules on the path, or installed as a distribution."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lgmdsl as lgm
from lgmdsl.inference import registry
from tests.plugins.acme import acme_engine, acme_lgm

SOURCE = Path(__file__).parent / "acme"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed acme-lgm, built from its pyproject.toml."""
    target = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
         "--no-index", "--disable-pip-version-check", "--target", str(target), str(SOURCE)],
        check=True,
    )  # fmt: skip
    return target


@pytest.fixture
def acme() -> Iterator[None]:
    """Its parts, registered at run time; taken out again afterwards."""
    parts = [
        acme_lgm.Geometric,
        acme_lgm.cauchy,
        acme_lgm.curvature,
        acme_lgm.Exchangeable,
        acme_lgm.Lomax,
        acme_lgm.Cosine,
        acme_engine.Plain,
        acme_lgm.FixedPoint,
    ]
    for part in parts:
        lgm.register(part)
    yield
    for part in parts:
        registry.unregister(part)


def environment(*paths: Path) -> dict[str, str]:
    """That of this process, with folders before all others on Python's path."""
    given = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*map(str, paths), *([given] if given else [])]),
    }
