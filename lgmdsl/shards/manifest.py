"""The manifest of a folder of shards: what was split, how, and the sha256 of each file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lgmdsl.dataset.refusals import refused, refusing
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.shards.given import is_sharded
from lgmdsl.shards.refusals import SHARD, cannot, no_shards, without_shard

NAME, FORMAT = "manifest.json", 1


@dataclass(frozen=True)
class ShardFile:
    """A shard: its path, the sha256 of its bytes, how many rows and groups it holds; `bucket`: the
    hash of the labels of its groups (`split.shard_of`)."""

    path: str
    sha256: str
    rows: int
    groups: int
    bucket: int

    @property
    def name(self) -> str:
        """Its name in the folder."""
        return os.path.basename(self.path)

    def checked(self) -> str:
        """The path, where the bytes are those that were written. Raises WorkerError E703."""
        try:
            digest = sha256_of(self.path)
        except OSError as error:
            raise without_shard(self.path, (error.strerror or str(error)).lower()) from None
        if digest != self.sha256:
            raise without_shard(self.path, "the file has other bytes than its manifest says")
        return self.path


@dataclass(frozen=True)
class Manifest:
    """`by`: the column of the groups; `columns`: names and types of all; `shards` in order, those
    of `buckets` hashes that have rows; `sha256`: of the manifest itself; `version`: the lgmdsl that
    wrote it."""

    by: str
    buckets: int
    columns: tuple[tuple[str, str], ...]
    shards: tuple[ShardFile, ...]
    version: str
    sha256: str = ""

    @property
    def rows(self) -> int:
        return sum(s.rows for s in self.shards)

    @property
    def groups(self) -> int:
        return sum(s.groups for s in self.shards)

    def fields(self) -> dict[str, Any]:
        """As it is written: paths are names within the folder."""
        shards = [{**asdict(s), "path": s.name} for s in self.shards]
        return {
            "format": FORMAT,
            "lgmdsl": self.version,
            "by": self.by,
            "buckets": self.buckets,
            "columns": [list(c) for c in self.columns],
            "rows": self.rows,
            "groups": self.groups,
            "shards": shards,
        }

    def text(self) -> str:
        """The file's content."""
        return json.dumps(self.fields(), indent=1) + "\n"


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """The manifest of a folder. Raises DataError E306 for a folder without one, or with one that
    cannot be understood; a later format is named as such."""
    place = Path(os.path.abspath(os.fsdecode(folder)))
    try:
        content = (place / NAME).read_bytes()
    except FileNotFoundError:
        raise no_shards(place, f"this folder holds no shards: it has no {NAME}") from None
    except OSError as error:
        raise no_shards(place, f"{NAME} cannot be read: {error.strerror}") from None
    try:
        raw = json.loads(content)
        if raw["format"] > FORMAT:
            raise DataError(_later(place, str(raw["lgmdsl"])))
        shards = tuple(
            ShardFile(
                str(place / os.path.basename(str(s["path"]))),
                str(s["sha256"]),
                int(s["rows"]),
                int(s["groups"]),
                int(s["bucket"]),
            )
            for s in raw["shards"]
        )
        made = Manifest(
            str(raw["by"]),
            int(raw["buckets"]),
            tuple((str(n), str(t)) for n, t in raw["columns"]),
            shards,
            str(raw["lgmdsl"]),
            hashlib.sha256(content).hexdigest(),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise no_shards(place, f"{NAME} is damaged") from None
    if not shards or any(s.rows < 1 or s.groups < 1 for s in shards):
        raise no_shards(place, f"{NAME} names a shard without rows")
    return made


def _later(place: Path, version: str) -> Diagnostic:
    return Diagnostic(
        "E306",
        f"{place}: the shards were written by lgmdsl {version} in a later format",
        help=f"pip install 'lgmdsl>={version}'",
        layout="plain",
    )


def sha256_of(path: str | os.PathLike[str]) -> str:
    """The sha256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_new(folder: Path) -> None:
    """Raise E306 for a folder that holds something."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise refused(str(folder), "it is there already", help="give a new folder")


@contextmanager
def filling(place: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder that is made, or is empty; emptied again where the context ends by an error. Raises
    DataError E306 for one that holds something or cannot be made."""
    target = Path(os.path.abspath(os.fsdecode(place)))
    check_new(target)
    made = not target.exists()
    with refusing(str(target), "it cannot be made"):
        target.mkdir(parents=True, exist_ok=True)
    try:
        yield target
    except BaseException:
        for file in target.iterdir():
            file.unlink()
        if made:
            target.rmdir()
        raise


def check_folders(data: object, output: str) -> None:
    """Raise what writing the groups of a fit would: MethodError E501 for data that are no folder of
    shards, DataError E306 for an output that is there."""
    if not is_sharded(data):
        raise cannot(
            "only fits of shards write their groups to a folder",
            help=f"{SHARD} makes shards",
        )
    check_new(Path(os.path.abspath(output)))
