"""The formatter as a command: in place, whole or not at all, permissions and links kept."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Run

UGLY = "lgm 1\nindex   a # the units\n\nlatent u[a]~normal(sd=1)\n"
NEAT = "lgm 1\nindex a  # the units\n\nlatent u[a] ~ normal(sd = 1)\n"


def test_in_place(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "u.lgm"
    path.write_text(UGLY)
    path.chmod(0o640)
    assert run("fmt", "--check", path).status == 1 and path.read_text() == UGLY
    done = run("fmt", path)
    assert done.status == 0 and done.out == "" and path.read_text() == NEAT
    assert path.stat().st_mode & 0o777 == 0o640
    assert run("fmt", "--check", path).status == 0
    assert [p.name for p in tmp_path.iterdir()] == ["u.lgm"]


def test_check_lists_the_files(run: Run, tmp_path: Path) -> None:
    one, two = tmp_path / "one.lgm", tmp_path / "two.lgm"
    one.write_text(UGLY)
    two.write_text(NEAT)
    done = run("fmt", "--check", one, two)
    assert done.status == 1 and done.out == f"{one}\n"


def test_link_stays_a_link(run: Run, tmp_path: Path) -> None:
    target, link = tmp_path / "target.lgm", tmp_path / "link.lgm"
    target.write_text(UGLY)
    link.symlink_to(target)
    assert run("fmt", link).status == 0
    assert link.is_symlink() and target.read_text() == NEAT


def test_errors_leave_the_file(run: Run, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.lgm", tmp_path / "good.lgm"
    bad.write_text("lgm 1\nlatent u[ ~ normal(\n")
    good.write_text(UGLY)
    done = run("fmt", bad, good)
    assert done.status == 1 and "error[E109]" in done.err
    assert bad.read_text() == "lgm 1\nlatent u[ ~ normal(\n" and good.read_text() == NEAT


def test_a_failed_write_leaves_the_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "u.lgm"
    path.write_text(UGLY)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    done = run("fmt", path)
    assert done.status == 1 and "no space left" in done.err
    assert path.read_text() == UGLY and [p.name for p in tmp_path.iterdir()] == ["u.lgm"]


def test_stdin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))

    feed(UGLY.encode())
    assert run("fmt", "-").out == NEAT
    feed(UGLY.encode())
    assert run("fmt", "--check", "-").status == 1
    feed(b"lgm 1\n\xff\n")
    done = run("fmt", "-")
    assert done.status == 1 and "E306" in done.err


def test_a_comment_stays_with_the_last_statement_of_its_line(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "m.lgm"
    place.write_text("lgm 1 index obs latent b ~ normal(sd = 1) # of b\nindex g", "utf-8")
    assert run("fmt", place).status == 0
    lines = place.read_text("utf-8").splitlines()
    assert lines[0] == "lgm 1" and "latent b ~ normal(sd = 1)  # of b" in lines
