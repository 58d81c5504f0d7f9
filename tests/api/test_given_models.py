"""What a user may give for a model and for words and numbers of settings, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.errors import LgmError

TEXT = """lgm 1
index obs
data y[obs] : real
hyper s : positive ~ half_normal(sd = 1)
latent b ~ normal(sd = 1)
observe y ~ normal(mean = b, sd = s)
"""
DATA = {"y": np.arange(4.0)}


def test_a_model_may_be_its_text_or_the_path_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "m.lgm"
    file.write_text(TEXT)
    wanted = lgm.fit(lgm.loads(TEXT), DATA, hyper="map").log_evidence
    for model in (TEXT, str(file), file):
        assert lgm.fit(model, DATA, hyper="map").log_evidence == wanted
        assert "laplace" in str(lgm.methods(model))
        assert "normal.mean" in str(lgm.explain(model))
    drawn = lgm.simulate(TEXT, sizes={"obs": 3})
    assert len(drawn["y"]) == 3


def test_what_is_no_model_shows_the_way() -> None:
    with pytest.raises(TypeError, match="the model comes first"):
        lgm.fit(DATA, lgm.loads(TEXT))  # type: ignore[arg-type]
    with pytest.raises(LgmError, match=r"E306.*no such file"):
        lgm.fit("nowhere.lgm", DATA)
    with pytest.raises(LgmError, match=r"not a formula: `lgm help formula`"):
        lgm.fit("y ~ x + (1 | g)", DATA)


def test_none_is_the_default() -> None:
    nones: Any = {"method": None, "hyper": None, "seed": None}
    fit, plain = lgm.fit(TEXT, DATA, **nones), lgm.fit(TEXT, DATA)
    assert fit.log_evidence == plain.log_evidence
    assert (fit.sample(5)["b"] == plain.sample(5)["b"]).all()


@pytest.mark.parametrize(
    ("setting", "value", "way"),
    [
        ("hyper", True, 'hyper="map"'),
        ("method", True, 'method="laplace"'),
        ("bound", True, 'bound="quadrature"'),
        ("bound", 3, 'bound="quadrature"'),
        ("seed", 0.5, "seed=1"),
        ("seed", "1", "seed=1"),
        ("tol", ".05", "tol=1e-5"),
        ("max_steps", 1.5, "max_steps=200"),
    ],
)
def test_settings_of_a_wrong_type_show_the_way(setting: str, value: Any, way: str) -> None:
    with pytest.raises(LgmError, match="E108") as caught:
        lgm.fit(TEXT, DATA, **{setting: value})
    assert way in caught.value.diagnostics[0].help
