"""Which kernel a pattern gets, and the cache of analyses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.numerics.sparse import analyse as module
from lgmdsl.numerics.sparse.analyse import analyse
from lgmdsl.numerics.sparse.base import Pattern
from tests.numerics.sparse.conftest import positive_definite


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "_analyses", type(module._analyses)())
    yield


def test_a_pattern_is_analysed_once() -> None:
    a = positive_definite("random", 450, 0)
    one = analyse(Pattern.of(a))
    assert analyse(Pattern.of(sp.csr_array(2.0 * a))) is one
    assert analyse(Pattern.of(positive_definite("random", 450, 1))) is not one


def test_the_cache_is_bounded_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    patterns = [Pattern.of(positive_definite("random", 20, seed)) for seed in range(4)]
    first, second = analyse(patterns[0]), analyse(patterns[1])
    analyse(patterns[2])
    assert analyse(patterns[0]) is first
    analyse(patterns[3])
    assert len(module._analyses) == 3
    assert analyse(patterns[0]) is first
    assert analyse(patterns[1]) is not second
    monkeypatch.setattr(module, "KEPT_ENTRIES", 1)
    latest = analyse(Pattern.of(positive_definite("random", 30, 5)))
    assert list(module._analyses.values()) == [latest]


def test_kernels_by_size() -> None:
    small, large = positive_definite("random", 300, 1), positive_definite("grid", 1600, 0)
    assert analyse(Pattern.of(small)).kernel == "dense"
    found = analyse(Pattern.of(large))
    assert found.kernel == "supernodal"
    assert Pattern.of(large).nnz <= found.fill < 1600 * 1601 / 2
    assert 0 < found.flops < 1600**3 / 3
    for n in (50, 1600):
        assert analyse(Pattern.of(positive_definite("band", n, 0))).kernel == "banded"


def test_small_patterns_import_no_compiler(root: Path) -> None:
    program = (
        "import sys, numpy as np, scipy.sparse as sp\n"
        "from lgmdsl.numerics.sparse.analyse import DENSE_UP_TO, analyse\n"
        "from lgmdsl.numerics.sparse.base import Pattern\n"
        "a = sp.csr_array(2.0 * sp.eye_array(DENSE_UP_TO))\n"
        "pattern = Pattern.of(a)\n"
        "analyse(pattern).factor(pattern.values(a)).selected()\n"
        "assert 'numba' not in sys.modules and 'llvmlite' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_one_analysis_serves_several_threads() -> None:
    a = positive_definite("grid", 900, 2)
    pattern = Pattern.of(a)
    values = pattern.values(a)

    def work(scale: int) -> float:
        factor = analyse(pattern).factor(values * scale)
        assert factor is not None
        return float(factor.selected().sum() * scale)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(1, 33)))
    alone = [work(scale) for scale in range(1, 33)]
    np.testing.assert_array_equal(found, alone)
