"""What mean field costs: px-vb beside the variational Gaussian, EP and Laplace on the probit models
of `reference/known_fits.json`, with importance sampling's and quasi-Monte Carlo's answers.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray
from tests.backends.test_known_fits import CASES
from tests.reproductions.record import COLOURS, figure, table

pytestmark = [pytest.mark.reproduction, pytest.mark.thorough]
FOLDER = Path(__file__).parent
METHODS = ("px-vb", "natural-gradient", "ep", "laplace")
NAMES = ("lupus_probit_sd5", "ionosphere_gp_probit")


def test_against_others(shared: Path) -> None:
    exact = json.loads((shared / "reference" / "lupus_probit_exact.json").read_text())
    truth = exact["normal_var_25"]
    rows: list[list[object]] = []
    moments: dict[str, dict[str, tuple[AnyArray, AnyArray]]] = {}
    for name in NAMES:
        text, data, _ = CASES[name]
        found = lgm.compare(lgm.loads(text), data(shared / "data"), list(METHODS))
        print(found)
        reference = found.fits["ep"]
        mean, sd = (reference.mean("eta").values, reference.sd("eta").values)
        moments[name] = {}
        for method in METHODS:
            fit = found.fits[method]
            assert fit.converged
            m, s = fit.mean("eta").values, fit.sd("eta").values
            moments[name][method] = (m, s)
            rows.append([
                name, method, float(fit.log_evidence), str(fit.guarantee), fit.steps,
                float(np.median(np.abs(m - mean) / sd)), float(np.abs((m - mean) / sd).max()),
                float(np.median(s / sd)), float((s / sd).min()),
            ])  # fmt: skip
        evidence = {r[1]: r[2] for r in rows if r[0] == name}
        assert evidence["px-vb"] < evidence["natural-gradient"] < evidence["ep"]  # type: ignore[operator]
    heads = ["model", "method", "log evidence", "bound", "steps", "mean error (median)",
             "mean error (largest)", "sd ratio (median)", "sd ratio (least)"]  # fmt: skip
    table(FOLDER, heads, rows, digits=4)

    text, data, _ = CASES["lupus_probit_sd5"]
    weights: list[list[object]] = []
    for method in METHODS:
        fit = lgm.fit(lgm.loads(text), data(shared / "data"), method)
        away = (fit.mean("w").values - truth["mean"]) / truth["sd"]
        ratio = fit.sd("w").values / truth["sd"]
        short = float(fit.log_evidence) - truth["log_marginal_likelihood"]
        weights.append([method, *map(float, away), *map(float, ratio), short])
    names = [f"{what} {k}" for what in ("mean error", "sd ratio") for k in ("const", "x1", "x2")]
    table(FOLDER, ["method", *names, "evidence error"], weights, name="lupus", digits=3)
    _picture(moments)


def _picture(moments: dict[str, dict[str, tuple[AnyArray, AnyArray]]]) -> None:
    with figure(FOLDER, 7.4, 5.4) as canvas:
        axes = canvas.subplots(2, 2)
        for row, name in zip(axes, NAMES, strict=True):
            mean, sd = moments[name]["ep"]
            for k, method in enumerate(m for m in METHODS if m != "ep"):
                m, s = moments[name][method]
                # px-vb's means are Laplace's: rings around the dots.
                ring = method == "px-vb"
                look = {"marker": "o", "mfc": "none"} if ring else {"marker": "."}
                for panel, at, value in ((row[0], mean, m), (row[1], sd, s)):
                    panel.plot(
                        at,
                        value,
                        linestyle="",
                        color=COLOURS[k],
                        markersize=5 if ring else 3,
                        markeredgewidth=0.6 if ring else 0.0,
                        label=method,
                        **look,
                    )
            for panel, values, what in ((row[0], mean, "mean"), (row[1], sd, "sd")):
                ends = [float(values.min()), float(values.max())]
                panel.plot(ends, ends, color="0.7", linewidth=0.8)
                panel.set_xlabel(f"{what} of a predictor by EP")
                panel.set_ylabel("by another method")
            row[0].set_title(name)
        axes[0, 1].legend(loc="upper left")
