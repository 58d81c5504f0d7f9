"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lgmdsl.errors import DataError, Diagnostic


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A binary file beside `path` that takes its place when the block ends without an error.

    Permissions are kept and a link stays a link: what it points to is replaced.
    """
    target = Path(os.path.realpath(path))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:  # said of the file that was asked for
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, name)
        else:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def writable(path: str, suffixes: tuple[str, ...]) -> Path:
    """The path, once it is known that a result can go there. Raises DataError E306.

    Asked before the work, so that a long fit does not end at a folder that is not there.
    """
    place = Path(path)
    folder = place.parent
    if not folder.is_dir():
        reason, help = f"there is no folder `{folder}`", f"mkdir -p {folder}"
    elif place.is_dir():
        reason, help = "it is a folder", f"name a file in it: {place / ('result' + suffixes[0])}"
    elif place.suffix not in suffixes:
        reason = f"its name ends in `{place.suffix}`" if place.suffix else "its name has no ending"
        help = f"a name that ends in {' or '.join(suffixes)}: {place.with_suffix(suffixes[0])}"
    elif not os.access(folder, os.W_OK) or (place.exists() and not os.access(place, os.W_OK)):
        reason, help = "you may not write there", ""
    else:
        return place
    raise DataError(Diagnostic("E306", f"cannot write `{path}`: {reason}", help=help))
