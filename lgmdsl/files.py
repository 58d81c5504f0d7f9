"""The files of users: results are written whole or not at all, and only regular files are read.

`write` makes a new file in the target's folder, syncs it and renames it over the target, so that a
killed process or a full disk leaves the old file or the new one. The new file is locked (flock)
until it is renamed; an unlocked one was left by a killed process, and the next write to
that folder removes it.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import IO

from lgmdsl.errors import DataError, Diagnostic, meant, nearest

if sys.platform != "win32":
    import fcntl

# Endings of files that data are read from; `dataset.sources.READERS` reads each.
DATA = (".npz", ".csv", ".parquet", ".nc")
PREFIX, SUFFIX = ".lgm-", ".unfinished"
RENAMES_OPEN_FILES = sys.platform != "win32"
ATTEMPTS = 1000  # attempts, each lost to another writer between creating a file and locking it

HELP = {
    errno.ENOSPC: "free some space there, or name a file on another disk",
    errno.EDQUOT: "free some space there, or name a file on another disk",
    errno.EFBIG: "the limit is that of the file system or of `ulimit -f`; name a file elsewhere",
    errno.EROFS: "name a file on a disk that can be written",
}
AGAIN = "copy it again, whole, from where it was written"  # a stored file that is damaged
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def irregular(path: str | os.PathLike[str]) -> str:
    """What a path leads to if it is no regular file (`a folder`, `a pipe`, `a device`); empty for a
    regular file and for one that cannot be looked at. Opening a pipe may never return, and a
    device may never end, so this is asked before a file is opened."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    return next((name for test, name in KINDS if test(mode)), "")


def write(path: str | os.PathLike[str], content: bytes | memoryview) -> None:
    """Give a file this content, whole or not at all.

    Permissions are kept, and a link stays a link: the file that it leads to is replaced. Raises
    DataError E306 with the cause; nothing is left of the attempt.
    """
    target = Path(os.path.realpath(path))
    try:
        irregularity = irregular(target)
        if irregularity:
            raise DataError(unwritable(path, f"it is {irregularity}"))
        _sweep(target.parent)
        for _ in range(ATTEMPTS):
            if _replaced(target, content):
                return
        raise OSError(errno.EBUSY, "the unfinished file was removed by another program")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(unwritable(path, reason, HELP.get(error.errno or 0, ""))) from error


def write_pieces(path: str | os.PathLike[str], pieces: Iterable[str]) -> None:
    """Give a file this text, piece by piece, whole or not at all. Raises DataError E306."""

    def fill(file: IO[bytes]) -> None:
        for piece in pieces:
            file.write(piece.encode("utf-8"))

    write_filled(path, fill)


def write_filled(path: str | os.PathLike[str], fill: Callable[[IO[bytes]], None]) -> None:
    """Give a file what `fill` writes, whole or not at all: it is gathered on disk first. Raises
    DataError E306."""
    try:
        with tempfile.TemporaryFile() as gathered:
            fill(gathered)
            gathered.flush()
            if not gathered.tell():
                write(path, b"")
                return
            with (
                mmap.mmap(gathered.fileno(), 0, access=mmap.ACCESS_READ) as whole,
                memoryview(whole) as content,
            ):
                write(path, content)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(unwritable(path, reason, HELP.get(error.errno or 0, ""))) from error


def append(path: str | os.PathLike[str], content: bytes) -> None:
    """Add to a file, whole or not at all; on disk when this returns.

    Raises DataError E306, with what was there before as it was.
    """
    try:
        with open(path, "ab", buffering=0) as file:
            before = file.seek(0, os.SEEK_END)
            try:
                if file.write(content) < len(content):  # the disk took a part of it
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(before)
                raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        help = "what was written before is kept: with room for more, the same call goes on there"
        raise DataError(unwritable(path, reason, help)) from error


def scratch(size: int) -> mmap.mmap:
    """Memory of this many bytes in a temporary file without a name, which is gone when nothing
    refers to it. The room is taken now: a disk that is full later would end the process. Raises
    DataError E306 where there is none."""
    try:
        with tempfile.TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            return mmap.mmap(file.fileno(), size)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        help = "free some space there, or name another folder in the environment variable TMPDIR"
        raise DataError(unwritable(tempfile.gettempdir(), reason, help)) from error


def unwritable(path: str | os.PathLike[str], reason: str, help: str = "") -> Diagnostic:
    """E306 for a file that is to be written."""
    return Diagnostic("E306", f"cannot write `{os.fspath(path)}`: {reason}", help=help)


def _replaced(target: Path, content: bytes | memoryview) -> bool:
    """One attempt; False where the new file lost its name to a process that took it for stale."""
    handle, name = tempfile.mkstemp(SUFFIX, PREFIX, target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            _locked(handle)
            if os.fstat(handle).st_nlink == 0:  # swept between its making and its lock
                return False
            file.write(content)
            file.flush()
            _permissions(target, name)
            os.fsync(handle)
            if RENAMES_OPEN_FILES:  # the lock is held until the file has its name
                return _renamed(name, target)
        return _renamed(name, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _renamed(name: str, target: Path) -> bool:
    try:
        os.replace(name, target)
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise
        return False
    with contextlib.suppress(OSError):  # not every file system syncs folders
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return True


def _permissions(target: Path, name: str) -> None:
    """Those of the file that is replaced, or those that a new file would get."""
    if target.exists():
        shutil.copymode(target, name)
        return
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(name, 0o666 & ~mask)


def _locked(handle: int, wait: bool = True) -> bool:
    """Whether the file is locked now; some file systems know no locks."""
    if sys.platform == "win32":
        return True  # there an open file cannot be removed
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(folder: Path) -> None:
    """Remove the user's unfinished files in a folder that no process holds any more."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names = [e.path for e in entries if e.name.startswith(PREFIX) and e.name.endswith(SUFFIX)]
        for name in names:
            with contextlib.suppress(OSError):
                _remove_stale(name)


def _remove_stale(name: str) -> None:
    if not stat.S_ISREG(os.lstat(name).st_mode):
        return
    if sys.platform == "win32":
        os.unlink(name)
        return
    handle = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(handle)
        ours = status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode)
        if ours and _locked(handle, wait=False):
            os.unlink(name)
    finally:
        os.close(handle)


def similar(path: Path, suffixes: Collection[str]) -> str:
    """The help for a file that is not there: one in its folder that was probably meant, or those of
    the kind that there are."""
    try:
        names = sorted(p.name for p in path.parent.iterdir() if p.suffix.lower() in suffixes)
    except OSError:
        return f"the folder `{path.parent}` cannot be listed"
    close = nearest(path.name, names)
    if close:
        return meant(path.with_name(close))
    return f"`{path.parent}` holds: {', '.join(names[:8])}" if names else "check the path"
