"""Glass: a GP for each of six classes at fixed hyperparameters, through each bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm

GP = (
    "lgm 1\nindex obs\nindex dim\nindex class\ndata x[obs, dim] : real\ndata y[obs] : class\n"
    "latent f[obs, class] ~ gp(at = x, kernel = se(sd = 2.7, length = 2.7)) * iid\n"
    "observe y ~ categorical(softmax = f)\n"
)


@pytest.fixture(scope="module")
def glass(shared: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """50 rows to fit, 60 others of their classes to predict; inputs standardised."""
    held = np.load(shared / "data" / "glass.npz")
    x, y = held["X"], held["y"]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    order = np.random.default_rng(0).permutation(len(y))
    fitted, rest = order[:50], order[50:]
    rest = rest[np.isin(y[rest], y[fitted])][:60]
    return {"x": x[fitted], "y": y[fitted]}, {"x": x[rest], "y": y[rest]}


def test_glass(glass: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]) -> None:
    given, new = glass
    fits = {
        b: lgm.fit(lgm.loads(GP), given, "natural-gradient", bound=b)
        for b in ("bohning", "log", "tilted", "quadrature")
    }
    fits["laplace"] = lgm.fit(lgm.loads(GP), given, "laplace")
    assert all(f.converged for f in fits.values())
    evidence = {name: f.log_evidence for name, f in fits.items()}
    assert evidence["bohning"] < evidence["log"] < evidence["tilted"] < evidence["quadrature"]
    shares = np.unique(given["y"], return_counts=True)[1] / len(given["y"])
    guess = -np.log2(shares)[np.searchsorted(np.unique(given["y"]), new["y"])].mean()
    for name, f in fits.items():
        p = f.predict({"x": new["x"]}).response("y")["probability"]
        at = np.searchsorted(p["class"].values, new["y"])
        assert (p.values.argmax(axis=1) != at).mean() < 0.55, name
        # Better than the classes' shares alone.
        assert -np.log2(p.values[np.arange(len(at)), at]).mean() < guess - 0.2, name
