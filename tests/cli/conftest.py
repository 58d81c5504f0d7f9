"""A small model, data for it, and `run`: one command in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lgmdsl.cli.main import main

MODEL = """lgm 1
index obs
index feat

data X[obs, feat] : real  "measurements"
data y[obs]       : binary

hyper s : positive ~ pc_sd(u = 3, alpha = 0.05)  "sd of the weights"

latent w[feat] ~ normal(sd = s)

let eta[obs] = X @ w

observe y ~ bernoulli(logit = eta)
report  p[obs] = invlogit(eta)
"""


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str | Path) -> Outcome:
        status = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return Outcome(status, out, err)

    return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.lgm"
    path.write_text(MODEL)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = (rng.random(40) < 1 / (1 + np.exp(-X @ [1.0, -1.0, 0.5]))).astype(int)
    path = tmp_path / "d.npz"
    np.savez(path, X=X, y=y)
    return path
