"""help(lgm.fit): its examples name every argument, and run."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm

TEXT = """lgm 1
index obs
data y[obs] : binary
data x[obs] : real
hyper s : positive ~ half_normal(sd = 1)
latent a ~ normal(sd = 2)
latent b ~ normal(sd = s)
let eta[obs] = a + b * x
observe y ~ bernoulli(logit = eta)
"""


def examples() -> list[str]:
    text = inspect.getdoc(lgm.fit) or ""
    block = text.split("One of each argument::\n")[1]
    return re.findall(r"^    (\S.*)$", block, re.MULTILINE)


def test_every_argument_has_an_example() -> None:
    shown = " ".join(examples())
    for name in inspect.signature(lgm.fit).parameters:
        assert name == "model" or f"{name}=" in shown, name


@pytest.mark.thorough
def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=20)
    table = {"x": x, "y": (x + rng.logistic(size=20) > 0).astype(int)}
    np.savez("data.npz", x=table["x"], y=table["y"])
    Path("model.lgm").write_text(TEXT)
    table |= {"age": x, "visits": table["y"]}
    space = {"lgm": lgm, "model": lgm.loads(TEXT), "table": table}
    for line in examples():
        exec(line, space)
    assert "TraceEntry" in capsys.readouterr().out
