"""The house rules that a linter does not know."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.architecture.rooms import circles

PACKAGES = ("lgmdsl", "backends/lgmdsl_backends")


def modules(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((root / package).rglob("*.py"))


def python(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in the checkout, without colour."""
    return processes.python(*arguments, cwd=root, env=processes.environment(NO_COLOR="1"))


def test_import_rules_hold(root: Path) -> None:
    program = "import sys; from importlinter.cli import lint_imports_command as c; c()"
    result = python(root, "-c", program)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_layers_name_every_package(root: Path) -> None:
    """A new package must take its place in the layers, else no rule holds for it."""
    config = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c for c in config["contracts"] if c["id"] == "layers")["layers"]
    named = {n.strip(" ()").removeprefix("lgmdsl.") for layer in layers for n in layer.split("|")}
    packages = {p.parent.name for p in (root / "lgmdsl").glob("*/__init__.py")}
    assert packages <= named


@pytest.mark.parametrize("command", [["--help"], ["check", "MODEL"]])
def test_help_and_check_load_nothing_heavy(root: Path, command: list[str]) -> None:
    model = str(root / "models" / "logistic_regression" / "model.lgm")
    arguments = [model if a == "MODEL" else a for a in command]
    program = (
        "import sys\n"
        "from lgmdsl.cli.main import main\n"
        f"sys.argv = ['lgm', *{arguments!r}]\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'numpy', 'scipy', 'xarray', 'numba', 'h5py', 'networkx', 'pandas'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))\n"
    )
    result = python(root, "-c", program)
    assert result.returncode == 0, result.stderr
    assert "LOADED []" in result.stdout, result.stdout[-200:]


def test_fitting_does_not_wait_for_large_libraries(root: Path) -> None:
    """These take longer to import than a small model to fit."""
    slow = ["scipy.stats", "scipy.interpolate", "scipy.optimize", "networkx", "pyarrow"]
    program = (
        f"import sys, lgmdsl.api.fit.fitting\nprint([m for m in {slow} if m in sys.modules])\n"
    )
    assert python(root, "-c", program).stdout.strip() == "[]"


# What a fit of a few rows in memory has no use for.
IDLE = (
    *("lgmdsl.shards.model", "lgmdsl.streams.prepare", "lgmdsl.streams.streamable"),
    *("lgmdsl.learning.mean_field.mean_field", "lgmdsl.learning.em.batches"),
    *("lgmdsl.assess.sampling.draws", "lgmdsl.assess.grouped.draws", "lgmdsl.assess.modes.weighed"),
    *("lgmdsl.structures.spatial.besag", "lgmdsl.posterior.drawn", "lgmdsl.api.fit.skewed"),
)


def test_a_small_fit_imports_no_room_that_it_does_not_use(root: Path) -> None:
    """Importing takes half of the time of a small fit's process."""
    model = str(root / "models" / "linear_regression" / "model.lgm")
    data = str(root / "models" / "linear_regression" / "data.npz")
    program = (
        f"import sys\nimport lgmdsl as lgm\nfit = lgm.fit({model!r}, {data!r})\n"
        f"assert fit.converged\nprint([m for m in {IDLE} if m in sys.modules])\n"
    )
    result = python(root, "-c", program)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr


def test_no_module_is_called_utils(root: Path) -> None:
    vague = {"util", "utils", "helper", "helpers", "misc", "common"}
    assert not [p for p in modules(root) if p.stem in vague or p.parent.name in vague]


def test_public_functions_and_classes_say_what_they_are(root: Path) -> None:
    missing = []
    for path in modules(root):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name[0] == "_":
                continue
            if not ast.get_docstring(node):
                missing.append(f"{path.relative_to(root)}:{node.lineno} {node.name}")
    assert not missing, "\n".join(missing)


def test_every_package_has_a_page(root: Path) -> None:
    """A README of its own, or its name in that of the package around it."""
    folders = {p.parent for p in modules(root) if p.name == "__init__.py"}
    folders |= {root / "grammars", root / "models", root / "tests"}
    assert not [str(f.relative_to(root)) for f in sorted(folders) if not _described(f)]


def _described(folder: Path) -> bool:
    page, around = folder / "README.md", folder.parent / "README.md"
    within = around.is_file() and (folder.parent / "__init__.py").is_file()
    return page.is_file() or (within and f"`{folder.name}/`" in around.read_text(encoding="utf-8"))


def test_pages_name_what_is_there(root: Path) -> None:
    """Paths in the pages of the rooms lead somewhere."""
    lost = []
    for page in (p for package in PACKAGES for p in (root / package).rglob("README.md")):
        for name in re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+)`", page.read_text()):
            if not any((base / name).exists() for base in (page.parent, root / "lgmdsl", root)):
                lost.append(f"{page.relative_to(root)}: {name}")
    assert not lost, "\n".join(lost)


def test_nothing_is_left_for_later(root: Path) -> None:
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
    found = [
        f"{path.relative_to(root)}: {word}"
        for path in modules(root)
        for word in words
        if word in path.read_text(encoding="utf-8")
    ]
    assert not found


def test_version_is_the_same_everywhere(root: Path) -> None:
    import lgmdsl

    assert tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"] == (
        lgmdsl.__version__
    )


WRITES = {
    "write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "TemporaryFile", "replace",
    "rename", "renames", "touch", "link", "symlink", "symlink_to", "hardlink_to", "truncate",
    "tofile", "savetxt",
}  # fmt: skip
OWNERS = {"os", "shutil", "path", "target"}


def test_files_are_written_in_one_place(root: Path) -> None:
    """What `lgmdsl.files` writes is there whole or not at all; who opens files to write may lose
    the user's on a full disk."""
    found = []
    for path in modules(root):
        if path == root / "lgmdsl" / "files.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _writes(node):
                found.append(f"{path.relative_to(root)}: {ast.unparse(node)}")
    allowed = ["lgmdsl/cli/main.py: open(os.devnull, 'w', encoding='utf-8')"]
    assert found == allowed


def _writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if name in ("open", "fdopen"):
        modes = [
            a.value
            for a in (*call.args, *(k.value for k in call.keywords))
            if isinstance(a, ast.Constant) and isinstance(a.value, str)
        ]
        return any(set(m) & set("wax+") and set(m) <= set("rwaxbt+") for m in modes)
    if not isinstance(call.func, ast.Attribute) or name not in WRITES:
        return False
    owner = ast.unparse(call.func.value)
    return name not in ("replace", "rename", "touch", "link", "truncate") or owner in OWNERS


def test_no_large_circle_of_types() -> None:
    """Of a class that everything takes, and that offers everything, nothing can be understood or
    moved alone: what is asked of a fit takes its record, not the class that its user holds."""
    largest = circles()[0]
    assert len(largest) <= 10, largest
    assert not any("lgmdsl.api.fit.fit" in part for part in circles())
