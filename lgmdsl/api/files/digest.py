"""A digest of a result file: what is read back is what was written, or the file is refused."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray

ATTRIBUTE = "digest"


def digest(file: Any) -> str:
    """SHA-256 over all attributes and arrays of an open file, by their names."""
    sha256 = hashlib.sha256()
    groups = {"": file, **{str(name): file[name] for name in file.groups}}
    for name, group in sorted(groups.items()):
        for key in sorted(k for k in group.attrs if k != ATTRIBUTE):
            sha256.update(f"{name}@{key}={group.attrs[key]}\n".encode())
        for key in sorted(group.variables):
            variable = group.variables[key]
            values = array(variable)
            origin = variable.attrs.get("origin", "")
            sha256.update(f"{name}/{key}{values.dtype.str}{values.shape}{origin}\n".encode())
            sha256.update(np.ascontiguousarray(values).tobytes())
    return sha256.hexdigest()


def array(variable: Any) -> AnyArray:
    """The values of a variable; text as an array of str."""
    values = np.asarray(variable[...])
    if values.dtype.kind == "O":
        texts = [v.decode() if isinstance(v, bytes) else str(v) for v in values.ravel()]
        return np.array(texts, dtype=np.str_).reshape(values.shape)
    return values
