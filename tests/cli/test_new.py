"""`lgm new`: the skeleton parses, and fits as it stands, by the command that it names."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.api.explain.skeleton import skeleton
from lgmdsl.errors import DataError
from tests.cli.conftest import Run


def command_of(text: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith("#   lgm fit"))
    return shlex.split(line[1:])[1:]


def fits(text: str, frame: pd.DataFrame) -> lgm.Fit:
    words = command_of(text)
    maps = [words[k + 1].partition("=") for k, word in enumerate(words) if word == "--map"]
    model = lgm.loads(text)
    fit = lgm.fit(model, frame, mapping={name: key for name, _, key in maps})
    assert fit.converged
    return fit


def rows(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    group = rng.choice(["north", "south", "west"], n)
    age = rng.normal(40.0, 10.0, n)
    return pd.DataFrame(
        {
            "region": group,
            "age": age.round(1),
            "smoker": rng.integers(0, 2, n),
            "day": pd.date_range("2024-01-01", periods=n, freq="D").strftime("%Y-%m-%d"),
            "y": rng.poisson(np.exp(0.5 + 0.02 * (age - 40.0))),
        }
    )


def test_a_skeleton_of_counts_fits() -> None:
    frame = rows()
    text = skeleton(frame)
    assert "observe y ~ poisson(log_rate = eta)" in text
    assert ": region_level" in text and "day_time" in text
    fit = fits(text, frame)
    assert set(fit.mean("u_region").coords["region_level"].values) == {"north", "south", "west"}


@pytest.mark.parametrize(
    ("response", "family"), [("age", "normal(mean"), ("smoker", "bernoulli(logit")]
)
def test_the_response_is_named(response: str, family: str) -> None:
    frame = rows()
    text = skeleton(frame, response)
    assert f"observe {response} ~ {family} = eta" in text
    fits(text, frame)


def test_on_the_command_line_by_its_own_command(run: Run, tmp_path: Path) -> None:
    frame = rows().rename(columns={"age": "age (years)", "region": "index"})
    data = tmp_path / "d.csv"
    frame.to_csv(data, index=False)
    model = tmp_path / "model.lgm"
    assert run("new", data, "-o", model).status == 0
    assert model.read_text() == run("new", data).out
    words = [
        str(tmp_path / w) if w in ("model.lgm", "d.csv") else w
        for w in command_of(model.read_text())
    ]
    assert run("fmt", "--check", model).status in (0, 1)
    assert run("check", *words[1:]).status == 0
    done = run(*words)
    assert done.status == 0, done.err


def test_what_is_left_out_is_named_with_the_reason() -> None:
    frame = rows().assign(
        gap=np.where(np.arange(60) < 3, np.nan, 1.0 + np.arange(60)),
        same=7,
        name=[f"n{k}" for k in range(60)],
        empty=np.nan,
    )
    text = skeleton(frame)
    flat = " ".join(text.replace("\n#", "").split())
    for part in (
        "`gap`: 3 entries missing",
        "`same`: all its entries are 7",
        "`name`: all its entries differ",
        "`empty`: it has no entries",
    ):
        assert part in flat
    fits(text, frame)


def test_a_missing_response_is_predicted() -> None:
    frame = rows()
    frame["y"] = frame["y"].astype(float)
    frame.loc[3, "y"] = np.nan
    text = skeleton(frame)
    assert ": count?" in text
    fits(text, frame)


def test_a_wide_table_says_how_columns_make_a_matrix() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 60)), columns=[f"g{k}" for k in range(60)])
    text = skeleton(frame.assign(y=rng.normal(size=40)))
    assert "b_g19" in text and "b_g20" not in text
    assert '--map "X=a,b,c"' in " ".join(text.replace("\n#", "").split())
    fits(text, frame.assign(y=rng.normal(size=40)))


@pytest.mark.parametrize(
    ("frame", "response", "message"),
    [
        (rows(), "yy", r"E305.*has no column `yy`"),
        (rows(), "region", r"E305.*`region` cannot be the response of a skeleton: it holds words"),
        (rows()[["region", "day"]], "", r"E305.*has no column of numbers to be a response"),
        (rows().iloc[:0], "", r"E306.*it has no rows"),
        ({"y": [1, 2]}, "", r"E306.*a skeleton is made for a table"),
    ],
)
def test_tables_that_have_no_skeleton(frame: object, response: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        skeleton(frame, response)


NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8
)
WORDS = st.sampled_from(["obs", "index", "data", "eta", "level", "noise", "log", "b_x", "x", "xs"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(NAMES | WORDS, min_size=1, max_size=6, unique=True), st.integers(0, 99))
def test_any_names_of_columns_parse_and_bind(names: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds: list[Callable[[], Any]] = [
        lambda: rng.normal(size=12).round(2),
        lambda: rng.choice(["a", "b", "c"], 12),
        lambda: rng.integers(0, 2, 12),
        lambda: rng.poisson(3, 12),
    ]
    frame = pd.DataFrame({name: kinds[rng.integers(4)]() for name in names})
    frame["response"] = rng.normal(size=12)
    text = skeleton(frame)
    from lgmdsl.api.explain.outline import outline_of

    words = command_of(text)
    maps = [words[k + 1].partition("=") for k, word in enumerate(words) if word == "--map"]
    outline = outline_of(lgm.loads(text), frame, {name: key for name, _, key in maps})
    assert not outline.refused
