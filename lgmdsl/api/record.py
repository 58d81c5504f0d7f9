"""JSON lines written during a long run, from which an interrupted run is resumed.

A head identifies the run, and a file with another head is refused; then a line for each result.
An incomplete last line is discarded.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl import __version__
from lgmdsl.errors import DataError, Diagnostic, listed
from lgmdsl.files import append, irregular, write

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORMAT = 1


class Lines:
    """The lines of a file, or of nothing where `path` is None. `kind` names the run in one
    word; `task` is a dataclass with all that the results depend on, except its fields in `free`.

    `rows`: what the file holds already. Raises DataError E306 for a file of something else.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        kind: str,
        task: DataclassInstance,
        hashed: tuple[str, ...],
        free: tuple[str, ...] = (),
    ) -> None:
        self.path, self.kind = None if path is None else Path(path), kind
        named = {k: v for k, v in described(task, hashed).items() if k not in free}
        self.head = {f"lgmdsl_{kind}": FORMAT, "version": __version__, **named}
        self.rows: list[dict[str, Any]] = []
        if self.path is not None:
            self._open(self.path)

    def append(self, row: Mapping[str, Any]) -> None:
        """One more line; it is on disk when this returns. Raises DataError E306, and leaves the
        lines before it as they were, where the disk is full."""
        if self.path is not None:
            append(self.path, f"{json.dumps(row)}\n".encode())

    def replace(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """These lines in the place of all, whole or not at all."""
        if self.path is not None:
            text = "".join(f"{json.dumps(r)}\n" for r in (self.head, *rows))
            write(self.path, text.encode())

    def unusable(self, why: str) -> Diagnostic:
        """E306 for this file."""
        remedy = "name another file, or remove this one to start again"
        return Diagnostic("E306", f"`{self.path}` {why}", help=remedy)

    def _open(self, path: Path) -> None:
        problem = irregular(path)
        if problem:
            raise DataError(self.unusable(f"is {problem}, no record"))
        try:
            lines = path.read_bytes().split(b"\n") if path.exists() else []
        except OSError as error:
            raise DataError(self.unusable(f"cannot be read: {error.strerror}")) from None
        if not any(line.strip() for line in lines):
            self.replace(())
            return
        read = [r for r in map(_parsed, lines) if r is not None]
        if not read or read[0].get(f"lgmdsl_{self.kind}") != FORMAT:
            raise DataError(self.unusable(f"is no record of a {self.kind}"))
        changed = [k for k in self.head if read[0].get(k) != self.head[k]]
        if changed:
            differ = "differs" if len(changed) == 1 else "differ"
            problem = f"is of another {self.kind} ({listed(changed)} {differ})"
            raise DataError(self.unusable(problem))
        self.rows = read[1:]
        if lines[-1].strip():  # cut off in the middle of a line
            self.replace(self.rows)


def described(task: DataclassInstance, hashed: tuple[str, ...]) -> dict[str, Any]:
    """What a task is, in JSON; the text and the data (`hashed`) by their hashes; the fields of a
    value in it as the task's own."""
    out: dict[str, Any] = {}
    for f in fields(task):
        value = getattr(task, f.name)
        if is_dataclass(value) and not isinstance(value, type):
            out |= described(value, hashed)
            continue
        if f.name == "text":
            value = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
        elif f.name in hashed and value is not None:
            value = hashlib.sha256(_bytes(value)).hexdigest()
        elif isinstance(value, Mapping):
            value = {str(k): np.asarray(v).tolist() for k, v in sorted(value.items())}
        out[f.name] = value
    return out


def _bytes(data: Any) -> bytes:
    if isinstance(data, list | tuple):
        return b"".join(hashlib.sha256(_bytes(part)).digest() for part in data)
    if isinstance(data, Mapping):
        parts = ((str(key), _bytes(part)) for key, part in data.items())
        return b"".join(hashlib.sha256(k.encode() + b"=" + v).digest() for k, v in parts)
    if isinstance(data, str | os.PathLike) and not irregular(data):
        try:
            return Path(data).read_bytes()
        except OSError:
            return str(data).encode()  # reported when the data are read
    return pickle.dumps(data)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
