"""Whole pages, kept: golden/NAME.txt. `pytest --update-golden` writes them anew; read the diff."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run

GOLDEN = Path(__file__).parent / "golden"

GLMM = """lgm 1
index obs
index subject
index term = {"intercept", "dose"}

data y[obs]       : count?
data X[obs, term] : real
data who[obs]     : subject
data time[obs]    : positive  "exposure, days"

hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)  "between-subject sd"

latent b[term]    ~ normal(sd = 2.5)
latent u[subject] ~ normal(sd = s)

let eta[obs] = X @ b + u[who]

observe y ~ poisson(log_rate = eta, exposure = time)
report  ratio = exp(b["dose"])  "rate ratio"
"""

LATER = """lgm 1
index day = 1..366
index region
index lag = 3

data y[day] : count
data n[day] : count

hyper s : positive = 0.1
hyper tau : positive = 2 * s
index past = 2
hyper k[past, lag] : positive = s

latent b0     ~ normal(sd = 10)
latent f[day] ~ rw2(sd = s, cyclic = true)
latent g[day, lag] ~ normal(sd = s)
latent w[region] ~ flat

let eta[day] = b0 + f + sum(conv2(g, k, boundary = "zero"), lag)

observe y ~ binomial(n = n, logit = eta)
potential w ~ laplace(scale = tau)
constrain sum(w, region) = 0
"""

COMMANDS = {
    "info": ("info", "glmm.lgm"),
    "info_data": ("info", "glmm.lgm", "d.npz"),
    "explain": ("explain", "glmm.lgm"),
    "explain_data": ("explain", "glmm.lgm", "d.npz"),
    "explain_pinned": ("explain", "glmm.lgm", "d.npz", "--set", "s=0.5"),
    "methods_model": ("methods", "glmm.lgm"),
    "summary": ("fit", "glmm.lgm", "d.npz", "--set", "s=0.5"),
    "summary_full": ("fit", "glmm.lgm", "d.npz", "--set", "s=0.5", "--full"),
    "summary_audit": ("fit", "glmm.lgm", "d.npz", "--set", "s=0.5", "--audit"),
    "later_info": ("info", "later.lgm"),
    "later_explain": ("explain", "later.lgm"),
    "later_methods": ("methods", "later.lgm"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "glmm.lgm").write_text(GLMM)
    (tmp_path / "later.lgm").write_text(LATER)
    k = np.arange(36)
    np.savez(
        tmp_path / "d.npz",
        y=np.where(k == 5, np.nan, (k * 7) % 5),
        X=np.stack([np.ones(36), np.sin(k)], axis=1),
        who=np.array([f"patient {j}" for j in k // 3]),
        time=1.0 + k % 4,
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LGM_MEMORY", "8GB")
    return tmp_path


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", COMMANDS)
def test_page(run: Run, name: str, request: pytest.FixtureRequest) -> None:
    done = run(*COMMANDS[name])
    assert done.status == 0 and done.err == ""
    said = re.sub(r"(\d+ steps?), [\d.]+ m?s", r"\1, TIME", done.out)
    kept = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden", default=False):
        kept.write_text(said, encoding="utf-8")
    assert kept.is_file(), "no page is kept: run with --update-golden and read it"
    assert said == kept.read_text(encoding="utf-8")


def test_each_page_is_asked_for() -> None:
    assert {p.stem for p in GOLDEN.glob("*.txt")} == set(COMMANDS)
