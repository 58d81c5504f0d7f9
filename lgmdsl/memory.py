"""The memory that a fit may take: a fixed budget, never what happens to be free.

Engines are chosen by it, and what cannot fit is refused by it before it is allocated, so the same
model, data and seed give the same digits however busy the machine is. The budget is `LGM_MEMORY`,
else half of the machine's memory or of its control group's limit, at least 4 GB.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from lgmdsl.errors import NOWHERE, Diagnostic, MethodError, Span

VARIABLE = "LGM_MEMORY"
SHARE = 0.5  # of the machine's memory: the rest is for the data, the labels, other programs
LEAST = 4_000_000_000  # bytes: half of a small machine's memory would refuse what swaps at worst
SMALLEST = 1_000_000  # bytes that LGM_MEMORY may say: less is a forgotten unit

_POWERS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
           "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}  # fmt: skip
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)


class TooLarge(MethodError):
    """E505: a part of the model that the budget cannot hold; `taken`: the bytes it would take."""

    def __init__(self, part: str, count: str, taken: float, span: Span = NOWHERE, help: str = ""):
        self.count, self.taken, self.remedy = count, taken, help
        more = f"set {VARIABLE}={_rounded_up(taken)} where the machine has that much"
        super().__init__(
            Diagnostic(
                "E505",
                f"{part} is larger than the memory budget",
                span,
                details=(f"{count}: {size_text(taken)}; the budget is {size_text(budget())}",),
                help=f"{help}, or {more}" if help else more,
            )
        )

    @property
    def excess(self) -> str:
        """`2,000 entries (1.5 GB), and the memory budget is 1 GB`, to continue a sentence."""
        return (
            f"{self.count} ({size_text(self.taken)}), and the memory budget is "
            f"{size_text(budget())}"
        )

    def named(self, part: str, span: Span = NOWHERE) -> TooLarge:
        """The same refusal, naming the part of the model concerned."""
        return TooLarge(part, self.count, self.taken, span, self.remedy)


def budget() -> int:
    """Bytes that one fit may hold. Raises MethodError E104 where LGM_MEMORY is no amount."""
    setting = os.environ.get(VARIABLE, "").strip()
    return parsed(setting) if setting else _half()


@cache
def parsed(text: str) -> int:
    """Bytes of `8GB`, `8G`, `7.5 GiB` or `8000000000`: G and GB are 1e9, Gi and GiB are 2^30."""
    match = _AMOUNT.fullmatch(text)
    value = float(match[1]) * _POWERS[(match[2] or "").lower()] if match else math.nan
    if match is None or not SMALLEST <= value < 2.0**62:
        raise MethodError.of(
            "E104",
            f"the environment variable `{VARIABLE}` cannot be `{text}`",
            details=(f"wanted an amount of memory, {size_text(SMALLEST)} or more",),
            help=f"{VARIABLE}=8GB, {VARIABLE}=500MB or {VARIABLE}=8000000000 (bytes); "
            "without it the budget is half of the machine's memory",
        )
    return int(value)


@cache
def _half() -> int:
    return max(LEAST, int(SHARE * total()))


def total(root: Path = Path("/")) -> int:
    """Bytes of the machine, or of the smallest limit of the control groups about this process."""
    limits = _limits(root)
    with suppress(AttributeError, ValueError, OSError):  # sysconf lacks these names on this system
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    limits += _installed()
    return min(limits, default=0)


def _installed() -> list[int]:
    """The machine's memory as Windows has it; nothing elsewhere."""
    windows = getattr(ctypes, "windll", None)
    if windows is None:
        return []
    kilobytes = ctypes.c_ulonglong()
    answered = windows.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
    return [1024 * kilobytes.value] if answered else []


def _limits(root: Path) -> list[int]:
    """Limits of this process's control group and of all above it, of version 2 and 1."""
    limits = []
    mount = root / "sys/fs/cgroup"
    groups = [(mount, "memory.max"), (mount / "memory", "memory.limit_in_bytes")]
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        parts = [p for p in path.split("/") if p and p != ".."]
        version_2 = not controllers
        if not version_2 and "memory" not in controllers.split(","):
            continue
        top, name = groups[0] if version_2 else groups[1]
        groups += [(top.joinpath(*parts[: k + 1]), name) for k in range(len(parts))]
    for folder, name in groups:
        text = _text(folder / name).strip()
        if text.isdecimal():  # `max` is no limit
            limits.append(int(text))
    return limits


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def size_text(size: float) -> str:
    """`1.5 GB` for a number of bytes."""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if value < 1000 or unit == "PB":
            break
        value /= 1000
    return f"{size:.0f} bytes" if unit == "bytes" else f"{value:.3g} {unit}"


def _rounded_up(size: float) -> str:
    """An amount that LGM_MEMORY takes and that is enough."""
    step = 10**9 if size >= 10**9 else 10**6
    return f"{math.ceil(size / step)}{'GB' if step == 10**9 else 'MB'}"


def check(part: str, count: str, taken: float, span: Span = NOWHERE, help: str = "") -> None:
    """Raise TooLarge (E505) where `part` (its name, and `count` of what it has) would take more
    bytes than the budget. To be asked before anything of that size is allocated."""
    if taken > budget():
        raise TooLarge(part, count, taken, span, help)


@contextmanager
def during(doing: str) -> Iterator[None]:
    """Turn memory that runs out despite all estimates into MethodError E505 with the operation."""
    try:
        yield
    except MemoryError as error:
        reason = " ".join(str(error).split())
        raise MethodError.of(
            "E505",
            f"memory ran out while {doing}",
            details=((reason,) if reason else ()) + (f"the budget is {size_text(budget())}",),
            help=f"free some memory, or set {VARIABLE} to what the process may take, such as "
            f"{VARIABLE}={_rounded_up(budget() / 2)}: an engine that needs less is chosen, or "
            "the part that is too large is named",
        ) from error
