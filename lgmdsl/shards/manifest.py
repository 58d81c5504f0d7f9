"""The manifest of a folder of shards: what was split, how, and the sha256 of each file."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeGuard

from lgmdsl.dataset.refusals import refused, refusing
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.files import irregular
from lgmdsl.shards.given import is_sharded
from lgmdsl.shards.refusals import SHARD, cannot, no_shards, without_shard

NAME, FORMAT = "manifest.json", 1
MOST = 4_096  # shards: each is an open file while rows are dealt out
LARGEST = 1 << 26  # bytes of a manifest of so many shards, with room for very many columns
FILE, DIGEST = re.compile(r"[A-Za-z0-9_-]+\.parquet"), re.compile("[0-9a-f]{64}")
COUNTS = ("rows", "groups", "bucket")


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
        """The file's name in the folder."""
        return os.path.basename(self.path)

    def checked(self) -> str:
        """The path, where the bytes are those that were written. Raises WorkerError E703."""
        elsewhere = _elsewhere(self.path)
        if elsewhere:
            raise without_shard(self.path, f"it {elsewhere}")
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
        """The manifest as it is written: paths are names within the folder."""
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
        if not (place / NAME).exists():
            raise no_shards(place, f"this folder holds no shards: it has no {NAME}")
        elsewhere = _elsewhere(place / NAME)
        if elsewhere:
            raise no_shards(place, f"{NAME} {elsewhere}")
        if (place / NAME).stat().st_size > LARGEST:
            raise no_shards(place, f"{NAME} is damaged: it is larger than any")
        content = (place / NAME).read_bytes()
    except OSError as error:
        raise no_shards(place, f"{NAME} cannot be read: {error.strerror}") from None
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError):
        raise no_shards(place, f"{NAME} is damaged: it is no JSON") from None
    number = raw.get("format") if isinstance(raw, dict) else None
    if _whole(number) and number > FORMAT:
        raise DataError(_later(place, str(raw.get("lgmdsl", ""))))
    reason = _reason_against(raw)
    if reason:
        raise no_shards(place, f"{NAME} is damaged: {reason}")
    shards = tuple(
        ShardFile(str(place / s["path"]), *(s[name] for name in ("sha256", *COUNTS)))
        for s in raw["shards"]
    )
    columns = tuple((str(n), str(t)) for n, t in raw["columns"])
    digest = hashlib.sha256(content).hexdigest()
    return Manifest(raw["by"], raw["buckets"], columns, shards, raw["lgmdsl"], digest)


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _reason_against(raw: Any) -> str:
    """Why what a manifest holds is not as it was written; "" where it may be."""
    if not isinstance(raw, dict) or raw.get("format") != FORMAT or not _whole(raw["format"]):
        return f"it has not the fields of format {FORMAT}"
    shards, columns, buckets = raw.get("shards"), raw.get("columns"), raw.get("buckets")
    texts = all(isinstance(raw.get(name), str) for name in ("by", "lgmdsl"))
    if not texts or not isinstance(shards, list) or not isinstance(columns, list):
        return "a field is missing, or of another kind"
    pairs = all(isinstance(c, list) and len(c) == 2 for c in columns)
    if not pairs or raw["by"] not in [c[0] for c in columns]:
        return "the column of the groups is none of its columns"
    if not _whole(buckets) or not 0 < len(shards) <= buckets <= MOST:
        return "it names no shards, or more than there can be"
    for k, shard in enumerate(shards):
        known = shard if isinstance(shard, dict) else {}
        if not FILE.fullmatch(str(known.get("path"))):
            return f"shard {k + 1} has no name of a file in the folder"
        if not DIGEST.fullmatch(str(known.get("sha256"))):
            return f"shard {k + 1} has no sha256"
        counts = [known.get(name) for name in COUNTS]
        if not all(map(_whole, counts)) or not (
            1 <= known["groups"] <= known["rows"] < 2**63 and 0 <= known["bucket"] < buckets
        ):
            return f"shard {k + 1} is without rows or groups, or has impossible numbers of them"
    for name in ("path", "sha256", "bucket"):
        if len({s[name] for s in shards}) < len(shards):
            return "it names a shard twice"
    for name in ("rows", "groups"):
        if raw.get(name) != sum(s[name] for s in shards):
            return f"its shards have other {name} than it says for all"
    return ""


def _elsewhere(path: str | os.PathLike[str]) -> str:
    """Why a file of a folder is not read: it is no regular file, or leads out of the folder."""
    irregularity = irregular(path)
    if irregularity:
        return f"is {irregularity}"
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    if os.path.dirname(os.path.realpath(path)) != folder:
        return "is a link to a file elsewhere"
    return ""


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
        with suppress(OSError):  # what others have put there stays
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
