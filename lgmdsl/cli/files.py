"""Where a command may write, checked before the work; and the page and the file after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from lgmdsl.cli.output import diagnose, note, show, show_json
from lgmdsl.errors import DataError, LgmError
from lgmdsl.files import irregular, unwritable

PICTURES = (".png", ".svg", ".pdf")
STDIN = 0


def writable(path: str, suffixes: tuple[str, ...], inputs: Mapping[str, object]) -> Path:
    """The path, once it is known that a result can go there. Raises DataError E306.

    `inputs` are the files that the command reads, by what they are (`the data`), and its other
    outputs: the result must not take the place of one, under any name that leads to it (links,
    stdin for `-`). Checked before the work, so that a long fit does not end at a folder that is
    missing.
    """
    place, target = Path(path), Path(os.path.realpath(path))
    folder, irregularity = target.parent, irregular(target)  # the empty path is this folder
    taken = next((n for n, p in inputs.items() if _is_one(target, p)), None)
    if taken is not None:
        reason, help = f"it is {taken}", "name another file"
    elif irregularity == "a folder":
        reason, help = (
            f"it is {irregularity}",
            f"name a file in it: {place / ('result' + suffixes[0])}",
        )
    elif irregularity:
        reason, help = f"it is {irregularity}", "name a file"
    elif not folder.is_dir():
        reason, help = f"there is no folder `{folder}`", f"mkdir -p {folder}"
        if not place.is_symlink():
            reason, help = f"there is no folder `{place.parent}`", f"mkdir -p {place.parent}"
    elif place.suffix not in suffixes:
        reason = f"its name ends in `{place.suffix}`" if place.suffix else "its name has no ending"
        help = f"a name that ends in {' or '.join(suffixes)}: {place.with_suffix(suffixes[0])}"
    elif target.is_symlink():
        reason, help = "it is a link that leads to itself", "name another file"
    elif not os.access(folder, os.W_OK) or (target.exists() and not os.access(target, os.W_OK)):
        reason, help = "you may not write there", ""
    else:
        return place
    raise DataError(unwritable(path, reason, help))


def kept(place: Path) -> None:
    """Refuse to write over a file that may have been edited. Raises DataError E306."""
    if place.exists():
        raise DataError(
            unwritable(place, "it exists, and may have been edited", "--force, or another name")
        )


def spared(folder: str, suffix: str, inputs: Mapping[str, object]) -> None:
    """Refuse a folder in which a file with the ending of the results is one that the command
    reads. Raises DataError E306."""
    for place in sorted(Path(folder).glob(f"*{suffix}")):
        target = Path(os.path.realpath(place))
        for name, path in inputs.items():
            if _is_one(target, path):
                help = "name another folder"
                raise DataError(unwritable(place, f"it is {name}", help))


def paths_of(source: object) -> Iterator[str]:
    """The paths of a source of data: of a path itself, of lists and dicts of them."""
    if isinstance(source, Mapping):
        source = list(source.values())
    if isinstance(source, (list, tuple)):
        for part in source:
            yield from paths_of(part)
    elif isinstance(source, (str, os.PathLike)):
        yield os.fsdecode(source)


def _is_one(target: Path, source: object) -> bool:
    return any(same_file(target, path) for path in paths_of(source))


def same_file(target: Path, other: str) -> bool:
    """Whether two paths lead to one file, which need not exist; `-` is what stdin reads."""
    try:
        read = os.fstat(STDIN) if other == "-" else os.stat(other)
        return os.path.samestat(os.stat(target), read)
    except (OSError, ValueError):
        return other != "-" and os.path.realpath(other) == str(target)


def deliver(
    page: str | None, fields: Mapping[str, object] | None, write: Callable[[], object] | None
) -> LgmError | None:
    """Print the page, or `fields` as JSON, and write the output file; why that failed.

    The page comes first: it is printed even if the file fails, and the file is written
    even if the page fails (`lgm fit ... | head`). The one JSON object holds the errors of
    the file, which therefore comes before it.
    """
    if fields is not None:
        failure = _failure(write)
        errors = {} if failure is None else {"errors": [d.as_json() for d in failure.diagnostics]}
        show_json({**fields, **errors})
        return failure
    try:
        if page is not None:
            show(page.removesuffix("\n"))
    except OSError:
        failure = _failure(write)
        if failure is not None:
            raise failure from None
        raise
    return _failure(write)


def report(place: object, failure: LgmError | None, as_json: bool, contents: str = "") -> None:
    """To stderr: that the file is written, or why it is not (JSON has said that)."""
    if failure is None:
        note(f"{place}: written{f' ({contents})' if contents else ''}")
    elif not as_json:
        diagnose(failure.diagnostics, failure.left_out)


def _failure(write: Callable[[], object] | None) -> LgmError | None:
    try:
        if write is not None:
            write()
    except LgmError as error:
        return error
    return None
