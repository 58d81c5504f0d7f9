"""Effects of models whose matrices are made of columns (`--map "X=x,contrasts(arm)"`)."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm

CODED = """lgm 1
index obs
index term
data y[obs] : count
data X[obs, term] : real
data hours[obs] : positive
latent b[term] ~ normal(sd = 2)
let eta[obs] = X @ b + 0.1 * hours
observe y ~ poisson(log_rate = eta)
"""


def test_matrices_made_of_columns_are_not_made_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.normal(size=60), "arm": ["a", "b", "c"] * 20})
    table["hours"], table["y"] = 1.0 + rng.random(60), rng.poisson(2.0, 60)
    mapping = {"X": ["x", "contrasts(arm)"]}
    fitted = lgm.fit(lgm.loads(CODED), table, mapping=mapping)
    fitted.save(tmp_path / "f.nc")
    for fit in (fitted, lgm.load_fit(tmp_path / "f.nc")):
        for term, at in (("X[x]", "x"), ("X[arm[b]]", "arm[b]")):
            for kind in ("average", "conditional"):
                found = fit.effects(term, scale="link", kind=kind)
                assert found["estimate"].item() == pytest.approx(fit.mean("b").sel(term=at).item())
        assert fit.effects("hours", scale="link")["estimate"].item() == pytest.approx(0.1)
        assert fit.effects("X[x]", scale="link", data=table)["estimate"].item() == pytest.approx(
            fit.mean("b").sel(term="x").item()
        )
        with pytest.raises(lgm.ModelError, match=r"there is X\[arm\[b\]\] or X\[arm\[c\]\]"):
            fit.effects("arm")
        with pytest.raises(
            lgm.ModelError, match=r"it has: X\[x\], X\[arm\[b\]\], X\[arm\[c\]\], h"
        ):
            fit.effects("nothing")


def test_a_level_is_compared_with_the_base() -> None:
    """The columns of the other levels are 0 on both sides: no row has two levels."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.normal(size=90), "arm": ["a", "b", "c"] * 30})
    rate = table["arm"].map({"a": 2.0, "b": 6.0, "c": 1.0})
    table["hours"], table["y"] = 1.0 + rng.random(90), rng.poisson(rate)
    fit = lgm.fit(lgm.loads(CODED), table, mapping={"X": ["x", "contrasts(arm)"]})
    means = {
        arm: float(fit.predict(table.assign(arm=arm)).response("y")["mean"].mean()) for arm in "abc"
    }
    for arm in "bc":
        found = fit.effects(f"X[arm[{arm}]]")["estimate"].item()
        assert found == pytest.approx(means[arm] - means["a"], abs=0.05)
