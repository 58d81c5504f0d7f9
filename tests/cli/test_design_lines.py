"""`lgm design --by`: lines of measurements from files, exit statuses, what is wrong usage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.acquisition.images import image, model
from tests.cli.conftest import Run

KNOWN = image(8)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "m.lgm").write_text(model(potentials=False).to_lgm())
    np.savez(tmp_path / "d.npz", y=KNOWN.measured, s=KNOWN.sd)
    np.savez(tmp_path / "lines.npz", line=KNOWN.line)
    np.savez(tmp_path / "scan.npz", y=KNOWN.y)
    np.savez(tmp_path / "truth.npz", y=KNOWN.spectrum)
    return tmp_path


def arguments(at: Path, *more: str) -> list[str]:
    lines = ("--candidates", str(at / "lines.npz"), "--by", "line")
    return ["design", str(at / "m.lgm"), str(at / "d.npz"), *lines, *more]


def test_with_an_oracle(run: Run, files: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = files / "e.png"
    more = ("--steps", "3", "--block", "2", "--oracle", str(files / "scan.npz"),
            "--test", str(files / "truth.npz"))  # fmt: skip
    done = run(*arguments(files, *more, "--plot", str(drawn)))
    assert done.status == 0 and done.err == f"{drawn}: written\n"
    assert done.out.startswith("lines by information: 24 values of `y` measured, 3 lines")
    assert done.out.splitlines()[-1].split()[0] == "64"
    assert drawn.read_bytes().startswith(b"\x89PNG")
    found = run(*arguments(files, *more, "--json")).json
    assert found["schema"] == 1 and [p["lines"] for p in found["course"]] == [0, 2, 3]
    assert set(found["choices"][0]) == {"choice", "line", "values", "score", "computed"}


def test_by_an_index_without_candidates(run: Run, files: Path) -> None:
    done = run("design", str(files / "m.lgm"), str(files / "d.npz"), "--by", "row")
    assert done.status == 0 and done.out.startswith("next lines by information")
    assert len(done.out.splitlines()) == 8  # one line by default
    more = ("--method", "laplace", "--option", "engine=iterative", "--score", "random",
            "--seed", "1", "--outer", "2")  # fmt: skip
    other = run("design", str(files / "m.lgm"), str(files / "d.npz"), "--by", "row", *more)
    assert other.status == 0 and " -\n" in other.out


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        (("--steps", "4"), 1, "more than the 3 lines"),
        (("--score", "uncertainty"), 1, "E103"),
        (("--by", "lins"), 1, "E305"),
        (("-o", "r.jsonl"), 2, "leave it out with --by"),
        (("--plot", "e.png"), 2, "--test"),
        (("--option", "effort=high"), 1, "E104"),
        (("--method", "newtn"), 1, "E103"),
        (("--set", "s=1"), 1, "E"),
    ],
)
def test_what_it_refuses(
    run: Run, files: Path, more: tuple[str, ...], status: int, said: str
) -> None:
    done = run(*arguments(files, *more))
    assert done.status == status and said in done.err, done.err
    assert done.out == ""


@pytest.mark.parametrize("more", [("--method", "ep"), ("--option", "engine=sparse")])
def test_options_of_lines_for_cases(run: Run, files: Path, more: tuple[str, ...]) -> None:
    pool = ("--candidates", str(files / "lines.npz"))
    done = run("design", str(files / "m.lgm"), str(files / "d.npz"), *pool, *more)
    assert done.status == 2 and more[0] in done.err and "--by" in done.err
