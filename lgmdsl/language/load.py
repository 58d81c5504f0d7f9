"""Files and texts to checked models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from lgmdsl.errors import DataError, Diagnostic, ModelError
from lgmdsl.files import DATA, irregular, similar
from lgmdsl.language.builder import Model
from lgmdsl.language.parse.parse import Parsed, parse_all
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import MAX_CHARACTERS
from lgmdsl.language.tree.statements import declared_name

HOLD_DATA = (*DATA, ".tsv")  # endings of files that no model is in
# A model, its text, or the path of its file.
AnyModel: TypeAlias = "Model | str | os.PathLike[str]"
_A_MODEL = "the model is the .lgm file, and comes before the data"


def loads(text: str, name: str = "<text>") -> Model:
    """The checked model of a text; `name` is what messages call it.

    Raises ModelError with every error of the text, 20 at most.
    """
    from lgmdsl.language.check.check import check

    parsed = parse_all(text, name)
    if parsed.diagnostics:
        semantic = _semantic_errors(parsed)
        # Of a name that is unknown nobody can say how its arguments are named.
        unknown = {d.span.start for d in semantic if d.code == "E103"}
        syntactic = [
            d for d in parsed.diagnostics if not (d.code == "E102" and _callee(d) in unknown)
        ]
        raise ModelError(sorted([*syntactic, *semantic], key=lambda d: d.span.start))
    return Model.from_tree(parsed.tree, check(parsed.tree, parsed.source))


def as_model(model: object, caller: str) -> Model:
    """A model as it is, of its text, or of the path of its file.

    Raises what `loads` and `load` do, and TypeError for anything else; `caller` wants the model.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, str) and ("\n" in model.strip() or model.split()[:1] == ["lgm"]):
        return loads(model)
    if isinstance(model, str | os.PathLike):
        return load(model)
    wanted = "a Model (lgm.load or lgm.loads), the text of one, or the path of its file"
    raise TypeError(
        f"{caller} takes {wanted}, not {type(model).__name__}: {caller}(model, ...), the model "
        "comes first"
    )


def load(path: str | os.PathLike[str]) -> Model:
    """The checked model of a file.

    Raises DataError (E306) for a file that cannot be read, and ModelError as `loads` does.
    """
    text = read_text(path)
    if Path(path).suffix.lower() in HOLD_DATA and not text.lstrip("\ufeff \t\r\n").startswith(
        "lgm"
    ):
        raise _refused(Path(path), "it holds data, by its name", _A_MODEL)
    return loads(text, str(os.fspath(path)))


def read_text(path: str | os.PathLike[str]) -> str:
    """A model file's text. Raises DataError (E306) with the reason where there is none."""
    place = Path(path)
    try:
        irregularity = irregular(place)
        if irregularity == "a folder":
            raise _refused(place, "it is a folder", "name the .lgm file in it")
        if irregularity:
            raise _refused(
                place, f"it is {irregularity}", "`-` in place of a file's name reads stdin"
            )
        size = place.stat().st_size
        if size > 4 * MAX_CHARACTERS:
            help = "data do not belong in the model file: they bind by name when it is fitted"
            raise _refused(place, f"it has {size:,} bytes, too many for a model", help)
        with place.open("rb") as file:
            content = file.read(4 * MAX_CHARACTERS + 1)
    except FileNotFoundError as error:
        if "~" in place.name:
            help = "a model is a file of statements, not a formula: `lgm help formula`"
            raise _refused(place, "it is no file", help) from error
        raise _refused(place, "there is no such file", similar(place, (".lgm",))) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(place, reason[:1].lower() + reason[1:]) from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if content[:2] in (b"PK", b"\x89H", b"\x93N"):
            help = f"this looks like a data file; {_A_MODEL}"
        else:
            help = "save it as UTF-8"
        line = content.count(b"\n", 0, error.start) + 1
        raise _refused(place, f"byte {error.start} (line {line}) is not UTF-8", help) from error


def _refused(path: Path, reason: str, help: str = "") -> DataError:
    return DataError.of("E306", f"cannot read `{path}`: {reason}", help=help)


def _semantic_errors(parsed: Parsed) -> tuple[Diagnostic, ...]:
    """The semantic errors of the statements that could be read and that depend on no lost one."""
    from lgmdsl.language.check.check import check

    lost = set(parsed.lost)
    readable: list[ast.AnyStatement] = []
    for statement in parsed.tree.statements:
        if lost & set(_names(statement)):
            name = declared_name(statement)
            lost |= {name.id} if name else set()
        else:
            readable.append(statement)
    try:
        check(replace(parsed.tree, statements=tuple(readable)), parsed.source)
    except ModelError as error:
        # Errors of the whole model (no latent, improper) may be due to the lost statements.
        reported = {d.span.start for d in parsed.diagnostics}
        local = [d for d in error.diagnostics if d.code[:2] in ("E1", "E2") and d.code != "E109"]
        return tuple(d for d in local if d.span.known and d.span.start not in reported)
    return ()


def _callee(diagnostic: Diagnostic) -> int:
    """Offset of the name whose brackets hold the span of an error."""
    text = diagnostic.span.source.text[: diagnostic.span.start].rstrip()
    name = text.removesuffix("(").rstrip()
    while name and (name[-1].isalnum() or name[-1] == "_"):
        name = name[:-1]
    return len(name)


def _names(node: object) -> Iterator[str]:
    """All names in a part of the tree, types among them."""
    for part in ast.parts(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Type):
            yield part.name
