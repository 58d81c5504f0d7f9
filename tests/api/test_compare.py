"""compare: rows, the reference, differences against closed forms, the table, the picture."""

from __future__ import annotations

import builtins
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.compare.compare import _best
from lgmdsl.api.compare.comparison import Compared, difference
from lgmdsl.api.compare.picture import courses, marginals
from lgmdsl.contract.questions import Expected, Pointwise, Tilted
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.inference import registry
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.plot.comparison import window
from lgmdsl_backends.laplace import Laplace
from tests.plugins.acme.acme_lgm import FixedPoint

TEXT = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : {type}
latent b0 ~ normal(sd = 5)
latent w[feat] ~ normal(sd = 2)
let eta[obs] = b0 + X @ w
observe y ~ {family}
"""


def model(type: str = "binary", family: str = "bernoulli(logit = eta)") -> lgm.Model:
    return lgm.loads(TEXT.format(type=type, family=family))


def data(kind: str = "binary") -> dict[str, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 3))
    f = X @ [1.5, -1.0, 0.3] + 0.4
    y = (rng.random(30) < 1 / (1 + np.exp(-f))).astype(int) if kind == "binary" else f
    return {"X": X, "y": y}


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    lgm.register(FixedPoint)
    yield
    registry.unregister(FixedPoint)


TWO = ("laplace", "fixed-point")


@pytest.mark.thorough
def test_rows_are_the_fits() -> None:
    seen: list[tuple[str, TraceEntry]] = []
    found = lgm.compare(model(), data(), TWO, on_step=lambda m, e: seen.append((m, e)))
    assert [r.method for r in found] == list(TWO) and len(found) == 2
    for row in found:
        own = lgm.fit(model(), data(), row.method)
        assert row.fit is not None and row.failure is None and row.converged
        assert row.fit.log_evidence == pytest.approx(own.log_evidence, rel=1e-12)
        assert row.fit.trace == tuple(e for m, e in seen if m == row.method)
    # Both end at the same mode: the second iterates without a line search.
    other = found["fixed-point"].difference
    assert other is not None and other.mean_largest < 1e-4
    assert other.sd_farthest == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(KeyError):
        found["ep"]


@pytest.mark.thorough
def test_every_method_that_runs_is_the_default() -> None:
    found = lgm.compare(model(), data())
    able = lgm.methods(model()).able
    assert tuple(r.method for r in found) == able and {"laplace", "fixed-point"} <= set(able)
    assert set(found.unable) == set(registry.backends()) - set(able)
    assert found.converged


def test_difference_by_hand() -> None:
    base = np.array([0.0, 1.0, 5.0]), np.array([1.0, 2.0, 0.0])
    d = difference((np.array([0.5, 0.0, 9.0]), np.array([0.5, 3.0, 1.0])), base)
    assert d.mean_largest == 0.5 and d.mean_rms == pytest.approx(0.5)  # the fixed one is left out
    assert (d.sd_least, d.sd_median, d.sd_greatest) == (0.5, 1.0, 1.5) and d.sd_farthest == 0.5
    assert difference((base[0], np.array([0.9, 4.0, 0.0])), base).sd_farthest == 2.0
    fixed = np.zeros(2)
    assert np.isnan(difference((fixed, fixed), (fixed, fixed)).mean_largest)


class _Stub:
    def __init__(self, method: str, guarantee: Guarantee, evidence: float, ok: bool = True) -> None:
        self.method, self.guarantee, self.log_evidence, self.converged = (
            method,
            guarantee,
            evidence,
            ok,
        )


def test_the_reference_is_the_most_accurate(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = {"mode": Pointwise, "vg": Expected, "vg2": Expected, "moments": Tilted, "convex": object}
    specs = {
        name: type(
            "B", (), {"spec": type("S", (), {"needs": needs, "evidence": True, "confined": False})}
        )
        for name, needs in asks.items()
    }
    monkeypatch.setattr("lgmdsl.api.compare.compare.backends", lambda: specs)

    def best(*stubs: tuple[Any, ...]) -> str:
        return _best([Compared(s[0], _Stub(*s)) for s in stubs])[0].method  # type: ignore[arg-type]

    lower, free = Guarantee.LOWER, Guarantee.APPROXIMATE
    mode, vg = ("mode", free, -9.0), ("vg", lower, -11.0)
    assert best(mode, vg) == "vg" and best(mode, vg, ("moments", free, -10.0)) == "moments"
    assert best(mode, ("convex", lower, -12.0)) == "convex"
    assert best(vg, ("convex", lower, -10.9)) == "vg"
    assert best(("mode", Guarantee.EXACT, -9.0), ("moments", free, -10.0)) == "mode"
    assert best(vg, ("vg2", lower, -10.5)) == "vg2"  # the higher bound
    assert best(vg, ("vg2", lower, -11.0 + 1e-7)) == "vg"  # equal: the first
    assert best(vg, ("vg2", free, -5.0)) == "vg"  # no honest bound
    assert best(mode, ("vg", lower, -11.0, False)) == "mode"  # one that converged
    assert best(("mode", free, -9.0, False), ("vg", lower, -11.0, False)) == "vg"


@pytest.mark.thorough
def test_one_failing_method_does_not_take_the_others_down() -> None:
    kinked = model("real", "laplace(mean = eta, scale = 1)")
    names = ["laplace", *lgm.methods(kinked).able]
    if len(names) > 1:
        found = lgm.compare(kinked, data("real"), names)
        failure = found["laplace"].failure
        assert failure is not None and failure.code == "E502" and found.converged
        assert "laplace: cannot run this model: laplace has a kink" in found.table
    else:
        with pytest.raises(lgm.MethodError, match="kink"):
            lgm.compare(kinked, data("real"), names)


def test_a_defect_and_numerical_trouble_stay_in_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> object:
        raise ZeroDivisionError("a wire is loose")

    monkeypatch.setattr(FixedPoint, "step", broken)
    found = lgm.compare(model(), data(), TWO)
    assert found.reference == "laplace" and found.fits.keys() == {"laplace"}
    assert "fixed-point: a defect: ZeroDivisionError: a wire is loose" in found.table
    with pytest.raises(ZeroDivisionError):
        lgm.compare(model(), data(), "fixed-point")
    monkeypatch.undo()
    start = FixedPoint.start

    def lost(self: FixedPoint, *rest: Any) -> Any:
        from dataclasses import replace

        return replace(start(self, *rest), failed=Status.numerical_error)

    monkeypatch.setattr(FixedPoint, "start", lost)
    found = lgm.compare(model(), data(), TWO)
    failure = found["fixed-point"].failure
    assert failure is not None and failure.code == "E601" and found["laplace"].converged
    with pytest.raises(lgm.NumericalError, match=r"or take another method: .*laplace"):
        lgm.compare(model(), data(), ["fixed-point"])


def test_interruption_ends_what_comes_after(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Laplace, "step", interrupted)
    found = lgm.compare(model(), data(), TWO)
    assert found["laplace"].fit is not None and not found.converged
    assert found["laplace"].fit.status is Status.interrupted
    assert found["fixed-point"].failure is not None
    assert found["fixed-point"].failure.code == "interrupted"
    monkeypatch.undo()
    monkeypatch.setattr(FixedPoint, "start", interrupted)
    assert lgm.compare(model(), data(), TWO)["laplace"].converged
    with pytest.raises(KeyboardInterrupt):
        lgm.compare(model(), data(), TWO[::-1])


def test_wrong_words_are_said_before_the_work() -> None:
    def never(method: str, entry: TraceEntry) -> None:
        raise AssertionError("nothing may run")

    for methods, options, said in (
        (["laplace", "fixed-pont"], None, "did you mean `fixed-point`"),
        (TWO, {"fixed-point": {"dampin": 1.0}}, "did you mean `damping`"),
        (["laplace"], {"fixed-point": {"damping": 1.0}}, "which is not compared"),
    ):
        with pytest.raises(lgm.MethodError, match=said):
            lgm.compare(model(), data(), methods, options=options, on_step=never)
    with pytest.raises(TypeError):
        lgm.compare(3, data())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        lgm.compare(model(), data(), [])
    with pytest.raises(lgm.DataError):
        lgm.compare(model(), {"X": np.zeros((3, 2))})
    with pytest.raises(lgm.MethodError, match="E504"):
        lgm.compare(model(), data(), ["laplace"], bound="jaakkola")


@pytest.mark.thorough
def test_options_and_doubles() -> None:
    quick = lgm.compare(model(), data(), TWO)
    slow = lgm.compare(
        model(),
        data(),
        ("laplace", "fixed-point", "laplace"),
        options={"fixed-point": {"damping": "0.3"}},
    )
    assert len(slow) == 2
    assert slow.fits["fixed-point"].steps > 2 * quick.fits["fixed-point"].steps
    auto = lgm.compare(model(), data(), "auto")
    assert auto.reference == lgm.fit(model(), data()).method


def test_the_table() -> None:
    found = lgm.compare(model(), data(), max_steps=2)
    text = str(found)
    assert text == found.table and max(map(len, text.splitlines())) <= 80
    for row in found:
        line = next(x for x in text.splitlines() if x.startswith(row.method))
        assert row.fit is not None
        shown = line.removeprefix(row.method).split()[0]
        assert shown == ("-" if row.method == "map" else f"{row.fit.log_evidence:.4f}")
    assert "no method converged" in text and "step limit" in text and "raise max_steps" in text
    assert f"reference   {found.reference} (" in text
    assert " off " not in lgm.compare(model(), data(), "laplace").table


def test_plain_values() -> None:
    import json

    found = lgm.compare(model(), data(), TWO)
    plain = found.as_json()
    assert json.loads(json.dumps(plain)) == plain
    first = plain["methods"][0]  # type: ignore[index]
    assert first["method"] == "laplace" and first["guarantee"] == "approximate"
    assert first["trace"]["objective"][-1] == pytest.approx(first["log_evidence"])
    assert first["mean_difference"] == {"largest": 0.0, "rms": 0.0} and first["error"] is None
    assert first["sd_ratio"] == {"least": 1.0, "median": 1.0, "greatest": 1.0}


@pytest.mark.thorough
def test_the_picture(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    before = dict(matplotlib.rcParams)
    found = lgm.compare(model(), data(), TWO)
    for name, head in (("c.png", b"\x89PNG"), ("c.svg", b"<?xml"), ("c.PDF", b"%PDF")):
        found.plot(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(head)
    assert dict(matplotlib.rcParams) == before
    assert found.picture("svg") == found.picture("svg")  # the same fits, the same bytes
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(found.picture()))
    assert pixels.shape[1] > 1200 and len(np.unique(pixels[..., :3].reshape(-1, 3), axis=0)) > 50
    for bad in ("c.txt", "nowhere/c.png"):
        with pytest.raises(lgm.DataError, match="E306"):
            found.plot(tmp_path / bad)


@pytest.mark.thorough
def test_labels_may_hold_anything(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = (
        "lgm 1\nindex who\ndata y[who] : real\nlatent u[who] ~ normal(sd = 1)\n"
        "observe y ~ normal(mean = u, sd = 1)\n"
    )
    names = np.array(["$x_{", "名前", "\\frac", "a" * 80])
    found = lgm.compare(lgm.loads(text), {"who": names, "y": np.arange(4.0)}, TWO)
    found.plot(tmp_path / "c.png")
    assert {m.title for m in marginals(found)} == {f"u[{n}]" for n in names}


def test_what_the_picture_shows() -> None:
    found = lgm.compare(model(), data(), TWO)
    drawn = courses(found)
    assert drawn[0].method == found.reference and drawn[0].target == drawn[0].objective[-1]
    shown = marginals(found, 3)
    assert len(shown) == 3 and "b0" in [m.title for m in shown]
    fit = found["fixed-point"].fit
    assert fit is not None
    for m in shown:
        if m.title.startswith("w["):
            k = int(m.title[2:-1])
            want = float(fit.mean("w")[k]), float(fit.sd("w")[k])
            assert m.moments["fixed-point"] == pytest.approx(want)


def test_starts_far_below_are_cut_off() -> None:
    low, high = window([np.array([-1e6, -200.0, -100.0]), np.array([-150.0, -99.0])])
    assert -115 < low < -100 and -99 < high < -95
    low, high = window([np.array([-100.5, -100.0])])
    assert low < -100.5 and high > -100
    low, high = window([np.array([0.0, 0.0])])
    assert low < 0 < high


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lgm.compare(model(), data(), "laplace")
    monkeypatch.setattr("lgmdsl.plot.canvas.find_spec", lambda name: None)
    with pytest.raises(lgm.MethodError, match=r"lgmdsl\[plot\]"):
        found.picture()


def test_comparing_imports_no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    true = builtins.__import__

    def watched(name: str, *rest: Any, **more: Any) -> Any:
        assert not name.startswith("matplotlib")
        return true(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", watched)
    assert lgm.compare(model(), data(), TWO).table
