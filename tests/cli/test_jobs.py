"""`--jobs`, `--cluster` and `--scheduler-file`: the same output, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from lgmdsl.workers import opened
from lgmdsl.workers.opened import GivenExecutor
from tests.cli.conftest import Run
from tests.workers.models import BINARY


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Threads in the place of whatever is asked for, which is kept."""
    asked: list[object] = []
    with ThreadPoolExecutor(2) as executor:

        def crew(jobs: object) -> GivenExecutor:
            asked.append(jobs)
            return GivenExecutor(executor)

        monkeypatch.setattr(opened, "_crew", crew)
        yield asked


@pytest.mark.thorough
def test_commands_print_the_same_with_workers(
    run: Run, model: Path, data: Path, tmp_path: Path, threads: list[object]
) -> None:
    """Times aside."""
    saved = tmp_path / "fit.nc"
    fit = ("fit", model, data, "--method", "laplace", "--json")
    plain, shared = (run(*fit, *more).json for more in ((), ("--jobs", "2", "-o", saved)))
    for fields in (plain, shared):
        del fields["seconds"]
    assert plain == shared
    compare = ("compare", model, data, "--method", "laplace", "--method", "ep", "--json")
    address = ("--cluster", "tcp://127.0.0.1:8786")
    one, other = (run(*compare, *more).json for more in ((), address))
    evidences = [[m["log_evidence"] for m in found["methods"]] for found in (one, other)]
    assert evidences[0] == evidences[1] and len(evidences[0]) == 2
    file = tmp_path / "scheduler.json"
    file.write_text('{"address": "tls://127.0.0.1:8786"}')
    criteria = ("summary", saved, "--criteria", "--exact", "--data", data)
    pages = [run(*criteria, *more) for more in ((), ("--scheduler-file", file))]
    assert pages[0] == pages[1] and pages[0].status == 0
    assert threads == [2, "tcp://127.0.0.1:8786", "tls://127.0.0.1:8786"]


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--jobs", "0"), 2, "--jobs"),
        (("--jobs", "2", "--cluster", "tcp://h:1"), 2, "take one of --jobs and --cluster"),
        (("--cluster", "host:8786"), 2, "--cluster takes an address like tcp://host:8786"),
        (("--scheduler-file", "nowhere.json"), 1, "E702"),
    ],
)
def test_what_is_refused(
    run: Run, model: Path, data: Path, options: tuple[str, ...], status: int, said: str
) -> None:
    done = run("fit", model, data, *options)
    assert done.status == status and said in done.err


def test_options_of_leave_one_out_want_criteria(run: Run, tmp_path: Path) -> None:
    for option in (("--exact",), ("--jobs", "2"), ("--exact", "--audit")):
        done = run("summary", tmp_path / "fit.nc", *option)
        assert done.status == 2 and "only with --criteria" in done.err


@pytest.mark.thorough
def test_audits_and_designs_print_the_same_with_workers(
    run: Run, model: Path, data: Path, tmp_path: Path, threads: list[object]
) -> None:
    saved = tmp_path / "fit.nc"
    audited = ("fit", model, data, "--method", "laplace", "--audit", "--draws", "200", "--json")
    plain, shared = (run(*audited, *more).json for more in ((), ("--jobs", "2", "-o", saved)))
    assert plain["audit"] == shared["audit"]
    again = ("summary", saved, "--audit", "--draws", "200", "--data", data)
    pages = [run(*again, *more) for more in ((), ("--jobs", "3"))]
    assert pages[0] == pages[1] and pages[0].status == 0
    rng, text = np.random.default_rng(0), tmp_path / "binary.lgm"
    text.write_text(BINARY)
    rows, pool = rng.normal(size=(20, 3)), rng.normal(size=(5000, 3))
    np.savez(tmp_path / "rows.npz", X=rows, y=rows[:, 0] > 0)
    np.savez(tmp_path / "pool.npz", X=pool)
    design = (
        "design", text, tmp_path / "rows.npz", "--candidates", tmp_path / "pool.npz",
        "--steps", "3", "--score", "information", "--json",
    )  # fmt: skip
    one, other = (run(*design, *more) for more in ((), ("--jobs", "4")))
    assert one.json == other.json and one.status == 0
    assert threads == [2, 2, 3, 4]


def test_codes_of_workers_are_explained(run: Run) -> None:
    """With what to do."""
    remedies = {
        "E701": "--jobs 2",
        "E702": "dask scheduler",
        "E703": "/shared/",
        "E704": "pip install",
    }
    for code, remedy in remedies.items():
        page = run("help", code).out
        assert f"{code} (workers)" in page and remedy in page.partition("Right:")[2]
