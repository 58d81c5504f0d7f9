"""The file a calibration writes as it goes, so that one that was cut off goes on where it was.

JSON lines: a head with what the runs share, then one line for each run. A last line that was cut
short is left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl import __version__
from lgmdsl.api.calibrate_run import Outcome, Task
from lgmdsl.errors import DataError, Diagnostic, listed

FORMAT = 1


class Record:
    """Outcomes on disk, or nowhere where `path` is None."""

    def __init__(self, path: str | os.PathLike[str] | None, task: Task) -> None:
        self.path = None if path is None else Path(path)
        self.head = {"lgmdsl_calibration": FORMAT, "version": __version__, **described(task)}
        self.done: dict[int, Outcome] = {}
        if self.path is not None:
            self._open(self.path)

    def add(self, outcome: Outcome) -> None:
        """Keep one more outcome; it is on disk when this returns."""
        self.done[outcome.number] = outcome
        if self.path is not None:
            self._append(self.path, outcome.as_json())

    def _open(self, path: Path) -> None:
        try:
            lines = path.read_bytes().split(b"\n") if path.exists() else []
        except OSError as error:
            raise DataError(_unusable(path, f"cannot be read: {error.strerror}")) from None
        if not any(line.strip() for line in lines):
            self._write(path, [self.head])
            return
        read = [r for r in map(_parsed, lines) if r is not None]
        if not read or read[0].get("lgmdsl_calibration") != FORMAT:
            raise DataError(_unusable(path, "is no record of a calibration"))
        changed = [k for k in self.head if read[0].get(k) != self.head[k]]
        if changed:
            differ = "differs" if len(changed) == 1 else "differ"
            what = f"is of another calibration ({listed(changed)} {differ})"
            raise DataError(_unusable(path, what))
        try:
            self.done = {o.number: o for o in map(Outcome.of_json, read[1:])}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError(_unusable(path, "holds a line that is no run")) from None
        if lines[-1].strip():  # cut off in the middle of a line
            self._write(path, [self.head, *(o.as_json() for o in self.done.values())])

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        beside = path.with_name(f".{path.name}.new")
        try:
            beside.write_text("".join(f"{json.dumps(r)}\n" for r in rows), encoding="utf-8")
            os.replace(beside, path)
        except OSError as error:
            raise DataError(_unusable(path, f"cannot be written: {error.strerror}")) from None

    def _append(self, path: Path, row: dict[str, Any]) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")
            file.flush()
            os.fsync(file.fileno())


def described(task: Task) -> dict[str, Any]:
    """What a task is, in JSON; the text and the data by their hashes."""
    out: dict[str, Any] = {}
    for f in fields(task):
        value = getattr(task, f.name)
        if f.name == "text":
            value = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
        elif f.name == "data" and value is not None:
            value = hashlib.sha256(_bytes(value)).hexdigest()
        elif isinstance(value, Mapping):
            value = {str(k): _plain(v) for k, v in sorted(value.items())}
        out[f.name] = value
    return out


def _bytes(data: Any) -> bytes:
    if isinstance(data, str | os.PathLike):
        try:
            return Path(data).read_bytes()
        except OSError:
            return str(data).encode()  # run 0 says what is wrong with it
    return pickle.dumps(data)


def _plain(value: object) -> object:
    return np.asarray(value).tolist()


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _unusable(path: Path, why: str) -> Diagnostic:
    return Diagnostic(
        "E306", f"`{path}` {why}", help="name another file, or remove this one to start again"
    )
