"""The wheel: what is in it, and that it works where there is no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import pathlib, sys
import lgmdsl as lgm, lgmdsl_backends
here = pathlib.Path(sys.argv[1]).resolve()
for module in (lgm, lgmdsl_backends):
    assert here in pathlib.Path(module.__file__).resolve().parents, module.__file__
model = lgm.loads(pathlib.Path(sys.argv[2]).read_text())
fit = lgm.fit(model, sys.argv[3], method="laplace")
print("FITTED", fit.status)
"""


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation: hatchling comes with the dev extra, so nothing is fetched.
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", str(root), "--no-deps", "--no-build-isolation",
         "--quiet", "--wheel-dir", str(folder)],
        check=True, capture_output=True, timeout=240,
    )  # fmt: skip
    (built,) = folder.glob("lgmdsl-*.whl")
    return built


def test_wheel_holds_both_packages_and_the_grammar(wheel: Path, root: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"lgmdsl/grammars/{n}" for n in ("lgm.lark", "terminals.lark")} <= names
    assert {"lgmdsl/py.typed", "lgmdsl_backends/py.typed"} <= names
    for folder, inside in (("lgmdsl", "lgmdsl"), ("backends/lgmdsl_backends", "lgmdsl_backends")):
        for path in (root / folder).rglob("*.py"):
            assert f"{inside}/{path.relative_to(root / folder).as_posix()}" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"lgmdsl", "lgmdsl_backends", next(t for t in tops if t.endswith(".dist-info"))}
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    text = zipfile.ZipFile(wheel).read(entry).decode()
    assert "lgm = lgmdsl.__main__:main" in text
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_installed_wheel_parses_and_fits(wheel: Path, root: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(target),
         str(wheel)],
        check=True, capture_output=True, timeout=240,
    )  # fmt: skip
    example = root / "models" / "dose_response"
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
            str(target),
            str(example / "model.lgm"),
            str(example / "data.npz"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": str(target)},
    )
    assert result.returncode == 0, result.stderr
    assert "FITTED converged" in result.stdout
