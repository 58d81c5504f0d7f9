"""Why a source is refused: E306, and the limit of memory that no array may claim."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lgmdsl.errors import DataError, Diagnostic

# Of the memory that is free, an array may take this part: the fit needs the rest.
SHARE = 0.5

# What sources that are no files are called in messages.
IN_MEMORY = frozenset({"dict", "frame", "dataset"})


def refused(source: str, reason: str, help: str = "", details: tuple[str, ...] = ()) -> DataError:
    """E306: `source` cannot be read, or is not read because it would do harm."""
    return DataError(
        Diagnostic("E306", f"{source}: {reason}", details=details, help=help, layout="plain")
    )


@contextmanager
def refusing(source: str, doing: str) -> Iterator[None]:
    """Turn whatever a reader raises on a damaged or foreign file into E306.

    Readers of zip, HDF5 and parquet raise dozens of unrelated types on hostile bytes, so the
    boundary catches them all; the cause stays attached.
    """
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError as error:
        raise refused(source, "there is no such file") from error
    except IsADirectoryError as error:
        raise refused(source, "this is a directory, not a data file") from error
    except PermissionError as error:
        raise refused(source, "permission to read it is denied") from error
    except Exception as error:
        text = " ".join(str(error).split())[:160]
        reason = f"{doing}: {type(error).__name__}" + (f": {text}" if text else "")
        help = "" if source in IN_MEMORY else "the file is damaged, or not what its name says"
        raise refused(source, reason, help=help) from error


def memory_limit() -> int:
    """Bytes that one array may take: half of the memory that is available now."""
    return int(SHARE * _available())


def _available() -> int:
    """Available memory in bytes: the kernel's estimate, or the room left in the control group."""
    found = [1 << 40]
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
    except (OSError, ValueError, UnicodeDecodeError):
        try:
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, ValueError, OSError):
            found.append(4 << 30)  # nothing says how much there is: a small machine's memory
    try:
        group = Path("/sys/fs/cgroup")
        most = (group / "memory.max").read_text(encoding="ascii").strip()
        if most != "max":
            used = int((group / "memory.current").read_text(encoding="ascii"))
            found.append(max(0, int(most) - used))
    except (OSError, ValueError, UnicodeDecodeError):
        pass
    return min(found)


def size_text(size: int) -> str:
    """`1.5 GB` for a number of bytes."""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if value < 1000 or unit == "PB":
            break
        value /= 1000
    return f"{size} bytes" if unit == "bytes" else f"{value:.3g} {unit}"


def check_memory(source: str, what: str, shape: tuple[int, ...], itemsize: int) -> None:
    """Raise E306 where an array of this shape would not fit, before anything is expanded."""
    size = max(1, itemsize)
    for n in shape:
        size *= max(0, n)
    limit = memory_limit()
    if size > limit:
        shown = " x ".join(str(n) for n in shape) or "1"
        raise refused(
            source,
            f"`{what}` is larger than memory allows",
            details=(f"{shown} values of {itemsize} bytes are {size_text(size)}; "
                     f"{size_text(limit)} may be used",),
            help="store it sparse (data, indices, indptr, shape), or fit a part of the rows",
        )  # fmt: skip
