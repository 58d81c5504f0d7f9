"""`lgm calibrate`: exit statuses, the table, JSON, the record, the picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.test_calibrate import GAUSSIAN, Narrow
from tests.cli.conftest import Run

SMALL = ("--sizes", "obs=6,feat=2", "--method", "laplace", "--jobs", "1")


@pytest.fixture
def gaussian(tmp_path: Path) -> Path:
    place = tmp_path / "gaussian.lgm"
    place.write_text(GAUSSIAN)
    return place


@pytest.mark.thorough
def test_a_table_and_a_verdict(run: Run, gaussian: Path) -> None:
    done = run("calibrate", gaussian, *SMALL, "--runs", 60)
    assert done.status == 0 and done.err == ""
    assert done.out.splitlines()[0] == "calibration of laplace, seed 0"
    assert done.out.splitlines()[-1].startswith("calibrated: in 60 runs")


@pytest.mark.thorough
def test_a_fault_is_status_3(run: Run, gaussian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lgmdsl.inference import registry

    monkeypatch.setitem(registry._backends, "narrow", Narrow)
    done = run("calibrate", gaussian, *SMALL, "--method", "narrow", "--runs", 150, "--json")
    assert done.status == 3
    found = done.json
    assert found["schema"] == 1 and found["calibrated"] is False
    assert len(found["quantities"]["b[.]"]["values"]) == 150


@pytest.mark.thorough
def test_record_and_picture(run: Run, gaussian: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    kept, drawn = tmp_path / "r.jsonl", tmp_path / "e.png"
    first = run("calibrate", gaussian, *SMALL, "--runs", 25, "--record", kept, "--plot", drawn)
    assert first.err == f"{drawn}: written\n" and drawn.read_bytes().startswith(b"\x89PNG")
    before = kept.read_bytes()
    again = run("calibrate", gaussian, *SMALL, "--runs", 25, "--record", kept)
    assert again.out == first.out and kept.read_bytes() == before
    other = run("calibrate", gaussian, *SMALL, "--runs", 25, "--record", kept, "--seed", 1)
    assert other.status == 1 and "(seed differs)" in other.err


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--runs", "0"), 2, "--runs"),
        (("--sizes", "obs=x"), 2, "not a whole number"),
        (("--sizes", "obs=x"), 2, "lgm calibrate --help says more"),
        (("--sizes", "obs=6", "--record", "runs.txt"), 1, "E306"),
        (("--sizes", "obs=6", "--method", "nothing"), 1, "E103"),
        (("--sizes", "obs=6", "--runs", "5"), 0, ""),
        ((), 1, "E305"),
    ],
)
def test_what_it_refuses(
    run: Run, gaussian: Path, options: tuple[str, ...], status: int, said: str
) -> None:
    done = run("calibrate", gaussian, "--sizes", "feat=2", "--jobs", "1", *options)
    assert done.status == status and said in done.err
