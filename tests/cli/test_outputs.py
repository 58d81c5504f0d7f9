"""No command loses a file: the output is written whole or not at all, and never over an input."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from tests.cli.conftest import Run
from tests.cli.output_commands import CALLS, PLOTS, Call, make_inputs
from tests.processes import environment, python


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "files"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def needs(call: Call) -> None:
    if call.option in PLOTS:
        pytest.importorskip("matplotlib")


def filled(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.few(10)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_full_disk_leaves_the_old_file(
    call: Call, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(call)
    old = folder / call.output
    old.parent.mkdir(exist_ok=True)
    old.write_bytes(b"" if call.output.endswith("jsonl") else b"old")
    before = contents(folder)
    monkeypatch.setattr(os, "fsync", filled)
    done = run(*call.arguments(folder))
    assert done.status == 1
    name = str(old).lower()
    assert "E306" in done.err and name in done.err.lower() and "no space left" in done.err
    assert contents(folder) == before
    monkeypatch.undo()
    done = run(*call.arguments(folder))
    assert done.status in (0, 3), done.err
    assert contents(folder)[call.output] != before[call.output]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_json_says_why_nothing_is_written(
    call: Call, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if call.command == "graph":
        return  # its JSON is never written to a file
    needs(call)
    monkeypatch.setattr(os, "fsync", filled)
    done = run(*call.arguments(folder), "--json")
    assert done.status == 1
    assert [e["code"] for e in done.json["errors"]] == ["E306"]


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symlink", "hard link"])
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_an_input_is_never_the_output(
    call: Call,
    link: Callable[[Path, Path], None],
    run: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under whatever name: the output's own name leads to the input by a link."""
    needs(call)
    monkeypatch.setattr("lgmdsl.api.fit.compiled.solve", filled)  # refused before there is any work
    output = folder / call.output
    output.parent.mkdir(exist_ok=True)
    for name in call.inputs:
        link(folder / name, output)
        before = contents(folder)
        done = run(*call.arguments(folder))
        assert done.status == 1 and f"error[E306]: cannot write `{output}`: it is the" in done.err
        assert "= help: name another" in done.err and done.out == ""
        assert contents(folder) == before
        output.unlink()


def test_the_data_under_their_own_name(run: Run, folder: Path) -> None:
    before = contents(folder)
    done = run(
        "simulate",
        folder / "m.lgm",
        folder / "d.npz",
        "--set",
        "s=1",
        "-o",
        folder / ".." / "files" / "d.npz",
    )
    assert done.status == 1 and "it is the data" in done.err and contents(folder) == before


def test_stdin_is_an_input_too(folder: Path) -> None:
    place = folder / "m.txt"
    place.write_bytes((folder / "m.lgm").read_bytes())
    with place.open("rb") as stream:
        done = lgm("graph", "-", "-o", str(place), stdin=stream)
    assert done.returncode == 1 and "it is the model" in done.stderr
    assert place.read_bytes() == (folder / "m.lgm").read_bytes()


def test_two_outputs_are_two_files(run: Run, folder: Path) -> None:
    (folder / "runs.jsonl").symlink_to(folder / "out.png")
    done = run(
        "calibrate",
        folder / "m.lgm",
        folder / "d.npz",
        "--set",
        "s=1",
        "--plot",
        folder / "out.png",
        "--record",
        folder / "runs.jsonl",
    )
    assert done.status == 1 and "it is the record" in done.err
    assert not (folder / "out.png").exists()


@pytest.mark.few(3)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_link_stays_a_link(call: Call, run: Run, folder: Path) -> None:
    needs(call)
    output, other = folder / call.output, folder / "elsewhere" / "target"
    output.parent.mkdir(exist_ok=True)
    other.parent.mkdir()
    output.symlink_to(other)  # to a file that is not there yet
    for _ in range(2):
        assert run(*call.arguments(folder)).status in (0, 3)
        assert output.is_symlink() and os.readlink(output) == str(other)
        assert other.stat().st_size > 0 and os.listdir(other.parent) == ["target"]


@pytest.mark.parametrize("call", [c for c in CALLS if c.option != "--out"], ids=str)
def test_places_that_take_no_file_are_refused_first(
    call: Call, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(call)
    monkeypatch.setattr("lgmdsl.api.fit.compiled.solve", filled)
    ending = Path(call.output).suffix
    (folder / f"folder{ending}").mkdir()
    os.mkfifo(folder / f"pipe{ending}")
    (folder / f"lost{ending}").symlink_to(folder / "nowhere" / "x")
    (folder / f"circle{ending}").symlink_to(folder / f"circle{ending}")
    for name, reason in (
        ("nowhere/x", "there is no folder"),
        ("folder", "it is a folder"),
        ("pipe", "it is a pipe"),
        ("lost", "there is no folder"),
        ("circle", "leads to itself"),
    ):
        done = run(*call.arguments(folder, f"{name}{ending}"))
        assert done.status == 1 and "E306" in done.err and reason in done.err, name
        assert done.out == ""
    where = call.arguments(folder)
    where[where.index(call.option) + 1] = ""
    done = run(*where)
    assert done.status == 1 and "error[E306]: cannot write ``: it is a folder" in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_takes_nothing(run: Run, folder: Path) -> None:
    (folder / "shut").mkdir(mode=0o555)
    done = run(*CALLS[0].arguments(folder, "shut/out.nc"))
    assert done.status == 1 and "may not write there" in done.err


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_pipes_and_devices_are_no_input(call: Call, run: Run, folder: Path) -> None:
    """Opening a pipe waits for a writer for ever, so it must not be opened."""
    needs(call)
    for name in call.inputs:
        (folder / name).rename(folder / "kept")
        os.mkfifo(folder / name)
        done = run(*call.arguments(folder))
        assert done.status == 1 and "a pipe" in done.err, name
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/zero")
        done = run(*call.arguments(folder))
        assert done.status == 1 and "a device" in done.err, name
        (folder / name).unlink()
        (folder / "kept").rename(folder / name)


def test_formatting_a_pipe_or_on_a_full_disk(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.lgm", "b.lgm"):
        (folder / name).write_text("lgm 1\nindex   a\n")
    os.mkfifo(folder / "pipe.lgm")
    done = run("fmt", folder / "pipe.lgm", folder / "a.lgm")
    assert done.status == 1 and "it is a pipe" in done.err
    assert (folder / "a.lgm").read_text() == "lgm 1\nindex a\n"
    monkeypatch.setattr(os, "fsync", filled)
    done = run("fmt", folder / "b.lgm", folder / "a.lgm")
    assert done.status == 1 and "no space left" in done.err
    assert (folder / "b.lgm").read_text() == "lgm 1\nindex   a\n"
    done = run("fmt", "--json", folder / "b.lgm")
    assert done.status == 1 and done.json["files"][0]["errors"][0]["code"] == "E306"


def lgm(
    *arguments: str, stdin: IO[bytes] | int | None = None, before: str = ""
) -> subprocess.CompletedProcess[str]:
    """`lgm` in a process of its own, after some Python."""
    program = f"import sys\n{before}\nfrom lgmdsl.cli.main import main\nsys.exit(main())\n"
    # With files that end at 8 kB Python would leave such modules compiled.
    env = environment(PYTHONDONTWRITEBYTECODE="1")
    return python("-c", program, *arguments, stdin=stdin, timeout=300, env=env)


SHORT = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))"


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_file_that_ends_half_way_does_not_end_the_process(
    arguments: list[str], folder: Path
) -> None:
    """The system takes 8 kB of the result file and no more. (HDF5 used to crash, signal 11.)"""
    call = CALLS[0]
    before = contents(folder)
    done = lgm(*call.arguments(folder), *arguments, before=SHORT)
    assert done.returncode == 1
    if arguments:
        page = json.loads(done.stdout)
        assert page["status"] == "converged" and page["errors"][0]["code"] == "E306"
    else:
        assert "log evidence" in done.stdout and "error[E306]: cannot write" in done.stderr
    assert contents(folder) == before


@pytest.mark.thorough
def test_a_reader_that_goes_away_costs_no_file(folder: Path) -> None:
    """`lgm fit ... -o out.nc | true` writes out.nc."""
    close = "import os\nr, w = os.pipe()\nos.close(r)\nos.dup2(w, 1)"
    done = lgm(*CALLS[0].arguments(folder), before=close)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert (folder / "out.nc").stat().st_size > 0


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_page_that_finds_no_room_costs_no_file(folder: Path) -> None:
    full = "import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)"
    done = lgm(*CALLS[0].arguments(folder), before=full)
    assert done.returncode == 1 and "E306" in done.stderr and "Traceback" not in done.stderr
    assert (folder / "out.nc").stat().st_size > 0


@pytest.mark.thorough
def test_a_record_that_finds_no_room_goes_on_later(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = next(c for c in CALLS if str(c).startswith("calibrate --record"))
    real, calls = os.fsync, []

    def third(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 3:  # the file, its folder, the first run
            filled()
        real(handle)

    monkeypatch.setattr(os, "fsync", third)
    done = run(*call.arguments(folder))
    assert done.status == 1 and "goes on there" in done.err
    lines = (folder / "out.jsonl").read_text().splitlines()
    assert [json.loads(row).get("run") for row in lines] == [None, 0]
    monkeypatch.undo()
    assert run(*call.arguments(folder)).status in (0, 3)
    lines = (folder / "out.jsonl").read_text().splitlines()
    assert [json.loads(row).get("run") for row in lines] == [None, *range(20)]
