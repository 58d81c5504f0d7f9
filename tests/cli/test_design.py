"""`lgm design`: exit statuses, the page, JSON, the record, the picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.acquisition.pools import MODELS, small
from tests.cli.conftest import Run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    made = small("laplace", candidates=30)
    (tmp_path / "m.lgm").write_text(MODELS["laplace"])
    for name, arrays in (
        ("d", made.data),
        ("pool", made.candidates),
        ("oracle", made.oracle),
        ("test", made.test),
    ):
        np.savez(tmp_path / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    return tmp_path


def arguments(at: Path, *more: str) -> list[str]:
    pool = str(at / "pool.npz")
    return ["design", str(at / "m.lgm"), str(at / "d.npz"), "--candidates", pool, *more]


def test_with_an_oracle(run: Run, files: Path) -> None:
    oracle = str(files / "oracle.npz")
    asked = arguments(files, "--steps", "4", "--block", "2", "--oracle", oracle)
    done = run(*asked)
    assert done.status == 0 and done.err == ""
    assert done.out.startswith("queries by uncertainty: 25 labelled cases, 30 candidates\n")
    assert done.out.splitlines()[-1].split()[0] == "29"
    found = run(
        *arguments(files, "--steps", "4", "--block", "2", "--oracle", oracle, "--json")
    ).json
    assert found["schema"] == 1 and len(found["queries"]) == 4
    assert [p["labels"] for p in found["course"]] == [25, 27, 29]
    assert set(found["queries"][0]) == {"query", "row", "case", "score", "probability", "label"}


def test_without_one(run: Run, files: Path) -> None:
    done = run(*arguments(files, "--score", "information", "--steps", "3"))
    assert done.status == 0 and done.out.startswith("next queries by information")
    found = run(*arguments(files, "--score", "random", "--seed", "4", "--json")).json
    assert len(found["queries"]) == 20
    assert found["queries"][0]["score"] is None and found["queries"][0]["label"] is None


def test_record_and_picture(run: Run, files: Path) -> None:
    pytest.importorskip("matplotlib")
    record, drawn = files / "r.jsonl", files / "e.png"
    more = ("--steps", "5", "--block", "2", "--oracle", str(files / "oracle.npz"),
            "--test", str(files / "test.npz"), "-o", str(record))  # fmt: skip
    first = run(*arguments(files, *more, "--plot", str(drawn)))
    assert first.status == 0 and first.err == f"{drawn}: written\n"
    assert drawn.read_bytes().startswith(b"\x89PNG")
    before = record.read_bytes()
    again = run(*arguments(files, *more))
    assert again.out == first.out and record.read_bytes() == before
    other = run(*arguments(files, *more, "--seed", "1"))
    assert other.status == 1 and "(seed differs)" in other.err


def test_fewer_steps_of_a_record_end_well(run: Run, files: Path) -> None:
    more = ("--block", "4", "--oracle", str(files / "oracle.npz"), "-o", str(files / "r.jsonl"))
    whole = run(*arguments(files, "--steps", "14", *more, "--json")).json
    fewer = run(*arguments(files, "--steps", "5", *more, "--json"))
    assert fewer.status == 0 and not fewer.json["interrupted"]
    assert fewer.json["queries"] == whole["queries"][:5]


def test_an_interrupt(run: Run, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lgmdsl.acquisition.candidates import PoolMarginals

    joined = PoolMarginals.join
    count = iter(range(100))

    def stopping(self: PoolMarginals, number: int, label: float | None) -> float:
        if next(count) == 3:
            raise KeyboardInterrupt
        return joined(self, number, label)

    monkeypatch.setattr(PoolMarginals, "join", stopping)
    done = run(*arguments(files, "--steps", "5"))
    assert done.status == 130 and "interrupted after 3 of 5 queries" in done.out


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        (("--steps", "0"), 2, "--steps"),
        (("--steps", "31"), 1, "E108"),
        (("--score", "entropy"), 1, "E103"),
        (("--plot", "e.png"), 2, "--test"),
        (("-o", "r.txt"), 1, "E306"),
        (("--oracle", "none.npz"), 1, "E306"),
        (("--set", "s=1"), 1, "E"),
    ],
)
def test_what_it_refuses(
    run: Run, files: Path, more: tuple[str, ...], status: int, said: str
) -> None:
    done = run(*arguments(files, *more))
    assert done.status == status and said in done.err, done.err
    assert done.out == ""


def test_it_needs_candidates(run: Run, files: Path) -> None:
    done = run("design", files / "m.lgm", files / "d.npz")
    assert done.status == 2 and "--candidates" in done.err
