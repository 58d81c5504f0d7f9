"""`lgmdsl.files`: whole or not at all, and nothing left over that nobody holds."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import lgmdsl as lgm
from lgmdsl import files

NAME = f"{files.PREFIX}abc{files.SUFFIX}"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_what_a_kill_left_is_removed_by_the_next_write(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"half")
    files.write(tmp_path / "other.csv", b"x")
    assert names(tmp_path) == ["other.csv"]


@pytest.mark.parametrize("moment", ["file.write(content)", "os.replace(name, target)"])
def test_a_kill_at_any_moment(moment: str, tmp_path: Path, root: Path) -> None:
    """A process that is killed before it renames leaves its file, and the next write removes it."""
    source = Path(files.__file__).read_text()
    assert moment in source
    program = source.replace(moment, "os.kill(os.getpid(), 9)") + "\nwrite(sys.argv[1], b'new')\n"
    (tmp_path / "out.nc").write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out.nc")],
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == -9
    assert (tmp_path / "out.nc").read_bytes() == b"old" and len(names(tmp_path)) == 2
    files.write(tmp_path / "out.nc", b"new")
    assert names(tmp_path) == ["out.nc"] and (tmp_path / "out.nc").read_bytes() == b"new"


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """An unfinished file that its process still holds."""
    place = tmp_path / NAME
    with place.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield place


def test_a_live_file_of_another_process_stays(held: Path) -> None:
    files.write(held.parent / "out.nc", b"x")
    assert names(held.parent) == sorted([held.name, "out.nc"])


def test_files_that_are_not_ours_stay(tmp_path: Path) -> None:
    kept = (
        f"a{NAME}",
        f"{NAME}.txt",
        ".o.nc-jfq89ugx.tmp",
        f"{files.PREFIX}dir{files.SUFFIX}",
        f"{files.PREFIX}link{files.SUFFIX}",
        f"{files.PREFIX}pipe{files.SUFFIX}",
    )
    for name in kept[:3]:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / kept[3]).mkdir()
    (tmp_path / kept[4]).symlink_to(tmp_path / kept[0])
    os.mkfifo(tmp_path / kept[5])
    files.write(tmp_path / "out.nc", b"x")
    assert names(tmp_path) == sorted([*kept, "out.nc"])


def test_a_file_swept_before_its_lock_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = files._locked
    swept: list[str] = []

    def late(handle: int, wait: bool = True) -> bool:
        if len(swept) < 20:
            swept.extend(names(tmp_path))
            (tmp_path / swept[-1]).unlink()
        return locked(handle, wait)

    monkeypatch.setattr(files, "_locked", late)
    files.write(tmp_path / "out.nc", b"x")
    assert swept[0].endswith(files.SUFFIX) and names(tmp_path) == ["out.nc"]


def test_many_writers_of_one_file(tmp_path: Path) -> None:
    target, contents = tmp_path / "out.nc", [bytes([65 + k]) * 200_000 for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda c: files.write(target, c), contents * 5))
    assert target.read_bytes() in contents and names(tmp_path) == ["out.nc"]


def test_permissions_are_kept(tmp_path: Path) -> None:
    target, mask = tmp_path / "out.nc", os.umask(0o027)
    try:
        files.write(target, b"x")
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        target.chmod(0o600)
        files.write(target, b"y")
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
    finally:
        os.umask(mask)


@pytest.mark.parametrize(
    ("code", "help"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EROFS, "disk that can be written"),
        (errno.EIO, ""),
    ],
)
def test_causes(code: int, help: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(lgm.DataError) as caught:
        files.write(tmp_path / "out.nc", b"x")
    assert caught.value.codes == ("E306",) and names(tmp_path) == []
    said = str(caught.value)
    assert f"cannot write `{tmp_path / 'out.nc'}`: {os.strerror(code).lower()}" in said
    assert help in said and ("help:" in said) == bool(help)


@contextmanager
def short() -> Iterator[None]:
    """Files that end at 1,000 bytes, as on a disk with so much room. No fixture: pytest's report of
    a test, which may go into a file, is written before fixtures end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_appending_is_whole_too(tmp_path: Path) -> None:
    place = tmp_path / "runs.jsonl"
    files.append(place, b"a" * 600 + b"\n")
    with short(), pytest.raises(lgm.DataError, match="goes on there"):
        files.append(place, b"b" * 600 + b"\n")
    assert place.read_bytes() == b"a" * 600 + b"\n"
    with short(), pytest.raises(lgm.DataError, match="cannot write"):
        files.write(place, b"c" * 2000)
    assert place.read_bytes() == b"a" * 600 + b"\n" and names(tmp_path) == [place.name]


def test_folders_and_long_names(tmp_path: Path) -> None:
    with pytest.raises(lgm.DataError, match="it is a folder"):
        files.write(tmp_path, b"x")
    with pytest.raises(lgm.DataError, match="no such file or directory"):
        files.write(tmp_path / "nowhere" / "out.nc", b"x")
    files.write(tmp_path / ("o" * 252 + ".nc"), b"x")
    with pytest.raises(lgm.DataError, match="too long"):
        files.write(tmp_path / ("o" * 256 + ".nc"), b"x")
    assert names(tmp_path) == ["o" * 252 + ".nc"]
