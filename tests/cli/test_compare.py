"""`lgm compare`: the table, JSON, the picture, exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from lgmdsl.inference import registry
from lgmdsl_backends.laplace import Laplace
from tests.cli.conftest import Run
from tests.plugins.acme.acme_lgm import FixedPoint

FIELDS = {
    "method", "status", "guarantee", "log_evidence", "steps", "seconds", "mean_difference",
    "sd_ratio", "trace", "error",
}  # fmt: skip
TWO = ("--set", "s=2", "--method", "laplace", "--method", "fixed-point")


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._backends, "fixed-point", FixedPoint)


def test_table(run: Run, model: Path, data: Path) -> None:
    done = run("compare", model, data, *TWO)
    assert done.status == 0 and done.err == ""
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [x.split()[0] for x in lines[2:4]] == ["laplace", "fixed-point"]
    assert "reference   laplace (it knows the mode only)" in done.out


@pytest.mark.thorough
def test_every_method(run: Run, model: Path, data: Path) -> None:
    able = [m["method"] for m in run("methods", model, "--json").json["methods"] if m["runs"]]
    found = run("compare", model, data, "--set", "s=2", "--json").json
    assert [m["method"] for m in found["methods"]] == able


def test_json(run: Run, model: Path, data: Path) -> None:
    done = run("compare", model, data, *TWO, "--json", "--option", "fixed-point.damping=0.5")
    found = done.json
    assert done.status == 0 and found["schema"] == 1 and found["reference"] == "laplace"
    assert all(set(m) == FIELDS for m in found["methods"])
    own = run("fit", model, data, "--set", "s=2", "--method", "laplace", "--json").json
    assert found["methods"][0]["log_evidence"] == own["log_evidence"]
    first, second = (m["trace"]["seconds"] for m in found["methods"])
    assert len(first) < len(second)  # damped by half


def test_picture(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    place = tmp_path / "c.png"
    done = run("compare", model, data, *TWO, "--plot", place)
    assert done.status == 0 and done.err == f"{place}: written\n"
    assert place.read_bytes().startswith(b"\x89PNG") and list(tmp_path.glob(".c*")) == []
    for bad in (tmp_path / "nowhere" / "c.png", tmp_path / "c.jpg", tmp_path):
        done = run("compare", model, data, *TWO, "--plot", bad)
        assert done.status == 1 and "E306" in done.err and done.out == ""


def test_none_converged(run: Run, model: Path, data: Path) -> None:
    done = run("compare", model, data, *TWO, "--max-steps", "1")
    assert done.status == 3 and "step limit" in done.out and "no method converged" in done.out


def test_one_converged(run: Run, model: Path, data: Path) -> None:
    slow = ("--option", "fixed-point.damping=1e-3")
    done = run("compare", model, data, *TWO, *slow)
    assert done.status == 0 and "fixed-point: stopped at the step limit" in done.out
    alone = run("compare", model, data, "--set", "s=2", "--method", "fixed-point", *slow)
    assert alone.status == 3


def test_none_can_run(run: Run, model: Path, data: Path) -> None:
    text = model.read_text().replace("binary", "real").replace("report  p[obs] = invlogit(eta)", "")
    model.write_text(text.replace("bernoulli(logit = eta)", "laplace(mean = eta, scale = 1)"))
    done = run("compare", model, data, "--set", "s=2", "--method", "laplace")
    assert done.status == 1 and done.out == "" and "E502" in done.err
    done = run("compare", model, data, "--set", "s=2", "--method", "laplace", "--json")
    assert done.status == 1 and done.json["errors"][0]["code"] == "E502"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--hyper", "fixed"), 1, "E503"),
        (("--set", "s=2", "--method", "laplce"), 1, "did you mean `laplace`"),
        (("--set", "s=2", "--option", "fixed-point.dampin=1"), 1, "did you mean `damping`"),
        (("--set", "s=2", "--option", "damping=1"), 2, "METHOD.NAME=VALUE"),
        (("--set", "s=2", "--option", "none.x=1"), 1, "not compared"),
        (("--set", "s=2", "--bound", "nothing"), 1, "`nothing`"),
        (("--set", "s=2", "--method", "laplace", "--bound", "jaakkola"), 1, "E504"),
        (("--tol", "0"), 2, "--tol"),
        (("--tol", "nan"), 2, "--tol"),
        (("--hyper", "vb", "--method", "laplace"), 1, "no lower bound"),
    ],
)
def test_wrong_words(
    run: Run, model: Path, data: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    done = run("compare", model, data, *arguments)
    assert done.status == status and said in done.err and done.out == ""


def test_interrupted(run: Run, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(FixedPoint, "start", interrupted)
    done = run("compare", model, data, *TWO)
    assert done.status == 130 and "converged" in done.out and "interrupted" in done.out
    monkeypatch.setattr(Laplace, "start", interrupted)
    done = run("compare", model, data, *TWO)
    assert done.status == 130 and done.out == ""


def test_warnings_are_said_once(run: Run, tmp_path: Path) -> None:
    import numpy as np

    model, data = tmp_path / "t.lgm", tmp_path / "t.npz"
    model.write_text(
        "lgm 1\nindex i\ndata y[i] : real\nlatent u ~ normal(sd = 5)\nlet s[i] = u\n"
        "observe y ~ student_t(mean = s, scale = 0.2, df = 2)\n"
    )
    np.savez(data, y=np.array([-3.0, -2.9, -2.8, 3.1, 3.2, 3.3]))
    done = run("compare", model, data, "--method", "laplace", "--method", "cholesky")
    assert done.status == 0 and done.err.count("W602") == 1
