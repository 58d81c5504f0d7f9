"""The oracle's labels go to candidates by the labels of the index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.design.design import Design
from tests.acquisition.pools import small

KNOWN = small("gaussian", candidates=12)
NAMES = np.array([f"p{k}" for k in range(12)])
Y = KNOWN.oracle["y"]
POOL = {**KNOWN.candidates, "obs": NAMES}
PLAIN = KNOWN.candidates
MIXED = np.random.default_rng(5).permutation(12)


def design(candidates: Any, oracle: Any) -> Design:
    return lgm.design(KNOWN.model, KNOWN.data, candidates, "random", 12, 12, oracle)


def check(found: Design) -> None:
    assert [q.label for q in found.queries] == [Y[q.row] for q in found.queries]


def test_by_a_key_of_the_index_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "pool.npz", **POOL)  # type: ignore[arg-type]
    np.savez(tmp_path / "oracle.npz", obs=NAMES[::-1], y=Y[::-1])
    check(design(tmp_path / "pool.npz", tmp_path / "oracle.npz"))
    check(design(POOL, {"obs": NAMES[MIXED], "y": Y[MIXED]}))


@pytest.mark.thorough
def test_of_frames_and_arrays_with_coordinates() -> None:
    import pandas as pd
    import xarray as xr

    y, names = Y[MIXED], NAMES[MIXED]
    check(design(POOL, pd.DataFrame({"obs": names, "y": y})))
    check(design(POOL, {"y": pd.Series(y, index=names)}))
    check(design(POOL, {"y": xr.DataArray(y, dims="obs", coords={"obs": names})}))
    check(design(POOL, xr.Dataset({"y": ("obs", y)}, {"obs": names})))
    # Numbers as labels are labels too, and a frame's own 0..n-1 are none.
    check(design(PLAIN, pd.DataFrame({"obs": MIXED, "y": y})))
    check(design(PLAIN, {"y": pd.Series(y, index=MIXED)}))
    check(design({**PLAIN, "obs": np.arange(100, 112)}, {"y": y, "obs": MIXED + 100}))


def test_by_position_where_neither_has_labels() -> None:
    import pandas as pd

    check(design(PLAIN, {"y": Y}))
    check(design(PLAIN, pd.DataFrame({"y": Y})))


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("candidates", "oracle", "code", "said"),
    [
        (POOL, {"obs": [f"q{k}" for k in range(12)], "y": Y}, "E302", "q0"),
        (PLAIN, {"obs": NAMES, "y": Y}, "E302", "p0"),
        (POOL, {"obs": np.r_[NAMES, ["p99"]], "y": np.r_[Y, 1]}, "E302", "p99"),
        (POOL, {"obs": NAMES[1:], "y": Y[1:]}, "E302", 'no entry for "p0"'),
        (POOL, {"obs": np.r_[NAMES[1:], ["p1"]], "y": Y}, "E302", "p1"),
        (POOL, {"y": Y}, "E302", "the oracle's `y` has no labels of `obs`"),
        (POOL, {"obs": NAMES, "y": Y[1:]}, "E301", "y"),
        (POOL, {"obs": NAMES.reshape(3, 4), "y": Y}, "E301", "(3, 4)"),
        (POOL, {"obs": NAMES, "y": np.ones((12, 1))}, "E301", "y"),
        (POOL, {"obs": NAMES, "y": np.r_[Y[:-1], np.nan]}, "E304", "p11"),
    ],
)
def test_labels_that_do_not_fit(candidates: Any, oracle: Any, code: str, said: str) -> None:
    with pytest.raises(lgm.DataError) as caught:
        design(candidates, oracle)
    assert caught.value.codes == (code,), str(caught.value)
    assert said in str(caught.value)
