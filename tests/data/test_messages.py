"""The messages of the specification, letter by letter, and the others as golden files.

`LGMDSL_WRITE_GOLDEN=1` writes them anew.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lgmdsl.errors import DataError
from tests.data.models import GLMM, bind, one

GOLDEN = Path(__file__).parent / "golden"
EPIL = """lgm 1
index obs
index patient
index visit
data y[obs] : count
data level[patient] : real
data week[visit] : real
latent b ~ normal(sd = 1)
let eta[obs] = b
observe y ~ poisson(log_rate = eta)
"""
GOOD: dict[str, Any] = {"y": [1, 2], "X": np.ones((2, 2)), "who": ["ann", "bob"], "time": [1, 1]}
CLASS = """lgm 1
index obs
index class = {"walk", "bike", "bus"}
index cut = head(class)
data y[obs] : class
latent b[cut] ~ normal(sd = 1)
let eta[obs, cut] = b
observe y ~ categorical(stick = eta)
"""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "e301_shape": (
        EPIL,
        {
            "y": np.zeros((59, 4)), "obs": np.arange(236), "level": np.zeros(59),
            "week": np.zeros(4),
        },
    ),
    "e301_transposed": (GLMM, GOOD | {"X": np.ones((3, 2)), "y": [1, 2], "who": [1, 2]}),
    "e301_length": (GLMM, GOOD | {"time": [1.0, 2, 3]}),
    "e302_class": (CLASS, {"y": ["bus", "bikes", "walk", "bikes"]}),
    "e302_positions": (CLASS, {"y": [1, 2, 3]}),
    "e302_repeated": (GLMM, GOOD | {"subject": ["ann", "bob", "ann"]}),
    "e302_lacking": (
        one("real").replace("index obs", "index obs = 1..4"), {"y": [1.0, 2], "obs": [1, 4]},
    ),
    "e303_one_two": (one("binary"), {"y": [1] * 118 + [2] * 118}),
    "e303_signs": (one("binary"), {"y": [-1, 1, 1]}),
    "e303_negative_count": (one("count"), {"y": [3, -2, 0, -2]}),
    "e303_infinite": (one("real"), {"y": [1.0, np.inf]}),
    "e304_missing": (one("count"), {"y": [1, None, 3, None]}),
    "e305_absent": (GLMM, {k: v for k, v in GOOD.items() if k != "time"} | {"tme": [1, 1]}),
    "e305_index": (EPIL.replace("data week[visit] : real\n", ""), {"y": [1], "level": [1.0]}),
    "e306_objects": (one("real"), {"y": np.array([1, "a"], dtype=object)}),
    "everything_at_once": (GLMM, {"y": [1.5, np.nan], "X": np.ones((2, 2, 1)), "who": [1, 2]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_messages_are_as_recorded(name: str, tmp_path: Path) -> None:
    text, data = CASES[name]
    source: Any = data
    if name != "e306_objects":
        np.savez(tmp_path / "d.npz", **{k: _array(v) for k, v in data.items()})
        source = tmp_path / "d.npz"
    with pytest.raises(DataError) as caught:
        bind(text, source)
    shown, file = str(caught.value) + "\n", GOLDEN / f"{name}.txt"
    if os.environ.get("LGMDSL_WRITE_GOLDEN"):
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


def _array(values: Any) -> Any:
    if isinstance(values, list) and None in values:
        return np.array([np.nan if v is None else v for v in values])
    return np.array(values)


def test_the_samples_of_the_language(tmp_path: Path) -> None:
    """E301, E303 and E305 exactly as the specification prints them."""
    assert (GOLDEN / "e301_shape.txt").read_text(encoding="utf-8") == (
        "error[E301]: data `y` has the wrong shape\n"
        "   | declared y[obs]          obs has 236 labels, from d.npz:obs\n"
        "   | given    (59, 4)\n"
        "   = help: np.ravel(y), or declare y[patient, visit]\n"
    )
    assert (GOLDEN / "e303_one_two.txt").read_text(encoding="utf-8") == (
        "error[E303]: `y` is binary but holds other values\n"
        "   | found 1 (118), 2 (118). help: y - 1\n"
    )
    data = {"X": np.ones((2, 1)), "who": [0, 1], "y": [1, 2], "tme": [1.0, 1.0]}
    np.savez(tmp_path / "d.npz", **data)  # type: ignore[arg-type]
    with pytest.raises(DataError) as caught:
        bind(GLMM, tmp_path / "d.npz")
    assert str(caught.value) == (
        "error[E305]: data is missing `time`, wanted by line 9\n"
        "   | d.npz has: X, who, y, tme.   help: did you mean `tme`?"
    )


def test_positions_are_kept_for_editors() -> None:
    with pytest.raises(DataError) as caught:
        bind(one("binary"), {"y": [1, 2]})
    found = caught.value.diagnostics[0].as_json()
    assert found["range"] is not None and found["help"] == "y - 1"
