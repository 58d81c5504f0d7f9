""".npz files: sizes from the headers first, arrays only when asked for, never a pickle."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.dataset.convert import from_numpy
from lgmdsl.dataset.entries import Entry, Loaded
from lgmdsl.dataset.refusals import check_memory, refused, refusing
from lgmdsl.errors import DataError

MAGIC = b"\x93NUMPY"
MAX_HEADER = 65536
BYTES_PER_READ = 1 << 22


@dataclass(frozen=True)
class Header:
    """What a member says of itself; `start` is where its values begin."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    fortran: bool
    start: int


def read_npz(path: Path) -> Mapping[str, Entry]:
    """The entries of an .npz file. Headers are read, no values.

    A member whose header is damaged, or that holds objects, is refused when it is asked for, so
    the others stay usable. Raises E306 where the file is no zip archive.
    """
    source = path.name
    entries: dict[str, Entry] = {}
    with refusing(source, "not a readable .npz file"), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            name = info.filename.removesuffix(".npy")
            if name in entries:
                raise refused(source, f"it holds `{name}` twice")
            entries[name] = _entry(path, archive, info, name)
    return entries


def _entry(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Entry:
    source = path.name
    try:
        with refusing(source, f"`{name}` has no readable header"), archive.open(info) as member:
            header = read_header(source, name, member)
    except DataError as error:
        return Entry(name, source, (-1,), _FaultyMember(error))
    return Entry(name, source, header.shape, lambda: _load(path, info, name))


class _FaultyMember:
    """A loader that raises the fault of a member when its values are requested."""

    def __init__(self, error: DataError) -> None:
        self.error = error

    def __call__(self) -> Loaded:
        raise self.error


def read_header(source: str, name: str, stream: IO[bytes]) -> Header:
    """Parse the header of a member without evaluating anything but literals."""
    start = stream.read(8)
    if len(start) < 8 or not start.startswith(MAGIC) or start[6] not in (1, 2, 3):
        raise refused(source, f"`{name}` is not an array that numpy wrote")
    wide = 2 if start[6] == 1 else 4
    length = int.from_bytes(stream.read(wide), "little")
    if length > MAX_HEADER:
        raise refused(source, f"`{name}` has a header of {length} bytes")
    text = stream.read(length)
    if len(text) != length:
        raise refused(source, f"`{name}` ends inside its header")
    fields = ast.literal_eval(text.decode("latin1" if start[6] < 3 else "utf-8").strip())
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise refused(source, f"`{name}` has a header without descr, fortran_order and shape")
    shape = fields["shape"]
    if (
        not isinstance(shape, tuple)
        or len(shape) > 32
        or not all(type(n) is int and 0 <= n < 2**62 for n in shape)
    ):
        raise refused(source, f"`{name}` has no valid shape in its header")
    dtype = np.lib.format.descr_to_dtype(fields["descr"])
    if dtype.hasobject:
        raise refused(
            source,
            f"`{name}` is an array of Python objects, which are never unpickled",
            help=f"save numbers or text: np.asarray({name}.tolist())",
        )
    return Header(dtype, shape, bool(fields["fortran_order"]), 8 + wide + length)


def _load(path: Path, info: zipfile.ZipInfo, name: str) -> Loaded:
    source = path.name
    with (
        refusing(source, f"`{name}` cannot be read"),
        zipfile.ZipFile(path) as archive,
        archive.open(info) as member,
    ):
        header = read_header(source, name, member)
        check_memory(source, name, header.shape, header.dtype.itemsize)
        claimed = prod(header.shape) * header.dtype.itemsize
        stored = info.file_size - header.start
        if claimed != stored:
            raise refused(
                source, f"the header of `{name}` claims {claimed} bytes, but {stored} are there"
            )
        return from_numpy(source, name, _values(source, name, member, header, claimed))


def _values(source: str, name: str, stream: IO[bytes], header: Header, size: int) -> AnyArray:
    buffer = bytearray(size)
    view = memoryview(buffer)
    offset = 0
    while offset < size:
        part = stream.read(min(BYTES_PER_READ, size - offset))
        if not part:
            raise refused(source, f"`{name}` ends after {offset} of {size} bytes")
        view[offset : offset + len(part)] = part
        offset += len(part)
    stream.read(1)  # at the end of the member zipfile compares the checksum
    if header.dtype.itemsize == 0:
        return np.zeros(header.shape, dtype=header.dtype)
    flat = np.frombuffer(buffer, dtype=header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")
