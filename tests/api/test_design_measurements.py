"""`lgm.design_measurements`: lines by indices and labels, values, the page, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from tests.acquisition.images import image, model

KNOWN = image(8)
GAUSSIAN = model(potentials=False)
COUNTS = """lgm 1
index obs
data y[obs] : count?
latent u[obs] ~ normal(sd = 1)
observe y ~ poisson(log_rate = u)
"""
TWO = """lgm 1
index obs
data y[obs] : real?
data k[obs] : real
latent u[obs] ~ normal(sd = 1)
observe y ~ normal(mean = u, sd = 1)
observe k ~ normal(mean = u, sd = 1)
"""
SD = """lgm 1
index obs
data y[obs] : real?
hyper s : positive ~ half_normal(sd = 1)
latent u[obs] ~ rw1(sd = s)
observe y ~ normal(mean = u, sd = 1)
"""
LOGS = """lgm 1
index obs
data y[obs] : positive?
latent u[obs] ~ normal(sd = 1)
observe y ~ lognormal(mean = u, sd = 0.5)
"""


def design(**changed: Any) -> lgm.MeasurementDesign:
    given: dict[str, Any] = {
        "model": GAUSSIAN, "data": KNOWN.data, "by": "line", "candidates": {"line": KNOWN.line},
        "steps": 2, "oracle": {"y": KNOWN.y},
    }  # fmt: skip
    return lgm.design_measurements(**{**given, **changed})


def test_choices_course_and_page() -> None:
    found = design(test={"y": KNOWN.spectrum}, steps=3, block=2)
    assert [c.number for c in found.choices] == [1, 2, 3] and not found.interrupted
    assert [c.values for c in found.choices] == [8 if c.line == 4 else 16 for c in found.choices]
    assert [p.included for p in found.course] == [0, 2, 3] and found.course[-1].measured == 64
    assert found.measured.all() and found.measured.shape == (8, 8)
    fit = lgm.fit(GAUSSIAN, {"y": KNOWN.y, "s": KNOWN.sd}, "double-loop")
    seen = np.asarray(fit.mean("seen"))
    want = float(np.sqrt(np.mean((seen - KNOWN.spectrum) ** 2)))
    assert found.course[-1].test_error == pytest.approx(want, rel=1e-8)
    assert found.course[-1].log_evidence == pytest.approx(fit.log_evidence, rel=1e-9)
    page = found.table.splitlines()
    assert page[0] == "lines by information: 24 values of `y` measured, 3 lines of `line` left"
    assert page[2].split() == ["choice", "line", "values", "information"]
    assert page[-4].split() == ["measured", "log", "evidence", "RMS", "test", "error"]
    assert max(map(len, page)) <= 80
    json = found.as_json()
    assert json["by"] == "line" and len(json["choices"]) == 3  # type: ignore[arg-type]
    assert repr(found) == "MeasurementDesign('y': 3 of 3 lines by 'line')"


def test_members_of_an_index_are_lines_too() -> None:
    """Rows, each a half of a line; and columns, of which rows 0, 1, 7 are measured."""
    rows = design(by="row", candidates=None, oracle=None, steps=5)
    assert sorted(c.line for c in rows.choices) == [2, 3, 4, 5, 6]
    assert all(c.values == 8 for c in rows.choices) and rows.table.startswith("next lines")
    columns = design(by="col", candidates=None, oracle=None, steps=8)
    assert all(c.values == 5 for c in columns.choices)
    assert sum(c.score or 0.0 for c in columns.choices) == pytest.approx(
        sum(c.score or 0.0 for c in rows.choices), rel=1e-9
    )


def test_labels_of_lines_may_be_text_and_missing() -> None:
    names = np.array([["", "low", "mid", "high", "top"][k] for k in KNOWN.line.reshape(-1)])
    names = names.reshape(8, 8)
    found = design(candidates={"line": names}, steps=3)
    assert {c.line for c in found.choices} == {"mid", "high", "top"}
    numbered = design(steps=3)
    places = {"mid": 2, "high": 3, "top": 4}
    assert [places[str(c.line)] for c in found.choices] == [c.line for c in numbered.choices]
    left_out = np.where(KNOWN.line == 4, np.nan, KNOWN.line)
    assert len(design(candidates={"line": left_out}).lines) == 2


def test_axes_of_candidates_and_values_go_by_their_labels() -> None:
    import xarray as xr

    order = np.array([3, 1, 0, 2, 7, 6, 5, 4])
    names = np.array([f"k{k}" for k in range(8)])

    def shuffled(values: np.ndarray) -> xr.DataArray:
        coords = {"row": names[order], "col": np.arange(8)}
        return xr.DataArray(values[order], dims=("row", "col"), coords=coords)

    data = {"y": KNOWN.measured, "s": KNOWN.sd, "row": names}
    found = design(
        data=data,
        candidates={"line": shuffled(KNOWN.line)},
        oracle={"y": shuffled(KNOWN.y)},
        test={"y": shuffled(KNOWN.spectrum).T},
    )
    plain = design(test={"y": KNOWN.spectrum})
    assert [c.line for c in found.choices] == [c.line for c in plain.choices]
    assert found.course[-1].test_error == pytest.approx(plain.course[-1].test_error, rel=1e-12)
    wrong = shuffled(KNOWN.line).assign_coords(row=[f"j{k}" for k in range(8)])
    with pytest.raises(lgm.DataError) as caught:
        design(data=data, candidates={"line": wrong})
    assert caught.value.codes == ("E302",)


def test_other_methods_and_engines_give_the_same_where_all_is_gaussian() -> None:
    want = design()
    for more in ({"method": "laplace"}, {"method": "ep"}, {"method": "auto"}, {"method": "map"},
                 {"options": {"engine": "iterative"}}, {"outer": 3}):  # fmt: skip
        found = design(**more)
        assert [c.line for c in found.choices] == [c.line for c in want.choices]
        for a, b in zip(found.choices, want.choices, strict=True):
            assert a.score == pytest.approx(b.score, rel=1e-6)
    assert design(score="random", seed=2).choices[0].score is None


def test_logs_of_measurements() -> None:
    """lognormal: Gaussian in the predictor. By hand: independent entries."""
    y = np.array([2.0, np.nan, np.nan, np.nan])
    values = np.array([9.0, 1.0, 2.0, 3.0])
    found = lgm.design_measurements(
        lgm.loads(LOGS), {"y": y}, "pair", {"pair": [0, 0, 1, 1]}, steps=2,
        oracle={"y": values}, test={"y": values},
    )  # fmt: skip
    assert [(c.line, c.values) for c in found.choices] == [(1, 2), (0, 1)]
    assert found.choices[0].score == pytest.approx(np.log(5.0))
    mean = np.log([2.0, 1.0, 2.0, 3.0]) * 0.8
    want = np.sqrt(np.mean((mean - np.log(values)) ** 2))
    assert found.course[-1].test_error == pytest.approx(want, rel=1e-9)


def test_an_interrupt_keeps_the_lines_there_are() -> None:
    def stop(done: int, wanted: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    found = design(steps=3, on_choice=stop)
    assert found.interrupted and len(found.choices) == 2 and "2 of 3 lines" in found.table
    assert [c.line for c in found.choices] == [c.line for c in design().choices]


def test_fits_that_end_early_say_so() -> None:
    found = design(model=model(), outer=1)
    assert "iteration_limit" in found.table


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"score": "uncertainty"}, "E103", "information, random"),
        ({"steps": 4}, "E108", "more than the 3 lines"),
        ({"steps": 0}, "E108", "steps"),
        ({"block": 0}, "E108", "block"),
        ({"outer": 0}, "E108", "outer"),
        ({"by": "lin"}, "E305", "did you mean `line`"),
        ({"by": "line", "candidates": None}, "E305", "names no lines of `y`"),
        ({"data": {"y": KNOWN.y, "s": KNOWN.sd}}, "E305", "anything left to measure"),
        ({"candidates": {"line": np.full((8, 8), np.nan)}}, "E305", "anything left to measure"),
        ({"candidates": {"line": KNOWN.line[:5]}}, "E301", "`line` has the wrong shape"),
        ({"oracle": {"y": KNOWN.y[:5]}}, "E301", "`y` has the wrong shape"),
        ({"oracle": {"z": KNOWN.y}}, "E305", "missing `y`"),
        ({"oracle": {"y": KNOWN.measured}}, "E304", "lacks `y` in 40 entries"),
        ({"oracle": {"y": np.full((8, 8), np.inf)}}, "E303", "infinite"),
        ({"oracle": {"y": np.full((8, 8), "a")}}, "E303", "no numbers"),
        ({"test": {"y": np.full((8, 8), np.nan)}}, "E304", "no value"),
        ({"model": lgm.loads(COUNTS), "data": {"y": [1, np.nan]}}, "E501", "poisson.log_rate"),
        (
            {"model": lgm.loads(TWO), "data": {"y": [1.0, np.nan], "k": [0.0, 1.0]}},
            "E501",
            "`y` and `k`",
        ),
        (
            {
                "model": lgm.loads(SD),
                "data": {"y": [1.0, 2.0, np.nan, np.nan]},
                "by": "obs",
                "oracle": None,
            },
            "E",
            "`s`",
        ),
        ({"model": model(), "method": "map"}, "E501", "no posterior covariance"),
        ({"method": "newton"}, "E103", "newton"),
        ({"options": {"effort": "high"}}, "E104", "effort"),
    ],
)
def test_what_it_refuses(change: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(lgm.LgmError) as caught:
        design(**change)
    assert caught.value.codes[0].startswith(code), str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("sd", [0.0, 1e-200, np.nan, -1.0])
def test_noise_that_has_no_precision(sd: float) -> None:
    """In a row that would be measured."""
    bad = KNOWN.sd.copy()
    bad[3] = sd
    with pytest.raises(lgm.DataError) as caught:
        design(data={"y": KNOWN.measured, "s": bad})
    assert caught.value.codes[0] in ("E303", "E304") and "3" in str(caught.value)


def test_very_small_and_large_units() -> None:
    """Predictor, noise and data in another unit: the same lines and scores."""
    want = design(steps=3)
    text = GAUSSIAN.to_lgm()
    for unit in (1e-20, 1e20):
        scaled = lgm.loads(text.replace("0.7", f"{0.7 * unit}").replace("+ 0.3", f"+ {0.3 * unit}"))
        data = {"y": KNOWN.measured * unit, "s": KNOWN.sd * unit}
        found = design(model=scaled, data=data, steps=3, oracle={"y": KNOWN.y * unit})
        assert [c.line for c in found.choices] == [c.line for c in want.choices]
        for a, b in zip(found.choices, want.choices, strict=True):
            assert a.score == pytest.approx(b.score, rel=1e-9)
