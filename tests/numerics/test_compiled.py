"""One way to compile: a place for the machine code is a convenience, never a condition."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import processes
from tests.architecture.test_house import modules

COMPILERS = {"njit", "jit", "vectorize", "guvectorize", "stencil", "cfunc", "generated_jit"}
LARGE = """
import numpy as np
from lgmdsl.numerics.expectations.largest_kernel import log_largest
from lgmdsl.numerics.sparse import banded_kernels
s = np.array([[[0.3, -0.2, 1.0]]])
value, slope = log_largest(s, np.array([2]), np.ones((1, 3), dtype=bool))
band = np.array([[2.0, -1.0], [2.0, -1.0], [2.0, 0.0]])
print(float(value[0, 0]), banded_kernels.factor(band), float(band[2, 0]))
"""
# Every place that numba would keep its files in refuses.
NO_PLACE = """
import errno, os
from numba.core import caching
def refuse(self):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))
for part in list(vars(caching).values()):
    if isinstance(part, type) and issubclass(part, caching._CacheLocator):
        part.ensure_cache_path = refuse
"""
# Files end at 2,000 bytes, as on a disk that is nearly full.
NO_ROOM = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"


NO_CACHE = ("HOME", "XDG_CACHE_HOME")


def ran(program: str, **environment: str) -> str:
    """What a process without HOME prints."""
    kept = {k: v for k, v in processes.environment(**environment).items() if k not in NO_CACHE}
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    done = processes.python("-c", program, timeout=300, env=kept)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough
def test_kernels_run_without_a_place_for_their_code(tmp_path: Path) -> None:
    usual = ran(LARGE, NUMBA_CACHE_DIR=str(tmp_path / "usual"))
    assert any((tmp_path / "usual").rglob("*.nbi"))
    assert ran(NO_PLACE + LARGE) == usual
    (tmp_path / "full").mkdir()
    assert ran(NO_ROOM + LARGE, NUMBA_CACHE_DIR=str(tmp_path / "full")) == usual


NAMED = """
from typing import NamedTuple
import numpy as np
from lgmdsl.numerics.compiled import compiled
class Before(NamedTuple):
    x: np.ndarray
@compiled
def total(known):
    return known.x.sum()
print(total(Before(np.ones(3))))
"""


def test_code_of_an_older_version_is_compiled_anew(tmp_path: Path) -> None:
    """One whose arguments were of a class that has another name now."""
    for name in ("Before", "After"):
        (tmp_path / "named.py").write_text(NAMED.replace("Before", name))
        program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import named"
        assert ran(program, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == "3.0\n"
        (index,) = (tmp_path / "kept").rglob("*.nbi")
        assert name.encode() in index.read_bytes()


def test_only_one_module_calls_the_compiler(root: Path) -> None:
    found = set()
    for path in modules(root):
        text = path.read_text(encoding="utf-8")
        if not any(name in text for name in COMPILERS):
            continue
        for node in ast.walk(ast.parse(text)):
            name = node.attr if isinstance(node, ast.Attribute) else None
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba":
                found |= {(path, a.name) for a in node.names if a.name in COMPILERS}
            if name in COMPILERS and ast.unparse(node).startswith(("numba.", "nb.")):
                found.add((path, str(name)))
    assert {(str(p.relative_to(root)), n) for p, n in found} == {
        ("lgmdsl/numerics/compiled.py", "njit")
    }
